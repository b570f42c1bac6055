"""Hyperparameters to start from and the grid worth trying, with where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from fedskew.advisor.price import base_name
from fedskew.profiles.errors import FedskewError, choices

LOCAL: Mapping[str, float] = MappingProxyType({"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5})
"""NIID-Bench's local SGD: momentum reset each round; lr 0.1 on its sparse text set (rcv1)."""
LR_GRID = (0.003, 0.01, 0.03, 0.1)


class Hyperparameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``start``: one value each. ``grid``: values worth trying. ``origin``: where they are from."""

    start: dict[str, float]
    grid: dict[str, tuple[float, ...]]
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What one algorithm adds to, or changes in, the local defaults."""

    start: Mapping[str, float] = field(default_factory=dict)
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    origin: str = "nothing of its own"


_ADAPTIVE_GRID = {"server_lr": (0.01, 0.03, 0.1, 0.3), "tau": (0.001, 0.01)}
_REDDI = "Reddi et al. 2021: b1 0.9, b2 0.99, tau 1e-3; the server rate is the one to tune"
SETTINGS: Mapping[str, Settings] = MappingProxyType(
    {
        "fedavg": Settings(),
        "fedprox": Settings(
            {"mu": 0.01},
            {"mu": (0.001, 0.01, 0.1, 1.0)},
            "NIID-Bench tried these four mu; best were 0.01 (#C=2, noise, quantity) and 0.001 (label Dirichlet)",
        ),
        "scaffold": Settings(
            origin="Karimireddy et al. 2020, option II; controls start at zero and are divided by all parties",
        ),
        "fednova": Settings(origin="Wang et al. 2020; steps counted with momentum; nothing to tune"),
        "fedavgm": Settings(
            {"server_lr": 1.0, "server_momentum": 0.9, "lr": 0.003},
            {"lr": (0.001, 0.003, 0.01), "server_momentum": (0.7, 0.9, 0.97)},
            "Federated Learning Baselines: the long-run step is 10 times a client's, hence the smaller client rate",
        ),
        "fedadam": Settings({"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 0.001}, _ADAPTIVE_GRID, _REDDI),
        "fedyogi": Settings({"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 0.001}, _ADAPTIVE_GRID, _REDDI),
        "fedadagrad": Settings({"server_lr": 0.1, "tau": 0.001}, _ADAPTIVE_GRID, _REDDI),
        "feddyn": Settings({"alpha": 0.01}, {"alpha": (0.001, 0.01, 0.1)}, "Acar et al. 2021"),
        "moon": Settings(
            {"mu": 1.0, "temperature": 0.5},
            {"mu": (0.1, 1.0, 5.0, 10.0)},
            "Li, He, Song 2021: best mu 5 (CIFAR-10), 1 (CIFAR-100, Tiny-ImageNet); not the 0.001 of NIID-Bench's code",
        ),
        "fedbn": Settings(origin="Li et al. 2021; each party keeps its BatchNorm layers; nothing to tune"),
    }
)


def hyperparameters(algorithm: str, *, local_epochs: int = 10, batch_size: int = 64) -> Hyperparameters:
    """Where to start and what to try for an algorithm; ``NAME+wsm`` has those of NAME.

    Raises
    ------
    FedskewError
        There is no such algorithm.

    Examples
    --------
    >>> found = hyperparameters("fedprox")
    >>> found.start["mu"], found.grid["mu"]
    (0.01, (0.001, 0.01, 0.1, 1.0))
    """
    name = base_name(algorithm)
    if name not in SETTINGS:
        raise FedskewError(f"there is no algorithm called {algorithm!r}: {choices(name, SETTINGS)}")
    own = SETTINGS[name]
    start = {**LOCAL, "local_epochs": local_epochs, "batch_size": batch_size, **own.start}
    return Hyperparameters(
        start=start,
        grid={"lr": LR_GRID, **own.grid},
        origin=f"local training: NIID-Bench's settings (rcv1: lr 0.1); {name}: {own.origin}",
    )


def tuning_runs(algorithm: str) -> int:
    """Full training runs that its own hyperparameters cost, the shared learning rate left out.

    Examples
    --------
    >>> tuning_runs("fedprox"), tuning_runs("fedavg")
    (4, 1)
    """
    runs = 1
    for name, values in SETTINGS[base_name(algorithm)].grid.items():
        runs *= 1 if name == "lr" else len(values)
    return runs

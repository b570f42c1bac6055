"""Hyperparameters to start from and the grid worth trying, with where they come from."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from fedskew.advisor.price import base_name
from fedskew.engine.algorithms import Algorithm, find_algorithm

LOCAL: Mapping[str, float] = MappingProxyType({"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5})
"""NIID-Bench's local SGD: momentum reset each round; lr 0.1 on its sparse text set (rcv1)."""
LR_GRID = (0.003, 0.01, 0.03, 0.1)


class Hyperparameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``start``: one value each. ``grid``: values worth trying. ``origin``: where they are from."""

    start: dict[str, float]
    grid: dict[str, tuple[float, ...]]
    origin: str


_REDDI = "Reddi et al. 2021: b1 0.9, b2 0.99, tau 1e-3; the server rate is the one to tune"
ORIGINS: Mapping[str, str] = MappingProxyType(
    {
        "fedprox": "NIID-Bench tried these four mu; best 0.01 (#C=2, noise, quantity) and 0.001 (label Dirichlet)",
        "scaffold": "Karimireddy et al. 2020, option II; controls start at zero and are divided by all parties",
        "fednova": "Wang et al. 2020; steps counted with momentum; nothing to tune",
        "fedavgm": "Federated Learning Baselines: the long-run step is 10 times a client's, so a smaller client rate",
        "fedadam": _REDDI,
        "fedyogi": _REDDI,
        "fedadagrad": _REDDI,
        "feddyn": "Acar et al. 2021",
        "moon": "Li, He, Song 2021: best mu 5 (CIFAR-10), 1 (CIFAR-100, Tiny-ImageNet), with a projection head",
        "fedbn": "Li et al. 2021; each party keeps its BatchNorm layers; nothing to tune",
    }
)
FIRST_RATE: Mapping[str, float] = MappingProxyType({"fedavgm": 0.003})
"""Local rates to start from where they are not the common one."""


def _own_grid(algorithm: Algorithm) -> dict[str, tuple[float, ...]]:
    """Values of each hyperparameter in the engine's grid of the algorithm, the rate left out."""
    values: dict[str, list[float]] = {}
    for entry in algorithm.grid:
        for name, value in entry.items():
            if name != "lr" and not isinstance(value, str):
                values.setdefault(name, []).append(float(value))
    return {name: tuple(sorted(set(found))) for name, found in values.items()}


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
    value = find_algorithm(name)
    own = {key: float(number) for key, number in value.hyper.items() if not isinstance(number, str)}
    rate = {"lr": FIRST_RATE[name]} if name in FIRST_RATE else {}
    origin = ORIGINS.get(name, "nothing of its own")
    return Hyperparameters(
        start={**LOCAL, "local_epochs": local_epochs, "batch_size": batch_size, **own, **rate},
        grid={"lr": LR_GRID, **_own_grid(value)},
        origin=f"local training: NIID-Bench's settings (rcv1: lr 0.1); {name}: {origin}",
    )


def tuning_runs(algorithm: str) -> int:
    """Full training runs that its own hyperparameters cost, the shared learning rate left out.

    Examples
    --------
    >>> tuning_runs("fedprox"), tuning_runs("fedavg")
    (4, 1)
    """
    runs = 1
    for values in _own_grid(find_algorithm(base_name(algorithm))).values():
        runs *= len(values)
    return runs

"""What the conformance laws run on: six small networks, small parties of unequal size, and one-line runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedskew.engine.algorithms.base import Algorithm, Hyper, Tensor
from fedskew.engine.plans import ModelSpec
from fedskew.engine.settings import Settings
from fedskew.profiles.keyed import generator

if TYPE_CHECKING:
    from torch import nn

    from fedskew.engine.training import Federation, Run

CLASSES = 3
TABLE, IMAGE = (5,), (1, 16, 16)
SIZES = (7, 3, 0, 5)  # a party without rows, one with a short batch only, one whose last batch has a single row
BATCH = 3


def _own(name: str, shape: tuple[int, ...]) -> ModelSpec:
    return ModelSpec(f"fedskew.engine.law_cases:{name}", shape, CLASSES)


def group_norm(shape: tuple[int, ...], outputs: int) -> "nn.Module":
    """A convolution with GroupNorm."""
    from torch import nn

    layers = (nn.Conv2d(shape[0], 4, 5, stride=4), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(36, outputs))


def batch_norm(shape: tuple[int, ...], outputs: int) -> "nn.Module":
    """BatchNorm on the inputs and within: float statistics and integer counters."""
    from torch import nn

    layers = (nn.BatchNorm1d(shape[0]), nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU())
    return nn.Sequential(*layers, nn.Linear(8, outputs))


def frozen(shape: tuple[int, ...], outputs: int) -> "nn.Module":
    """A first layer that may not learn."""
    from torch import nn

    first = nn.Linear(shape[0], 8)
    first.requires_grad_(requires_grad=False)
    return nn.Sequential(first, nn.Tanh(), nn.Linear(8, outputs))


def scalar(shape: tuple[int, ...], outputs: int) -> "nn.Module":
    """A network with a parameter of no dimension, its temperature."""
    import torch
    from torch import nn

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(1.5))
            self.body = nn.Sequential(nn.Linear(shape[0], 6), nn.Tanh(), nn.Linear(6, outputs))

        def forward(self, x: Tensor) -> Tensor:
            return self.scale * self.body(x)

    return Scaled()


NETWORKS: dict[str, ModelSpec] = {
    "mlp": ModelSpec("mlp", TABLE, CLASSES),
    "cnn": ModelSpec("cnn", IMAGE, CLASSES),
    "group_norm": _own("group_norm", IMAGE),
    "batch_norm": _own("batch_norm", TABLE),
    "frozen": _own("frozen", TABLE),
    "scalar": _own("scalar", TABLE),
}


def settings(**changes: float | str) -> Settings:
    """two rounds of one local epoch in float64, momentum 0.9, no weight decay."""
    import msgspec

    base = Settings(rounds=2, local_epochs=1, batch_size=BATCH, lr=0.05, weight_decay=0.0, dtype="float64")
    return msgspec.structs.replace(base, **changes)


def federation(
    shape: tuple[int, ...], sizes: Sequence[int] = SIZES, order: Sequence[int] | None = None, *, even: bool = False
) -> "Federation":
    """Parties with rows of their own mean; each party's rows depend on its name alone.

    ``order`` lists the same parties in another order; with ``even`` every party holds all classes equally.
    """
    import torch

    from fedskew.engine.blocks import Data
    from fedskew.engine.training import Federation

    order = range(len(sizes)) if order is None else order
    rows, labels = [np.empty((0, *shape))], [np.empty(0, np.int64)]
    for party in order:
        rng = generator("law", party)
        rows.append(rng.normal(0.3 * party, 1.0, (sizes[party], *shape)))
        among = CLASSES if even or party else CLASSES - 1  # the first party lacks the last class
        labels.append(np.arange(sizes[party]) % among)
    data = Data(torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.concatenate(labels)))
    counts = np.asarray([np.bincount(y, minlength=CLASSES) for y in labels[1:]], np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    bounds = np.concatenate([[0], np.cumsum([sizes[p] for p in order])])
    return Federation(data, bounds, tuple(f"party {p}" for p in order), shares)


def start(
    algorithm: Algorithm,
    network: str,
    *,
    seeds: Sequence[int] = (0,),
    silos: "Federation | None" = None,
    hyper: Hyper | None = None,
    **changes: float | str,
) -> "Run":
    """A run before its first round."""
    from fedskew.engine.training import begin

    spec = NETWORKS[network]
    silos = federation(spec.shape) if silos is None else silos
    return begin(algorithm, hyper or {}, settings(**changes), seeds, federation=silos, model=spec)


def finish(run: "Run") -> "Run":
    """Run all rounds."""
    for _ in run.rounds():
        pass
    return run


def distance(found: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm of what is expected; infinite where shapes differ or numbers are none."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    away, size = float((found - expected).double().norm()), float(expected.double().norm())
    error = away / size if size else away
    return error if error == error else float("inf")  # noqa: PLR0124  # NaN

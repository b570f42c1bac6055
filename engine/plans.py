"""What is to be trained and what came out: plain values, without torch, that travel between processes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.engine.algorithms.base import Algorithm, Hyper
from fedskew.engine.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which network: ``name`` of one of MODELS or ``module:factory``, ``shape`` of one row, number of ``outputs``.

    A factory of the user's takes (shape, outputs) and returns a ``torch.nn.Module``.
    """

    name: str
    shape: tuple[int, ...]
    outputs: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What to train. ``role``: candidate, centralised (one party holds all rows) or local_only."""

    algorithm: Algorithm
    hyper: Hyper
    settings: Settings
    seeds: tuple[int, ...]
    model: ModelSpec
    role: str = "candidate"

    @property
    def name(self) -> str:
        """What a person calls it: the algorithm's id, or the role of a reference line."""
        return self.algorithm.name if self.role == "candidate" else self.role


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trial found; S seeds, R rounds, n test rows.

    ``score``, ``balanced``, ``loss`` (S, R), NaN after a seed diverged; ``predicted`` (S, n) classes or numbers of the
    last round; ``diverged`` (S,) the round, 0 if none; ``parameters`` trainable numbers; ``seconds`` of work.
    """

    score: NDArray[np.float64]
    balanced: NDArray[np.float64]
    loss: NDArray[np.float64]
    predicted: NDArray[np.float64]
    diverged: NDArray[np.int64]
    parameters: int
    seconds: float


def default_model(shape: tuple[int, ...]) -> str:
    """Name of the model for rows of a shape: the paper's MLP for tables, its CNN for images of 16 pixels or more.

    Smaller images, which the CNN cannot take, get a wider MLP.

    Examples
    --------
    >>> default_model((1, 28, 28)), default_model((1, 8, 8)), default_model((14,))
    ('cnn', 'wide_mlp', 'mlp')
    """
    if len(shape) != 3:
        return "mlp"
    return "cnn" if min(shape[1:]) >= 16 else "wide_mlp"

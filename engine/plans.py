"""What is to be trained and what came out: plain values, without torch, that travel between processes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.engine.algorithms.base import Algorithm, Hyper
from fedskew.engine.fingerprints import own_code, traits
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
    """What to train.

    ``role``: candidate, centralised (one party holds all rows) or local_only. ``data``: which of the prepared tables,
    ``main`` or ``tuning``.
    """

    algorithm: Algorithm
    hyper: Hyper
    settings: Settings
    seeds: tuple[int, ...]
    model: ModelSpec
    role: str = "candidate"
    data: str = "main"

    @property
    def name(self) -> str:
        """What a person calls it: the algorithm's id, or the role of a reference line."""
        return self.algorithm.name if self.role == "candidate" else self.role

    @property
    def key(self) -> str:
        """What sets it apart from every other trial of a run: text, the same in every process."""
        facts = (
            self.data,
            self.name,
            sorted({**self.algorithm.hyper, **self.hyper}.items()),
            sorted(msgspec.to_builtins(self.settings).items()),
            self.seeds,
            (self.model.name, self.model.shape, self.model.outputs),
            traits(self.algorithm),
            *filter(None, [own_code(self.algorithm, self.model.name)]),
        )
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one line of the live table has come; ``score`` is the mean over seeds after ``round`` of ``rounds``."""

    name: str
    round: int
    rounds: int
    score: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take: ``seconds`` of wall time, ``bytes`` of memory over all processes, ``lane_steps`` in all."""

    seconds: float
    bytes: int
    lane_steps: int


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


@dataclass(frozen=True, slots=True)
class Part:
    """Rounds ``first`` to ``last`` (not included) of a trial, as a worker hands them back.

    ``curves`` (3, S, rounds): score, balanced score, loss. ``state`` names the file with the state after them,
    ``sha256`` is its hash (both empty where none was asked for). ``predicted`` (S, n) once the trial is finished,
    else None.
    """

    first: int
    last: int
    curves: NDArray[np.float64]
    state: str
    sha256: str
    predicted: NDArray[np.float64] | None
    diverged: NDArray[np.int64]
    parameters: int
    seconds: float


def joined(parts: Sequence[Part]) -> Outcome:
    """Put the parts of a finished trial together."""
    last = parts[-1]
    if last.predicted is None:
        raise ValueError("the trial is not finished")
    score, balanced, loss = np.concatenate([part.curves for part in parts], axis=2)
    seconds = sum(part.seconds for part in parts)
    return Outcome(score, balanced, loss, last.predicted, last.diverged, last.parameters, seconds)


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

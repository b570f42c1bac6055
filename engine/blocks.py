"""A block: lanes that train in lockstep, and the one optimizer step that every backend takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedskew.engine.algorithms.base import Algorithm, Hyper, Local
from fedskew.engine.schedule import Lane

BLOCK_BYTES = 6_000_000  # measured: a block works best when it fits a core's share of the last cache
MOST_LANES = 64


@dataclass(frozen=True, slots=True)
class Data:
    """What a worker trains on: ``x`` (N, ...) float32 scaled, ``y`` (N,) int64 classes or float targets."""

    x: Tensor
    y: Tensor

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers to be met by squared error."""
        return self.y.dtype.is_floating_point


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Local SGD: learning rate, momentum (reset every round), weight decay, local epochs, batch size."""

    lr: float
    momentum: float
    weight_decay: float
    epochs: int
    batch: int


@dataclass(slots=True)
class Block:
    """Lanes, longest first, and their rows of state; ``weights`` and ``buffers`` change in place.

    ``weights``, ``start`` (L, D); ``buffers`` (L, B) float64; ``own``, ``server`` state by name, each (L, ·);
    ``shift`` (L, K) added to the logits, or None.
    """

    lanes: Sequence[Lane]
    round_: int
    weights: Tensor
    start: Tensor
    buffers: Tensor
    own: Mapping[str, Tensor]
    server: Mapping[str, Tensor]
    shift: Tensor | None
    algorithm: Algorithm
    hyper: Hyper
    optimizer: Optimizer

    def steps(self) -> list[int]:
        """Local steps of every lane, falling."""
        return [lane.steps(self.optimizer.epochs, self.optimizer.batch) for lane in self.lanes]

    def local(self, first: int, last: int) -> Local:
        """What the algorithm sees of lanes first to last."""
        part = slice(first, last)
        return Local(
            weights=self.weights[part],
            start=self.start[part],
            own={name: rows[part] for name, rows in self.own.items()},
            server={name: rows[part] for name, rows in self.server.items()},
            lr=self.optimizer.lr,
        )

    def previous(self, first: int, last: int) -> Tensor:
        """The parties' last models of lanes first to last, for a penalty; w^t for a party never seen."""
        part = slice(first, last)
        return torch.where(self.own["seen"][part] > 0, self.own["previous"][part], self.start[part])


def take_step(local: Local, gradient: Tensor, velocity: Tensor, block: Block) -> None:
    """Move ``local.weights`` by one SGD step with the algorithm's two terms; ``gradient`` is used up.

    Weight decay and ``algorithm.gradient`` join the gradient before momentum, ``algorithm.step`` the weights after it.
    """
    how, algorithm = block.optimizer, block.algorithm
    if how.weight_decay:
        gradient.add_(local.weights, alpha=how.weight_decay)
    if algorithm.gradient is not None:
        gradient.add_(algorithm.gradient(local, block.hyper))
    velocity.mul_(how.momentum).add_(gradient)
    local.weights.add_(velocity, alpha=-how.lr)
    if algorithm.step is not None:
        local.weights.add_(algorithm.step(local, block.hyper))


def output_gradient(outputs: Tensor, target: Tensor, weights: Tensor, shift: Tensor | None) -> Tensor:
    """Gradient of the batch loss by the outputs, feature-major.

    Parameters
    ----------
    outputs : (L, K, B) logits, or (L, 1, B) predictions of a continuous target
    target : (L, B) int64 classes or floats
    weights : (L, B), 1 / batch length, 0 on padding
    shift : (L, K) added to the logits (re-weighted softmax), or None

    Returns
    -------
    (L, K, B): (softmax - onehot) * weight, or 2 (prediction - target) * weight
    """
    with torch.no_grad():
        if target.dtype.is_floating_point:
            return (outputs - target.unsqueeze(1)).mul_(2.0).mul_(weights.unsqueeze(1))
        logits = outputs if shift is None else outputs + shift.unsqueeze(2)
        p = torch.softmax(logits, 1)
        minus = p.new_full((p.shape[0], 1, p.shape[2]), -1.0)
        return p.scatter_add_(1, target.unsqueeze(1), minus).mul_(weights.unsqueeze(1))


def block_size(parameters: int, activations: int, inputs: int, batch: int) -> int:
    """How many lanes a block holds, from the model's size alone (never from a timing), 1 to 64.

    Examples
    --------
    >>> block_size(parameters=4650, activations=58, inputs=123, batch=64)
    45
    """
    per_lane = 4 * (batch * inputs + 3 * parameters + 3 * batch * activations)
    return max(1, min(MOST_LANES, BLOCK_BYTES // per_lane))

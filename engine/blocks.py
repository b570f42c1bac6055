"""A block: lanes that train in lockstep, and the one optimizer step that every backend takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedskew.engine.algorithms.base import Algorithm, Hyper, Local
from fedskew.engine.schedule import Lane
from fedskew.engine.sparse import Sparse
from fedskew.engine.transforms import Transforms

BLOCK_BYTES = {"cpu": 6_000_000, "cuda": 600_000_000}  # cpu: measured, a core's share of the last cache; cuda: a guess
MOST_LANES = {"cpu": 64, "cuda": 1024}
NO_TRANSFORMS = Transforms((), 1)


@dataclass(frozen=True, slots=True)
class Data:
    """What a worker trains on: ``x`` (N, ...) scaled, dense or sparse; ``y`` (N,) int64 classes or float targets."""

    x: Tensor | Sparse
    y: Tensor

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers to be met by squared error."""
        return self.y.dtype.is_floating_point

    def to(self, device: torch.device) -> "Data":
        """The same rows on a device."""
        return Data(self.x.to(device), self.y.to(device))


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
    transforms: Transforms = NO_TRANSFORMS

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


def take_step(local: Local, gradient: Tensor, velocity: Tensor, block: Block, push: Tensor | None) -> None:
    """Move ``local.weights`` by one SGD step with the algorithm's two terms; ``gradient`` is used up.

    Weight decay and ``algorithm.gradient`` join the gradient before momentum, ``algorithm.step`` the weights after it;
    ``push`` is that term where it was computed before (see :func:`steady_push`).
    """
    algorithm = block.algorithm
    if algorithm.gradient is not None:
        gradient.add_(algorithm.gradient(local, block.hyper))
    sgd(local.weights, gradient, velocity, block.optimizer)
    if push is not None:
        local.weights.add_(push)
    elif algorithm.step is not None:
        local.weights.add_(algorithm.step(local, block.hyper))


def steady_push(local: Local, block: Block) -> Tensor | None:
    """The algorithm's term outside momentum where it is the same at every step of the round, (L, D); else None."""
    algorithm = block.algorithm
    if algorithm.step is None or not algorithm.steady:
        return None
    push: Tensor = algorithm.step(local, block.hyper)
    return push


def plain_sgd(weights: Tensor, gradient: Tensor, velocity: Tensor, how: Optimizer) -> None:
    """v <- momentum v + (g + decay w), w <- w - lr v; all (L, D), all but ``gradient`` changed for good."""
    if how.weight_decay:
        gradient.add_(weights, alpha=how.weight_decay)
    if how.momentum:
        gradient = velocity.mul_(how.momentum).add_(gradient)
    weights.add_(gradient, alpha=-how.lr)


def fused_sgd(weights: Tensor, gradient: Tensor, velocity: Tensor, how: Optimizer) -> None:
    """The same in one pass over memory, by a function of torch that has no public name.

    A row is a multiple of 16 numbers long, so that none falls into the function's scalar tail, which rounds otherwise.
    """
    torch._fused_sgd_(
        [weights],
        [gradient],
        [velocity] if how.momentum else [],
        weight_decay=how.weight_decay,
        momentum=how.momentum,
        lr=how.lr,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )


sgd = fused_sgd if hasattr(torch, "_fused_sgd_") else plain_sgd


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


def block_size(parameters: int, activations: int, inputs: int, batch: int, device: str = "cpu") -> int:
    """How many lanes a block holds, from the model's size alone (never from a timing), at least 1.

    Examples
    --------
    >>> block_size(parameters=4650, activations=58, inputs=123, batch=64)
    45
    """
    per_lane = 4 * (batch * inputs + 3 * parameters + 3 * batch * activations)
    return max(1, min(MOST_LANES[device], BLOCK_BYTES[device] // per_lane))

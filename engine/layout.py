"""How the weights of a network lie in one flat row, so that algorithms see vectors and never layers."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedskew.engine.algorithms.base import SharedFn

PAD = 16  # rows are padded to this many numbers, so that a lane's bits do not depend on where in a block it lies


@dataclass(frozen=True, slots=True)
class Layout:
    """Names, shapes and places of a network's trainable parameters and of its buffers.

    Frozen parameters (``requires_grad`` off) are in neither: no algorithm can move them. Buffers (BatchNorm statistics
    and counters) lie in a row of their own, float64, and are averaged by rows; integer ones take the largest value.
    """

    names: tuple[str, ...]
    layers: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    buffer_names: tuple[str, ...]
    buffer_layers: tuple[str, ...]
    buffer_shapes: tuple[tuple[int, ...], ...]
    buffer_types: tuple[torch.dtype, ...]

    @property
    def size(self) -> int:
        """Number of trainable parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def padded(self) -> int:
        """Length of a row of weights: ``size`` rounded up to a multiple of 16; the padding is 0."""
        return -(-self.size // PAD) * PAD

    def views(self, rows: Tensor) -> list[Tensor]:
        """Cut rows (L, padded) into one view (L, *shape) a parameter."""
        return _cut(rows, self.shapes)

    def buffer_views(self, rows: Tensor) -> list[Tensor]:
        """Cut buffer rows (L, B) into one view (L, *shape) a buffer, still float64."""
        return _cut(rows, self.buffer_shapes)

    def integer_buffers(self) -> Tensor:
        """Which numbers of a buffer row are integers, (B,) bool."""
        masks = [
            torch.full((math.prod(shape),), not kind.is_floating_point)
            for shape, kind in zip(self.buffer_shapes, self.buffer_types, strict=True)
        ]
        return torch.cat(masks) if masks else torch.zeros(0, dtype=torch.bool)

    def shared(self, choose: SharedFn | None) -> tuple[Tensor, Tensor] | None:
        """Which numbers of a weight row (padded,) and of a buffer row (B,) are averaged, both bool; None for all."""
        if choose is None:
            return None
        weights = _mask(choose, self.names, self.layers, self.shapes)
        buffers = _mask(choose, self.buffer_names, self.buffer_layers, self.buffer_shapes)
        if bool(weights.all() and buffers.all()):
            return None
        padding = torch.ones(self.padded - self.size, dtype=torch.bool)
        return torch.cat([weights, padding]), buffers


def layout_of(module: nn.Module) -> Layout:
    """Read the layout of a network."""
    kinds = {
        f"{path}.{name}" if path else name: type(part).__name__
        for path, part in module.named_modules()
        for name, _ in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
    }
    parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    buffers = list(module.named_buffers())
    return Layout(
        names=tuple(name for name, _ in parameters),
        layers=tuple(kinds[name] for name, _ in parameters),
        shapes=tuple(tuple(p.shape) for _, p in parameters),
        buffer_names=tuple(name for name, _ in buffers),
        buffer_layers=tuple(kinds[name] for name, _ in buffers),
        buffer_shapes=tuple(tuple(b.shape) for _, b in buffers),
        buffer_types=tuple(b.dtype for _, b in buffers),
    )


def flatten(module: nn.Module, layout: Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Copy a network's weights into a row (padded,) and its buffers into a row (B,) float64."""
    row = torch.zeros(layout.padded, dtype=dtype)
    by_name = dict(module.named_parameters())
    if layout.names:
        row[: layout.size] = torch.cat([by_name[name].detach().reshape(-1).to(dtype) for name in layout.names])
    kept = [buffer.detach().reshape(-1).double() for _, buffer in module.named_buffers()]
    return row, torch.cat(kept) if kept else torch.zeros(0, dtype=torch.float64)


def frozen_of(module: nn.Module, dtype: torch.dtype) -> dict[str, Tensor]:
    """Copies of a network's frozen parameters, by name."""
    return {name: p.detach().to(dtype, copy=True) for name, p in module.named_parameters() if not p.requires_grad}


def _mask(
    choose: SharedFn, names: tuple[str, ...], layers: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]
) -> Tensor:
    masks = [
        torch.full((math.prod(shape),), choose(name, layer))
        for name, layer, shape in zip(names, layers, shapes, strict=True)
    ]
    return torch.cat(masks) if masks else torch.zeros(0, dtype=torch.bool)


def _cut(rows: Tensor, shapes: tuple[tuple[int, ...], ...]) -> list[Tensor]:
    parts, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        parts.append(rows[:, start:stop].view(len(rows), *shape))
        start = stop
    return parts

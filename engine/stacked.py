"""The stacked backend: networks of linear layers, all lanes of a block in one batched product a layer.

Activations are feature-major (L, features, B), so that biases and ReLUs run along the batch. The gradients of linear
layers are written out by hand, into buffers that live as long as the block: half of what a step of a small network
costs is otherwise bookkeeping and fresh memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedskew.engine.algorithms.base import Local
from fedskew.engine.blocks import Block, Data, block_size, output_gradient, steady_push, take_step
from fedskew.engine.layout import Layout
from fedskew.engine.schedule import Lane, chunks
from fedskew.engine.sparse import Sparse

EVAL_ROWS = 256
KNOWN = (nn.Sequential, nn.Flatten, nn.Linear, nn.ReLU)


@dataclass(frozen=True, slots=True)
class Stacked:
    """A network Flatten, Linear, (ReLU, Linear)*; ``relu[i]`` says whether a ReLU follows layer i."""

    layout: Layout
    relu: tuple[bool, ...]
    device: str = "cpu"

    @property
    def lanes(self) -> int:
        """Lanes a block should hold."""
        widths = [shape[0] for shape in self.layout.shapes[1::2]]
        return block_size(self.layout.size, sum(widths), self.layout.shapes[0][1], 64, self.device)

    def train(self, block: Block, data: Data) -> None:
        """Run all local steps of a block, in lockstep; lanes with fewer steps leave early."""
        how, kind, step = block.optimizer, block.weights.dtype, 0
        room = Room.of(self, block, sparse=isinstance(data.x, Sparse))
        part = room
        for chunk in chunks(block.lanes, block.round_, how.epochs, how.batch, kind):
            active = (chunk.lengths > 0).sum(1).tolist()
            for t, rows, weights in zip(range(len(active)), chunk.rows, chunk.weights, strict=True):
                if active[t] != part.lanes:
                    part = room.first(active[t])
                part.load(data, rows[: part.lanes], step)
                part.backward(weights[: part.lanes].to(block.weights.device))
                step += 1

    def forward(self, views: Sequence[Tensor], h: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Outputs (L, K, B) and the last hidden activations (L, H, B) from what layer ``first`` reads, (L, F, B)."""
        hidden = h
        for i in range(first, len(self.relu)):
            hidden = h
            h = torch.baddbmm(views[2 * i + 1].unsqueeze(2), views[2 * i], h)
            if self.relu[i]:
                h = h.relu_()
        return h, hidden

    def outputs(self, weights: Tensor, buffers: Tensor, x: Tensor | Sparse) -> Tensor:  # noqa: ARG002
        """Outputs (S, K, n) of S models on the same rows (n, F), no gradients."""
        views = self.layout.views(weights)
        parts = []
        with torch.no_grad():
            for start in range(0, len(x), EVAL_ROWS):
                h = x[start : start + EVAL_ROWS].flatten(1).to(weights).T
                parts.append(self.forward(views, h.expand(len(weights), *h.shape))[0])
        return torch.cat(parts, 2)


@dataclass(slots=True)
class Room:
    """The first lanes of a block and all that their steps write.

    ``inputs`` (L, B, F), or (L, B, 0) and ``narrow`` where they are sparse: for each lane the columns that its batch
    has, (U,), and their numbers (B, U). ``labels`` (L, B); by layer: ``outputs`` and ``errors`` (L, out, B), ``slopes``
    (L, out, in) and (L, out, 1) in turn; ``gradient``, ``velocity`` (L, D).
    """

    network: Stacked
    block: Block
    inputs: Tensor
    labels: Tensor
    outputs: list[Tensor]
    errors: list[Tensor]
    slopes: list[Tensor]
    gradient: Tensor
    velocity: Tensor
    narrow: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    anchors: tuple[list[Tensor], list[Tensor]] | None = None
    local: Local = field(init=False)
    push: Tensor | None = field(init=False)
    views: list[Tensor] = field(init=False)
    flat: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        """Cut the views that stay the same from step to step."""
        lanes, layout = self.lanes, self.network.layout
        self.local = self.block.local(0, lanes)
        self.push = steady_push(self.local, self.block)
        views = layout.views(self.local.weights)
        self.views = [view if view.ndim == 3 else view.unsqueeze(2) for view in views]
        pad = self.inputs.new_zeros(lanes, layout.padded - layout.size)
        self.flat = [*(slope.flatten(1) for slope in self.slopes), pad]
        if self.block.algorithm.penalty is not None:  # the fixed networks: under w^t and the party's last weights
            before = self.block.previous(0, lanes)
            self.anchors = layout.views(self.block.start[:lanes]), layout.views(before)

    @staticmethod
    def of(network: Stacked, block: Block, *, sparse: bool) -> "Room":
        """Room for all lanes of a block."""
        lanes, width = len(block.lanes), -(-block.optimizer.batch // 16) * 16
        weights, shapes = block.weights, network.layout.shapes
        outs = [shape[0] for shape in shapes[1::2]]
        return Room(
            network,
            block,
            inputs=weights.new_empty(lanes, width, 0 if sparse else shapes[0][1]),
            labels=torch.empty(0),
            outputs=[weights.new_empty(lanes, out, width) for out in outs],
            errors=[weights.new_empty(lanes, out, width) for out in outs[:-1]],
            slopes=[weights.new_empty(lanes, *(shape if len(shape) == 2 else (*shape, 1))) for shape in shapes],
            gradient=torch.zeros_like(weights),
            velocity=torch.zeros_like(weights),
        )

    def first(self, lanes: int) -> "Room":
        """The same room for the lanes that are left."""
        return Room(
            self.network,
            self.block,
            self.inputs[:lanes],
            self.labels,
            [h[:lanes] for h in self.outputs],
            [h[:lanes] for h in self.errors],
            [g[:lanes] for g in self.slopes],
            self.gradient[:lanes],
            self.velocity[:lanes],
        )

    @property
    def lanes(self) -> int:
        """Lanes that still train."""
        return len(self.inputs)

    def load(self, data: Data, rows: Tensor, step: int) -> None:
        """Fetch the rows (L, B) of one step."""
        lanes, width, inputs = self.inputs.shape
        rows = rows.to(data.y.device)
        flat, out = rows.reshape(-1), self.inputs.view(lanes * width, inputs)
        self.labels = data.y.index_select(0, flat).view(lanes, width)
        if isinstance(data.x, Sparse):
            self.narrow = [data.x.narrow(own) for own in rows]
        elif data.x.dtype == out.dtype:
            torch.index_select(data.x.flatten(1), 0, flat, out=out)
        else:
            out.copy_(data.x.flatten(1).index_select(0, flat))
        if self.block.transforms:
            shape = data.x.shape[1:]
            for lane, batch in zip(self.block.lanes, self.inputs, strict=False):
                self._transform(lane, batch, shape, step)

    def _transform(self, lane: Lane, batch: Tensor, shape: tuple[int, ...], step: int) -> None:
        seen = self.block.transforms.train(batch.view(-1, *shape), lane, self.block.round_, step)
        batch.copy_(seen.flatten(1))

    @torch.no_grad()
    def backward(self, weights: Tensor) -> None:
        """One local step: outputs, gradients, and the optimizer; ``weights`` (L, B) of the rows in the loss."""
        block, relu = self.block, self.network.relu
        for i, out in enumerate(self.outputs):
            if i:
                torch.baddbmm(self.views[2 * i + 1], self.views[2 * i], self.outputs[i - 1], out=out)
            else:
                self._first(self.views, out)
            if relu[i]:
                out.relu_()
        shift = None if block.shift is None else block.shift[: self.lanes]
        error = output_gradient(self.outputs[-1], self.labels, weights, shift)
        for i in range(len(relu) - 1, -1, -1):
            if relu[i]:
                torch.ops.aten.threshold_backward(error, self.outputs[i], 0, grad_input=error)
            torch.sum(error, 2, keepdim=True, out=self.slopes[2 * i + 1])
            if i:
                torch.bmm(error, self.outputs[i - 1].transpose(1, 2), out=self.slopes[2 * i])
                torch.bmm(self.views[2 * i].transpose(1, 2), error, out=self.errors[i - 1])
                error = self.errors[i - 1]
                if i == len(relu) - 1 and self.anchors is not None:
                    error.add_(self._pull(self.anchors, self.outputs[i - 1], weights))
        self._first_slope(error)
        torch.cat(self.flat, 1, out=self.gradient)
        take_step(self.local, self.gradient, self.velocity, block, self.push)

    def _first(self, views: Sequence[Tensor], out: Tensor) -> Tensor:
        """What the first layer answers to the inputs, (L, out, B), before its ReLU."""
        kernel, bias = views[0], views[1].view(len(out), -1, 1)
        if not self.narrow:
            return torch.baddbmm(bias, kernel, self.inputs.transpose(1, 2), out=out)
        for i, (columns, x) in enumerate(self.narrow):
            torch.addmm(bias[i], kernel[i].index_select(1, columns), x.T.to(out.dtype), out=out[i])
        return out

    def _first_slope(self, error: Tensor) -> None:
        """Gradient of the first layer's weights from that of its answers, (L, out, B)."""
        if not self.narrow:
            torch.bmm(error, self.inputs, out=self.slopes[0])
            return
        self.slopes[0].zero_()
        for slope, own, (columns, x) in zip(self.slopes[0], error, self.narrow, strict=True):
            slope.index_copy_(1, columns, own @ x.to(own.dtype))

    def _pull(self, anchors: tuple[list[Tensor], list[Tensor]], hidden: Tensor, weights: Tensor) -> Tensor:
        """Gradient of the penalty by the representation (L, H, B)."""
        assert self.block.algorithm.penalty is not None
        fixed = []
        for views in anchors:
            h = self._first(views, torch.empty_like(self.outputs[0]))
            fixed.append(self.network.forward(views, h.relu_() if self.network.relu[0] else h, first=1)[1])
        with torch.enable_grad():
            z = hidden.detach().requires_grad_()
            extra = self.block.algorithm.penalty(z, fixed[0], fixed[1], self.block.hyper)  # (L, B)
        return torch.autograd.grad(extra, z, weights)[0]


def stack(module: nn.Module, layout: Layout, device: str = "cpu") -> Stacked | None:
    """Recognise a network that the stacked backend can run; None for any other."""
    if not isinstance(module, nn.Sequential) or layout.buffer_names or not all(map(_plain, module.modules())):
        return None
    layers = list(module)
    if layers and isinstance(layers[0], nn.Flatten) and (layers[0].start_dim, layers[0].end_dim) == (1, -1):
        del layers[0]
    relu: list[bool] = []
    for layer in layers:
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            relu.append(False)
        elif isinstance(layer, nn.ReLU) and relu and not relu[-1]:
            relu[-1] = True
        else:
            return None
    whole = 2 * len(relu) == len(layout.shapes) and bool(relu)  # nothing frozen, something to train
    return Stacked(layout, tuple(relu), device) if whole else None


def _plain(part: nn.Module) -> bool:
    """Whether a part does what its type says: no subclass (parametrizations make one), hook or own forward."""
    hooked = any(held for name, held in vars(part).items() if name.startswith(("_forward_", "_backward_")))
    return type(part) in KNOWN and "forward" not in vars(part) and not hooked

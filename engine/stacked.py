"""The stacked backend: networks of linear layers, all lanes of a block in one batched product a layer.

Activations are feature-major (L, features, B), so that biases and ReLUs run along the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedskew.engine.blocks import Block, Data, block_size, output_gradient, take_step
from fedskew.engine.layout import Layout
from fedskew.engine.schedule import chunks

EVAL_ROWS = 256


@dataclass(frozen=True, slots=True)
class Stacked:
    """A network Flatten, Linear, (ReLU, Linear)*; ``relu[i]`` says whether a ReLU follows layer i."""

    layout: Layout
    relu: tuple[bool, ...]

    @property
    def lanes(self) -> int:
        """Lanes a block should hold."""
        widths = [shape[0] for shape in self.layout.shapes[1::2]]
        return block_size(self.layout.size, sum(widths), self.layout.shapes[0][1], 64)

    def forward(self, leaves: Sequence[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (L, K, B) and the last hidden activations (L, H, B) of inputs (L, F, B)."""
        h = hidden = x
        for i, follows in enumerate(self.relu):
            hidden = h
            h = torch.baddbmm(leaves[2 * i + 1].unsqueeze(2), leaves[2 * i], h)
            if follows:
                h = torch.relu(h)
        return h, hidden

    def train(self, block: Block, data: Data) -> None:
        """Run all local steps of a block, in lockstep; lanes with fewer steps leave early."""
        how, steps = block.optimizer, block.steps()
        velocity, gradient = torch.zeros_like(block.weights), torch.zeros_like(block.weights)
        active, t = -1, 0
        for chunk in chunks(block.lanes, block.round_, how.epochs, how.batch, block.weights.dtype):
            for rows, weights in zip(chunk.rows, chunk.weights, strict=True):
                now = sum(s > t for s in steps)
                if now != active:
                    active = now
                    local = block.local(0, active)
                    leaves = [view.detach().requires_grad_() for view in self.layout.views(local.weights)]
                    anchors = self._anchors(block, active)
                    shift = None if block.shift is None else block.shift[:active]
                    pad = gradient.new_zeros(active, self.layout.padded - self.layout.size)
                x, y = self._batch(data, rows[:active])
                outputs, hidden = self.forward(leaves, x)
                p = output_gradient(outputs, y, weights[:active], shift)
                grads = self._gradients(block, leaves, (outputs, p), (hidden, x, weights[:active]), anchors)
                torch.cat([*(g.flatten(1) for g in grads), pad], 1, out=gradient[:active])
                take_step(local, gradient[:active], velocity[:active], block)
                t += 1

    def outputs(self, weights: Tensor, buffers: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        """Outputs (S, K, n) of S models on the same rows (n, F), no gradients."""
        views = self.layout.views(weights)
        parts = []
        with torch.no_grad():
            for start in range(0, len(x), EVAL_ROWS):
                h = x[start : start + EVAL_ROWS].flatten(1).to(weights.dtype).T
                parts.append(self.forward(views, h.expand(len(weights), *h.shape))[0])
        return torch.cat(parts, 2)

    def _batch(self, data: Data, rows: Tensor) -> tuple[Tensor, Tensor]:
        lanes, batch = rows.shape
        flat = rows.reshape(-1)
        x = data.x.index_select(0, flat).view(lanes, batch, -1).transpose(1, 2)
        return x, data.y.index_select(0, flat).view(lanes, batch)

    def _anchors(self, block: Block, active: int) -> tuple[list[Tensor], list[Tensor]] | None:
        """The fixed networks of a penalty: under w^t and under the party's previous weights."""
        if block.algorithm.penalty is None:
            return None
        return self.layout.views(block.start[:active]), self.layout.views(block.previous(0, active))

    def _gradients(
        self,
        block: Block,
        leaves: list[Tensor],
        loss: tuple[Tensor, Tensor],
        batch: tuple[Tensor, Tensor, Tensor],
        anchors: tuple[list[Tensor], list[Tensor]] | None,
    ) -> tuple[Tensor, ...]:
        outputs, p = loss
        if anchors is None or block.algorithm.penalty is None:
            return torch.autograd.grad(outputs, leaves, p)
        hidden, x, weights = batch
        with torch.no_grad():
            fixed = [self.forward(views, x)[1] for views in anchors]
        extra = block.algorithm.penalty(hidden, fixed[0], fixed[1], block.hyper)  # (L, B)
        if not extra.requires_grad:  # one layer: the inputs are the representation, whatever the weights
            return torch.autograd.grad(outputs, leaves, p)
        return torch.autograd.grad([outputs, extra], leaves, [p, weights], materialize_grads=True)


def stack(module: nn.Module, layout: Layout) -> Stacked | None:
    """Recognise a network that the stacked backend can run; None for any other."""
    if not isinstance(module, nn.Sequential) or layout.buffer_names:
        return None
    layers = [layer for layer in module if not isinstance(layer, nn.Flatten)]
    relu: list[bool] = []
    for layer in layers:
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            relu.append(False)
        elif isinstance(layer, nn.ReLU) and relu and not relu[-1]:
            relu[-1] = True
        else:
            return None
    whole = 2 * len(relu) == len(layout.shapes) and bool(relu)  # nothing frozen, something to train
    return Stacked(layout, tuple(relu)) if whole else None

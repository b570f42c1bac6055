"""The loop backend: any torch module, one lane after the other."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedskew.engine.blocks import Block, Data, output_gradient, take_step
from fedskew.engine.layout import Layout
from fedskew.engine.schedule import chunks

EVAL_ROWS = 256


@dataclass(slots=True)
class Looped:
    """A network run lane by lane; ``hidden`` receives the input of its last linear layer."""

    layout: Layout
    module: nn.Module
    hidden: list[Tensor] = field(default_factory=list)
    lanes: int = 1

    def __post_init__(self) -> None:
        """Watch the last linear layer: its input is the representation that MOON compares."""
        last = [part for part in self.module.modules() if isinstance(part, nn.Linear)]
        if last:
            last[-1].register_forward_pre_hook(self._keep)

    def train(self, block: Block, data: Data) -> None:
        """Run all local steps of every lane of a block."""
        self.module.train()
        for i in range(len(block.lanes)):
            self._train_lane(block, i, data)

    def outputs(self, weights: Tensor, buffers: Tensor, x: Tensor) -> Tensor:
        """Outputs (S, K, n) of S models on the same rows, no gradients, in evaluation mode."""
        self.module.eval()
        models = []
        with torch.no_grad():
            for row, kept in zip(weights, buffers, strict=True):
                state = self._state(row.unsqueeze(0), kept.unsqueeze(0))
                parts = [
                    functional_call(self.module, state, (x[start : start + EVAL_ROWS].to(row.dtype),)).T
                    for start in range(0, len(x), EVAL_ROWS)
                ]
                models.append(torch.cat(parts, 1))
        return torch.stack(models)

    def _train_lane(self, block: Block, i: int, data: Data) -> None:
        how = block.optimizer
        local = block.local(i, i + 1)
        velocity, gradient = torch.zeros_like(local.weights), torch.zeros_like(local.weights)
        state = self._state(local.weights, block.buffers[i : i + 1])
        leaves = [state[name] for name in self.layout.names]
        shift = None if block.shift is None else block.shift[i : i + 1]
        for chunk in chunks([block.lanes[i]], block.round_, how.epochs, how.batch, local.weights.dtype):
            for rows, weights in zip(chunk.rows[:, 0], chunk.weights[:, 0], strict=True):
                real = rows[weights > 0]  # true length: BatchNorm must not see padding
                x, y = data.x.index_select(0, real), data.y.index_select(0, real)
                outputs = functional_call(self.module, state, (x.to(local.weights.dtype),))
                share = weights[weights > 0].unsqueeze(0)
                p = output_gradient(outputs.detach().T.unsqueeze(0), y.unsqueeze(0), share, shift)
                grads = self._gradients(block, i, leaves, (outputs, p[0].T), (x, share))
                flat = torch.cat([g.reshape(-1) for g in grads])
                gradient[0, : self.layout.size] = flat
                take_step(local, gradient, velocity, block)
        self._store_buffers(state, block.buffers[i])

    def _gradients(
        self, block: Block, i: int, leaves: list[Tensor], loss: tuple[Tensor, Tensor], batch: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, ...]:
        outputs, p = loss
        if block.algorithm.penalty is None:
            return torch.autograd.grad(outputs, leaves, p, allow_unused=True, materialize_grads=True)
        hidden, (x, weights) = self.hidden[-1], batch
        fixed = []
        with torch.no_grad():
            for rows in (block.start[i : i + 1], block.own["previous"][i : i + 1]):
                functional_call(self.module, self._state(rows, block.buffers[i : i + 1].clone()), (x.to(rows.dtype),))
                fixed.append(self.hidden[-1].T.unsqueeze(0))
        extra = block.algorithm.penalty(hidden.T.unsqueeze(0), fixed[0], fixed[1], block.hyper)
        return torch.autograd.grad([outputs, extra], leaves, [p, weights], allow_unused=True, materialize_grads=True)

    def _state(self, weights: Tensor, buffers: Tensor) -> dict[str, Tensor]:
        """Name every parameter (views of the row, with gradients) and every buffer (copies in their own types)."""
        views = [view[0].detach().requires_grad_() for view in self.layout.views(weights)]
        state = dict(zip(self.layout.names, views, strict=True))
        kept = zip(self.layout.buffer_names, self.layout.buffer_views(buffers), self.layout.buffer_types, strict=True)
        for name, view, kind in kept:
            state[name] = view[0].to(kind if not kind.is_floating_point else weights.dtype, copy=True)
        return state

    def _store_buffers(self, state: dict[str, Tensor], row: Tensor) -> None:
        for name, view in zip(self.layout.buffer_names, self.layout.buffer_views(row.unsqueeze(0)), strict=True):
            view[0].copy_(state[name])

    def _keep(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:  # noqa: ARG002
        self.hidden[:] = [inputs[0]]

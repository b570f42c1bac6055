"""The loop backend: any torch module, one lane after the other."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedskew.engine.blocks import Block, Data, output_gradient, steady_push, take_step
from fedskew.engine.layout import Layout
from fedskew.engine.schedule import chunks
from fedskew.engine.sparse import Sparse
from fedskew.profiles.keyed import seed_of

EVAL_ROWS = 256
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(slots=True)
class Looped:
    """A network run lane by lane.

    ``frozen``: frozen parameters by name, for each seed that runs. ``hidden`` holds what the last of the ``linear``
    layers to be called has read, the representation that MOON compares. ``plain``: parts without statistics. A batch of
    a single row has no variance, so BatchNorm layers take their running statistics for it and leave them as they are:
    the step still counts. A network whose kernels came ``channels_last`` gets its images that way too, which oneDNN
    prefers.
    """

    layout: Layout
    module: nn.Module
    frozen: tuple[dict[str, Tensor], ...]
    hidden: list[Tensor] = field(default_factory=list)
    linear: list[nn.Module] = field(default_factory=list)
    norms: list[nn.Module] = field(default_factory=list)
    plain: list[nn.Module] = field(default_factory=list)
    channels_last: bool = False
    lanes: int = 1

    def __post_init__(self) -> None:
        """Find the BatchNorm layers, the parts without statistics, the linear layers, and how images should lie."""
        for part in self.module.modules():
            if isinstance(part, nn.Linear):
                self.linear.append(part)
                part.register_forward_pre_hook(self._keep)
            elif isinstance(part, BATCH_NORMS):
                self.norms.append(part)
            if not list(part.buffers(recurse=False)):
                self.plain.append(part)
        kernels = [p for p in self.module.parameters() if p.ndim == 4 and not p.is_contiguous()]
        self.channels_last = any(p.is_contiguous(memory_format=torch.channels_last) for p in kernels)

    def train(self, block: Block, data: Data) -> None:
        """Run all local steps of every lane of a block; dropout is keyed by (seed, round, party)."""
        self.module.train()
        device = block.weights.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            for i, lane in enumerate(block.lanes):
                key = seed_of("dropout", lane.seed, block.round_, lane.name) >> 1
                torch.default_generator.manual_seed(key)
                if device.type == "cuda":
                    torch.cuda.manual_seed(key)
                self._train_lane(block, i, data)

    def outputs(self, weights: Tensor, buffers: Tensor, x: Tensor | Sparse) -> Tensor:
        """Outputs (S, K, n) of the models of all S seeds on the same rows, no gradients, in evaluation mode."""
        self.module.eval()
        models, starts = [], range(0, len(x), EVAL_ROWS)
        with torch.no_grad():
            for place in range(len(weights)):
                self._load(weights[place : place + 1], buffers[place : place + 1], place)
                parts = [self.module(self._laid(x[start : start + EVAL_ROWS].to(weights))).T for start in starts]
                models.append(torch.cat(parts, 1))
        return torch.stack(models)

    def _train_lane(self, block: Block, i: int, data: Data) -> None:
        how, lane = block.optimizer, block.lanes[i]
        local = block.local(i, i + 1)
        velocity, gradient = torch.zeros_like(local.weights), torch.zeros_like(local.weights)
        flat, push, step = gradient[0, : self.layout.size], steady_push(local, block), 0
        leaves = self._load(local.weights, block.buffers[i : i + 1], lane.place)
        anchors = self._anchors(block, i)
        shift = None if block.shift is None else block.shift[i : i + 1]
        for chunk in chunks([lane], block.round_, how.epochs, how.batch, local.weights.dtype):
            for t, length in enumerate(chunk.lengths[:, 0].tolist()):  # BatchNorm must not see padding
                x, y = self._batch(block, i, data, chunk.rows[t, 0], length, step)
                share = chunk.weights[t, 0, :length].unsqueeze(0).to(x.device)
                for part in self.norms:
                    part.train(length > 1)
                outputs = self.module(x)
                p = output_gradient(outputs.detach().T.unsqueeze(0), y, share, shift)
                grads = self._gradients(block, leaves, (outputs, p[0].T), (x, share), anchors)
                torch.cat([g.reshape(-1) for g in grads], out=flat)
                take_step(local, gradient, velocity, block, push)
                step += 1
        self._store_buffers(block.buffers[i])

    def _batch(self, block: Block, i: int, data: Data, rows: Tensor, length: int, step: int) -> tuple[Tensor, Tensor]:
        """The first ``length`` of the rows (B,) and their labels (1, length); transforms see the padding too."""
        rows = rows.to(data.y.device)
        y = data.y.index_select(0, rows[:length]).unsqueeze(0)
        if not block.transforms:
            return self._laid(data.x.index_select(0, rows[:length]).to(block.weights)), y
        x = data.x.index_select(0, rows).to(block.weights)
        return self._laid(block.transforms.train(x, block.lanes[i], block.round_, step)[:length]), y

    def _laid(self, x: Tensor) -> Tensor:
        """Lay images out in memory as the network's own weights are."""
        if x.ndim != 4:
            return x
        if not self.channels_last:
            return x.contiguous()
        channels, height, width = x.shape[1:]
        if channels > 1:
            return x.contiguous(memory_format=torch.channels_last)
        strides = (height * width, 1, width, 1)  # one channel looks the same either way; the strides say which is meant
        return x.contiguous().as_strided(x.shape, strides)

    def _anchors(self, block: Block, i: int) -> list[dict[str, Tensor]]:
        """The fixed networks of a penalty, w^t and the party's last model, with buffers of their own."""
        if block.algorithm.penalty is None:
            return []
        rows = (block.start[i : i + 1], block.previous(i, i + 1))
        return [self._state(row, block.buffers[i : i + 1], block.lanes[i].place) for row in rows]

    def _gradients(
        self,
        block: Block,
        leaves: list[Tensor],
        loss: tuple[Tensor, Tensor],
        batch: tuple[Tensor, Tensor],
        anchors: list[dict[str, Tensor]],
    ) -> tuple[Tensor, ...]:
        (outputs, p), (x, weights) = loss, batch
        if block.algorithm.penalty is not None:
            z, fixed = self._representation(), []
            for part in self.plain:  # the fixed networks drop nothing out, and draw no random number
                part.training = False
            for state in anchors:
                with torch.no_grad():
                    functional_call(self.module, state, (x,))
                fixed.append(self._representation())
            for part in self.plain:
                part.training = True
            extra = block.algorithm.penalty(z, fixed[0], fixed[1], block.hyper)
            if extra.requires_grad:
                both, by = [outputs, extra], [p, weights]
                return torch.autograd.grad(both, leaves, by, allow_unused=True, materialize_grads=True)
        return torch.autograd.grad(outputs, leaves, p, allow_unused=True, materialize_grads=True)

    def _representation(self) -> Tensor:
        """What the last linear layer has read, (1, H, B)."""
        return self.hidden[0].flatten(1).T.unsqueeze(0)

    def _load(self, weights: Tensor, buffers: Tensor, place: int) -> list[Tensor]:
        """Let the trainable parameters, which are returned, be views of a row (1, D), and the buffers copies."""
        parameters = dict(self.module.named_parameters())
        trainable = dict(zip(self.layout.names, (view[0] for view in self.layout.views(weights)), strict=True))
        for name, values in {**trainable, **self.frozen[place]}.items():
            parameters[name].data = values
        for buffer, view in zip(self.module.buffers(), self.layout.buffer_views(buffers), strict=True):
            buffer.data = view[0].to(buffer.dtype, copy=True)
        return [parameters[name] for name in self.layout.names]

    def _store_buffers(self, row: Tensor) -> None:
        views = self.layout.buffer_views(row.unsqueeze(0))
        for buffer, view in zip(self.module.buffers(), views, strict=True):
            view[0].copy_(buffer)

    def _state(self, weights: Tensor, buffers: Tensor, place: int) -> dict[str, Tensor]:
        """A fixed network as a dictionary, for calls that leave the network's own parameters alone."""
        views = [view[0] for view in self.layout.views(weights)]
        state = {**dict(zip(self.layout.names, views, strict=True)), **self.frozen[place]}
        own = zip(self.module.named_buffers(), self.layout.buffer_views(buffers), strict=True)
        return state | {name: view[0].to(buffer.dtype, copy=True) for (name, buffer), view in own}

    def _keep(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:  # noqa: ARG002
        self.hidden[:] = [inputs[0]]

"""A party's local training: SGD with momentum and what the algorithm adds to it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from fedskew.advisor.flower.choice import ALGORITHM, CLASSES, NETWORK
from fedskew.advisor.flower.settings import Settings
from fedskew.engine.algorithms.base import Local, State
from fedskew.engine.layout import Layout, flatten, layout_of
from fedskew.profiles.keyed import generator, seed_of

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True, slots=True)
class Network:
    """The network, its initial weights as one row (D,), its buffers as a row (B,) float64."""

    module: nn.Module
    layout: Layout
    weights: Tensor
    buffers: Tensor


def build(shape: tuple[int, ...], settings: Settings) -> Network:
    """Build the network for rows of a shape; its initial weights depend on the seed alone."""
    dtype = getattr(torch, settings.dtype)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("weights", settings.seed) >> 1)
        module = NETWORK(shape, len(CLASSES) or 1)
    layout = layout_of(module)
    weights, buffers = flatten(module, layout, dtype)
    return Network(module.to(dtype), layout, weights, buffers)


@dataclass(frozen=True, slots=True)
class Rows:
    """Scaled rows ``x`` (n, ...) and their labels ``y`` (n,), and whose they are."""

    party: str
    x: Tensor
    y: Tensor


def batches(rows: Rows, settings: Settings, round_: int) -> Iterator[Tensor]:
    """Row numbers of every local step: each epoch a shuffle of its own, the last short batch kept."""
    for epoch in range(settings.local_epochs):
        order = generator("batches", settings.seed, round_, rows.party, epoch).permutation(len(rows.y))
        yield from torch.split(torch.from_numpy(order), settings.batch_size)


def train(
    network: Network,
    start: tuple[Tensor, Tensor],
    states: tuple[State, State],
    rows: Rows,
    settings: Settings,
    round_: int,
) -> tuple[Tensor, Tensor]:
    """Run all local steps of a round.

    Parameters
    ----------
    start : weights (1, D) and buffers (1, B) at the start of the round
    states : the party's own state and the server's, each by name (1, ...)

    Returns
    -------
    Weights (1, D) and buffers (1, B) after the last step
    """
    own, server = states
    local = Local(weights=start[0].clone(), start=start[0], own=own, server=server, lr=settings.lr)
    module, velocity = network.module, torch.zeros_like(local.weights)
    leaves = load(network, local.weights, start[1])
    shift = class_shift(rows, settings)
    contrast = Contrast(network, local, start[1])
    module.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("dropout", settings.seed, round_, rows.party) >> 1)
        for batch in batches(rows, settings, round_):
            for part in module.modules():  # a single row has no variance
                if isinstance(part, BATCH_NORMS):
                    part.train(len(batch) > 1)
            x, y = rows.x[batch], rows.y[batch]
            loss = row_losses(module(x), y, shift).mean() + contrast(x, settings)
            grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
            gradient = torch.zeros_like(local.weights)
            gradient[0, : network.layout.size] = torch.cat([g.reshape(-1) for g in grads])
            take_step(local, gradient, velocity, settings)
    return local.weights, stored_buffers(network)


def take_step(local: Local, gradient: Tensor, velocity: Tensor, settings: Settings) -> None:
    """One SGD step in place: the algorithm's ``gradient`` term passes through momentum, its ``step`` term does not."""
    if ALGORITHM.gradient is not None:
        gradient += ALGORITHM.gradient(local, settings.hyper)
    gradient += local.weights * settings.weight_decay
    velocity.mul_(settings.momentum).add_(gradient)
    local.weights.sub_(velocity * settings.lr)
    if ALGORITHM.step is not None:
        local.weights.add_(ALGORITHM.step(local, settings.hyper))


def row_losses(outputs: Tensor, y: Tensor, shift: Tensor | None = None) -> Tensor:
    """Cross entropy of every row, of logits shifted by the algorithm; squared error of a continuous target."""
    if not CLASSES:
        return (outputs[:, 0] - y).square()
    return nn.functional.cross_entropy(outputs if shift is None else outputs + shift, y, reduction="none")


def class_shift(rows: Rows, settings: Settings) -> Tensor | None:
    """What the algorithm adds to the logits (K,), from the party's class shares; None for nothing."""
    if ALGORITHM.logits is None or not CLASSES:
        return None
    counts = torch.bincount(rows.y, minlength=len(CLASSES)).double()
    shift: Tensor = ALGORITHM.logits(counts / counts.sum(), settings.hyper)
    return shift.to(rows.x.dtype)


class Contrast:
    """The algorithm's extra loss from representations: now, under w^t, and under the party's own last model."""

    def __init__(self, network: Network, local: Local, buffers: Tensor) -> None:
        self.seen: list[Tensor] = []
        self.anchors: list[dict[str, Tensor]] = []
        self.module = network.module
        if ALGORITHM.penalty is None:
            return
        for part in network.module.modules():
            if isinstance(part, nn.Linear):  # the one that is called last stays
                part.register_forward_pre_hook(lambda _, inputs: self.seen.__setitem__(slice(None), [inputs[0]]))
        previous = torch.where(local.own["seen"] > 0, local.own["previous"], local.start)
        self.anchors = [state_of(network, row, buffers) for row in (local.start, previous)]

    def __call__(self, x: Tensor, settings: Settings) -> Tensor:
        """Mean of the extra loss over the batch that the network has just seen; 0 where there is none."""
        if ALGORITHM.penalty is None:
            return x.new_zeros(())
        now, fixed = self._representation(), []
        plain = [part for part in self.module.modules() if not list(part.buffers(recurse=False))]
        for part in plain:  # the fixed networks drop nothing out, and draw no random number
            part.training = False
        for state in self.anchors:
            with torch.no_grad():
                functional_call(self.module, state, (x,))
            fixed.append(self._representation())
        for part in plain:
            part.training = True
        extra: Tensor = ALGORITHM.penalty(now, fixed[0], fixed[1], settings.hyper).mean()
        return extra

    def _representation(self) -> Tensor:
        """What the last linear layer has just read, (1, H, B)."""
        return self.seen[0].flatten(1).T.unsqueeze(0)


def load(network: Network, weights: Tensor, buffers: Tensor) -> list[Tensor]:
    """Let the network's parameters, which are returned, be views of the row (1, D), and its buffers copies."""
    parameters = dict(network.module.named_parameters())
    for name, view in zip(network.layout.names, network.layout.views(weights), strict=True):
        parameters[name].data = view[0]
    for buffer, view in zip(network.module.buffers(), network.layout.buffer_views(buffers), strict=True):
        buffer.data = view[0].to(buffer.dtype, copy=True)
    return [parameters[name] for name in network.layout.names]


def state_of(network: Network, weights: Tensor, buffers: Tensor) -> dict[str, Tensor]:
    """The network of a row (1, D) as a dictionary, frozen parameters included."""
    frozen = {name: p.detach().clone() for name, p in network.module.named_parameters() if not p.requires_grad}
    views = zip(network.layout.names, network.layout.views(weights), strict=True)
    kept = zip(network.module.named_buffers(), network.layout.buffer_views(buffers), strict=True)
    rest = {name: view[0].to(buffer.dtype, copy=True) for (name, buffer), view in kept}
    return {**{name: view[0] for name, view in views}, **frozen, **rest}


def stored_buffers(network: Network) -> Tensor:
    """The network's buffers as a row (1, B) float64."""
    kept = [buffer.detach().reshape(-1).double() for buffer in network.module.buffers()]
    return (torch.cat(kept) if kept else torch.zeros(0, dtype=torch.float64)).unsqueeze(0)


def test(network: Network, weights: Tensor, buffers: Tensor, rows: Rows) -> Mapping[str, float]:
    """Sums over the test rows: ``loss``, and ``score``, how many are right (of a continuous target: minus the loss)."""
    load(network, weights, buffers)
    network.module.eval()
    with torch.no_grad():
        outputs = torch.cat([network.module(x) for x in torch.split(rows.x, 256)])
        loss = float(row_losses(outputs, rows.y).double().sum())
        right = float((outputs.argmax(1) == rows.y).sum()) if CLASSES else -loss
    return {"loss": loss, "score": right, "rows": float(len(rows.y))}


def rows_of(party: str, x: NDArray[np.float32], y: NDArray[np.int64] | NDArray[np.float32], dtype: str) -> Rows:
    """Scaled rows as tensors."""
    kind = getattr(torch, dtype)
    return Rows(party, torch.from_numpy(x).to(kind), torch.from_numpy(y).to(torch.int64 if CLASSES else kind))

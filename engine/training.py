"""Rounds: local training of a cohort in blocks of lanes, then the server's step; any algorithm, any model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedskew.engine.algorithms.base import Algorithm, Hyper, Update, mean_of
from fedskew.engine.blocks import Block, Data, Optimizer
from fedskew.engine.devices import find_device
from fedskew.engine.layout import Layout, flatten, frozen_of, layout_of
from fedskew.engine.looped import Looped
from fedskew.engine.models import seeded
from fedskew.engine.plans import ModelSpec
from fedskew.engine.schedule import Lane
from fedskew.engine.settings import Settings
from fedskew.engine.sparse import Sparse
from fedskew.engine.stacked import Stacked, stack
from fedskew.engine.states import PartyStore, RunState
from fedskew.engine.transforms import Transforms, read_transforms
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.keyed import generator
from fedskew.profiles.steps import cohort_size

PERSONAL, BUFFERS = "personal weights", "personal buffers"  # names no algorithm uses for its own state


@dataclass(frozen=True, slots=True)
class Federation:
    """Training data by party: rows ``bounds[i]`` to ``bounds[i + 1]`` belong to party i.

    ``shares`` (P, K) float64: each party's class shares, for re-weighted softmax.
    """

    data: Data
    bounds: NDArray[np.int64]
    names: tuple[str, ...]
    shares: NDArray[np.float64]

    @property
    def active(self) -> NDArray[np.int64]:
        """Parties that hold rows; only they train."""
        return np.flatnonzero(np.diff(self.bounds))


@dataclass(slots=True)
class Run:
    """A trial in progress: one algorithm, its hyperparameters, some seeds that run together."""

    algorithm: Algorithm
    hyper: Hyper
    settings: Settings
    seeds: tuple[int, ...]
    federation: Federation
    network: Stacked | Looped
    shared: tuple[Tensor, Tensor] | None
    state: RunState
    transforms: Transforms

    def rounds(self) -> Iterator[RunState]:
        """Run the rounds that are left, yielding the state after each."""
        while self.state.round_ < self.settings.rounds:
            advance(self)
            yield self.state


def begin(
    algorithm: Algorithm,
    hyper: Hyper,
    settings: Settings,
    seeds: Sequence[int],
    *,
    federation: Federation,
    model: ModelSpec,
) -> Run:
    """Set up a run before its first round; the initial weights depend on the seed alone.

    Raises
    ------
    FedskewError
        The algorithm, the transforms or the device do not suit the network, the rows or the machine.
    """
    dtype, device = getattr(torch, settings.dtype), find_device(settings.device)
    transforms = read_transforms(settings.transforms, model.shape, len(federation.names))
    if transforms and isinstance(federation.data.x, Sparse):
        raise FedskewError("transforms need dense rows, and these are sparse; leave the transforms out")
    module = seeded(model, 0).to(device, dtype)  # its weights are replaced before use
    layout = layout_of(module)
    networks = [seeded(model, seed) for seed in seeds]
    flat = [flatten(network, layout, dtype) for network in networks]
    weights, buffers = (torch.stack(rows).to(device) for rows in zip(*flat, strict=True))
    full = {**algorithm.hyper, **hyper}
    first = algorithm.init(weights, full)
    parties = len(federation.names)
    own = {name: PartyStore.empty(rows, parties) for name, rows in first.own.items()}
    shared = layout.shared(algorithm.shared)
    if shared is not None:
        shared = (shared[0].to(device), shared[1].to(device))
        own[PERSONAL] = PartyStore.empty(weights.clone(), parties)
        own[BUFFERS] = PartyStore.empty(buffers.clone(), parties)
    state = RunState(weights, buffers, {name: rows.clone() for name, rows in first.server.items()}, own)
    frozen = tuple({name: p.to(device) for name, p in frozen_of(n, dtype).items()} for n in networks)
    network = stack(module, layout, device.type) or Looped(layout, module, frozen)
    if algorithm.penalty is not None and isinstance(network, Looped) and not network.linear:
        raise FedskewError(
            f"{algorithm.name} compares the inputs of a network's last linear layer, and {model.name} has none; "
            f"leave {algorithm.name} out or take another --model"
        )
    silos = replace(federation, data=federation.data.to(device))
    return Run(algorithm, full, settings, tuple(seeds), silos, network, shared, state, transforms)


def cohort(federation: Federation, settings: Settings, seed: int, round_: int) -> NDArray[np.int64]:
    """Parties that train in a round, ascending: max(1, floor(participation x N)) of those that hold rows."""
    active = federation.active
    size = cohort_size(len(active), settings.participation)
    if size >= len(active):
        return active
    chosen = generator("cohort", seed, round_).choice(len(active), size, replace=False)
    return np.sort(active[chosen])


def advance(run: Run) -> None:
    """Run one round of every seed that has not diverged."""
    state, round_ = run.state, run.state.round_
    places = [i for i in range(len(run.seeds)) if i not in state.diverged]
    # a network that trains lane by lane gains nothing from company, and one seed at a time needs less memory
    together = [places] if run.network.lanes > 1 else [[i] for i in places]
    for group in together:
        _advance_seeds(run, group)
    state.round_ = round_ + 1


def _advance_seeds(run: Run, places: list[int]) -> None:
    state, round_ = run.state, run.state.round_
    cohorts = {i: cohort(run.federation, run.settings, run.seeds[i], round_) for i in places}
    lanes = [_lane(run, i, int(p)) for i in places for p in cohorts[i]]
    trained, kept = _train(run, lanes)
    done = 0
    for i in places:
        part = slice(done, done + len(cohorts[i]))
        done = part.stop
        _aggregate(run, i, cohorts[i], trained[part], kept[part])
        if not bool(torch.isfinite(state.weights[i]).all() and torch.isfinite(trained[part]).all()):
            state.diverged[i] = round_ + 1


def personal(run: Run, party: int) -> tuple[Tensor, Tensor]:
    """A party's own model of every seed, (S, D) and (S, B): shared numbers from the server, the rest its own."""
    rows = [_start(run, i, np.asarray([party])) for i in range(len(run.seeds))]
    return torch.cat([w for w, _ in rows]), torch.cat([b for _, b in rows])


def _lane(run: Run, place: int, party: int) -> Lane:
    bounds = run.federation.bounds
    first, last = int(bounds[party]), int(bounds[party + 1])
    return Lane(place, run.seeds[place], party, run.federation.names[party], first, last)


def _start(run: Run, place: int, parties: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """What parties of one seed start a round from: weights (C, D) and buffers (C, B)."""
    state, count = run.state, len(parties)
    weights = state.weights[place].expand(count, -1)
    buffers = state.buffers[place].expand(count, -1)
    if run.shared is None:
        return weights, buffers
    return (
        torch.where(run.shared[0], weights, state.own[PERSONAL].get(place, parties)),
        torch.where(run.shared[1], buffers, state.own[BUFFERS].get(place, parties)),
    )


def _train(run: Run, lanes: list[Lane]) -> tuple[Tensor, Tensor]:
    """Train all lanes in blocks, longest first; rows come back in the order of ``lanes``."""
    how = Optimizer(
        lr=float(run.hyper.get("lr", run.settings.lr)),
        momentum=float(run.hyper.get("momentum", run.settings.momentum)),
        weight_decay=run.settings.weight_decay,
        epochs=run.settings.local_epochs,
        # A batch wider than any party is the party, and would be padding all the way to its nominal size.
        batch=min(run.settings.batch_size, int(np.diff(run.federation.bounds).max(initial=1))),
    )
    layout: Layout = run.network.layout
    trained = run.state.weights.new_empty(len(lanes), layout.padded)
    kept = run.state.buffers.new_empty(len(lanes), run.state.buffers.shape[1])
    order = sorted(range(len(lanes)), key=lambda i: (-lanes[i].rows, i))
    for first in range(0, len(order), run.network.lanes):
        places = order[first : first + run.network.lanes]
        block = _block(run, [lanes[i] for i in places], how)
        run.network.train(block, run.federation.data)
        trained[places], kept[places] = block.weights, block.buffers
    return trained, kept


def _block(run: Run, lanes: list[Lane], how: Optimizer) -> Block:
    starts = [_start(run, lane.place, np.asarray([lane.party])) for lane in lanes]
    start = torch.cat([w for w, _ in starts])
    seeds = torch.tensor([lane.place for lane in lanes])
    own: dict[str, Tensor] = {}
    server: dict[str, Tensor] = {}
    if any(term is not None for term in (run.algorithm.gradient, run.algorithm.step, run.algorithm.penalty)):
        server = {name: rows[seeds] for name, rows in run.state.server.items()}
        own = {
            name: torch.cat([store.get(lane.place, np.asarray([lane.party])) for lane in lanes])
            for name, store in run.state.own.items()
            if name not in (PERSONAL, BUFFERS)
        }
    return Block(
        lanes=lanes,
        round_=run.state.round_,
        weights=start.clone(),
        start=start,
        buffers=torch.cat([b for _, b in starts]).clone(),
        own=own,
        server=server,
        shift=_shift(run, lanes),
        algorithm=run.algorithm,
        hyper=run.hyper,
        optimizer=how,
        transforms=run.transforms,
    )


def _shift(run: Run, lanes: list[Lane]) -> Tensor | None:
    if run.algorithm.logits is None or run.federation.data.regression:
        return None
    shares = torch.from_numpy(run.federation.shares[[lane.party for lane in lanes]])
    shift: Tensor = run.algorithm.logits(shares, run.hyper)
    return shift.to(run.state.weights)


def _aggregate(run: Run, place: int, parties: NDArray[np.int64], trained: Tensor, kept: Tensor) -> None:
    """The server's step of one seed; what is not shared goes to the parties' stores."""
    state, settings = run.state, run.settings
    rows = torch.from_numpy(np.diff(run.federation.bounds)[parties]).to(trained.device).double().unsqueeze(1)
    batches = torch.ceil(rows / settings.batch_size)
    share = rows / rows.sum()
    update = Update(
        start=state.weights[place].unsqueeze(0),
        trained=trained,
        share=share,
        steps=batches * settings.local_epochs,
        own={n: s.get(place, parties) for n, s in state.own.items() if n not in (PERSONAL, BUFFERS)},
        server={name: values[place] for name, values in state.server.items()},
        parties=len(run.federation.active),
        lr=float(run.hyper.get("lr", settings.lr)),
        momentum=float(run.hyper.get("momentum", settings.momentum)),
    )
    after = run.algorithm.aggregate(update, run.hyper)
    weights, buffers = after.weights, _mean_buffers(run.network.layout, kept, share)
    if run.shared is not None:
        state.own[PERSONAL].put(place, parties, trained)
        state.own[BUFFERS].put(place, parties, kept)
        weights = torch.where(run.shared[0], weights, state.weights[place])
        buffers = torch.where(run.shared[1], buffers, state.buffers[place])
    state.weights[place], state.buffers[place] = weights, buffers
    for name, values in after.server.items():
        state.server[name][place] = values
    for name, values in after.own.items():
        state.own[name].put(place, parties, values)


def _mean_buffers(layout: Layout, kept: Tensor, share: Tensor) -> Tensor:
    """Buffers are averaged by rows; counters take the largest value."""
    if not kept.shape[1]:
        return kept.new_zeros(0)
    return torch.where(layout.integer_buffers().to(kept.device), kept.max(0).values, mean_of(kept, share))

"""Laws of whole runs: an algorithm trains small networks. Each returns an error, 0 where the law holds."""

import copy
from dataclasses import replace

import numpy as np

from fedskew.engine.algorithms.base import Algorithm, Tensor
from fedskew.engine.algorithms.fedavg import FEDAVG
from fedskew.engine.law_cases import NETWORKS, SIZES, distance, federation, finish, start


def _plain(algorithm: Algorithm) -> Algorithm:
    """FedAvg with the same modifier of the logits."""
    return replace(FEDAVG, logits=algorithm.logits)


def _bits(found: Tensor, expected: Tensor) -> float:
    import torch

    return 0.0 if torch.equal(found, expected) else max(distance(found, expected), 1e-300)


def no_strength(algorithm: Algorithm, network: str) -> float:
    """mu = 0 is FedAvg bit for bit."""
    found = finish(start(algorithm, network, hyper={"mu": 0.0})).state.weights
    return _bits(found, finish(start(_plain(algorithm), network)).state.weights)


def first_round(algorithm: Algorithm, network: str) -> float:
    """Before anything is remembered a round is FedAvg's, bit for bit."""
    found = finish(start(algorithm, network, rounds=1)).state.weights
    return _bits(found, finish(start(_plain(algorithm), network, rounds=1)).state.weights)


def mean_of_memories(algorithm: Algorithm, network: str) -> float:
    """After four rounds of half the parties, what the server remembers is the mean of what all parties do."""
    run = finish(start(algorithm, network, rounds=4, participation=0.67))
    parties = run.federation.active
    errors = []
    for name, store in run.state.own.items():
        if name in run.state.server:
            mean = store.get(0, parties).mean(0)
            if not float(mean.norm()):
                return 1.0  # nothing was remembered
            errors.append(distance(run.state.server[name][0], mean))
    return max(errors)


def everything_moves(algorithm: Algorithm, network: str) -> float:
    """A round moves every trainable tensor, finitely; states are as wide as the weights, or flags."""
    import torch

    run = start(algorithm, network, rounds=1)
    before, layout = run.state.weights.clone(), run.network.layout
    after = finish(run).state.weights
    kept = [store.rows for store in run.state.own.values()] if run.shared is None else []
    widths = {rows.shape[-1] for rows in [*run.state.server.values(), *kept]}
    if not widths <= {1, layout.padded} or bool(after[:, layout.size :].any()):
        return 2.0
    shared = run.shared[0] if run.shared else torch.ones(layout.padded, dtype=torch.bool)
    moved = layout.views(torch.where(shared, after - before, 1.0))
    return 0.0 if all(bool(m.any()) and bool(torch.isfinite(m).all()) for m in moved) else 1.0


def resumed(algorithm: Algorithm, network: str) -> float:
    """Two rounds, a pause and a third give the bits of three rounds in a row."""
    whole = finish(start(algorithm, network, rounds=3, participation=0.67))
    first, rest = (start(algorithm, network, rounds=3, participation=0.67) for _ in range(2))
    rounds = first.rounds()
    next(rounds)
    rest.state = copy.deepcopy(next(rounds))
    pairs = [(finish(rest).state.weights, whole.state.weights), (rest.state.buffers, whole.state.buffers)]
    return max(_bits(found, expected) for found, expected in pairs)


def seeds_beside(algorithm: Algorithm, network: str) -> float:
    """A seed's bits do not depend on the seeds that run with it."""
    both, alone = finish(start(algorithm, network, seeds=(4, 1))), finish(start(algorithm, network, seeds=(1,)))
    return _bits(both.state.weights[1], alone.state.weights[0])


def order_of_parties(algorithm: Algorithm, network: str) -> float:
    """Parties in another order, known by their names, give the same model."""
    order = tuple(reversed(range(len(SIZES))))
    silos = federation(NETWORKS[network].shape, order=order)
    here, there = finish(start(algorithm, network)), finish(start(algorithm, network, silos=silos))
    return distance(there.state.weights, here.state.weights)


def lane_by_lane(algorithm: Algorithm, network: str) -> float:
    """The loop over single lanes gives what the stacked block gives."""
    from fedskew.engine.looped import Looped
    from fedskew.engine.models import build

    stacked, looped = start(algorithm, network), start(algorithm, network)
    module = build(NETWORKS[network]).double()
    looped.network = Looped(looped.network.layout, module, ({},))
    return distance(finish(looped).state.weights, finish(stacked).state.weights)


def frozen_stays(algorithm: Algorithm, network: str) -> float:
    """A frozen layer keeps the weights of its seed, in training and in what the model answers."""
    import torch

    from fedskew.engine.models import seeded

    run = finish(start(algorithm, network, seeds=(0, 1)))
    x = federation(NETWORKS[network].shape).data.x
    assert isinstance(x, torch.Tensor)
    found, errors = run.network.outputs(run.state.weights, run.state.buffers, x), []
    for place, seed in enumerate(run.seeds):
        module = seeded(NETWORKS[network], seed).double()
        views = dict(zip(run.network.layout.names, run.network.layout.views(run.state.weights), strict=True))
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if name in views:
                    parameter.copy_(views[name][place])
            errors.append(distance(found[place].T, module(x)))
    return max(errors)


def input_statistics(algorithm: Algorithm, network: str) -> float:
    """BatchNorm of the inputs sees data and no weights, so its statistics are FedAvg's, bit for bit."""
    found = finish(start(algorithm, network, rounds=3)).state.buffers
    expected = finish(start(FEDAVG, network, rounds=3)).state.buffers
    first = NETWORKS[network].shape[0]
    return _bits(found[:, : 2 * first + 1], expected[:, : 2 * first + 1])


def buffers_by_rows(algorithm: Algorithm, network: str) -> float:
    """After a round, statistics are the parties' mean by rows, and counters their largest."""
    silos = federation(NETWORKS[network].shape)
    whole = finish(start(algorithm, network, rounds=1)).state.buffers
    alone, sizes = [], np.diff(silos.bounds)[silos.active]
    for party in silos.active:
        only = tuple(size if p == party else 0 for p, size in enumerate(SIZES))
        run = finish(start(algorithm, network, rounds=1, silos=federation(NETWORKS[network].shape, only)))
        alone.append(run.state.buffers)
    counters = run.network.layout.integer_buffers()
    mean = sum(buffers * float(size) / float(sizes.sum()) for buffers, size in zip(alone, sizes, strict=True))
    largest = max(float(buffers[0, counters].max()) for buffers in alone)
    if float(whole[0, counters].min()) != largest:
        return 1.0
    return distance(whole[:, ~counters], mean[:, ~counters])  # type: ignore[index]  # a tensor: some party trains


def equal_classes(algorithm: Algorithm, network: str) -> float:
    """Where every party holds all classes equally, shifting the logits changes nothing."""
    silos = federation(NETWORKS[network].shape, (6, 3, 0, 9), even=True)
    found = finish(start(algorithm, network, silos=silos)).state.weights
    plain = replace(algorithm, logits=None)
    return distance(found, finish(start(plain, network, silos=silos)).state.weights)


def kept_at_home(algorithm: Algorithm, network: str) -> float:
    """What is not shared never reaches the server, and differs from party to party; without such layers: FedAvg."""
    run = start(algorithm, network)
    weights, buffers = run.state.weights.clone(), run.state.buffers.clone()
    finish(run)
    if run.shared is None:
        return _bits(run.state.weights, finish(start(_plain(algorithm), network)).state.weights)
    private = ~run.shared[0], ~run.shared[1]
    moved = (run.state.weights - weights)[:, private[0]].any() or (run.state.buffers - buffers)[:, private[1]].any()
    return float(bool(moved) or not _personal(run, private))


def _personal(run: object, private: tuple[Tensor, Tensor]) -> bool:
    """Whether any two parties differ in what they keep, and agree in what they share."""
    from fedskew.engine.training import Run, personal

    assert isinstance(run, Run)
    models = [personal(run, int(party)) for party in run.federation.active]
    first = models[0]
    for weights, buffers in models[1:]:
        apart = (weights != first[0])[:, private[0]].any() and (buffers != first[1])[:, private[1]].any()
        if not bool(apart) or bool((weights != first[0])[:, ~private[0]].any()):
            return False
    return True

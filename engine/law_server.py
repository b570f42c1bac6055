"""Laws of an algorithm's functions alone: no network, no training. Each returns an error, 0 where the law holds."""

from collections.abc import Mapping
from dataclasses import replace

from fedskew.engine.algorithms.base import Algorithm, Hyper, Local, Next, State, Tensor, Update
from fedskew.engine.law_cases import distance

SEEDS, PARTIES, WIDTH, LR = 2, 3, 16, 0.05
ROWS, STEPS = (9.0, 4.0, 14.0), (3.0, 1.0, 4.0)

NONE: Hyper = {}  # the algorithm's own hyperparameters


def cold(
    algorithm: Algorithm, *, dtype: str = "float64", steps: tuple[float, ...] = STEPS, hyper: Hyper = NONE
) -> Update:
    """The first round's update, of random changes: two seeds, three parties of five that hold rows."""
    import torch

    rng = torch.Generator().manual_seed(7)
    kind = getattr(torch, dtype)
    weights = torch.randn(SEEDS, WIDTH, generator=rng, dtype=torch.float64).to(kind)
    moved = weights.unsqueeze(1) + 0.1 * torch.randn(SEEDS, PARTIES, WIDTH, generator=rng, dtype=torch.float64).to(kind)
    first = algorithm.init(weights, {**algorithm.hyper, **hyper})
    rows = torch.tensor(ROWS, dtype=torch.float64).reshape(1, -1, 1).expand(SEEDS, -1, -1)
    return Update(
        start=weights.unsqueeze(1),
        trained=moved,
        share=rows / rows.sum(1, keepdim=True),
        steps=torch.tensor(steps, dtype=torch.float64).reshape(1, -1, 1).expand(SEEDS, -1, -1),
        own={name: rows.unsqueeze(1).expand(-1, PARTIES, -1).clone() for name, rows in first.own.items()},
        server={name: rows.clone() for name, rows in first.server.items()},
        parties=5,
        lr=LR,
        momentum=0.9,
    )


def warm(
    algorithm: Algorithm, *, dtype: str = "float64", steps: tuple[float, ...] = STEPS, hyper: Hyper = NONE
) -> Update:
    """The second round's update: states are what the first one left."""
    first = cold(algorithm, dtype=dtype, steps=steps, hyper=hyper)
    after = algorithm.aggregate(first, {**algorithm.hyper, **hyper})
    again = after.weights.unsqueeze(1)
    moved = again + (first.trained - first.start).flip(-1)
    own, server = {**first.own, **after.own}, {**first.server, **after.server}
    return replace(first, start=again, trained=moved, own=own, server=server)


def tensors(value: Update | Next) -> dict[str, Tensor]:
    """Every tensor of an update or of what came of it, by name."""
    found = {"weights": value.weights} if isinstance(value, Next) else {"start": value.start, "trained": value.trained}
    for side in ("own", "server"):
        states: State = getattr(value, side)
        found |= {f"{side} {name}": rows for name, rows in states.items()}
    return found


def pick(update: Update, seed: int | None = None, order: tuple[int, ...] | None = None) -> Update:
    """One seed of an update without its axis, or its parties in another order (a party may come twice)."""

    def cut(rows: Tensor, *, parties: bool) -> Tensor:
        rows = rows if seed is None else rows[seed]
        return rows if order is None or not parties else rows[..., list(order), :]

    return replace(
        update,
        start=cut(update.start, parties=False),
        trained=cut(update.trained, parties=True),
        share=cut(update.share, parties=True),
        steps=cut(update.steps, parties=True),
        own={name: cut(rows, parties=True) for name, rows in update.own.items()},
        server={name: cut(rows, parties=False) for name, rows in update.server.items()},
    )


def kinds_kept(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Weights and states come back in the type and shape in which they went in."""
    for dtype in ("float32", "float64"):
        before = warm(algorithm, dtype=dtype)
        after = algorithm.aggregate(before, algorithm.hyper)
        pairs = [(after.weights, before.start.squeeze(1))]
        pairs += [(rows, before.own[name]) for name, rows in after.own.items()]
        pairs += [(rows, before.server[name]) for name, rows in after.server.items()]
        if any(a.dtype != b.dtype or a.shape != b.shape for a, b in pairs):
            return 1.0
    return 0.0


def inputs_unchanged(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """No function writes into what it is given."""
    update = warm(algorithm)
    before = {name: rows.clone() for name, rows in tensors(update).items()}
    algorithm.aggregate(update, algorithm.hyper)
    local = local_of(update)
    for term in (algorithm.gradient, algorithm.step):
        if term is not None:
            term(local, algorithm.hyper)
    return max(distance(rows, before[name]) for name, rows in tensors(update).items())


def seeds_apart(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Two seeds aggregated together give what each gives alone."""
    update = warm(algorithm)
    whole = tensors(algorithm.aggregate(update, algorithm.hyper))
    alone = [tensors(algorithm.aggregate(pick(update, seed), algorithm.hyper)) for seed in range(SEEDS)]
    return max(distance(rows[seed], alone[seed][name]) for name, rows in whole.items() for seed in range(SEEDS))


def order_of_parties(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Listing the parties in another order changes nothing but the order of their own states."""
    update, order = warm(algorithm), (2, 0, 1)
    there = tensors(algorithm.aggregate(update, algorithm.hyper))
    here = tensors(algorithm.aggregate(pick(update, order=order), algorithm.hyper))
    moved = {name: rows[:, list(order)] if name.startswith("own ") else rows for name, rows in there.items()}
    return max(distance(here[name], rows) for name, rows in moved.items())


def party_twice(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """A party listed twice weighs like one party with twice the rows."""
    update = warm(algorithm)
    twice = pick(update, order=(0, 0, 1, 2))
    doubled = replace(update, share=_weighed(update, (2.0, 1.0, 1.0)))
    listed = replace(twice, share=_weighed(twice, (1.0, 1.0, 1.0, 1.0)))
    expected = algorithm.aggregate(doubled, algorithm.hyper).weights
    return distance(algorithm.aggregate(listed, algorithm.hyper).weights, expected)


def _weighed(update: Update, times: tuple[float, ...]) -> Tensor:
    share = update.share * update.share.new_tensor(times).reshape(1, -1, 1)
    return share / share.sum(1, keepdim=True)


def rest_stays(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Where no party moved and nothing was remembered, the server does not move."""
    update = cold(algorithm)
    still = replace(update, trained=update.start.expand_as(update.trained).clone())
    return distance(algorithm.aggregate(still, algorithm.hyper).weights, update.start.squeeze(1))


def plain_mean(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """With equal steps the server's step is FedAvg's, for FedAvgM at momentum 0 and rate 1."""
    neutral = {name: value for name, value in NEUTRAL.items() if name in algorithm.hyper}
    update = warm(algorithm, steps=(3.0, 3.0, 3.0), hyper=neutral)
    expected = (update.trained * update.share).sum(1)
    return distance(algorithm.aggregate(update, {**algorithm.hyper, **neutral}).weights, expected)


NEUTRAL: Mapping[str, float] = {"server_lr": 1.0, "server_momentum": 0.0}


def rounded_once(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """In float32 the server's step is float64's, rounded at the end and nowhere before."""
    narrow = warm(algorithm, dtype="float32")
    wide = replace(
        narrow,
        start=narrow.start.double(),
        trained=narrow.trained.double(),
        own={name: rows.double() for name, rows in narrow.own.items()},
        server={name: rows.double() for name, rows in narrow.server.items()},
    )
    exact = algorithm.aggregate(wide, algorithm.hyper).weights.float()
    return distance(algorithm.aggregate(narrow, algorithm.hyper).weights, exact)


def zero_at_first(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """What a party never seen remembers is zero, and so is what the server remembers under the same name."""
    update = cold(algorithm)
    rows = [*update.own.values(), *(update.server[name] for name in update.own if name in update.server)]
    return max(float(r.abs().max()) for r in rows)


def constant_gradient(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Where a party's gradient is g at every step (no momentum), its c_i after a round is g."""
    hyper: Hyper = algorithm.hyper
    update = replace(warm(algorithm), momentum=0.0)
    g = update.trained.flip(1)  # any numbers
    ends = []
    for party, steps in enumerate(STEPS):
        local = local_of(update, party)
        for _ in range(int(steps)):
            local = replace(local, weights=_moved(algorithm, local, g[:, party]))
        ends.append(local.weights)
    trained = update.trained.new_empty(update.trained.shape)
    for party, rows in enumerate(ends):
        trained[:, party] = rows
    return distance(algorithm.aggregate(replace(update, trained=trained), hyper).own["c"], g)


def local_of(update: Update, party: int = 0) -> Local:
    """What one party of an update knows at its first step, seeds leading."""
    return Local(
        weights=update.start[:, 0].clone(),
        start=update.start[:, 0],
        own={name: rows[:, party] for name, rows in update.own.items()},
        server=update.server,
        lr=update.lr,
    )


def optimum_stays(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """At the common optimum, where memories are the parties' gradients there and these cancel, no party moves."""
    update = cold(algorithm)
    local = local_of(update)
    g = update.trained[:, 0] - update.start[:, 0]
    local = replace(local, own=dict.fromkeys(local.own, g), server=dict.fromkeys(local.server, g * 0))
    return float((_moved(algorithm, local, g) - local.weights).norm() / (LR * g.norm()))


def _moved(algorithm: Algorithm, local: Local, g: Tensor) -> Tensor:
    """One local step without momentum, from the loss gradient g."""
    total = g if algorithm.gradient is None else g + algorithm.gradient(local, algorithm.hyper)
    moved = local.weights - LR * total
    return moved if algorithm.step is None else moved + algorithm.step(replace(local, weights=moved), algorithm.hyper)


def pull_is_linear(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """What joins the gradient is mu (w - w^t), the derivative of (mu / 2) ||w - w^t||^2 (FedDyn: alpha)."""
    assert algorithm.gradient is not None
    update = cold(algorithm)
    name = "mu" if "mu" in algorithm.hyper else "alpha"
    local = replace(local_of(update), weights=update.trained[:, 0])
    errors = []
    for strength in (0.5, 2.0):
        found = algorithm.gradient(local, {**algorithm.hyper, name: strength})
        errors.append(distance(found, strength * (local.weights - local.start)))
    return max(errors)


def steady_term(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """What is added after the optimizer step is the same wherever the weights have come."""
    assert algorithm.step is not None
    update = warm(algorithm)
    local = local_of(update)
    away = replace(local, weights=update.trained[:, 0])
    return distance(algorithm.step(away, algorithm.hyper), algorithm.step(local, algorithm.hyper))


def outside_momentum(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Without a gradient, K steps move the weights by exactly K lr (c_i - c), whatever the momentum."""
    import torch

    from fedskew.engine.blocks import Block, Optimizer, steady_push, take_step

    update = warm(algorithm)
    seen = local_of(update)
    how = Optimizer(lr=LR, momentum=0.9, weight_decay=0.0, epochs=1, batch=1)
    block = Block(
        lanes=(),
        round_=1,
        weights=seen.start.clone(),
        start=seen.start,
        buffers=seen.start[:, :0],
        own=seen.own,
        server=seen.server,
        shift=None,
        algorithm=algorithm,
        hyper=algorithm.hyper,
        optimizer=how,
    )
    velocity, push = torch.zeros_like(block.weights), steady_push(block.local(0, SEEDS), block)
    for _ in range(3):
        take_step(block.local(0, SEEDS), torch.zeros_like(block.weights), velocity, block, push)
    return distance(block.weights - seen.start, 3 * LR * (seen.own["c"] - seen.server["c"]))

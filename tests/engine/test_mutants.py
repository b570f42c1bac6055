"""Algorithms broken as other code bases broke them: each breaks a law, or a golden value of test_algorithms."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import pytest
import torch
from tests.engine.oracle import quadratic, statistics

from fedskew.engine import law_training, training
from fedskew.engine.algorithms import ALGORITHMS, Algorithm, find_algorithm
from fedskew.engine.algorithms.base import Hyper, Next, mean_of
from fedskew.engine.blocks import Block
from fedskew.engine.conformance import LAWS, _check, check_algorithm
from fedskew.engine.law_cases import start as begin_run
from fedskew.engine.layout import frozen_of
from fedskew.engine.looped import Looped

RIGHT: Any = ALGORITHMS  # a mutant calls optional functions freely
FEDAVG, FEDPROX, SCAFFOLD, FEDNOVA, FEDAVGM, FEDADAM, FEDYOGI, FEDADAGRAD, FEDDYN, MOON, FEDBN = RIGHT
WSM = find_algorithm("fedavg+wsm")
ADAM = {"server_lr": 1.0, "beta1": 0.5, "beta2": 0.75}


@dataclass(frozen=True)
class Golden:
    """Hand-computed weights on the two quadratics, and the settings of that run."""

    expected: tuple[float, ...]
    hyper: Hyper = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def with_controls(change: Callable[[Any, Any], tuple[Any, Any]]) -> Algorithm:
    """SCAFFOLD whose new (c, c_i) are made from (update, its own right ones)."""

    def aggregate(update, hyper):
        after = SCAFFOLD.aggregate(update, hyper)
        c, own = change(update, after)
        return Next(after.weights, own={"c": own}, server={"c": c})

    scaffold: Algorithm = replace(SCAFFOLD, aggregate=aggregate)
    return scaffold


def moved_by(algorithm: Algorithm, change: Callable[[Any, Hyper, Next], Any]) -> Algorithm:
    """The algorithm with other new weights."""

    def aggregate(update, hyper):
        after = algorithm.aggregate(update, hyper)
        return replace(after, weights=change(update, hyper, after))

    return replace(algorithm, aggregate=aggregate)


def with_second(algorithm: Algorithm, second: Callable[[Any, Any, Any], Any], power: float = 1.0) -> Algorithm:
    """An adaptive server with another second moment, from (v, Delta), and its step made of it."""

    def aggregate(update, hyper):
        delta = (update.start.double() - update.trained.double()).mul(update.share).sum(-2)
        m = update.server["m"] * hyper["beta1"] + delta * (1 - hyper["beta1"])
        v = second(update.server["v"], delta, hyper)
        step = m / (v.sqrt() ** power + hyper["tau"]) * hyper["server_lr"]
        kept = {name: rows.to(update.trained.dtype) for name, rows in {"m": m, "v": v}.items()}
        weights = (update.start.squeeze(-2).double() - step).to(update.trained.dtype)
        return Next(weights, server={**update.server, **kept})

    return replace(algorithm, aggregate=aggregate)


def uncorrected(update, hyper):
    """torch's Adam without the correction for the start, though form says torch."""
    return FEDADAM.aggregate(update, {**hyper, "form": "reddi"})


def corrected(update, hyper):
    """Reddi's Adam with a correction that the paper does not have."""
    return FEDADAM.aggregate(update, {**hyper, "form": "torch"})


def unsquared(local, hyper):
    """The derivative of (mu / 2) ||w - w^t||."""
    away = local.weights - local.start
    return hyper["mu"] * away / away.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def uniform(update, hyper):
    return Next(update.trained.mean(-2))


def first_wins(update, hyper):
    return Next(update.trained[..., 0, :])


def half_slope(update, hyper):
    """The variate divided by batches instead of batches times epochs."""
    return SCAFFOLD.aggregate(replace(update, steps=update.steps / 2), hyper)


def cohort_for_all(update, hyper):
    return SCAFFOLD.aggregate(replace(update, parties=update.trained.shape[-2]), hyper)


def feddyn_cohort(update, hyper):
    return FEDDYN.aggregate(replace(update, parties=update.trained.shape[-2]), hyper)


def random_start(weights, hyper):
    return SCAFFOLD.init(weights, {"lineage": "code-2021"})


def inside(local, hyper):
    return local.server["c"] - local.own["c"]


def pulled(local, hyper):
    return SCAFFOLD.step(local, hyper) - 0.1 * (local.weights - local.start)


def turned(local, hyper):
    return SCAFFOLD.step(local, hyper) * -1


def raw_mean(update, hyper):
    """A_i weights that are made to sum to one: FedAvg's server, whatever the steps."""
    return Next(mean_of(update.trained, update.share))


def delta_as_m(update, hyper):
    """Takes Delta itself for the velocity."""
    return FEDAVGM.aggregate(replace(update, server={"v": update.server["v"] * 0}), hyper)


def plus(local, hyper):
    return (local.weights - local.start) * hyper["alpha"] + local.own["g"]


def narrow_sum(update, hyper):
    """Sums in the weights' own type."""
    return Next((update.trained * update.share.to(update.trained.dtype)).sum(-2))


def no_shift_for_absent(shares, hyper):
    return shares.clamp_min(1e-3).log()


def minus_share(shares, hyper):
    return -shares.log().clamp_min(-1e9)


def minus_infinity(shares, hyper):
    return shares.log()


FEDAVG_GOLDEN = Golden((5.25, 6.5625))
SCAFFOLD_GOLDEN = Golden((7.0, 6.25), options={"momentum": 0.5})
REDDI = Golden((0.25, 0.25 + 3.84375 / (sqrt(27.0791015625) + 5.25)), {**ADAM, "tau": 5.25})
YOGI = Golden((2.625 / (sqrt(42.109375) + 7),), {**ADAM, "tau": 7.0}, {"rounds": 1})
NOVA = Golden((6.796875,), options={"rounds": 1, "batch": 1})

(MEMORY, ZERO, CONSTANT, OUTSIDE) = (
    *("the server's memory is the mean of all parties'", "memories start at zero"),
    *("a constant gradient g gives c_i = g", "the correction is K lr (c_i - c)"),
)
(MEAN, PULL, ROUNDED, TWICE) = (
    *("with equal steps the server is FedAvg's", "the pull is mu (w - w^t)", "float32 is float64 rounded at the end"),
    "a party listed twice weighs like twice the rows",
)
(TORCH, OPTIMUM, PENALTY) = (
    *("the server is torch.optim on pseudo-gradients", "the common optimum is at rest"),
    "the penalty grows with mu, towards the previous model",
)
STEADY = "a steady term does not see the weights"
(HOME, ABSENT) = ("what is not shared stays at home; else FedAvg bit for bit", "an absent class gets no gradient")

MUTANTS: dict[str, tuple[Algorithm, str | Golden]] = {
    "scaffold: sign of delta c": (
        with_controls(lambda u, a: (2 * u.server["c"] - a.server["c"], a.own["c"])),
        MEMORY,
    ),
    "scaffold: |S| for N": (replace(SCAFFOLD, aggregate=cohort_for_all), MEMORY),
    "scaffold: random start of c": (replace(SCAFFOLD, init=random_start), ZERO),
    "scaffold: correction inside momentum": (replace(SCAFFOLD, step=None, gradient=inside), SCAFFOLD_GOLDEN),
    "scaffold: correction inside momentum, by law": (replace(SCAFFOLD, step=None, gradient=inside), OUTSIDE),
    "scaffold: a correction that sees the weights": (replace(SCAFFOLD, step=pulled), STEADY),
    "scaffold: correction turned": (replace(SCAFFOLD, step=turned), SCAFFOLD_GOLDEN),
    "scaffold: server adds c_i instead of its change": (
        with_controls(lambda u, a: (u.server["c"] + a.own["c"].sum(-2) / u.parties, a.own["c"])),
        MEMORY,
    ),
    "scaffold: variate divided by half the steps": (replace(SCAFFOLD, aggregate=half_slope), SCAFFOLD_GOLDEN),
    "scaffold: variates never kept": (with_controls(lambda u, a: (u.server["c"], u.own["c"])), CONSTANT),
    "scaffold: weights never moved": (moved_by(SCAFFOLD, lambda u, h, a: u.start.squeeze(-2)), MEAN),
    "fedprox: missing square": (replace(FEDPROX, gradient=unsquared), PULL),
    "fedprox: mu without effect": (
        replace(FEDPROX, gradient=lambda local, hyper: (local.weights - local.weights) * hyper["mu"]),
        PULL,
    ),
    "fedprox: mu twice": (replace(FEDPROX, gradient=lambda local, hyper: 2 * FEDPROX.gradient(local, hyper)), PULL),
    "fedprox: pushes away": (replace(FEDPROX, gradient=lambda local, hyper: -1 * FEDPROX.gradient(local, hyper)), PULL),
    "fedavg: uniform mean": (replace(FEDAVG, aggregate=uniform), FEDAVG_GOLDEN),
    "fedavg: uniform mean, by law": (replace(FEDAVG, aggregate=uniform), TWICE),
    "fedavg: the first party wins": (replace(FEDAVG, aggregate=first_wins), FEDAVG_GOLDEN),
    "fedavg: sums in float32": (replace(FEDAVG, aggregate=narrow_sum), ROUNDED),
    "fednova: plain mean": (replace(FEDNOVA, aggregate=raw_mean), NOVA),
    "fednova: uniform": (replace(FEDNOVA, aggregate=uniform), NOVA),
    "fedavgm: velocity forgotten": (replace(FEDAVGM, aggregate=delta_as_m), TORCH),
    "fedavgm: sign of delta": (moved_by(FEDAVGM, lambda u, h, a: 2 * u.start.squeeze(-2) - a.weights), TORCH),
    "fedadam: no bias correction in torch's form": (replace(FEDADAM, aggregate=uncorrected), TORCH),
    "fedadam: bias correction in Reddi's form": (replace(FEDADAM, aggregate=corrected), REDDI),
    "fedadam: missing square": (
        with_second(FEDADAM, lambda v, d, h: h["beta2"] * v + (1 - h["beta2"]) * d.abs()),
        REDDI,
    ),
    "fedadam: missing root": (
        with_second(FEDADAM, lambda v, d, h: h["beta2"] * v + (1 - h["beta2"]) * d**2, power=2.0),
        REDDI,
    ),
    "fedyogi: sign": (
        with_second(FEDYOGI, lambda v, d, h: v + (1 - h["beta2"]) * d**2 * torch.sign(v - d**2)),
        YOGI,
    ),
    "fedyogi: always grows": (with_second(FEDYOGI, lambda v, d, h: v + (1 - h["beta2"]) * d**2), YOGI),
    "fedadagrad: forgets": (with_second(FEDADAGRAD, lambda v, d, h: 0.9 * v + 0.1 * d**2), TORCH),
    "feddyn: |S| for N": (replace(FEDDYN, aggregate=feddyn_cohort), MEMORY),
    "feddyn: memory with the wrong sign": (replace(FEDDYN, gradient=plus), OPTIMUM),
    "feddyn: h left out": (moved_by(FEDDYN, lambda u, h, a: u.trained.mean(-2)), Golden((6.0, 6.0), {"alpha": 2.0})),
    "moon: turned round": (replace(MOON, penalty=lambda z, g, p, hyper: MOON.penalty(z, p, g, hyper)), PENALTY),
    "moon: mu without effect": (
        replace(MOON, penalty=lambda z, g, p, hyper: MOON.penalty(z, g, p, {**hyper, "mu": 1.0})),
        PENALTY,
    ),
    "fedbn: keeps linear layers": (replace(FEDBN, shared=lambda name, layer: layer != "Linear"), HOME),
    "wsm: absent classes stay": (replace(WSM, logits=no_shift_for_absent), ABSENT),
    "wsm: turned round": (replace(WSM, logits=minus_share), ABSENT),
    "wsm: infinite shift": (replace(WSM, logits=minus_infinity), ABSENT),
}


def is_caught(algorithm, by):
    """Whether a golden value or the law of that name speaks up, by a number and not by a crash."""
    if isinstance(by, Golden):
        found, _ = quadratic(algorithm, by.hyper, **by.options)
        return found[: len(by.expected)] != pytest.approx(by.expected, rel=1e-12)
    law = next(law for law in LAWS if law.name == by)
    networks = [n for n in law.networks if n in ("mlp", "batch_norm")] or [""]
    found = [_check(law, algorithm, network) for network in networks]
    assert all(result.status != "not applicable" and result.error is not None for result in found)
    return any(result.status == "broken" for result in found)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_breaks_its_law_or_golden_value(name: str) -> None:
    assert is_caught(*MUTANTS[name])


@pytest.mark.parametrize("name", MUTANTS)
def test_the_algorithm_itself_does_not(name: str) -> None:
    algorithm, by = MUTANTS[name]
    assert not is_caught(find_algorithm(algorithm.name), by)


def test_fedbn_that_shares_all_is_caught_by_its_golden_statistics() -> None:
    assert statistics(replace(FEDBN, shared=lambda name, layer: True))[0] != [0.0] * 5
    assert statistics(FEDBN)[0] == [0.0] * 5


def broken(algorithm: Algorithm, network: str) -> set[str]:
    return {result.law for result in check_algorithm(algorithm, (network,)) if result.status == "broken"}


def test_control_variates_on_buffers_break_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Looped._train_lane

    def wrong(self, block, i, data):
        right(self, block, i, data)
        width = block.buffers.shape[1]
        block.buffers[i] -= block.optimizer.lr * (block.server["c"][i, :width] - block.own["c"][i, :width])

    monkeypatch.setattr(Looped, "_train_lane", wrong)

    def start(algorithm, *args, **options):
        if "c" not in algorithm.init(torch.zeros(1, 16), algorithm.hyper).own:
            monkeypatch.setattr(Looped, "_train_lane", right)
        else:
            monkeypatch.setattr(Looped, "_train_lane", wrong)
        return begin_run(algorithm, *args, **options)

    monkeypatch.setattr(law_training, "start", start)
    assert "statistics of the inputs are FedAvg's bit for bit" in broken(SCAFFOLD, "batch_norm")


@pytest.mark.parametrize(
    "rule",
    [
        lambda layout, kept, share: kept[0],
        lambda layout, kept, share: mean_of(kept, share),
        lambda layout, kept, share: torch.where(layout.integer_buffers(), kept.max(0).values, kept.mean(0)),
    ],
    ids=["the first party wins", "counters averaged", "uniform mean"],
)
def test_another_rule_for_buffers_breaks_a_law(monkeypatch: pytest.MonkeyPatch, rule: Any) -> None:
    monkeypatch.setattr(training, "_mean_buffers", rule)
    assert "statistics are averaged by rows, counters take the largest" in broken(FEDAVG, "batch_norm")


def test_a_party_never_seen_that_compares_with_nothing_breaks_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(self, first, last):
        return self.own["previous"][first:last]

    monkeypatch.setattr(Block, "previous", always)
    assert "the first round is FedAvg's bit for bit" in broken(MOON, "mlp")


def test_frozen_layers_that_forget_their_seed_break_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    right = frozen_of
    monkeypatch.setattr(
        training, "frozen_of", lambda module, dtype: {n: p * 0 for n, p in right(module, dtype).items()}
    )
    assert "a frozen layer stays frozen" in broken(FEDAVG, "frozen")

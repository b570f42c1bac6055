"""Elimination between seeds: sure losers stop early, equals hardly ever, and nobody stops within the first stage."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fedskew.engine import find_algorithm, validate
from fedskew.engine.elimination import LEVEL, STAGE, run_by_stages
from fedskew.engine.plans import ModelSpec, Outcome, Trial
from fedskew.engine.settings import Settings
from fedskew.profiles import make_partition

SEEDS = tuple(range(20))
TRUTH = np.zeros(7, np.int64)  # of which all are predicted rightly: the rows add no variance


def trial(name: str, role: str = "candidate") -> Trial:
    return Trial(find_algorithm(name), {}, Settings(rounds=3), SEEDS, ModelSpec("linear", (4,), 3), role=role)


def outcome(finals: NDArray[np.float64]) -> Outcome:
    final = np.asarray(finals)
    curve = np.repeat(final[:, None], 3, axis=1)
    diverged = np.where(np.isnan(final), 2, 0)
    return Outcome(curve, curve, curve, np.zeros((len(final), 7)), diverged, 1, 1.0)


def run_of(scores: dict[str, NDArray[np.float64]]):
    calls: list[list[tuple[str, int]]] = []

    def run(batch: Sequence[Trial]) -> list[Outcome]:
        calls.append([(t.name, len(t.seeds)) for t in batch])
        return [outcome(scores[t.name][list(t.seeds)]) for t in batch]

    return run, calls


def test_a_sure_loser_stops_after_the_first_stage_and_the_others_get_all_seeds():
    noise = np.random.default_rng(0).normal(0, 0.01, (2, 20))
    run, calls = run_of({"fedavg": 0.8 + noise[0], "fednova": 0.3 + noise[1], "centralised": np.full(20, 0.9)})
    trials = [trial("fedavg"), trial("fednova"), trial("fedavg", "centralised")]
    ran, outcomes = run_by_stages(trials, "fedavg", run, TRUTH)
    assert [len(t.seeds) for t in ran] == [20, STAGE, 20]
    assert [len(o.score) for o in outcomes] == [20, STAGE, 20]
    assert [len(call) for call in calls] == [3, 2, 2, 2]


def test_stages_put_together_are_the_seeds_in_their_order():
    values = np.random.default_rng(1).normal(size=20)
    run, _ = run_of({"fedavg": values})
    _, (found,) = run_by_stages([trial("fedavg")], "fedavg", run, TRUTH)
    assert found.score[:, -1].tolist() == values.tolist()
    assert found.predicted.shape == (20, 7)
    assert found.seconds == 4.0


def test_a_candidate_that_diverged_gets_no_more_seeds_unless_the_recommended_one_did_too():
    broken = np.where(np.arange(20) == 1, np.nan, 0.5)
    fine = 0.5 + np.random.default_rng(2).normal(0, 0.01, 20)
    trials = [trial("fedavg"), trial("feddyn")]
    run, _ = run_of({"fedavg": fine, "feddyn": broken})
    assert [len(t.seeds) for t in run_by_stages(trials, "fedavg", run, TRUTH)[0]] == [20, STAGE]
    run, _ = run_of({"fedavg": broken, "feddyn": fine})
    assert [len(t.seeds) for t in run_by_stages(trials, "fedavg", run, TRUTH)[0]] == [20, 20]


def test_a_difference_within_the_margin_eliminates_nobody_however_sure_it_is():
    base = np.random.default_rng(3).normal(0.8, 0.01, 20)
    trials = [trial("fedavg"), trial("fedprox")]
    run, _ = run_of({"fedavg": base, "fedprox": base - 0.004 + np.arange(20) * 1e-9})
    assert [len(t.seeds) for t in run_by_stages(trials, "fedavg", run, TRUTH)[0]] == [20, 20]


@pytest.mark.parametrize("wild", [0.007, 0.1])
def test_equal_candidates_are_eliminated_less_often_than_the_level(wild: float):
    rng = np.random.default_rng(4)
    names = ["fedavg", "fedprox", "scaffold", "fednova", "fedavgm", "fedadam"]
    trials, draws, lost = [trial(name) for name in names], 400, 0
    for _ in range(draws):
        run, _ = run_of({name: 0.7 + rng.normal(0, wild if name == "fednova" else 0.02, 20) for name in names})
        lost += any(len(t.seeds) < 20 for t in run_by_stages(trials, "fedavg", run, TRUTH)[0])
    assert lost / draws <= LEVEL


def test_decisions_that_all_seeds_share_do_not_make_equal_candidates_sure_losers():
    """Each candidate is right on 80 % of rows, on a tenth of them by its own luck, the same in nearly every seed."""
    rng = np.random.default_rng(5)
    names, rows = ["fedavg", "fedprox", "scaffold", "fednova", "fedavgm", "fedadam"], 500
    trials, truth, lost = [trial(name) for name in names], np.ones(rows, np.int64), 0

    def drawn(before: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
        return np.where(rng.random(before.shape) < share, rng.random(before.shape) < 0.8, before)

    for _ in range(100):
        common = rng.random(rows) < 0.8
        right = {name: drawn(np.tile(drawn(common, 0.1), (20, 1)), 0.01) for name in names}

        def run(batch: Sequence[Trial], right: dict[str, NDArray[np.bool_]] = right) -> list[Outcome]:
            hits = [right[t.name][list(t.seeds)] for t in batch]
            curves = [h.mean(axis=1, keepdims=True) for h in hits]
            none = np.zeros(STAGE, np.int64)
            return [Outcome(c, c, c, h.astype(float), none, 1, 1.0) for c, h in zip(curves, hits, strict=True)]

        lost += any(len(t.seeds) < 20 for t in run_by_stages(trials, "fedavg", run, truth)[0])
    assert lost / 100 <= LEVEL


def test_without_rounds_nobody_is_eliminated():
    def run(batch: Sequence[Trial]) -> list[Outcome]:
        blank = [np.zeros((len(t.seeds), 0)) for t in batch]
        return [Outcome(b, b, b, np.zeros((len(b), 7)), np.zeros(len(b), np.int64), 1, 0.0) for b in blank]

    ran, _ = run_by_stages([trial("fedavg"), trial("fedprox")], "fedavg", run, TRUTH)
    assert [len(t.seeds) for t in ran] == [20, 20]


def test_a_validation_says_who_was_eliminated_and_compares_on_the_seeds_both_had():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 360)
    table = make_partition(rng.normal(size=(360, 4)) + 3 * y[:, None], y, np.repeat(np.arange(6), 60))
    found = validate(
        table, ["fedavg", "fedavgm"], recommended="fedavg", seeds=10, rounds=8, local_epochs=2, tuning=False,
        references=False, jobs=1, lr=0.1, hyper={"fedavgm": {"lr": 1e-7}},
    )  # fmt: skip
    chief, loser = found.candidates
    assert (chief.eliminated_after, loser.eliminated_after) == (None, STAGE)
    assert (len(chief.accuracy.by_seed), len(loser.accuracy.by_seed)) == (10, STAGE)
    gap = np.array(loser.accuracy.by_seed, float) - np.array(chief.accuracy.by_seed[:STAGE], float)
    assert found.comparisons[0].difference == pytest.approx(gap.mean(), abs=1e-12)
    assert found.settings["seeds"] == 10

"""validate() on small tables: pairing, worker counts, statuses, references, errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

from fedskew.engine import Estimate, Progress, Validation, pool, validate
from fedskew.engine.algorithms import find_algorithm
from fedskew.profiles import FedskewError, Holdout, make_partition


def blobs(parties=3, rows=60, classes=3, seed=0, spread=0.6):
    """Well separated classes in two dimensions, mixed unevenly over the parties."""
    rng = np.random.default_rng(seed)
    centres = 3 * np.stack([np.cos(np.arange(classes)), np.sin(np.arange(classes))], 1)
    labels = np.concatenate([rng.choice(classes, rows, p=rng.dirichlet(np.ones(classes))) for _ in range(parties)])
    x = centres[labels] + spread * rng.normal(size=(len(labels), 2))
    return make_partition(x, labels, np.repeat(np.arange(parties), rows))


FAST: Any = {"tuning": False, "rounds": 3, "seeds": 2, "local_epochs": 2, "lr": 0.1, "model": "linear"}


def numbers(found: Validation):
    """All that must repeat: everything but the seconds."""
    return [(c.algorithm, c.status, c.accuracy, c.balanced_accuracy, c.loss, c.by_party) for c in found.candidates], (
        found.comparisons,
        found.verdict,
        found.references,
    )


def test_same_result_for_one_and_two_workers():
    table = blobs()
    assert numbers(validate(table, jobs=1, **FAST)) == numbers(validate(table, jobs=2, **FAST))


def test_same_result_whatever_the_order_and_number_of_candidates():
    table = blobs()
    a = validate(table, ["scaffold", "fedavg"], jobs=1, recommended="fedavg", **FAST)
    b = validate(table, ["fedavg", "fedprox", "scaffold"], jobs=1, recommended="fedavg", **FAST)
    left = {c.algorithm: c.accuracy for c in a.candidates}
    right = {c.algorithm: c.accuracy for c in b.candidates}
    assert left["scaffold"] == right["scaffold"]
    assert left["fedavg"] == right["fedavg"]


def test_order_of_parties_in_the_table_changes_nothing():
    table = blobs()
    order = np.argsort(-table.party, kind="stable")
    turned = make_partition(table.features[order], table.labels[order], table.party[order])
    assert numbers(validate(table, ["fedavg"], jobs=1, **FAST)) == numbers(validate(turned, ["fedavg"], jobs=1, **FAST))


def test_fedprox_without_pull_equals_fedavg_and_gives_no_difference():
    found = validate(blobs(), ["fedavg", "fedprox"], hyper={"fedprox": {"mu": 0.0}}, jobs=1, **FAST)
    assert found.candidates[0].accuracy == found.candidates[1].accuracy
    assert found.verdict.kind == "no_difference"
    assert found.verdict.winner == "fedavg"


def test_easy_data_are_learned_and_the_references_frame_them():
    found = validate(blobs(spread=0.2), ["fedavg"], jobs=1, tuning=False, rounds=15, seeds=2, lr=0.1, local_epochs=3)
    best = found.candidates[0]
    lines = found.references
    assert lines.centralised is not None
    assert lines.local_only is not None
    federated, pooled, majority = (x.accuracy.mean or 0.0 for x in (best, lines.centralised, lines.majority))
    assert federated > 0.9
    assert pooled > 0.9
    assert majority < 0.75
    assert best.lift == pytest.approx(federated - majority)
    assert [len(line) for line in best.accuracy.curve] == [15, 15]
    assert best.accuracy.curve[0][-1] == best.accuracy.by_seed[0]
    assert set(best.by_party) == {"0", "1", "2"}


def batch_norm(shape: tuple[int, ...], outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, outputs))


def test_personal_models_have_a_score_for_every_round(tmp_path, monkeypatch):
    """FedBN's parties keep their own BatchNorm: its curve is as long as FedAvg's, and the ranking knows both."""
    how = {**FAST, "model": f"{__name__}:batch_norm", "rounds": 4}
    found = validate(blobs(spread=0.2), ["fedavg", "fedbn"], jobs=1, **how)
    assert [[len(line) for line in c.accuracy.curve] for c in found.candidates] == [[4, 4], [4, 4]]
    own = found.candidates[1]
    assert [line[-1] for line in own.accuracy.curve] == pytest.approx(list(own.accuracy.by_seed))
    assert found.ranking is not None
    assert found.ranking.leader in {"fedavg", "fedbn"}
    assert own.at_equal_bytes == pytest.approx(own.accuracy.mean)
    monkeypatch.setattr(pool, "SECONDS", 0.0)  # every round is a part of its own
    cut = validate(blobs(spread=0.2), ["fedavg", "fedbn"], jobs=1, run=tmp_path / "run", **how)
    assert numbers(cut) == numbers(found)


def test_a_huge_learning_rate_is_reported_as_diverged_and_others_go_on():
    found = validate(blobs(), ["fedavg", "fedprox"], hyper={"fedprox": {"lr": 1e38}}, jobs=1, **FAST)
    fedavg, fedprox = found.candidates
    assert fedprox.status == "diverged"
    assert fedprox.diverged_at == 1
    assert fedprox.accuracy.mean is None
    assert fedavg.status == "ok"
    assert all(c.algorithm != "fedprox" for c in found.comparisons)


def test_nothing_is_scored_where_a_seed_diverged():
    found = validate(blobs(), ["fedavg", "fedprox"], jobs=1, **{**FAST, "lr": 1e12, "rounds": 4})
    parties = dict.fromkeys(("0", "1", "2"))
    for one in found.candidates:
        assert one.status == "diverged"
        assert one.by_party == parties
        assert (one.worst_party, one.spread, one.macro_f1, one.lift) == (None,) * 4
    for line in (found.references.centralised, found.references.local_only):
        assert line is not None
        assert line.accuracy.mean is None
        assert line.balanced_accuracy.mean is None
        assert line.by_party == parties


def test_a_constant_predictor_is_failed():
    table = blobs()
    blank = make_partition(np.zeros((table.rows, 2)), table.labels, table.party)
    found = validate(blank, ["fedavg", "fedprox"], jobs=1, **FAST)
    assert {c.status for c in found.candidates} == {"failed"}
    assert found.verdict.kind == "all_failed"


def test_zero_rounds_are_defined():
    found = validate(blobs(), ["fedavg", "fedprox"], jobs=1, tuning=True, rounds=0, seeds=2, references=False)
    assert found.candidates[0].bytes_per_party == 0
    assert found.candidates[0].loss is None


def test_one_class_in_the_test_table_is_defined():
    table = blobs()
    test = Holdout(table.features[table.labels == 0][:5], np.zeros(5, np.int64))
    found = validate(table.with_test(test), ["fedavg"], jobs=1, **FAST)
    assert found.references.majority.balanced_accuracy.mean == 1.0


def test_a_perfect_model_is_no_constant_predictor_where_the_test_table_has_one_class():
    table = blobs(spread=0.1)
    test = Holdout(table.features[table.labels == 1][:5], np.ones(5, np.int64))
    found = validate(table.with_test(test), ["fedavg"], jobs=1, **FAST)
    assert (found.candidates[0].status, found.candidates[0].accuracy.mean) == ("ok", 1.0)
    assert found.verdict.kind == "confirmed"


@pytest.mark.parametrize(
    ("participation", "trained"), [(0.05, 1), (0.15, 1), (0.19, 1), (0.35, 3), (0.5, 5), (1.0, 10)]
)
def test_bytes_and_steps_are_those_of_the_parties_that_train(participation, trained):
    table = blobs(parties=10)
    options: Any = {**FAST, "participation": participation, "references": False}
    found = validate(table, ["fedavg"], jobs=1, **options).candidates[0]
    weights = 2 * 3 + 3
    assert found.bytes_per_party == round(8 * weights * FAST["rounds"] * trained / 10)
    options["dtype"] = "float64"
    wide = validate(table, ["fedavg"], jobs=1, **options).candidates[0]
    assert wide.bytes_per_party == round(16 * weights * FAST["rounds"] * trained / 10)
    told: list[Estimate] = []
    validate(table, ["fedavg"], jobs=1, announce=told.append, **options)
    assert told[0].lane_steps == FAST["rounds"] * FAST["seeds"] * FAST["local_epochs"] * trained  # one batch a party


def test_a_batch_larger_than_every_party_is_the_party_and_costs_no_more():
    options: Any = {**FAST, "references": False}  # the centralised line holds all rows, so its batch is larger
    small = validate(blobs(), ["fedavg", "fednova"], jobs=1, batch_size=60, **options)
    large = validate(blobs(), ["fedavg", "fednova"], jobs=1, batch_size=10**9, **options)
    assert numbers(small) == numbers(large)


def test_names_of_hyperparameters_take_any_case_as_candidates_do():
    a = validate(blobs(), ["FedProx"], hyper={"FedProx": {"mu": 1.0}}, jobs=1, **FAST)
    b = validate(blobs(), ["fedprox"], hyper={"fedprox": {"mu": 1.0}}, jobs=1, **FAST)
    assert numbers(a) == numbers(b)


MINE = replace(find_algorithm("fedavg"), name="Mine", title="Mine")


@pytest.mark.parametrize(
    ("algorithms", "recommended", "found"),
    [
        (["fedavg", "fedprox"], "FedProx", "fedprox"),
        (["fedavg"], " fedprox", "fedprox"),
        (["fedavg", MINE], "mine", "Mine"),
        (["fedavg"], MINE, "Mine"),
        (["scaffold", "fedavg"], None, "scaffold"),
        ([MINE, "fedavg"], None, "Mine"),
        (["fedavg+wsm", "scaffold+wsm", "moon+wsm"], None, "fedavg+wsm"),
        (["fedavg", "FedAvg", MINE, MINE], MINE, "Mine"),
    ],
)
def test_the_recommended_one_is_named_in_any_case_given_as_a_value_or_the_first(algorithms, recommended, found):
    told = validate(blobs(), algorithms, recommended=recommended, jobs=1, references=False, **FAST)
    assert told.recommended == found
    assert found in [c.algorithm for c in told.candidates]
    assert len({c.algorithm for c in told.candidates}) == len(told.candidates)


def test_an_own_algorithm_takes_hyperparameters_whatever_the_case_of_its_name():
    found = validate(blobs(), ["fedavg", MINE], hyper={"Mine": {"lr": 0.02}}, jobs=1, references=False, **FAST)
    assert [c.hyperparameters["lr"] for c in found.candidates] == [0.1, 0.02]


@pytest.mark.parametrize(
    ("algorithms", "name"),
    [
        ([MINE, replace(MINE, grid=())], "Mine"),
        (["fedavg", replace(find_algorithm("fedprox"), name="fedavg")], "fedavg"),
        ([replace(MINE, name="FedAvg+WSM")], r"FedAvg\+WSM"),
    ],
)
def test_two_algorithms_of_one_name_are_refused(algorithms, name):
    with pytest.raises(FedskewError, match=f"two algorithms are named '{name}'; give your own one another name"):
        validate(blobs(), algorithms, jobs=1, **FAST)


def test_an_own_algorithm_with_nothing_to_try_is_tuned_all_the_same():
    mine = replace(find_algorithm("fedavg"), name="mine", title="Mine", grid=())
    found = validate(blobs(), ["fedavg", mine], jobs=1, **{**FAST, "tuning": True, "references": False})
    assert found.candidates[1].algorithm == "mine"
    assert found.candidates[1].tuning


def test_parties_of_no_one_or_two_rows_train_along():
    labels = np.array([0, 1] * 30 + [0] + [0, 1])
    names = ("big", "empty", "one", "two")
    x = labels[:, None] + np.linspace(0, 0.1, len(labels))[:, None]
    party = np.array([0] * 60 + [2] + [3, 3])
    table = make_partition(x, labels, party, class_names=("a", "b"), party_names=names)
    found = validate(table, ["fedavg", "scaffold"], jobs=1, **FAST)
    assert {c.status for c in found.candidates} <= {"ok", "failed"}
    assert found.candidates[0].by_party["empty"] is None


def test_bytes_count_both_ways_and_scaffold_twice():
    found = validate(blobs(), ["fedavg", "scaffold"], jobs=1, references=False, **FAST)
    parameters = 2 * 3 + 3
    assert [c.bytes_per_party for c in found.candidates] == [8 * parameters * 3, 16 * parameters * 3]


def test_progress_reaches_the_last_round_of_every_trial():
    seen: dict[str, Progress] = {}
    validate(blobs(), ["fedavg", "fedprox"], jobs=1, progress=lambda p: seen.__setitem__(p.name, p), **FAST)
    assert {name: p.round for name, p in seen.items()} == dict.fromkeys(
        ["fedavg", "fedprox", "centralised", "local_only"], 3
    )


def test_json_round_trip():
    found = validate(blobs(), ["fedavg", "fedprox"], jobs=1, **FAST)
    assert Validation.from_json(found.to_json()) == found
    assert "NaN" not in found.to_json()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"algorithms": ["fedavgg"]}, "did you mean 'fedavg'"),
        ({"algorithms": "fedavg"}, "give a list"),
        ({"algorithms": []}, "the list of candidates is empty"),
        ({"preset": "fast"}, "unknown preset"),
        ({"model": "transformer"}, "unknown model"),
        ({"model": "nowhere:factory"}, "cannot be imported"),
        ({"model": "cnn"}, "needs images"),
        ({"participation": 0.0}, "out of range"),
        ({"rounds": -1}, "out of range"),
        ({"lr": float("nan")}, "out of range"),
        ({"colour": 3}, "no setting 'colour'"),
        ({"hyper": {"fedprox": {"nu": 1.0}}}, "no hyperparameter 'nu'"),
        ({"hyper": {"fedavgg": {"lr": 1.0}}}, "no candidate"),
        ({"hyper": {"fedprox": {"mu": float("inf")}}}, "fedprox.mu is inf; it must be a finite number"),
        ({"lr": float("inf")}, "out of range"),
        ({"seeds": 2.0}, "seeds is 2.0; it must be a whole number from 1"),
        ({"seed": -1}, "seed is -1; it must be a whole number from 0"),
    ],
)
def test_wrong_arguments_are_named(change, words):
    options: Any = {"jobs": 1, **FAST, **change}
    algorithms = options.pop("algorithms", None)
    with pytest.raises(FedskewError, match=words):
        validate(blobs(), algorithms, **options)


def test_rows_without_a_feature_are_refused():
    bare = make_partition(np.empty((40, 0)), np.arange(40) % 2, np.arange(40) // 20)
    with pytest.raises(FedskewError, match="nothing to train on"):
        validate(bare, ["fedavg"], jobs=1)


def test_one_party_is_refused():
    with pytest.raises(FedskewError, match="only one party"):
        validate(blobs(parties=1), ["fedavg"], jobs=1)


def test_a_single_seed_bounds_nothing_and_its_answer_reads_back():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 180)
    silos = make_partition(rng.normal(size=(180, 4)) + y[:, None], y, np.repeat(np.arange(3), 60))
    found = validate(silos, ["fedavg", "fedprox"], seeds=1, rounds=2, jobs=1, tuning=False, references=False)
    assert (found.comparisons[0].lower, found.comparisons[0].upper) == (None, None)
    assert (found.verdict.kind, found.verdict.lower) == ("cannot_tell", None)
    assert "one seed, no interval" in found.verdict.text
    assert Validation.from_json(found.to_json()) == found


@pytest.mark.parametrize(("name", "count"), [("seeds", 0), ("seeds", -1), ("max_rows", 0), ("max_rows", -5)])
def test_a_count_below_one_is_refused_by_name(name, count):
    with pytest.raises(FedskewError, match=f"{name} is {count}; it must be a whole number from 1 on"):
        validate(blobs(), ["fedavg"], **{**FAST, name: count})

"""What users of comparable software ran into when training and scoring; names hold the report's ID."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.engine.oracle import quadratic, statistics

from fedskew.advisor import recommend
from fedskew.engine import ALGORITHMS, find_algorithm, validate
from fedskew.engine.blocks import Data
from fedskew.engine.conformance import check_algorithm
from fedskew.engine.law_cases import NETWORKS, federation, settings
from fedskew.engine.training import Federation, begin
from fedskew.profiles import FedskewError, Holdout, Partition, make_partition, profile, step_ratio

QUICK: Any = {"rounds": 3, "seeds": 2, "local_epochs": 1, "jobs": 1, "tuning": False, "references": False}


def blobs(sizes: list[int], classes: int = 3, width: int = 4, apart: float = 2.0, seed: int = 0) -> Partition:
    """Parties of these sizes with classes ``apart`` from each other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, sum(sizes))
    x = rng.normal(size=(len(y), width)) + apart * np.eye(classes, width)[y]
    return make_partition(x.astype(np.float32), y, np.repeat(np.arange(len(sizes)), sizes))


@cache
def laws(name: str) -> dict[str, str]:
    """Law to status of one algorithm, without training."""
    return {result.law: result.status for result in check_algorithm(find_algorithm(name), networks=["mlp"])}


def test_A1_A5_scaffold_that_diverges_is_a_result_with_its_round_and_others_go_on() -> None:
    table = blobs([10, 400])
    found = validate(table, ["fedavg", "scaffold"], hyper={"scaffold": {"lr": 1e30}}, lr=0.2, **QUICK)
    fedavg, scaffold = found.candidates
    assert (fedavg.status, scaffold.status) == ("ok", "diverged")
    assert scaffold.diverged_at is not None
    assert scaffold.diverged_at >= 1
    assert step_ratio(table.sizes, 10, 10) > 20  # beyond which advice that names SCAFFOLD warns


def test_A2_A3_A6_A10_scaffolds_control_variates_are_those_worked_out_by_hand() -> None:
    _, state = quadratic(find_algorithm("scaffold"), rounds=1)
    assert state.server["c"][0, 0] == -9.0  # the mean over all of -6 and -12, from zero
    assert state.own["c"].rows[0, :, 0].tolist() == [-6.0, -12.0]  # (0 - w) / (K lr), not over batches alone
    found = laws("scaffold")
    for law in (
        "memories start at zero", "the server's memory is the mean of all parties'",
        "a constant gradient g gives c_i = g", "the correction is K lr (c_i - c)",
    ):  # fmt: skip
        assert found[law] == "holds"


def test_A4_scaffold_is_tuned_with_the_same_budget_as_every_other_and_the_trials_are_shown() -> None:
    table = blobs([60, 60, 60])
    options = {**QUICK, "tuning": True, "rounds": 4, "seeds": 2}
    found = validate(table, ["fedavg", "scaffold"], **options)
    counts = {len(candidate.tuning) for candidate in found.candidates}
    assert len(counts) == 1
    assert counts.pop() >= 4


def test_A8_a_model_that_does_not_move_fails_and_is_no_rank() -> None:
    found = validate(blobs([60, 60]), ["fedavg", "fedprox"], hyper={"fedavg": {"lr": 1e-30}}, **QUICK)
    assert found.candidates[0].status == "failed"
    assert laws("scaffold")["a round moves every tensor and nothing else"] == "holds"


def test_A9_local_steps_and_epochs_are_stated_with_the_result() -> None:
    found = validate(blobs([60, 60]), ["fedavg"], **QUICK)
    assert found.settings["local_epochs"] == 1
    assert found.settings["batch_size"] == 64
    assert found.settings["rounds"] == 3


@pytest.mark.parametrize("name", ["fedadam", "fedyogi", "fedadagrad", "fedavgm"])
def test_A13_server_optimizers_are_those_of_torch_on_pseudo_gradients(name: str) -> None:
    assert laws(name)["the server is torch.optim on pseudo-gradients"] in {"holds", "not applicable"}
    if name in {"fedadam", "fedavgm"}:
        assert laws(name)["the server is torch.optim on pseudo-gradients"] == "holds"


def test_A14_the_proximal_term_is_there_and_not_squared_away() -> None:
    """mu 1, lr 1/4, plain step w - (1/4)(2 (w - b) + mu (w - 0)): A 0, 2, 2.5; B 0, 4, 5; mean 4.375."""
    assert quadratic(find_algorithm("fedprox"), {"mu": 1.0}, rounds=1)[0] == [4.375]


def test_A16_the_rule_for_statistics_is_stated_and_fedbn_is_another_algorithm() -> None:
    averaged, kept = statistics(find_algorithm("fedavg")), statistics(find_algorithm("fedbn"))
    assert averaged[0] == pytest.approx([0.3] * 5)  # the mean of 0.1 and 0.5, not the first party's
    assert kept[1] == pytest.approx([0.1] * 5)
    assert kept[2] == pytest.approx([0.5] * 5)


def test_A18_an_integer_buffer_among_floats_takes_the_largest_and_breaks_nothing() -> None:
    silos = federation((5,))
    run = begin(find_algorithm("fedavg"), {}, settings(rounds=1), [0], federation=silos, model=NETWORKS["batch_norm"])
    (state,) = list(run.rounds())
    assert laws("fedavg")["types and shapes come back as they went in"] == "holds"
    assert torch.isfinite(state.buffers).all()
    found = {r.law: r.status for r in check_algorithm(find_algorithm("fedavg"), networks=["batch_norm"])}
    assert found["statistics are averaged by rows, counters take the largest"] == "holds"


def test_A19_A20_parties_weigh_by_rows_exactly_whatever_the_number_of_batches() -> None:
    """Three parties of 31, 32, 33 rows with targets 0, 1, 2; one full step each at lr 1/2 reaches the target."""
    from fedskew.engine.plans import ModelSpec
    from fedskew.engine.settings import Settings

    sizes = [31, 32, 33]
    data = Data(
        torch.ones(96, 1, dtype=torch.float64), torch.repeat_interleave(torch.arange(3.0).double(), torch.tensor(sizes))
    )
    silos = Federation(data, np.cumsum([0, *sizes]), ("a", "b", "c"), np.ones((3, 1)))
    how = Settings(rounds=1, local_epochs=1, batch_size=64, lr=0.5, momentum=0.0, weight_decay=0.0, dtype="float64")
    model = ModelSpec("tests.engine.oracle:one_weight", (1,), 1)
    run = begin(find_algorithm("fedavg"), {}, how, [0], federation=silos, model=model)
    (state,) = list(run.rounds())
    assert float(state.weights[0, 0]) == pytest.approx((32 * 1 + 33 * 2) / 96, rel=1e-14)


def test_A21_adaptive_servers_are_tuned_over_both_rates() -> None:
    for name in ("fedadam", "fedyogi", "fedadagrad"):
        grid = find_algorithm(name).grid
        assert len({setting.get("server_lr") for setting in grid}) >= 3
    assert recommend(profile(blobs([60, 60]))).hyperparameters.grid


def test_A22_E3_equal_candidates_are_called_equal_and_both_averages_are_told() -> None:
    found = validate(
        blobs([200, 200, 40], apart=8.0), ["fedavg", "fedprox"], hyper={"fedprox": {"mu": 1e-9}}, recommended="fedprox",
        **{**QUICK, "rounds": 6, "local_epochs": 3, "seeds": 3}, lr=0.1,
    )  # fmt: skip
    assert found.verdict.kind == "no_difference"
    assert found.verdict.winner == "fedavg"  # the cheapest
    best = found.candidates[0]
    parties = [value for value in best.by_party.values() if value is not None]
    assert best.accuracy.mean is not None
    assert best.worst_party is not None
    assert best.worst_party.accuracy == min(parties)


def test_E1_a_party_of_one_class_in_the_test_leaves_every_other_number_defined() -> None:
    table = blobs([60, 60, 60])
    keep = (table.party != 2) | (table.labels == 0)
    one = make_partition(table.features[keep], table.labels[keep], table.party[keep])
    found = validate(one, ["fedavg"], **QUICK)
    best = found.candidates[0]
    assert all(value is not None for value in (*best.by_party.values(), best.macro_f1, best.balanced_accuracy.mean))


def test_E4_all_parties_are_scored_though_a_tenth_takes_part() -> None:
    found = validate(blobs([20] * 20), ["fedavg"], participation=0.1, **QUICK)
    assert len(found.candidates[0].by_party) == 20
    assert all(value is not None for value in found.candidates[0].by_party.values())


def test_E6_P24_a_party_smaller_than_a_batch_trains_on_its_one_short_batch() -> None:
    silos, how = federation((5,), [5, 0, 1]), settings(rounds=1, batch_size=64)
    run = begin(find_algorithm("fedavg"), {}, how, [0], federation=silos, model=NETWORKS["mlp"])
    before = run.state.weights.clone()
    (after,) = list(run.rounds())
    assert not torch.equal(before, after.weights)
    assert torch.isfinite(after.weights).all()


def test_E7_a_party_without_test_rows_has_no_score_and_stops_nobody() -> None:
    table = blobs([60, 60, 60])
    mine = table.party != 1
    test = Holdout(table.features[mine][:40], table.labels[mine][:40], table.party[mine][:40])
    found = validate(table.with_test(test), ["fedavg"], **QUICK)
    assert found.candidates[0].by_party["1"] is None
    assert found.candidates[0].by_party["0"] is not None


def test_E10_every_party_sees_what_it_would_reach_alone() -> None:
    found = validate(blobs([40] * 5), ["fedavg"], **{**QUICK, "references": True})
    assert found.references.local_only is not None
    assert set(found.references.local_only.by_party) == set(found.candidates[0].by_party)
    assert all(value is not None for value in found.references.local_only.by_party.values())


@pytest.mark.slow
def test_P9_a_nearly_even_partition_with_batch_norm_trains_like_the_pooled_rows() -> None:
    from fedskew.profiles import simulate

    table = simulate(blobs([1_000], apart=3.0), "label_dirichlet", alpha=100, num_partitions=10)
    options = {**QUICK, "rounds": 12, "local_epochs": 2, "references": True}
    found = validate(table, ["fedavg"], model="fedskew.engine.law_cases:batch_norm", lr=0.05, batch_size=16, **options)
    assert found.references.centralised is not None
    federated, pooled = found.candidates[0].accuracy.mean, found.references.centralised.accuracy.mean
    assert federated is not None
    assert pooled is not None
    assert pooled > 0.85
    assert abs(federated - pooled) < 0.05


def test_P5_S2_what_is_kept_does_not_grow_with_the_rounds() -> None:
    """500 parties: algorithms without memory keep one model; those with one, a row a party from the start."""
    rng = np.random.default_rng(0)
    data = Data(torch.from_numpy(rng.normal(size=(1_000, 5))), torch.from_numpy(rng.integers(0, 3, 1_000)))
    silos = Federation(data, np.arange(0, 1_001, 2), tuple(map(str, range(500))), np.full((500, 3), 1 / 3))
    how = settings(rounds=6, participation=0.02)
    held: dict[str, list[int]] = {}
    for name in ("fedavg", "scaffold"):
        run = begin(find_algorithm(name), {}, how, [0], federation=silos, model=NETWORKS["mlp"])
        for state in run.rounds():
            size = state.weights.numel() + sum(store.rows.numel() for store in state.own.values())
            held.setdefault(name, []).append(size)
    assert len(set(held["fedavg"])) == len(set(held["scaffold"])) == 1


def test_S2_a_memory_plan_is_told_before_the_start() -> None:
    told: list[Any] = []
    validate(blobs([20] * 30), ["fedavg", "scaffold"], announce=told.append, **QUICK)
    assert len(told) == 1
    assert told[0].bytes > 1_000_000
    assert told[0].lane_steps > 0


def test_S1_the_result_does_not_depend_on_what_runs_beside_it_or_in_which_order() -> None:
    table = blobs([20] * 6)
    both = validate(table, ["scaffold", "fedavg"], participation=0.5, **QUICK)
    alone = validate(table, ["scaffold"], recommended="scaffold", participation=0.5, **QUICK)
    assert both.candidates[1].accuracy == alone.candidates[0].accuracy


def test_S7_an_error_in_a_users_model_is_told_with_its_own_words() -> None:
    with pytest.raises(FedskewError, match="one_weight"):
        validate(blobs([40, 40]), ["fedavg"], model="tests.engine.oracle:one_weight", **QUICK)


@pytest.mark.slow
def test_S8_a_script_can_tell_a_result_from_a_failure_by_the_exit_code(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": np.arange(80) % 7, "y": ["u", "v"] * 40, "p": ["a"] * 40 + ["b"] * 40})
    frame.write_csv(tmp_path / "t.csv")
    words = ["validate", "t.csv", "--label", "y", "--party", "p", "--recommended", "fedavg", "--algorithms", "fedavg"]
    words += [
        "--rounds",
        "2",
        "--seeds",
        "2",
        "--jobs",
        "1",
        "--no-tuning",
        "--no-references",
        "--quiet",
        "--json",
        "-",
    ]
    for more, code in ((["--lr", "1e38"], 1), (["--rounds", "-1"], 2), (["--run", "t.csv"], 3)):
        command = [sys.executable, "-m", "fedskew", *words, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=200)
        assert done.returncode == code, done.stderr
        if code == 1:
            assert json.loads(done.stdout)["verdict"]["kind"] == "all_failed"


def test_O12_no_algorithm_breaks_a_law_that_needs_no_training() -> None:
    for algorithm in ALGORITHMS:
        broken = [r for r in check_algorithm(algorithm, networks=[]) if r.status == "broken"]
        assert broken == [], algorithm.name

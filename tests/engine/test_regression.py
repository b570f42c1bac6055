"""A continuous target is trained by squared error and judged by R², not by the quantile bins it is profiled in."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedskew.engine import validate
from fedskew.engine.algorithms import ALGORITHMS
from fedskew.engine.reading import constant_name, score_name
from fedskew.engine.scores import r_squared
from fedskew.engine.splits import cap_rows, hold_out, prepare
from fedskew.profiles import FedskewError, Holdout, Partition, make_partition, profile
from fedskew.profiles.table import read_table

SLOPES, NOISE = np.array([2.0, -1.0, 0.0]), 0.5
FAST: Any = {"tuning": False, "jobs": 1, "seeds": 2, "model": "linear", "local_epochs": 4, "lr": 0.05, "momentum": 0.0}


def sloped(rows=400, seed=0) -> Partition:
    """y = 2a - b + 100 + noise, more of the large values at one party than at the other."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    y = x @ SLOPES + NOISE * rng.normal(size=rows) + 100
    party = np.where(x[:, 0] + rng.normal(size=rows) > 0, "hill", "vale")
    bins = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))
    return make_partition(x, bins, party, target=y)


def least_squares(table: Partition) -> float:
    """R² on the held-out rows of ordinary least squares on all training rows: what a linear model can reach."""
    data = prepare(table)
    design = np.column_stack([data.x, np.ones(len(data.x))])
    weights = np.linalg.lstsq(design, data.y.astype(np.float64), rcond=None)[0]
    predicted = np.column_stack([data.test_x, np.ones(len(data.test_x))]) @ weights
    found = r_squared(data.test_y.astype(np.float64), predicted)
    assert found is not None
    return found


def test_the_linear_model_comes_to_least_squares():
    found = validate(sloped(), ["fedavg"], rounds=20, **FAST)
    best = least_squares(sloped())
    assert 0.85 < best < 0.99
    assert found.candidates[0].accuracy.mean == pytest.approx(best, abs=0.01)
    assert found.references.centralised is not None
    assert found.references.centralised.accuracy.mean == pytest.approx(best, abs=0.01)
    assert found.references.majority.accuracy.mean == 0.0
    assert (found.settings["metric"], score_name(found), constant_name(found)) == ("r_squared", "R²", "always the mean")
    assert found.candidates[0].macro_f1 is None


def test_every_algorithm_learns_a_slope():
    found = validate(sloped(), rounds=12, references=False, **{**FAST, "lr": 0.02})
    assert len(found.candidates) == len(ALGORITHMS)
    for one in found.candidates:
        assert one.status == "ok", one.algorithm
        assert one.accuracy.curve[0][-1] > one.accuracy.curve[0][0], one.algorithm


def test_a_candidate_no_better_than_the_mean_of_the_target_is_failed():
    """At the rate 30 the weights stay finite, and R² is far below 0."""
    how = {**FAST, "hyper": {"fedprox": {"lr": 30.0}}, "local_epochs": 1}
    found = validate(sloped(), ["fedavg", "fedprox"], rounds=3, references=False, **how)
    fine, wild = found.candidates
    assert (fine.status, fine.constant_seeds) == ("ok", 0)
    assert wild.accuracy.mean is not None
    assert wild.accuracy.mean < 0
    assert (wild.status, wild.constant_seeds, found.verdict.kind) == ("failed", 2, "confirmed")
    other = validate(sloped(), ["fedavg", "fedprox"], recommended="fedprox", rounds=3, references=False, **how)
    assert other.verdict.text.startswith("FedAvg works here and the recommended FedProx does not")


def test_parties_add_up_to_the_whole():
    found = validate(sloped(), ["fedavg"], rounds=3, references=False, **FAST).candidates[0]
    data = prepare(sloped())
    assert data.test_party is not None
    share = np.bincount(data.test_party) / len(data.test_party)
    parts = np.array([found.by_party[name] for name in data.names], np.float64)
    assert found.accuracy.mean == pytest.approx(float(share @ parts), abs=1e-9)


def test_the_target_is_scaled_by_the_training_rows_and_capped_with_them():
    table = sloped()
    data, split = prepare(table, most=100), hold_out(table)
    kept = cap_rows(split, 100)
    assert kept.target is not None
    assert split.test is not None
    assert split.test.target is not None
    assert data.y.dtype == np.float32
    assert data.outputs == 1
    centre, width = kept.target.mean(), kept.target.std()
    np.testing.assert_allclose(data.y * width + centre, kept.target, rtol=1e-5)
    np.testing.assert_allclose(data.test_y * width + centre, split.test.target, rtol=1e-5)


def test_without_the_party_of_the_test_rows_local_models_are_averaged():
    table = sloped()
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 3))
    y = x @ SLOPES + 100
    test = Holdout(x.astype(np.float32), np.zeros(200, np.int64), None, y)
    found = validate(table.with_test(test), ["fedavg"], rounds=20, **FAST)
    assert found.references.local_only is not None
    assert (found.references.local_only.accuracy.mean or 0.0) > 0.8


def test_a_target_of_one_value_among_the_test_rows_is_refused():
    table = sloped()
    test = Holdout(np.zeros((5, 3), np.float32), np.zeros(5, np.int64), None, np.full(5, 7.0))
    with pytest.raises(FedskewError, match="one value among the test rows"):
        validate(table.with_test(test), ["fedavg"], **FAST)
    with pytest.raises(FedskewError, match="the test rows have classes"):
        validate(table.with_test(replace(test, target=None)), ["fedavg"], **FAST)


def test_a_file_with_a_continuous_label_trains_on_it(tmp_path):
    table = sloped()
    for name, part in (("train", slice(0, 300)), ("test", slice(300, 400))):
        lines = ["a,b,c,y,site"]
        names = np.array(table.party_names)[table.party[part]]
        assert table.target is not None
        rows = zip(table.features[part].tolist(), table.target[part].tolist(), names, strict=True)
        lines += [",".join([*map(repr, x), repr(y), party]) for x, y, party in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    read = read_table(tmp_path / "train.csv", label="y", party="site", test=tmp_path / "test.csv")
    assert read.test is not None
    assert table.target is not None
    assert profile(read).task == "regression"
    np.testing.assert_array_equal(read.test.target, table.target[300:])
    assert validate(read, ["fedavg"], rounds=2, references=False, **FAST).settings["metric"] == "r_squared"

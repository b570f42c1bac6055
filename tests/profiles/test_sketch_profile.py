"""The profile of sketches is the profile of the rows, for all that sums can give."""

import os
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedskew.profiles import make_plan, merge, profile, read_table, sketch, summary
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.kernel import projection
from fedskew.profiles.partitions import Column, Partition, make_partition
from fedskew.profiles.records import ConceptSkew
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.pool import pool
from fedskew.profiles.sketching.record import Sketch
from fedskew.profiles.sketching.scanning import scan_file

ROWS_ONLY = ("concept", "prevailing", "hygiene", "measures")
COLUMNS = (
    Column("a", "numeric", 0, 1),
    Column("far", "numeric", 1, 2),
    Column("flag", "numeric", 2, 3),
    Column("k", "categorical", 3, 6, ("u", "v", "w")),
)


@pytest.fixture(autouse=True)
def _without_concept(monkeypatch):
    """Concept shift needs rows and is not compared; it is what a profile spends its time on."""
    nothing = ConceptSkew(skew=None, p_value=None, severity="none", reason="not_sized")
    monkeypatch.setattr(summary, "concept_skew", lambda _: nothing)


def silos(seed: int, parties: int = 4, rows: int = 600, shift: float = 0.3) -> Partition:
    rng = np.random.default_rng(seed)
    party, labels = rng.integers(0, parties, rows), rng.integers(0, 3, rows)
    a = rng.standard_normal(rows) + shift * party + labels
    a[rng.random(rows) < 0.1] = np.nan
    far = 45 + 0.03 * rng.standard_normal(rows) * (1 + party)
    x = np.column_stack([a, far, rng.integers(0, 2, rows), np.eye(3)[rng.choice(3, rows, p=[0.5, 0.3, 0.2])]])
    return make_partition(x, labels, party, columns=COLUMNS)  # categories by their counts, as reading orders them


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """The places where two answers differ by more than 1e-9."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [found for i in range(len(one)) for found in differences(one[i], other[i], f"{path}/{i}")]
    if isinstance(one, float) and isinstance(other, float):
        return [] if abs(one - other) <= 1e-9 * max(1.0, abs(one)) else [f"{path}: {one} {other}"]
    return [] if one == other else [f"{path}: {one} {other}"]


def answer(partition_or_sketches: Any) -> dict[str, Any]:
    found = msgspec.to_builtins(profile(partition_or_sketches))
    assert isinstance(found, dict)
    return {key: value for key, value in found.items() if key not in ROWS_ONLY}


@pytest.mark.parametrize("seed", [0, 1])
def test_sketches_with_a_plan_give_every_number_of_the_pooled_rows(seed):
    toy = silos(seed)
    planned = sketch(toy, make_plan(sketch(toy)))
    assert differences(answer(toy), answer(planned)) == []


def test_sketches_without_a_plan_give_all_but_the_joint_index():
    toy = silos(2)
    rows, sums = answer(toy), answer(sketch(toy))
    assert sums["feature"]["reason"] == "needs_plan"
    assert differences(rows["feature"].pop("by_feature"), sums["feature"].pop("by_feature")) == []
    del rows["feature"], sums["feature"]
    assert differences(rows, sums) == []
    assert profile(sketch(toy)).concept.reason == "needs_rows"


def test_the_plan_is_the_projection_of_the_pooled_rows():
    toy = silos(3)
    one, other = projection(toy), make_plan(sketch(toy)).projection()
    assert np.array_equal(one.how.shift, other.how.shift)
    assert np.array_equal(one.how.scale, other.how.scale)
    assert np.array_equal(one.frequencies, other.frequencies)


def test_hygiene_that_sums_support_is_that_of_the_rows():
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.standard_normal(200), np.full(200, 3.0), 1e4 * rng.standard_normal(200)])
    party = np.repeat(["a", "b", "c"], [100, 99, 1])
    x[:60, 0] = np.nan
    labels = np.where(party == "b", 1, rng.integers(0, 2, 200))
    toy = make_partition(x, labels, party)
    wanted = [finding for finding in profile(toy).hygiene if finding.code != "duplicate_rows"]
    found = profile(sketch(toy)).hygiene
    assert {finding.code for finding in wanted} == {
        "constant_columns",
        "unscaled_columns",
        "missingness_skew",
        "one_class_parties",
        "tiny_parties",
    }
    assert all(finding in found for finding in wanted)


@settings(max_examples=int(os.environ.get("FEDSKEW_EXAMPLES", "25")))
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from([0.0, 1.0, -3.5, 1e6, float("nan")])),
        min_size=1,
        max_size=40,
    )
)
@example([(0, 0, 1.0), (0, 0, 1.0), (0, 1, 1.0), (1, 0, -3.5), (1, 0, -3.5)])  # no spread within parties: one point
def test_any_small_silos_profile_alike_also_empty_and_one_row_ones(rows):
    party, labels, x = (np.array(values) for values in zip(*rows, strict=True))
    names = ("empty", "one", "p", "q", "r")
    toy = make_partition(x[:, None].astype(np.float32), labels, party, party_names=names, class_names=("x", "y", "z"))
    used = tuple(n for n, rows in zip(toy.class_names, toy.counts.sum(axis=0), strict=True) if rows)
    toy = make_partition(
        toy.features, np.searchsorted(np.unique(labels), toy.labels), toy.party, party_names=names, class_names=used
    )
    sketches = sketch(toy)
    assert len(sketches) == 5
    planned = sketch(toy, make_plan(sketches)) if pool(sketches).columns else sketches
    rows_answer, sums = answer(toy), answer(planned)
    if not pool(sketches).columns:  # a column without one value is no column to a sketch
        for found in (rows_answer, sums):
            del found["feature"], found["features"]
    assert differences(rows_answer, sums) == []


def test_parts_of_a_silo_merge_to_the_same_profile():
    toy = silos(5)
    half = np.arange(toy.rows) % 2 == 0
    parts = [
        make_partition(
            toy.features[which],
            toy.labels[which],
            toy.party[which],
            party_names=toy.party_names,
            class_names=toy.class_names,
            columns=COLUMNS,
        )
        for which in (half, ~half)
    ]
    plan = make_plan([merge(*pair) for pair in zip(*map(sketch, parts), strict=True)])
    assert plan == make_plan(sketch(toy)) or plan.variance == pytest.approx(make_plan(sketch(toy)).variance, rel=1e-12)
    first, second = (sketch(part, plan) for part in parts)
    assert differences(answer(toy), answer([merge(*pair) for pair in zip(first, second, strict=True)])) == []


def test_rows_of_a_large_party_are_sampled_alike_in_parts():
    toy = silos(6)
    plan = make_plan(sketch(toy), most_rows=100)
    whole = sketch(toy, plan)
    entered = {one.party: sum(c.kernel.rows for c in one.classes if c.kernel) for one in whole}
    assert all(60 < rows < 140 for rows in entered.values())
    half = np.arange(toy.rows) % 3 == 0
    parts = [
        make_partition(
            toy.features[w],
            toy.labels[w],
            toy.party[w],
            party_names=toy.party_names,
            class_names=toy.class_names,
            columns=COLUMNS,
        )
        for w in (half, ~half)
    ]
    for one, first, second in zip(whole, *(sketch(part, plan) for part in parts), strict=True):
        both = merge(first, second)
        assert [c.kernel.rows for c in one.classes if c.kernel] == [c.kernel.rows for c in both.classes if c.kernel]


def test_a_feature_shift_from_sketches_says_that_it_may_be_concept_shift():
    toy = silos(7, shift=1.0)
    found = profile(sketch(toy, make_plan(sketch(toy))))
    assert found.feature.severity == "strong"
    assert "may_be_concept_shift" in {finding.code for finding in found.hygiene}


def test_images_are_sketched_by_their_labels():
    images = np.zeros((40, 8, 8), np.uint8)
    toy = make_partition(images, np.arange(40) % 2, np.repeat(["a", "b"], 20))
    found = profile(sketch(toy))
    assert found.modality == "image"
    assert found.feature.reason == "needs_rows"
    assert found.label.skew == pytest.approx(profile(toy).label.skew)


def test_what_cannot_be_profiled_is_refused():
    one = sketch(silos(8))
    for wrong, match in (
        ([], "no sketch"),
        ([one[0], one[0]], "two sketches are of the party"),
        ([Sketch(party="a"), Sketch(party="b")], "no sketch holds a row"),
    ):
        with pytest.raises(FedskewError, match=match):
            profile(wrong)
    plan = make_plan(one)
    with pytest.raises(FedskewError, match="different plans"):
        profile([sketch(silos(8), plan)[0], one[1]])


def test_a_class_that_the_plan_has_not_is_named():
    toy = silos(9)
    plan = msgspec.structs.replace(make_plan(sketch(toy)), class_names=("0", "1"))
    with pytest.raises(FedskewError, match="has a class that the plan has not: '2'"):
        sketch(toy, plan)


def test_silos_that_differ_in_nothing_but_the_name_are_flagged():
    x = np.random.default_rng(10).standard_normal((30, 2))
    toy = make_partition(np.concatenate([x, x, 2 * x]), np.arange(90) % 2, np.repeat(["a", "b", "c"], 30))
    flagged = {finding.code: finding.parties for finding in profile(sketch(toy)).hygiene}
    assert flagged["duplicate_silos"] == ("a", "b")


def test_columns_that_some_silos_lack_are_reported_and_count_as_missing():
    rng = np.random.default_rng(11)
    one = sketch(make_partition(rng.standard_normal((30, 2)), np.arange(30) % 2, ["a"] * 30))
    other = sketch(make_partition(rng.standard_normal((30, 1)), np.arange(30) % 2, ["b"] * 30))
    found = profile([*one, *other])
    flagged = {finding.code: finding for finding in found.hygiene}
    assert flagged["schema_mismatch"].parties == ("b",)
    assert flagged["missingness_skew"].parties == ("b",)
    assert [shift.name for shift in found.feature.by_feature] == ["x0", "x1"]


@pytest.mark.slow
def test_real_silos_profile_alike(data_file):
    toy = read_table(data_file("mplsstops.parquet"), label="problem", party="policePrecinct")
    planned = sketch(toy, make_plan(sketch(toy)))
    assert differences(answer(toy), answer(planned)) == []


def spelled(path, labels, mixed="12"):
    rng = np.random.default_rng(len(str(path)))
    rows = [f"{rng.normal():.3f},{labels[i % len(labels)]},{mixed[i % len(mixed)]}" for i in range(60)]
    path.write_text("\n".join(["x,label,mix", *rows]) + "\n")
    return path


def second_round(paths):
    """The sketches of silo files after both rounds, and the plan."""
    first = [one for path in paths for one in scan_file(path, Wanted(label="label", party_name=path.stem), None)]
    plan = make_plan(first)
    second = [one for path in paths for one in scan_file(path, Wanted(label="label", party_name=path.stem), plan)]
    return first, plan, second


def test_a_silo_with_holes_in_its_label_has_the_classes_of_the_others(tmp_path):
    paths = [spelled(tmp_path / "a.csv", ["1", "2", "03"]), spelled(tmp_path / "b.csv", ["1.0", "2.0", "03"])]
    first, plan, second = second_round(paths)
    rows = profile(read_table(paths, label="label"))
    assert plan.class_names == rows.class_names == ("1", "2", "03")
    for sums in (profile(first), profile(second)):
        assert sums.class_names == rows.class_names
        assert sums.label.skew == pytest.approx(rows.label.skew)
        assert sums.prevailing.kind == rows.prevailing.kind == "none"
    assert profile(second).feature.skew == pytest.approx(rows.feature.skew, abs=1e-6)


def test_both_spellings_in_one_silo_are_one_class(tmp_path):
    paths = [spelled(tmp_path / "a.csv", ["1", "1.0", "2"]), spelled(tmp_path / "b.csv", ["1", "2", "2"])]
    rows, (first, _, second) = profile(read_table(paths, label="label")), second_round(paths)
    assert rows.class_names == ("1", "2")
    for sums in (profile(first), profile(second)):
        assert sums.counts == rows.counts


def test_a_column_of_two_kinds_is_told_of_after_the_second_round_too(tmp_path):
    paths = [spelled(tmp_path / "a.csv", ["u", "v"], "123"), spelled(tmp_path / "b.csv", ["u", "v"], "12x")]
    first, plan, second = second_round(paths)
    assert [column.name for column in plan.columns] == ["x"]
    assert plan.left_out == {"mix": "mixed_types"}
    for sums in (profile(first), profile(second)):
        (told,) = (finding.text for finding in sums.hygiene if finding.code == "unused_column")
        assert "column 'mix' is not used: numbers in some silos, text in others" in told

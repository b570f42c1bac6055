"""The laws of merging, on any silos: empty ones, one-row ones, missing values, columns that do not match."""

import os
import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.histogram import bin_numbers, bin_places, bits_between, coarser
from fedskew.profiles.moments import merged, moments_of, no_moments, pooled
from fedskew.profiles.partitions import Column, make_partition
from fedskew.profiles.sketching.file import encoded
from fedskew.profiles.sketching.making import party_sketch, sketch
from fedskew.profiles.sketching.merging import merge
from fedskew.profiles.sketching.record import ClassCells, ColumnHead, KernelCell, NumericCell, Sketch

EXAMPLES = int(os.environ.get("FEDSKEW_EXAMPLES", "40"))
COLUMNS = (Column("a", "numeric", 0, 1), Column("b", "numeric", 1, 2), Column("k", "categorical", 2, 4, ("u", "v")))
EMPTY = Sketch(party="p")
VALUES = st.one_of(
    st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), 3e38, -1e-30, 44.97]),
)


@st.composite
def rows(draw, most=12):
    """Features (n, 4) float32 and labels of one party; often none or one row."""
    n = draw(st.sampled_from([0, 1, 2, most]))
    features = np.array(
        [
            [draw(VALUES), draw(st.sampled_from([0.0, 1.0])), *draw(st.sampled_from([(1, 0), (0, 1), (0, 0)]))]
            for _ in range(n)
        ],
        np.float32,
    ).reshape(n, 4)
    return features, np.array([draw(st.integers(0, 2)) for _ in range(n)], np.int64)


def sketched(part) -> Sketch:
    return party_sketch("p", COLUMNS, part[0], part[1], ("x", "y", "z"))


def numbers(one: Sketch):
    """Everything but floats, then the floats by place."""
    exact = msgspec.to_builtins(one)
    floats = {}
    for cells in exact["classes"]:
        for name, cell in cells["numeric"].items():
            floats[cells["name"], name] = [cell["n"], *(cell.pop(key) for key in ("mean", "m2", "m3", "m4"))]
    return exact, floats


def assert_same(one: Sketch, other: Sketch) -> None:
    (exact, floats), (other_exact, other_floats) = numbers(one), numbers(other)
    assert exact == other_exact
    for key, (n, mean, m2, m3, m4) in floats.items():
        _, mean_2, m2_2, m3_2, m4_2 = other_floats[key]
        size = max(abs(mean), (m2 / n) ** 0.5, (m4 / n) ** 0.25)
        assert mean_2 == pytest.approx(mean, rel=1e-12, abs=1e-12 * size)
        # a sum of powers carries the rounding of values that may be far from their mean
        for power, found, wanted in ((2, m2_2, m2), (3, m3_2, m3), (4, m4_2, m4)):
            assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12 * n * size**power)


@settings(max_examples=EXAMPLES)
@given(rows(), rows())
def test_merge_is_commutative_to_the_last_bit(one, other):
    first, second = sketched(one), sketched(other)
    assert msgspec.json.encode(merge(first, second)) == msgspec.json.encode(merge(second, first))


@settings(max_examples=EXAMPLES)
@given(rows(), rows(), rows())
def test_merge_is_associative(one, two, three):
    a, b, c = sketched(one), sketched(two), sketched(three)
    assert_same(merge(merge(a, b), c), merge(a, merge(b, c)))


@settings(max_examples=EXAMPLES)
@given(rows())
def test_an_empty_sketch_changes_nothing(part):
    one = sketched(part)
    nothing = sketched((np.zeros((0, 4), np.float32), np.zeros(0, np.int64)))
    for empty in (EMPTY, nothing):
        assert merge(one, empty) == one
        assert merge(empty, one) == one


@settings(max_examples=EXAMPLES)
@given(rows(), rows())
def test_the_sketch_of_all_rows_is_the_merge_of_the_sketches(one, other):
    both = np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])
    assert_same(sketched(both), merge(sketched(one), sketched(other)))


@settings(max_examples=EXAMPLES)
@given(st.lists(VALUES.filter(np.isfinite), min_size=1, max_size=30), st.integers(0, 23), st.integers(0, 23))
def test_coarser_bins_are_unions_of_finer_ones(values, one, other):
    x = np.array(values, np.float32)
    fine, coarse = max(one, other), min(one, other)
    assert np.array_equal(coarser(bin_numbers(x, fine).astype(np.int64), fine, coarse), bin_numbers(x, coarse))
    assert np.array_equal(bin_numbers(np.sort(x), fine), np.sort(bin_numbers(x, fine)))


@settings(max_examples=EXAMPLES)
@given(st.lists(VALUES.filter(np.isfinite), min_size=1, max_size=30))
def test_a_bin_lies_at_its_edge_nearest_zero(values):
    x = np.array(values, np.float32)
    bits = bits_between(float(x.min()), float(x.max()))
    places = bin_places(bin_numbers(x, bits).astype(np.int64), bits)
    big = np.abs(x) >= 2.0**-48
    assert np.all(np.abs(places[big]) <= np.abs(x[big]))
    np.testing.assert_allclose(places[big], x[big], rtol=2.0**-bits)


def test_moments_merge_to_what_numpy_finds():
    rng = np.random.default_rng(0)
    x = 1e6 + 0.1 * rng.standard_normal((1000, 1))
    parts = moments_of(x, np.array([0, 1, 500, 999]))
    whole = no_moments(1)
    for part in range(4):
        whole = merged(whole, parts[:, part])
    deviation = x - x.mean()
    wanted = [1000, x.mean(), *((deviation**k).sum() for k in (2, 3, 4))]
    scale = [1, 1e6, *(1000 * 0.1**k for k in (2, 3, 4))]
    for found in (whole[:, 0], pooled(parts)[:, 0]):
        np.testing.assert_allclose((found - wanted) / scale, 0, atol=1e-7)  # of the spread; 1e-14 of the values


def test_moments_merge_alike_in_both_orders():
    """Many at once: numpy's own power differs between a number and its negative once in twenty, on some processors."""
    rng = np.random.default_rng(1)
    one, other = moments_of(rng.uniform(-1e6, 1e6, (6, 10_000)), np.array([0, 2])).transpose(1, 0, 2)
    assert merged(one, other).tobytes() == merged(other, one).tobytes()


def test_columns_of_different_kinds_cannot_be_used_and_say_so():
    number = Sketch(party="p", columns=(ColumnHead(name="a", place=0, kind="numeric"),))
    text = Sketch(party="p", columns=(ColumnHead(name="a", place=0, kind="categorical"),))
    dates = Sketch(party="p", columns=(ColumnHead(name="a", place=0, kind="unused", reason="dates"),))
    assert merge(number, text).columns[0].reason == "mixed_types"
    assert merge(merge(number, text), dates) == merge(number, merge(text, dates))
    assert merge(number, dates).columns[0].reason == "dates"


def test_a_column_that_one_part_lacks_is_padded():
    x = np.array([[1.0], [2.0]], np.float32)
    one = party_sketch("p", (Column("a", "numeric", 0, 1),), x, np.array([0, 0]), ("x",))
    other = party_sketch("p", (Column("b", "numeric", 0, 1),), x, np.array([0, 0]), ("x",))
    both = merge(one, other)
    assert {head.name for head in both.columns} == {"a", "b"}
    assert both.classes[0].rows == 4
    assert both.classes[0].numeric["a"].n == 2


def test_what_cannot_be_merged_is_refused():
    with pytest.raises(FedskewError, match="of one party"):
        merge(EMPTY, Sketch(party="q"))
    held = Sketch(party="p", classes=(ClassCells(name="x", rows=1),), plan="a" * 64)
    with pytest.raises(FedskewError, match="different plans"):
        merge(held, msgspec.structs.replace(held, plan="b" * 64))


def test_kernel_sums_add():
    one = KernelCell(rows=1, sums=np.ones(128).tobytes(), second=np.ones(8256).tobytes())
    part = Sketch(party="p", classes=(ClassCells(name="x", rows=1, kernel=one),))
    kernel = merge(part, part).classes[0].kernel
    assert kernel is not None
    assert kernel.rows == 2
    assert np.frombuffer(kernel.sums)[0] == 2.0


def test_any_order_of_silos_writes_the_same_bytes():
    rng = np.random.default_rng(1)
    toy = make_partition(rng.standard_normal((60, 2)), rng.integers(0, 2, 60), rng.integers(0, 6, 60))
    silos = list(sketch(toy))
    wanted = encoded(silos)
    for _ in range(5):
        random.Random(3).shuffle(silos)
        assert encoded(silos) == wanted


def test_a_cell_of_one_value_is_what_one_would_write_by_hand():
    (only,) = sketch(make_partition(np.array([[3.0], [5.0]]), ["x", "x"], ["p", "p"]))
    assert only.classes[0].numeric["x0"] == NumericCell(
        n=2, mean=4.0, m2=2.0, m3=0.0, m4=2.0, bins=only.classes[0].numeric["x0"].bins, counts=(1, 1)
    )

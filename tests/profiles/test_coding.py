"""Label and party columns: names, bins, ids."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedskew.profiles import FedskewError, read_table
from fedskew.profiles.coding import Coded, align, code_labels, code_names

N = 60


def labels_of(column: Any, task: Any = None) -> Coded:
    return code_labels(pl.Series("y", column), "t.csv", task)


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (["cat", "dog"] * 30, ("cat", "dog")),
        (["1", "10", "2"] * 20, ("1", "2", "10")),
        ([1, 10, 2] * 20, ("1", "2", "10")),
        ([1.0, 2.0] * 30, ("1.0", "2.0")),
        ([True, False] * 30, ("false", "true")),
        (["True", "False"] * 30, ("false", "true")),
        (["a", "A"] * 30, ("A", "a")),
        (["1", "1.0", "2"] * 20, ("1", "2")),
        ([" a", "a "] * 30, ("a",)),
        (["NA", "None", "?"] * 20, ("?", "NA", "None")),
    ],
)
def test_names_are_the_users_whatever_the_type(column: Any, names: Any) -> None:
    coded = labels_of(column)
    assert names == coded.names
    assert (coded.codes >= 0).all()
    spelled = [names[code] for code in coded.codes]
    plain = {"True": "true", "False": "false", "1.0": "1" if "1" in names else "1.0"}
    assert [plain.get(str(value).strip(), str(value).strip()) for value in column] == spelled


@pytest.mark.parametrize("missing", [None, "", "nan", "NaN", "null", "NULL", " "])
def test_empty_null_and_nan_are_no_label(missing: Any) -> None:
    assert labels_of([missing, "a", "b"] * 20).codes.tolist() == [-1, 0, 1] * 20


@pytest.mark.parametrize("column", [list(range(N)), [f"u{i}" for i in range(N)]])
def test_a_label_that_is_different_in_every_row_is_an_id(column: Any) -> None:
    with pytest.raises(FedskewError, match="label column 'y' looks like an id"):
        labels_of(column)


def test_a_column_with_thousands_of_names_for_few_rows_is_an_id() -> None:
    column = pl.Series("who", [i % 1500 for i in range(2500)])
    for what in ("label", "party"):
        with pytest.raises(FedskewError, match="1500 values in 2500 rows"):
            code_names(column, what, "t.csv")
    assert len(code_names(pl.Series("who", list(range(900))), "party", "t.csv").names) == 900


def test_a_million_different_labels_are_refused_at_once() -> None:
    with pytest.raises(FedskewError, match="looks like an id"):
        code_names(pl.Series("y", np.arange(2_000_000) // 2 % 1_000_000), "label", "t.csv")


def test_floats_with_more_than_twenty_values_are_a_target_in_equal_bins() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    coded = labels_of(values)
    assert np.bincount(coded.codes).tolist() == [200] * 5
    edges = np.quantile(values, [0.2, 0.4, 0.6, 0.8])
    assert [np.sum(value > edges) for value in values] == coded.codes.tolist()
    np.testing.assert_array_equal(values, coded.target)
    assert coded.names[0] == f"(-inf, {edges[0]:.6g}]"
    assert coded.names[4] == f"({edges[3]:.6g}, inf)"


def test_twenty_float_values_whole_numbers_and_texts_are_classes() -> None:
    assert labels_of([i / 2 for i in range(20)] * 3).target is None
    assert labels_of([i % 30 for i in range(N)]).target is None
    assert labels_of([f"{i % 30 / 2}" for i in range(N)]).target is not None
    assert labels_of([f"{i % 30 / 2}" for i in range(N)], "classification").names[0] == "0.0"


def test_regression_may_be_asked_for_and_needs_numbers() -> None:
    assert labels_of(list(range(N)), "regression").names[0] == "(-inf, 11.8]"
    assert labels_of([3.0] * N, "regression").names == ("(-inf, inf)",)
    missing = labels_of([float("nan"), float("inf"), *range(N)], "regression")
    assert missing.codes[:3].tolist() == [-1, -1, 0]
    with pytest.raises(FedskewError, match="not numeric"):
        labels_of(["a", "b"] * 30, "regression")


@given(st.lists(st.floats(-1e6, 1e6), min_size=25, max_size=200))
def test_every_value_of_a_target_lies_in_its_bin(values: Any) -> None:
    coded = labels_of(values, "regression")
    ends = [-np.inf, *np.asarray(coded.edges), np.inf]
    assert len(set(coded.names)) == len(coded.names) == len(ends) - 1
    for value, code in zip(values, coded.codes, strict=True):
        assert ends[code] < value <= ends[code + 1]


def test_test_names_are_aligned_by_name_and_new_ones_appended() -> None:
    codes, names = align(Coded(np.array([0, 1, 2, -1]), ("1.0", "2", "zebra")), ("1", "2.0"))
    assert codes.tolist() == [0, 1, 2, -1]
    assert names == ("1", "2.0", "zebra")


def test_rows_without_label_or_party_are_left_out_counted_and_named() -> None:
    frame = pl.DataFrame(
        {"y": ["a", None, "b", "a", None], "site": ["A", "A", "B", None, None], "x": [1.5, 2, 3, 4, 5]}
    )
    part = read_table(frame, label="y", party="site")
    assert part.features.ravel().tolist() == [1.5, 3]
    told = {finding.code: finding for finding in part.findings}
    assert (told["missing_labels"].count, told["missing_labels"].parties) == (2, ("A",))
    assert (told["missing_party"].count, told["missing_party"].parties) == (2, ())

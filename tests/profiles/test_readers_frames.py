"""Tables in memory: pandas, polars and numpy give what the files give."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fedskew.profiles import FedskewError, read_table

ROWS: dict[str, Any] = {
    "num": [1.5, 2.0, None, 4.0, 0.5, 2.5],
    "cat": ["u", "v", "u", None, "v", "u"],
    "flag": [True, False, True, True, False, False],
    "site": ["B", "A", "A", "B", "B", "A"],
    "y": [10, 9, 9, 10, 9, 10],
}
NAMES: dict[str, Any] = {"label": "y", "party": "site"}


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.party, other.party)
    assert (one.class_names, one.party_names, one.columns) == (other.class_names, other.party_names, other.columns)


def test_the_encoded_table_is_the_one_worked_out_by_hand() -> None:
    part = read_table(pl.DataFrame(ROWS), **NAMES)
    assert (part.party_names, part.class_names) == (("A", "B"), ("9", "10"))
    assert part.labels.tolist() == [0, 0, 1, 1, 1, 0]
    expected = [[2, 0, 1, 0], [np.nan, 1, 0, 1], [2.5, 1, 0, 0], [1.5, 1, 0, 1], [4, 0, 0, 1], [0.5, 0, 1, 0]]
    np.testing.assert_array_equal(np.array(expected, np.float32), part.features)
    assert part.columns[1].categories == ("u", "v")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"cat": "category", "site": "category"},
        {"cat": "string", "y": "Int64", "flag": "boolean", "num": "Float64"},
        {"y": "category"},
        {"flag": object, "y": object},
    ],
)
def test_pandas_types_do_not_matter(change: Any) -> None:
    same(read_table(pl.DataFrame(ROWS), **NAMES), read_table(pd.DataFrame(ROWS).astype(change), **NAMES))


def test_lazy_frames_index_columns_and_arrays_by_column_read_the_same() -> None:
    expected = read_table(pl.DataFrame(ROWS), **NAMES)
    same(expected, read_table(pl.DataFrame(ROWS).lazy(), **NAMES))
    same(expected, read_table({name: np.array(values, dtype=object) for name, values in ROWS.items()}, **NAMES))
    by_site = pd.DataFrame(ROWS).set_index("site")
    same(expected, read_table(by_site, **NAMES))


def test_a_dict_of_frames_is_one_silo_each() -> None:
    frame = pd.DataFrame(ROWS)
    silos = {name: part.drop(columns="site") for name, part in frame.groupby("site")}
    same(read_table(frame, **NAMES), read_table(silos, label="y"))


def test_arrays_are_taken_as_a_dict_or_a_tuple() -> None:
    x, y, party = np.eye(4), np.array(["a", "b", "a", "b"]), np.array([1, 0, 0, 1])
    same(read_table((x, y, party)), read_table({"X": x, "Y": y, "party": party}))
    assert read_table((x, y, party)).features.tolist() == x[[1, 2, 0, 3]].tolist()
    part: Any = read_table({"X_train": x, "y_train": y, "X_test": x[:1], "y_test": y[1:2]}, partitioned=False)
    assert (part.test.features.tolist(), part.test.labels.tolist()) == ([[1, 0, 0, 0]], [1])


@pytest.mark.parametrize("kind", [list, lambda column: np.array(column, object)])
@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_label_or_a_party_may_be_missing_in_any_row(kind: Any, missing: Any, at: int) -> None:
    x, labels, sites = np.arange(12).reshape(6, 2), ["k0", "k1"] * 3, ["b", "b", "a", "a", "b", "a"]
    for what in ("label", "party"):
        columns = {"label": list(labels), "party": list(sites)}
        columns[what][at] = missing
        y, party = map(kind, columns.values())
        part = read_table((x, y, party))
        assert (part.rows, part.class_names, part.party_names) == (5, ("k0", "k1"), ("a", "b"))
        assert [f.text for f in part.findings] == [f"1 of 6 rows have no {what} and were left out"]


def test_a_test_part_that_another_test_table_replaces_is_told() -> None:
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    whole = {"X_train": x, "y_train": y, "X_test": x[:4] + 50, "y_test": y[:4]}
    part: Any = read_table(whole, test=(x[:1] + 70, y[1:2]), partitioned=False)
    assert part.test.features.tolist() == [[70, 71]]
    (told,) = (finding for finding in part.findings if finding.code == "unused_test")
    assert (told.count, told.severity) == (4, "mild")
    assert told.text.startswith("the 4 test rows that come with ")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "NoneType"),
        (5, "type int"),
        ([], "no source"),
        ({"a": np.eye(2)}, "1-D columns"),
        ({"a": [1, 2], "b": [1]}, "different lengths"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' twice"),
    ],
)
def test_other_sources_are_refused_in_one_line(source: Any, message: Any) -> None:
    with pytest.raises(FedskewError, match=message):
        read_table(source, label="a", party="b")


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(FedskewError, match=r"'y' has shape \(2,\); 'x' has 3 rows"):
        read_table((np.eye(3), [1, 2]))

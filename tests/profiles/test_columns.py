"""Which columns become features, and how."""

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedskew.profiles import profile, read_table
from fedskew.profiles.columns import encode_training, group_rows, names_party, numbers
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.scanning import scan_file

N = 60
SITE = ["A", "B", "C"] * (N // 3)
Y = ["yes", "no"] * (N // 2)


def part_of(column: Any, **options: Any) -> Any:
    return read_table(pl.DataFrame({"c": column, "y": Y, "site": SITE}), label="y", party="site", **options)


def told(part: Any) -> dict[str, str]:
    return {finding.code: finding.text for finding in part.findings}


@pytest.mark.parametrize("text", ["1", "+1", "1.", " 1 ", "1e0", "001"])
def test_texts_that_say_one_are_the_number_one(text: Any) -> None:
    np.testing.assert_array_equal([1.0, 2.0], np.asarray(numbers(pl.Series([text, "2"]))))


@pytest.mark.parametrize("text", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", " ? "])
def test_missing_values_have_these_spellings(text: Any) -> None:
    np.testing.assert_array_equal([np.nan, 2.0], numbers(pl.Series([text, "2"])))
    part = part_of([text, "u", "v"] * (N // 3), features=["c"])
    assert part.columns[0].categories == ("u", "v")
    assert part.features.sum() == 2 * N / 3
    assert "20 missing values" in told(part)["missing_values"]


@pytest.mark.parametrize("text", ["one", "1,5", "0x1", "1_000", "-"])
def test_other_texts_are_no_numbers(text: Any) -> None:
    assert numbers(pl.Series([text, "2"])) is None


def test_infinite_and_too_large_numbers_are_missing_and_counted() -> None:
    part = part_of([float("inf"), 1e39, -float("inf"), *([1.0, 2.0, 2.0] * 19)])
    assert np.isnan(part.features).sum() == 3
    assert "'c' (3)" in told(part)["non_finite"]
    assert "missing_values" not in told(part)


def test_booleans_become_one_and_zero() -> None:
    for column in ([True, False, None] * 20, ["true", "False", "NA"] * 20):
        part = part_of(column, features=["c"])
        assert part.columns[0].kind == "numeric"
        assert sorted(set(part.features[~np.isnan(part.features)].tolist())) == [0, 1]


def test_the_fifty_most_frequent_categories_get_a_feature_ties_by_name() -> None:
    names = [f"k{i:02}" for i in range(55)]
    part = part_of(["k54"] * 5 + names, features=["c"])
    assert part.columns[0].categories == ("k54", *names[:49])
    assert part.features.shape == (N, 50)
    assert part.features.sum(axis=0).tolist() == [6] + [1] * 49
    assert "'c' (5)" in told(part)["rare_categories"]


def test_a_rare_category_is_no_missing_value(tmp_path) -> None:
    """Silo A uses rare towns and lacks none: neither the rows nor a sketch of the file call that missing."""
    rng = np.random.default_rng(0)
    site = np.repeat(["A", "B"], 1500)
    town = np.where(site == "A", rng.integers(0, 90, 3000), rng.integers(0, 40, 3000))
    frame = pl.DataFrame({"town": [f"t{t:02}" for t in town], "y": rng.integers(0, 2, 3000).astype(str), "site": site})
    frame.write_csv(tmp_path / "all.csv")
    rows = profile(read_table(frame, label="y", party="site"))
    sums = profile(scan_file(tmp_path / "all.csv", Wanted("y", "site")))
    for found in (rows, sums):
        assert {"rare_categories"} <= {one.code for one in found.hygiene}
        assert not {"missing_values", "missingness_skew"} & {one.code for one in found.hygiene}


def test_one_stray_text_makes_a_column_text_and_is_named() -> None:
    part = part_of(["1", "2", "2", "oops"] + ["1", "2"] * 28)
    assert part.columns[0].kind == "categorical"
    assert "1 of 60 values are no numbers, such as 'oops'" in told(part)["mixed_types"]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ([f"u{i}" for i in range(N)], "60 different texts in 60 values"),
        ([f"u{i // 2}" for i in range(N - 10)] + [f"v{i}" for i in range(10)], "35 different texts in 60 values"),
        ([f"{i},5" for i in range(N)], "decimal comma"),
        (list(range(N)), "numbers the rows"),
        ([i * 2 - 7 for i in range(N)], "numbers the rows"),
        ([f"{i}.0" for i in range(N)], "numbers the rows"),
        ([i // 3 for i in range(N)], "numbers the rows"),
        ([None] * N, "all its values are missing"),
        (["NA", "", "?"] * 20, "all its values are missing"),
        ([dt.date(2020, 1, 1), dt.date(2020, 1, 2)] * 30, "dates or times"),
        ([dt.timedelta(1)] * N, "dates or times"),
        (["2020-01-01 10:00:00+00:00", "2020-01-02T10:00"] * 30, "dates or times"),
        ([[1]] * N, "its type is List"),
        ([b"a"] * N, "its type is Binary"),
    ],
)
def test_a_column_that_says_nothing_is_not_used_and_named(column: Any, reason: Any) -> None:
    part = part_of(column)
    assert part.features.shape == (N, 0)
    assert reason in told(part)["unused_column"]
    assert "column 'c'" in told(part)["unused_column"]
    assert "no_features" in told(part)


def test_a_column_that_was_asked_for_is_used_though_it_looks_like_an_id() -> None:
    assert part_of(list(range(N)), features=["c"]).features.shape == (N, 1)


def test_a_column_that_names_the_party_is_not_used() -> None:
    names = {"A": "north", "B": "south", "C": "south"}
    for column in ([names[site] for site in SITE], [len(names[site]) + ord(site) for site in SITE]):
        part = part_of(column)
        assert part.features.shape == (N, 0)
        assert "'c'" in told(part)["names_the_party"]
        assert part_of(column, features="c").features.shape[1] > 0


def test_a_column_that_is_constant_everywhere_or_differs_by_chance_names_no_party() -> None:
    groups = group_rows(np.array([0] * 6 + [1] * 6 + [2]))
    assert names_party(np.array([1.0] * 6 + [2.0] * 6 + [1.0]), groups)
    assert names_party(np.array([np.nan] * 6 + [2.0] * 7), groups)
    assert not names_party(np.array([1.0] * 13), groups)
    assert not names_party(np.array([1.0] * 12 + [2.0]), groups)  # only the party of one row differs
    assert not names_party(np.array([1.0] * 5 + [3.0] + [2.0] * 7), groups)
    assert not names_party(np.array([1.0, 1, 2, 2]), group_rows(np.array([0, 0, 1, 1])))  # four rows prove nothing


def test_parquet_types_become_numbers_or_categories() -> None:
    frame = pl.DataFrame(
        {
            "dec": pl.Series(["1.5", "2.25"] * 30).cast(pl.Decimal(10, 2)),
            "cat": pl.Series(["u", "v", "v", "w"] * 15, dtype=pl.Categorical),
            "enum": pl.Series(["u", "v", "v"] * 20, dtype=pl.Enum(["v", "u"])),
            "small": pl.Series([1, -2] * 30, dtype=pl.Int8),
        }
    )
    matrix, columns, _ = encode_training(frame, group_rows(np.zeros(N, np.int64)))
    assert [column.kind for column in columns] == ["numeric", "categorical", "categorical", "numeric"]
    assert columns[1].categories == ("v", "u", "w")
    assert matrix[:2].tolist() == [[1.5, 0, 1, 0, 0, 1, 1], [2.25, 1, 0, 0, 1, 0, -2]]


def test_a_missing_value_is_one_pattern_of_bits() -> None:
    part = part_of([-float("nan"), None, float("nan"), *[0.5, 2.0, 7.0] * (N // 3 - 1)])
    missing = part.features[np.isnan(part.features)]
    assert missing.view(np.uint32).tolist() == [0x7FC00000] * 3


values = st.one_of(
    st.lists(st.none() | st.floats(width=64), min_size=12, max_size=40),
    st.lists(st.none() | st.integers(-(2**62), 2**62), min_size=12, max_size=40),
    st.lists(st.none() | st.booleans(), min_size=12, max_size=40),
    st.lists(st.none() | st.sampled_from(["a", "B ", 'q"', ",", "x\ny", "1", "?", "é"]), min_size=12, max_size=40),
    st.lists(st.none() | st.dates(min_value=dt.date(1000, 1, 1)), min_size=12, max_size=40),
)


@given(values)
def test_csv_and_parquet_of_one_table_give_the_same_bytes(tmp_path_factory: Any, column: Any) -> None:
    folder = tmp_path_factory.mktemp("both")
    n = len(column)
    frame = pl.DataFrame({"c": column, "y": (["s", "t"] * n)[:n], "p": (["b", "a", "a"] * n)[:n]}, strict=False)
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    text, typed = (read_table(folder / name, label="y", party="p") for name in ("t.csv", "t.parquet"))
    assert typed.features.tobytes() == text.features.tobytes()
    assert typed.columns == text.columns
    assert [f.code for f in typed.findings] == [f.code for f in text.findings]

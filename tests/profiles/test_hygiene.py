import numpy as np
import pytest

from fedskew.profiles.hygiene import hygiene
from fedskew.profiles.partitions import Column, Finding, Holdout, Partition, make_partition
from fedskew.profiles.summary import profile


def codes(partition: Partition) -> dict[str, Finding]:
    return {finding.code: finding for finding in hygiene(partition)}


def noise(rows: int, seed: int = 0, width: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)


def test_clean_table_has_no_findings() -> None:
    assert codes(make_partition(noise(300), np.arange(300) % 3, np.arange(300) // 100)) == {}


def test_copied_rows_are_counted_and_both_silos_named() -> None:
    x, y = noise(300), np.arange(300) % 3
    party = np.repeat(["a", "b", "c"], 100)
    found = codes(make_partition(np.vstack([x, x[:20]]), np.append(y, y[:20]), np.append(party, ["c"] * 20)))
    assert found["duplicate_rows"].count == 20
    assert found["duplicate_rows"].parties == ("a", "c")
    assert found["duplicate_rows"].severity == "strong"


def test_equal_rows_of_coarse_data_are_no_proof() -> None:
    rng = np.random.default_rng(1)
    x = (rng.random((3000, 8)) < 0.3).astype(np.float32)
    party = rng.integers(0, 5, 3000)
    assert codes(make_partition(x, rng.integers(0, 2, 3000), party))["duplicate_rows"].severity == "none"


def test_copies_stand_out_among_the_natural_repetitions_of_coarse_data() -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.random((3000, 24)) < 0.25).astype(np.float32), rng.integers(0, 2, 3000)
    party = np.arange(3000) % 5
    more = np.flatnonzero(party == 1)[:200]
    x, y, party = np.vstack([x, x[more]]), np.append(y, y[more]), np.append(party, np.full(200, 3))
    found = codes(make_partition(x, y, party))["duplicate_rows"]
    assert found.parties == ("1", "3")
    assert 200 <= found.count <= 230


def test_test_rows_that_stand_in_a_silo_are_leaks() -> None:
    x, y = noise(300), np.arange(300) % 3
    test = Holdout(np.vstack([x[100:120], noise(80, 5)]), np.append(y[100:120], np.arange(80) % 3))
    found = codes(make_partition(x, y, np.arange(300) // 100, test=test))["test_leakage"]
    assert found.count == 20
    assert found.parties == ("1",)
    assert found.severity == "strong"


def test_classes_on_one_side_only_are_named() -> None:
    test = Holdout(noise(30, 6), (np.arange(30) % 2 + 1).astype(np.int64))
    partition = make_partition(
        noise(90), np.arange(90) % 2, np.arange(90) // 30, class_names=("x", "y", "z", "w"), test=test
    )
    found = codes(partition)
    assert "'z'" in found["classes_only_in_test"].text
    assert "'x'" in found["classes_not_in_test"].text
    assert "'w'" in found["unused_classes"].text


def test_constant_and_unscaled_columns_are_named() -> None:
    x = noise(200, width=3)
    x[:, 0] *= 5000
    x[:, 2] = 7
    columns = (Column("height", "numeric", 0, 1), Column("age", "numeric", 1, 2), Column("unit", "numeric", 2, 3))
    found = codes(make_partition(x, np.arange(200) % 2, np.arange(200) // 100, columns=columns))
    assert "'unit'" in found["constant_columns"].text
    assert "'height'" in found["unscaled_columns"].text
    assert found["unscaled_columns"].count == 1


def test_a_column_of_large_numbers_close_together_is_coarse_and_one_without_offset_is_not() -> None:
    seconds = np.random.default_rng(0).uniform(0, 600, (400, 1))
    labels, party = np.arange(400) % 2, np.arange(400) // 200
    assert "'x0'" in codes(make_partition(1.7e9 + seconds, labels, party))["coarse_columns"].text
    assert "coarse_columns" not in codes(make_partition(seconds, labels, party))


def test_a_table_in_which_nothing_varies_has_no_features_and_says_so() -> None:
    same = profile(make_partition(np.full((400, 2), 3.0), np.arange(400) % 2, np.arange(400) // 200))
    assert {"constant_columns", "no_features"} <= {finding.code for finding in same.hygiene}
    assert (same.feature.skew, same.feature.reason) == (None, "no_spread")


@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_missingness_skew_is_found_only_where_it_is(shift: float) -> None:
    rng, x = np.random.default_rng(7), noise(3000)
    party = np.arange(3000) % 5
    x[rng.random(3000) < 0.1 + shift * (party == 2), 1] = np.nan
    found = codes(make_partition(x, rng.integers(0, 2, 3000), party)).get("missingness_skew")
    assert (found is not None) == (shift > 0)
    if found is not None:
        assert found.parties == ("2",)
        assert "'x1'" in found.text


def test_missing_categories_count_as_missing() -> None:
    rng = np.random.default_rng(8)
    party = np.arange(1000) % 2
    x = np.eye(3)[rng.integers(0, 3, 1000)]
    x[party == 1] = 0
    columns = (Column("color", "categorical", 0, 3, ("r", "g", "b")),)
    found = codes(make_partition(x, rng.integers(0, 2, 1000), party, columns=columns))
    assert found["missingness_skew"].severity == "strong"


def test_test_mix_is_compared_party_by_party() -> None:
    rng, party = np.random.default_rng(9), np.arange(2000) % 4
    labels = rng.integers(0, 2, 2000)
    held = np.where(party[:800] == 3, 0, labels[:800])
    test = Holdout(noise(800, 10), held.astype(np.int64), party[:800].astype(np.int32))
    found = codes(make_partition(noise(2000), labels, party, test=test))["test_mix"]
    assert found.parties == ("3",)


def test_thin_parties_are_named() -> None:
    labels = np.append(np.arange(100) // 2 % 2, [1, 1, 1, 0])
    party = np.append(np.arange(100) % 2, [2, 2, 2, 3])
    partition = make_partition(noise(104), labels, party, party_names=("a", "b", "c", "d", "e"))
    found = codes(partition)
    assert found["one_class_parties"].parties == ("c",)
    assert found["tiny_parties"].parties == ("d", "e")


def test_findings_of_the_reader_come_first_and_are_not_repeated() -> None:
    read = Finding(code="constant_columns", severity="mild", text="seen while reading")
    partition = make_partition(np.ones((4, 1)), [0, 1, 0, 1], [0, 0, 1, 1], findings=(read,))
    assert [finding.text for finding in hygiene(partition) if finding.code == "constant_columns"] == [read.text]


def test_one_row_of_missing_values_is_fine() -> None:
    assert "tiny_parties" in codes(make_partition(np.array([[np.nan]]), [0], [0]))


def test_a_single_class_is_told_and_its_parties_are_not_each_named_for_it() -> None:
    found = codes(make_partition(noise(60), np.zeros(60, int), np.arange(60) // 20))
    assert found["one_class"].severity == "strong"
    assert "one_class_parties" not in found

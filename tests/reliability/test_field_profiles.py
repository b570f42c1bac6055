"""What users of comparable software ran into when profiling and reading reports; names hold the report's ID."""

import numpy as np
import polars as pl
import pytest

from fedskew.advisor import report
from fedskew.advisor.composition import all_tables
from fedskew.profiles import Holdout, Partition, Profile, label_skew, make_partition, profile, read_table


def of_counts(counts: "np.typing.ArrayLike", columns: int = 1) -> Partition:
    """A table with these rows by party and class."""
    table = np.asarray(counts)
    party, label = np.divmod(np.repeat(np.arange(table.size), table.ravel()), table.shape[1])
    names = tuple(f"p{i:04d}" for i in range(len(table))), tuple(f"c{i:04d}" for i in range(table.shape[1]))
    features = np.random.default_rng(0).normal(size=(len(party), columns))
    return make_partition(features, label, party, party_names=names[0], class_names=names[1])


def test_R1_O10_zeros_in_the_counts_are_data_for_the_dirichlet_fit() -> None:
    rng = np.random.default_rng(0)
    counts = np.stack([rng.multinomial(60, rng.dirichlet(np.full(6, 0.2))) for _ in range(30)])
    assert (counts == 0).mean() > 0.3
    found = label_skew(of_counts(counts)).alpha
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= 0.2 * 6 <= found.upper


def test_R2_sparse_counts_over_a_thousand_classes_give_a_finite_fit() -> None:
    rng = np.random.default_rng(1)
    counts = np.stack([rng.multinomial(100, rng.dirichlet(np.full(1000, 0.01))) for _ in range(50)])
    found = label_skew(of_counts(counts))
    assert found.skew is not None
    assert found.alpha.estimate is not None
    assert 0 < found.alpha.estimate < 1e4
    assert found.severity == "strong"


def test_O10_identical_parties_have_no_absurd_concentration() -> None:
    for counts in ([[20, 20, 20]] * 8, [[7, 7]] * 3, [[5, 1, 9]]):
        found = label_skew(of_counts(counts))
        for fit in (found.alpha, found.beta):
            assert fit.upper is None or fit.upper < 1e9
            assert fit.estimate is None or fit.estimate < 1e9
            assert fit.estimate is not None or fit.reason


@pytest.mark.slow
def test_R4_a_page_is_bounded_by_columns_and_not_by_rows() -> None:
    rng = np.random.default_rng(0)
    sizes = []
    for rows in (1_000, 20_000):
        table = make_partition(rng.normal(size=(rows, 65)), rng.integers(0, 3, rows), np.arange(rows) % 5)
        sizes.append(len(report(profile(table)).to_html()))
    assert max(sizes) < 1_000_000
    assert abs(sizes[1] - sizes[0]) < 100_000


def test_R7_a_written_profile_is_used_again_without_the_rows() -> None:
    found = profile(of_counts([[10, 2], [3, 9]]))
    assert Profile.from_json(found.to_json()) == found
    assert report(Profile.from_json(found.to_json())).to_csv() == report(found).to_csv()


def test_R10_a_class_that_a_party_lacks_is_a_zero_under_its_own_name() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 6, (3, 12))
    counts[1, [4, 9]] = 0
    found = profile(of_counts(counts))
    assert np.asarray(found.counts).tolist() == counts.tolist()
    assert found.label.missing_classes == {"p0000": 0, "p0001": 2, "p0002": 0}
    table = next(t for t in all_tables(found, None, None) if t.key == "parties")
    titles = [column.title for column in table.columns]
    row = next(row for row in table.rows if row[0] == "p0001")
    for i in range(12):
        assert row[titles.index(f"rows of c{i:04d}")] == counts[1, i]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 300), (300, 4)])
def test_R11_hundreds_of_classes_or_parties_still_make_a_page_with_every_number(shape: tuple[int, int]) -> None:
    counts = np.random.default_rng(3).integers(0, 4, shape)
    whole = report(profile(of_counts(counts)))
    assert len(whole.to_html()) < 2_000_000
    parties = whole.to_csv("parties").splitlines()
    assert len(parties) == shape[0] + 1


def test_R13_rows_of_a_silo_in_the_test_table_are_a_leak() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(500, 6)).astype(np.float32), rng.integers(0, 2, 500)
    table = make_partition(x, y, np.arange(500) % 5)
    mine = table.rows_of(4)
    leaked = Holdout(table.features[mine][:20], table.labels[mine][:20])
    fresh = rng.normal(size=(80, 6)).astype(np.float32)
    test = Holdout(np.concatenate([leaked.features, fresh]), np.concatenate([leaked.labels, rng.integers(0, 2, 80)]))
    (found,) = [f for f in profile(table.with_test(test)).hygiene if f.code == "test_leakage"]
    assert (found.count, found.parties) == (20, ("4",))
    assert found.severity != "none"


@pytest.mark.parametrize("parties", [3, 10])
def test_O7_parties_of_one_class_each_are_fully_skewed(parties: int) -> None:
    assert label_skew(of_counts(20 * np.eye(parties, dtype=np.int64))).skew == pytest.approx(1.0)


def test_O8_one_class_parties_read_higher_than_many_small_even_ones() -> None:
    rng = np.random.default_rng(5)
    split = np.zeros((100, 2), np.int64)
    split[np.arange(100), np.arange(100) % 2] = 50
    even = np.stack([rng.multinomial(50, np.full(100, 0.01)) for _ in range(100)])
    high, low = label_skew(of_counts(split)).skew, label_skew(of_counts(even)).skew
    assert high == pytest.approx(1.0, abs=1e-6)
    assert low is not None
    assert abs(low) < 0.02


def test_O13_a_party_of_two_classes_in_ten_is_skewed_and_one_of_a_single_class_finite() -> None:
    counts = np.full((3, 10), 10)
    counts[0, 2:] = 0
    counts[1, 1:] = 0
    found = label_skew(of_counts(counts))
    assert found.skew is not None
    assert found.skew > 0.05
    assert found.divergence["p0000"] is not None
    assert 0 < found.divergence["p0000"] < 1.5
    assert found.divergence["p0001"] is not None
    assert np.isfinite(found.divergence["p0001"])


def test_E8_raw_columns_are_scaled_from_the_training_silos_alone() -> None:
    from fedskew.engine.splits import prepare

    rng = np.random.default_rng(6)
    frame = pl.DataFrame({"a": rng.integers(0, 256, 400), "b": rng.normal(1e4, 1e3, 400), "y": ["u", "v"] * 200})
    table = read_table(frame.with_columns(p=pl.Series(["s", "t", "u", "w"] * 100)), label="y", party="p")
    ready = prepare(table)
    assert np.abs(ready.x.mean(axis=0)).max() < 1e-4
    assert np.abs(ready.x.std(axis=0) - 1).max() < 1e-4
    assert np.abs(ready.test_x.mean(axis=0)).max() > 1e-3  # the test rows had no say in it

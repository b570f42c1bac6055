"""What mutation testing of the measures found untested: each number by hand, or by a formula on scipy's chi-square."""

import math

import numpy as np
import pytest
from scipy import stats

from fedskew.profiles.measures import measure_all


def test_an_association_that_cannot_be_corrected_for_chance_is_null() -> None:
    for counts in ([[1, 0], [0, 1]], [[1]], [[5, 5]], [[3], [4]], [[1, 0], [0, 0]]):
        assert measure_all(np.array(counts))["cramers_v"] is None, counts
    assert measure_all(np.array([[2, 0], [0, 2]]))["cramers_v"] == pytest.approx(1.0)  # (1 - 1/3) / (2 - 1/3 - 1)


@pytest.mark.parametrize(
    "counts",
    [
        [[9, 1, 4], [2, 8, 5]],
        [[9, 2], [1, 8], [4, 4]],
        [[3, 1], [0, 4], [1, 0]],
        [[4, 1, 0], [1, 3, 1]],
        [[5, 1, 0], [1, 5, 1], [0, 1, 6]],
        [[5, 1, 0, 1], [1, 5, 1, 0], [0, 1, 6, 4]],
        [[5, 1, 0], [1, 5, 1], [0, 1, 6], [1, 0, 4]],
    ],
)
def test_the_corrected_association_is_bergsmas_formula_on_scipys_chi_square(counts: list[list[int]]) -> None:
    table = np.array(counts)
    n, (r, k) = table.sum(), table.shape
    phi2 = stats.chi2_contingency(table, correction=False).statistic / n - (r - 1) * (k - 1) / (n - 1)
    least = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    assert measure_all(table)["cramers_v"] == pytest.approx(math.sqrt(max(0, phi2) / least), rel=1e-12)


def test_shares_of_parties_and_classes_by_hand() -> None:
    counts = [[1, 0, 3, 0], [0, 1, 0, 0], [2, 0, 4, 0], [1, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    found = measure_all(np.array(counts))
    assert found["classes_in_one_party"] == pytest.approx(1 / 3)
    assert found["one_class_parties"] == pytest.approx(1 / 4)
    assert found["empty_parties"] == pytest.approx(2 / 6)
    assert found["majority_share"] == pytest.approx(9 / 14)
    assert measure_all(np.array([[1, 1], [1, 1], [1, 0]]))["one_class_parties"] == pytest.approx(1 / 3)


def test_the_distance_to_the_pool_by_hand() -> None:
    """Pool (6, 4) / 10; mixes (3, 1) / 4, (1, 3) / 4 and (1, 0) are 0.15, 0.35 and 0.4 away, with 4, 4 and 2 rows."""
    found = measure_all(np.array([[3, 1], [1, 3], [0, 0], [2, 0]]))
    assert found["total_variation"] == pytest.approx((4 * 0.15 + 4 * 0.35 + 2 * 0.4) / 10)


def test_three_rows_are_enough_for_an_association() -> None:
    assert measure_all(np.array([[1, 0], [0, 2]]))["cramers_v"] == pytest.approx(1.0)  # (1 - 1/2) / (2 - 1/2 - 1)


def test_a_class_or_party_without_rows_changes_no_association() -> None:
    counts = np.array([[5, 5], [1, 9]])
    expected = measure_all(counts)["cramers_v"]
    assert expected is not None
    for more in ([[5, 5, 0], [1, 9, 0]], [[5, 5], [0, 0], [1, 9]]):
        assert measure_all(np.array(more))["cramers_v"] == pytest.approx(expected, rel=1e-12)

import itertools

import numpy as np
import pytest

from fedskew.profiles.between import association, class_terms, index_from, tail
from fedskew.profiles.kernel import KernelSums, kernel_sums, projection, random_features, sums_by_class
from fedskew.profiles.partitions import make_partition


def unit_rows(n: int, width: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, width))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def between(rows: np.ndarray, party: np.ndarray) -> float:
    centre = rows.mean(axis=0)
    return float(
        sum((party == p).sum() * ((rows[party == p].mean(axis=0) - centre) ** 2).sum() for p in np.unique(party))
    )


@pytest.mark.parametrize("sizes", [(2, 1), (2, 2), (3, 1, 1), (3, 2, 2), (1, 1, 1, 1), (5, 2)])
def test_mean_and_variance_are_those_of_all_permutations(sizes: tuple[int, ...]) -> None:
    n, party = sum(sizes), np.repeat(np.arange(len(sizes)), sizes)
    rows = unit_rows(n, 4, n)
    every = np.array([between(rows[list(order)], party) for order in itertools.permutations(range(n))])
    found = class_terms(kernel_sums([rows], party))
    assert found.between == pytest.approx(between(rows, party))
    assert found.mean == pytest.approx(every.mean(), abs=1e-12)
    assert found.variance == pytest.approx(every.var(), abs=1e-12)


def test_merged_sums_equal_one_pass_in_any_order() -> None:
    rows, party = unit_rows(60, 5, 1), np.sort(np.random.default_rng(2).integers(0, 4, 60))
    whole = kernel_sums([rows[:7], rows[7:]], party)
    parts = [kernel_sums([rows[cut]], party[cut]) for cut in (slice(0, 13), slice(13, 14), slice(14, 60))]
    for merged in (parts[0].merge(parts[1]).merge(parts[2]), parts[2].merge(parts[0].merge(parts[1]))):
        assert np.array_equal(whole.party, merged.party)
        assert np.array_equal(whole.rows, merged.rows)
        np.testing.assert_allclose(merged.sums, whole.sums, atol=1e-12)
        np.testing.assert_allclose(merged.second, whole.second, atol=1e-12)


def test_random_features_have_length_one_and_approach_the_gaussian_kernel() -> None:
    x = np.random.default_rng(0).standard_normal((200, 3))
    by = projection(make_partition(x, np.zeros(200), np.zeros(200)))
    features = random_features(x.astype(np.float32), by)
    np.testing.assert_allclose((features**2).sum(axis=1), 1, rtol=1e-5)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    exact = np.exp(-((scaled[:, None] - scaled[None]) ** 2).sum(axis=2) / 2 / (3 / 2))
    assert np.abs(features @ features.T - exact).mean() < 0.09  # 64 pairs: error about 1/sqrt(128)


def test_sums_by_class_equal_a_loop_over_cells() -> None:
    rng = np.random.default_rng(3)
    x, labels, party = rng.standard_normal((300, 4)), rng.integers(0, 3, 300), rng.integers(0, 5, 300)
    partition = make_partition(x, labels, party)
    by = projection(partition)
    for label, sums in enumerate(sums_by_class(partition, by)):
        for code, rows, total in zip(sums.party, sums.rows, sums.sums, strict=True):
            cell = (partition.labels == label) & (partition.party == code)
            assert rows == cell.sum()
            np.testing.assert_allclose(total, random_features(partition.features[cell], by).sum(axis=0), atol=1e-4)


def test_association_equals_goodman_kruskal_less_chance() -> None:
    table = np.array([[30, 10, 5], [4, 22, 9], [7, 7, 7]])
    n = table.sum()
    pooled = ((table.sum(axis=0) / n) ** 2).sum()
    tau = ((table**2 / table.sum(axis=1, keepdims=True)).sum() / n - pooled) / (1 - pooled)
    chance = 2 / (n - 1)
    found = association(table)
    assert found is not None
    assert found[0] == pytest.approx((tau - chance) / (1 - chance))


def test_p_value_of_an_association_is_that_of_permuted_rows() -> None:
    table = np.array([[20, 10, 5], [12, 14, 9], [7, 8, 6]])
    rows, columns = np.repeat(np.arange(3), table.sum(axis=1)), np.repeat(np.tile(np.arange(3), 3), table.ravel())
    rng, above = np.random.default_rng(5), 0
    size = table.sum(axis=1, keepdims=True)
    for _ in range(4000):
        dealt = np.zeros((3, 3))
        np.add.at(dealt, (rows, rng.permutation(columns)), 1)
        above += (dealt**2 / size).sum() >= (table**2 / size).sum() - 1e-9
    found = association(table)
    assert found is not None
    assert found[1] == pytest.approx(above / 4000, abs=0.03)


def test_tail_of_a_gamma_law_is_scipys() -> None:
    from scipy.stats import chi2

    for freedom in (1, 3, 40):
        assert tail(freedom * 2.0, freedom, 2 * freedom, 8 * freedom) == pytest.approx(chi2.sf(freedom * 2, freedom))


def test_nothing_to_compare_has_no_index() -> None:
    alone = KernelSums(np.array([0, 1]), np.array([1, 1]), np.eye(2), np.eye(2))
    assert index_from([class_terms(alone)], 2) is None
    assert index_from([], 2) is None

from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from fedskew.profiles.histogram import histogram
from fedskew.profiles.partitions import Column, Partition, make_partition
from fedskew.profiles.shift import feature_shifts


def measured(partition: Partition) -> Any:
    return feature_shifts(partition)


def test_wasserstein_agrees_with_scipy_also_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    party, labels = np.arange(3000) % 3, rng.integers(0, 2, 3000)
    x = np.stack([rng.standard_normal(3000) + 0.5 * party, 44.97 + 0.03 * rng.standard_normal(3000) * (1 + party)], 1)
    found = measured(make_partition(x, labels, party))
    for column, shift in enumerate(found):
        value, total = x[:, column].astype(np.float32).astype(float), 0.0
        for label in (0, 1):
            for p in range(3):
                cell = (labels == label) & (party == p)
                total += cell.sum() * wasserstein_distance(value[cell], value[labels == label])
        assert shift.wasserstein == pytest.approx(total / 3000 / value.std(), rel=0.01)


def test_mean_share_is_the_one_way_epsilon_squared_within_classes() -> None:
    rng = np.random.default_rng(1)
    party, labels = rng.integers(0, 4, 500), rng.integers(0, 2, 500)
    x = rng.standard_normal(500) + 0.4 * party + 3 * labels
    top = bottom = 0.0
    for label in (0, 1):
        value, group = x[labels == label], party[labels == label]
        total = ((value - value.mean()) ** 2).sum()
        inside = sum(((value[group == p] - value[group == p].mean()) ** 2).sum() for p in range(4))
        chance = total * 3 / (len(value) - 1)
        top, bottom = top + total - inside - chance, bottom + total - chance
    assert measured(make_partition(x[:, None], labels, party))[0].mean_share == pytest.approx(top / bottom, rel=1e-4)


def test_shares_are_zero_on_average_in_small_silos() -> None:
    rng = np.random.default_rng(2)
    x = rng.exponential(size=(4000, 20))
    found = measured(make_partition(x, np.zeros(4000), rng.integers(0, 1000, 4000)))
    assert abs(np.mean([one.mean_share for one in found])) < 0.01
    assert abs(np.mean([one.spread_share for one in found])) < 0.03
    ratio = np.mean([one.wasserstein for one in found]) / np.mean([one.wasserstein_chance for one in found])
    assert 0.85 < ratio < 1.1


def test_spread_share_sees_a_spread_that_differs_and_no_shift_of_the_mean() -> None:
    rng = np.random.default_rng(3)
    party = np.arange(4000) % 4
    x = np.stack([rng.standard_normal(4000) * (1 + party), rng.standard_normal(4000) + party], axis=1)
    wide, moved = measured(make_partition(x, np.zeros(4000), party))
    assert wide.spread_share > 0.1
    assert abs(wide.mean_share) < 0.01
    assert moved.mean_share > 0.4
    assert abs(moved.spread_share) < 0.01


def test_categorical_column_is_one_entry_with_its_association() -> None:
    rng = np.random.default_rng(4)
    party = np.arange(3000) % 3
    color = np.where(rng.random(3000) < 0.5, party, rng.integers(0, 3, 3000))
    x = np.hstack([rng.standard_normal((3000, 1)), np.eye(3)[color], np.eye(3)[rng.integers(0, 3, 3000)]])
    columns = (
        Column("size", "numeric", 0, 1),
        Column("color", "categorical", 1, 4, ("r", "g", "b")),
        Column("shape", "categorical", 4, 7, ("x", "y", "z")),
    )
    found = measured(make_partition(x, np.zeros(3000), party, columns=columns))
    assert [one.name for one in found] == ["size", "color", "shape"]
    assert 0.2 < found[1].mean_share < 0.3  # half of the rows are told by the party: tau = 1/4
    assert abs(found[2].mean_share) < 0.005
    assert found[1].wasserstein is None


def test_missing_values_are_left_out_and_constant_columns_have_no_measure() -> None:
    rng = np.random.default_rng(5)
    x = np.stack([rng.standard_normal(900), np.full(900, 2.0), np.full(900, np.nan)], axis=1)
    x[rng.random(900) < 0.3, 0] = np.nan
    found = measured(make_partition(x, np.zeros(900), np.arange(900) % 3))
    assert abs(found[0].mean_share) < 0.02
    assert [one.wasserstein for one in found[1:]] == [None, None]
    assert [one.mean_share for one in found[1:]] == [None, None]


def test_histogram_keeps_the_order_of_values_and_every_row() -> None:
    value = np.array([-3.5, -1e-9, 0.0, -0.0, 1e-9, 2.0, 1e30], np.float32)
    counts, places = histogram(value, np.zeros(7, int), 1, 100)
    assert np.all(np.diff(places) > 0)
    assert counts.sum() == 7
    np.testing.assert_allclose(np.repeat(places, counts[0].astype(int)), np.sort(value), rtol=2**-7)


def test_joined_bins_keep_the_distance() -> None:
    rng = np.random.default_rng(6)
    party = np.arange(20_000) % 2
    x = rng.standard_normal(20_000) + 0.3 * party
    few = histogram(x.astype(np.float32), party, 2, 64)
    assert few[0].shape[1] <= 64
    assert few[0].sum(axis=1).tolist() == [10_000, 10_000]

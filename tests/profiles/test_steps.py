"""Steps and FedNova's weight sum, from sizes alone."""

import numpy as np
import pytest

from fedskew.profiles import FedskewError
from fedskew.profiles.steps import cohort_size, fednova_weight_sum, step_counts, step_ratio


def test_the_cohort_is_the_floor_of_the_exact_product_and_never_nobody() -> None:
    for parties in range(1, 201):
        for percent in range(1, 101):
            assert cohort_size(parties, percent / 100) == max(1, percent * parties // 100), (parties, percent)


def test_steps_are_epochs_times_batches_with_the_short_one_kept() -> None:
    assert step_counts([1, 63, 64, 65, 0], 10, 64).tolist() == [10, 10, 10, 20, 0]
    assert step_ratio([0, 10, 640], 1, 64) == 10.0


def test_equal_steps_give_a_weight_sum_of_one() -> None:
    assert fednova_weight_sum([100] * 7, 10, 64, momentum=0.9) == pytest.approx(1.0)
    assert fednova_weight_sum([65, 128], 10, 64) == pytest.approx(1.0)  # equal steps, unequal sizes


def test_without_momentum_one_row_batches_give_parties_times_sum_of_squared_shares() -> None:
    q = np.array([500, 300, 150, 50])
    assert fednova_weight_sum(q, 3, 1) == pytest.approx(4 * ((q / 1000) ** 2).sum())


def test_momentum_form_agrees_with_the_sum_of_step_weights() -> None:
    # a_i is the sum over local steps of the weight momentum gives each gradient: sum of (1 - rho^j) / (1 - rho).
    sizes, rho = np.array([640, 64, 128]), 0.9
    tau = step_counts(sizes, 2, 64)
    a = np.array([sum((1 - rho**j) / (1 - rho) for j in range(1, t + 1)) for t in tau])
    p = sizes / sizes.sum()
    assert fednova_weight_sum(sizes, 2, 64, momentum=rho) == pytest.approx((p * a).sum() * (p / a).sum())


def test_mean_weight_sum_of_quantity_skew_is_the_published_one() -> None:
    rng = np.random.default_rng(0)
    found = [
        fednova_weight_sum((rng.dirichlet(np.full(10, 0.5)) * 60_000).astype(int) + 10, 10, 64) for _ in range(400)
    ]
    assert np.mean(found) == pytest.approx(2.4, abs=0.15)


@pytest.mark.parametrize("arguments", [([1], 0, 1), ([1], 1, 0), ([-1], 1, 1)])
def test_impossible_settings_are_refused(arguments: tuple[list[int], int, int]) -> None:
    with pytest.raises(FedskewError, match="must be"):
        step_counts(*arguments)
    with pytest.raises(FedskewError, match="must be"):
        fednova_weight_sum(*arguments)


def test_momentum_out_of_range_and_no_rows_are_refused() -> None:
    with pytest.raises(FedskewError, match="momentum is 1"):
        fednova_weight_sum([1], 1, 1, momentum=1)
    with pytest.raises(FedskewError, match="no party has rows"):
        fednova_weight_sum([0, 0], 1, 1)


def test_empty_parties_do_not_count() -> None:
    assert fednova_weight_sum([0, 30, 90], 1, 1) == fednova_weight_sum([30, 90], 1, 1)

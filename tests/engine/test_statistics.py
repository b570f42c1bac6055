"""Intervals and comparisons against scipy and against simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fedskew.engine.statistics import Spread, e_value, seeds_to_settle, spread, t_quantile


def test_interval_without_row_variance_is_the_one_sample_t_interval():
    values = np.array([0.61, 0.64, 0.60, 0.67, 0.63])
    found = spread(values, np.zeros(1))
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.interval() == pytest.approx((low, high))
    assert found.p_value() == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_degrees_of_freedom_are_those_of_welch_with_the_seeds_in_both_parts():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=6), rng.normal(scale=3, size=6)
    found = Spread(0.0, a.var(ddof=1) / 6, b.var(ddof=1) / 6, 6, 4000)
    assert found.freedom == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df)


def test_e_value_equals_the_bayes_factor_by_quadrature():
    rng = np.random.default_rng(5)
    d = rng.normal(0.4, 1.0, size=7)
    n, t = len(d), d.mean() / d.std(ddof=1) * len(d) ** 0.5
    effects = np.linspace(-8, 8, 20001)
    alternative = np.trapezoid(stats.nct.pdf(t, n - 1, effects * n**0.5) * stats.norm.pdf(effects), effects)
    assert e_value(d) == pytest.approx(alternative / stats.t.pdf(t, n - 1), rel=1e-4)


def test_looking_after_every_seed_keeps_the_level():
    rng = np.random.default_rng(7)
    alarms = sum(any(e_value(d[:k]) >= 20 for k in range(2, 31)) for d in rng.normal(size=(2000, 30)))
    assert alarms <= 2000 * 0.05


def test_quantile_equals_scipy():
    assert t_quantile(0.9875, 4) == pytest.approx(stats.t.ppf(0.9875, 4))


def test_a_single_seed_claims_nothing():
    found = spread(np.array([0.9]), np.array([1.0, 1.0, 0.0]))
    assert found.interval() == (-math.inf, math.inf)
    assert found.p_value() == 1.0


def test_more_seeds_settle_a_noisy_comparison_and_never_one_that_the_test_rows_limit():
    noisy = Spread(0.02, 0.02**2 / 5, 0.0, 5, 1000)
    needed = seeds_to_settle(noisy, 0.02, 3)
    assert needed is not None
    assert needed > 5
    low, high = Spread(0.02, 0.02**2 / needed, 0.0, needed, 1000).interval(1 - 0.05 / 3)
    assert (high - low) / 2 < 0.02
    limited = Spread(0.0, 1e-12, 0.01**2, 5, 1000)
    assert seeds_to_settle(limited, 0.005, 3) is None
    assert seeds_to_settle(Spread(0.02, 0.0, 0.0, 1, 1000), 0.02, 3) is None  # one seed: its variance is not known

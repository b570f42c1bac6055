"""What mutation testing of the statistics found untested, and their corners: each number by hand or by scipy."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedskew.engine.statistics import Spread, e_value, seeds_to_settle, spread, t_quantile
from fedskew.engine.store import RunStore
from fedskew.engine.verdict import Entry, decide
from fedskew.profiles import EnvironmentFaultError


def test_the_error_is_the_root_of_both_variances() -> None:
    assert Spread(0.0, 9.0, 16.0, 5, 100).error == 5.0


@pytest.mark.parametrize(
    ("seed", "row", "seeds", "freedom"),
    [
        (1.0, 0.0, 5, 4), (0.0, 1.0, 5, 4), (1.0, 1.0, 5, 8), (0.0, 0.0, 5, 4), (0.0, 0.0, 1, 1), (1.0, 0.0, 1, 1),
        (0.0, 1.0, 1, 1), (2.0, 2.0, 2, 2), (3.0, 1.0, 4, 4.8),
    ],
)  # fmt: skip
def test_degrees_of_freedom_by_hand(seed: float, row: float, seeds: int, freedom: float) -> None:
    assert Spread(0.0, seed, row, seeds, 50).freedom == pytest.approx(freedom, rel=1e-14)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_the_interval_is_scipys_at_any_level(level: float) -> None:
    values = np.array([0.61, 0.64, 0.60])
    low, high = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert spread(values, np.zeros(1)).interval(level) == pytest.approx((low, high), rel=1e-10)


def test_two_seeds_already_have_an_interval_and_one_has_none() -> None:
    low, high = spread(np.array([0.5, 0.7]), np.zeros(1)).interval()
    assert (low, high) == pytest.approx((0.6 - 12.7062 * 0.1, 0.6 + 12.7062 * 0.1), rel=1e-5)
    assert Spread(0.5, 0.1, 0.1, 1, 10).interval() == (-math.inf, math.inf)


def test_p_values_by_hand() -> None:
    assert Spread(1.0, 1.0, 0.0, 2, 10).p_value() == pytest.approx(0.5)  # t = 1 on one degree of freedom
    assert Spread(-1.0, 1.0, 0.0, 2, 10).p_value() == pytest.approx(0.5)
    assert Spread(0.0, 1.0, 0.0, 2, 10).p_value() == 1.0
    assert Spread(0.0, 0.0, 0.0, 2, 10).p_value() == 1.0
    assert Spread(0.2, 0.0, 0.0, 2, 10).p_value() == 0.0
    assert Spread(-0.2, 0.0, 0.0, 3, 10).p_value() == 0.0
    assert Spread(0.2, 0.0, 0.0, 1, 10).p_value() == 1.0
    values = np.array([0.61, 0.64, 0.60])
    assert spread(values - 0.6, np.zeros(1)).p_value() == pytest.approx(stats.ttest_1samp(values, 0.6).pvalue)


def test_a_spread_holds_both_variances_of_a_mean() -> None:
    found = spread(np.array([1.0, 2.0, 6.0]), np.array([0.0, 1.0]))
    assert (found.mean, found.seeds, found.rows) == (3.0, 3, 2)
    assert found.seed_variance == pytest.approx(7.0 / 3)
    assert found.row_variance == pytest.approx(0.25)
    alone = spread(np.array([4.0]), np.array([1.0]))
    assert (alone.seed_variance, alone.row_variance) == (0.0, 0.0)
    assert spread(np.array([1.0, 3.0]), np.array([0.0, 2.0])).seed_variance == pytest.approx(1.0)


def test_the_number_of_seeds_that_settle_is_the_first_one_that_does() -> None:
    noisy = Spread(0.02, 0.02**2 / 5, 0.0, 5, 1000)
    needed = seeds_to_settle(noisy, 0.02, 3)
    assert needed is not None
    widths = {}
    for seeds in (needed - 1, needed):
        half = stats.t.ppf(1 - 0.05 / 3 / 2, seeds - 1) * 0.02 / math.sqrt(seeds)
        widths[seeds] = half
    assert widths[needed] < 0.02 <= widths[needed - 1]
    assert seeds_to_settle(noisy, 0.02, 3, most=needed) == needed
    assert seeds_to_settle(noisy, 0.02, 3, most=needed - 1) is None
    wide = Spread(0.0, 1.0, 0.0, 5, 1000)  # already settled at a wide gap: the next seed is the answer
    assert seeds_to_settle(wide, 1e6, 1) == 6
    assert seeds_to_settle(wide, 1e-6, 1) is None


def test_settling_rests_on_the_row_variance_that_seeds_cannot_lower() -> None:
    limited = Spread(0.0, 1e-12, 0.01**2, 5, 1000)
    assert seeds_to_settle(limited, 0.0196 * 1.2, 1) is not None
    assert seeds_to_settle(limited, 0.0196 * 0.9, 1) is None


def test_seeds_to_settle_looks_at_two_hundred_seeds_and_no_more() -> None:
    edge = Spread(0.0, 1.0, 0.0, 5, 1000)
    half = stats.t.ppf(0.975, 199) * math.sqrt(5 / 200)
    assert seeds_to_settle(edge, half * 1.0001, 1) == 200
    assert seeds_to_settle(edge, half * 0.9999, 1) is None


def by_formula(differences: list[float], prior: float) -> float:
    """Rouder et al. 2009, equation 1, with g = prior squared fixed."""
    n, d = len(differences), np.asarray(differences)
    t2 = d.mean() ** 2 * n / d.var(ddof=1)
    grown = 1 + n * prior**2
    return float(grown**-0.5 * ((1 + t2 / (n - 1)) / (1 + t2 / (grown * (n - 1)))) ** (n / 2))


@pytest.mark.parametrize("prior", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("differences", [[0.1, 0.3], [0.2, -0.1, 0.4], [-0.2, -0.25, -0.22, -0.3]])
def test_the_e_value_is_the_published_formula(differences: list[float], prior: float) -> None:
    assert e_value(np.array(differences), prior) == pytest.approx(by_formula(differences, prior), rel=1e-12)
    assert e_value(np.array(differences)) == pytest.approx(by_formula(differences, 1.0), rel=1e-12)


def test_e_values_without_spread_or_seeds() -> None:
    assert e_value(np.array([])) == e_value(np.array([0.3])) == 1.0
    assert e_value(np.zeros(4)) == 1.0
    assert e_value(np.full(2, 0.25)) == math.inf
    assert e_value(np.full(4, -0.25)) == math.inf
    huge = e_value(np.array([1.0, 1.0 + 1e-13] * 250))
    assert math.isfinite(huge)
    assert huge == math.exp(700.0)  # capped, so that no number overflows


def test_one_seed_gives_a_verdict_without_bounds() -> None:
    entries = [Entry(name, name.upper(), "ok", 0.8) for name in ("a", "b")]
    found = decide(entries, "a", {"b": spread(np.array([0.02]), np.array([1.0, 0.0]))})
    assert (found.kind, found.lower, found.upper) == ("cannot_tell", None, None)
    assert "+2.0 points (one seed, no interval)" in found.text


def test_the_quantile_is_scipys() -> None:
    assert t_quantile(0.9, 7) == pytest.approx(stats.t.ppf(0.9, 7), rel=1e-12)


def test_a_lock_that_cannot_be_made_and_one_that_is_held_are_told(tmp_path: Path) -> None:
    (tmp_path / "a" / "lock").mkdir(parents=True)
    with pytest.raises(EnvironmentFaultError, match="cannot write in the run folder"):
        RunStore(tmp_path / "a", {})
    first = RunStore(tmp_path / "b", {})
    with pytest.raises(EnvironmentFaultError, match=r"in use by process \d+ on .* since .* UTC"):
        RunStore(tmp_path / "b", {})
    first.close()
    RunStore(tmp_path / "b", {}).close()

"""Dirichlet strength: likelihoods, intervals, the size cap."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta as beta_law
from scipy.stats import dirichlet_multinomial

from fedskew.profiles.dirichlet import (
    Groups,
    alpha_estimate,
    beta_estimate,
    log_counts,
    log_shares,
    strength_of,
)
from fedskew.profiles.size_cap import closed_cells


def _groups(table: np.ndarray) -> Groups:
    return Groups.of(table, np.ones(table.shape[1]), np.ones(table.shape, np.bool_))


@pytest.mark.parametrize("strength", [0.01, 0.5, 3.0, 200.0])
def test_counts_likelihood_agrees_with_scipy(strength: float) -> None:
    table = np.array([[3, 0, 7, 1], [0, 0, 5, 5]])
    expected = dirichlet_multinomial.logpmf(table, np.full(4, strength), table.sum(axis=1)).sum()
    assert log_counts(strength, _groups(table)) == pytest.approx(float(expected), rel=1e-9)


def test_counts_likelihood_takes_unequal_base_weights() -> None:
    table, weight = np.array([[3, 0, 7], [2, 2, 2]]), np.array([0.5, 0.2, 0.3])
    expected = dirichlet_multinomial.logpmf(table, 4.0 * weight, table.sum(axis=1)).sum()
    groups = Groups.of(table, weight, np.ones(table.shape, np.bool_))
    assert log_counts(4.0, groups) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("strength", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("rows", [0, 1, 30, 59, 60])
def test_shares_likelihood_of_two_parties_is_near_the_exact_chance_of_the_cut(strength: float, rows: int) -> None:
    # With two parties the first gets floor(60 p): the exact chance of a count, averaged over which of them is first.
    law, n = beta_law(strength, strength), 60
    first = law.cdf((rows + 1) / n) - law.cdf(rows / n) if rows < n else 0.0
    last = law.cdf((n - rows + 1) / n) - law.cdf((n - rows) / n) if rows > 0 else 0.0
    found = np.exp(log_shares(strength, _groups(np.array([[rows, n - rows]]))))
    # The density is taken at both cells independently: right within a third at the corners, much closer inside.
    assert found == pytest.approx((first + last) / 2, rel=0.35 if rows in (0, 1, 59, 60) else 0.05)


@pytest.mark.parametrize("a", [0.05, 1.0, 4.5])
@pytest.mark.parametrize("v", [1.0, 2.0, 50.0])
def test_rounding_integrals_agree_with_quadrature(a: float, v: float) -> None:
    from fedskew.profiles.dirichlet import _log_boxes, _log_triangle

    triangle = quad(lambda x: x ** (a - 1) * (1 - abs(x - v)), v - 1, v + 1, points=[v], limit=200)[0]
    boxes = quad(lambda x: x ** (a - 1), v - 1, v + 1, limit=200)[0]
    assert float(np.exp(_log_triangle(np.array(a), np.array(v)))) == pytest.approx(triangle, rel=1e-5)
    assert float(np.exp(_log_boxes(np.array(a), np.array(v)))) == pytest.approx(boxes, rel=1e-5)


@pytest.mark.parametrize("a", [3e-16, 1e-12, 0.99e-9, 1.01e-9])
@pytest.mark.parametrize("v", [1, 2, 11, 1000])
def test_rounding_integrals_do_not_cancel_where_a_class_is_all_but_absent(a: float, v: int) -> None:
    from decimal import Decimal, localcontext

    from fedskew.profiles.dirichlet import _log_triangle

    with localcontext(prec=80):
        power = Decimal(a) + 1
        terms = [(power * Decimal(x).ln()).exp() if x else Decimal(0) for x in (v + 1, v, v - 1)]
        exact = float((terms[0] - 2 * terms[1] + terms[2]) / (Decimal(a) * power))
    tolerance = 1e-8 if a < 1e-9 else 1e-6 * v**2  # beyond, differences of numbers near 1 are left as they are
    assert float(np.exp(_log_triangle(np.array(a), np.array(float(v))))) == pytest.approx(exact, rel=tolerance)


def test_rounding_integrals_do_not_overflow_at_large_strength() -> None:
    assert np.isfinite(log_shares(9e4, _groups(np.array([[1, 3, 90]]))))


def test_interval_is_where_the_likelihood_falls_by_half_the_chi_square_point() -> None:
    rng = np.random.default_rng(1)
    table = np.stack([rng.multinomial(50_000, rng.dirichlet(np.full(8, 0.7))) for _ in range(6)])
    groups = _groups(table)
    found = strength_of(groups)
    assert found.lower is not None
    assert found.upper is not None
    assert found.estimate is not None
    drops = [
        max(
            log_counts(found.estimate, groups) - log_counts(x, groups),
            log_shares(found.estimate, groups) - log_shares(x, groups),
        )
        for x in (found.lower, found.upper)
    ]
    # Of the hull of two readings each end is one reading's end; the other reading has fallen a little further there.
    assert drops == pytest.approx([1.92, 1.92], abs=0.4)


def test_iid_tables_have_no_upper_bound_and_no_absurd_estimate() -> None:
    rng = np.random.default_rng(2)
    found = [beta_estimate(rng.multinomial(600, np.full(10, 0.1), size=10).T)[0] for _ in range(40)]
    assert sum(one.upper is None for one in found) >= 38  # chance is rejected in 1 % of the tables
    assert all(one.estimate is None or one.estimate < 2000 for one in found)
    assert all(one.lower is not None and one.lower > 5 for one in found)


def test_disjoint_table_has_no_lower_bound_and_says_why() -> None:
    found = beta_estimate(np.diag([600] * 10), recognise_cap=False)[0]
    assert (found.estimate, found.lower) == (None, None)
    assert found.upper is not None
    assert found.upper < 0.05
    assert "upper bound only" in (found.reason or "")


def test_estimates_do_not_depend_on_how_large_tables_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    table = np.stack([rng.multinomial(5000, rng.dirichlet(np.full(12, 0.4))) for _ in range(9)], axis=1)
    exact = beta_estimate(table)[0], alpha_estimate(table)
    monkeypatch.setattr("fedskew.profiles.dirichlet.COARSE_CELLS", 1)
    merged = beta_estimate(table)[0], alpha_estimate(table)
    for one, other in zip(exact, merged, strict=True):
        assert one.estimate == pytest.approx(other.estimate, rel=0.01)


def test_alpha_recovers_hsus_concentration() -> None:
    rng = np.random.default_rng(4)
    prior, ratios = np.full(10, 0.1), []
    for alpha in (0.5, 5.0):
        for _ in range(20):
            table = np.stack([rng.multinomial(500, rng.dirichlet(alpha * prior)) for _ in range(50)])
            ratios.append((alpha_estimate(table).estimate or np.nan) / alpha)
    assert np.median(ratios) == pytest.approx(1.0, abs=0.1)


def test_closed_cells_are_those_of_parties_at_their_quota_before_the_class() -> None:
    table = np.array([[7, 0, 0], [1, 5, 0], [0, 3, 8]])
    assert closed_cells(table).tolist() == [[False, False, False], [False, False, False], [False, False, False]]
    table = np.array([[8, 0, 0], [0, 8, 0], [0, 0, 8]])
    assert closed_cells(table).tolist() == [[False, True, True], [False, False, True], [False, False, False]]


def test_few_rows_a_cell_are_said_in_the_reason() -> None:
    rng = np.random.default_rng(5)
    table = np.stack([rng.multinomial(100, rng.dirichlet(np.full(10, 2.0))) for _ in range(10)], axis=1)
    assert "cannot be told apart" in (beta_estimate(table)[0].reason or "")


def test_tables_without_information_say_so() -> None:
    assert beta_estimate(np.array([[5, 5]]))[0].reason == "one_party"
    assert alpha_estimate(np.array([[5], [5]])).reason == "one_class"
    assert beta_estimate(np.array([[1, 0], [0, 1]]))[0].reason == "too_few_rows"


def test_parties_of_one_size_are_not_said_to_be_capped():
    """Shards of rows sorted by class: full parties look closed by construction."""
    labels = np.sort(np.random.default_rng(0).integers(0, 2, 6000))
    counts = np.zeros((10, 2), np.int64)
    owner = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 2))
    np.add.at(counts, (np.repeat(owner, 300), labels), 1)
    assert closed_cells(counts).any()
    assert beta_estimate(counts)[1] is None

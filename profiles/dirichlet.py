"""How strong a Dirichlet a count table was drawn from: maximum likelihood on both axes, in two readings.

The counts reading takes rows as drawn one by one (Dirichlet-multinomial: natural silos). The shares reading takes them
as cut from exact shares at floor(cumsum(p) * n), as generators do: the Dirichlet density integrated over the rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.null import Counts, Floats
from fedskew.profiles.records import Estimate
from fedskew.profiles.size_cap import CLOSED_CELLS, CLOSED_CHANCE, closed_cells, luck

LEAST, MOST = 1e-3, 1e5  # strengths looked at; an estimate at either end is no estimate
HALF_CHI2 = 1.920729  # half the 95 % point of chi-square with one degree of freedom
AT_CHANCE = 2.705947  # half its 98 % point: without such a fall towards infinite strength there is no upper bound
APART = 0.05  # (N beta + 1) / n_class above which the two readings cannot be told apart
COARSE_CELLS = 200_000  # larger tables are fitted with counts and mixes rounded to three digits

NEAR_IID = "as even as chance: the data give a lower bound only"
DISJOINT = "each share lies with one holder: the data give an upper bound only"
UNTOLD = "so few rows a cell that drawn counts and cut shares cannot be told apart: the interval covers both"


@dataclass(frozen=True, slots=True)
class Groups:
    """Independent Dirichlet draws with one unknown strength, equal cells merged.

    ``value``, ``weight``, ``times`` (U,): rows of a cell, its base weight (its Dirichlet parameter is strength times
    weight), how many such cells. ``rows``, ``total`` (G,): rows and summed base weight of each group.
    """

    value: Floats
    weight: Floats
    times: Floats
    rows: Floats
    total: Floats

    @classmethod
    def of(cls, counts: Counts, weight: Floats, used: NDArray[np.bool_]) -> "Groups":
        """Groups are rows of ``counts`` (G, C); ``weight`` (C,); only cells ``used`` (G, C) take part."""
        everywhere = bool(used.all())
        rows = (counts if everywhere else np.where(used, counts, 0)).sum(axis=1)
        keep = rows > 0
        if not keep.all():
            counts, used, rows = counts[keep], used[keep], rows[keep]
        weights, kind = np.unique(_three_digits(weight) if counts.size > COARSE_CELLS else weight, return_inverse=True)
        levels, place = _levels(counts)
        cell = place if len(weights) == 1 else place * len(weights) + kind
        times = np.bincount(cell.ravel() if everywhere else cell[used], minlength=1)
        code = np.flatnonzero(times)
        return cls(
            value=levels[code // len(weights)],
            weight=weights[code % len(weights)],
            times=times[code].astype(np.float64),
            rows=rows.astype(np.float64),
            total=np.full(len(rows), weight.sum()) if everywhere else used @ weight,
        )


def _levels(counts: Counts) -> tuple[Floats, NDArray[np.int64]]:
    """The distinct counts, rounded to three digits in large tables, and the place of each cell's among them."""
    most = int(counts.max(initial=0))
    if counts.size <= COARSE_CELLS or most > counts.size:
        levels, place = np.unique(counts if counts.size <= COARSE_CELLS else _three_digits(counts), return_inverse=True)
        return levels.astype(np.float64), np.asarray(place.reshape(counts.shape))
    levels, place = np.unique(_three_digits(np.arange(most + 1)), return_inverse=True)
    return levels.astype(np.float64), np.asarray(place[counts])


def _three_digits(values: NDArray[np.int64] | Floats) -> Floats:
    unit = 10.0 ** np.maximum(np.floor(np.log10(np.where(values > 0, values, 1))) - 2, -300)
    unit = np.maximum(unit, 1.0) if values.dtype.kind in "iu" else unit
    return np.asarray(np.round(values / unit) * unit)


def log_counts(strength: float, groups: Groups) -> float:
    """Log-likelihood of the Dirichlet-multinomial, nats.

    References
    ----------
    Mosimann 1962, Biometrika 49, eq. 7.

    Examples
    --------
    >>> pair = Groups.of(np.array([[1, 1]]), np.ones(2), np.ones((1, 2), bool))
    >>> round(float(np.exp(log_counts(1.0, pair))), 6)
    0.333333
    """
    from scipy.special import gammaln

    whole = strength * groups.total
    cell = strength * groups.weight
    group = gammaln(whole) - gammaln(groups.rows + whole) + gammaln(groups.rows + 1)
    inner = gammaln(groups.value + cell) - gammaln(cell) - gammaln(groups.value + 1)
    return float(group.sum() + (groups.times * inner).sum())


def log_shares(strength: float, groups: Groups) -> float:
    """Log-likelihood of shares cut at floor(cumsum(p) * n), nats.

    A cell of v rows stands for shares within one row of v, with triangular weight, but the first cell of a group is
    rounded down and the last one up; which these are depends on an order that nobody knows, so each cell is taken for
    either with the chance it has. What one cell gains by rounding its neighbour loses: to second order this takes
    (mean of (a-1)/v)^2 / 12 off each cell with rows, a being the cell's Dirichlet parameter.

    Examples
    --------
    >>> whole = Groups.of(np.array([[9, 0]]), np.ones(2), np.ones((1, 2), bool))
    >>> log_shares(0.1, whole) > log_shares(1.0, whole)
    True
    """
    from scipy.special import gammaln

    a, v = strength * groups.weight, groups.value
    held = groups.times * (v > 0)
    end = min(0.5, len(groups.rows) / float(groups.times.sum()))  # chance of being the first, or the last
    middle = np.log(1 - 2 * end) if end < 0.5 else -np.inf
    v1 = np.maximum(v, 1.0)
    cell = np.logaddexp(middle + _log_triangle(a, v1), np.log(end) + _log_boxes(a, v1))
    empty = np.log(np.exp(middle) / (a + 1) + end) - np.log(a)
    cell = np.where(v > 0, cell, empty) - gammaln(a)
    whole = strength * groups.total
    group = gammaln(whole) + (1 - whole) * np.log(groups.rows)
    neighbours = ((held * (a - 1) / v1).sum()) ** 2 / (12 * held.sum())
    return float(group.sum() + (groups.times * cell).sum() - neighbours)


def _log_triangle(a: Floats, v: Floats) -> Floats:
    """Log of the integral of x^(a-1) (1 - |x - v|) from v - 1 to v + 1, which is a second difference; v >= 1."""
    up, down = (a + 1) * np.log1p(1 / v), np.where(v > 1, (a + 1) * np.log1p(-1 / np.maximum(v, 2)), -np.inf)
    small, large = np.minimum(up, 30.0), np.maximum(up, 30.0)
    flat = (v > 1e5) & (up < 1e-3)  # there the two terms cancel, and the first of their series is left
    both = np.where(flat, a * (a + 1) / v**2, np.expm1(small) + np.expm1(down))
    near = np.log1p(-1 / np.maximum(v, 2)) * np.where(v > 1, 1 - 1 / v, 0.0)
    both = np.where((a < 1e-9) & ~flat, a * ((1 + 1 / v) * np.log1p(1 / v) + near), both)  # and here, to nothing
    bend = np.where(up < 30.0, np.log(both), large + np.log1p(np.exp(down - large) - 2 * np.exp(-large)))
    return np.asarray((a + 1) * np.log(v) + bend - np.log(a) - np.log1p(a))


def _log_boxes(a: Floats, v: Floats) -> Floats:
    """Log of the integral of x^(a-1) from v - 1 to v + 1: rounded down and rounded up together; v >= 1."""
    up, down = a * np.log1p(1 / v), np.where(v > 1, a * np.log1p(-1 / np.maximum(v, 2)), -np.inf)
    return np.asarray(a * np.log(v) + up + np.log(-np.expm1(down - up)) - np.log(a))


@dataclass(frozen=True, slots=True)
class _Fit:
    """Maximum of one reading: ``at`` the ends when there is no inner maximum; a bound beyond the ends is None."""

    height: float
    estimate: float | None
    lower: float | None
    upper: float | None


def _fit(likelihood: Callable[[float], float], most: float) -> _Fit:
    """Climb a one-dimensional likelihood over log strength, and cut it 1.92 below its top."""
    from scipy.optimize import brentq, minimize_scalar

    ends = np.log(LEAST), np.log(max(most, 2 * LEAST))
    grid = np.linspace(*ends, 30)
    heights = np.array([likelihood(float(np.exp(x))) for x in grid])
    top = int(np.argmax(heights))
    low, high = grid[max(top - 1, 0)], grid[min(top + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda x: -likelihood(float(np.exp(x))), bounds=(low, high), method="bounded", options={"xatol": 1e-5}
    )
    best, height = (float(found.x), -float(found.fun)) if -found.fun >= heights[top] else (grid[top], heights[top])

    def above(x: float) -> float:
        return likelihood(float(np.exp(x))) - height + HALF_CHI2

    lower = float(np.exp(brentq(above, ends[0], best, xtol=1e-4))) if heights[0] < height - HALF_CHI2 else None
    upper = float(np.exp(brentq(above, best, ends[1], xtol=1e-4))) if heights[-1] < height - AT_CHANCE else None
    inner = ends[0] + 1e-3 < best < ends[1] - 1e-3
    return _Fit(height, float(np.exp(best)) if inner else None, lower, upper)


def strength_of(groups: Groups) -> Estimate:
    """Fit both readings and give the better one with the hull of both 95 % intervals.

    Returns
    -------
    Estimate : ``reading`` the better fitting; ``lower`` None where the likelihood never falls 1.92 below its top,
        ``upper`` None where infinite strength (chance alone) is not rejected one-sided at 1 %

    References
    ----------
    Minka 2000, Estimating a Dirichlet distribution; Venzon and Moolgavkar 1988 (profile-likelihood interval).
    """
    if not len(groups.rows) or groups.rows.max() < 2 or not (groups.total > groups.weight.max()).any():
        return Estimate(reason="too_few_rows")
    # The shares reading follows rounding to second order, which holds up to about a row per unit of strength.
    most = float(np.clip(np.median(groups.rows / groups.total), 2 * LEAST, MOST))
    fits = {
        "counts": _fit(lambda x: log_counts(x, groups), MOST),
        "shares": _fit(lambda x: log_shares(x, groups), most),
    }
    inner = {name: fit for name, fit in fits.items() if fit.estimate is not None}
    lowers, uppers = [fit.lower for fit in fits.values()], [fit.upper for fit in fits.values()]
    lower = None if None in lowers else min(x for x in lowers if x is not None)
    upper = None if None in uppers else max(x for x in uppers if x is not None)
    if fits["counts"].estimate is None or not inner:
        return Estimate(lower=lower, upper=upper, reason=NEAR_IID if upper is None else DISJOINT)
    reading = max(inner, key=lambda name: (inner[name].height, name))
    estimate = inner[reading].estimate or 0.0
    if upper is None and estimate > most:
        return Estimate(lower=lower, reason=NEAR_IID)
    untold = float(np.median((estimate * groups.total + 1) / groups.rows)) > APART
    return Estimate(estimate=estimate, lower=lower, upper=upper, reading=reading, reason=UNTOLD if untold else None)


def beta_estimate(counts: Counts, *, recognise_cap: bool = True) -> tuple[Estimate, bool | None]:
    """NIID-Bench's strength: each class is spread over the parties by a symmetric Dirichlet, beta per party.

    Parameters
    ----------
    counts : (P, K) int64
    recognise_cap : look for the size cap; not where the table is known to be something else

    Returns
    -------
    estimate : beta, above 0; with a recognised cap fitted over the open parties of each class only
    capped : whether the generator closed parties that held n/N rows: all closed cells hold at most one row, which a
        Dirichlet without cap would do by luck less often than 3e-4 (1e-6 with one or two such cells); None where it
        cannot be told, as with parties of one size

    References
    ----------
    Li, Diao, Chen, He 2022, Federated Learning on Non-IID Data Silos, section IV-B.

    Examples
    --------
    >>> drawn = np.random.default_rng(3).dirichlet(np.full(10, 0.5), 10).T * 600
    >>> found, capped = beta_estimate(drawn.astype(np.int64))
    >>> 0.35 < found.estimate < 0.65, found.lower < 0.5 < found.upper, capped
    (True, True, False)
    """
    if len(counts) < 2:
        return Estimate(reason="one_party"), None
    ones = np.ones(len(counts))
    by_class = counts.T
    everywhere = np.ones(by_class.shape, np.bool_)
    sizes = counts.sum(axis=1)
    dealt_evenly = sizes.max() - sizes.min() <= 1  # shards of sorted rows: full parties are closed by construction
    closed = closed_cells(counts).T if recognise_cap and not dealt_evenly else ~everywhere
    number = int(closed.sum())
    if number and int(by_class[closed].max()) <= 1:
        fitted = strength_of(Groups.of(by_class, ones, ~closed))
        if luck(closed, by_class, fitted) < CLOSED_CHANCE[number < CLOSED_CELLS]:
            return fitted, True
    return strength_of(Groups.of(by_class, ones, everywhere)), False if number >= CLOSED_CELLS else None


def alpha_estimate(counts: Counts) -> Estimate:
    """Hsu's strength: each party's label mix is Dirichlet around the pooled mix, alpha its total concentration.

    Parameters
    ----------
    counts : (P, K) int64

    References
    ----------
    Hsu, Qi, Brown 2019, Measuring the Effects of Non-Identical Data Distribution, section 3.1.

    Examples
    --------
    >>> alpha_estimate(np.array([[50, 50], [50, 50]])).upper is None
    True
    """
    table = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if len(table) < 2:
        return Estimate(reason="one_party")
    if table.shape[1] < 2:
        return Estimate(reason="one_class")
    return strength_of(Groups.of(table, table.sum(axis=0) / table.sum(), np.ones(table.shape, np.bool_)))

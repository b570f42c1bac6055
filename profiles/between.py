"""How much of the spread of rows lies between parties, within each class, and what chance alone would give."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.kernel import KernelSums

Vector = NDArray[np.float64]
ROUNDING = 1e-15  # a smaller variance, as a share of the squared total, is what sums in float64 leave of none
SHRINK = 3  # power of the shrinkage of the third cumulant, chosen by the alarm rates of bench/feature_calibration.py


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """What one class adds to the index: sums of squares, their moments under chance, and each party's part.

    ``total`` and ``between`` are sums of squares; ``mean``, ``variance``, ``third`` the first three cumulants of
    ``between`` when the rows of the class are dealt out at random to parties of these sizes; ``within``, ``pull`` and
    ``push`` what the interval needs; ``party``, ``rows``, ``excess`` (C,) the parties, their rows, and their part of
    ``between`` less its mean.
    """

    total: float
    between: float
    mean: float
    variance: float
    third: float
    within: float
    pull: float
    push: float
    party: NDArray[np.int64]
    rows: NDArray[np.int64]
    excess: Vector


@dataclass(frozen=True, slots=True)
class Share:
    """The index: ``skew`` (0 chance, at most 1), ``p_value``, 95 % ``interval``.

    ``by_party`` (P,) each party's own, ``rows`` (P,) the rows it rests on (0: none, and ``by_party`` is 0).
    """

    skew: float
    p_value: float
    interval: tuple[float, float]
    by_party: Vector
    rows: Vector


def class_terms(sums: KernelSums) -> ClassTerms:
    r"""Reduce the sums of one class to its terms.

    With :math:`A = HKH` the centred kernel matrix of the n rows and :math:`B` the centred projection on parties,
    :math:`SS_{between} = \mathrm{tr}(AB)`. Over all permutations of the rows its mean is
    :math:`\mathrm{tr}A\,\mathrm{tr}B/(n-1)` and its variance depends on A and B by their traces, the traces of their
    squares and the sums of their squared diagonals only; for features of length 1 all of these follow from
    :math:`\sum\phi` and :math:`\sum\phi\phi^T`. So the null law needs no permuted rows and holds for parties of any
    sizes, also of one row.

    References
    ----------
    Kazi-Aoual, Hitier, Sabatier, Lebreton 1995, Refined approximations to permutation tests for multivariate
    inference, theorem 1, https://doi.org/10.1016/0167-9473(94)00064-2
    """
    n, groups = int(sums.rows.sum()), len(sums.rows)
    centre = sums.sums.sum(axis=0) / n
    means = sums.sums / sums.rows[:, None]
    length = float(centre @ centre)
    total = n * (1 - length)
    scatter = sums.second - n * np.outer(centre, centre)
    between = sums.rows * ((means - centre) ** 2).sum(axis=1)
    quartic = n * (1 + length) ** 2 - 4 * (1 + length) * n * length + 4 * float(centre @ sums.second @ centre)
    mean, variance = _moments(n, sums.rows, total, float((scatter**2).sum()), quartic)
    spread = (sums.second - (means.T * sums.rows) @ means) / max(n - groups, 1)
    expected = (1 - sums.rows / n) * total / max(n - 1, 1)
    return ClassTerms(
        total=total,
        between=float(between.sum()),
        mean=mean,
        variance=variance,
        third=_third(n, groups, scatter, variance),
        within=2 * (groups - 1) * float((spread**2).sum()),
        pull=n * float(centre @ spread @ centre),
        push=float(np.einsum("p,pd,pd->", sums.rows, means @ spread, means)),
        party=sums.party,
        rows=sums.rows,
        excess=between - expected,
    )


def index_from(terms: Iterable[ClassTerms], parties: int) -> Share | None:
    r"""The chance-corrected share of variance between parties over all classes; None where it cannot be told.

    :math:`(SS_b - E_0)/(SS_t - E_0)`, each summed over classes, :math:`E_0` the mean of :math:`SS_b` over permutations
    of rows within classes: Kelley's :math:`\varepsilon^2`, which is 0 on average by chance and 1 when parties have no
    spread of their own. p by a gamma law with the permutation mean and variance (Satterthwaite). The interval holds
    parties fixed and lets their rows vary (delta method).

    References
    ----------
    Kelley 1935, An unbiased correlation ratio measure, https://doi.org/10.1073/pnas.21.9.554
    """
    kept = list(terms)
    total, between, mean, variance, third, within, pull, push = (
        sum(getattr(term, name) for term in kept)
        for name in ("total", "between", "mean", "variance", "third", "within", "pull", "push")
    )
    third = max(third, 2 * variance**2 / max(mean, 1e-300))  # the least that a weighted sum of chi-squared can have
    room = total - mean
    if not kept or room <= 1e-9 * max(total, 1e-300) or total <= 1e-9 * sum(int(t.rows.sum()) for t in kept):
        return None
    skew = (between - mean) / room
    slope = 4 * ((between / total) ** 2 * pull + (push - pull)) / total**2
    noise = (within + max(slope * total**2 - 2 * within, 0.0)) / total**2
    error = 1.96 * total / room * np.sqrt(noise if noise > ROUNDING else 0.0)
    rows = np.zeros(parties)
    excess = np.zeros(parties)
    for term in kept:
        rows[term.party] += term.rows
        excess[term.party] += term.excess
    unit = room / sum(int(term.rows.sum()) for term in kept)
    by_party = excess / np.maximum(rows, 1) / unit
    return Share(
        float(skew),
        tail(between, mean, variance, third),
        (float(skew - error), float(min(1, skew + error))),
        by_party,
        rows,
    )


def tail(value: float, mean: float, variance: float, third: float) -> float:
    """The chance of at least ``value`` under a shifted gamma law with three given cumulants (Pearson type III).

    Examples
    --------
    >>> round(tail(3.841, 1.0, 2.0, 8.0), 3)  # chi-squared with one degree of freedom
    0.05
    >>> tail(1.0, 1.0, 0.0, 0.0)
    1.0
    """
    from scipy.special import gammaincc

    if variance <= 0:
        return 1.0
    shape = 4 * variance**3 / max(third, 1e-6 * variance**1.5) ** 2
    scaled = shape + (value - mean) * np.sqrt(shape / variance)
    return float(gammaincc(shape, max(scaled, 0.0)))


def _third(n: int, groups: int, scatter: Vector, variance: float) -> float:
    """The third cumulant of a weighted sum of chi-squared, shrunk as the variance is where rows are few."""
    square = float((scatter**2).sum())
    if variance <= 0 or square <= 0:
        return 0.0
    cube = 8 * (groups - 1) * float(np.einsum("ij,ij->", scatter @ scatter, scatter)) / (n - 1) ** 3
    return cube * min(1.0, variance * (n - 1) ** 2 / (2 * (groups - 1) * square)) ** SHRINK


def _moments(n: int, rows: NDArray[np.int64], trace: float, square: float, quartic: float) -> tuple[float, float]:
    """Mean and variance of the sum of squares between groups over all n! permutations."""
    groups = len(rows)
    freedom = groups - 1
    mean = trace * freedom / max(n - 1, 1)
    if n == 3 and groups == 2:
        return mean, max(2.25 * (quartic / 3 - (trace / 3) ** 2), 0.0)
    if n < 4 or groups in {1, n}:
        return mean, 0.0
    diagonal = float((rows * (1 / rows - 1 / n) ** 2).sum())
    first = 2 * ((n - 1) * square - trace**2) * ((n - 1) * freedom - freedom**2)
    second = (n * (n + 1) * quartic - (n - 1) * (trace**2 + 2 * square)) * (
        n * (n + 1) * diagonal - (n - 1) * (freedom**2 + 2 * freedom)
    )
    variance = first / ((n - 1) ** 2 * (n + 1) * (n - 2)) + second / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    return mean, max(variance, 0.0)


def association(table: NDArray[np.int64]) -> tuple[float, float] | None:
    """How far the row of a table tells its column: Goodman and Kruskal's tau less chance, and its p-value.

    Parameters
    ----------
    table : (P, V) int64 counts

    Returns
    -------
    (share, p): share 0 by chance to 1, signed; None where fewer than two rows or columns are in use

    References
    ----------
    Goodman and Kruskal 1954, Measures of association for cross classifications, section 9; Light and Margolin 1971,
    https://doi.org/10.1080/01621459.1971.10482297, on its reading as an analysis of variance.

    Examples
    --------
    >>> share, p = association(np.array([[20, 0], [0, 20]]))
    >>> round(share, 6), p < 1e-6
    (1.0, True)
    >>> association(np.array([[20, 0], [20, 0]])) is None
    True
    """
    rows = table.sum(axis=1)
    used = np.flatnonzero(rows)
    columns = table.sum(axis=0)
    if len(used) < 2 or np.count_nonzero(columns) < 2:
        return None
    kept = table[used][:, columns > 0].astype(np.float64)
    found = index_from([class_terms(KernelSums(used, rows[used], kept, np.diag(kept.sum(axis=0))))], len(table))
    return None if found is None else (found.skew, found.p_value)

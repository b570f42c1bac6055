"""The sum of n ln n over a large table with both margins fixed: mean and spread without drawing."""

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

NODES = 32  # distinct margins looked at one by one; beyond, a cubic spline over so many
WIDTH = 8.0  # standard deviations of a cell on either side
TERMS = 4_000_000  # of one block of sums


def sum_law(by_party: Counts, by_class: Counts) -> tuple[float, float]:
    r"""Mean and standard deviation of :math:`\sum n \ln n` over the cells when rows are dealt out at random.

    The mean is the sum of hypergeometric means. The variance is that of independent Poisson cells of mean
    :math:`\mu = ab/n` less what goes with the margins: with v the variance of x ln x, c its covariance with x,
    :math:`\sum v - \sum_i (\sum_j c)^2/a_i - \sum_j (\sum_i c)^2/b_j + (\sum c)^2/n`, times (1 - 1/P)(1 - 1/K). It
    holds for many cells, full or sparse: given the total, row sums and column sums are
    uncorrelated.

    Parameters
    ----------
    by_party, by_class : (P,) and (K,) positive margins with the same sum

    References
    ----------
    Morris 1975, Central limit theorems for multinomial sums, https://doi.org/10.1214/aos/1176343006 (Poisson
    variables conditioned on their sums).

    Examples
    --------
    >>> mean, spread = sum_law(np.array([1, 1]), np.array([1, 1]))  # either table has four cells of 0 or 1
    >>> round(mean, 9)
    0.0
    """
    n = int(by_party.sum())
    (a, rows_a, times_a), (b, rows_b, times_b) = _nodes(by_party), _nodes(by_class)
    mean, variance, shared = _by_expectation(a, b, n)  # each as a share of the cell's expectation
    total = float(rows_a @ mean @ rows_b) / n
    by_row, by_column = times_a[0] @ (shared @ rows_b) / n, times_b[0] @ (rows_a @ shared) / n
    explained = float((times_a[1] * by_row**2).sum() + (times_b[1] * by_column**2).sum())
    explained -= float(rows_a @ shared @ rows_b) ** 2 / n**3
    left = max(float(rows_a @ variance @ rows_b) / n - explained, 0.0)
    return total, float(np.sqrt(left * (1 - 1 / len(by_party)) * (1 - 1 / len(by_class))))


def _nodes(margin: Counts) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Margins to look at (U,), rows that stand for each (U,), and how to come back: weights (D, U), rows (D,)."""
    values, times = np.unique(margin, return_counts=True)
    rows = (values * times).astype(np.float64)
    if len(values) <= NODES:
        return values.astype(np.float64), rows, (np.eye(len(values)), rows)
    from scipy.interpolate import CubicSpline

    nodes = np.geomspace(values[0], values[-1], NODES)
    back = CubicSpline(np.log(nodes), np.eye(NODES))(np.log(np.clip(values, nodes[0], nodes[-1])))
    return nodes, rows @ back, (back, rows)


def _by_expectation(a: Floats, b: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    """Mean of x ln x (hypergeometric), its variance and its covariance with x (Poisson), over the mean of x; (A, B)."""
    out = np.zeros((3, len(a), len(b)))
    for i, one in enumerate(a):
        middle = one * b / n
        reach = np.ceil(WIDTH * np.sqrt(middle) + 5 * WIDTH)
        first = np.maximum(np.floor(middle - reach), 0)
        span = int((2 * reach).max()) + 1
        for at in range(0, len(b), max(1, TERMS // span)):
            part = slice(at, at + max(1, TERMS // span))
            x = first[part, None] + np.arange(span)
            out[:, i, part] = _moments(x, one, b[part, None], n) / middle[part]
    return out[0], out[1], out[2]


def _moments(x: Floats, a: float, b: Floats, n: int) -> Floats:
    """Sums over the values x of a cell, (3, B)."""
    from scipy.special import gammaln

    value = x * np.log(np.maximum(x, 1))
    possible = (x <= a) & (x <= b) & (x >= a + b - n)
    x1, x2, x3, x4 = (np.where(possible, y, 0.0) for y in (x, a - x, b - x, n - a - b + x))
    log = gammaln(a + 1) + gammaln(n - a + 1) + gammaln(b + 1) + gammaln(n - b + 1) - gammaln(n + 1)
    weight = np.exp(np.where(possible, log - sum(gammaln(y + 1) for y in (x1, x2, x3, x4)), -np.inf))
    middle = a * b / n
    poisson = np.exp(x * np.log(middle) - middle - gammaln(x + 1))
    centre = (poisson * value).sum(axis=1)
    variance = (poisson * (value - centre[:, None]) ** 2).sum(axis=1)
    shared = (poisson * value * (x - middle)).sum(axis=1)
    return np.stack([(weight * value).sum(axis=1) / weight.sum(axis=1), variance, shared])

"""Central moments of cells of rows, and how two cells become one: what streams and silos merge without a loss."""

import numpy as np
from numpy.typing import NDArray

Moments = NDArray[np.float64]
"""(5, …) float64: count, mean, and the sums of the second, third and fourth power of the deviation from that mean."""


def no_moments(*shape: int) -> Moments:
    """Moments of no rows, (5, *shape): merging them changes nothing."""
    return np.zeros((5, *shape))


def moments_of(values: NDArray[np.float64], starts: NDArray[np.int64]) -> Moments:
    """Moments of groups of rows that stand one after the other; what is not finite is left out.

    Parameters
    ----------
    values : (n, F) float64
    starts : (G,) ascending, the first row of each group; every group has a row

    Returns
    -------
    (5, G, F) float64

    Examples
    --------
    >>> moments_of(np.array([[1.0], [3.0], [np.nan], [7.0]]), np.array([0, 2])).squeeze().tolist()
    [[2.0, 1.0], [2.0, 7.0], [2.0, 0.0], [0.0, 0.0], [2.0, 0.0]]
    """
    out = np.zeros((5, len(starts), values.shape[1]))
    if not len(starts):
        return out
    blank = ~np.isfinite(values)
    some = bool(blank.any())
    lengths = np.diff(starts, append=len(values))
    out[0] = lengths[:, None]
    if some:
        values = np.where(blank, 0.0, values)
        out[0] -= np.add.reduceat(blank, starts, axis=0, dtype=np.int64)
    out[1] = np.add.reduceat(values, starts, axis=0) / np.maximum(out[0], 1)
    apart = values - np.repeat(out[1], lengths, axis=0)
    if some:
        apart[blank] = 0.0
    power = apart * apart
    for k in (2, 3, 4):
        out[k] = np.add.reduceat(power, starts, axis=0)
        if k < 4:
            power *= apart
    return out + 0.0  # no -0.0, so that equal cells have equal bytes


def merged(one: Moments, other: Moments) -> Moments:
    """Moments of the rows of both: commutative to the last bit, associative and equal to one pass but for rounding.

    References
    ----------
    Pébay 2008, Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
    moments, SAND2008-6212, equations 1.5 to 1.7.

    Examples
    --------
    >>> cells = moments_of(np.array([[1.0], [2.0], [6.0]]), np.array([0, 1]))
    >>> merged(cells[:, 0], cells[:, 1]).ravel().tolist()
    [3.0, 3.0, 14.0, 18.0, 98.0]
    """
    n, m = one[0], other[0]
    total = np.maximum(n + m, 1)
    gap = other[1] - one[1]
    share, rest = n / total, m / total
    mean = np.where(m == 0, one[1], np.where(n == 0, other[1], share * one[1] + rest * other[1]))
    both = (n > 0) & (m > 0)
    gap = np.where(both, gap, 0.0)
    mean = np.where(gap == 0, np.where(m == 0, one[1], other[1]), mean)
    pair = n * m / total
    # as products: on some processors numpy's powers of a number and of its negative differ in the last bit
    square = gap * gap
    second = (one[2] + other[2]) + square * pair
    third = (one[3] + other[3]) + square * gap * pair * (share - rest) + 3 * gap * (share * other[2] - rest * one[2])
    fourth = (
        (one[4] + other[4])
        + square * square * pair * (share * share + rest * rest - share * rest)
        + 6 * square * (rest * rest * one[2] + share * share * other[2])
        + 4 * gap * (share * other[3] - rest * one[3])
    )
    return np.stack([n + m, mean, second, third, fourth]) + 0.0  # no -0.0


def pooled(cells: Moments) -> Moments:
    """Moments of all cells along axis 1 together.

    Parameters
    ----------
    cells : (5, G, …)

    Examples
    --------
    >>> pooled(moments_of(np.array([[1.0], [2.0], [6.0]]), np.array([0, 1, 2]))).ravel().tolist()
    [3.0, 3.0, 14.0, 18.0, 98.0]
    """
    n, mean, second, third, fourth = cells
    count = n.sum(axis=0)
    centre = (n * mean).sum(axis=0) / np.maximum(count, 1)
    gap = np.where(n > 0, mean - centre, 0.0)
    square = gap * gap
    return np.stack(
        [
            count,
            centre,
            (second + n * square).sum(axis=0),
            (third + 3 * gap * second + n * square * gap).sum(axis=0),
            (fourth + 4 * gap * third + 6 * square * second + n * square * square).sum(axis=0),
        ]
    )

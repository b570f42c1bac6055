"""NIID-Bench's size cap: which cells it would have closed, and how likely luck alone left them empty."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.null import Counts
from fedskew.profiles.records import Estimate

CLOSED_CELLS = 3  # fewer closed cells make a cap only by the stricter of the two chances
CLOSED_CHANCE = (3e-4, 1e-6)  # how unlikely luck must be


def closed_cells(counts: Counts) -> NDArray[np.bool_]:
    """Cells that NIID-Bench's size cap would have closed: parties at n/N rows or more before the class was dealt.

    Parameters
    ----------
    counts : (P, K) int64, classes in their natural order

    Returns
    -------
    (P, K) bool

    Examples
    --------
    >>> closed_cells(np.array([[4, 0], [1, 3]])).tolist()
    [[False, True], [False, False]]
    """
    before = np.cumsum(counts, axis=1) - counts
    return np.asarray((before * len(counts) >= counts.sum()) & (counts.sum(axis=0) > 0))


def luck(closed: NDArray[np.bool_], by_class: Counts, fitted: Estimate) -> float:
    """Chance that an uncapped Dirichlet leaves at most one row in each of these cells."""
    from scipy.special import betainc

    if fitted.estimate is None:
        return 1.0
    others = fitted.estimate * (by_class.shape[1] - 1)
    one_row = np.minimum(1.0, 1.5 / np.maximum(by_class.sum(axis=1), 1.5))
    return float(np.exp((closed.sum(axis=1) * np.log(betainc(fitted.estimate, others, one_row))).sum()))

"""Recognise partitions by number of classes a party (#C=k)."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.null import Counts
from fedskew.profiles.records import ClassesPerParty

STRAY = 0.02  # a class with at most this share of a party's rows is a stray, unless the party holds of the class
FAIR, TRACE = 0.5, 0.002  # more than half of what equal parties would, in more than a trace of its rows (rare classes)
STRAYS = 0.05  # and all strays together must stay under this
FITTING = 0.9  # share of the parties that must hold exactly k classes
EVEN = 0.5  # root mean square over classes of the variation coefficient among their holders
LEAST_ROWS = 10  # rows per held class, in the median, below which counting classes tells nothing


def classes_per_party(counts: Counts) -> ClassesPerParty:
    """Recognise that every party holds the same small number of classes, a few stray rows aside.

    Parameters
    ----------
    counts : (P, K) int64

    Returns
    -------
    ClassesPerParty : ``k`` from 1 to K - 1 where at least nine in ten parties hold exactly k classes and everything
        else in them is at most 5 %; else None. ``share``: of the parties with rows, those that hold the most common
        number of classes, 0 to 1

    Notes
    -----
    Held is a class with over 2 % of the party's rows, or over 0.2 % if that is half a fair share of a rare class. A
    strong label Dirichlet, with all its small shares, must not be taken for a class count: so either each class is
    split about evenly over its holders, as generators do, or all parties fit without a single stray row.

    References
    ----------
    Li, Diao, Chen, He 2022, section IV-B (quantity-based label imbalance); McMahan et al. 2017, section 3.

    Examples
    --------
    >>> classes_per_party(np.array([[300, 0, 2], [0, 300, 0], [0, 1, 300]])).k
    1
    >>> classes_per_party(np.array([[100, 90, 110], [90, 110, 100]])).k is None
    True
    """
    table = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    parties, classes = table.shape
    if parties < 2 or classes < 2:
        return ClassesPerParty()
    rows = table.sum(axis=1)
    share_of_class = table * parties > FAIR * table.sum(axis=0)
    held = (table > STRAY * rows[:, None]) | (share_of_class & (table > TRACE * rows[:, None]))
    strays = np.where(held, 0, table).sum(axis=1)
    number = np.where(strays <= STRAYS * rows, held.sum(axis=1), 0)
    k = int(np.argmax(np.bincount(number)[1:]) + 1) if number.any() else 0
    share = float((number == k).mean()) if k else 0.0
    enough = float(np.median(rows / np.maximum(held.sum(axis=1), 1))) >= LEAST_ROWS
    clean = share == 1.0 and not strays.any()
    found = k and k < classes and share >= FITTING and enough and (clean or _unevenness(table, held) <= EVEN)
    return ClassesPerParty(k=k if found else None, share=share)


def _unevenness(table: Counts, held: NDArray[np.bool_]) -> float:
    """Root mean square, over classes of two or more holders, of the variation coefficient among the holders."""
    holders = held.sum(axis=0)
    rows = np.where(held, table, 0)[:, holders > 1].astype(np.float64)
    if not rows.size:
        return 0.0
    mean = rows.sum(axis=0) / holders[holders > 1]
    spread = (np.where(held[:, holders > 1], rows - mean, 0.0) ** 2).sum(axis=0) / holders[holders > 1]
    return float(np.sqrt((spread / mean**2).mean()))

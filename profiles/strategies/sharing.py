"""How rows are shared out: Dirichlet shares, cuts, floors and deals, each with bounded work and no rejection."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""Rows by party and class, (P, K) int64."""


def even(total: int, parts: int) -> NDArray[np.int64]:
    """Split a number into whole parts that differ by at most 1, larger ones first.

    Examples
    --------
    >>> even(10, 4).tolist()
    [3, 3, 2, 2]
    """
    base, extra = divmod(total, parts)
    return base + (np.arange(parts) < extra).astype(np.int64)


def cut(total: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cut a number at floor(cumsum(shares) * total); the last part takes the rest, as in both sources.

    Parameters
    ----------
    total : rows to share out, 0 or more
    shares : (N,) shares that sum to 1

    Examples
    --------
    >>> cut(10, np.array([0.25, 0.25, 0.5])).tolist()
    [2, 3, 5]
    """
    edges = np.minimum(np.floor(np.cumsum(shares) * total), total).astype(np.int64)
    edges[-1] = total
    return np.diff(edges, prepend=0)


def log_dirichlet(rng: np.random.Generator, alpha: Any, size: tuple[int, ...]) -> NDArray[np.float64]:
    """Logarithms of gamma variates whose normalised values are Dirichlet(alpha), over the last axis.

    Uses G(a) = G(a + 1) * U**(1 / a) in logarithms, so that no draw underflows however small alpha is: shares can be
    renormalised over any subset of parties without dividing by zero.

    Parameters
    ----------
    rng : generator
    alpha : concentration, a positive number or an array that broadcasts to ``size``
    size : shape of the result

    References
    ----------
    Devroye, Non-Uniform Random Variate Generation, 1986, section IX.3 (gamma variates of small shape).
    """
    a = np.broadcast_to(np.asarray(alpha, dtype=np.float64), size)
    return np.log(rng.standard_gamma(a + 1.0)) - rng.standard_exponential(size) / a


def shares_of(logs: NDArray[np.float64], among: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """Normalise log weights over the last axis, over the places ``among`` only where given.

    Examples
    --------
    >>> shares_of(np.log([1.0, 3.0, 4.0]), np.array([True, True, False])).round(2).tolist()
    [0.25, 0.75, 0.0]
    """
    kept = logs if among is None else np.where(among, logs, -np.inf)
    weights = np.exp(kept - kept.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def top_up(counts: Counts, wishes: NDArray[np.float64], floor: int, rng: np.random.Generator) -> Counts:
    """Lift every party to the floor with rows from parties above it; parties keep the classes they lean to.

    Parties above the floor offer what they have above it, rows drawn at random; parties under the floor, in random
    order, take from the offers by their own ``wishes``. Work is bounded by parties times classes.

    Parameters
    ----------
    counts : (P, K) rows by party and class, not changed
    wishes : (P, K) how much a party leans to a class; only the order within a party matters
    floor : fewest rows of a party; P * floor must not exceed the sum of ``counts``
    rng : generator

    Examples
    --------
    >>> top_up(np.array([[0, 0], [5, 5]]), np.array([[0.0, 1.0], [0.0, 0.0]]), 2, np.random.default_rng(1)).tolist()
    [[0, 2], [5, 3]]
    """
    sizes = counts.sum(axis=1)
    short = rng.permutation(np.flatnonzero(sizes < floor))
    if short.size == 0:
        return counts
    result = counts.copy()
    offers = np.zeros_like(counts)
    for giver in np.flatnonzero(sizes > floor):
        offers[giver] = rng.multivariate_hypergeometric(counts[giver], int(sizes[giver] - floor))
    left = offers.sum(axis=0)
    for taker, order in zip(short, np.argsort(-wishes[short], axis=1), strict=True):
        missing = floor - int(sizes[taker])
        for k in order:
            taken = min(missing, int(left[k]))
            result[taker, k] += taken
            left[k] -= taken
            missing -= taken
            if missing == 0:
                break
    for k, taken in enumerate(offers.sum(axis=0) - left):
        result[:, k] -= rng.multivariate_hypergeometric(offers[:, k], int(taken))
    return result


def deal(labels: NDArray[np.int64], counts: Counts, rng: np.random.Generator) -> NDArray[np.int32]:
    """Give each party its number of rows of each class, which rows being random.

    Parameters
    ----------
    labels : (N,) class codes
    counts : (P, K) rows by party and class; the columns sum to the class sizes
    rng : generator

    Returns
    -------
    (N,) int32 party codes

    Examples
    --------
    >>> deal(np.array([0, 1, 0]), np.array([[2, 0], [0, 1]]), np.random.default_rng(1)).tolist()
    [0, 1, 0]
    """
    parties, classes = counts.shape
    order = by_class(labels, classes, rng)
    party = np.empty(len(labels), dtype=np.int32)
    party[order] = np.repeat(np.tile(np.arange(parties, dtype=np.int32), classes), counts.T.ravel())
    return party


def by_class(labels: NDArray[np.int64], classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row numbers sorted by class, in random order within a class, (N,) int64.

    Examples
    --------
    >>> by_class(np.array([1, 0, 2]), 3, np.random.default_rng(1)).tolist()
    [1, 0, 2]
    """
    narrow = np.uint16 if classes <= 65_536 else np.int64  # 16 bits: numpy sorts by radix
    shuffled = rng.permutation(len(labels))
    return np.asarray(shuffled[np.argsort(labels[shuffled].astype(narrow), kind="stable")])


def deal_blocks(sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
    """Give each party its number of rows, which rows being random; (N,) int32.

    Examples
    --------
    >>> sorted(deal_blocks(np.array([1, 2]), np.random.default_rng(1)).tolist())
    [0, 1, 1]
    """
    return rng.permutation(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))


def stratified(sizes: NDArray[np.int64], parties: int, rng: np.random.Generator) -> Counts:
    """Split every class evenly; left-over rows go round, so class counts and party sizes both differ by at most 1.

    Examples
    --------
    >>> stratified(np.array([3, 3]), 2, np.random.default_rng(1)).sum(axis=1).tolist()
    [3, 3]
    """
    seats = rng.permutation(parties)
    counts = np.zeros((parties, len(sizes)), dtype=np.int64)
    start = 0
    for k, size in enumerate(sizes):
        counts[:, k], extra = divmod(int(size), parties)
        counts[seats[(start + np.arange(extra)) % parties], k] += 1
        start += extra
    return counts

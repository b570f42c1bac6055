"""Who holds which class: random classes a party with given numbers of holders, and the split among holders."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.strategies.sharing import Counts, cut, even

Holds = NDArray[np.bool_]
"""Which party holds which class, (P, K)."""


def random_subsets(parties: int, classes: int, each: int, rng: np.random.Generator) -> Holds:
    """Give every party ``each`` distinct classes, all subsets being equally likely.

    Examples
    --------
    >>> random_subsets(3, 5, 2, np.random.default_rng(1)).sum(axis=1).tolist()
    [2, 2, 2]
    """
    ranks = rng.random((parties, classes)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < each)


def fit_holders(wanted: NDArray[np.int64], most: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Bring numbers of holders between 1 and ``most`` and keep their sum; what moves is drawn at random.

    Parameters
    ----------
    wanted : (K,) numbers of holders
    most : (K,) upper limits, at least 1; K <= sum(wanted) <= sum(most)
    rng : generator

    Examples
    --------
    >>> fit_holders(np.array([0, 5, 1]), np.array([3, 3, 3]), np.random.default_rng(1)).sum()
    np.int64(6)
    """
    holders = np.clip(wanted, 1, most)
    change = int(wanted.sum() - holders.sum())
    if change > 0:
        return np.asarray(holders + rng.multivariate_hypergeometric(most - holders, change))
    return np.asarray(holders - rng.multivariate_hypergeometric(holders - 1, -change))


def deal_classes(holders: NDArray[np.int64], parties: int, each: int, rng: np.random.Generator) -> Holds:
    """Deal classes at random: every party gets ``each`` distinct ones, class k goes to ``holders[k]`` parties.

    Party by party: a class that must go to every party still to come is taken, the others are drawn without
    replacement in proportion to the holders they still need. This never runs into a dead end.

    Parameters
    ----------
    holders : (K,) numbers of holders, at most P each; their sum is P * each
    parties, each : P and classes a party
    rng : generator

    Examples
    --------
    >>> deal_classes(np.array([2, 1, 1]), 2, 2, np.random.default_rng(1)).sum(axis=0).tolist()
    [2, 1, 1]
    """
    left = holders.astype(np.int64).copy()
    holds = np.zeros((parties, len(left)), dtype=np.bool_)
    for party in range(parties):
        waits = rng.standard_exponential(len(left)) / np.maximum(left, 1e-300)  # first come = drawn by weight
        waits[left == 0] = np.inf
        waits[left == parties - party] = -1.0
        taken = np.argpartition(waits, each - 1)[:each]
        holds[party, taken] = True
        left[taken] -= 1
    return holds


def split_evenly(sizes: NDArray[np.int64], holds: Holds, rng: np.random.Generator) -> Counts:
    """Split each class over its holders, equal within 1, the left-over rows to holders at random; (P, K)."""
    counts = np.zeros(holds.shape, dtype=np.int64)
    for k, size in enumerate(sizes):
        owners = rng.permutation(np.flatnonzero(holds[:, k]))
        if len(owners):
            counts[owners, k] = even(int(size), len(owners))
    return counts


def split_by(sizes: NDArray[np.int64], holds: Holds, weights: NDArray[np.float64]) -> Counts:
    """Split each class over its holders by (P, K) weights after one row each, where there are enough rows; (P, K)."""
    counts = np.zeros(holds.shape, dtype=np.int64)
    for k, size in enumerate(sizes):
        owners = np.flatnonzero(holds[:, k])
        if len(owners):
            floor = 1 if size >= len(owners) else 0
            share = weights[owners, k] / weights[owners, k].sum()
            counts[owners, k] = floor + cut(int(size) - floor * len(owners), share)
    return counts

"""Rows that stand in more than one silo, or in a silo and in the test set, beyond what coarse columns explain."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.partitions import Partition
from fedskew.profiles.rowhash import row_hashes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_PAIRS = 20_000_000  # (row, party, party) triples looked at one by one


@dataclass(frozen=True, slots=True)
class Copies:
    """Two holders of equal rows, by code (the test set has code P), and how many rows of either stand in the other."""

    first: int
    second: int
    rows: int
    surplus: float


def copied_rows(partition: Partition) -> tuple[list[Copies], int]:
    r"""Find the pairs of holders that share more equal rows than their own repetitions explain.

    If rows of holder p are drawn from frequencies f, two rows of p are equal with probability
    :math:`w_p = \sum f_p^2`, and a row of p equals one of q with probability :math:`\sum f_p f_q \le \sqrt{w_p w_q}`
    (Cauchy-Schwarz), however skewed p and q are. A pair is reported when it holds clearly more equal rows than that
    bound, taken from the repetitions within silos; where columns are so coarse that equal rows may well arise by
    themselves, one repetition more than was seen is allowed for.

    Returns
    -------
    (pairs of holders beyond the bound, all rows that also stand in another silo or the test set)
    """
    hashes, holder = _hashes(partition)
    sizes = np.bincount(holder, minlength=partition.parties + 1).astype(np.float64)
    _, group, repeats = np.unique(hashes, return_inverse=True, return_counts=True)
    kept = repeats[group] > 1
    if not kept.any():
        return [], 0
    from scipy.sparse import csr_array

    _, group = np.unique(group[kept], return_inverse=True)
    counts = csr_array((np.ones(len(group)), (group, holder[kept])), shape=(group.max() + 1, len(sizes)))
    counts.sum_duplicates()
    holders = np.diff(counts.indptr)
    equal = int(counts.sum(axis=1)[holders > 1].sum())
    squares = np.asarray(counts.multiply(counts - _ones(counts)).sum(axis=0)).ravel() / 2
    if not equal or float((holders.astype(np.float64) ** 2).sum()) > MOST_PAIRS:
        return [], equal
    shared = counts[np.flatnonzero(holders > 1)]
    return _beyond(shared, squares, sizes, _coarseness(partition)), equal


def _ones(counts: "csr_array") -> "csr_array":
    alike = counts.copy()
    alike.data[:] = 1
    return alike


def _width(features: Any) -> int:
    return int(np.prod(features.shape[1:]))


def _hashes(partition: Partition) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    hashes = row_hashes(partition.features, partition.labels)
    test = partition.test
    if test is None or _width(test.features) != _width(partition.features):
        return hashes, partition.party.astype(np.int64)
    holder = np.append(partition.party, np.full(len(test.labels), partition.parties)).astype(np.int64)
    return np.append(hashes, row_hashes(test.features, test.labels)), holder


def _coarseness(partition: Partition) -> float:
    """A generous guess of the chance that two rows are equal: the root of what independent columns would give."""
    some = np.unique(np.linspace(0, partition.rows - 1, 500).astype(np.int64))
    block = partition.features[some]
    block = block if isinstance(block, np.ndarray) else block.toarray()
    block = block.reshape(len(block), -1)
    if not block.shape[1]:
        return 1.0  # without columns all rows are equal
    block = block[:, np.unique(np.linspace(0, block.shape[1] - 1, 200).astype(np.int64))]
    log = 0.0
    for column in block.T:
        counts = np.unique(column, return_counts=True)[1]
        log += np.log(max(float((counts * (counts - 1)).sum()), 1e-3) / max(len(some) * (len(some) - 1), 1))
    return float(np.exp(max(log, -500.0) / 2))


def _beyond(
    shared: "csr_array", squares: NDArray[np.float64], sizes: NDArray[np.float64], coarseness: float
) -> list[Copies]:
    """The pairs whose equal rows exceed twice the bound by more than a Poisson count does once in a thousand tables."""
    from scipy.sparse import triu
    from scipy.special import gammainc

    chances = sizes * (sizes - 1) / 2
    own = squares / np.maximum(chances, 1)
    pooled = squares.sum() / max(chances.sum(), 1) + min(1 / max(chances.sum(), 1), coarseness)
    pairs = triu(shared.T @ shared, k=1).tocoo()
    first, second = pairs.coords
    rate = np.maximum(np.sqrt(own[first] * own[second]), pooled)
    expected = rate * sizes[first] * sizes[second]
    tail = gammainc(pairs.data, np.maximum(2 * expected, 1e-9))  # P(Poisson >= count)
    beyond = np.flatnonzero((tail * len(sizes) ** 2 < 1e-3) & (pairs.data > 2 * expected))
    return [
        Copies(
            int(first[i]),
            int(second[i]),
            _both(shared, int(first[i]), int(second[i])),
            float(pairs.data[i] - expected[i]),
        )
        for i in beyond
    ]


def _both(shared: "csr_array", first: int, second: int) -> int:
    left, right = shared[:, [first]].toarray().ravel(), shared[:, [second]].toarray().ravel()
    return int(np.minimum(left, right).sum())

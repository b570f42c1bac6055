"""Rows that stand in more than one silo, or in a silo and in the test set, beyond what coarse columns explain."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.partitions import Partition
from fedskew.profiles.rowhash import row_hashes

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csr_array

MOST_PAIRS = 20_000_000  # (row, party, party) triples looked at one by one
BLOCK = 2_000_000  # of them at a time


@dataclass(frozen=True, slots=True)
class Copies:
    """Two holders of equal rows, by code (the test set has code P), and how many rows of either stand in the other."""

    first: int
    second: int
    rows: int


@dataclass(frozen=True, slots=True)
class Shared:
    """Rows that stand in several places.

    ``pairs``: holders that share more than their repetitions explain. ``equal``: rows that also stand in another silo
    or the test set; ``in_silos``: those that stand in two silos or more, of which ``kinds`` differ, and ``copies`` are
    not in the silo that holds most of their kind; ``tested``: test rows that stand in a silo. ``widest``: 0, or how
    many silos hold one of them, where that are too many to compare each two and all silos together share more than
    their repetitions explain.
    """

    pairs: tuple[Copies, ...] = ()
    equal: int = 0
    in_silos: int = 0
    tested: int = 0
    kinds: int = 0
    copies: int = 0
    widest: int = 0


def copied_rows(partition: Partition) -> Shared:
    r"""Find the pairs of holders that share more equal rows than their own repetitions explain.

    If rows of holder p are drawn from frequencies f, two rows of p are equal with probability
    :math:`w_p = \sum f_p^2`, and a row of p equals one of q with probability :math:`\sum f_p f_q \le \sqrt{w_p w_q}`
    (Cauchy-Schwarz), however skewed p and q are. A pair is reported when it holds clearly more equal rows than that
    bound, taken from the repetitions within silos; where columns are so coarse that equal rows may well arise by
    themselves, one repetition more than was seen is allowed for.

    Silos and the test set are compared in time linear in the rows. Rows that very many silos hold would make too many
    pairs of silos: those are compared over all silos together.
    """
    hashes, holder = _hashes(partition)
    sizes = np.bincount(holder, minlength=partition.parties + 1).astype(np.float64)
    _, group, repeats = np.unique(hashes, return_inverse=True, return_counts=True)
    kept = repeats[group] > 1
    if not kept.any():
        return Shared()
    from scipy.sparse import csr_array

    _, group = np.unique(group[kept], return_inverse=True)
    counts = csr_array((np.ones(len(group)), (group, holder[kept])), shape=(group.max() + 1, len(sizes)))
    counts.sum_duplicates()
    squares = np.asarray(counts.multiply(counts - _ones(counts)).sum(axis=0)).ravel() / 2
    shared = counts[np.flatnonzero(np.diff(counts.indptr) > 1)]
    if not shared.nnz:
        return Shared()
    bound = _bound(squares, sizes, _coarseness(partition))
    silos = shared[:, : partition.parties].tocsr()
    held = np.diff(silos.indptr)
    several = np.flatnonzero(held > 1)
    order = several[np.argsort(held[several], kind="stable")]
    few = order[np.cumsum(held[order].astype(np.float64) ** 2) <= MOST_PAIRS]
    tested, leaks = _leaks(silos, shared[:, [partition.parties]].toarray().ravel(), bound)
    return Shared(
        pairs=(*_beyond(silos[few], bound), *leaks),
        equal=int(shared.sum()),
        in_silos=int(silos[several].sum()),
        tested=tested,
        kinds=len(several),
        copies=int(silos[several].sum() - silos[several].max(axis=1).sum()) if len(several) else 0,
        widest=int(held.max()) if len(few) < len(several) and _all_beyond(silos, bound) else 0,
    )


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


@dataclass(frozen=True, slots=True)
class _Bound:
    """How often rows may be equal by themselves: ``own`` within each holder (P + 1,), ``least`` between any two."""

    own: NDArray[np.float64]
    least: float
    sizes: NDArray[np.float64]

    def between(self, first: NDArray[np.int64], second: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Equal pairs of rows that two holders may have at most."""
        rate = np.maximum(np.sqrt(self.own[first] * self.own[second]), self.least)
        return np.asarray(rate * self.sizes[first] * self.sizes[second])

    def exceeded(self, found: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.bool_]:
        """More than twice the bound, and more than a Poisson count exceeds it by once in a thousand tables."""
        from scipy.special import gammainc

        tail = gammainc(np.maximum(found, 1), np.maximum(2 * expected, 1e-9))  # P(Poisson >= count)
        return np.asarray((tail * len(self.sizes) ** 2 < 1e-3) & (found > 2 * expected))


def _bound(squares: NDArray[np.float64], sizes: NDArray[np.float64], coarseness: float) -> _Bound:
    chances = sizes * (sizes - 1) / 2
    least = squares.sum() / max(chances.sum(), 1) + min(1 / max(chances.sum(), 1), coarseness)
    return _Bound(squares / np.maximum(chances, 1), float(least), sizes)


def _beyond(silos: "csr_array", bound: _Bound) -> list[Copies]:
    """The pairs of silos whose equal rows exceed the bound."""
    if not silos.nnz:
        return []
    products, least = _pairs(silos)
    first, second = (codes.astype(np.int64) for codes in products.coords)
    found = np.flatnonzero(bound.exceeded(products.data, bound.between(first, second)))
    return [Copies(int(first[i]), int(second[i]), int(least[i])) for i in found]


def _pairs(silos: "csr_array") -> "tuple[coo_array, NDArray[np.float64]]":
    """Of every two silos that share a row, summed over rows: the product of their counts, and the lesser one."""
    from scipy.sparse import csr_array

    shape = (silos.shape[1], silos.shape[1])
    products: Any = csr_array(shape)
    least: Any = csr_array(shape)
    silos.sort_indices()
    stops = np.repeat(silos.indptr[1:], np.diff(silos.indptr)).astype(np.int64)
    after = stops - 1 - np.arange(silos.nnz)  # how many silos stand behind each entry in its row
    blocks = np.cumsum(after) // BLOCK
    for block in range(int(blocks[-1]) + 1):
        entries = np.flatnonzero(blocks == block)
        left = np.repeat(entries, after[entries])
        starts = np.cumsum(after[entries]) - after[entries]
        right = left + 1 + np.arange(len(left)) - np.repeat(starts, after[entries])
        places = silos.indices[left], silos.indices[right]
        one, other = silos.data[left], silos.data[right]
        products += csr_array((one * other, places), shape=shape)
        least += csr_array((np.minimum(one, other), places), shape=shape)
    return products.tocoo(), least.tocoo().data


def _leaks(silos: "csr_array", test: NDArray[np.float64], bound: _Bound) -> tuple[int, list[Copies]]:
    """(test rows that stand in a silo, the silos that hold more of them than the bound)."""
    held = np.repeat(test, np.diff(silos.indptr))
    code = silos.shape[1]
    products = np.bincount(silos.indices, silos.data * held, code).astype(np.float64)
    least = np.bincount(silos.indices, np.minimum(silos.data, held), code)
    every = np.arange(code)
    found = np.flatnonzero((products > 0) & bound.exceeded(products, bound.between(every, code)))
    tested = int(test[np.diff(silos.indptr) > 0].sum())
    return tested, [Copies(int(i), code, int(least[i])) for i in found]


def _all_beyond(silos: "csr_array", bound: _Bound) -> bool:
    """Whether all silos together hold more equal rows than the bounds of all pairs of them together."""
    total = np.asarray(silos.sum(axis=1)).ravel()
    found = (float((total**2).sum()) - float((silos.data**2).sum())) / 2
    rate = bound.sizes[:-1] * np.sqrt(np.maximum(bound.own[:-1], bound.least))
    return found > float(rate.sum() ** 2 - (rate**2).sum())  # twice the bound

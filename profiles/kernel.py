"""Random Fourier features of rows, their sums by party and class, and what chance makes of those sums."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.encoding import Scaling, column_moments, encode, scaled_variance, scaling, scaling_of
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Partition
from fedskew.profiles.rowhash import row_hashes, sampled

PAIRS = 64  # cos/sin pairs: 128 features
NARROW = 2.0  # how much narrower than the mean distance of two rows: sees most of noise on a9a, among 1, 2, 3 and 4
PIXEL_PAIRS = 16  # of them, for images, those that look at pixels
MOST_ROWS = 200_000  # rows of one party that enter
CHUNK_BYTES = 1 << 24
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Projection:
    """What turns a row into random features: a scaling, then frequencies (F, 64) float32."""

    how: Scaling
    frequencies: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class KernelSums:
    """The sums of one class: all that its part of the index and of its null law need.

    Parameters
    ----------
    party : (C,) int64, the parties that hold rows of the class, ascending
    rows : (C,) int64, how many
    sums : (C, D) float64, the sum of their features, each row's features having Euclidean length 1
    second : (D, D) float64, the sum of the outer products of all rows with themselves
    """

    party: NDArray[np.int64]
    rows: NDArray[np.int64]
    sums: Vector
    second: Vector

    def merge(self, other: "KernelSums") -> "KernelSums":
        """The sums of both sets of rows: associative, commutative, equal to one pass over all rows.

        Examples
        --------
        >>> one = kernel_sums([np.eye(2)[[0]]], np.array([3]))
        >>> both = one.merge(kernel_sums([np.eye(2)[[1, 0]]], np.array([3, 4])))
        >>> both.party.tolist(), both.rows.tolist(), both.sums.tolist()
        ([3, 4], [2, 1], [[1.0, 1.0], [1.0, 0.0]])
        """
        party, place = np.unique(np.concatenate([self.party, other.party]), return_inverse=True)
        rows = np.zeros(len(party), np.int64)
        sums = np.zeros((len(party), self.sums.shape[1]))
        np.add.at(rows, place, np.concatenate([self.rows, other.rows]))
        np.add.at(sums, place, np.concatenate([self.sums, other.sums]))
        return KernelSums(party, rows, sums, self.second + other.second)


def projection(partition: Partition) -> Projection:
    r"""Draw the frequencies of a Gaussian kernel about as wide as two rows lie apart.

    :math:`k(x, y) = \exp(-\|x - y\|^2 / 2\sigma^2)` with :math:`\sigma^2 = \frac12 \sum_j \mathrm{var}(x_j)` over the
    scaled features of a table: half the root mean squared distance of two rows, since rows of one class lie closer and
    noise only spreads them. For images :math:`\sigma^2` is that mean squared distance, four times as much. Numeric
    columns are standardised; 0/1 columns and sparse features stay as :func:`~fedskew.profiles.encoding.scaling` leaves
    them, so that a column of many categories weighs no more than any other.

    Images get the mean of two kernels. A quarter of the pairs looks at pixels, each divided by its own standard
    deviation (at least a third of the mean one, or border pixels would count most): brightness and contrast show there.
    The others look at the cosine transform, each coefficient divided by its own (at least a tenth): natural images
    have little in the high frequencies, so that noise shows there long before it shows in pixels.

    References
    ----------
    Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines, algorithm 1.

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> projection(make_partition([[0.0], [1.0], [5.0]], [0, 1, 1], ["a", "a", "b"])).frequencies.shape
    (1, 64)
    """
    if partition.features.ndim == 2 and isinstance(partition.features, np.ndarray):
        count, mean, m2, binary = column_moments(partition.features)
        how = scaling_of(count, mean, m2, binary)
        return table_projection(how, float(scaled_variance(count, mean, m2, how, partition.rows).sum()))
    how = scaling(partition)
    variance, spectrum = _variances(partition.features, how)
    if spectrum is None:
        return table_projection(how, float(variance.sum()))
    from scipy.fft import idctn

    shape = partition.features.shape[1:]
    width = int(np.prod(shape))
    normal = _normal(width)
    typical = float(np.sqrt(variance.mean()))
    pixel, wave = normal[:, :PIXEL_PAIRS], normal[:, PIXEL_PAIRS:]
    pixel, wave = _flattened(pixel, variance, typical / 3), _flattened(wave, spectrum, typical / 10)
    back = idctn(wave.T.reshape(-1, *shape), axes=(2, 3), norm="ortho").reshape(len(wave.T), width).T
    return Projection(how, np.ascontiguousarray(np.hstack([pixel, back]), dtype=np.float32))


def table_projection(how: Scaling, variance: float) -> Projection:
    """The projection of a table: all it needs are the scaling and the variance of all scaled features together."""
    return Projection(how, _normal(len(how.shift)) * np.float32(NARROW) * _unit(variance))


def _normal(width: int) -> NDArray[np.float32]:
    return generator("random-features", width).standard_normal((width, PAIRS), dtype=np.float32)


def random_features(features: Any, by: Projection) -> NDArray[np.float32]:
    """64 cosines and 64 sines of the projected rows, (n, 128) float32, each row of length 1.

    Examples
    --------
    >>> by = Projection(Scaling(np.zeros(1, np.float32), np.ones(1, np.float32)), np.ones((1, 64), np.float32))
    >>> found = random_features(np.zeros((1, 1), np.float32), by)
    >>> float(found[0, 0]), float(found[0, 64])
    (0.125, 0.0)
    """
    scaled = encode(features, by.how)
    if isinstance(scaled, np.ndarray):  # float64, or a row's angles would depend on the rows beside it
        angles = np.asarray(scaled.reshape(len(scaled), -1).astype(np.float64) @ by.frequencies.astype(np.float64))
        angles = angles.astype(np.float32)
    else:
        angles = np.asarray(scaled @ by.frequencies)
    out = np.empty((len(angles), 2 * PAIRS), np.float32)
    np.cos(angles, out=out[:, :PAIRS])
    np.sin(angles, out=out[:, PAIRS:])
    out *= np.float32(1 / np.sqrt(PAIRS))
    return out


def kernel_sums(chunks: Iterable[NDArray[Any]], party: NDArray[Any]) -> KernelSums:
    """Sum the features of the rows of one class.

    Parameters
    ----------
    chunks : arrays (n, D) whose rows, one after the other, are those of ``party``
    party : (N,) integers, ascending
    """
    codes, starts = np.unique(party, return_index=True)
    sums, second, done = np.zeros((0, 0)), np.zeros((0, 0)), 0
    for chunk in chunks:
        if done == 0:
            sums, second = np.zeros((len(codes), chunk.shape[1])), np.zeros((chunk.shape[1],) * 2)
        first = int(np.searchsorted(starts, done, side="right")) - 1
        last = int(np.searchsorted(starts, done + len(chunk), side="left"))
        edges = np.maximum(starts[first:last] - done, 0)
        sums[first:last] += np.add.reduceat(chunk, edges, axis=0, dtype=np.float64)
        wide = chunk.astype(np.float64)
        second += wide.T @ wide
        done += len(chunk)
    return KernelSums(codes.astype(np.int64), np.diff(np.append(starts, len(party))), sums, second)


def entering_rows(partition: Partition, most: int = MOST_ROWS) -> NDArray[np.bool_] | None:
    """Choose the rows that enter: all, but at most about ``most`` of a party, by their hash; None: all."""
    sizes = partition.sizes
    if sizes.max(initial=0) <= most:
        return None
    chosen = np.ones(partition.rows, np.bool_)
    for party in np.flatnonzero(sizes > most):
        rows = partition.rows_of(int(party))
        chosen[rows] = sampled(row_hashes(partition.features[rows], partition.labels[rows]), most)
    return chosen


def sums_by_class(partition: Partition, by: Projection) -> Iterator[KernelSums]:
    """The sums of each class that at least two parties hold, one at a time: memory does not grow with classes."""
    chosen = entering_rows(partition)
    shared = (partition.counts > 0).sum(axis=0) >= 2
    codes = partition.labels if chosen is None else np.where(chosen, partition.labels, partition.classes)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(partition.classes + 1))
    step = max(256, CHUNK_BYTES // (8 * max(2 * PAIRS, int(np.prod(partition.features.shape[1:])))))
    for label in np.flatnonzero(shared):
        rows = order[ends[label] : ends[label + 1]]
        pieces = (rows[start : start + step] for start in range(0, len(rows), step))
        yield kernel_sums((random_features(partition.features[p], by) for p in pieces), partition.party[rows])


def _variances(features: Any, how: Scaling) -> tuple[Vector, Vector | None]:
    """Variances of sparse or image features, scaled; for images also of the cosine transform; in chunks."""
    from scipy.fft import dctn

    width, n = int(np.prod(features.shape[1:])), features.shape[0]
    image = features.ndim == 4
    sums = np.zeros((2, 2, width))
    step = max(256, CHUNK_BYTES // (4 * max(1, width)))
    for start in range(0, n, step):
        block = encode(features[start : start + step], how)
        if not isinstance(block, np.ndarray):
            sums[0] += [np.asarray(block.sum(axis=0)).ravel(), np.asarray(block.multiply(block).sum(axis=0)).ravel()]
            continue
        for view, values in enumerate([block, dctn(block, axes=(2, 3), norm="ortho")] if image else [block]):
            flat = values.reshape(len(values), width)
            sums[view] += [flat.sum(axis=0, dtype=np.float64), np.einsum("ij,ij->j", flat, flat, dtype=np.float64)]
    mean, square = sums[:, 0] / n, sums[:, 1] / n
    variance = square - mean**2
    variance[variance < 1e-10 * square] = 0.0  # rounding, not spread
    return variance[0], variance[1] if image else None


def _flattened(normal: NDArray[np.float32], variance: Vector, floor: float) -> NDArray[np.float32]:
    """Frequencies for features that are first divided by their standard deviation, or by the floor."""
    scale = np.maximum(np.sqrt(variance), max(floor, 1e-12))
    return np.asarray(normal / scale[:, None].astype(np.float32) * _unit((variance / scale**2).sum()))


def _unit(variance: float) -> np.float32:
    """What makes normal numbers frequencies: one over the kernel's width."""
    return np.float32(1 / np.sqrt(2 * variance) if variance > 0 else 0.0)

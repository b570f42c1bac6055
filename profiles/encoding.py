"""Scaling of features: from the merged moments of the training silos, never from the test set."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.partitions import Partition

CHUNK = 65_536  # rows at a time, so that float64 copies stay small


@dataclass(frozen=True, slots=True)
class Scaling:
    """What is subtracted from each feature and what it is then divided by, both (F,) float32; images: one number."""

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]


def scaling(partition: Partition) -> Scaling:
    """Find the scaling of a partition's features.

    Numeric columns get mean 0 and standard deviation 1 over all rows of all parties (missing values left out); columns
    that hold only 0 and 1 stay as they are; constant columns become 0. Images are divided by 255 where they are uint8,
    else by their largest absolute value where that is above 1. Sparse features stay as they are.

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> toy = make_partition([[0.0, 0], [2.0, 1], [4.0, 1]], [0, 1, 1], ["a", "a", "b"])
    >>> found = scaling(toy)
    >>> found.shift.tolist(), found.scale.round(3).tolist()
    ([2.0, 0.0], [1.6330000162124634, 1.0])
    """
    features = partition.features
    if features.ndim == 4:
        largest = 255.0 if features.dtype == np.uint8 else max(1.0, float(np.nanmax(np.abs(features))))
        return Scaling(np.zeros(1, np.float32), np.full(1, largest, np.float32))
    if not isinstance(features, np.ndarray):
        width = features.shape[1]
        return Scaling(np.zeros(width, np.float32), np.ones(width, np.float32))
    return scaling_of(*column_moments(features))


def scaling_of(
    count: NDArray[np.float64], mean: NDArray[np.float64], m2: NDArray[np.float64], binary: NDArray[np.bool_]
) -> Scaling:
    """The scaling of dense features from their merged moments, so that silos and pooled rows scale alike.

    Parameters
    ----------
    count, mean, m2 : (F,) values that are not missing, their mean, the sum of squared deviations from it
    binary : (F,) whether all of them are 0 or 1
    """
    std = np.sqrt(m2 / np.maximum(count, 1))
    constant = never_varies(count, mean, m2)
    shift = np.where(binary & ~constant, 0.0, mean)
    scale = np.where(constant, np.maximum(np.abs(mean), 1.0), np.where(binary, 1.0, std))
    return Scaling(shift.astype(np.float32), scale.astype(np.float32))


def never_varies(count: NDArray[np.float64], mean: NDArray[np.float64], m2: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the spread of a feature is no more than rounding of its moments in float64, (F,) bool.

    The sum of one float32 over and over is exact in float64 up to 2**29 rows. One step of float32 in one of n rows
    makes a deviation of 6e-8 / sqrt(n) of the mean, above the 1e-11 asked here up to some 10**7 rows.

    Examples
    --------
    >>> hour = 1_700_000_000_000 + np.array([0.0, 3_600_000])  # milliseconds since 1970, an hour apart
    >>> never_varies(np.array([2]), hour.mean(keepdims=True), ((hour - hour.mean()) ** 2).sum(keepdims=True)).tolist()
    [False]
    """
    return np.asarray(np.sqrt(m2 / np.maximum(count, 1)) <= 1e-11 * np.maximum(np.abs(mean), 1e-30))


def encode(features: Any, how: Scaling) -> Any:
    """Scale features; a missing value becomes 0, which is the mean of its column.

    Parameters
    ----------
    features : as in :class:`Partition`, of any number of rows
    how : from :func:`scaling` of the training silos

    Returns
    -------
    float32 array of the same shape, or the same CSR array

    Examples
    --------
    >>> encode(np.array([[np.nan], [3.0]], np.float32), Scaling(np.float32([1]), np.float32([2]))).tolist()
    [[0.0], [1.0]]
    """
    if not isinstance(features, np.ndarray):
        return features
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is treated as what is missing
        scaled = (features.astype(np.float32) - how.shift) / how.scale
    return np.nan_to_num(scaled, copy=False, nan=0.0, posinf=0.0, neginf=0.0)


def scaled_variance(
    count: NDArray[np.float64], mean: NDArray[np.float64], m2: NDArray[np.float64], how: Scaling, rows: int
) -> NDArray[np.float64]:
    """The variance of each feature once it is scaled and what is missing is 0, (F,).

    Parameters
    ----------
    count, mean, m2 : (F,) see :func:`scaling_of`
    rows : values, missing ones included

    Examples
    --------
    >>> how = Scaling(np.float32([3.0]), np.float32([2.0]))
    >>> scaled_variance(np.array([2.0]), np.array([3.0]), np.array([8.0]), how, 4).tolist()
    [0.5]
    """
    scale = how.scale.astype(np.float64)
    gap = mean - how.shift
    square = (m2 + count * gap**2) / scale**2 / max(rows, 1)
    variance = square - (count * gap / scale / max(rows, 1)) ** 2
    variance[variance < 1e-10 * square] = 0.0  # rounding, not spread
    return variance


def column_moments(features: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Count, mean, sum of squared deviations (Chan's merge, float64) and "only 0 and 1" of every column."""
    width = features.shape[1]
    count, mean, m2 = np.zeros(width), np.zeros(width), np.zeros(width)
    binary = np.ones(width, np.bool_)
    for start in range(0, len(features), CHUNK):
        block = features[start : start + CHUNK].astype(np.float64)
        seen = np.isfinite(block)
        binary &= (~seen | (block == 0) | (block == 1)).all(axis=0)
        block[~seen] = 0.0
        n = seen.sum(axis=0)
        block_mean = block.sum(axis=0) / np.maximum(n, 1)
        block_m2 = (np.where(seen, block - block_mean, 0.0) ** 2).sum(axis=0)
        total = np.maximum(count + n, 1)
        delta = block_mean - mean
        m2 += block_m2 + delta**2 * count * n / total
        mean += delta * n / total
        count += n
    return count, mean, m2, binary

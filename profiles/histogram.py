"""Histograms with log-linear bins that are fixed before any data, so that silos merge them, and distances on them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def histogram(
    value: NDArray[np.float32], party: NDArray[Any], parties: int, most: int, bits: int = 7
) -> tuple[Vector, Vector]:
    """Count values by party in log-linear bins that are fixed before any data: sign, exponent, some bits of mantissa.

    Parameters
    ----------
    value, party : (N,) finite values and codes 0 to ``parties`` - 1
    most : where more bins are in use, neighbours are joined so that each holds about as many rows
    bits : of mantissa, 7 to 23; a bin is 2**-bits of its value wide

    Returns
    -------
    counts (parties, bins) float64, and where each bin lies (bins,) float64, ascending

    Examples
    --------
    >>> counts, places = histogram(np.array([1, 1, -2], np.float32), np.array([0, 1, 1]), 2, 100)
    >>> counts.tolist(), places.tolist()
    ([[0.0, 1.0], [1.0, 1.0]], [-2.0, 1.0])
    """
    keys = _keys(value)
    shift = np.uint32(23 - bits)
    while shift < 16 and int(keys.max() >> shift) - int(keys.min() >> shift) >= 1 << 18:
        shift += np.uint32(1)
    least = int(keys.min() >> shift)
    codes = (keys >> shift).astype(np.int64) - least
    held = np.bincount(codes)
    used = np.flatnonzero(held)
    mass, places = held[used], _values(_nearest_zero(used + least, int(shift)))
    joined = np.arange(len(used))
    if len(used) > most:
        joined = np.unique((np.cumsum(mass) - mass / 2) * most // mass.sum(), return_inverse=True)[1]
        places = np.bincount(joined, places * mass) / np.bincount(joined, mass)
    bins = np.zeros(len(held), np.int64)
    bins[used] = joined
    width = len(places)
    counts = np.bincount(party * width + bins[codes], minlength=parties * width).reshape(parties, width)
    return counts.astype(np.float64), places


def _keys(value: NDArray[np.float32]) -> NDArray[np.uint32]:
    """32-bit integers in the order of the values."""
    plain = (value + np.float32(0)).view(np.uint32)  # -0.0 + 0.0 is 0.0
    return np.asarray(np.where(plain >> 31, ~plain, plain | np.uint32(1 << 31)))


def _nearest_zero(bins: NDArray[np.int64], shift: int) -> NDArray[np.uint32]:
    """The key of the value of each bin that is nearest 0: round numbers stay what they are."""
    low = bins << shift
    return np.asarray(np.where(low >> 31, low, low + (1 << shift) - 1).astype(np.uint32))


def _values(keys: NDArray[np.uint32]) -> Vector:
    """The values whose keys these are."""
    plain = np.where(keys >> 31, keys & np.uint32((1 << 31) - 1), ~keys).astype(np.uint32)
    return np.nan_to_num(plain.view(np.float32).astype(np.float64))


def distances(table: Vector, places: Vector) -> tuple[Vector, Vector]:
    r"""Each party's :math:`\int |F_p - F|`, and its mean where the party's rows are a random part of the pool's.

    Parameters
    ----------
    table : (parties, bins) float64 counts
    places : (bins,) float64, ascending

    Examples
    --------
    >>> apart, chance = distances(np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([0.0, 1.0]))
    >>> apart.tolist(), chance.round(3).tolist()
    ([0.5, 0.5], [0.199, 0.199])
    """
    rows = table.sum(axis=1)
    pool = np.cumsum(table.sum(axis=0))[:-1] / rows.sum()
    gaps = np.diff(places)
    below = np.cumsum(table, axis=1)[:, :-1] / np.maximum(rows, 1)[:, None]
    distance = np.where(rows > 0, np.abs(below - pool) @ gaps, 0.0)
    factor = np.sqrt(2 / np.pi * np.maximum(1 / np.maximum(rows, 1) - 1 / rows.sum(), 0))
    return distance, factor * float(np.sqrt(pool * (1 - pool)) @ gaps)

"""Histograms with log-linear bins that are fixed before any data, so that silos merge them, and distances on them.

A bin is named by sign, exponent and the first bits of the mantissa of a float32. How many bits is the one thing that
depends on data: as many as keep the numbers of the least and the largest value within ``MOST_BINS`` of each other. That
number falls when rows are added, and a bin of fewer bits is a union of bins of more, so that merged histograms equal
the histogram of all rows, count by count, in any order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
MOST_BINS = 2048
MOST_BITS = 23
ZERO = 127 - 48
"""Exponent field under which a value counts as 0: smaller than 2**-48."""
LARGEST = 256 - ZERO  # octaves on either side of 0


def bin_numbers(
    value: NDArray[np.float32], bits: int, out: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None
) -> NDArray[np.int32]:
    """The number of the bin of each value: 0 for what is nearly 0, ascending with the value.

    Parameters
    ----------
    value : finite float32
    bits : of mantissa, 0 to 23; a bin is 2**-bits of its value wide
    out : two arrays like ``value`` to work in, of which the first is returned

    Examples
    --------
    >>> bin_numbers(np.array([-1, 0, 1, 1.25, 1.5, 2], np.float32), 1).tolist()
    [-97, 0, 97, 97, 98, 99]
    """
    plain = np.ascontiguousarray(value).view(np.int32)
    size, sign = (np.empty_like(plain), np.empty_like(plain)) if out is None else out
    np.bitwise_and(plain, 0x7FFFFFFF, out=size)
    size >>= MOST_BITS - bits
    size -= (ZERO << bits) - 1
    np.maximum(size, 0, out=size)
    np.right_shift(plain, 31, out=sign)  # 0, or -1 where negative
    size ^= sign  # with the next line -size where negative, many times faster than a choice value by value
    size -= sign
    return size


def bin_places(numbers: NDArray[np.int64], bits: int) -> Vector:
    """The value of each bin that is nearest 0, float64: round numbers stay what they are.

    Examples
    --------
    >>> bin_places(np.array([-97, 0, 98]), 1).tolist()
    [-1.0, 0.0, 1.5]
    """
    size = np.abs(numbers).astype(np.int64)
    whole = ((size + ((ZERO << bits) - 1)) << (MOST_BITS - bits)).astype(np.int32)
    value = np.where(size > 0, whole.view(np.float32).astype(np.float64), 0.0)
    return np.asarray(np.where(numbers < 0, -value, value))


def coarser(numbers: NDArray[np.int64], bits: int, wanted: int) -> NDArray[np.int64]:
    """The numbers of the same values with fewer bits.

    Examples
    --------
    >>> coarser(np.array([-97, 0, 97, 98, 99]), 1, 0).tolist()
    [-49, 0, 49, 49, 50]
    """
    if wanted == bits:
        return numbers
    size = np.abs(numbers)
    fewer = ((size + ((ZERO << bits) - 1)) >> (bits - wanted)) - ((ZERO << wanted) - 1)
    fewer = np.where(size > 0, np.maximum(fewer, 0), 0)
    return np.asarray(np.where(numbers < 0, -fewer, fewer))


def bits_between(least: float, largest: float, most: int = MOST_BINS) -> int:
    """Bits of mantissa for values from ``least`` to ``largest``: as many as keep them within ``most`` bins.

    Parameters
    ----------
    least, largest : finite
    most : 512 and more, which all values of float32 fit into

    Examples
    --------
    >>> bits_between(-3.0, 3.0), bits_between(44.0, 46.0), bits_between(7.0, 7.0)
    (4, 14, 23)
    """
    low, high = bin_numbers(np.array([least, largest], np.float32), MOST_BITS).tolist()
    for bits in range(MOST_BITS, -1, -1):
        if fewer_bits(high, MOST_BITS, bits) - fewer_bits(low, MOST_BITS, bits) < most:
            return bits
    return 0  # 2 x 177 octaves fit with two bits into 2,048 bins, with none into 512


def fewer_bits(number: int, bits: int, wanted: int) -> int:
    """One bin number with fewer bits; see :func:`coarser`."""
    size = ((abs(number) + (ZERO << bits) - 1) >> (bits - wanted)) - (ZERO << wanted) + 1 if number else 0
    return -size if number < 0 else size


def tabulated(
    numbers: NDArray[Any], party: NDArray[Any], parties: int, most: int, bits: int, weight: NDArray[Any] | None = None
) -> tuple[Vector, Vector]:
    """The table of parties and bins in use, from bin numbers that are of one value each or carry a count.

    Parameters
    ----------
    numbers, party : (n,) bin numbers, not none, and codes 0 to ``parties`` - 1
    most : where more bins are in use, neighbours are joined so that each holds about as many rows
    bits : of the bin numbers
    weight : (n,) rows that each number stands for; one where None

    Returns
    -------
    counts (parties, bins) float64, and where each bin lies (bins,) float64, ascending
    """
    least = int(numbers.min())
    codes = numbers.astype(np.int64) - least
    held = np.bincount(codes, weight)
    used = np.flatnonzero(held)
    mass, places = held[used], bin_places(used + least, bits)
    joined = np.arange(len(used))
    if len(used) > most:
        total = mass.sum()
        joined = np.unique(((np.cumsum(mass) - mass / 2) * most) // total, return_inverse=True)[1]
        places = np.bincount(joined, places * mass) / np.bincount(joined, mass)
    bins = np.zeros(len(held), np.int64)
    bins[used] = joined
    width = len(places)
    counts = np.bincount(party * width + bins[codes], weight, minlength=parties * width)
    return counts.reshape(parties, width).astype(np.float64), places


def histogram(
    value: NDArray[np.float32], party: NDArray[Any], parties: int, most: int, bits: int = 7
) -> tuple[Vector, Vector]:
    """Count values by party in log-linear bins that are fixed before any data: sign, exponent, some bits of mantissa.

    Parameters
    ----------
    value, party : (N,) finite values and codes 0 to ``parties`` - 1
    most : see :func:`tabulated`
    bits : of mantissa, 0 to 23; a bin is 2**-bits of its value wide

    Returns
    -------
    counts (parties, bins) float64, and where each bin lies (bins,) float64, ascending

    Examples
    --------
    >>> counts, places = histogram(np.array([1, 1, -2], np.float32), np.array([0, 1, 1]), 2, 100)
    >>> counts.tolist(), places.tolist()
    ([[0.0, 1.0], [1.0, 1.0]], [-2.0, 1.0])
    """
    return tabulated(bin_numbers(value, bits), party, parties, most, bits)


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

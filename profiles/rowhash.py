"""A 64-bit hash of every row, so that equal rows are found and rows are sampled alike on every machine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.keyed import generator

CHUNK_BYTES = 1 << 22


def row_hashes(features: Any, labels: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
    """Hash each row: equal rows get equal hashes, different rows almost surely (1 in 2**59 a pair) different ones.

    A missing value equals a missing value, 0.0 equals -0.0, and a sparse row equals its dense form. uint8 and float32
    rows of the same numbers hash alike.

    Parameters
    ----------
    features : (N, F), (N, C, H, W), or CSR (N, F)
    labels : (N,) int64 codes that enter the hash, or None to hash the features alone

    Returns
    -------
    (N,) uint64

    References
    ----------
    Multilinear hashing modulo 2**64: Dietzfelbinger et al. 1997, https://doi.org/10.1006/jagm.1997.0873

    Examples
    --------
    >>> found = row_hashes(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]], np.float32))
    >>> bool(found[0] == found[2]), bool(found[0] == found[1])
    (True, False)
    """
    width = int(np.prod(features.shape[1:]))
    keys = generator("row-hash", width).integers(0, 2**64, size=width + 1, dtype=np.uint64) | np.uint64(1)
    hashed = _dense(features, keys) if isinstance(features, np.ndarray) else _sparse(features, keys)
    if labels is not None:
        hashed = hashed + _scrambled((labels + 1).astype(np.uint32)).astype(np.uint64) * keys[-1]
    return _finished(hashed)


def sampled(hashes: NDArray[np.uint64], most: int) -> NDArray[np.bool_]:
    """Choose about ``most`` rows by their hash, so that merged silos choose the same rows.

    Examples
    --------
    >>> sampled(np.array([1, 2**63, 2**64 - 1], np.uint64), 3).tolist()
    [True, True, True]
    >>> sampled(np.array([1, 2**63, 2**64 - 1], np.uint64), 1).tolist()
    [True, False, False]
    """
    if len(hashes) <= most:
        return np.ones(len(hashes), np.bool_)
    return np.asarray(hashes < np.uint64(int(2**64 * (most / len(hashes)))))


def told_apart(hashes: NDArray[np.uint64], party: NDArray[Any]) -> NDArray[np.uint64]:
    """Give equal rows of a party different hashes, so that few kinds of rows are sampled row by row, not kind by kind.

    The first of them keeps its own; which is the first does not matter, since they are equal.

    Examples
    --------
    >>> found = told_apart(np.array([5, 5, 5, 7], np.uint64), np.array([0, 0, 1, 1]))
    >>> int(found[0]), bool(found[1] == 5), found[2:].tolist()
    (5, False, [5, 7])
    """
    order = np.lexsort((hashes, party))
    first, code = hashes[order], np.asarray(party)[order]
    repeated = np.zeros(len(order), np.bool_)
    repeated[1:] = (first[1:] == first[:-1]) & (code[1:] == code[:-1])
    place = np.arange(len(order))
    rank = place - np.maximum.accumulate(np.where(repeated, 0, place))
    out = np.empty_like(hashes)
    out[order] = np.where(repeated, _finished(first + rank.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)), first)
    return out


def _dense(features: NDArray[Any], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    flat = features.reshape(len(features), -1)
    hashed = np.zeros(len(flat), np.uint64)
    step = max(1, CHUNK_BYTES // max(1, 8 * flat.shape[1]))
    for start in range(0, len(flat), step):
        words = _words(flat[start : start + step])
        hashed[start : start + step] = (words * keys[:-1]).sum(axis=1, dtype=np.uint64)
    return hashed


def _sparse(features: Any, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    terms = np.append(_words(np.asarray(features.data)) * keys[features.indices], np.uint64(0))
    running = np.concatenate(
        [[np.uint64(0)], np.cumsum(terms[:-1], dtype=np.uint64)]
    )  # wraps, which is right mod 2**64
    return np.asarray(running[features.indptr[1:]] - running[features.indptr[:-1]])


def _words(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Scrambled bits of each value as float32; 0 stays 0, so that what a sparse row leaves out adds nothing."""
    plain = values.astype(np.float32) + np.float32(0)  # -0.0 + 0.0 is 0.0
    plain[np.isnan(plain)] = np.nan  # one bit pattern for all missing values
    return _scrambled(plain.view(np.uint32)).astype(np.uint64)


def _scrambled(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A bijection of 32 bits: round floats have many trailing zeros, which would weaken a product modulo 2**64."""
    words = words ^ (words >> np.uint32(16))
    words = words * np.uint32(0x45D9F3B)
    return np.asarray(words ^ (words >> np.uint32(16)))


def _finished(hashed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The last steps of splitmix64, so that thresholds on the hash sample evenly."""
    mixed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))

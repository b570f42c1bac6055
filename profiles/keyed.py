"""Random numbers keyed by what they are for, so that no generator state is ever stored or shared."""

import hashlib

import numpy as np

Key = str | int


def seed_of(*key: Key) -> int:
    """Hash a key to 64 bits: same key, same number, on every machine and in any order of calls.

    Parameters
    ----------
    key : what the numbers are for, such as ``("batches", seed, round, party)``

    Returns
    -------
    int, 0 to 2**64 - 1

    Examples
    --------
    >>> seed_of("batches", 1, 2) == seed_of("batches", 1, 2)
    True
    >>> seed_of("batches", 12) == seed_of("batches", 1, 2)
    False
    """
    text = "\x1f".join(f"{type(part).__name__[0]}:{part}" for part in key)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def generator(*key: Key) -> np.random.Generator:
    """A numpy generator for one purpose.

    Parameters
    ----------
    key : see :func:`seed_of`

    Examples
    --------
    >>> int(generator("example", 1).integers(1000)) == int(generator("example", 1).integers(1000))
    True
    """
    return np.random.Generator(np.random.Philox(seed_of(*key)))

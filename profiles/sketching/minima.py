"""Keyed hashes of rows, the least 1,024 of each silo: only who holds the key can tell which rows two silos share."""

from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import check_file

MINIMA = 1_024
"""Row hashes that a sketch holds at most where it is asked for them."""
SPAN = 2**63  # hashes are under it, so that every JSON reader has room for them
LEAST_KEY, MOST_KEY = 16, 1 << 16  # bytes
MAKE_KEY = 'python -c "import secrets; print(secrets.token_hex(32))" > rows.key'


class RowMinima(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The least hashes of a party's rows, ascending, and how many of its rows have each.

    ``key`` names the key (and the plan) with which they were made, without telling it.
    """

    key: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    hashes: Annotated[tuple[Annotated[int, Meta(ge=0, le=2**63 - 1)], ...], Meta(max_length=MINIMA)] = ()
    counts: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**48)], ...], Meta(max_length=MINIMA)] = ()


class RowKey:
    """What hashes rows: the silos' secret, bound to a plan, so that no two plans' hashes can be compared.

    Parameters
    ----------
    secret : 16 bytes or more that no one outside the silos knows
    plan : the plan's SHA-256

    Raises
    ------
    FedskewError
        The secret is too short.

    References
    ----------
    BLAKE2 with a key is a pseudorandom function: RFC 7693, section 2.9.
    """

    def __init__(self, secret: bytes, plan: str) -> None:
        if len(secret) < LEAST_KEY:
            raise FedskewError(f"the hash key has {len(secret)} bytes; give {LEAST_KEY} and more: {MAKE_KEY}")
        self.key = blake2b(b"rows" + plan.encode(), key=blake2b(secret).digest()).digest()
        self.name = blake2b(b"name", key=self.key, digest_size=16).hexdigest()

    def hashes(
        self, features: NDArray[np.float32], labels: NDArray[np.int64], class_names: tuple[str, ...]
    ) -> NDArray[np.uint64]:
        """Hash rows: as the plan orders their features (n, F), missing values alike, and the name of their class.

        Returns
        -------
        (n,) uint64, under 2**63

        Examples
        --------
        >>> rows = np.array([[1, np.nan], [-0.0, 2], [1, np.nan], [0, 2]], np.float32)
        >>> found = RowKey(b"0123456789abcdef", "").hashes(rows, np.array([0, 0, 0, 1]), ("x", "y"))
        >>> bool(found[0] == found[2]), bool(found[1] == found[3])
        (True, False)
        """
        plain = np.ascontiguousarray(features, "<f4") + np.float32(0)  # -0.0 + 0.0 is 0.0
        plain[np.isnan(plain)] = np.nan  # one bit pattern for all missing values
        begun = {
            code: blake2b(class_names[code].encode() + b"\0", key=self.key, digest_size=8)
            for code in np.unique(labels).tolist()
        }
        data, width, out = memoryview(plain.tobytes()), 4 * plain.shape[1], bytearray()
        for at, code in enumerate(labels.tolist()):
            one = begun[code].copy()
            one.update(data[at * width : (at + 1) * width])
            out += one.digest()
        return np.frombuffer(bytes(out), "<u8") >> np.uint64(1)


class LeastHashes:
    """The least hashes of a party, gathered batch by batch; which batches does not matter."""

    def __init__(self) -> None:
        self.held = np.zeros(0, np.uint64)
        self.times = np.zeros(0, np.int64)

    @property
    def most(self) -> int:
        """What a hash may be at most to be among the least."""
        return int(self.held[-1]) if len(self.held) == MINIMA else SPAN

    def add(self, hashes: NDArray[np.uint64], times: NDArray[np.int64] | None = None) -> None:
        """Add hashes, each of one row or of as many as ``times`` says."""
        weight = np.ones(len(hashes), np.int64) if times is None else times
        near = hashes <= np.uint64(self.most)
        both, place = np.unique(np.concatenate([self.held, hashes[near]]), return_inverse=True)
        counts = np.zeros(len(both), np.int64)
        np.add.at(counts, place, np.concatenate([self.times, weight[near]]))
        self.held, self.times = both[:MINIMA], counts[:MINIMA]

    def record(self, key: str) -> RowMinima:
        """What leaves the silo."""
        return RowMinima(key=key, hashes=tuple(self.held.tolist()), counts=tuple(self.times.tolist()))


def merged_minima(one: RowMinima | None, other: RowMinima | None, rows: tuple[int, int]) -> RowMinima | None:
    """The least hashes of the rows of both: exact, in any order. A part without rows needs none.

    Parameters
    ----------
    rows : of either part

    Raises
    ------
    FedskewError
        They are made with different keys, or only the rows of one are hashed.

    Examples
    --------
    >>> parts = [RowMinima(key="0" * 32, hashes=(3, h), counts=(1, 1)) for h in (7, 9)]
    >>> both = merged_minima(*parts, (2, 2))
    >>> both.hashes, both.counts
    ((3, 7, 9), (2, 1, 1))
    """
    if one is None or other is None:
        held, rest = (one, rows[1]) if other is None else (other, rows[0])
        if held is None or not rest:
            return held
        if held.hashes:
            raise FedskewError("only a part of a party's rows is hashed; sketch all of them with --hash-key")
        return None
    if one.key != other.key:
        raise FedskewError("a party's rows are hashed with different keys; sketch all of them with one --hash-key")
    least = LeastHashes()
    for part in (one, other):
        least.add(np.array(part.hashes, np.uint64), np.array(part.counts, np.int64))
    return least.record(one.key)


def read_key(path: Path) -> bytes:
    """Read the secret that the silos share; the end of its line does not count.

    Raises
    ------
    FedskewError
        There is no such file, or it is too short or too long for a key.
    """
    if check_file(path) > MOST_KEY:
        raise FedskewError(f"{path}: is too large for a hash key ({MOST_KEY >> 10} KB at most)")
    secret = path.read_bytes().strip()
    if len(secret) < LEAST_KEY:
        raise FedskewError(f"{path}: holds {len(secret)} bytes; a hash key needs {LEAST_KEY} and more: {MAKE_KEY}")
    return secret


def minima_problem(minima: RowMinima, rows: int) -> str | None:
    """What cannot be in the row hashes of a party."""
    if list(minima.hashes) != sorted(set(minima.hashes)) or len(minima.hashes) != len(minima.counts):
        return "its row hashes are out of order, or not one count each"
    held = sum(minima.counts)
    if held > rows or (held < rows and len(minima.hashes) < MINIMA):
        return f"its row hashes are of {held} rows, and it has {rows}"
    return None


def known(minima: RowMinima, rows: int) -> tuple[NDArray[np.uint64], NDArray[np.int64], float]:
    """The hashes that are a random part of all, how many rows have each, and how large that part is.

    A full list ends with a hash that depends on the others; without it the rest are all hashes under a limit.
    """
    hashes, counts = np.array(minima.hashes, np.uint64), np.array(minima.counts, np.int64)
    if sum(minima.counts) == rows or not len(hashes):
        return hashes, counts, 1.0
    return hashes[:-1], counts[:-1], max(float(hashes[-1]) / SPAN, 1e-18)


def part_of(features: Any, labels: NDArray[np.int64], class_names: tuple[str, ...], key: RowKey) -> RowMinima:
    """The least hashes of the rows of one party at hand."""
    least = LeastHashes()
    least.add(key.hashes(features, labels, class_names))
    return least.record(key.name)

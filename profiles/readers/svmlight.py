"""svmlight / libsvm text, ``label index:value index:value …``, plain or packed; features stay sparse (CSR)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import Arrays, Options, Reader, check_file, check_memory, refuse_columns
from fedskew.profiles.readers.packed import head, pieces

BLOCK = 1 << 24
LONGEST = 1 << 28  # bytes of one line
WIDEST = 1 << 24
"""Most columns: each has a name of its own."""
COLUMN_BYTES = 400
TOKEN = 64  # bytes of one number
_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_LINE = re.compile(rb"\s*" + _NUMBER + rb"(?:," + _NUMBER + rb")*(?:\s+(?:qid:\d+|\d+:" + _NUMBER + rb"))*\s*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows: ``labels`` (n,) and ``counts`` (n,) of numbers a row, and those numbers with their columns."""

    labels: NDArray[np.float64]
    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]


def is_svmlight(path: Path) -> bool:
    """Whether the first 20 lines are ``label index:value …`` and one of them has a value."""
    lines = head(path, 1 << 16).split(b"\n")
    lines = [line for line in lines[:-1] or lines if line.strip() and not line.lstrip().startswith(b"#")][:20]
    return any(b":" in line for line in lines) and all(_LINE.fullmatch(line) for line in lines)


def read_svmlight(path: Path, options: Options) -> Arrays:
    """Read an svmlight file; column j holds what the file calls feature j.

    Indices count from 0 or from 1: column 0 is one only if some row has it. Text after ``#`` is a comment. Labels are
    whole numbers where all of them are.

    Parameters
    ----------
    path : plain, or packed by gzip, bzip2 or xz
    options : ``label`` and ``party`` must not be given, since the file has no such columns

    Raises
    ------
    FedskewError
        A line is not of this form, a row has several labels or the same index twice, a number is not finite in
        float32, or the file is cut.
    EnvironmentFaultError
        Memory cannot hold it.
    """
    size = check_file(path)
    refuse_columns(path, options, "svmlight files have one label a row and no names")
    blocks, line = [], 1
    for block in _blocks(path, size):
        blocks.append(_parse(path, block, line))
        line += block.count(b"\n")
    if not any(len(block.labels) for block in blocks):
        raise FedskewError(f"{path}: holds no rows, only comments and empty lines")
    labels = np.concatenate([block.labels for block in blocks])
    whole = labels.astype(np.int64) if bool((labels == np.floor(labels)).all()) else labels
    return Arrays(str(path), _matrix(path, blocks), whole, ragged=True)


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """Whole lines, about 16 MiB at a time."""
    rest = b""
    for piece in pieces(path, size, BLOCK):
        rest += piece
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
        elif len(rest) > LONGEST:
            raise FedskewError(f"{path}: a line is longer than {LONGEST} bytes; is this an svmlight file?")
    if rest:
        yield rest


def _parse(path: Path, block: bytes, first: int) -> _Rows:
    """The rows of one block of lines; ``first`` is the number of its first line."""
    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    raw = np.frombuffer(block, np.uint8)
    gap = raw <= 32
    starts = np.flatnonzero(~gap & np.append(True, gap[:-1]))
    line = np.searchsorted(np.flatnonzero(raw == ord("\n")), starts)
    label = np.append(True, np.diff(line) > 0)[: len(starts)]
    token = np.searchsorted(starts, np.flatnonzero(raw == ord(":")), side="right") - 1
    # One colon in each token but the labels, and a number on either side of it: else the counts differ.
    sound = np.array_equal(np.bincount(token, minlength=len(starts)), (~label).astype(np.int64))
    texts = block.replace(b":", b" ").split() if sound and b"_" not in block else []
    if len(texts) != 2 * len(starts) - int(label.sum()) or max(map(len, texts), default=0) > TOKEN:
        raise _bad_line(path, block, first)
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        raise _bad_line(path, block, first) from None
    place = np.cumsum(np.where(label, 1, 2)) - np.where(label, 1, 2)
    columns, values = numbers[place[~label]], numbers[place[~label] + 1]
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    labels = numbers[place[label]]
    if not (np.isfinite(small).all() and np.isfinite(labels).all() and bool((columns == np.floor(columns)).all())):
        raise _bad_line(path, block, first)
    if len(columns) and not (columns.min() >= 0 and columns.max() < WIDEST):
        raise FedskewError(
            f"{path}: has a feature {columns.min() if columns.min() < 0 else columns.max():.0f}; allowed are 0 to "
            f"{WIDEST - 1}. Hash the features to fewer"
        )
    row = np.cumsum(label) - 1
    counts = np.bincount(row[~label], minlength=int(label.sum()))
    return _Rows(labels, counts.astype(np.int64), columns.astype(np.int32), small)


def _matrix(path: Path, blocks: list[_Rows]) -> Any:
    from scipy.sparse import csr_array

    counts = np.concatenate([block.counts for block in blocks])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    width = max((int(block.columns.max()) + 1 for block in blocks if len(block.columns)), default=1)
    check_memory(path, 16 * int(starts[-1]) + COLUMN_BYTES * width)
    columns = np.concatenate([block.columns for block in blocks])
    values = np.concatenate([block.values for block in blocks])
    kind = np.int32 if starts[-1] < 2**31 else np.int64
    matrix: Any = csr_array((values, columns.astype(kind), starts.astype(kind)), shape=(len(counts), width))
    if not matrix.has_sorted_indices:
        matrix.sort_indices()
    row = np.repeat(np.arange(len(counts)), counts)
    twice = np.flatnonzero((np.diff(matrix.indices) == 0) & (np.diff(row) == 0))
    if len(twice):
        where = f"row {row[twice[0]] + 1} has feature {matrix.indices[twice[0]]} twice"
        raise FedskewError(f"{path}: {where}; each may stand once a row")
    return matrix


def _bad_line(path: Path, block: bytes, first: int) -> FedskewError:
    """Which line of a block is to blame, and why."""
    form = "allowed is label index:value index:value …"
    for number, line in enumerate(block.split(b"\n"), first):
        for place, token in enumerate(line.split()):
            parts = token.split(b":")
            shown = token[:40].decode("ascii", "backslashreplace")
            where = f"{path}: line {number}: {shown!r}"
            if place == 0 and b"," in token:
                return FedskewError(f"{where} are several labels; one class a row is needed, keep one of them")
            if parts[0] == b"qid":
                return FedskewError(f"{where} is a query of a ranking task; remove it to read the rest")
            if len(parts) != (1 if place == 0 else 2):
                return FedskewError(f"{where} is no {'label' if place == 0 else 'index:value'}; {form}")
            if not all(map(_is_number, parts)):
                return FedskewError(f"{where} is no finite number in float32; {form}")
            if place and float(parts[0]) % 1:
                return FedskewError(f"{where} begins with no whole number; {form}")
    return FedskewError(f"{path}: from line {first} on, is not svmlight; {form}")


def _is_number(text: bytes) -> bool:
    try:
        with np.errstate(over="ignore"):
            return len(text) <= TOKEN and b"_" not in text and bool(np.isfinite(np.float32(float(text))))
    except ValueError:
        return False


SVMLIGHT = Reader("svmlight", (".svm", ".svmlight", ".libsvm"), read_svmlight, claims=is_svmlight)

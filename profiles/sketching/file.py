"""Sketch files: strict canonical JSON, checked in every number before anything is computed from it."""

import functools
import hashlib
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.histogram import LARGEST, MOST_BINS, bin_places
from fedskew.profiles.kernel import PAIRS
from fedskew.profiles.readers.base import check_file
from fedskew.profiles.sketching.minima import minima_problem
from fedskew.profiles.sketching.record import ClassCells, ColumnHead, Hash, KernelCell, NumericCell, Sketch

SCHEMA = "fedskew-sketch/1"
MOST_BYTES = 32 * 2**20  # of one party; a file of several may be as many times larger
MOST_FILE = 1 << 30
LEAST_RATIO = 1e-9  # rounding that a check forgives
TRIANGLE = PAIRS * (2 * PAIRS + 1)


class SketchFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file holds: the sketches of one party or several, and the SHA-256 of their canonical JSON."""

    schema: Literal["fedskew-sketch/1"] = "fedskew-sketch/1"
    sha256: Hash
    sketches: Annotated[tuple[Sketch, ...], Meta(min_length=1, max_length=100_000)]


class SketchError(FedskewError):
    """A sketch file that cannot be trusted: cut, changed, of another version, or with numbers that cannot be."""


def encoded(sketches: Sequence[Sketch]) -> bytes:
    """The bytes of the file of these sketches, in the order of their parties' names: same sketches, same bytes.

    Raises
    ------
    FedskewError
        Two are of one party.
    """
    ordered = tuple(sorted(sketches, key=lambda sketch: sketch.party))
    digest = hashlib.sha256(msgspec.json.encode(ordered)).hexdigest()
    for sketch in ordered:
        check_sketch(sketch, "the sketch")
    _check_parties(ordered, "the sketches")
    return msgspec.json.encode(SketchFile(sha256=digest, sketches=ordered))


def write_sketches(path: Path, sketches: Sequence[Sketch]) -> None:
    """Write sketches into one file, whole or not at all.

    Raises
    ------
    EnvironmentFaultError
        The place cannot be written to.
    """
    write_atomically(path, encoded(sketches))


def read_sketches(path: Path) -> tuple[Sketch, ...]:
    """Read a sketch file and check everything in it.

    Raises
    ------
    SketchError
        It is too large, is no sketch of this version, was changed after it was written, or its numbers cannot be.
    """
    size = check_file(path)
    if size > MOST_FILE:
        raise SketchError(
            f"{path}: has {size >> 20} MB; {MOST_FILE >> 20} MB are allowed. Give each party its own file"
        )
    return decoded(path.read_bytes(), str(path))


def decoded(data: bytes, where: str = "the sketch") -> tuple[Sketch, ...]:
    """Read the bytes of a sketch file; see :func:`read_sketches`.

    Examples
    --------
    >>> decoded(b'{"schema": "fedskew-sketch/9"}')
    Traceback (most recent call last):
    ...
    fedskew.profiles.sketching.file.SketchError: the sketch: is not a sketch of version fedskew-sketch/1 (Invalid enum \
value 'fedskew-sketch/9' - at `$.schema`)
    """
    try:
        file = msgspec.json.decode(data, type=SketchFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise SketchError(f"{where}: is not a sketch of version {SCHEMA} ({fault})") from None
    content = msgspec.json.encode(file.sketches)
    if len(data) > MOST_BYTES * len(file.sketches):
        raise SketchError(f"{where}: is larger than {MOST_BYTES >> 20} MB a party; use fewer columns")
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise SketchError(f"{where}: its content does not agree with its SHA-256; it was changed or damaged")
    if msgspec.json.encode(file) != data:
        raise SketchError(f"{where}: is not in its canonical form (repeated keys, spaces, or text after its end)")
    for sketch in file.sketches:
        check_sketch(sketch, where)
    _check_parties(file.sketches, where)
    return file.sketches


def is_sketch(path: Path) -> bool:
    """Whether a file begins like a sketch file of any version; cheap, and False for what cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(200).lstrip().startswith(b'{"schema":"fedskew-sketch/')
    except OSError:
        return False


def json_schema() -> dict[str, Any]:
    """The JSON Schema of sketch files, as published in ``docs/sketch.schema.json``."""
    return msgspec.json.schema(SketchFile)


def check_sketch(sketch: Sketch, where: str) -> None:
    """Check that the numbers of a sketch hold together.

    Raises
    ------
    SketchError
        Which number cannot be, and where.
    """
    where = f"{where}: party {sketch.party!r}"
    heads = {head.name: head for head in sketch.columns}
    if len(heads) < len(sketch.columns):
        raise SketchError(f"{where}: a column is named twice")
    if list(sketch.columns) != sorted(sketch.columns, key=lambda head: (head.place, head.name)):
        raise SketchError(f"{where}: its columns are out of order")
    for head in sketch.columns:
        if (head.kind == "unused") != bool(head.reason):
            raise SketchError(f"{where}: column {head.name!r} has a reason and is used, or has none and is not")
    names = [cells.name for cells in sketch.classes]
    if names != sorted(set(names)):
        raise SketchError(f"{where}: its classes are out of order, or one is named twice")
    if sketch.rows > 2**48:
        raise SketchError(f"{where}: says that it has {sketch.rows} rows, more than any silo has")
    wrong = None if sketch.minima is None else minima_problem(sketch.minima, sketch.rows)
    if wrong is not None:
        raise SketchError(f"{where}: {wrong}")
    for cells in sketch.classes:
        wrong = _cells_problem(cells, heads, joined=sketch.withheld.min_count > 0)
        if wrong is not None:
            raise SketchError(f"{where}, class {cells.name!r}: {wrong}")


def _check_parties(sketches: Sequence[Sketch], where: str) -> None:
    names = [sketch.party for sketch in sketches]
    if names != sorted(set(names)):
        raise SketchError(f"{where}: parties are out of order, or one is named twice")


def _cells_problem(cells: ClassCells, heads: dict[str, ColumnHead], *, joined: bool) -> str | None:
    """What cannot be in the cells of a class; of joined bins one stands for many, and tells no range."""
    for name, cell in cells.numeric.items():
        head = heads.get(name)
        if head is None or head.kind != "numeric":
            return f"column {name!r} is not among the numeric columns"
        wrong = _numeric_problem(cell, head, cells.rows, joined=joined)
        if wrong is not None:
            return f"column {name!r}: {wrong}"
    for name, counts in cells.categorical.items():
        head = heads.get(name)
        if head is None or head.kind != "categorical":
            return f"column {name!r} is not among the categorical columns"
        if sum(counts.values()) > cells.rows:
            return f"column {name!r} counts {sum(counts.values())} values in {cells.rows} rows"
    for given in (list(cells.numeric), list(cells.categorical), *map(list, cells.categorical.values())):
        if given != sorted(given):
            return "its columns or categories are out of order"
    return None if cells.kernel is None else _kernel_problem(cells.kernel, cells.rows)


def _numeric_problem(cell: NumericCell, head: ColumnHead, rows: int, *, joined: bool) -> str | None:
    if cell.n > rows or cell.n < 1:
        return f"counts {cell.n} values in {rows} rows"
    if len(cell.bins) != len(cell.counts) or sum(cell.counts) != cell.n:
        return f"its histogram does not hold {cell.n} values"
    if not all(map(operator.lt, cell.bins, cell.bins[1:])):
        return "its bins are out of order"
    if abs(cell.bins[0]) > LARGEST << head.bits or abs(cell.bins[-1]) > LARGEST << head.bits:
        return "a bin lies beyond what float32 holds"
    if cell.bins[-1] - cell.bins[0] >= MOST_BINS:
        return f"its histogram spans more than {MOST_BINS} bins"
    return _moment_problem(cell, head, joined=joined)


def _moment_problem(cell: NumericCell, head: ColumnHead, *, joined: bool) -> str | None:
    """Moments must be such as values in these bins can have."""
    low, high = -3.5e38, 3.5e38
    if not joined:
        low = _place(cell.bins[0] - (cell.bins[0] <= 0), head.bits)
        high = _place(cell.bins[-1] + (cell.bins[-1] >= 0), head.bits)
    slack = LEAST_RATIO * max(abs(low), abs(high)) + 1e-40
    width = (high - low) + 2 * slack
    if not low - slack <= cell.mean <= high + slack:  # false for NaN as well
        return f"its mean {cell.mean} lies outside its histogram"
    powers = ((2, cell.m2), (3, cell.m3), (4, cell.m4))
    for power, value in powers:
        if not abs(value) <= cell.n * width**power * (1 + LEAST_RATIO) + 1e-300:
            return f"m{power} = {value} is more than values in its histogram can have"
    if cell.m2 < 0 or cell.m4 < 0:
        return "a sum of even powers is negative"
    if cell.m2**2 > cell.n * cell.m4 * (1 + 1e-6) + 1e-300:
        return f"m4 = {cell.m4} is too small beside m2 = {cell.m2}"
    if head.binary and not 0 <= cell.mean <= 1:
        return "it is said to hold 0 and 1 only, and its mean is beyond"
    return None


@functools.lru_cache(maxsize=65_536)  # the cells of a column begin and end at few bins
def _place(number: int, bits: int) -> float:
    """Where a bin lies, at most as far as float32 goes."""
    most = LARGEST << bits
    place = bin_places(np.array([min(max(number, -most), most)], np.int64), bits)
    return float(np.clip(np.nan_to_num(place[0]), -3.5e38, 3.5e38))


def _kernel_problem(kernel: KernelCell, rows: int) -> str | None:
    """Random features have length 1, so that their sums are bounded by the rows."""
    if kernel.rows > rows:
        return f"{kernel.rows} of {rows} rows enter the kernel sums"
    if len(kernel.sums) != 16 * PAIRS or len(kernel.second) != 8 * TRIANGLE:
        return "its kernel sums have another length"
    sums, second = np.frombuffer(kernel.sums, "<f8"), np.frombuffer(kernel.second, "<f8")
    if not (np.isfinite(sums).all() and np.isfinite(second).all()):
        return "its kernel sums are not finite"
    most = kernel.rows * (1 + 1e-5) + 1e-9
    if np.abs(sums).max() > most or np.abs(second).max() > most or float(np.hypot.reduce(sums)) > most:
        return "its kernel sums are larger than its rows allow"
    upper = np.zeros((2 * PAIRS, 2 * PAIRS))
    upper[np.triu_indices(2 * PAIRS)] = second
    if abs(float(np.trace(upper)) - kernel.rows) > 1e-4 * most:
        return "its kernel sums do not have its rows as their trace"
    return None

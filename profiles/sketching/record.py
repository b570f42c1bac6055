"""Sketch: one party's sufficient statistics, all that leaves a silo. They merge in any order, without a row."""

from collections.abc import Collection, Iterable
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from fedskew.profiles.coding import twin
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.histogram import MOST_BINS, coarser, fewer_bits
from fedskew.profiles.moments import Moments, merged
from fedskew.profiles.sketching.minima import RowMinima, merged_minima

MOST_COUNT = 2**48
"""More rows than any silo has; sums over a million silos still fit into 64 bits."""
Count = Annotated[int, Meta(ge=0, le=MOST_COUNT)]
Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Kind = Literal["numeric", "categorical", "empty", "unused"]
REASONS = ("dates", "type", "row_number", "many_texts", "mixed_types")
"""Why a column is not used; of two silos' reasons the first in this order holds."""


Reason = Literal["", "dates", "type", "row_number", "many_texts", "mixed_types"]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frozen, named fields only."""


class ColumnHead(_Strict, frozen=True, kw_only=True):
    """A column of the silo's table.

    ``place`` orders columns; ``bits`` are those of the histograms' bins; ``binary``: all values are 0 or 1; ``kept``:
    the user asked for it, so that it is used even where it names the party; ``reason``: why it is ``unused``.
    """

    name: Name
    place: Annotated[int, Meta(ge=0, le=10**6)]
    kind: Kind
    bits: Annotated[int, Meta(ge=0, le=23)] = 23
    binary: bool = True
    kept: bool = False
    reason: Reason = ""


class NumericCell(_Strict, frozen=True, kw_only=True):
    """A numeric column among the rows of one class: central moments, and a sparse histogram.

    ``n`` values that are not missing, their ``mean``, and the sums of the second to fourth power of the deviation from
    it (``m2``, ``m3``, ``m4``). ``bins`` are ascending bin numbers (:func:`fedskew.profiles.histogram.bin_numbers`),
    ``counts`` the values in each.
    """

    n: Count
    mean: float
    m2: float
    m3: float
    m4: float
    bins: tuple[int, ...]
    counts: tuple[Annotated[int, Meta(ge=1, le=MOST_COUNT)], ...]

    @property
    def moments(self) -> Moments:
        """(5,) float64, as in :mod:`fedskew.profiles.moments`."""
        return np.array([self.n, self.mean, self.m2, self.m3, self.m4], np.float64)


class KernelCell(_Strict, frozen=True, kw_only=True):
    """Random features of the rows of one class that entered: little-endian float64, as base64 in the file.

    ``sums`` (128,) is their sum; ``second`` (128 * 129 / 2,) the upper triangle of the sum of their outer products.
    """

    rows: Count
    sums: bytes
    second: bytes


class ClassCells(_Strict, frozen=True, kw_only=True):
    """What the rows of one class add up to; cells by column name."""

    name: Name
    rows: Count
    numeric: dict[Name, NumericCell] = {}
    categorical: dict[Name, dict[Name, Annotated[int, Meta(ge=1, le=MOST_COUNT)]]] = {}
    kernel: KernelCell | None = None


class Withheld(_Strict, frozen=True, kw_only=True):
    """What was left out because it rests on fewer than ``min_count`` rows: classes, cells, categories, joined bins."""

    min_count: Annotated[int, Meta(ge=0, le=10**6)] = 0
    classes: Count = 0
    rows: Count = 0
    cells: Count = 0
    categories: Count = 0
    bins: Count = 0
    columns: tuple[Name, ...] = ()


class Noise(_Strict, frozen=True, kw_only=True):
    """The noise of differential privacy: total ``epsilon``, how it was split, the scale of the counts' noise.

    ``nonce`` names the one draw. One row more or less in the silo changes the file's law by at most exp(epsilon).
    """

    epsilon: Annotated[float, Meta(gt=0, le=100)]
    budget: dict[str, Annotated[float, Meta(gt=0, le=100)]]
    scale: Annotated[float, Meta(gt=0)]
    nonce: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class Sketch(_Strict, frozen=True, kw_only=True):
    """One party's sufficient statistics.

    ``unlabelled``: rows left out because they have no label. ``columns`` are ordered by place and name, ``classes`` by
    name. ``plan``: the SHA-256 of the plan it follows. ``minima``: the least keyed hashes of rows, if asked for.
    """

    party: Name
    columns: tuple[ColumnHead, ...] = ()
    classes: tuple[ClassCells, ...] = ()
    unlabelled: Count = 0
    modality: Literal["tabular", "image"] = "tabular"
    plan: Hash | None = None
    withheld: Withheld = Withheld()
    noise: Noise | None = None
    minima: RowMinima | None = None

    @property
    def rows(self) -> int:
        """Number of labelled rows."""
        return sum(cells.rows for cells in self.classes)


def merge(one: Sketch, other: Sketch) -> Sketch:
    """The sketch of the rows of both: commutative, associative, and a sketch of no rows changes nothing.

    Integers are exact; moments and kernel sums agree with one pass to rounding, 1e-12. Columns that only one of them
    has count as missing in the other.

    Parameters
    ----------
    one, other : of one party, made with the same plan or both without

    Raises
    ------
    FedskewError
        They are of different parties, follow different plans, hash rows with different keys, or carry noise: what was
        noised is final.

    Examples
    --------
    >>> north = Sketch(party="a", classes=(ClassCells(name="x", rows=2),))
    >>> merge(north, Sketch(party="a", classes=(ClassCells(name="x", rows=3),))).rows
    5
    """
    _check_mergeable(one, other)
    heads = {head.name: head for head in merged_heads([one.columns, other.columns])}
    ours, theirs = ({cells.name: cells for cells in sketch.classes} for sketch in (one, other))
    bits = ({head.name: head.bits for head in sketch.columns} for sketch in (one, other))
    first_bits, second_bits = bits
    classes = []
    for name in sorted(ours.keys() | theirs.keys()):
        left = _recut(ours.get(name) or ClassCells(name=name, rows=0), first_bits, heads)
        right = _recut(theirs.get(name) or ClassCells(name=name, rows=0), second_bits, heads)
        classes.append(_merged_cells(left, right))
    heads, classes = _within_most_bins(heads, classes)
    return Sketch(
        party=one.party,
        columns=tuple(sorted(heads.values(), key=lambda head: (head.place, head.name))),
        classes=tuple(classes),
        unlabelled=one.unlabelled + other.unlabelled,
        modality=min(one.modality, other.modality),
        plan=one.plan or other.plan,
        withheld=_merged_withheld(one.withheld, other.withheld),
        minima=merged_minima(one.minima, other.minima, (one.rows, other.rows)),
    )


def respelled(sketch: Sketch, known: Collection[str]) -> Sketch:
    """The sketch with its classes spelled as they are known elsewhere, ``1.0`` as ``1``; two of one name become one.

    Examples
    --------
    >>> holed = Sketch(party="a", classes=(ClassCells(name="1.0", rows=2), ClassCells(name="x", rows=3)))
    >>> [cells.name for cells in respelled(holed, {"1"}).classes]
    ['1', 'x']
    """
    if all(twin(cells.name, known) == cells.name for cells in sketch.classes):
        return sketch
    classes: dict[str, ClassCells] = {}
    for cells in sketch.classes:
        named = msgspec.structs.replace(cells, name=twin(cells.name, known))
        classes[named.name] = _merged_cells(classes[named.name], named) if named.name in classes else named
    return msgspec.structs.replace(sketch, classes=tuple(classes[name] for name in sorted(classes)))


def merged_heads(silos: Iterable[tuple[ColumnHead, ...]]) -> tuple[ColumnHead, ...]:
    """The columns of several sketches together, ordered by place and name."""
    heads: dict[str, ColumnHead] = {}
    for columns in silos:
        for head in columns:
            heads[head.name] = _merged_head(heads[head.name], head) if head.name in heads else head
    return tuple(sorted(heads.values(), key=lambda head: (head.place, head.name)))


def _check_mergeable(one: Sketch, other: Sketch) -> None:
    if one.party != other.party:
        raise FedskewError(f"sketches of {one.party!r} and {other.party!r} cannot be merged; a sketch is of one party")
    if one.noise is not None or other.noise is not None:
        raise FedskewError(f"party {one.party!r}: a sketch with noise is final; sketch all rows of the party together")
    if one.plan != other.plan and one.rows and other.rows:
        raise FedskewError(f"party {one.party!r}: its sketches follow different plans; sketch the rows again")


def _merged_head(one: ColumnHead, other: ColumnHead) -> ColumnHead:
    kind, reason = _merged_kind(one, other)
    return ColumnHead(
        name=one.name,
        place=min(one.place, other.place),
        kind=kind,
        bits=min(one.bits, other.bits),
        binary=one.binary and other.binary,
        kept=one.kept or other.kept,
        reason=reason,  # type: ignore[arg-type]
    )


def _merged_kind(one: ColumnHead, other: ColumnHead) -> tuple[Kind, str]:
    """A column without values agrees with any kind; two kinds make it unusable."""
    if "unused" in {one.kind, other.kind}:
        reasons = [head.reason for head in (one, other) if head.kind == "unused"]
        return "unused", min(reasons, key=REASONS.index)
    if other.kind in {one.kind, "empty"}:
        return one.kind, ""
    return (other.kind, "") if one.kind == "empty" else ("unused", "mixed_types")


def _recut(cells: ClassCells, bits: dict[str, int], heads: dict[str, ColumnHead]) -> ClassCells:
    """The same cells with the bins of the merged heads, and without columns that became unusable."""
    numeric = {
        name: _coarser_cell(cell, bits[name], heads[name].bits)
        for name, cell in cells.numeric.items()
        if heads[name].kind == "numeric"
    }
    categorical = {name: counts for name, counts in cells.categorical.items() if heads[name].kind == "categorical"}
    return msgspec.structs.replace(cells, numeric=numeric, categorical=categorical)


def _coarser_cell(cell: NumericCell, bits: int, wanted: int) -> NumericCell:
    if bits == wanted:
        return cell
    numbers, place = np.unique(coarser(np.array(cell.bins, np.int64), bits, wanted), return_inverse=True)
    counts = np.zeros(len(numbers), np.int64)
    np.add.at(counts, place, np.array(cell.counts, np.int64))
    return msgspec.structs.replace(cell, bins=tuple(numbers.tolist()), counts=tuple(counts.tolist()))


def _merged_cells(one: ClassCells, other: ClassCells) -> ClassCells:
    numeric = {
        name: _merged_numeric(one.numeric.get(name), other.numeric.get(name))
        for name in sorted(one.numeric.keys() | other.numeric.keys())
    }
    categorical = {
        name: _added(one.categorical.get(name, {}), other.categorical.get(name, {}))
        for name in sorted(one.categorical.keys() | other.categorical.keys())
    }
    kernel = _merged_kernel(one.kernel, other.kernel)
    rows = one.rows + other.rows
    return ClassCells(name=one.name, rows=rows, numeric=numeric, categorical=categorical, kernel=kernel)


def _added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted(one.keys() | other.keys())}


def _merged_numeric(one: NumericCell | None, other: NumericCell | None) -> NumericCell:
    if one is None or other is None:
        both = one or other
        assert both is not None
        return both
    _, mean, m2, m3, m4 = merged(one.moments, other.moments).tolist()
    held = dict(zip(one.bins, one.counts, strict=True))
    for number, count in zip(other.bins, other.counts, strict=True):
        held[number] = held.get(number, 0) + count
    bins = tuple(sorted(held))
    counts = tuple(held[number] for number in bins)
    return NumericCell(n=one.n + other.n, mean=mean, m2=m2, m3=m3, m4=m4, bins=bins, counts=counts)


def _merged_kernel(one: KernelCell | None, other: KernelCell | None) -> KernelCell | None:
    if one is None or other is None:
        return one or other
    sums, second = (
        (np.frombuffer(left, "<f8") + np.frombuffer(right, "<f8")).tobytes()
        for left, right in ((one.sums, other.sums), (one.second, other.second))
    )
    return KernelCell(rows=one.rows + other.rows, sums=sums, second=second)


def _within_most_bins(
    heads: dict[str, ColumnHead], classes: list[ClassCells]
) -> tuple[dict[str, ColumnHead], list[ClassCells]]:
    """Fewer bits for columns whose merged histograms span too many bins."""
    before = {name: head.bits for name, head in heads.items()}
    for name, head in heads.items():
        ends = [end for cells in classes if name in cells.numeric for end in _ends(cells.numeric[name])]
        if ends:
            bits = bits_within(min(ends), max(ends), head.bits)
            heads[name] = msgspec.structs.replace(head, bits=bits)
    return heads, [_recut(cells, before, heads) for cells in classes]


def _ends(cell: NumericCell) -> tuple[int, ...]:
    return (cell.bins[0], cell.bins[-1]) if cell.bins else ()


def bits_within(low: int, high: int, bits: int) -> int:
    """The most bits, up to ``bits``, with which two bins are within 2,048 of each other.

    Examples
    --------
    >>> bits_within(-3000, 3000, 5), bits_within(0, 2047, 5)
    (3, 5)
    """
    for wanted in range(bits, -1, -1):
        if fewer_bits(high, bits, wanted) - fewer_bits(low, bits, wanted) < MOST_BINS:
            return wanted
    return 0


def _merged_withheld(one: Withheld, other: Withheld) -> Withheld:
    return Withheld(
        min_count=max(one.min_count, other.min_count),
        classes=one.classes + other.classes,
        rows=one.rows + other.rows,
        cells=one.cells + other.cells,
        categories=one.categories + other.categories,
        bins=one.bins + other.bins,
        columns=tuple(sorted({*one.columns, *other.columns})),
    )

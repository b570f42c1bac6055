"""Sketches added up: the parts of one party in any order, and the columns and classes that several have together."""

from collections.abc import Collection, Iterable

import msgspec
import numpy as np

from fedskew.profiles.coding import twin
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.histogram import MOST_BINS, coarser, fewer_bits
from fedskew.profiles.moments import merged
from fedskew.profiles.sketching.minima import merged_minima
from fedskew.profiles.sketching.record import (
    REASONS,
    ClassCells,
    ColumnHead,
    KernelCell,
    Kind,
    NumericCell,
    Sketch,
    Withheld,
)


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

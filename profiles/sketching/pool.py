"""All silos' sketches side by side: what they add up to, and the columns that can serve as features."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.coding import one_spelling
from fedskew.profiles.columns import CATEGORIES, FEW
from fedskew.profiles.encoding import never_varies
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.histogram import coarser
from fedskew.profiles.moments import Moments, no_moments, pooled
from fedskew.profiles.noticed import Noticed, schema_mismatch
from fedskew.profiles.partitions import Column, Finding, ordered_names
from fedskew.profiles.sketching.merging import bits_within, merged_heads, respelled
from fedskew.profiles.sketching.record import ClassCells, Sketch

TOLD = {
    "dates": "it holds dates or times",
    "type": "its type is no number and no text",
    "row_number": "it numbers the rows",
    "many_texts": "too many different texts",
    "mixed_types": "numbers in some silos, text in others; make it one of both at every silo, or drop it",
    "missing": "all its values are missing",
}


@dataclass(frozen=True, slots=True)
class Pool:
    """The sketches in the order of their parties' names, the rows by party and class, and the usable columns."""

    sketches: tuple[Sketch, ...]
    class_names: tuple[str, ...]
    counts: NDArray[np.int64]
    columns: tuple[Column, ...]
    cells: tuple[dict[str, ClassCells], ...]
    findings: tuple[Finding, ...]

    @property
    def party_names(self) -> tuple[str, ...]:
        """The parties' names."""
        return tuple(sketch.party for sketch in self.sketches)

    @property
    def width(self) -> int:
        """Number of features."""
        return self.columns[-1].stop if self.columns else 0

    def moments(self, columns: Sequence[Column], label: str, parties: NDArray[np.int64]) -> Moments:
        """Moments (5, C, F) of columns numbered from 0, of the parties' rows of one class."""
        out = no_moments(len(parties), columns[-1].stop if columns else 0)
        for at, party in enumerate(parties.tolist()):
            cells = self.cells[party].get(label)
            if cells is not None:
                for column in columns:
                    out[:, at, column.start : column.stop] = _column_moments(cells, column)
        return out

    def whole(self) -> tuple[Moments, NDArray[np.bool_]]:
        """Moments of all rows (5, F), and which features hold only 0 and 1."""
        out, binary = no_moments(self.width), np.ones(self.width, np.bool_)
        for column in self.columns:
            place = slice(column.start, column.stop)
            one = Column(column.name, column.kind, 0, column.stop - column.start, column.categories)
            parts = [_column_moments(cells, one) for held in self.cells for cells in held.values()]
            if parts:
                out[:, place] = pooled(np.stack(parts, axis=1))
            if column.kind == "numeric":
                heads = (h for sketch in self.sketches for h in sketch.columns if h.name == column.name)
                binary[place] = all(head.binary for head in heads)
        return out, binary

    def missing(self, column: Column) -> NDArray[np.int64]:
        """Values of a column that are missing in each party, (P,)."""
        held = np.zeros(len(self.sketches), np.int64)
        for party, cells in enumerate(self.cells):
            for cell in cells.values():
                if column.kind == "numeric":
                    held[party] += cell.numeric[column.name].n if column.name in cell.numeric else 0
                else:
                    counts = cell.categorical.get(column.name, {})
                    held[party] += sum(counts.get(name, 0) for name in column.categories)
        return np.asarray(self.counts.sum(axis=1) - held)

    def bits(self, columns: Sequence[Column]) -> dict[int, int]:
        """Bits of the bins of each numeric feature that holds a value: those of one histogram of all rows."""
        found: dict[int, int] = {}
        for column in columns:
            if column.kind == "numeric":
                common = min(_bits_of(sketch, column.name) for sketch in self.sketches)
                ends = [
                    int(end)
                    for party, held in enumerate(self.cells)
                    for cell in held.values()
                    if column.name in cell.numeric and cell.numeric[column.name].bins
                    for end in coarser(
                        np.array([cell.numeric[column.name].bins[0], cell.numeric[column.name].bins[-1]], np.int64),
                        _bits_of(self.sketches[party], column.name),
                        common,
                    )
                ]
                if ends:
                    found[column.start] = bits_within(min(ends), max(ends), common)
        return found

    def histogram(
        self, column: Column, bits: int, label: str, parties: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Bin numbers, places of their parties among those given, and rows in each, of one class."""
        numbers, places, weight = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for at, party in enumerate(parties.tolist()):
            cells = self.cells[party].get(label)
            cell = None if cells is None else cells.numeric.get(column.name)
            if cell is not None and cell.bins:
                its = _bits_of(self.sketches[party], column.name)
                numbers.append(coarser(np.array(cell.bins, np.int64), its, bits))
                places.append(np.full(len(cell.bins), at, np.int64))
                weight.append(np.array(cell.counts, np.int64))
        return np.concatenate(numbers), np.concatenate(places), np.concatenate(weight)


def pool(sketches: Sequence[Sketch], categories: dict[str, tuple[str, ...]] | None = None) -> Pool:
    """Put sketches side by side.

    Parameters
    ----------
    sketches : one a party, in any order
    categories : those of each categorical column where a plan fixes them

    Raises
    ------
    FedskewError
        There are none, two are of one party, they follow different plans or hash rows with different keys, or no row
        has a label.
    """
    if not sketches:
        raise FedskewError("there is no sketch; give those of two silos and more")
    times = Counter(sketch.party for sketch in sketches)
    twice = [name for name, count in times.items() if count > 1]
    if twice:
        raise FedskewError(f"two sketches are of the party {twice[0]!r}; give each silo's sketch once")
    if len({sketch.plan for sketch in sketches if sketch.rows}) > 1:
        raise FedskewError("the sketches follow different plans; make all of them with the same --plan")
    if len({sketch.minima.key for sketch in sketches if sketch.minima is not None and sketch.rows}) > 1:
        raise FedskewError("the row hashes of the sketches cannot be compared: give all silos the same --hash-key")
    place = {name: i for i, name in enumerate(ordered_names(times))}
    ordered = tuple(sorted(sketches, key=lambda sketch: place[sketch.party]))
    known = set(one_spelling([cells.name for sketch in ordered for cells in sketch.classes]))
    ordered = tuple(respelled(sketch, known) for sketch in ordered)
    names = ordered_names(known)
    if not sum(sketch.rows for sketch in ordered):
        raise FedskewError("no sketch holds a row that has a label")
    cells = tuple({one.name: one for one in sketch.classes} for sketch in ordered)
    counts = np.array([[held[name].rows if name in held else 0 for name in names] for held in cells], np.int64)
    columns, findings = _usable(ordered, cells, counts, categories or {})
    return Pool(ordered, names, counts, columns, cells, findings)


def _usable(
    sketches: tuple[Sketch, ...],
    cells: tuple[dict[str, ClassCells], ...],
    counts: NDArray[np.int64],
    categories: dict[str, tuple[str, ...]],
) -> tuple[tuple[Column, ...], tuple[Finding, ...]]:
    """The columns that can be features, by the rules of reading a table, and what was noticed."""
    noticed, columns, width = Noticed(int(counts.sum())), [], 0
    findings = schema_mismatch({s.party: [head.name for head in s.columns] for s in sketches if s.rows})
    heads = _heads(sketches)
    for name, (kind, stated, kept, used) in heads.items():
        ranked: tuple[str, ...] = ()
        reason = stated
        if kind == "categorical":
            total = _category_counts(cells, name)
            reason = stated or _too_many(total, kept)
            everything = categories.get(name) or tuple(sorted(total, key=lambda text: (-total[text], text)))
            ranked = everything[:CATEGORIES]
            rest = sum(total.values()) - sum(total.get(text, 0) for text in ranked)
            if rest and not reason:
                noticed.rest[name] = rest
        if kind in {"unused", "empty"} or reason:
            noticed.unused[name] = TOLD.get(reason or "missing", reason)
            noticed.rest.pop(name, None)
            continue
        if not kept and used and _names_party(cells, name, counts.sum(axis=1)):
            noticed.leaks.append(name)
            continue
        stop = width + (len(ranked) if kind == "categorical" else 1)
        stored: Literal["categorical", "numeric"] = "categorical" if kind == "categorical" else "numeric"
        columns.append(Column(name, stored, width, stop, ranked, more=name in noticed.rest))
        width = stop
        missing = _blank(cells, name, counts)
        if missing:
            noticed.missing[name] = missing
    return tuple(columns), (*findings, *noticed.findings())


def _heads(sketches: tuple[Sketch, ...]) -> dict[str, tuple[str, str, bool, bool]]:
    """Of each column, in order of place and name: kind, reason against it, whether it is kept, whether it is held."""
    whole = merged_heads([sketch.columns for sketch in sketches])
    return {head.name: (head.kind, head.reason, head.kept, head.kind != "empty") for head in whole}


def _category_counts(cells: tuple[dict[str, ClassCells], ...], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for held in cells:
        for cell in held.values():
            total.update(cell.categorical.get(name, {}))
    return total


def _too_many(total: Counter[str], kept: bool) -> str:
    distinct, seen = len(total), sum(total.values())
    if kept or seen <= 1 or not (distinct == seen or (distinct > seen / 2 and distinct > FEW)):
        return ""
    return f"{distinct} different texts in {seen} values"


def _blank(cells: tuple[dict[str, ClassCells], ...], name: str, counts: NDArray[np.int64]) -> int:
    held = 0
    for silo in cells:
        for cell in silo.values():
            held += cell.numeric[name].n if name in cell.numeric else 0
            held += sum(cell.categorical.get(name, {}).values())
    return int(counts.sum()) - held


def _names_party(cells: tuple[dict[str, ClassCells], ...], name: str, sizes: NDArray[np.int64]) -> bool:
    """Whether a column is constant within every party but not between parties of two rows and more."""
    groups = np.count_nonzero(sizes)
    if groups < 2 or sizes.sum() - groups < 10:
        return False
    large: set[float | str | None] = set()
    for silo, rows in zip(cells, sizes.tolist(), strict=True):
        values: set[float | str] = set()
        seen = 0
        for cell in silo.values():
            found = cell.numeric.get(name)
            if found is not None and found.n:
                if found.m2 > 0:
                    return False
                values.add(found.mean)
                seen += found.n
            values |= set(cell.categorical.get(name, {}))
            seen += sum(cell.categorical.get(name, {}).values())
        if len(values) > 1 or (values and seen < rows):
            return False
        if rows > 1:
            large.add(next(iter(values), None))
    return len(large) > 1


def _column_moments(cells: ClassCells, column: Column) -> NDArray[np.float64]:
    """Moments (5, width of the column) of the rows of one party and class; only the first three of indicators."""
    if column.kind == "numeric":
        cell = cells.numeric.get(column.name)
        return np.zeros((5, 1)) if cell is None else cell.moments[:, None]
    counts = cells.categorical.get(column.name, {})
    hits = np.array([counts.get(name, 0) for name in column.categories], np.float64)
    n = float(cells.rows)
    share = hits / max(n, 1.0)
    return np.stack([np.full(len(hits), n), share, hits * (1 - share), np.zeros(len(hits)), np.zeros(len(hits))])


def _bits_of(sketch: Sketch, name: str) -> int:
    return next((head.bits for head in sketch.columns if head.name == name), 23)


def facts_of(pooled_moments: Moments, binary: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which features never vary at all, and which take both 0 and 1 and nothing else, both (F,)."""
    varies = pooled_moments[2] > 0
    return ~varies, binary & varies & ~never_varies(*pooled_moments[:3])

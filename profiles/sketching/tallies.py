"""What a scan adds up, batch by batch, for every cell (a party's rows of one class): moments, bins, categories."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.histogram import MOST_BITS, bin_numbers, bits_between, coarser
from fedskew.profiles.moments import Moments, merged, no_moments
from fedskew.profiles.sketching.blocks import Groups, Room, copy_narrow
from fedskew.profiles.sketching.budget import Budget
from fedskew.profiles.sketching.record import NumericCell

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS = 2**32 - 1  # counts of bins are 32 bits wide while they are added up


class NumericTally:
    """Moments and histogram of one numeric column, by cell.

    The histogram is a dense table (cells, bins) whose first column is the bin ``low``. It is as wide as any range of
    values can make it, so that memory depends on the cells and not on the rows; what is never touched takes none.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        budget.tables.append(self)
        self.moments: Moments = no_moments(0)
        self.pending: Moments | None = None
        self.least, self.largest = np.inf, -np.inf
        self.bits, self.low = MOST_BITS, 0
        self.table = np.zeros((0, 1), np.uint32)
        self.binary = self.whole = True
        self.last = -np.inf
        self.first = np.nan

    def add(self, column: "pl.Series | NDArray[Any]", groups: Groups, room: Room) -> None:
        """Add a batch, in the order of its rows; :func:`settle` adds its moments. ``room`` must be no one else's."""
        room.fit(len(groups.order), groups.largest)
        value = room.column[: len(groups.order)]
        copy_narrow(column, value)
        least, largest = float(value.min()), float(value.max())
        blank = not np.isfinite(least + largest)
        if blank:
            finite = value[np.isfinite(value)]
            least, largest = (float(finite.min()), float(finite.max())) if len(finite) else (np.inf, -np.inf)
        self._follow(value, least, largest, whole=not blank)
        self.pending = no_moments(len(groups.codes))
        if least > largest:
            return
        self.fit(least, largest)
        value = groups.values(value, room)
        for block in groups.blocks:
            part = value[block.rows]
            seen = np.isfinite(part) if blank else None
            self.pending[:, block.cells] = block.moments(part, seen, room)
            block.count(part, seen, self.table, (self.low, self.bits), room)

    def _follow(self, value: NDArray[np.float32], least: float, largest: float, *, whole: bool) -> None:
        """Watch whether the values are 0 and 1 only, and whether they number the rows, none of which is missing."""
        if self.binary and least <= largest:
            between = 0 <= least <= largest <= 1
            self.binary = between and bool(((value == 0) | (value == 1) | ~np.isfinite(value)).all())
        self.whole = self.whole and whole
        if self.whole:
            steps = np.diff(value, prepend=np.float32(self.last))
            self.whole = bool((steps > 0).all() and (value == np.floor(value)).all())
            self.first = value[0] if np.isnan(self.first) else self.first
            self.last = float(value[-1])

    def numbers_rows(self, rows: int) -> bool:
        """Whether the column counts the rows, with few gaps."""
        return self.whole and rows >= 30 and self.last - float(self.first) + 1 <= 2 * rows

    def fit(self, least: float = np.inf, largest: float = -np.inf) -> None:
        """Make the table hold the cells of the budget, and values from ``least`` to ``largest`` besides its own."""
        least, largest = min(self.least, least), max(self.largest, largest)
        cells, most = self.budget.cells, self.budget.bins
        if (least, largest, cells) == (self.least, self.largest, len(self.table)) and self.table.shape[1] <= most:
            return
        bits = bits_between(least, largest, most)
        first, last = bin_numbers(np.array([least, largest], np.float32), bits).tolist()
        self._coarsen(bits)
        width = 1 if first == last else most
        inside = self.low <= first and last < self.low + self.table.shape[1]
        if not (inside and self.table.shape == (cells, width)):
            self._move(np.zeros((cells, width), np.uint32), first - (width - (last - first + 1)) // 2)
        self.least, self.largest = least, largest

    def shrink(self) -> None:
        """Join bins until there are as many as the budget allows."""
        if self.table.shape[1] > self.budget.bins:
            self.fit()

    def _coarsen(self, bits: int) -> None:
        """Join bins until they are of so few bits."""
        if bits == self.bits:
            return
        if self.table.size:
            numbers = coarser(np.arange(self.low, self.low + self.table.shape[1]), self.bits, bits)
            starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
            self.table = np.add.reduceat(self.table, starts, axis=1, dtype=np.uint32)
            self.low = int(numbers[0])
        self.bits = bits

    def _move(self, table: NDArray[np.uint32], low: int) -> None:
        """Put the counts into another table, which begins at another bin: those beyond its ends are 0."""
        start, stop = max(self.low, low), min(self.low + self.table.shape[1], low + table.shape[1])
        if len(self.table) and start < stop:
            table[: len(self.table), start - low : stop - low] = self.table[:, start - self.low : stop - self.low]
        self.table, self.low = table, low

    def holds(self, codes: Iterable[int]) -> bool:
        """Whether any of these cells holds a value."""
        return any(code < self.moments.shape[1] and self.moments[0, code] > 0 for code in codes)

    def given_up_cells(self) -> dict[int, NumericCell]:
        """The sums of each cell that holds a value; the table is given up, so that memory never holds both forms."""
        width, flat = self.table.shape[1], self.table.reshape(-1)
        used = np.flatnonzero(flat != 0)
        edges = np.searchsorted(used, width * np.arange(len(self.table) + 1)).tolist()
        counts = _objects(flat[used])
        self.table = np.zeros((0, 1), np.uint32)
        del flat
        used %= width
        # one integer object a bin and a count, not one each time it occurs: there may be millions
        bins = np.array(range(self.low, self.low + width), dtype=object)[used].tolist()
        found = {}
        for code, (n, mean, m2, m3, m4) in enumerate(self.moments.T.tolist()):
            if n:
                span = slice(edges[code], edges[code + 1])
                held = tuple(bins[span]), tuple(counts[span])
                found[code] = NumericCell(n=int(n), mean=mean, m2=m2, m3=m3, m4=m4, bins=held[0], counts=held[1])
        return found


def settle(tallies: Sequence[NumericTally], groups: Groups) -> None:
    """Add the moments of a batch to those of all batches before it, all columns at once."""
    if not tallies:
        return
    cells, codes = int(groups.codes[-1]) + 1, groups.codes
    for tally in tallies:
        have = tally.moments.shape[1]
        if cells > have:
            more = no_moments(max(cells, tally.budget.cells) - have)
            tally.moments = np.concatenate([tally.moments, more], axis=1)
    before = np.stack([tally.moments[:, codes] for tally in tallies])
    batch = np.stack([tally.pending for tally in tallies if tally.pending is not None])
    both = merged(before.swapaxes(0, 1), batch.swapaxes(0, 1))
    for at, tally in enumerate(tallies):
        tally.moments[:, codes] = both[:, at]
        tally.pending = None


def _objects(counts: NDArray[np.uint32]) -> list[int]:
    """Counts as Python integers, those under 65,536 one object for each number."""
    if not len(counts):
        return []
    most = min(int(counts.max()), 2**16 - 1)
    found = np.array(range(most + 1), dtype=object)[np.minimum(counts, most)]
    beyond = np.flatnonzero(counts > most)
    found[beyond] = counts[beyond].tolist()
    return found.tolist()  # type: ignore[no-any-return]


class TextTally:
    """Counts of the categories of one text column, by cell; beyond ``most`` of them the column is given up."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.place: dict[str, int] = {}
        self.table = np.zeros((0, 0), np.int64)
        self.dates: bool | None = None

    @property
    def given_up(self) -> bool:
        """Whether the column has too many categories."""
        return len(self.place) > self.most

    def add(self, names: list[str], codes: NDArray[np.int64], cell: NDArray[np.int64]) -> None:
        """Add a batch: ``codes`` into ``names`` of the values that are not missing, and their cells."""
        for name in names:
            self.place.setdefault(name, len(self.place))
        if self.given_up or not len(codes):
            self.table = self.table if not self.given_up else np.zeros((0, 0), np.int64)
            return
        cells = max(len(self.table), int(cell.max()) + 1)
        grown = np.zeros((cells, len(self.place)), np.int64)
        grown[: len(self.table), : self.table.shape[1]] = self.table
        lookup = np.array([self.place[name] for name in names], np.int64)
        np.add.at(grown.reshape(-1), cell * len(self.place) + lookup[codes], 1)
        self.table = grown

    def looks_like_ids(self) -> bool:
        """Whether most values differ: names of rows, which must not leave the silo."""
        distinct, seen = len(self.place), int(self.table.sum())
        return self.given_up or (distinct > 20 and distinct > seen / 2)

    def counts(self, code: int) -> dict[str, int]:
        """Counts of one cell by category, in the order of the names."""
        if code >= len(self.table):
            return {}
        row = self.table[code]
        return {name: int(row[at]) for name, at in sorted(self.place.items()) if row[at]}

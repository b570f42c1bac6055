"""What a scan adds up, batch by batch, for every cell (a party's rows of one class): moments, bins, categories."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import EnvironmentFaultError
from fedskew.profiles.histogram import MOST_BITS, bin_numbers, bits_between, coarser
from fedskew.profiles.moments import Moments, merged, no_moments
from fedskew.profiles.sketching.record import NumericCell, bits_within

MOST_ROWS = 2**32 - 1  # counts of bins are 32 bits wide while they are added up


class Budget:
    """Bytes that histograms may take, all columns together."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0

    def change(self, by: int) -> None:
        """Take (or give back) some bytes.

        Raises
        ------
        EnvironmentFaultError
            They are more than are left.
        """
        self.held += by
        if self.held > self.most:
            raise EnvironmentFaultError(
                f"the histograms of all parties, classes and columns need more than {self.most >> 20} MB; use fewer "
                "columns (--features), or sketch each silo's file by itself"
            )


class Groups:
    """The rows of a batch by cell, and room for one column's values, which would else be asked for again and again.

    ``codes`` of the cells in the batch begin at ``starts`` of ``order``; ``cell`` and ``group`` hold for each row in
    that order its cell, and the place of its cell among ``codes``.
    """

    def __init__(self, cell: NDArray[np.int64]) -> None:
        narrow = np.int16 if not len(cell) or int(cell.max()) < 2**15 else np.int32  # radix sort is fast for int16
        self.order: NDArray[np.int64] = np.argsort(cell.astype(narrow), kind="stable")
        self.cell = cell[self.order]
        self.codes, self.starts = np.unique(self.cell, return_index=True)
        self.lengths = np.diff(self.starts, append=len(cell))
        self.group = np.repeat(np.arange(len(self.codes)), self.lengths)
        self.value = np.empty(len(cell), np.float32)
        self.wide, self.square = np.empty(len(cell)), np.empty(len(cell))
        self.flat = np.empty(len(cell), np.int64)


class NumericTally:
    """Moments and histogram of one numeric column, by cell."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.moments: Moments = no_moments(0)
        self.bits, self.low = MOST_BITS, 0
        self.table = np.zeros((0, 0), np.uint32)
        self.binary = self.whole = True
        self.last = -np.inf
        self.first = np.nan

    def add(self, value: NDArray[np.float32], groups: Groups) -> None:
        """Add a batch: ``value`` in the order of the rows, NaN where missing."""
        self._follow(value)
        codes, starts, wide, square = groups.codes, groups.starts, groups.wide, groups.square
        value = np.take(value, groups.order, out=groups.value, mode="clip")
        np.copyto(wide, value)
        seen = np.isfinite(value)
        blank = not seen.all()
        count = np.diff(starts, append=len(value))
        if blank:
            wide[~seen] = 0.0
            count = np.add.reduceat(seen, starts, dtype=np.int64)
        mean = np.add.reduceat(wide, starts) / np.maximum(count, 1)
        wide -= np.take(mean, groups.group, out=square, mode="clip")
        if blank:
            wide[~seen] = 0.0
        sums = [count.astype(np.float64), mean]
        for one, other, out in ((wide, wide, square), (wide, square, wide), (square, square, square)):
            sums.append(np.add.reduceat(np.multiply(one, other, out=out), starts))
        self._grow(int(codes.max()) + 1)
        self.moments[:, codes] = merged(self.moments[:, codes], np.stack(sums))
        if blank:
            self._count(value[seen], groups.cell[seen], groups.flat[: int(count.sum())])
        else:
            self._count(value, groups.cell, groups.flat)

    def _follow(self, value: NDArray[np.float32]) -> None:
        """Watch whether the values are 0 and 1 only, and whether they number the rows."""
        if self.binary:
            self.binary = bool(((value == 0) | (value == 1) | ~np.isfinite(value)).all())
        if self.whole:
            steps = np.diff(value, prepend=np.float32(self.last))
            self.whole = bool((steps > 0).all() and (value == np.floor(value)).all())
            self.first = value[0] if np.isnan(self.first) else self.first
            self.last = float(value[-1])

    def numbers_rows(self, rows: int) -> bool:
        """Whether the column counts the rows, with few gaps."""
        return self.whole and rows >= 30 and self.last - float(self.first) + 1 <= 2 * rows

    def _grow(self, cells: int) -> None:
        have = self.moments.shape[1]
        if cells > have:
            self.moments = np.concatenate([self.moments, no_moments(cells - have)], axis=1)
        if cells > len(self.table):
            self._resize(max(cells, len(self.table) * 5 // 4), self.low, self.table.shape[1])

    def _resize(self, cells: int, low: int, width: int) -> None:
        if (cells, low, width) == (*self.table.shape[:1], self.low, self.table.shape[1]):
            return
        self.budget.change(4 * cells * width - self.table.nbytes)
        wider = np.zeros((cells, width), np.uint32)
        if self.table.size:
            at = self.low - low
            wider[: len(self.table), at : at + self.table.shape[1]] = self.table
        self.table, self.low = wider, low

    def _count(self, value: NDArray[np.float32], cell: NDArray[np.int64], flat: NDArray[np.int64]) -> None:
        """Count values in the bins of their cells; ``flat`` is room for as many places."""
        if not len(value):
            return
        least, largest = float(value.min()), float(value.max())
        bits = min(self.bits, bits_between(least, largest)) if self.bits else 0
        ends = bin_numbers(np.array([least, largest], np.float32), bits).tolist()
        if self.table.shape[1]:
            held = coarser(np.array([self.low, self.low + self.table.shape[1] - 1]), self.bits, bits).tolist()
            low, high = min(ends[0], held[0]), max(ends[1], held[1])
            fewer = bits_within(low, high, bits)
            low, high = coarser(np.array([low, high]), bits, fewer).tolist()
            self._coarsen(fewer)
            bits = fewer
            self._resize(len(self.table), min(low, self.low), max(high, self.low + self.table.shape[1] - 1) - low + 1)
        else:
            self.bits, self.low = bits, ends[0]
            self._resize(len(self.table), ends[0], ends[1] - ends[0] + 1)
        numbers = bin_numbers(value, bits)
        np.multiply(cell, self.table.shape[1], out=flat)
        flat += numbers
        flat -= self.low
        np.add.at(self.table.reshape(-1), flat, np.uint32(1))

    def _coarsen(self, bits: int) -> None:
        if bits == self.bits:
            return
        width = self.table.shape[1]
        numbers = coarser(np.arange(self.low, self.low + width), self.bits, bits)
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        narrow = np.add.reduceat(self.table, starts, axis=1, dtype=np.uint32)
        self.budget.change(narrow.nbytes - self.table.nbytes)
        self.table, self.low, self.bits = narrow, int(numbers[0]), bits

    def holds(self, codes: Iterable[int]) -> bool:
        """Whether any of these cells holds a value."""
        return any(code < self.moments.shape[1] and self.moments[0, code] > 0 for code in codes)

    def given_up_cells(self) -> dict[int, NumericCell]:
        """The sums of each cell that holds a value; the table is given up, so that memory never holds both forms."""
        width = self.table.shape[1]
        used = np.flatnonzero(self.table.reshape(-1) != 0)
        cells, counts = len(self.table), self.table.reshape(-1)[used].tolist()
        self.budget.change(-self.table.nbytes)
        self.table = np.zeros((0, 0), np.uint32)
        # one integer object a bin, not one a cell and bin: there may be millions of cells
        names = np.array(range(self.low, self.low + width), dtype=object)
        edges = np.searchsorted(used, width * np.arange(cells + 1)).tolist()
        used %= max(width, 1)
        bins = names[used].tolist()
        found = {}
        for code, (n, mean, m2, m3, m4) in enumerate(self.moments.T.tolist()):
            if n:
                span = slice(edges[code], edges[code + 1])
                found[code] = NumericCell(
                    n=int(n), mean=mean, m2=m2, m3=m3, m4=m4, bins=tuple(bins[span]), counts=tuple(counts[span])
                )
        return found


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

"""The rows of a batch in the order of their cells, in blocks of whole cells that a processor's cache can hold."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.histogram import bin_numbers
from fedskew.profiles.moments import Moments

if TYPE_CHECKING:
    import polars as pl

BLOCK = 65_536  # rows: their values as float64 take half of a megabyte


class Room:
    """Arrays to work in, kept from batch to batch: new ones would be asked of the system again and again."""

    def __init__(self) -> None:
        self.column, self.value = np.empty(0, np.float32), np.empty(0, np.float32)
        self._grow(2 * BLOCK)

    def _grow(self, rows: int) -> None:
        self.wide, self.square = np.empty(rows), np.empty(rows)
        self.place = np.empty(rows, np.int64)
        self.number, self.sign = np.empty(rows, np.int32), np.empty(rows, np.int32)

    def fit(self, batch: int, block: int) -> None:
        """Make room for the values of a batch, and for those of its largest block."""
        if batch > len(self.value):
            self.column, self.value = np.empty(batch, np.float32), np.empty(batch, np.float32)
        if block > len(self.wide):
            self._grow(block)


@dataclass(frozen=True, slots=True)
class Block:
    """The ``rows`` of some ``cells`` of a batch in the order of its cells, and the cell of each.

    ``starts`` are the first rows of the cells, counted from the first row of the block, ``lengths`` how many they are.
    """

    rows: slice
    cells: slice
    cell: NDArray[np.int32]
    lengths: NDArray[np.int64]
    starts: NDArray[np.int64]

    def moments(self, value: NDArray[np.float32], seen: NDArray[np.bool_] | None, room: Room) -> Moments:
        """Moments (5, cells) of the values that are ``seen``, all if None."""
        starts, rows = self.starts, len(value)
        wide, square = room.wide[:rows], room.square[:rows]
        np.copyto(wide, value)
        out = np.empty((5, len(starts)))
        out[0] = self.lengths
        if seen is not None:
            wide[~seen] = 0.0
            out[0] = np.add.reduceat(seen, starts, dtype=np.int64)
        np.divide(np.add.reduceat(wide, starts), np.maximum(out[0], 1), out=out[1])
        wide -= np.repeat(out[1], self.lengths)
        if seen is not None:
            wide[~seen] = 0.0
        powers = ((wide, wide, square), (wide, square, wide), (square, square, square))
        for k, (one, other, product) in enumerate(powers, start=2):
            np.add.reduceat(np.multiply(one, other, out=product), starts, out=out[k])
        return out

    def count(
        self,
        value: NDArray[np.float32],
        seen: NDArray[np.bool_] | None,
        table: NDArray[np.uint32],
        bins: tuple[int, int],
        room: Room,
    ) -> None:
        """Count the values that are ``seen`` in ``table`` (cells, bins), whose first bin and bits are ``bins``."""
        low, bits = bins
        cell = self.cell
        if seen is not None:
            value, cell = value[seen], cell[seen]
        rows = len(value)
        first, number, place = room.sign[:rows], room.number[:rows], room.place[:rows]
        bin_numbers(value, bits, (number, first))
        number -= low
        number += np.multiply(cell, table.shape[1], out=first)  # int32: a Budget has fewer bins
        np.copyto(place, number)
        np.add.at(table.reshape(-1), place, np.uint32(1))


class Groups:
    """The rows of a batch by cell: in ``order``, those of each of ``codes`` from its place in ``starts`` on."""

    def __init__(self, cell: NDArray[np.int64]) -> None:
        narrow = np.int16 if not len(cell) or int(cell.max()) < 2**15 else np.int32  # radix sort is fast for int16
        few = cell.astype(narrow)
        self.order: NDArray[np.int64] = np.argsort(few, kind="stable")
        few = few[self.order]
        self.starts = np.flatnonzero(few[1:] != few[:-1]) + 1
        self.starts = np.concatenate([np.zeros(min(len(cell), 1), np.int64), self.starts])
        self.codes = few[self.starts].astype(np.int64)
        self.lengths = np.diff(self.starts, append=len(cell))
        self.blocks = self._blocks()
        self.largest = max((len(block.cell) for block in self.blocks), default=0)

    def values(self, column: NDArray[np.float32], room: Room) -> NDArray[np.float32]:
        """A column's values in the order of the cells; they stand in ``room``, like the column itself."""
        return np.take(column, self.order, out=room.value[: len(self.order)], mode="clip")

    def _blocks(self) -> list[Block]:
        """Cut before the first cell that begins after each ``BLOCK`` rows."""
        ends = np.append(self.starts, len(self.order))
        cuts = np.unique(np.append(np.searchsorted(ends, np.arange(0, len(self.order), BLOCK)), len(self.codes)))
        blocks = []
        for one, other in zip(cuts.tolist(), cuts.tolist()[1:], strict=False):
            first, last = int(ends[one]), int(ends[other])
            lengths = self.lengths[one:other]
            blocks.append(
                Block(
                    rows=slice(first, last),
                    cells=slice(one, other),
                    cell=np.repeat(self.codes[one:other].astype(np.int32), lengths),
                    lengths=lengths,
                    starts=self.starts[one:other] - first,
                )
            )
        return blocks


def copy_narrow(column: "pl.Series | NDArray[Any]", out: NDArray[np.float32]) -> None:
    """Copy a column of numbers as float32: NaN where missing, infinite where float32 does not reach."""
    done = 0
    for part in [column] if isinstance(column, np.ndarray) else [chunk.to_numpy() for chunk in column.get_chunks()]:
        with np.errstate(over="ignore"):
            np.copyto(out[done : done + len(part)], part, casting="same_kind")
        done += len(part)

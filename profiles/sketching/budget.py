"""What histograms may take of memory: planned before a scan where that can be, and kept while it runs."""

import contextlib
import ctypes
from collections.abc import Callable
from typing import Protocol

from fedskew.profiles.errors import EnvironmentFaultError
from fedskew.profiles.histogram import MOST_BINS

LEAST_BINS = 512
"""All values of float32 fit into so many bins, an octave in each."""
COUNT_BYTES = 4
MOST_BYTES = COUNT_BYTES * (2**31 - 1)  # so that the place of a bin is an int32


class Table(Protocol):
    """Histograms that can be joined into fewer bins."""

    def shrink(self) -> None:
        """Join bins until there are as many as the budget allows."""


class Budget:
    """Bytes that the histograms of all cells and columns may take; what would take more gets fewer bins.

    Parameters
    ----------
    most : bytes
    cells : how many there will be, 0 where that is not known
    columns : how many of the columns are numeric
    tell : told where histograms get fewer bins than 2,048

    Attributes
    ----------
    bins : of each histogram at most: 2,048, 1,024 or 512; merged histograms have those of the coarsest
    cells : how many there is room for
    tables : that hold the histograms

    Raises
    ------
    EnvironmentFaultError
        Not even 512 bins fit.

    Examples
    --------
    >>> planned = Budget(10 * 2**20, cells=200, columns=8, tell=print)
    histograms get 1,024 bins at most instead of 2,048, so that they stay within 10 MB of memory
    >>> planned.bins
    1024
    """

    def __init__(
        self, most: int, *, cells: int = 0, columns: int = 0, tell: Callable[[str], None] | None = None
    ) -> None:
        self.most, self.cells, self.tell = min(most, MOST_BYTES), cells, tell
        self.bins = MOST_BINS
        self.tables: list[Table] = []
        self._fit(cells * columns)

    def hold(self, cells: int, columns: int) -> None:
        """Make room for so many cells, in as many columns; where they are too many, all get half as many bins.

        Raises
        ------
        EnvironmentFaultError
            Not even 512 bins fit.
        """
        if cells > self.cells:
            self.cells = max(cells, self.cells * 5 // 4)
        self._fit(self.cells * columns)

    def _fit(self, histograms: int) -> None:
        before = self.bins
        while COUNT_BYTES * self.bins * histograms > self.most:
            if self.bins <= LEAST_BINS:
                raise EnvironmentFaultError(
                    f"the histograms of all parties, classes and columns need more than {self.most >> 20} MB; use "
                    "fewer columns (--features), or sketch each silo's file by itself"
                )
            self.bins //= 2
        if self.bins < before:
            for table in self.tables:
                table.shrink()
            if self.tell is not None:
                self.tell(
                    f"histograms get {self.bins:,} bins at most instead of {MOST_BINS:,}, so that they stay within "
                    f"{self.most >> 20} MB of memory"
                )


def give_back() -> None:
    """Have the C library return what earlier work has freed: else the next scan's memory comes on top of it."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # only glibc can be asked
        ctypes.CDLL(None).malloc_trim(0)

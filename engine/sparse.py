"""Sparse rows (CSR) on torch: a batch becomes dense when it is asked for, the table never does."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sparse:
    """A table (N, F) in CSR: row i holds ``values[starts[i]:starts[i + 1]]`` at ``columns`` of the same places.

    ``values`` float, ``columns`` int32 or int64, ``starts`` (N + 1,) int64; no column twice in a row.
    """

    values: Tensor
    columns: Tensor
    starts: Tensor
    width: int

    def __len__(self) -> int:
        """Number of rows N."""
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return len(self), self.width

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.values.dtype

    def to(self, target: Any) -> "Sparse":
        """The same table in another type, or on another device."""
        moved = target if isinstance(target, torch.device) else self.values.device
        return Sparse(self.values.to(target), self.columns.to(moved), self.starts.to(moved), self.width)

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        """Rows (n,) as a dense (n, F) tensor; ``dim`` is 0.

        Examples
        --------
        >>> table = Sparse(torch.tensor([1.0, 2.0]), torch.tensor([2, 0]), torch.tensor([0, 1, 1, 2]), 3)
        >>> table.index_select(0, torch.tensor([2, 0])).tolist()
        [[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        """
        if dim != 0:
            raise ValueError(f"only rows can be selected, not dimension {dim}")
        return self.select_into(rows, self.values.new_empty(len(rows), self.width))

    def select_into(self, rows: Tensor, out: Tensor) -> Tensor:
        """Write rows (n,) into ``out`` (n, F), contiguous."""
        line, place = self._places(rows)
        where = line * self.width + self.columns.index_select(0, place)
        out.zero_().view(-1).scatter_(0, where, self.values.index_select(0, place).to(out.dtype))
        return out

    def narrow(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (n,) without the columns that are empty in all of them: which columns are left (U,), and (n, U) dense.

        Examples
        --------
        >>> table = Sparse(torch.tensor([1.0, 2.0]), torch.tensor([2, 0]), torch.tensor([0, 1, 1, 2]), 3)
        >>> [part.tolist() for part in table.narrow(torch.tensor([2, 0]))]
        [[0, 2], [[2.0, 0.0], [0.0, 1.0]]]
        """
        line, place = self._places(rows)
        columns, among = torch.unique(self.columns.index_select(0, place), return_inverse=True)
        columns = columns.long()
        dense = self.values.new_zeros(len(rows), len(columns))
        dense.view(-1).scatter_(0, line * len(columns) + among, self.values.index_select(0, place))
        return columns, dense

    def _places(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """For every stored number of rows (n,): which of the rows it is in, and where it is stored."""
        first = self.starts.index_select(0, rows)
        counts = self.starts.index_select(0, rows + 1) - first
        shift = torch.repeat_interleave(first - (counts.cumsum(0) - counts), counts)
        line = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
        return line, shift + torch.arange(len(shift), device=rows.device)

    def __getitem__(self, rows: slice | Tensor) -> Any:
        """A range of rows made dense, (n, F), or picked rows as a table of their own."""
        if isinstance(rows, slice):
            return self.index_select(0, torch.arange(len(self), device=self.starts.device)[rows])
        line, place = self._places(rows)
        starts = torch.bincount(line, minlength=len(rows)).cumsum(0)
        starts = torch.cat([starts.new_zeros(1), starts])
        values, columns = self.values.index_select(0, place), self.columns.index_select(0, place)
        return Sparse(values, columns, starts, self.width)


def table_of(features: Any, dtype: torch.dtype) -> Tensor | Sparse:
    """A numpy array, or a scipy CSR array of canonical form, as torch sees it; shares memory where types agree."""
    if hasattr(features, "indptr"):
        columns, starts = torch.from_numpy(features.indices), torch.from_numpy(features.indptr)
        return Sparse(torch.from_numpy(features.data).to(dtype), columns, starts.long(), features.shape[1])
    return torch.from_numpy(features).to(dtype)

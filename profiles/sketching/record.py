"""Sketch: one party's sufficient statistics, all that leaves a silo. ``merging.py`` adds them up, in any order."""

from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from fedskew.profiles.moments import Moments
from fedskew.profiles.sketching.minima import RowMinima

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

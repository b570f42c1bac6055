"""The cell of each row of a batch: a party's rows of one class."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.coding import CAP
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.sketching.batches import ROWS

if TYPE_CHECKING:
    import polars as pl


def cell_codes(
    path: Path, party: "pl.Series", label: "pl.Series", cells: dict[tuple[str, str], int]
) -> NDArray[np.int64]:
    """The number of each row's cell in ``cells``, to which new ones are added.

    Parameters
    ----------
    party, label : (n,) none missing, n at least 1

    Raises
    ------
    FedskewError
        There are too many labels or cells.
    """
    (whose, parties), (which, labels) = _coded(party), _coded(label)
    pair = whose * len(labels)
    pair += which
    dense = len(parties) * len(labels) <= ROWS
    found = np.flatnonzero(np.bincount(pair)) if dense else np.unique(pair)
    names = [(str(parties[code // len(labels)]), str(labels[code % len(labels)])) for code in found.tolist()]
    for one in names:
        cells.setdefault(one, len(cells))
    if len(cells) > CAP * 10 or len({label for _, label in cells}) > CAP:
        raise FedskewError(f"{path}: the label or the party looks like an id ({len(cells)} combinations)")
    numbers_of = np.array([cells[one] for one in names], np.int64)
    if not dense:
        return np.asarray(numbers_of[np.searchsorted(found, pair)])
    lookup = np.zeros(int(found[-1]) + 1, np.int64)
    lookup[found] = numbers_of
    return lookup.take(pair, mode="clip")


def _coded(values: "pl.Series") -> tuple[NDArray[np.int64], Sequence[object]]:
    """Codes of values, none of them missing, and what they stand for: of whole numbers all from the least on."""
    import polars as pl

    if values.dtype.is_integer():
        least, most = int(values.min()), int(values.max())  # type: ignore[arg-type]
        if most - least < ROWS:
            number = np.empty(len(values), np.int64)
            np.subtract(values.to_numpy(), least, out=number, dtype=np.int64, casting="unsafe")
            return number, range(least, most + 1)
    text = values.cast(pl.String)
    names = text.unique(maintain_order=True)
    places = pl.Series(range(len(names)), dtype=pl.Int64)
    return text.replace_strict(names, places, return_dtype=pl.Int64).to_numpy(), names.to_list()

"""Write a simulated partition as silos: one Parquet file a party, or one npz a party for images; all or nothing."""

import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.atomic import folder_atomically, write_atomically
from fedskew.profiles.columns import numbers
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.gathering import Gathered, array_names
from fedskew.profiles.partitions import Holdout, Partition
from fedskew.profiles.readers.base import MISSING_NAMES
from fedskew.profiles.readers.parquet import PARTY, SIMULATED
from fedskew.profiles.simulate import Plan, rows_by_party
from fedskew.profiles.sources import Source
from fedskew.profiles.strategies.base import Codes

if TYPE_CHECKING:
    import polars as pl

_UNSAFE = re.compile(r"^[._\s]|\s$|/" + (r'|[\\:*?"<>|]' if os.name == "nt" else ""))
_LONGEST = 200  # bytes of a file name, so that its ending and a temporary prefix still fit


def write_silos(
    source: Source, codes: Codes, names: tuple[str, ...], result: Partition, folder: Path, *, plan: Plan
) -> Path | None:
    """Write one file a party into a new folder, and the held-out table, if there is one, beside it.

    Columns keep the values they have in the source. Parquet files of simulated parties say so in their metadata. Where
    a party name cannot be a file name, files are numbered and a column ``party`` holds the names.

    Parameters
    ----------
    source : what was read
    codes, names : party of each row of the source, and party names
    result : the Partition of it
    folder : must not exist, or be empty
    plan : the strategy

    Returns
    -------
    The file with the held-out table, ``FOLDER-test.parquet`` or ``.npz``, or None where there is none.

    Raises
    ------
    FedskewError
        The folder is not empty.
    EnvironmentFaultError
        The place cannot be written to.
    """
    labelled = source.labelled
    stems = names if are_file_names(names) else None
    changed = bool(plan.transforms)
    silos = _Writer(result, source.data, changed, plan.name if plan.simulated else None)
    with folder_atomically(folder) as part:
        for party, rows in enumerate(rows_by_party(codes, names).values()):
            where = result.rows_of(party)
            held = Holdout(result.features[where], result.labels[where])
            stem = stems[party] if stems else f"silo-{party:05d}"
            content = silos.encode(rows[labelled[rows]], held, None if stems else names[party])
            (part / f"{stem}.{silos.ending}").write_bytes(content)
    if result.test is None or source.held_out is None:
        return None
    rows = source.test_places
    tests = _Writer(result, source.held_out, changed)
    file = folder.with_name(f"{folder.name}-test.{tests.ending}")
    # With noise_test="all" the held-out table holds one copy for each party.
    copies = len(result.test.labels) // max(1, len(rows))
    write_atomically(file, tests.encode(np.tile(rows, copies), result.test, None))
    return file


@dataclass(frozen=True, slots=True)
class _Writer:
    """Turns rows of a source into the bytes of one file, with changed features and labels where there are any."""

    result: Partition
    data: Gathered
    changed: bool
    strategy: str | None = None

    @property
    def ending(self) -> str:
        return "npz" if self.result.modality == "image" else "parquet"

    def encode(self, rows: NDArray[np.int64], held: Holdout, party: str | None) -> bytes:
        """Encode the rows; ``held`` are their features and labels after the strategy, in the same order."""
        buffer = io.BytesIO()
        if self.result.modality == "image":
            members = {"x": held.features, "y": self._labels(rows, held)}
            if party is not None:
                members["party"] = np.full(len(rows), party)
            np.savez(buffer, allow_pickle=False, **members)
            return buffer.getvalue()
        frame = self._frame(rows, held)
        if party is not None:
            import polars as pl

            frame = frame.with_columns(pl.lit(party).alias(PARTY))
        metadata = {} if self.strategy is None else {SIMULATED: self.strategy, PARTY: "" if party is None else PARTY}
        frame.write_parquet(buffer, metadata=metadata)
        return buffer.getvalue()

    def _labels(self, rows: NDArray[np.int64], held: Holdout) -> NDArray[np.generic]:
        if self.changed or self.data.label.dtype.is_float():
            return np.array(self.result.class_names)[held.labels]
        values = self.data.label[rows].to_numpy()
        return values.astype(np.str_) if values.dtype.kind == "O" else values

    def _frame(self, rows: NDArray[np.int64], held: Holdout) -> "pl.DataFrame":
        import polars as pl

        label = self.data.label.name
        if self.data.table is not None:
            frame = self.data.table.select(pl.all()).with_columns(self.data.label)[rows]
            frame = frame.with_columns([_plain(column) for column in frame.iter_columns() if column.name != label])
        else:
            if not isinstance(self.data.array, np.ndarray):
                raise FedskewError("silo files hold dense columns, and this table is sparse; use the index file")
            place = {name: i for i, name in enumerate(array_names(self.data.array))}
            block = self.data.array[rows]
            frame = pl.DataFrame({name: block[:, place[name]] for name in self.data.names})
            frame = frame.with_columns(self.data.label[rows])
        if not self.changed:
            return frame
        noisy = [
            pl.Series(column.name, held.features[:, column.start]).fill_nan(None)
            for column in self.result.columns
            if column.kind == "numeric"
        ]
        if self.result.target is None:
            noisy.append(pl.Series(label, np.array(self.result.class_names)[held.labels]))
        return frame.with_columns(noisy)


def _plain(column: "pl.Series") -> "pl.Series":
    """Numbers that a text format held as text become numbers; everything else stays as it is."""
    import polars as pl

    if column.dtype != pl.String:
        return column
    values = numbers(column)
    if values is None:
        return column
    found = pl.Series(column.name, values).fill_nan(None)
    whole = found.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == found.null_count() and (whole == found).all() else found


def are_file_names(names: tuple[str, ...]) -> bool:
    """Whether every party name can be the name of a file and is read back from it.

    Examples
    --------
    >>> are_file_names(("0", "St. Mary")), are_file_names(("a/b", "c")), are_file_names(("a", "A"))
    (True, False, False)
    """
    if len({name.casefold() for name in names}) < len(names):
        return False
    return all(
        name.isprintable()
        and not _UNSAFE.search(name)
        and name not in MISSING_NAMES
        and 0 < len(name.encode("utf-8", "replace")) <= _LONGEST
        for name in names
    )

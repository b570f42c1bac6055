"""A source between reading and partitioning: its labels and parties row by row, in the order of the files."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.coding import Coded, code_exact, code_labels, code_names, numeric_target
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.gathering import Choice, Gathered, gather, reader_of
from fedskew.profiles.heldout import gather_test
from fedskew.profiles.partitions import Partition, make_partition, ordered_names
from fedskew.profiles.readers.base import Options, check_file
from fedskew.profiles.readers.folder import is_folder
from fedskew.profiles.table import to_partition

SCHEMA = "fedskew-index/1"
"""The version of index files that is written and read."""
_BLOCK = 1 << 20
_OPTIONS = ("label", "party", "modality", "delimiter", "encoding", "on_bad_row")


@dataclass(frozen=True, slots=True)
class Source:
    """Everything read from the files, before rows are given to parties.

    Row numbers count the rows of the files from 0, in the order they are read: a bad row that was skipped does not
    count, a row without a label does.
    """

    data: Gathered
    held_out: Gathered | None
    choice: Choice
    task: Any
    labels: Coded

    @property
    def rows(self) -> int:
        """Number of rows, those without a label included."""
        return len(self.data.label)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which rows have a label, (rows,) bool."""
        return np.asarray(self.labels.codes >= 0)

    @property
    def test_places(self) -> NDArray[np.int64]:
        """Rows of the held-out table that have a label; none where there is no such table."""
        if self.held_out is None:
            return np.empty(0, np.int64)
        label, where = self.held_out.label, self.held_out.where
        if self.labels.edges is not None:
            return np.flatnonzero(~np.isnan(numeric_target(label, where)))
        return np.flatnonzero(code_names(label, "label", where, guard=False).codes >= 0)

    def unpartitioned(self, *, features: bool) -> tuple[Partition, NDArray[np.int64]]:
        """The rows that have a label as one party ``all``, and their row numbers; with no features unless asked."""
        if features:
            everything = replace(self.data, party=None, silos=())
            table = to_partition(everything, None, self.choice, self.task, partitioned=False)
            return table, np.flatnonzero(self.labels.codes >= 0)
        places = np.flatnonzero(self.labels.codes >= 0)
        if not len(places):
            raise FedskewError(f"{self.data.where}: no row has a label")
        blank = np.zeros((len(places), 0), np.float32)
        everyone = np.zeros(len(places), np.int32)
        codes = self.labels.codes[places]
        return make_partition(blank, codes, everyone, class_names=self.labels.names, party_names=("all",)), places

    def parties(self) -> tuple[NDArray[np.int32], tuple[str, ...]] | None:
        """Party codes by row, -1 where there is none, and the names; None if the source names no parties."""
        if self.data.party is None:
            return None
        silos = self.data.silos
        coded = code_exact(self.data.party, silos) if silos else code_names(self.data.party, "party", self.data.where)
        return coded.codes.astype(np.int32), coded.names

    def partitioned(self, codes: NDArray[np.int32], names: tuple[str, ...], *, simulated: bool = False) -> Partition:
        """The Partition in which each row belongs to the party with its code; negative: to none.

        Parameters
        ----------
        codes : (rows,) party codes
        names : in their one true order, those of parties without rows too
        simulated : whether a strategy made the parties
        """
        import polars as pl

        # Rows without a label are left out, and counted, for that reason; they need not lack a party as well.
        unlabelled = ~self.labelled
        codes = np.where((codes < 0) & unlabelled, 0, codes)
        series = pl.Series("party", [*names, None])[np.where(codes < 0, len(names), codes)]
        assigned = replace(self.data, party=series, silos=names, simulated=simulated or self.data.simulated)
        held_out = self.held_out
        if simulated and held_out is not None:
            held_out = replace(held_out, party=None, silos=())  # its parties are those of the files
        result = to_partition(assigned, held_out, self.choice, self.task, partitioned=False)
        if result.party_names != ordered_names(names):
            raise FedskewError("party names must differ in more than outer spaces and must not mean a missing value")
        return result


def open_source(source: Any, reading: dict[str, Any]) -> Source:
    """Read everything a source holds, with the options of ``read_table``.

    Parameters
    ----------
    source : see ``read_table``
    reading : options by name; those that are None or empty count as not given

    Raises
    ------
    FedskewError
        The source cannot be read, a column does not exist, or an option is unknown.
    """
    given = {name: value for name, value in reading.items() if value is not None and value not in ("", (), [])}
    features, drop = given.pop("features", None), given.pop("drop", ())
    test, task = given.pop("test", None), given.pop("task", None)
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        raise FedskewError(f"there is no reading option {unknown[0]!r}")
    choice = Choice(None if features is None else _texts(features), _texts(drop))
    options = Options(features=choice.features, **given)
    data = gather(source, options, choice)
    held_out = gather_test(test, data, options, choice)
    return Source(data, held_out, choice, task, code_labels(data.label, data.where, task))


def hash_of(paths: Sequence[str | Path]) -> str:
    """SHA-256 over the bytes of files and, for folders, of the names and bytes of all files in them.

    Hidden files, names that begin with ``_``, and index files do not count, so an index may lie beside its data.

    Raises
    ------
    FedskewError
        A file cannot be read.
    """
    digest = hashlib.sha256()
    for path in map(Path, paths):
        folder = is_folder(path)
        for file in _data_files(path) if folder else _parts(path):
            name = file.relative_to(path).as_posix() if folder else ""
            empty = folder and not file.stat().st_size  # a reader may count it as bad; it does not spoil the folder
            size = 0 if empty else check_file(file)
            digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
    return digest.hexdigest()


def _parts(path: Path) -> tuple[Path, ...]:
    """The files that hold the rows of one file: labels may lie beside images."""
    check_file(path)
    reader = reader_of(path, Options())
    return (path,) if reader is None else reader.parts(path)


def is_index(path: str | Path) -> bool:
    """Whether a JSON file begins like an index file of ours; cheap, and False for what cannot be read.

    Examples
    --------
    >>> is_index("no/such/file.json")
    False
    """
    try:
        with Path(path).open("rb") as stream:
            return f'"{SCHEMA.partition("/")[0]}/'.encode() in stream.read(200)
    except OSError:
        return False


def _data_files(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    visible = (file for file in files if not any(part[0] in "._" for part in file.relative_to(folder).parts))
    return sorted(file for file in visible if not (file.suffix.lower() == ".json" and is_index(file)))


def _texts(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)

"""From a source (files, a folder, frames, arrays) to one merged table or array with a label and a party a row."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.matrices import dense_if_full, refuse_image_table, shape_features, stack_rows
from fedskew.profiles.partitions import Finding
from fedskew.profiles.readers import READERS
from fedskew.profiles.readers.base import Arrays, Loaded, Options, Reader, Table, check_file
from fedskew.profiles.readers.folder import is_folder, list_silos
from fedskew.profiles.readers.frames import is_frame, read_memory, to_series
from fedskew.profiles.readers.images import ENDINGS, IMAGES, is_of_images
from fedskew.profiles.readers.items import is_dataset
from fedskew.profiles.stacking import all_columns, stack_tables
from fedskew.profiles.written import kind_of, looked_into, without_rows

if TYPE_CHECKING:
    import polars as pl

PACKED = frozenset({".gz", ".zip", ".bz2", ".xz", ".zst", ".7z"})
SUFFIXES = frozenset(suffix for reader in READERS for suffix in reader.suffixes)


@dataclass(frozen=True, slots=True)
class Gathered:
    """All rows of a source: label and party of each, and its features as columns or as an array, not both.

    ``silos`` are the names of the files or frames where each is a party; a silo without rows is among them. ``names``
    are the feature columns that the person wants. ``simulated`` says that a strategy made the parties, so that a column
    cannot name them; ``ragged`` is as in :class:`Arrays`. An array may be CSR.
    """

    where: str
    label: "pl.Series"
    party: "pl.Series | None"
    names: tuple[str, ...]
    table: "pl.DataFrame | None" = None
    array: Any = None
    silos: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    test: "Gathered | None" = None
    members: tuple[str, ...] = ()
    simulated: bool = False
    ragged: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Columns to use (None: all) and to leave out."""

    features: tuple[str, ...] | None
    drop: tuple[str, ...]


def refuse_both(
    features: Collection[str] | str | None, drop: Collection[str] | str | None, where: str = "--drop"
) -> None:
    """Refuse a column that is asked for and left out at once; ``where`` is what messages call the second list.

    Raises
    ------
    FedskewError
        A name stands in both lists.
    """
    used, dropped = ([given] if isinstance(given, str) else list(given or ()) for given in (features, drop))
    for name in used:
        if name in dropped:
            raise FedskewError(f"column {name!r} is both in --features and in {where}; take it out of one of them")


Silos = list[tuple[str | None, Loaded]]


def gather(source: Any, options: Options, choice: Choice, name: str = "the table") -> Gathered:
    """Load a source and merge its silos; ``name`` is what messages call one that is in memory.

    Raises
    ------
    FedskewError
        A file cannot be read, a column is missing, or shards of one table differ in their columns.
    """
    silos, findings = load(source, options, name)
    tables = [(name, loaded) for name, loaded in silos if isinstance(loaded, Table)]
    if not tables:
        return _gather_arrays(
            [(name, data) for name, data in silos if isinstance(data, Arrays)], options, choice, findings
        )
    if len(tables) != len(silos):
        raise FedskewError(f"{tables[0][1].name}: some silos are tables and some are numpy archives; use one kind")
    return _gather_tables(tables, options, choice, findings)


def load(source: Any, options: Options, name: str) -> tuple[Silos, tuple[Finding, ...]]:
    """Read every file of a source; each comes with its party name, or with None where it is the only one."""
    if isinstance(source, Mapping) and source and all(is_frame(silo) or is_dataset(silo) for silo in source.values()):
        if len({str(key) for key in source}) < len(source):
            raise FedskewError("two silos have the same name; give each its own")
        held = [(str(key), read_memory(silo, options, f"silo {key!r}")) for key, silo in source.items()]
        return list(held), tuple(finding for _, data in held for finding in data.findings)
    paths = _paths(source)
    if paths is None:
        loaded_one = read_memory(source, options, name)
        return [(None, loaded_one)], loaded_one.findings
    findings: tuple[Finding, ...] = ()
    single = len(paths) == 1 and not is_folder(paths[0])
    if len(paths) == 1 and not single:
        whole = next((reader for reader in READERS if reader.folder(paths[0])), None)
        if whole is not None:
            data = whole.read(paths[0], options)
            return [(None, data)], data.findings
        if is_of_images(paths[0], options, SUFFIXES):
            images = IMAGES.read(paths[0], options)
            return [(None, images)], images.findings
        paths, findings = list_silos(paths[0], SUFFIXES)
    names = [path.stem for path in paths]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated and options.party is None:
        both = [str(path) for path in paths if path.stem == repeated[0]]
        raise FedskewError(f"two silos are called {repeated[0]!r} ({both[0]} and {both[1]}); rename one of the files")
    loaded = [read_file(path, options) for path in paths]
    findings += tuple(finding for data in loaded for finding in data.findings)
    return [(None if single else stem, data) for stem, data in zip(names, loaded, strict=True)], findings


def read_file(path: Path, options: Options) -> Loaded:
    """Read one file with the reader of its ending; with a delimiter given, any other ending is delimited text."""
    check_file(path)
    reader = reader_of(path, options)
    if reader is not None:
        return reader.read(path, options)
    if path.suffix.lower() in ENDINGS:
        raise FedskewError(f"{path}: is one image; give the folder that holds class/*.png or party/class/*.png")
    kind = kind_of(looked_into(path)) if path.suffix.lower() == ".json" else None
    if kind is not None:
        raise FedskewError(f"{path}: is {without_rows(kind)}. Or give the data it was made of")
    if path.suffix.lower() in PACKED:
        raise FedskewError(f"{path}: is packed; unpack it first (only svmlight and idx files are read as they are)")
    endings = ", ".join(sorted(SUFFIXES))
    raise FedskewError(
        f"{path}: unknown kind of file; endings that are read: {endings} (or give --delimiter for text). Told by "
        "content, whatever the ending: svmlight, idx (MNIST), CIFAR python batches, LEAF JSON"
    )


def reader_of(path: Path, options: Options) -> Reader | None:
    """The reader of a file: by its ending, else by its content; with a delimiter, any other ending is a table."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES or suffix == ".txt":
        if options.delimiter is not None:
            suffix = ".csv"
        claimed = next((reader for reader in READERS if options.delimiter is None and reader.claims(path)), None)
        if claimed is not None:
            return claimed
    return next((reader for reader in READERS if suffix in reader.suffixes), None)


def _paths(source: Any) -> list[Path] | None:
    if isinstance(source, str | Path):
        return [Path(source)]
    if isinstance(source, Iterable) and not isinstance(source, Mapping) and not is_frame(source):
        items = list(source) if isinstance(source, list | tuple) else []
        if items and all(isinstance(item, str | Path) for item in items):
            return [Path(item) for item in items]
        if isinstance(source, list | tuple) and not items:
            raise FedskewError("no source was given; name a file, a folder or several files")
    return None


def _gather_tables(
    tables: list[tuple[str | None, Table]], options: Options, choice: Choice, findings: tuple[Finding, ...]
) -> Gathered:
    import polars as pl

    where = _where([table for _, table in tables])
    if options.modality == "image":
        refuse_image_table(where)
    every = all_columns(table for _, table in tables)
    label = _column(where, every, "label", options.label)
    wanted = options.party if options.party_required or options.party in every else None
    party = None if wanted is None else _column(where, every, "party", wanted)
    if party == label:
        raise FedskewError(f"{where}: {label!r} is both the label and the party; name two columns")
    kept = choose_names(where, every, choice, [name for name in (label, party) if name is not None])
    needed = [label, *([party] if party else []), *kept]
    apart = party is None and tables[0][0] is not None
    by_name = {str(i) if name is None or not apart else name: table for i, (name, table) in enumerate(tables)}
    named = {name for name in (label, party) if name is not None}
    frame, mismatch = stack_tables(by_name, needed, named, silos=apart)
    findings += mismatch
    silos: tuple[str, ...] = ()
    parties = None if party is None else frame.get_column(party)
    if apart:
        silos = tuple(by_name)
        parties = pl.Series("party", np.repeat(np.array(silos), [table.frame.height for _, table in tables]))
    simulated = all(table.simulated for _, table in tables)
    features = frame.select(kept)
    return Gathered(
        where, frame.get_column(label), parties, tuple(kept), features, None, silos, findings, simulated=simulated
    )


def _where(silos: list[Any]) -> str:
    """What messages call the source: its file, or the folder of its files."""
    first = Path(silos[0].name)
    if len(silos) == 1:
        return str(silos[0].name)
    if not first.is_file():
        return "the silos"
    return "this folder" if first.parent == Path() else str(first.parent)


def choose_names(where: str, names: list[str], choice: Choice, taken: list[str]) -> list[str]:
    """The columns that may become features, in their order.

    Raises
    ------
    FedskewError
        A column to use or to leave out does not exist, or is the label or the party.
    """
    there = set(names)
    for what, wanted in (("feature", choice.features or ()), ("column to drop", choice.drop)):
        for name in wanted:
            if name not in there:
                raise FedskewError(f"{where}: has no {what} {name!r}; {choices(name, names)}")
            if name in taken:
                raise FedskewError(f"{where}: {name!r} is the label or the party; it can be neither used nor dropped")
    known, left_out = set(choice.features or names), {*taken, *choice.drop}
    return [name for name in names if name in known and name not in left_out]


def _column(where: str, names: list[str], what: str, name: str | None) -> str:
    if name is None:
        shown = ", ".join(repr(other) for other in names[:20])
        raise FedskewError(f"{where}: say which column is the {what} with --{what}. There are: {shown}")
    if name not in names:
        raise FedskewError(f"{where}: has no {what} column {name!r}; {choices(name, names)}")
    return name


def _gather_arrays(
    arrays: list[tuple[str | None, Arrays]], options: Options, choice: Choice, findings: tuple[Finding, ...]
) -> Gathered:
    first = arrays[0][1]
    ragged = all(data.ragged for _, data in arrays)
    shape = first.features.shape[1:]
    for _, data in arrays:
        if data.features.shape[1:] != shape and not ragged:
            raise FedskewError(
                f"{data.name}: its rows have the shape {data.features.shape[1:]}, those of {first.name} have {shape}"
            )
    named = arrays[0][0] is not None and options.party is None and all(data.party is None for _, data in arrays)
    silos = tuple(str(name) for name, _ in arrays) if named else _exact_names([data for _, data in arrays])
    parts = [data.party for _, data in arrays]
    party = None if any(part is None for part in parts) else np.concatenate([p for p in parts if p is not None])
    if named:
        party = np.repeat(np.array(silos), [len(data.labels) for _, data in arrays])
    features, padded = stack_rows([data.features for _, data in arrays], [data.name for _, data in arrays])
    labels = first.labels if len(arrays) == 1 else np.concatenate([data.labels for _, data in arrays])
    ready = first.modality == "image" and options.modality != "tabular"
    shaped = features if ready else shape_features(features, options.modality, first.name)
    names = array_names(shaped) if shaped.ndim == 2 else []
    if ragged:
        names = names if shaped[:, [0]].count_nonzero() else names[1:]  # counted from 1
        shaped = dense_if_full(shaped, first.name)
    by_member = choice.features is not None and choice.features[0] in first.members
    kept = choose_names(first.name, names, Choice(None if by_member else choice.features, choice.drop), [])
    test = None
    if len(arrays) == 1 and first.test is not None:
        test = _gather_arrays([(None, first.test)], options, choice, ())
    series = to_series(options.label or "y", labels)
    parties = None if party is None else to_series(options.party or "party", party)
    return Gathered(
        first.name, series, parties, tuple(kept), None, shaped, silos, (*findings, *padded), test=test,
        members=first.members, ragged=ragged,
    )  # fmt: skip


def _exact_names(arrays: list[Arrays]) -> tuple[str, ...]:
    """The parties that the files name exactly, of all files; none where a file names them by its rows only."""
    names = [data.silos for data in arrays]
    return tuple(dict.fromkeys(name for silos in names for name in silos)) if all(names) else ()


def array_names(matrix: Any) -> list[str]:
    """Names for the columns of a matrix that has none: x0, x1, …"""
    return [f"x{i}" for i in range(matrix.shape[1])]

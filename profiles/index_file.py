"""The index file of a partition: which rows of which source each party holds, and how that came about.

JSON (``.json``) or npz (``.npz``) by the name of the file. Row numbers count the rows of the source as read, from 0.
Paths are relative to the index file. Foreign index files are read too: JSON, npz or NIID-Bench's own text with row
numbers by party, the shape of its ``net_dataidx_map``.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.gathering import refuse_both
from fedskew.profiles.index_formats import FOREIGN, Index, from_json, from_npz
from fedskew.profiles.partitions import Finding, Partition, ordered_names
from fedskew.profiles.readers.base import check_file, check_memory
from fedskew.profiles.simulate import Plan, realise, resolve, rows_by_party, transformed
from fedskew.profiles.sources import SCHEMA, hash_of, is_index, open_source
from fedskew.profiles.strategies.base import Codes


def make_index(
    codes: Codes,
    names: tuple[str, ...],
    plan: Plan,
    seed: int,
    *,
    source: Sequence[str | Path] = (),
    reading: Mapping[str, Any] | None = None,
    data_hash: str = "",
) -> Index:
    """Put an assignment of rows to parties into an index.

    Parameters
    ----------
    codes : (N,) int32 party codes in the order of the source; negative for rows of no party
    names : party names
    plan, seed : what the partition was made with
    source, reading, data_hash : see :class:`Index`

    Examples
    --------
    >>> make_index(np.int32([1, 0, 1]), ("a", "b"), resolve("natural", {}), 42).parties
    {'a': [1], 'b': [0, 2]}
    """
    return Index(
        strategy=plan.name,
        parameters=dict(plan.values),
        seed=int(seed),
        source=tuple(str(path) for path in source),
        reading={name: value if isinstance(value, str) else list(value) for name, value in (reading or {}).items()},
        rows=len(codes),
        unassigned=int((codes < 0).sum()),
        data_hash=data_hash,
        parties={name: rows.tolist() for name, rows in rows_by_party(codes, names).items()},
    )


def write_index(index: Index, path: str | Path) -> None:
    """Write an index atomically: a reader sees the old file or the new one, never a part.

    Parameters
    ----------
    index : what to write
    path : ``.npz`` for numpy's format, else JSON

    Raises
    ------
    EnvironmentFaultError
        The folder is missing or cannot be written to, or the disk is full.
    """
    target = Path(path)
    if target.suffix.lower() == ".npz":
        head = msgspec.json.encode(msgspec.structs.replace(index, parties={name: [] for name in index.parties}))
        buffer = io.BytesIO()
        codes = codes_of(index.parties, index.rows, tuple(index.parties), str(path))
        np.savez_compressed(buffer, fedskew_index=np.frombuffer(head, np.uint8), party=codes)
        write_atomically(target, buffer.getvalue())
        return
    text = msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(index, parties={})), indent=2)
    encode = msgspec.json.encode
    lines = b",\n".join(b"    %b: %b" % (encode(name), encode(rows)) for name, rows in index.parties.items())
    write_atomically(target, text.removesuffix(b"{}\n}") + b"{\n" + lines + b"\n  }\n}\n")


def read_index(path: str | Path) -> Index:
    """Read an index file of ours, or row numbers by party as JSON, npz or NIID-Bench's text.

    Raises
    ------
    FedskewError
        The file is missing, or is no index file.
    """
    file = Path(path)
    check_memory(file, 12 * check_file(file))
    data = file.read_bytes()
    index = from_npz(file, data) if data[:2] == b"PK" else from_json(file, data)
    if index.schema != SCHEMA:
        raise FedskewError(f"{file}: is an index of version {index.schema!r}; this fedskew reads {SCHEMA!r}")
    held = sum(map(len, index.parties.values()))
    if index.strategy != FOREIGN and held + index.unassigned != index.rows:
        raise FedskewError(
            f"{file}: lists {held} of {index.rows - index.unassigned} rows; the file is damaged, write it again"
        )
    return index


def load_index(path: str | Path, *, source: Any = None, **reading: Any) -> Partition:
    """Read the source that an index file names, and give its rows to the parties.

    Parameters
    ----------
    path : the index file
    source : what to read instead of the recorded source; foreign index files record none
    reading : options of ``read_table`` that replace the recorded ones; columns to ``drop`` are added to those recorded

    Raises
    ------
    FedskewError
        The index is damaged, the source is missing, or its data changed since the index was written.
    """
    index = read_index(path)
    options = _options(index, path, reading)
    if source is None:
        source = [str(_beside(name, path)) for name in index.source]
        if not source:
            raise FedskewError(f"{path}: does not say where the data are; name them: load_index(path, source=...)")
        if index.data_hash and hash_of(source) != index.data_hash:
            raise FedskewError(
                f"{path}: the data in {', '.join(source)[:200]} changed since this index was written; "
                "partition them again, or restore the file"
            )
    opened = open_source(source[0] if isinstance(source, list) and len(source) == 1 else source, options)
    names = ordered_names(index.parties)
    codes = _codes(index, opened.rows, names, str(path))
    plan = _plan(index)
    return transformed(opened.partitioned(codes, names, simulated=plan.simulated), plan, index.seed)


def recorded_source(path: Path) -> tuple[Path, ...]:
    """The files that an index of ours names, so that nothing is written over them; none for any other file.

    Examples
    --------
    >>> recorded_source(Path("no/such/file.json"))
    ()
    """
    if path.suffix.lower() != ".json" or not is_index(path):
        return ()
    try:
        index = read_index(path)
    except FedskewError:
        return ()  # told where it is read
    test = index.reading.get("test")
    return tuple(_beside(name, path) for name in (*index.source, *([test] if isinstance(test, str) else [])))


def apply_index(index: Index, table: Partition, *, where: str = "the index") -> Partition:
    """Give the rows of a table that is already in memory to the parties of an index.

    Parameters
    ----------
    index : from :func:`read_index` or :func:`make_index`
    table : its rows in the order the index counts them
    where : how to name the index in errors

    Raises
    ------
    FedskewError
        The table has another number of rows than the index, or a row number is out of range or stands twice.

    Examples
    --------
    >>> from fedskew.profiles.partitions import make_partition
    >>> table = make_partition([[1.0], [2.0], [3.0]], ["x", "y", "x"], ["all"] * 3)
    >>> index = make_index(np.int32([1, 0, 1]), ("a", "b"), resolve("natural", {}), 42)
    >>> apply_index(index, table).features.ravel().tolist()
    [2.0, 1.0, 3.0]
    """
    names = ordered_names(index.parties)
    codes = _codes(index, table.rows, names, where)
    result = realise(table, _plan(index), index.seed, codes, names)
    missing = int((codes < 0).sum())
    if not missing:
        return result
    text = f"{missing} of {table.rows} rows belong to no party of the index and were left out"
    found = Finding(code="missing_party", severity="mild", text=text, count=missing)
    return replace(result, findings=(*result.findings, found))


def codes_of(
    parties: Mapping[str, Sequence[int] | NDArray[np.int64]], rows: int, names: tuple[str, ...], where: str
) -> Codes:
    """Party codes by row from row numbers by party; -1 for rows that no party holds.

    Raises
    ------
    FedskewError
        A row number is out of range or stands twice.

    Examples
    --------
    >>> codes_of({"a": [1], "b": [0, 2]}, 4, ("a", "b"), "toy").tolist()
    [1, 0, 1, -1]
    """
    try:
        held = [np.asarray(parties[name], dtype=np.int64) for name in names]
    except OverflowError:
        raise FedskewError(f"{where}: a row number is out of range; the source has rows 0 to {rows - 1}") from None
    every = np.concatenate([np.empty(0, np.int64), *held])
    wrong = every[(every < 0) | (every >= rows)]
    if wrong.size:
        raise FedskewError(f"{where}: row number {wrong[0]} is out of range; the source has rows 0 to {rows - 1}")
    twice = np.flatnonzero(np.bincount(every, minlength=rows) > 1)
    if twice.size:
        raise FedskewError(f"{where}: row {twice[0]} stands twice; each row belongs to one party at most")
    codes = np.full(rows, -1, dtype=np.int32)
    codes[every] = np.repeat(np.arange(len(names), dtype=np.int32), [len(part) for part in held])
    return codes


def relative_to_index(source: str | Path, index: str | Path) -> str:
    """The path of a source as an index file records it: relative to the folder of the index.

    Examples
    --------
    >>> relative_to_index("data/a.csv", "data/parts/index.json")
    '../a.csv'
    """
    return Path(os.path.relpath(Path(source).absolute(), Path(index).absolute().parent)).as_posix()


def _codes(index: Index, rows: int, names: tuple[str, ...], where: str) -> Codes:
    if index.rows and index.rows != rows:
        raise FedskewError(
            f"{where}: is about {index.rows} rows, but the source as read has {rows}; the data or the options "
            "they are read with changed"
        )
    codes = codes_of(index.parties, rows, names, where)
    if not len(codes) or codes.max() < 0:
        raise FedskewError(f"{where}: gives no row to any party; at least one is needed")
    return codes


def _plan(index: Index) -> Plan:
    if index.strategy == FOREIGN:
        return resolve("natural", {})
    return resolve(index.strategy, {name: value for name, value in index.parameters.items() if value is not None})


def _options(index: Index, path: str | Path, reading: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in reading.items() if value is not None and value not in ("", (), [])}
    if given.get("on_bad_row") == "error":  # the default; what counts is how the rows were counted
        del given["on_bad_row"]
    if given.get("party", index.reading.get("party")) != index.reading.get("party") and index.strategy != FOREIGN:
        raise FedskewError(f"{path}: an index file says which rows each party holds; leave out --party")
    options = dict(index.reading)
    test = options.get("test")
    if isinstance(test, str):
        options["test"] = str(_beside(test, path))
    if "drop" in given:  # what was left out when the index was written stays out
        recorded = options.get("drop") or ()
        given["drop"] = tuple(dict.fromkeys([*_names(recorded), *_names(given["drop"])]))
    if "features" in given:  # those recorded may be fewer by what is dropped now
        refuse_both(given["features"], options.get("drop"), f"what {path} leaves out")
    return options | given


def _names(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _beside(name: str, index: str | Path) -> Path:
    return Path(os.path.normpath(Path(index).parent / name))

"""The index file of a partition: which rows of which source each party holds, and how that came about.

JSON (``.json``) or npz (``.npz``) by the name of the file. Row numbers count the rows of the source as read, from 0.
Paths are relative to the index file. Foreign index files are read too: JSON, npz or NIID-Bench's own text with row
numbers by party, the shape of its ``net_dataidx_map``.
"""

import io
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Finding, Partition, ordered_names
from fedskew.profiles.readers.base import check_file, check_memory
from fedskew.profiles.simulate import Plan, realise, resolve, rows_by_party, transformed
from fedskew.profiles.sources import hash_of, open_source
from fedskew.profiles.strategies.base import Codes

SCHEMA = "fedskew-index/1"
FOREIGN = "net_dataidx_map"
"""The strategy of an index file that is not ours: row numbers by party and nothing else."""
_FOREIGN_TEXT = re.compile(rb"\s*\"?([^\":{}\[\]]+?)\"?\s*:\s*\[([\d,\s]*)\]\s*,?")


class Index(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition by row numbers.

    Parameters
    ----------
    strategy, parameters, seed : what made the partition; ``parameters`` hold every value, defaults too
    source : paths of the data, relative to the index file; empty where the data are not files
    reading : the options of ``read_table`` the data were read with
    rows : rows of the source as read, those without a label included
    unassigned : rows that belong to no party, because they have no label or no party name
    data_hash : SHA-256 of the bytes of the source; empty where it is not known
    parties : ascending row numbers by party name
    """

    schema: str = SCHEMA
    strategy: str
    parameters: dict[str, Any]
    seed: int
    source: tuple[str, ...]
    reading: dict[str, Any]
    rows: int
    unassigned: int
    data_hash: str
    parties: dict[str, list[int]]


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
        reading=dict(reading or {}),
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
    index = _from_npz(file, data) if data[:2] == b"PK" else _from_json(file, data)
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
    reading : options of ``read_table`` that replace the recorded ones, such as ``drop``

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
    return transformed(opened.partitioned(codes, names), _plan(index), index.seed)


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
    held = [np.asarray(parties[name], dtype=np.int64) for name in names]
    every = np.concatenate([np.empty(0, np.int64), *held])
    wrong = every[(every < 0) | (every >= rows)]
    if wrong.size:
        raise FedskewError(f"{where}: row number {wrong[0]} is out of range; the source has rows 0 to {rows - 1}")
    twice = np.flatnonzero(np.bincount(every, minlength=rows) > 1)
    if twice.size:
        raise FedskewError(f"{where}: row {twice[0]} stands {len(twice)} times or more in all; each row belongs once")
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
    if options.get("test") is not None:
        options["test"] = str(_beside(options["test"], path))
    return options | given


def _beside(name: str, index: str | Path) -> Path:
    return Path(os.path.normpath(Path(index).parent / name))


def _from_npz(file: Path, data: bytes) -> Index:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_memory(file, 3 * sum(entry.file_size for entry in archive.infolist()))
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            members = {name: np.asarray(archive[name]) for name in archive.files}
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, KeyError) as fault:
        raise FedskewError(f"{file}: cannot be read as npz ({fault!s:.100}); is it cut or of another format?") from None
    for name, member in members.items():
        if member.ndim != 1 or member.dtype.kind not in "iu":
            raise FedskewError(f"{file}: member {name!r} is no list of row numbers; an index holds one for each party")
    if "fedskew_index" not in members:
        return _foreign({name: member.tolist() for name, member in members.items()})
    index = _decode(file, members["fedskew_index"].astype(np.uint8).tobytes())
    codes, names = members.get("party", np.empty(0, np.int32)), tuple(index.parties)
    if len(codes) != index.rows or (len(codes) and codes.max() >= len(names)):
        raise FedskewError(f"{file}: its member 'party' does not fit its header; the file is damaged")
    held = {name: rows.tolist() for name, rows in rows_by_party(codes.astype(np.int32), names).items()}
    return msgspec.structs.replace(index, parties=held)


def _from_json(file: Path, data: bytes) -> Index:
    if b'"schema"' in data[:1000]:
        return _decode(file, data)
    # JSON of row numbers by party, or NIID-Bench's text, which is the same but for quotes and a last comma.
    inner = data.strip()
    parties: dict[str, list[int]] = {}
    place = 1
    while inner[:1] == b"{" and (match := _FOREIGN_TEXT.match(inner, place)):
        name = match[1].decode("utf-8", "replace")
        if name in parties:
            raise FedskewError(f"{file}: names the party {name!r} twice")
        parties[name] = [int(number) for number in match[2].replace(b",", b" ").split()]
        place = match.end()
    if not parties or inner[place:].strip() != b"}":
        raise FedskewError(f'{file}: is no index file; expected one of fedskew, or {{"party": [row, ...]}}')
    return _foreign(parties)


def _decode(file: Path, data: bytes) -> Index:
    try:
        return msgspec.json.decode(data, type=Index)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise FedskewError(f"{file}: is no index file of fedskew ({fault!s:.150}); write it again") from None


def _foreign(parties: dict[str, list[int]]) -> Index:
    return Index(
        strategy=FOREIGN,
        parameters={},
        seed=0,
        source=(),
        reading={},
        rows=0,
        unassigned=0,
        data_hash="",
        parties=parties,
    )

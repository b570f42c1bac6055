"""The record of an index file and the spellings it is read from."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import check_memory
from fedskew.profiles.simulate import rows_by_party
from fedskew.profiles.sources import SCHEMA
from fedskew.profiles.written import kind_of, without_rows

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
    reading: dict[str, str | list[str] | None]
    rows: int
    unassigned: int
    data_hash: str
    parties: dict[str, list[int]]


def from_npz(file: Path, data: bytes) -> Index:
    """Read an index of ours in npz, or row numbers by party, one member each; FedskewError where it is neither."""
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


def from_json(file: Path, data: bytes) -> Index:
    """Read an index of ours in JSON, row numbers by party, or NIID-Bench's text; FedskewError where it is none."""
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
        numbers = match[2].replace(b",", b" ").split()
        if any(len(number) > 18 for number in numbers):
            raise FedskewError(f"{file}: party {name!r} holds a row number of more than 18 digits; rows count from 0")
        parties[name] = [int(number) for number in numbers]
        place = match.end()
    if not parties or inner[place:].strip() != b"}":
        raise _told(file, data, f'{file}: is no index file; expected one of fedskew, or {{"party": [row, ...]}}')
    return _foreign(parties)


def _decode(file: Path, data: bytes) -> Index:
    try:
        return msgspec.json.decode(data, type=Index)
    except (msgspec.DecodeError, RecursionError) as fault:
        text = f"{file}: is no index file of fedskew ({fault!s:.150}); write it again"
        raise _told(file, data, text) from None


def _told(file: Path, data: bytes, text: str) -> FedskewError:
    """The error for a file that is no index: what it is where fedskew wrote it, else the given text."""
    kind = kind_of(data)
    if kind is None or kind.startswith("an index"):
        return FedskewError(text)
    return FedskewError(f"{file}: is {without_rows(kind)}")


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

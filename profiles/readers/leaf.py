"""LEAF's JSON (FEMNIST): each user is a party; folders ``train`` and ``test`` of several files."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import Arrays, Options, Reader, check_file, check_memory, refuse_columns

_BEGIN = re.compile(rb'\s*\{\s*"(users|num_samples|user_data|hierarchies)"\s*:')
_DATA = re.compile(rb'"user_data"\s*:\s*\{')
SIDE = 28
"""FEMNIST: rows of 784 numbers are images of 28 x 28."""


class _File(msgspec.Struct):
    users: list[str]
    user_data: dict[str, msgspec.Raw]
    num_samples: list[int] | None = None


class _User(msgspec.Struct):
    x: list[list[float] | float]
    y: list[int | float | str]


def is_leaf(path: Path) -> bool:
    """Whether a JSON file begins as LEAF's do and has a ``user_data`` object."""
    try:
        with path.open("rb") as file:
            begin = file.read(1 << 12)
            if not _BEGIN.match(begin):
                return False
            while begin:
                if _DATA.search(begin):
                    return True
                piece = file.read(1 << 20)
                begin = begin[-40:] + piece if piece else b""
    except OSError:
        pass
    return False


def holds_leaf(folder: Path) -> bool:
    """Whether a folder holds LEAF's files, or a folder ``train`` of them."""
    return bool(_files(folder) or _files(folder / "train"))


def read_leaf(path: Path, options: Options) -> Arrays:
    """Read one file or a folder of them; with ``train`` also ``test`` beside it, as the test part.

    Rows are in the order of the files' names, and in each file of its users. A user without rows is a party too.

    Parameters
    ----------
    path : a ``.json`` file, a folder of them, or the folder that holds ``train`` and ``test``
    options : ``label`` and ``party`` must not be given, since the files name both

    Raises
    ------
    FedskewError
        A file is cut or not of this form, the users and their data differ, rows differ in length, or rows are texts
        or file names (Shakespeare, Sent140, CelebA) instead of numbers.
    EnvironmentFaultError
        Memory cannot hold it.
    """
    refuse_columns(path, options, "LEAF's files hold x and y of each user, who is the party")
    folders = path.is_dir() and not _files(path)
    main = path / "train" if folders else path
    test = path / "test" if folders else None
    found = _read(_files(main) if main.is_dir() else [main], str(path), options)
    if test is None or not options.party_required or not _files(test):
        return found
    held_out = _read(_files(test), str(test), options)
    return Arrays(found.name, found.features, found.labels, found.party, held_out, silos=found.silos)


def _files(folder: Path) -> list[Path]:
    try:
        held = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".json")
    except OSError:
        return []
    return [path for path in held if path.name[0] not in "._" and is_leaf(path)]


def _read(files: Sequence[Path], where: str, options: Options) -> Arrays:
    check_memory(files[0], sum(map(check_file, files)))
    features: list[NDArray[np.float32]] = []
    labels: list[int | float | str] = []
    owners: list[str] = []
    names: dict[str, None] = {}
    width = 0
    for path in files:
        file = _decoded(path, path.read_bytes(), _File, "")
        _check_users(path, file)
        for position, user in enumerate(file.users):
            names[user] = None
            rows = _rows(path, user, file.user_data[user], None if not file.num_samples else file.num_samples[position])
            if not rows.y:
                continue
            block = _matrix(path, user, rows, width)
            width = block.shape[1]
            features.append(block)
            labels += rows.y
            owners += [user] * len(rows.y)
    if not features:
        raise FedskewError(f"{where}: none of its {len(names)} users has a row")
    matrix: NDArray[np.float32] = np.concatenate(features)
    if width == SIDE**2 and options.modality != "tabular":
        matrix = matrix.reshape(-1, SIDE, SIDE)
    classes = np.array(labels if len({type(label) for label in labels}) == 1 else [str(label) for label in labels])
    return Arrays(where, matrix, classes, np.array(owners), silos=tuple(names))


def _check_users(path: Path, file: _File) -> None:
    if len(set(file.users)) < len(file.users):
        twice = next(user for i, user in enumerate(file.users) if user in file.users[:i])
        raise FedskewError(f"{path}: names the user {twice!r} twice")
    if odd := set(file.users) ^ file.user_data.keys():
        name = min(odd)
        what = "has no data" if name in file.users else "has data and is not among its users"
        raise FedskewError(f"{path}: user {name!r} {what}; the file is damaged")
    if file.num_samples and len(file.num_samples) != len(file.users):
        raise FedskewError(f"{path}: has {len(file.users)} users and {len(file.num_samples)} num_samples")


def _rows(path: Path, user: str, raw: msgspec.Raw, declared: int | None) -> _User:
    rows: _User = _decoded(path, raw, _User, f"user {user!r}: ")
    if len(rows.x) != len(rows.y) or declared not in {None, len(rows.y)}:
        listed = "" if declared is None else f", and num_samples says {declared}"
        raise FedskewError(f"{path}: user {user!r} has {len(rows.x)} rows x and {len(rows.y)} labels y{listed}")
    return rows


def _matrix(path: Path, user: str, rows: _User, width: int) -> NDArray[np.float32]:
    """Rows of one user, (n, F); a row that is one number has one feature."""
    lists = [row if isinstance(row, list) else [row] for row in rows.x]
    width = width or len(lists[0])
    for number, row in enumerate(lists):
        if len(row) != width or not width:
            raise FedskewError(f"{path}: user {user!r}, row {number}: has {len(row)} numbers; all others have {width}")
    with np.errstate(over="ignore"):
        return np.array(lists, np.float64).astype(np.float32)


def _decoded(path: Path, data: bytes | msgspec.Raw, kind: Any, where: str) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        text = str(fault)
        hint = "; only rows of numbers are read, no texts or file names" if "$.x" in text and "`str`" in text else ""
        raise FedskewError(f"{path}: {where}is no LEAF file ({text:.120}){hint}") from None


LEAF = Reader("LEAF JSON", (), read_leaf, claims=is_leaf, folder=holds_leaf)

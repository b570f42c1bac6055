"""Numpy archives: sizes are read from the headers before anything is unpacked, and objects are never unpickled."""

import math
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.readers.base import Arrays, Options, Reader, check_file, check_memory

RATIO, FREE = 200, 100_000_000  # a member that unpacks to over 100 MB must not be packed tighter than 200 : 1
FEATURES, LABELS, PARTIES = ("x", "x_train"), ("y", "y_train"), ("party", "party_train")
CLASSES = ("classes", "class_names")

BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, KeyError, NotImplementedError, RuntimeError)
"""What reading a damaged archive raises."""

Get = Callable[[str], NDArray[Any]]


def read_npz(path: Path, options: Options) -> Arrays:
    """Read an npz: ``x``, ``y`` and perhaps ``party``, or ``X_train``, ``y_train``, ``X_test``, ``y_test``, any case.

    ``options.label``, ``party`` and ``features`` name other members; the twin that ends in ``_test`` is found too. A
    text member ``classes`` names integer labels.

    Raises
    ------
    FedskewError
        Not an archive, a member that is missing, holds objects or text where numbers are needed, or unpacks to far
        more bytes than it has.
    """
    size = check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {name.removesuffix(".npy"): _declared(path, archive, name, size) for name in archive.namelist()}
        with np.load(path, allow_pickle=False) as archive:
            return pick_members(str(path), tuple(shapes), lambda name: np.asarray(archive[name]), options)
    except FedskewError:
        raise
    except BROKEN as fault:
        raise FedskewError(f"{path}: cannot be read as npz ({fault!s:.120}); is it cut or of another format?") from None


def _declared(path: Path, archive: zipfile.ZipFile, name: str, size: int) -> tuple[int, ...]:
    """The shape a member declares, once its header agrees with the archive and both with the memory there is."""
    entry = archive.getinfo(name)
    if not name.endswith(".npy"):
        raise FedskewError(f"{path}: member {name!r} is not an array; an npz holds .npy members only")
    with archive.open(entry) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
        start = member.tell()
    what = f"{path}: member {name.removesuffix('.npy')!r}"
    if dtype.hasobject:
        raise FedskewError(f"{what} holds Python objects, which are never loaded; save it as numbers or text")
    needed = math.prod(shape) * dtype.itemsize
    if needed + start != entry.file_size:
        raise FedskewError(f"{what} declares {needed} bytes and holds {entry.file_size - start}; the file is damaged")
    if needed > FREE and needed > RATIO * min(entry.compress_size, size):
        raise FedskewError(f"{what} unpacks to {needed} bytes, over {RATIO} times its size; save it with numpy.savez")
    check_memory(path, 3 * needed)
    return tuple(int(length) for length in shape)


def member_names(path: Path) -> tuple[str, ...]:
    """The members of an archive; none where it is damaged, which :func:`read_npz` then tells."""
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(name.removesuffix(".npy") for name in archive.namelist())
    except BROKEN:
        return ()


def pick_members(where: str, members: tuple[str, ...], get: Get, options: Options) -> Arrays:
    """Choose features, labels and party among named arrays, those for training and their twins for testing."""
    named = options.features[0] if options.features and options.features[0] in members else None
    x = named or _usual(members, FEATURES)
    if x is None:
        raise FedskewError(f"{where}: has no features 'x' or 'X_train'; name them with --features. {_there(members)}")
    y = _named(where, members, "label", options.label) or _usual(members, LABELS)
    if y is None:
        raise FedskewError(f"{where}: has no labels 'y' or 'y_train'; name them with --label. {_there(members)}")
    if x == y:
        raise FedskewError(f"{where}: {x!r} is the label and cannot be the features too. {_there(members)}")
    asked = options.party if options.party_required or {options.party, f"{options.party}_train"} & {*members} else None
    party = _named(where, members, "party", asked) or _usual(members, PARTIES)
    classes = _usual(members, CLASSES)
    names = get(classes) if classes is not None else None
    train = _arrays(where, (x, y, party), get, names, members)
    twin_x, twin_y = _twin(members, x), _twin(members, y)
    if twin_x is None or twin_y is None or twin_x == x:
        return train
    twin_party = _twin(members, party) if party else None
    test = _arrays(where, (twin_x, twin_y, twin_party), get, names, members)
    return Arrays(train.name, train.features, train.labels, train.party, test, members)


def _arrays(
    where: str, names: tuple[str, str, str | None], get: Get, classes: NDArray[Any] | None, members: tuple[str, ...]
) -> Arrays:
    x, y, party = names
    features, labels = get(x), _flat(get(y))
    if features.dtype.kind not in "biuf":
        raise FedskewError(f"{where}: features {x!r} are of type {features.dtype}; they must be numbers")
    if features.ndim == 0:
        raise FedskewError(f"{where}: features {x!r} are a single number; they must have one row for each label")
    parties = None if party is None else _flat(get(party))
    for name, array in ((y, labels), (party, parties)):
        n = features.shape[0]
        if array is not None and array.shape != (n,):
            raise FedskewError(f"{where}: {name!r} has shape {array.shape}; {x!r} has {n} rows, so it must be ({n},)")
    return Arrays(where, features, _with_names(labels, classes), parties, None, members)


def _flat(names: NDArray[Any]) -> NDArray[Any]:
    """One column as a row of names, bytes as text."""
    if names.ndim == 2 and names.shape[1] == 1:
        names = names[:, 0]
    return np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names


def _with_names(labels: NDArray[Any], classes: NDArray[Any] | None) -> NDArray[Any]:
    """Labels by the names in ``classes`` where they are codes into it."""
    if classes is None or classes.ndim != 1 or classes.dtype.kind != "U" or labels.dtype.kind not in "iu":
        return labels
    fits = len(labels) and labels.min() >= 0 and labels.max() < len(classes) == len(np.unique(classes))
    return classes[labels] if fits else labels


def _usual(members: tuple[str, ...], usual: tuple[str, ...]) -> str | None:
    return next((name for want in usual for name in members if name.lower() == want), None)


def _named(where: str, members: tuple[str, ...], what: str, name: str | None) -> str | None:
    if name is None:
        return None
    for candidate in (name, f"{name}_train"):
        if candidate in members:
            return candidate
    raise FedskewError(f"{where}: has no {what} {name!r}; {choices(name, members)}")


def _twin(members: tuple[str, ...], name: str) -> str | None:
    """The member that holds the same for the held-out rows."""
    stem = name[: -len("_train")] if name.lower().endswith("_train") else name
    return next((other for other in members if other.lower() == f"{stem}_test".lower()), None)


def _there(members: tuple[str, ...]) -> str:
    return "Members are: " + ", ".join(repr(name) for name in members[:20])


NPZ = Reader("numpy archive", (".npz",), read_npz)

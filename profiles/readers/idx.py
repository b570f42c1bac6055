"""MNIST's idx files, plain or packed: images and labels in two files, the test part beside them in two more."""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import Arrays, Options, Reader, check_file, check_memory, refuse_columns
from fedskew.profiles.readers.packed import check_ratio, head, magic, read_exactly, unpacked

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MOST_AXES = 4
_NAME = re.compile(r"(?P<before>.*?)(?P<what>images|labels)[-._]idx\d[-._]ubyte(?:\.(?:gz|bz2|xz))?", re.IGNORECASE)
TRAIN, TEST = ("train",), ("t10k", "test")


class _Name(NamedTuple):
    """What the name of a file says: everything before ``images`` or ``labels``, and which of the two it is."""

    before: str
    what: str


def is_idx(path: Path) -> bool:
    """Whether a file begins like an idx file of one to four axes."""
    begin = head(path, 4)
    return len(begin) == 4 and begin[:2] == b"\0\0" and begin[2] in TYPES and 1 <= begin[3] <= MOST_AXES


def holds_idx(folder: Path) -> bool:
    """Whether a folder holds images by the names of idx files."""
    return bool(_pairs(folder))


def read_idx(path: Path, options: Options) -> Arrays:
    """Read images with their labels; with a name of ``train`` also ``t10k`` or ``test`` beside it, as the test part.

    Parameters
    ----------
    path : the file of images (or of labels: the other is found by its name), or the folder of all
    options : ``label`` and ``party`` must not be given, since the files have no columns

    Raises
    ------
    FedskewError
        A file is cut, longer than it declares or of another format, the other file is missing, their numbers of rows
        differ, or the folder holds several data sets.
    EnvironmentFaultError
        Memory cannot hold what a header declares.
    """
    refuse_columns(path, options, "idx files hold images and labels only")
    if path.is_dir():
        path = _choose(path)
    images, labels = parts_of(path)
    test = _test_part(images) if options.party_required else None
    return _read_pair(images, labels, test)


def read_array(path: Path) -> NDArray[Any]:
    """Read the array of one idx file; its header is believed only where the size of the file bears it out.

    Raises
    ------
    FedskewError, EnvironmentFaultError
        As :func:`read_idx`.
    """
    size = check_file(path)
    if not is_idx(path):
        raise FedskewError(f"{path}: is not an idx file: it does not begin with 0, 0, a type and a number of axes")
    with unpacked(path) as stream:
        begin = read_exactly(path, stream, 4)
        shape = tuple(np.frombuffer(read_exactly(path, stream, 4 * begin[3]), ">u4").tolist())
        kind = np.dtype(TYPES[begin[2]])
        needed = math.prod(shape) * kind.itemsize
        _check_size(path, needed, size, shape)
        data = read_exactly(path, stream, needed)
        if stream.read(1):
            raise FedskewError(f"{path}: is longer than the {shape} values that it declares; the file is damaged")
    return np.frombuffer(data, kind).reshape(shape).astype(kind.newbyteorder("="), copy=False)


def _check_size(path: Path, needed: int, size: int, shape: tuple[int, ...]) -> None:
    if magic(path) is None and needed > size:
        raise FedskewError(
            f"{path}: declares {shape} values, {needed} bytes, and has {size}; the file is cut or damaged"
        )
    check_ratio(path, needed, size)
    check_memory(path, 3 * needed)


def parts_of(path: Path) -> tuple[Path, Path]:
    """The files of images and of labels, given either.

    Raises
    ------
    FedskewError
        The other file is missing, or the name does not tell which of both this is.
    """
    name = _name(path)
    if name is None:
        raise FedskewError(
            f"{path}: its name must tell what it holds, such as train-images-idx3-ubyte and train-labels-idx1-ubyte"
        )
    other = "labels" if name.what == "images" else "images"
    beside = _find(path.parent, name.before, other)
    if beside is None:
        raise FedskewError(f"{path}: its {other}, {name.before}{other}-idx…-ubyte, must lie beside it and do not")
    return (path, beside) if name.what == "images" else (beside, path)


def _parts(path: Path) -> tuple[Path, ...]:
    try:
        return parts_of(path)
    except FedskewError:  # told when the file is read
        return (path,)


def _read_pair(images: Path, labels: Path, test: Path | None) -> Arrays:
    features, codes = read_array(images), read_array(labels)
    if codes.ndim != 1:
        raise FedskewError(f"{labels}: labels have the shape {codes.shape}; one a row is needed")
    if features.ndim == 1 or len(features) != len(codes):
        raise FedskewError(f"{images}: has the shape {features.shape}, and {labels} has {len(codes)} labels")
    held_out = None if test is None else _read_pair(test, parts_of(test)[1], None)
    return Arrays(str(images), features, codes, test=held_out)


def _name(path: Path) -> _Name | None:
    found = _NAME.fullmatch(path.name)
    return None if found is None else _Name(found["before"], found["what"].lower())


def _find(folder: Path, before: str, what: str) -> Path | None:
    """The file of this name, unpacked before packed; as given where the folder cannot be listed."""
    try:
        held = sorted(folder.iterdir())
    except OSError:
        return None
    return next((path for path in held if _name(path) == (before, what)), None)


def _pairs(folder: Path) -> list[Path]:
    """The files of images in a folder, one for each name, packed or not."""
    try:
        held = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
    named = {name.before: path for path in reversed(held) if (name := _name(path)) and name.what == "images"}
    return sorted(named.values())


def _choose(folder: Path) -> Path:
    """The images to train on."""
    every = _pairs(folder)
    train = [path for path in every if not any(word in path.name.lower() for word in TEST)]
    if len(train) == 1:
        return train[0]
    if not train:
        raise FedskewError(f"{folder}: holds test images only ({every[0].name}); name the file to read it alone")
    shown = ", ".join(path.name for path in train[:5])
    raise FedskewError(f"{folder}: holds several data sets ({shown}); name the file of images to read")


def _test_part(images: Path) -> Path | None:
    """The images of the test part beside those of the training part."""
    name = _name(images)
    assert name is not None
    for train in TRAIN:
        stem, word, rest = name.before.rpartition(train)
        found = [_find(images.parent, f"{stem}{other}{rest}", "images") for other in TEST] if word else []
        if any(found):
            return next(path for path in found if path is not None)
    return None


IDX = Reader("idx (MNIST)", (), read_idx, claims=is_idx, folder=holds_idx, parts=_parts)

"""MATLAB's level 5 files as far as arrays of numbers go; every length is checked before it is believed.

scipy's reader is not used, since some damaged files make it crash the interpreter.
"""

import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import check_file, check_memory
from fedskew.profiles.readers.packed import check_ratio

MATRIX, PACKED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Types of data elements; numbers are often stored in a smaller type than that of their array."""
CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
OTHERS = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "opaque"}
COMPLEX = 0x08
HEAD = 1 << 12
"""Bytes that hold the flags, the shape and the name of an array."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An array: its class, shape and name, where its data element begins, and how long the whole is, in bytes."""

    kind: int
    shape: tuple[int, ...]
    name: str
    data: int
    length: int


class CutError(Exception):
    """Bytes are missing, or say what cannot be."""


def read_arrays(path: Path, wanted: tuple[str, ...]) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """The wanted arrays of numbers of a file, and the names of all that were met until all wanted were found.

    Raises
    ------
    FedskewError
        The file is of another format or version, cut or damaged, or a wanted array does not hold real numbers.
    EnvironmentFaultError
        Memory cannot hold what an array declares.
    """
    size = check_file(path)
    found: dict[str, NDArray[Any]] = {}
    names: list[str] = []
    with path.open("rb") as file:
        order = _order(path, file.read(128))
        try:
            while file.tell() < size and not found.keys() >= {*wanted}:
                kind, length = _tag(_take(file.read(8), 0, 8), order)
                end = file.tell() + length
                if end > size:
                    raise CutError(f"an element ends {end - size} bytes after the file")
                if kind in {MATRIX, PACKED}:
                    array = _array(path, file, (kind, length), order, wanted, names)
                    found |= {} if array is None else {names[-1]: array}
                file.seek(end)
        except (CutError, zlib.error) as fault:
            raise FedskewError(f"{path}: cannot be read as a MATLAB file ({fault!s:.100}); is it cut?") from None
    return found, tuple(names)


def _order(path: Path, header: bytes) -> str:
    """Byte order of the numbers in a file of level 5."""
    if b"MATLAB 7.3" in header[:20] or header[:4] == b"\x89HDF":
        raise FedskewError(f"{path}: is of version 7.3; save it again with save -v7")
    order = {b"IM": "<", b"MI": ">"}.get(header[126:128])
    if order is None:
        raise FedskewError(f"{path}: cannot be read as a MATLAB file (no header of level 5); save it with save -v7")
    return order


def _array(
    path: Path, file: IO[bytes], tag: tuple[int, int], order: str, wanted: tuple[str, ...], names: list[str]
) -> NDArray[Any] | None:
    """The array that begins here, if it is a wanted one; its name is added to the names."""
    kind, length = tag
    if kind == MATRIX:
        head = file.read(min(length, HEAD))
        variable = _variable(head, order, length)
    else:
        machine, packed = zlib.decompressobj(), file.read(length)
        head = machine.decompress(packed, HEAD)
        inner, declared = _tag(_take(head, 0, 8), order)
        if inner != MATRIX:
            return None
        variable, head = _variable(head[8:], order, declared), head[8:]
    names.append(variable.name)
    if variable.name not in wanted:
        return None
    if variable.kind not in CLASSES:
        what = OTHERS.get(variable.kind & 0xFF, "complex" if variable.kind > 0xFF else f"number {variable.kind}")
        raise FedskewError(f"{path}: {variable.name!r} is of class {what}; real numbers are needed")
    if math.prod(variable.shape) > variable.length:
        raise CutError(f"{variable.name!r} of shape {variable.shape} holds {variable.length} bytes")
    check_ratio(path, variable.length, length)
    check_memory(path, 4 * max(variable.length, math.prod(variable.shape) * np.dtype(CLASSES[variable.kind]).itemsize))
    missing = variable.length - len(head)
    if missing > 0:
        head += file.read(missing) if kind == MATRIX else machine.decompress(machine.unconsumed_tail, missing)
    return _numbers(head[: variable.length], variable, order)


def _variable(head: bytes, order: str, length: int) -> Variable:
    """Flags, shape and name of an array."""
    parts, at = [], 0
    for _ in range(3):
        part, at, _ = _element(head, at, order)
        parts.append(part)
    flags, shape, name = parts
    if len(flags) != 8 or len(shape) % 4 or not 8 <= len(shape) <= 128:
        raise CutError("an array without a sound shape")
    word = int(np.frombuffer(flags, f"{order}u4")[0])
    lengths = np.frombuffer(shape, f"{order}i4").tolist()
    if min(lengths) < 0:
        raise CutError("an array without a sound shape")
    kind = word & 0xFF if not (word >> 8) & COMPLEX else word & 0x8FF
    text = name.decode("latin1")
    if not text.isprintable():
        raise CutError("an array without a sound name")
    return Variable(kind, tuple(lengths), text, at, length)


def _numbers(data: bytes, variable: Variable, order: str) -> NDArray[Any]:
    raw, _, kind = _element(data, variable.data, order)
    if kind not in STORED:
        raise CutError(f"data of {variable.name!r} of type {kind}")
    stored = np.dtype(f"{order}{STORED[kind]}")
    if len(raw) != math.prod(variable.shape) * stored.itemsize:
        raise CutError(f"{variable.name!r} of shape {variable.shape} holds {len(raw)} bytes")
    values = np.frombuffer(raw, stored).reshape(variable.shape, order="F")
    with np.errstate(invalid="ignore"):
        return values.astype(CLASSES[variable.kind], copy=False)


def _element(data: bytes, at: int, order: str) -> tuple[bytes, int, int]:
    """The bytes of one element, where the next begins, and its type; up to four bytes stand within the tag."""
    first = int(np.frombuffer(_take(data, at, 4), f"{order}u4")[0])
    if first >> 16:
        return _take(data, at + 4, min(first >> 16, 4)), at + 8, first & 0xFFFF
    kind, length = _tag(_take(data, at, 8), order)
    return _take(data, at + 8, length), at + 8 + length + -length % 8, kind


def _tag(data: bytes, order: str) -> tuple[int, int]:
    kind, length = np.frombuffer(data, f"{order}u4").tolist()
    return kind, length


def _take(data: bytes, at: int, count: int) -> bytes:
    if at + count > len(data):
        raise CutError(f"{at + count - len(data)} bytes are missing")
    return data[at : at + count]

"""Plain values out of a pickle without unpickling: a small machine that knows data and numpy arrays, and nothing else.

It imports nothing and calls nothing: the few names that arrays are written with are recognised as texts.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {"u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "b1"}
_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
NAMES = {
    **{(module, "_reconstruct"): "array" for module in _MULTIARRAY},
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",
}
"""The names that may occur; any other is an error."""
_MARK = object()
MOST_AXES = 8


class BadPickleError(Exception):
    """Not a pickle, cut, or more than plain values in it."""


@dataclass(slots=True)
class _Named:
    """A name that occurred, and for an array or its type what is known of it so far."""

    kind: str
    dtype: str = ""
    array: NDArray[Any] | None = None


def plain_values(data: bytes) -> Any:
    """The value of a pickle of dicts, lists, tuples, texts, bytes, numbers and numpy arrays of numbers.

    Raises
    ------
    BadPickleError
        It is cut, or holds anything else; the message says what and at which byte.

    Examples
    --------
    >>> plain_values(bytes([128, 2, 125, 85, 1, 97, 75, 7, 115, 46]))  # {"a": 7}, as Python 2 wrote it
    {b'a': 7}
    """
    machine = _Machine(data)
    try:
        return machine.run()
    except (LookupError, TypeError, ValueError, struct.error, OverflowError, AttributeError) as fault:
        raise BadPickleError(f"damaged at byte {machine.at}: {type(fault).__name__}") from None


class _Machine:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            start = self.at
            code = self.take(1)
            if code == b".":
                (value,) = self.stack
                return _finished(value)
            act = _CODES.get(code)
            if act is None:
                raise BadPickleError(f"opcode {code!r} at byte {start} is not one of plain values")
            act(self)

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise BadPickleError(f"cut at byte {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        return self.take(end + 1 - self.at)[:-1].decode("ascii")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise BadPickleError(f"damaged at byte {self.at}: no mark")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def tuple_of(self, count: int) -> None:
        items = tuple(self.stack.pop() for _ in range(count))
        self.push(items[::-1])

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise BadPickleError(f"damaged at byte {self.at}: no list")
        self.stack[-1].extend(items)

    def fill(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise BadPickleError(f"damaged at byte {self.at}: no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes | int):
                raise BadPickleError(f"a key of a dict at byte {self.at} is no text")
            target[key] = value

    def name(self, module: str, name: str) -> None:
        kind = NAMES.get((module, name))
        if kind is None:
            raise BadPickleError(f"it names {f'{module}.{name}'[:60]!r}, and code is never run")
        self.push(_Named(kind))

    def call(self) -> None:
        """Stand in for REDUCE: an empty array, an array type, or bytes that Python 3 wrote as a text."""
        given, function = self.stack.pop(), self.stack.pop()
        kind = function.kind if isinstance(function, _Named) and function.array is None else ""
        if kind == "array" and isinstance(given[0], _Named) and given[0].kind == "ndarray":
            self.push(_Named("values"))
        elif kind == "dtype" and isinstance(given[0], str | bytes):
            text = given[0] if isinstance(given[0], str) else given[0].decode("ascii")
            if text not in KINDS:
                raise BadPickleError(f"holds an array of type {text[:20]!r}; only numbers are read")
            self.push(_Named("type", dtype=text))
        elif kind == "encode" and isinstance(given[0], str) and len(given) == 2 and _is_latin(given[1]):
            self.push(given[0].encode("latin1"))
        else:
            raise BadPickleError(f"a call at byte {self.at}; code is never run")

    def build(self) -> None:
        """Stand in for BUILD: the byte order of a type, or the shape and bytes of an array."""
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, _Named) or not isinstance(state, tuple) or target.kind not in {"type", "values"}:
            raise BadPickleError(f"an object at byte {self.at}; only plain values are read")
        if target.kind == "type":
            order = state[1] if isinstance(state[1], str) else state[1].decode("ascii")
            target.dtype = {"<": "<", ">": ">", "|": "|", "=": "="}[order] + target.dtype.lstrip("<>|=")
            return
        _, shape, kind, fortran, raw = state
        if not isinstance(kind, _Named) or kind.kind != "type" or not isinstance(raw, bytes):
            raise BadPickleError(f"an array at byte {self.at} that is not one of numbers")
        dtype = np.dtype(kind.dtype)
        if len(shape) > MOST_AXES or not all(isinstance(length, int) and 0 <= length < 2**40 for length in shape):
            raise BadPickleError(f"an array at byte {self.at} without a sound shape")
        if math.prod(shape) * dtype.itemsize != len(raw):
            raise BadPickleError(f"an array of shape {shape} and type {dtype} that has {len(raw)} bytes")
        target.array = np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")


def _is_latin(name: object) -> bool:
    return isinstance(name, str | bytes) and name in {"latin1", b"latin1"}


def _finished(value: Any) -> Any:
    """The value with its arrays in place; looks into one dict, which is where they stand."""
    if isinstance(value, _Named):
        if value.array is None:
            raise BadPickleError("an array without values")
        return value.array
    if isinstance(value, dict):
        return {key: _finished(item) if isinstance(item, _Named) else item for key, item in value.items()}
    return value


def _text(form: str, encoding: str | None) -> Callable[[_Machine], None]:
    """An opcode that is a length and then so many bytes, or the text they spell."""

    def act(machine: _Machine) -> None:
        raw = machine.take(machine.number(form))
        machine.push(raw if encoding is None else raw.decode(encoding, "surrogatepass"))

    return act


def _whole(form: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.number(form))


def _constant(make: Callable[[], Any]) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(make())


def _store(form: str | None) -> Callable[[_Machine], None]:
    def act(machine: _Machine) -> None:
        machine.memo[len(machine.memo) if form is None else machine.number(form)] = machine.stack[-1]

    return act


def _recall(form: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.memo[machine.number(form)])


def _named_by_stack(machine: _Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if not isinstance(module, str) or not isinstance(name, str):
        raise BadPickleError(f"damaged at byte {machine.at}: no name")
    machine.name(module, name)


def _skip(count: int) -> Callable[[_Machine], None]:
    def act(machine: _Machine) -> None:
        machine.take(count)

    return act


_CODES: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": _skip(1),  # the protocol
    b"\x95": _skip(8),  # the length of a frame
    b"(": _constant(lambda: _MARK),
    b"N": _constant(lambda: None),
    b"\x88": _constant(lambda: True),
    b"\x89": _constant(lambda: False),
    b"}": _constant(dict),
    b"]": _constant(list),
    b")": _constant(tuple),
    b"K": _whole("<B"),
    b"M": _whole("<H"),
    b"J": _whole("<i"),
    b"\x8a": lambda m: m.push(int.from_bytes(m.take(m.number("<B")), "little", signed=True)),
    b"G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    b"U": _text("<B", None),
    b"T": _text("<i", None),
    b"C": _text("<B", None),
    b"B": _text("<I", None),
    b"\x8e": _text("<Q", None),
    b"X": _text("<I", "utf-8"),
    b"\x8c": _text("<B", "utf-8"),
    b"\x8d": _text("<Q", "utf-8"),
    b"q": _store("<B"),
    b"r": _store("<I"),
    b"\x94": _store(None),
    b"h": _recall("<B"),
    b"j": _recall("<I"),
    b"a": lambda m: m.extend([m.stack.pop()]),
    b"e": lambda m: m.extend(m.pop_mark()),
    b"s": lambda m: m.fill([m.stack.pop(), m.stack.pop()][::-1]),
    b"u": lambda m: m.fill(m.pop_mark()),
    b"t": lambda m: m.push(tuple(m.pop_mark())),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"c": lambda m: m.name(m.line(), m.line()),
    b"\x93": _named_by_stack,
    b"R": _Machine.call,
    b"b": _Machine.build,
}
"""The opcodes of data; those that import, call or persist anything else are not among them."""

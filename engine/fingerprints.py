"""What a user's own code is, as a hash: a run folder may only go on with the code that began it.

The package's own code is covered by ``versions.py``; a function or a factory of the user's can change under one name.
"""

import hashlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

from fedskew.engine.algorithms.base import Algorithm

OURS = "fedskew."
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def own_code(algorithm: Algorithm, model: str) -> str:
    """Hash of the user's functions in an algorithm and of the file of a ``module:factory``; empty where all are ours.

    Parameters
    ----------
    algorithm : its callables count where they are no part of this package
    model : name of the network

    Examples
    --------
    >>> from fedskew.engine.algorithms import find_algorithm
    >>> own_code(find_algorithm("scaffold+wsm"), "mlp")
    ''
    """
    seen: set[int] = set()
    values = (getattr(algorithm, field.name) for field in fields(algorithm))
    parts = [part for value in values if callable(value) for part in _function(value, seen)]
    if ":" in model:
        parts += _module(model.partition(":")[0])
    return hashlib.sha256(b"\x1f".join(parts)).hexdigest()[:32] if parts else ""


def _function(value: Callable[..., Any], seen: set[int]) -> Iterator[bytes]:
    """What a function does, as far as it can be seen: its code, what it has closed over, and its source file."""
    if id(value) in seen or (getattr(value, "__module__", None) or "").startswith(OURS):
        return
    seen.add(id(value))
    if isinstance(value, partial):
        for part in (value.func, *value.args, *sorted(value.keywords.items())):
            yield from _value(part, seen)
        return
    code = getattr(value, "__code__", None) or getattr(type(value).__call__, "__code__", None)
    if isinstance(code, CodeType):
        yield from _code(code, seen)
    for held in (*(getattr(value, "__defaults__", None) or ()), *_closed_over(value)):
        yield from _value(held, seen)
    try:
        yield Path(inspect.getfile(value if inspect.isroutine(value) else type(value))).read_bytes()
    except (TypeError, OSError):
        return  # typed into a session: there is no file


def _closed_over(value: Callable[..., Any]) -> Iterator[Any]:
    for cell in getattr(value, "__closure__", None) or ():
        with suppress(ValueError):  # a name that is not bound yet
            yield cell.cell_contents


def _code(code: CodeType, seen: set[int]) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        yield from _code(constant, seen) if isinstance(constant, CodeType) else _value(constant, seen)


def _value(value: Any, seen: set[int]) -> Iterator[bytes]:
    """A value in bytes that are the same in every process: no address, and no order that hangs on a hash seed."""
    if callable(value):
        yield from _function(value, seen)
        return
    text = repr(sorted(map(repr, value))) if isinstance(value, (set, frozenset)) else repr(value)
    yield ADDRESS.sub("", text).encode("utf-8", "surrogatepass")


def _module(name: str) -> list[bytes]:
    """The source of a module, without running it; nothing where it has none, and building the model tells that."""
    try:
        found = importlib.util.find_spec(name)
        return [] if found is None or found.origin is None else [Path(found.origin).read_bytes()]
    except (ImportError, ValueError, OSError):
        return []

"""What a user's own code is, as a hash: a run folder may only go on with the code that began it.

The package's own code is covered by ``versions.py``; a function or a factory of the user's can change under one name.
"""

import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

from fedskew.engine.algorithms.base import Algorithm

OURS = "fedskew."


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
    values = (getattr(algorithm, field.name) for field in fields(algorithm))
    parts = [part for value in values if callable(value) for part in _function(value)]
    if ":" in model:
        parts += _module(model.partition(":")[0])
    return hashlib.sha256(b"\x1f".join(parts)).hexdigest()[:32] if parts else ""


def _function(value: Callable[..., Any]) -> Iterator[bytes]:
    """What a function does, as far as it can be seen: its code, what it has closed over, and its source file."""
    if isinstance(value, partial):
        yield repr((value.args, sorted(value.keywords.items()))).encode()
        yield from _function(value.func)
        return
    if (getattr(value, "__module__", None) or "").startswith(OURS):
        return
    code = getattr(value, "__code__", None) or getattr(type(value).__call__, "__code__", None)
    if isinstance(code, CodeType):
        yield from _code(code)
    yield repr(getattr(value, "__defaults__", None)).encode()
    for cell in getattr(value, "__closure__", None) or ():
        yield repr(cell.cell_contents).encode()
    try:
        yield Path(inspect.getfile(value if inspect.isroutine(value) else type(value))).read_bytes()
    except (TypeError, OSError):
        return  # typed into a session: there is no file


def _code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(constant).encode()


def _module(name: str) -> list[bytes]:
    """The source of a module, without running it; nothing where it has none, and building the model tells that."""
    try:
        found = importlib.util.find_spec(name)
        return [] if found is None or found.origin is None else [Path(found.origin).read_bytes()]
    except (ImportError, ValueError, OSError):
        return []

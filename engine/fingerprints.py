"""What a user's own code is, as a hash: a run folder may only go on with the code that began it.

The package's own code is covered by ``versions.py``; a function or a factory of the user's can change under one name,
and so can any module of the user's that it imports. Modules are read and not run: the hash is the same in any process.
"""

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from fedskew.engine.algorithms.base import Algorithm

OURS = "fedskew."
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
TOLD = ("name", "title", "source", "link")
"""Fields of an algorithm that change no number."""


@dataclass(slots=True)
class _Met:
    """What has been met on the way: values by their ids, and the files of modules with their names."""

    values: set[int] = field(default_factory=set)
    modules: dict[Path, str] = field(default_factory=dict)


def own_code(algorithm: Algorithm, model: str) -> str:
    """Hash of the user's functions in an algorithm and of a ``module:factory``, with all modules of the user's behind.

    Parameters
    ----------
    algorithm : its callables count where they are no part of this package
    model : name of the network

    Returns
    -------
    Empty where all are ours

    Examples
    --------
    >>> from fedskew.engine.algorithms import find_algorithm
    >>> own_code(find_algorithm("scaffold+wsm"), "mlp")
    ''
    """
    met = _Met()
    values = (getattr(algorithm, one.name) for one in fields(algorithm))
    parts = [part for value in values if callable(value) for part in _function(value, met)]
    if ":" in model:
        name = model.partition(":")[0]
        path, _ = _found(name)
        if path is not None:  # where there is none, building the model tells that
            met.modules[path] = name
    parts += sorted(_sources(met.modules))
    return hashlib.sha256(b"\x1f".join(parts)).hexdigest()[:32] if parts else ""


def traits(algorithm: Algorithm) -> str:
    """What else an algorithm says of itself: all of its fields that are no functions.

    Examples
    --------
    >>> from fedskew.engine.algorithms import find_algorithm
    >>> "scaffold.steady=True" in traits(find_algorithm("scaffold"))
    True
    """
    held = {one.name: getattr(algorithm, one.name) for one in fields(algorithm) if one.name not in TOLD}
    return ", ".join(f"{algorithm.name}.{name}={_text(v)}" for name, v in held.items() if not callable(v))


def _function(value: Callable[..., Any], met: _Met) -> Iterator[bytes]:
    """What a function does, as far as it can be seen: its code and what it has closed over; its file is noted."""
    module = getattr(value, "__module__", None) or ""
    if id(value) in met.values or module.startswith(OURS):
        return
    met.values.add(id(value))
    if isinstance(value, partial):
        for part in (value.func, *value.args, *sorted(value.keywords.items())):
            yield from _value(part, met)
        return
    code = getattr(value, "__code__", None) or getattr(type(value).__call__, "__code__", None)
    if isinstance(code, CodeType):
        yield from _code(code, met)
    for held in (*(getattr(value, "__defaults__", None) or ()), *_closed_over(value)):
        yield from _value(held, met)
    with suppress(TypeError):
        path = Path(inspect.getfile(value if inspect.isroutine(value) or inspect.isclass(value) else type(value)))
        if path.is_file():
            met.modules[path] = module
        elif isinstance(code, CodeType):  # typed into a session: there is no file
            yield from _globals(code, getattr(value, "__globals__", {}), met)


def _closed_over(value: Callable[..., Any]) -> Iterator[Any]:
    for cell in getattr(value, "__closure__", None) or ():
        with suppress(ValueError):  # a name that is not bound yet
            yield cell.cell_contents


def _globals(code: CodeType, among: dict[str, Any], met: _Met) -> Iterator[bytes]:
    """What the names that a function uses stand for: numbers, texts, functions and modules of the user's."""
    for name in code.co_names:
        value = among.get(name)
        if isinstance(value, (int, float, str)):
            yield from _value(value, met)
        elif isinstance(value, ModuleType) or callable(value):
            module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
            path, _ = _found(module)
            if path is None and callable(value):
                yield from _function(value, met)
            elif path is not None and _own(module, path):
                met.modules[path] = module
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant, among, met)


def _code(code: CodeType, met: _Met) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        yield from _code(constant, met) if isinstance(constant, CodeType) else _value(constant, met)


def _value(value: Any, met: _Met) -> Iterator[bytes]:
    if callable(value):
        yield from _function(value, met)
        return
    yield _text(value).encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    """A value in a text that is the same in every process: no address, and no order that hangs on a hash seed."""
    text = repr(sorted(map(repr, value))) if isinstance(value, (set, frozenset)) else repr(value)
    return ADDRESS.sub("", text)


def _sources(roots: dict[Path, str]) -> set[bytes]:
    """The sources of some modules and of all modules of the user's that these import, one after the other."""
    found: dict[Path, bytes] = {}
    wanted = dict(roots)
    while wanted:
        path, name = wanted.popitem()
        try:
            found[path] = path.read_bytes()
        except OSError:
            found[path] = b""
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        for other in _imports(found[path], package):
            place, _ = _found(other)
            if place is not None and place not in found and _own(other, place):
                wanted[place] = other
    return set(found.values())


@lru_cache(1024)
def _imports(source: bytes, package: str) -> frozenset[str]:
    """Names of the modules that one imports, anywhere in it; ``from a import b`` may name ``a.b`` too."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a compiled module, or one that will tell when it is run
        return frozenset()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join(filter(None, [*above, node.module]))
            names |= {base, *(f"{base}.{one.name}" for one in node.names)}
    return frozenset(".".join(parts[:i]) for parts in (n.split(".") for n in names) for i in range(1, len(parts) + 1))


def _found(name: str) -> tuple[Path | None, list[str] | None]:
    """The file of a module, and where its submodules lie, without running it or its package."""
    above, _, last = name.rpartition(".")
    where = _found(above)[1] if above else None
    if not last or (above and where is None):
        return None, None
    for finder in sys.meta_path:
        with suppress(ImportError, ValueError, OSError):
            spec = finder.find_spec(name, where)
            if spec is not None:
                path = Path(spec.origin) if spec.has_location and spec.origin else None
                inside = spec.submodule_search_locations
                return path, None if inside is None else list(inside)
    return None, None


def _own(name: str, path: Path) -> bool:
    """Whether a module is the user's: of neither the standard library, nor an installed package, nor ours."""
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return not installed and name.partition(".")[0] not in {*sys.stdlib_module_names, "fedskew"}

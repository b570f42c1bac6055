"""No command writes over what it reads: outputs are compared with inputs before any work is done."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.folder import is_file, is_folder
from fedskew.profiles.written import is_answer, looked_into

_PAGES = frozenset({".html", ".htm", ".svg"})
"""Endings that no reader takes, so that a page may lie beside the data and be written anew."""


def check_apart(outputs: Mapping[str, Path], inputs: Iterable[Path]) -> None:
    """Refuse an output that would destroy an input, or that the next run would read as one.

    Links are followed, and a folder counts as all files in it. An answer or an index that fedskew wrote into a folder
    of data may be written anew.

    Parameters
    ----------
    outputs : places to write to by the option that named them
    inputs : files and folders that are read

    Raises
    ------
    FedskewError
        An output is an input, lies as a file in a folder that is read, would be taken for data there, or two outputs
        are one place.

    Examples
    --------
    >>> check_apart({"--json": Path("north.csv")}, [Path("./north.csv")])
    Traceback (most recent call last):
    ...
    fedskew.profiles.errors.FedskewError: --json north.csv: this file is read, and would be overwritten; choose \
another place
    """
    found = list(inputs)
    named: dict[Path, str] = {}
    for option, path in outputs.items():
        place = _place(path)
        if place in named:
            raise FedskewError(f"{option} and {named[place]} are both {path}; give each its own place")
        named[place] = option
        for source in found:
            _check_pair(f"{option} {path}", path, source)


def check_run_apart(run: Path, inputs: Iterable[Path]) -> None:
    """Refuse a run folder in a folder of data: the next run would read it as a party or a class.

    Raises
    ------
    FedskewError
        It is, or lies in, a folder that is read.
    """
    for source in inputs:
        if is_folder(source) and _place(run).is_relative_to(_place(source)):
            raise FedskewError(f"--run {run}: lies in {source}, which is read as data; choose another folder")


def _check_pair(what: str, path: Path, source: Path) -> None:
    if _same(path, source):
        if not is_folder(source):  # a folder as output is refused where it is written
            raise FedskewError(f"{what}: this file is read, and would be overwritten; choose another place")
        return
    if not is_folder(source) or not _place(path).is_relative_to(_place(source)):
        return
    if is_file(path) and not _written_anew(path):
        raise FedskewError(f"{what}: lies in {source}, which is read, and would be overwritten; choose another place")
    from fedskew.profiles.gathering import SUFFIXES

    if path.suffix.lower() in SUFFIXES:
        raise FedskewError(f"{what}: the next run would read it as data of {source}; choose another folder")


def _written_anew(path: Path) -> bool:
    """Whether an existing file beside data is surely none itself."""
    if path.suffix.lower() in _PAGES:
        return True
    try:
        return path.suffix.lower() == ".json" and is_answer(looked_into(path))
    except OSError:
        return False


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)  # also where the system ignores case, and for hard links
    except (OSError, ValueError):
        return _place(one) == _place(other)


def _place(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL: told where it is opened
        return path.absolute()

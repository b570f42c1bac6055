"""What a reader is: a value that turns one file into a named table or into arrays."""

import difflib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.partitions import Finding

if TYPE_CHECKING:
    import polars as pl

MISSING_NAMES = ("", "null", "NULL", "nan", "NaN")
"""Texts that mean "no label" or "no party"; ``NA`` and ``None`` may be names there, so they are not among them."""
MISSING_VALUES = (*MISSING_NAMES, "NA", "N/A", "n/a", "None", "?")
"""Texts that mean "no value" in a feature column, in every format that stores text."""


GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux keeps the control groups, and which of them this process is in."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a person wants the files read; ``label``, ``party`` and ``features`` name members of an npz as well.

    A test table may lack the party (``party_required`` is False).
    """

    label: str | None = None
    party: str | None = None
    features: tuple[str, ...] | None = None
    modality: Literal["tabular", "image"] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    on_bad_row: Literal["error", "skip"] = "error"
    party_required: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns of one file or frame; ``name`` is what messages call it.

    ``simulated`` says that a strategy of ``fedskew partition`` made the party.
    """

    name: str
    frame: "pl.DataFrame"
    findings: tuple[Finding, ...] = ()
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Arrays:
    """Features, labels and perhaps parties of one file as arrays of N rows each; ``test`` is the held-out part.

    ``silos`` are exact party names, those without rows too, where folders name the parties; ``modality`` is ``image``
    where the features are (N, C, H, W) already. Features may be CSR; ``ragged`` says that the number of their columns
    is only the largest that occurs in this file, and that column 0 exists only where something is in it.
    """

    name: str
    features: Any
    labels: NDArray[Any]
    party: NDArray[Any] | None = None
    test: "Arrays | None" = None
    members: tuple[str, ...] = ()
    column_names: tuple[str, ...] | None = None
    findings: tuple[Finding, ...] = ()
    silos: tuple[str, ...] = ()
    modality: Literal["image"] | None = None
    ragged: bool = False


Loaded = Table | Arrays


def never(path: Path) -> bool:  # noqa: ARG001 - a reader that claims nothing
    """Claim no file and no folder."""
    return False


def alone(path: Path) -> tuple[Path, ...]:
    """A file that holds all of its rows."""
    return (path,)


@dataclass(frozen=True, slots=True)
class Reader:
    """One file format: what it is called, the endings of its files, and the function that reads one.

    ``claims`` tells by its content whether a file of any other ending is of this format, ``folder`` whether a folder is
    one data set of it; ``parts`` are the files that the rows of one file are spread over. All are quick and never fail.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, Options], Loaded]
    claims: Callable[[Path], bool] = never
    folder: Callable[[Path], bool] = never
    parts: Callable[[Path], tuple[Path, ...]] = alone


def check_file(path: Path) -> int:
    """The size in bytes of a regular file that can be read.

    Raises
    ------
    FedskewError
        There is no such file, or it is a folder, a pipe, a device or empty.
    EnvironmentFaultError
        There is no permission to read it.
    """
    try:
        status = path.stat()  # follows links; a loop is an OSError
    except FileNotFoundError:
        raise FedskewError(f"{path}: no such file or folder{_neighbour(path)}") from None
    except PermissionError:
        raise EnvironmentFaultError(f"{path}: permission denied") from None
    except (OSError, ValueError) as fault:  # ValueError: a NUL in the name
        raise FedskewError(f"{path}: cannot be opened ({getattr(fault, 'strerror', None) or fault})") from None
    if stat.S_ISDIR(status.st_mode):
        raise FedskewError(f"{path}: is a folder; a file is needed here")
    if not stat.S_ISREG(status.st_mode):
        raise FedskewError(f"{path}: is a pipe, socket or device; only regular files can be read. Save it to a file")
    if not os.access(path, os.R_OK):
        raise EnvironmentFaultError(f"{path}: permission denied")
    if status.st_size == 0:
        raise FedskewError(f"{path}: the file is empty")
    return status.st_size


def check_memory(path: Path, needed: int) -> None:
    """Refuse to load what declares more bytes than this machine has left.

    Raises
    ------
    EnvironmentFaultError
        ``needed`` exceeds the memory that is available.
    """
    available = available_memory()
    if needed > available:
        gib = 2.0**30
        raise EnvironmentFaultError(
            f"{path}: needs about {needed / gib:.1f} GiB of memory and {available / gib:.1f} GiB are available; "
            "use a part of the rows or columns, or a larger machine"
        )


def available_memory() -> int:
    """Bytes of memory that can still be used: of the machine or of its control groups, whichever is less."""
    known = [2**34]  # 16 GiB where the system does not say
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        known = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable")] or known
    except (OSError, ValueError):
        pass  # not Linux
    return min(*known, *_left_in_groups(), 2**62)


def _left_in_groups() -> list[int]:
    """What is left of the limits of this process's control group and of those above it, of both versions of groups."""
    left = []
    try:
        lines = OWN_GROUP.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []  # not Linux
    for line in lines:
        _, kinds, name = [*line.split(":", 2), "", ""][:3]
        if kinds and "memory" not in kinds.split(","):
            continue
        root = GROUPS / "memory" if kinds else GROUPS
        limit, used = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        own = root / name.lstrip("/")
        for group in (own, *own.parents):
            try:
                most, now = (int((group / file).read_text(encoding="ascii")) for file in (limit, used))
                left.append(max(most - now + _cached(group), 0))
            except (OSError, ValueError):
                pass  # no limit here
            if group == root:
                break
    return left


def _cached(group: Path) -> int:
    """Bytes of files that a control group keeps in memory and gives up when it needs room."""
    try:
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        held = {name: int(value) for name, value in (line.split() for line in lines)}
    except (OSError, ValueError):
        return 0
    prefix = "total_" if "total_inactive_file" in held else ""  # version 1 counts the groups below apart
    return held.get(f"{prefix}inactive_file", 0) + held.get(f"{prefix}active_file", 0)


def refuse_columns(path: Path, options: Options, what: str, *, label: bool = True) -> None:
    """Refuse the names of columns where a format has none.

    Raises
    ------
    FedskewError
        A party was asked for, or (where ``label`` is True) a label.
    """
    given = (("label", options.label if label else None), ("party", options.party if options.party_required else None))
    for name, value in given:
        if value is not None:
            raise FedskewError(f"{path}: --{name} is {value!r}, but {what}; leave out --{name}")


def _neighbour(path: Path) -> str:
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - names, not paths
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    return f"; did you mean {near[0]!r}?" if near else ""

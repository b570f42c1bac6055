"""A folder of silos: one file each, named by its stem."""

import os
from pathlib import Path

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.noticed import some
from fedskew.profiles.partitions import Finding


def is_folder(path: Path) -> bool:
    """Whether there is a folder of this name; False, not an error, for a name that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a name is too long


def is_file(path: Path) -> bool:
    """Whether there is a file of this name; False, not an error, for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113 - as above


def list_silos(folder: Path, suffixes: frozenset[str]) -> tuple[list[Path], tuple[Finding, ...]]:
    """The readable files of a folder in the order of their names; others are named in a finding.

    Raises
    ------
    FedskewError
        No file of the folder can be read.
    EnvironmentFaultError
        There is no permission to list it.
    """
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))
    except PermissionError:
        raise EnvironmentFaultError(f"{folder}: permission denied") from None
    silos = [entry for entry in entries if entry.suffix.lower() in suffixes and not entry.is_dir()]
    others = [entry.name for entry in entries if entry not in set(silos)]
    if not silos:
        endings = ", ".join(sorted(suffixes))
        raise FedskewError(
            f"{folder}: holds no readable file (endings: {endings}) and no images in class/ or party/class/"
        )
    if not others:
        return silos, ()
    text = f"{folder.name}: not read, {some(others)}"
    return silos, (Finding(code="ignored_file", severity="mild", text=text, count=len(others)),)

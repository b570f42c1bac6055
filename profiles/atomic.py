"""Files that are never half written: a temporary name in the same folder, fsync, rename."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError


def check_output(path: Path, *, folder: bool = False) -> None:
    """Refuse a place that cannot be written to before any work is done.

    Raises
    ------
    FedskewError
        ``folder`` is asked for and the place holds files already.
    EnvironmentFaultError
        The parent folder is missing or not writable, or the place is of another kind.
    """
    parent = path.absolute().parent
    if not parent.is_dir():
        raise EnvironmentFaultError(f"{path}: the folder {parent} does not exist; create it or choose another place")
    if not os.access(parent, os.W_OK):
        raise EnvironmentFaultError(f"{path}: no permission to write into {parent}; choose another place")
    if folder and path.exists():
        if not path.is_dir():
            raise EnvironmentFaultError(f"{path}: is a file; a folder is needed here, choose another place")
        if any(path.iterdir()):
            raise FedskewError(f"{path}: the folder is not empty; remove it or choose a new one")
    if not folder and path.is_dir():
        raise EnvironmentFaultError(f"{path}: is a folder; a file is needed here, choose another place")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part.

    Raises
    ------
    EnvironmentFaultError
        The place cannot be written to, or the disk is full.
    """
    check_output(path)
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
        sync(path.absolute().parent)
    except OSError as fault:
        raise EnvironmentFaultError(f"{path}: cannot be written ({fault.strerror}); choose another place") from None
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder_atomically(path: Path) -> Iterator[Path]:
    """Hand out a temporary folder beside ``path`` that takes its name when all went well, and vanishes otherwise.

    Raises
    ------
    FedskewError
        The folder exists and is not empty.
    EnvironmentFaultError
        The place cannot be written to, or the disk is full.
    """
    check_output(path, folder=True)
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        part.mkdir()
        yield part
        for file in part.iterdir():
            sync(file)
        sync(part)
        part.replace(path)
        sync(path.absolute().parent)
    except OSError as fault:
        raise EnvironmentFaultError(f"{path}: cannot be written ({fault.strerror or fault})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def sync(path: Path) -> None:
    """Make a file or the entries of a folder outlast a crash."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

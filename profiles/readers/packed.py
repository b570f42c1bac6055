"""Files that may be packed (gzip, bzip2, xz, told by content): read in pieces, and never more than is plausible."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import check_memory

RATIO, FREE = 200, 100_000_000  # over 100 MB, a file must not be packed tighter than 200 : 1
WORK = 12  # bytes of working memory for each byte of a piece
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)
"""What reading a damaged packed file raises."""


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacked where it is packed.

    Raises
    ------
    FedskewError
        It is cut or damaged, found while reading in the block.
    """
    kind = magic(path)
    try:
        with _opened(path, kind) as stream:
            yield stream
    except FedskewError:
        raise
    except BROKEN as fault:
        reason = (str(fault).splitlines() or [type(fault).__name__])[0]
        raise FedskewError(f"{path}: cannot be unpacked ({reason:.100}); is it cut? Fetch it again") from None


def pieces(path: Path, size: int, length: int = 1 << 24) -> Iterator[bytes]:
    """The content of a file in pieces of ``length`` bytes; ``size`` is that of the file as it lies on disk.

    Raises
    ------
    FedskewError
        It is cut or damaged, or unpacks to over 200 times its size.
    EnvironmentFaultError
        What was read so far does not fit into memory.
    """
    held = 0
    with unpacked(path) as stream:
        while piece := stream.read(length):
            held += len(piece)
            check_ratio(path, held, size)
            check_memory(path, WORK * len(piece))
            yield piece


def read_exactly(path: Path, stream: IO[bytes], count: int) -> bytes:
    """``count`` bytes of a stream.

    Raises
    ------
    FedskewError
        It ends before.
    """
    data = stream.read(count)
    if len(data) < count:
        raise FedskewError(f"{path}: ends {count - len(data)} bytes too early; the file is cut, fetch it again")
    return data


def check_ratio(path: Path, unpacked_size: int, size: int) -> None:
    """Refuse what unpacks, or claims to, to far more bytes than it has.

    Raises
    ------
    FedskewError
        More than 100 MB and more than 200 times the size.
    """
    if unpacked_size > FREE and unpacked_size > RATIO * size:
        raise FedskewError(f"{path}: unpacks to over {RATIO} times its {size} bytes; unpack it yourself if it is sound")


def magic(path: Path) -> str | None:
    """How a file is packed: ``gzip``, ``bzip2``, ``xz`` or None."""
    with path.open("rb") as file:
        begin = file.read(6)
    if begin[:2] == b"\x1f\x8b":
        return "gzip"
    if begin[:3] == b"BZh":
        return "bzip2"
    return "xz" if begin == b"\xfd7zXZ\x00" else None


def head(path: Path, count: int) -> bytes:
    """The first bytes of the content of a file, or as many as can be read; never fails."""
    try:
        with _opened(path, magic(path)) as stream:
            return stream.read(count)
    except BROKEN:
        return b""


def _opened(path: Path, kind: str | None) -> IO[bytes]:
    if kind == "gzip":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if kind == "bzip2":
        return bz2.open(path, "rb")
    if kind == "xz":
        return lzma.open(path, "rb")
    return path.open("rb")

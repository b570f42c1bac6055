"""Parquet and Arrow IPC files."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import Options, Reader, Table, check_file, check_memory

if TYPE_CHECKING:
    import polars as pl

MAGIC = {".parquet": b"PAR1", ".pq": b"PAR1"}  # Arrow's stream form has no magic
VALUE_BYTES = 8
SIMULATED, PARTY = "fedskew.strategy", "party"
"""Metadata of silo files that a strategy made: its name, and the column that holds the party, if there is one."""


def read_columnar(path: Path, options: Options) -> Table:
    """Read a Parquet or Arrow (IPC, Feather) file with the types it declares.

    Raises
    ------
    FedskewError
        The file is cut, is not of this format, or holds no columns.
    EnvironmentFaultError
        It declares more values than memory can hold.
    """
    check_file(path)
    magic = MAGIC.get(path.suffix.lower())
    with path.open("rb") as file:
        if magic and file.read(4) != magic:
            raise FedskewError(f"{path}: is not a Parquet file (it does not begin with PAR1)")
    import polars as pl

    try:
        with panics_unheard():
            rows, names = _declared(path)
            check_memory(path, rows * len(names) * VALUE_BYTES)
            frame = _scan(path).collect()
    except (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException) as fault:
        reason = (str(fault).splitlines() or ["unknown reason"])[0]
        raise FedskewError(f"{path}: cannot be read ({reason:.120}); is it cut or of another format?") from None
    if not names:
        raise FedskewError(f"{path}: holds no columns")
    return Table(str(path), frame, simulated=_simulated(path, options))


@contextmanager
def panics_unheard() -> Iterator[None]:
    """Within this block a panic of polars prints nothing; it comes as an exception as well, and that is told.

    Whatever else is written to stderr meanwhile, by any thread, is kept and written when the block ends without one.
    """
    import polars as pl

    try:
        kept = os.dup(2)
    except OSError:  # no stderr: nothing can be printed there
        yield
        return
    with os.fdopen(kept, "wb", buffering=0) as stderr, tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        panicked = False
        try:
            yield
        except pl.exceptions.PanicException:
            panicked = True
            raise
        finally:
            os.dup2(stderr.fileno(), 2)
            held.seek(0)
            text = b"" if panicked else held.read()
            if text:
                stderr.write(text)


def _simulated(path: Path, options: Options) -> bool:
    """Whether the parties of a silo file come from a strategy, unless another column is to name them."""
    import polars as pl

    if path.suffix.lower() not in MAGIC:
        return False
    written = pl.read_parquet_metadata(path)
    return SIMULATED in written and (options.party or "") == written.get(PARTY)


def _scan(path: Path) -> "pl.LazyFrame":
    import polars as pl

    if path.suffix.lower() in MAGIC:
        return pl.scan_parquet(path, glob=False)
    with path.open("rb") as file:
        stream = file.read(6) != b"ARROW1"
    return pl.read_ipc_stream(path).lazy() if stream else pl.scan_ipc(path)


def _declared(path: Path) -> tuple[int, list[str]]:
    import polars as pl

    scan = _scan(path)
    return int(scan.select(pl.len()).collect().item()), scan.collect_schema().names()


COLUMNAR = Reader("Parquet or Arrow", (".parquet", ".pq", ".arrow", ".feather", ".ipc"), read_columnar)

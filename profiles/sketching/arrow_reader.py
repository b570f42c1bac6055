"""The second reader of files, by pyarrow: for what Polars refuses, where pyarrow is installed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.readers.base import check_file

if TYPE_CHECKING:
    import polars as pl

BLOCK_BYTES = 8 * 2**20  # of text that is parsed at a time


def is_installed() -> bool:
    """Whether pyarrow can be imported."""
    try:
        import pyarrow  # noqa: F401, ICN001 - only asked for
    except ImportError:
        return False
    return True


def arrow_types(path: Path, separator: str | None) -> dict[str, bool]:
    """The columns of a file in their order, and whether each is declared numeric; columns of text files are text.

    Parameters
    ----------
    separator : of a text file; None: the file is Parquet or Arrow
    """
    with _told(path):
        import pyarrow as pa
        from pyarrow import types

        if separator is not None:
            return dict.fromkeys(_open_text(path, separator, None).schema.names, False)
        if _is_parquet(path):
            from pyarrow import parquet

            with parquet.ParquetFile(path, pre_buffer=False) as file:
                schema = file.schema_arrow
        else:
            with pa.memory_map(str(path)) as source:
                schema = _open_arrow(source).schema
        kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
        return {field.name: any(is_kind(field.type) for is_kind in kinds) for field in schema}


def arrow_pieces(path: Path, columns: Sequence[str], rows: int, separator: str | None) -> "Iterator[pl.DataFrame]":
    """Read some columns of a file piece by piece, in the order of its rows.

    Parameters
    ----------
    columns : in the order of the file
    rows : of a piece at most, in a Parquet file
    separator : of a text file, whose columns are all text; None: the file is Parquet or Arrow
    """
    import polars as pl

    with _told(path):
        for batch in _batches(path, list(columns), rows, separator):
            if batch.num_rows:
                yield pl.DataFrame(pl.from_arrow(batch, rechunk=False))


def _batches(path: Path, columns: list[str], rows: int, separator: str | None) -> Iterator[Any]:
    import pyarrow as pa

    if separator is not None:
        yield from _open_text(path, separator, columns)
    elif _is_parquet(path):
        from pyarrow import parquet

        # without pre_buffer=False the columns of all row groups are kept
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=False)
    else:
        with pa.memory_map(str(path)) as source:
            reader = _open_arrow(source)
            if isinstance(reader, pa.RecordBatchStreamReader):
                yield from (batch.select(columns) for batch in reader)
            else:
                yield from (reader.get_batch(i).select(columns) for i in range(reader.num_record_batches))


def _is_parquet(path: Path) -> bool:
    check_file(path)
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


def _open_arrow(source: Any) -> Any:
    """An Arrow file, or the stream of batches that other tools write under the same ending."""
    from pyarrow import ipc

    head = source.read(6)
    source.seek(0)
    return ipc.open_file(source) if head == b"ARROW1" else ipc.open_stream(source)


def _open_text(path: Path, separator: str, columns: list[str] | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    check_file(path)
    read = csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    parse = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    if columns is None:
        return csv.open_csv(path, read, parse)
    text = csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=columns,
        null_values=[""],
        strings_can_be_null=True,
    )
    return csv.open_csv(path, read, parse, text)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say in one line what pyarrow could not read, or that it is not there."""
    try:
        import pyarrow as pa
    except ImportError:
        raise EnvironmentFaultError(
            f"{path}: reading with pyarrow needs pyarrow, which is not installed: pip install 'fedskew[arrow]'"
        ) from None
    try:
        yield
    except MemoryError as fault:  # pyarrow's is one of them
        raise EnvironmentFaultError(f"{path}: out of memory ({fault!s:.120})") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as fault:
        reason = (str(fault).splitlines() or ["unknown reason"])[0]
        raise FedskewError(f"{path}: pyarrow cannot read it ({reason:.160})") from None

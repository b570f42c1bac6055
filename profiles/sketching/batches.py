"""Batches of a file in their order, never the whole of it: Parquet, Arrow and delimited text."""

import codecs
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.readers.base import MISSING_VALUES, Options, check_file
from fedskew.profiles.readers.delimited import read_delimited

if TYPE_CHECKING:
    import polars as pl

ROWS = 131_072
TEXT, PARQUET, ARROW = (".csv", ".tsv", ".tab", ".txt"), (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
STREAMED = (*TEXT, *PARQUET, *ARROW)
"""Endings of the files that are read batch by batch."""
MOST_WHOLE = 32 * 2**20  # bytes of a text file that is read at once, as strictly as any table
Tell = Callable[[str], None]
INFERRED = 10_000  # rows of a text file from which the types of its columns are guessed


class UntypedError(Exception):
    """A text file holds a value that is not of the type its first rows have."""


def column_names(path: Path, options: Options) -> list[str]:
    """The columns of a file, in their order.

    Raises
    ------
    FedskewError
        The file cannot be read as what its ending says.
    """
    if _small_text(path):
        return read_delimited(path, options).frame.columns
    return list(_guarded(path, lambda: _scan(path, (), options.delimiter, typed=False).collect_schema().names()))


def _small_text(path: Path) -> bool:
    """Whether a text file is so small that every one of its lines is checked before it is read."""
    return path.suffix.lower() in TEXT and check_file(path) <= MOST_WHOLE


def iter_batches(
    path: Path, columns: Sequence[str], names: Sequence[str], options: Options, *, tell: Tell, typed: bool = True
) -> "Iterator[pl.DataFrame]":
    """Read a file batch by batch, in the order of its rows: the one caller of the engine's unstable interface.

    Parameters
    ----------
    columns : to read, those of ``names`` among them
    names : columns of names (label, party), which stay text in a text file
    options : of a text file: delimiter, and up to 32 MB also encoding and what to do with ragged rows
    tell : told what was noticed about the file
    typed : guess the types of a text file's columns from its first rows; False: all columns are text

    Raises
    ------
    UntypedError
        A guess was wrong: read again with ``typed=False``.
    FedskewError
        The file cannot be read, or has a row of another width.
    """
    if _small_text(path):
        table = read_delimited(path, options)
        for finding in table.findings:
            tell(finding.text)
        yield from table.frame.select(list(columns)).iter_slices(ROWS)
        return
    if options.encoding is not None or options.on_bad_row != "error":
        most = MOST_WHOLE >> 20
        raise FedskewError(f"{path}: text files over {most} MB must be UTF-8 without ragged rows; convert it first")
    scan = _guarded(path, lambda: _scan(path, names, options.delimiter, typed=typed).select(list(columns)))
    batches = iter(_guarded(path, lambda: scan.collect_batches(chunk_size=ROWS, maintain_order=True), typed=typed))
    while True:
        batch = _guarded(path, lambda: next(batches, None), typed=typed)
        if batch is None:
            return
        if batch.height:
            yield batch


def distinct_pairs(path: Path, columns: Sequence[str]) -> int:
    """How many combinations of values these columns hold: cheap in Parquet and Arrow files, and not asked of text."""
    if path.suffix.lower() in TEXT:
        return 0
    import polars as pl

    scan = _scan(path, columns, None, typed=False)
    pairs = scan.select(list(columns)).unique().select(pl.len())
    return int(_guarded(path, lambda: pairs.collect(engine="streaming")).item())


def _scan(path: Path, names: Sequence[str], delimiter: str | None, *, typed: bool) -> "pl.LazyFrame":
    import polars as pl

    check_file(path)
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return pl.scan_parquet(path, glob=False)
    if suffix in ARROW:
        return pl.scan_ipc(path)
    _check_text(path)
    usual = "\t" if suffix in {".tsv", ".tab"} else ","
    separator = usual if delimiter is None else {"tab": "\t", "\\t": "\t", "space": " "}.get(delimiter, delimiter)
    how: dict[str, Any] = {"separator": separator, "null_values": list(MISSING_VALUES), "glob": False}
    if not typed:
        return pl.scan_csv(path, infer_schema=False, separator=separator, glob=False)
    guessed = pl.scan_csv(path, infer_schema_length=INFERRED, **how).collect_schema()
    types: dict[str, Any] = {name: pl.Float64 if kind.is_integer() else kind for name, kind in guessed.items()}
    types |= dict.fromkeys([name for name in names if name in types], pl.String)
    return pl.scan_csv(path, schema=types, **how)


def _check_text(path: Path) -> None:
    """Refuse what would be read as garbage: other encodings."""
    with path.open("rb") as stream:
        head = stream.read(4096)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head:
        raise FedskewError(f"{path}: is not UTF-8 text (UTF-16?); give --encoding")


def _guarded(path: Path, step: Any, *, typed: bool = False) -> Any:
    """Run one step of the engine and say in one line what it could not read."""
    import polars as pl

    try:
        return step()
    except (pl.exceptions.ComputeError, pl.exceptions.SchemaError, pl.exceptions.InvalidOperationError) as fault:
        reason = (str(fault).splitlines() or ["unknown reason"])[0]
        if typed and path.suffix.lower() in TEXT and "could not parse" in str(fault):
            raise UntypedError from None
        raise FedskewError(f"{path}: cannot be read ({reason:.160})") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as fault:
        reason = (str(fault).splitlines() or ["unknown reason"])[0]
        if "memory" in reason.lower():
            raise EnvironmentFaultError(f"{path}: out of memory ({reason:.120})") from None
        raise FedskewError(f"{path}: cannot be read ({reason:.160}); is it cut or of another format?") from None

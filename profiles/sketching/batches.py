"""Batches of a file in their order, never the whole of it: Parquet, Arrow and delimited text."""

import codecs
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.readers.base import MISSING_VALUES, Options, check_file
from fedskew.profiles.readers.delimited import read_delimited
from fedskew.profiles.sketching.arrow_reader import arrow_pieces, arrow_types, is_installed

if TYPE_CHECKING:
    import polars as pl

ROWS = 262_144  # of a batch
PIECE = 65_536  # rows that the engine hands out at a time
TEXT, PARQUET, ARROW = (".csv", ".tsv", ".tab", ".txt"), (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
STREAMED = (*TEXT, *PARQUET, *ARROW)
"""Endings of the files that are read batch by batch."""
MOST_WHOLE = 32 * 2**20  # bytes of a text file that is read at once, as strictly as any table
Reader = Literal["auto", "polars", "pyarrow"]
Way = Literal["plain", "missing", "text"]
"""How Polars reads a text file: ``plain``, types guessed and only empty fields missing, which takes a fifth less time;
``missing``, types guessed and every word for a missing value known; ``text``, all columns text."""
Tell = Callable[[str], None]
AHEAD = {
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "1",
    "POLARS_RECORD_BATCH_PREFETCH_SIZE": "1",
    "POLARS_CSV_CHUNK_PREFETCH_LIMIT": "1",
    "POLARS_CSV_CHUNK_SIZE": "2000000",
}
"""How far Polars reads ahead while a file is scanned, in its own variables; one that is set already stays."""
INFERRED = 10_000  # rows of a text file from which the types of its columns are guessed


class UntypedError(Exception):
    """A text file holds a value that is not of the type its first rows have: read it again, as ``way`` says."""

    def __init__(self, way: Way) -> None:
        super().__init__(way)
        self.way: Way = way


def column_names(path: Path, options: Options, *, reader: Reader | None = None) -> list[str]:
    """The columns of a file, in their order.

    Raises
    ------
    FedskewError
        The file cannot be read as what its ending says.
    """
    if _small_text(path):
        return read_delimited(path, options).frame.columns
    if chosen(path, options, reader) == "pyarrow":
        return list(arrow_types(path, _separator(path, options)))
    return list(_guarded(path, lambda: _scan(path, (), options.delimiter, "text").collect_schema().names()))


def chosen(path: Path, options: Options, reader: Reader | None) -> Literal["polars", "pyarrow"]:
    """Who reads a file: as asked, else as the variable ``FEDSKEW_READER`` says, else Polars unless it refuses the file.

    Raises
    ------
    FedskewError
        The variable names another reader, or the file is refused and pyarrow is not installed.
    """
    asked = reader or os.environ.get("FEDSKEW_READER") or "auto"
    if asked == "pyarrow":
        return "pyarrow"
    if asked not in {"polars", "auto"}:
        raise FedskewError(f"FEDSKEW_READER is {asked!r}; it may be polars, pyarrow or auto")
    if asked == "polars" or path.suffix.lower() in TEXT:
        return "polars"
    try:
        _guarded(path, lambda: _scan(path, (), options.delimiter, "text").collect_schema())
    except EnvironmentFaultError:
        raise
    except FedskewError:
        if not is_installed():
            raise
        arrow_types(path, None)
        return "pyarrow"
    return "polars"


def _small_text(path: Path) -> bool:
    """Whether a text file is so small that every one of its lines is checked before it is read."""
    return path.suffix.lower() in TEXT and check_file(path) <= MOST_WHOLE


def iter_batches(
    path: Path,
    columns: Sequence[str],
    names: Sequence[str],
    options: Options,
    *,
    tell: Tell,
    way: Way = "plain",
    reader: Reader | None = None,
) -> "Iterator[pl.DataFrame]":
    """Read a file batch by batch, in the order of its rows: the one caller of the engines' interfaces.

    Each batch has ``ROWS`` rows, the last one fewer, whoever reads, so that sums over batches are the same numbers.

    Parameters
    ----------
    columns : to read, those of ``names`` among them; batches hold them in the order of the file
    names : columns of names (label, party), which stay text in a text file
    options : of a text file: delimiter, and up to 32 MB also encoding and what to do with ragged rows
    tell : told what was noticed about the file
    way : how Polars reads a text file
    reader : see :func:`chosen`; text files up to 32 MB are read by neither

    Raises
    ------
    UntypedError
        A guess was wrong: read again, in the way it names.
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
    wanted = set(columns)
    held = [name for name in column_names(path, options, reader=reader) if name in wanted]
    if chosen(path, options, reader) == "pyarrow":
        yield from _regrouped(arrow_pieces(path, held, PIECE, _separator(path, options)))
    else:
        with _little_ahead():
            yield from _regrouped(_polars_pieces(path, held, names, options.delimiter, way))


def _polars_pieces(
    path: Path, columns: list[str], names: Sequence[str], delimiter: str | None, way: Way
) -> "Iterator[pl.DataFrame]":
    """Pieces of ``columns``, in the order of the file: another one takes a step more, which holds pieces of its own."""
    scan = _guarded(path, lambda: _scan(path, names, delimiter, way).select(columns))
    pieces = iter(_guarded(path, lambda: scan.collect_batches(chunk_size=PIECE, maintain_order=True), way))
    worded = way == "missing" and path.suffix.lower() in TEXT
    while True:
        piece = _guarded(path, lambda: next(pieces, None), way)
        if piece is None:
            return
        if worded and any(piece.get_column(name).null_count() for name in names):
            raise UntypedError("text")  # "NA" is no number, but a name
        if piece.height:
            yield piece


def _regrouped(pieces: "Iterator[pl.DataFrame]") -> "Iterator[pl.DataFrame]":
    """The same rows, ``ROWS`` at a time; no batch is kept here while the next one is read."""
    import polars as pl

    held: list[pl.DataFrame] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += piece.height
        del piece
        while rows >= ROWS:
            batch, held = _cut(held)
            rows -= ROWS
            yield batch.pop()
    if rows:
        yield pl.concat(held, rechunk=False)


def _cut(held: "list[pl.DataFrame]") -> "tuple[list[pl.DataFrame], list[pl.DataFrame]]":
    import polars as pl

    together = pl.concat(held, rechunk=False)
    return [together.head(ROWS)], [together.slice(ROWS)]


@contextmanager
def _little_ahead() -> Iterator[None]:
    """Have the engine read little ahead of what is asked for; else its memory grows with the file, up to a limit."""
    mine = [name for name in AHEAD if name not in os.environ]
    os.environ.update({name: AHEAD[name] for name in mine})
    try:
        yield
    finally:
        for name in mine:
            os.environ.pop(name, None)


def planned(
    path: Path, names: Sequence[str], columns: Sequence[str], *, reader: Reader | None = None
) -> tuple[int, int]:
    """How many combinations of names a file holds, and how many of ``columns`` are numeric, before it is read.

    Cheap in Parquet and Arrow files; 0 and 0 of text, which would have to be read for it.
    """
    if path.suffix.lower() in TEXT:
        return 0, 0
    import polars as pl

    if chosen(path, Options(), reader) == "pyarrow":
        types = arrow_types(path, None)
        pairs = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        for piece in arrow_pieces(path, [name for name in types if name in names], PIECE, None):
            pairs = pl.concat([pairs, piece.select(pl.col(list(names)).cast(pl.String)).unique()]).unique()
        return pairs.height, sum(types[name] for name in columns)
    scan = _scan(path, names, None, "text")
    schema = _guarded(path, scan.collect_schema)
    found = scan.select(list(names)).unique().select(pl.len())
    with _little_ahead():
        cells = int(_guarded(path, lambda: found.collect(engine="streaming")).item())
    return cells, sum(schema[name].is_numeric() or schema[name] == pl.Boolean for name in columns)


def _separator(path: Path, options: Options) -> str | None:
    """What separates the columns of a text file; None of any other."""
    if path.suffix.lower() not in TEXT:
        return None
    usual = "\t" if path.suffix.lower() in {".tsv", ".tab"} else ","
    given = options.delimiter
    return usual if given is None else {"tab": "\t", "\\t": "\t", "space": " "}.get(given, given)


def _scan(path: Path, names: Sequence[str], delimiter: str | None, way: Way) -> "pl.LazyFrame":
    import polars as pl

    check_file(path)
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return pl.scan_parquet(path, glob=False)
    if suffix in ARROW:
        return pl.scan_ipc(path)
    _check_text(path)
    how: dict[str, Any] = {"separator": _separator(path, Options(delimiter=delimiter)) or ",", "glob": False}
    if way == "text":
        return pl.scan_csv(path, infer_schema=False, **how)
    worded = how | {"null_values": list(MISSING_VALUES)}
    guessed = pl.scan_csv(path, infer_schema_length=INFERRED, **worded).collect_schema()
    if way == "plain" and guessed != pl.scan_csv(path, infer_schema_length=INFERRED, **how).collect_schema():
        raise UntypedError("missing")
    types: dict[str, Any] = {name: pl.Float64 if kind.is_integer() else kind for name, kind in guessed.items()}
    types |= dict.fromkeys([name for name in names if name in types], pl.String)
    return pl.scan_csv(path, schema=types, **(how if way == "plain" else worded))


def _check_text(path: Path) -> None:
    """Refuse what would be read as garbage: other encodings."""
    with path.open("rb") as stream:
        head = stream.read(4096)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head:
        raise FedskewError(f"{path}: is not UTF-8 text (UTF-16?); give --encoding")


def _guarded(path: Path, step: Any, way: Way = "text") -> Any:
    """Run one step of the engine and say in one line what it could not read."""
    import polars as pl

    try:
        return step()
    except (pl.exceptions.ComputeError, pl.exceptions.SchemaError, pl.exceptions.InvalidOperationError) as fault:
        reason = (str(fault).splitlines() or ["unknown reason"])[0]
        if way != "text" and path.suffix.lower() in TEXT and "could not parse" in str(fault):
            raise UntypedError("missing" if way == "plain" else "text") from None
        other = "" if path.suffix.lower() in TEXT else "; FEDSKEW_READER=pyarrow asks another reader"
        raise FedskewError(f"{path}: cannot be read ({reason:.160}){other}") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as fault:
        reason = (str(fault).splitlines() or ["unknown reason"])[0]
        if "memory" in reason.lower():
            raise EnvironmentFaultError(f"{path}: out of memory ({reason:.120})") from None
        raise FedskewError(f"{path}: cannot be read ({reason:.160}); is it cut or of another format?") from None

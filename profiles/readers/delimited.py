"""CSV and TSV: every column as text, every defect of the file named with its line."""

import codecs
import csv
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Finding
from fedskew.profiles.readers.base import Options, Reader, Table, check_file, check_memory
from fedskew.profiles.readers.lines import Lines, scan_lines

if TYPE_CHECKING:
    import polars as pl

BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
WIDE = 6  # a text column in memory takes a few times its bytes in the file


def read_delimited(path: Path, options: Options) -> Table:
    """Read a CSV or TSV file with a header; all columns are text, empty fields are null.

    A row with too few or too many fields is an error with its line number, or with ``on_bad_row="skip"`` is left out
    and counted. Fields may be quoted with ``"`` (doubled inside) and then hold delimiters and line ends.

    Raises
    ------
    FedskewError
        Not UTF-8 and no encoding given, NUL bytes, an unclosed quote, a ragged row, a repeated or missing header,
        or a delimiter that is not there.
    """
    check_memory(path, check_file(path) * WIDE)
    delimiter = _delimiter(path, options)
    data = _utf8(path, path.read_bytes(), options.encoding)
    if data[:4].lower() == b"sep=" and data[5:7].startswith((b"\n", b"\r")):
        mark = data[4:5].decode("utf-8", "replace")
        raise FedskewError(
            f"{path}: line 1 is Excel's mark 'sep={mark}' and no header; remove it, and give --delimiter"
        )
    if b"\n" not in data and b"\r" in data:
        data = data.replace(b"\r", b"\n")  # line ends of old Macs
    lines = scan_lines(data, delimiter)
    header = _header(path, data, lines, delimiter)
    data, findings = _regular(path, data, lines, len(header), options)
    frame = _parse(path, data, header, delimiter)
    return Table(str(path), frame, tuple(findings))


def _delimiter(path: Path, options: Options) -> str:
    if options.delimiter is None:
        return "\t" if path.suffix.lower() in {".tsv", ".tab"} else ","
    delimiter = {"tab": "\t", "\\t": "\t", "space": " "}.get(options.delimiter, options.delimiter)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise FedskewError(f"delimiter is {options.delimiter!r}; it must be one ASCII character such as ';' or 'tab'")
    return delimiter


def _utf8(path: Path, data: bytes, encoding: str | None) -> bytes:
    """The text of the file as UTF-8 without a byte-order mark."""
    if encoding is not None:
        try:
            data = data.decode(encoding).encode("utf-8")
        except LookupError:
            raise FedskewError(f"encoding {encoding!r} is unknown; try utf-8, utf-16 or latin-1") from None
        except UnicodeError as fault:
            raise FedskewError(f"{path}: is not {encoding} ({fault.args[-1]}); give another --encoding") from None
    for mark, name in BOMS:
        if data.startswith(mark):
            raise FedskewError(f"{path}: is {name.upper()}, not UTF-8; try --encoding {name}")
    data = data.removeprefix(codecs.BOM_UTF8)
    nul = data.find(b"\0")
    if nul >= 0:
        line = data.count(b"\n", 0, nul) + 1
        raise FedskewError(f"{path}: line {line} holds a NUL byte; if the file is UTF-16, try --encoding utf-16-le")
    if encoding is None and not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as fault:
            line = data.count(b"\n", 0, fault.start) + 1
            raise FedskewError(f"{path}: line {line} is not UTF-8; try --encoding latin-1") from None
    if not data or data.isspace():
        raise FedskewError(f"{path}: the file is empty")
    return data


def _header(path: Path, data: bytes, lines: Lines, delimiter: str) -> list[str]:
    if lines.open_quote is not None:
        raise FedskewError(
            f'{path}: line {lines.open_quote} opens a quote (") that is never closed; close or double it'
        )
    text = data[lines.starts[0] : lines.stops[0]].decode("utf-8")
    names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
    names = [name or f"column {i + 1}" for i, name in enumerate(names)]  # pandas writes its index under no name
    if len(names) == 1:
        for other, shown in ((";", "';'"), ("\t", "tab"), ("|", "'|'"), (",", "','")):
            if other in text and other != delimiter:
                raise FedskewError(f"{path}: the header is one column, {text!r:.80}; try --delimiter {shown}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise FedskewError(f"{path}: line 1 names the column {repeated[0]!r} twice; rename one of them")
    return names


def _regular(path: Path, data: bytes, lines: Lines, width: int, options: Options) -> tuple[bytes, list[Finding]]:
    """The rows below the header that have the header's width, and what to tell about the others."""
    findings = []
    first, fields = 1, lines.fields
    bad = (fields != width).nonzero()[0]
    bad = bad[bad >= first]
    if bad.size:
        row = int(bad[0])
        where = f"line {lines.numbers[row]} has {fields[row]} fields where the header has {width}"
        if options.on_bad_row != "skip":
            raise FedskewError(f"{path}: {where}; mend the line, or leave such rows out with --on-bad-row skip")
        text = f"{path.name}: {bad.size} ragged rows were left out (the first: {where})"
        findings.append(Finding(code="ragged_rows", severity="mild", text=text, count=int(bad.size)))
    if not data.endswith(b"\n"):
        text = f"{path.name}: the last line does not end; if the file was cut, its last value may be wrong"
        findings.append(Finding(code="cut_last_line", severity="mild", text=text, count=1))
    if not bad.size and not lines.blank:
        return data[lines.stops[0] :].lstrip(b"\r\n") if len(fields) > 1 else b"", findings
    keep = (fields == width).nonzero()[0]
    rows = [data[lines.starts[row] : lines.stops[row]] for row in keep[keep >= first].tolist()]
    return b"\n".join(rows), findings


def _parse(path: Path, data: bytes, header: list[str], delimiter: str) -> "pl.DataFrame":
    import polars as pl

    schema = dict.fromkeys(header, pl.String)
    if not data:
        return pl.DataFrame(schema=schema)
    try:
        return pl.read_csv(data, has_header=False, separator=delimiter, schema=schema)
    except pl.exceptions.PolarsError as fault:
        reason = str(fault).splitlines()[0]
        raise FedskewError(f"{path}: cannot be read as delimited text ({reason}); look at its quotes") from None


DELIMITED = Reader("CSV or TSV", (".csv", ".tsv", ".tab", ".txt"), read_delimited)

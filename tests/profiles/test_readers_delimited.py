"""CSV and TSV: each kind of dirt has one exact outcome."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedskew.profiles import FedskewError
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.delimited import read_delimited
from fedskew.profiles.readers.lines import scan_lines

ROWS = "x,c,y\n1,a,n\n2,b,n\n"


def written(folder: Path, content: str | bytes, name: str = "silo.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    return read_delimited(path, Options(**options)).frame.rows()


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        ROWS.replace("\n", "\r\n"),
        ROWS.replace("\n", "\r"),
        b"\xef\xbb\xbf" + ROWS.encode(),
        ROWS.replace("\n", "\n\n"),
        ROWS + "\n\n",
        ROWS.replace("x,c,y", " x , c,y "),
        ROWS.replace("1,a", '"1","a"'),
    ],
    ids=["plain", "crlf", "old mac", "bom", "blank lines", "blank end", "spaces in header", "quotes"],
)
def test_harmless_differences_read_the_same(tmp_path: Path, content: Any) -> None:
    table = read_delimited(written(tmp_path, content), Options())
    assert table.frame.columns == ["x", "c", "y"]
    assert table.frame.rows() == [("1", "a", "n"), ("2", "b", "n")]
    assert table.findings == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROWS + "3,c\n" + ROWS, "line 4 has 2 fields where the header has 3"),
        ("x,c,y\n\n1,a,n,9\n", "line 3 has 4 fields where the header has 3"),
        ('x,c,y\n1,"a\nb",n\n1,2\n', "line 4 has 2 fields where the header has 3"),
        (ROWS + '3,"c,n\n' + ROWS, "line 4 opens a quote"),
        (ROWS + '3,"c,n\n4,"d",n\n5,"e",n\n', "line 4 opens a quote"),
        (ROWS + '3,"c ""q"" ,n\n4,"d",n\n', "line 4 opens a quote"),
        ('x,c,y\n1,"a",n\n2,"b\n', "line 3 opens a quote"),
        (ROWS + "3,\0,n\n", "line 4 holds a NUL byte"),
        (ROWS.encode("utf-16"), "is UTF-16, not UTF-8; try --encoding utf-16"),
        (ROWS.encode("utf-16-be"), "line 1 holds a NUL byte; if the file is UTF-16"),
        ((ROWS + "3,é,n\n").encode("latin-1"), "line 4 is not UTF-8; try --encoding latin-1"),
        ("x,c,x\n1,a,n\n", "line 1 names the column 'x' twice"),
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        (ROWS.replace(",", ";"), "try --delimiter ';'"),
        (ROWS.replace(",", "\t"), "try --delimiter tab"),
    ],
)
def test_dirt_is_one_line_that_names_file_and_line(tmp_path: Path, content: Any, message: Any) -> None:
    path = written(tmp_path, content)
    with pytest.raises(FedskewError) as caught:
        read_delimited(path, Options())
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_ragged_rows_are_skipped_and_counted_when_asked(tmp_path: Path) -> None:
    table = read_delimited(written(tmp_path, "x,c,y\n1,a,n\n2,b\n3,c,n,4\n5,d,n\n"), Options(on_bad_row="skip"))
    assert table.frame.rows() == [("1", "a", "n"), ("5", "d", "n")]
    assert [(f.code, f.count) for f in table.findings] == [("ragged_rows", 2)]
    assert "line 3" in table.findings[0].text


def test_a_last_line_without_an_end_is_read_and_noticed(tmp_path: Path) -> None:
    table = read_delimited(written(tmp_path, ROWS + "2.,b,n"), Options())
    assert table.frame.rows()[-1] == ("2.", "b", "n")
    assert [f.code for f in table.findings] == ["cut_last_line"]


def test_encoding_and_delimiter_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, "x;c\n1;é\n".encode("latin-1"))
    assert rows_of(path, encoding="latin-1", delimiter=";") == [("1", "é")]
    assert rows_of(written(tmp_path, "x;c\n1;é\n".encode("utf-16")), encoding="utf-16", delimiter=";") == [("1", "é")]
    assert rows_of(written(tmp_path, "x\tc\n1\t2\n", "silo.tsv")) == [("1", "2")]
    assert rows_of(written(tmp_path, "x\tc\n1\t2\n"), delimiter="tab") == [("1", "2")]


@pytest.mark.parametrize("options", [{"delimiter": "ab"}, {"delimiter": '"'}, {"encoding": "klingon"}])
def test_an_impossible_option_is_refused(tmp_path: Path, options: Any) -> None:
    with pytest.raises(FedskewError):
        rows_of(written(tmp_path, ROWS), **options)


def test_a_header_without_rows_is_a_table_without_rows(tmp_path: Path) -> None:
    table = read_delimited(written(tmp_path, "x,c\n"), Options())
    assert (table.frame.height, table.frame.columns) == (0, ["x", "c"])


def test_a_column_without_a_name_gets_its_number(tmp_path: Path) -> None:
    assert read_delimited(written(tmp_path, ",c\n0,a\n"), Options()).frame.columns == ["column 1", "c"]


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6)


@given(st.integers(2, 4).flatmap(lambda width: st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1)))
def test_what_pythons_csv_module_writes_is_read_back(tmp_path_factory: Any, table: Any) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[f"c{i}" for i in range(len(table[0]))], *table])
    path = written(tmp_path_factory.mktemp("csv"), text.getvalue())
    found = [["" if value is None else value for value in row] for row in rows_of(path)]
    assert table == found


@given(st.lists(st.lists(st.text('ab,\n"', max_size=5), min_size=1, max_size=4), min_size=1), st.integers(1, 40))
def test_rows_are_found_as_pythons_csv_module_finds_them(table: Any, block: Any) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedskew.profiles.readers.lines.BLOCK", block)  # many blocks, cut anywhere
        found = scan_lines(text.getvalue().encode(), ",")
    assert [len(row) for row in table] == found.fields.tolist()
    lines = [1 + sum(value.count("\n") for row in table[:i] for value in row) + i for i in range(len(table))]
    assert lines == found.numbers.tolist()

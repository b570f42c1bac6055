"""Two readers behind one function: the same batches, the same bytes; and who reads what."""

import sys

import numpy as np
import polars as pl
import pytest
from tests.profiles.test_sketch_scan import written

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.readers.base import Options
from fedskew.profiles.sketching import batches
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.file import encoded
from fedskew.profiles.sketching.plan import make_plan
from fedskew.profiles.sketching.scanning import scan_file

WANTED = Wanted("y", "site")
ENDINGS = [".parquet", ".csv", ".tsv", ".arrow"]
needs_pyarrow = pytest.mark.usefixtures("pyarrow")


@pytest.fixture
def pyarrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is optional: pip install 'fedskew[arrow]'")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Many batches, many pieces that do not divide them, and text that is streamed however short."""
    monkeypatch.delenv("FEDSKEW_READER", raising=False)
    monkeypatch.setattr(batches, "ROWS", 257)
    monkeypatch.setattr(batches, "PIECE", 100)
    monkeypatch.setattr(batches, "MOST_WHOLE", 10)


def table(rows: int = 1500) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "a": rng.standard_normal(rows),
            "site": [f"s{p}" for p in rng.integers(0, 3, rows)],
            "b": (45 + 0.03 * rng.standard_normal(rows)).astype(np.float32),
            "color": rng.choice(["red", "blue, green", 'say "no"', "NA"], rows),
            "y": rng.choice(["no", "yes", "NA"], rows),
            "flag": rng.integers(0, 2, rows),
            "day": pl.Series(["2020-01-01"] * rows).str.to_date(),
        }
    ).with_columns(
        a=pl.when(pl.int_range(rows) % 11 == 0).then(None).otherwise(pl.col("a")),
        b=pl.when(pl.int_range(rows) % 13 == 0).then(float("nan")).otherwise(pl.col("b")),
        site=pl.when(pl.int_range(rows) % 17 == 0).then(None).otherwise(pl.col("site")),
    )


@needs_pyarrow
@pytest.mark.parametrize("ending", ENDINGS)
def test_both_readers_give_the_same_bytes_in_both_rounds(tmp_path, ending):
    path = written(tmp_path, table(), ending)
    one, other = (scan_file(path, WANTED, reader=reader) for reader in ("polars", "pyarrow"))
    assert encoded(one) == encoded(other)
    plan = make_plan(one)
    key = b"0123456789abcdef"
    one, other = (scan_file(path, WANTED, plan, hash_key=key, reader=reader) for reader in ("polars", "pyarrow"))
    assert encoded(one) == encoded(other)


@needs_pyarrow
@pytest.mark.parametrize("ending", ENDINGS)
def test_both_readers_give_the_same_batches(tmp_path, ending):
    frame = table()
    path = written(tmp_path, frame, ending)
    for reader in ("polars", "pyarrow"):
        found = list(
            batches.iter_batches(
                path,
                ["y", "a"],
                ["y"],
                Options(),
                tell=print,
                way="text",
                reader=reader,
            )
        )
        assert [batch.height for batch in found] == [257] * 5 + [215]
        assert [batch.columns for batch in found] == [["a", "y"]] * 6
        text = pl.concat(found).select(pl.all().cast(pl.String))
        assert text.equals(frame.select(pl.col("a", "y").cast(pl.String)))


@needs_pyarrow
def test_what_polars_cannot_open_is_read_with_pyarrow(tmp_path, pyarrow):
    frame = table()
    stream = tmp_path / "stream.arrow"  # as `datasets` saves them: a stream, not a file of batches
    with pyarrow.ipc.new_stream(str(stream), frame.to_arrow().schema) as sink:
        sink.write_table(frame.to_arrow(), max_chunksize=400)
    with pytest.raises(FedskewError, match="cannot be read"):
        scan_file(stream, WANTED, reader="polars")
    assert batches.chosen(stream, Options(), None) == "pyarrow"
    assert encoded(scan_file(stream, WANTED)) == encoded(scan_file(written(tmp_path, frame, ".arrow"), WANTED))


@needs_pyarrow
def test_the_variable_chooses_the_reader(tmp_path, monkeypatch):
    path = written(tmp_path, table(), ".parquet")
    monkeypatch.setenv("FEDSKEW_READER", "pyarrow")
    assert batches.chosen(path, Options(), None) == "pyarrow"
    monkeypatch.setattr(batches, "_polars_pieces", None)  # whoever calls it fails
    assert len(scan_file(path, WANTED)) == 3


@needs_pyarrow
@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_what_pyarrow_cannot_read_is_told_in_one_line(tmp_path, ending):
    path = written(tmp_path, table(), ending)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if ending != ".csv" else data + b"one,two,three\n")
    with pytest.raises(FedskewError, match="pyarrow cannot read it") as found:
        scan_file(path, WANTED, reader="pyarrow")
    assert "\n" not in str(found.value)


def test_polars_is_the_reader_where_nothing_is_asked(tmp_path):
    for ending in ENDINGS:
        assert batches.chosen(written(tmp_path, table(), ending), Options(), None) == "polars"


def test_another_reader_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSKEW_READER", "duckdb")
    with pytest.raises(FedskewError, match="polars, pyarrow or auto"):
        scan_file(written(tmp_path, table(), ".parquet"), WANTED)


def test_a_missing_pyarrow_is_told_with_what_installs_it(tmp_path, monkeypatch):
    path = written(tmp_path, table(), ".parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(EnvironmentFaultError, match=r"pip install 'fedskew\[arrow\]'"):
        scan_file(path, WANTED, reader="pyarrow")
    torn = tmp_path / "torn.arrow"
    torn.write_bytes(b"no batches at all")
    with pytest.raises(FedskewError, match="cannot be read"):  # the fault of Polars, not that of its stand-in
        scan_file(torn, WANTED)


@pytest.mark.parametrize("rows", [256, 257, 258, 514, 1500])
@pytest.mark.parametrize("groups", [50, 257, 400, 5000])
def test_batches_are_as_long_whatever_the_row_groups(tmp_path, rows, groups):
    path = tmp_path / "all.parquet"
    frame = table(rows)
    frame.write_parquet(path, row_group_size=groups)
    found = list(batches.iter_batches(path, ["y", "a"], ["y"], Options(), tell=print))
    assert [batch.height for batch in found] == [257] * (rows // 257) + [rows % 257] * (rows % 257 > 0)
    assert pl.concat(found).equals(frame.select("a", "y"))


def test_a_class_called_na_is_a_class_in_a_streamed_text_file_too(tmp_path, monkeypatch):
    path = written(tmp_path, table().with_columns(site=pl.lit("all")), ".csv")
    streamed = scan_file(path, WANTED)
    monkeypatch.setattr(batches, "MOST_WHOLE", 2**20)
    assert scan_file(path, WANTED) == streamed
    assert [cells.name for cells in streamed[0].classes] == ["NA", "no", "yes"]


def as_text() -> pl.DataFrame:
    """A float and a whole-number column, both as text."""
    rng = np.random.default_rng(1)
    site, label = rng.integers(0, 3, 1200).astype(str), rng.integers(0, 2, 1200).astype(str)
    one = {"x": rng.standard_normal(1200).round(6).astype(str), "k": rng.integers(0, 4, 1200).astype(str)}
    return pl.DataFrame({"site": site, "y": label} | one)


def broken(column: str, word: str, at: int) -> pl.DataFrame:
    """The table with one field replaced."""
    return as_text().with_columns(
        pl.when(pl.int_range(1200) == at).then(pl.lit(word)).otherwise(pl.col(column)).alias(column)
    )


@pytest.mark.parametrize("at", [3, 1100])  # among the rows from which types are guessed, and after them
@pytest.mark.parametrize(
    ("column", "word", "ways"),
    [
        ("x", "", "plain"),
        ("x", "NA", "plain missing"),
        ("k", "?", "plain missing"),
        ("x", "NaN", "plain"),
        ("x", "inf", "plain"),
        ("k", "2.5", "plain"),
        ("k", "many", "plain missing text text"),  # the last one knows that it is no number
        ("y", "NA", "plain"),
        ("site", "", "plain"),
    ],
)
def test_however_a_text_file_is_read_the_sketch_is_that_of_all_text(tmp_path, monkeypatch, column, word, ways, at):
    path = written(tmp_path, broken(column, word, at), ".csv")
    monkeypatch.setattr(batches, "INFERRED", 50)
    ways_taken, pieces = [], batches._polars_pieces

    def watched(path, columns, names, delimiter, way):
        ways_taken.append(way)
        return pieces(path, columns, names, delimiter, way)

    def all_text(path, columns, names, delimiter, way):
        return pieces(path, columns, names, delimiter, "text")

    monkeypatch.setattr(batches, "_polars_pieces", watched)
    found = scan_file(path, WANTED)
    if at > 50:
        assert ways_taken == ways.split()
    monkeypatch.setattr(batches, "_polars_pieces", all_text)
    assert encoded(found) == encoded(scan_file(path, WANTED))


def test_reading_leaves_the_environment_as_it_was(tmp_path, monkeypatch):
    path = written(tmp_path, table(), ".parquet")
    mine, other, *_ = batches.AHEAD
    monkeypatch.setenv(mine, "7")
    monkeypatch.delenv(other, raising=False)
    scan_file(path, WANTED)
    import os

    assert os.environ[mine] == "7"
    assert other not in os.environ

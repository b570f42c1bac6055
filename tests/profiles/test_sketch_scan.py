"""Scanning files batch by batch gives the sketches of the rows, whatever the format and the size of a batch."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from fedskew.profiles import make_plan, read_table, sketch
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.histogram import bin_numbers
from fedskew.profiles.sketching import batches
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.file import decoded, encoded
from fedskew.profiles.sketching.pool import pool
from fedskew.profiles.sketching.scanning import scan_file

WANTED = Wanted("y", "site")


def table(rows: int = 3000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    party = rng.integers(0, 4, rows)
    return pl.DataFrame(
        {
            "site": [f"s{p}" for p in party],
            "y": rng.choice(["no", "yes", "may"], rows),
            "a": np.round(rng.standard_normal(rows) + 0.3 * party, 3),
            "b": (45 + 0.03 * rng.standard_normal(rows)).astype(np.float32),
            "color": rng.choice(["red", "blue", "green"], rows, p=[0.5, 0.3, 0.2]),
            "flag": rng.integers(0, 2, rows),
        }
    ).with_columns(a=pl.when(pl.col("a") > 2).then(None).otherwise(pl.col("a")))


def written(tmp_path, frame: pl.DataFrame, ending: str):
    path = tmp_path / f"all{ending}"
    if ending == ".parquet":
        frame.write_parquet(path, row_group_size=330)
    elif ending == ".arrow":
        frame.write_ipc(path)
    else:
        frame.write_csv(path, separator="\t" if ending == ".tsv" else ",")
    return path


def assert_alike(scanned, made) -> None:
    """The same counts and bins; moments to rounding."""
    for one, other in zip(scanned, made, strict=True):
        assert (one.party, one.rows, len(one.classes)) == (other.party, other.rows, len(other.classes))
        for cells, wanted in zip(one.classes, other.classes, strict=True):
            assert (cells.name, cells.rows, cells.categorical) == (wanted.name, wanted.rows, wanted.categorical)
            assert cells.numeric.keys() == wanted.numeric.keys()
            for name, cell in cells.numeric.items():
                np.testing.assert_allclose(cell.moments, wanted.numeric[name].moments, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_a_scan_in_small_batches_is_the_sketch_of_the_rows(tmp_path, monkeypatch, ending):
    path = written(tmp_path, table(), ending)
    rows = read_table(path, label="y", party="site")
    monkeypatch.setattr(batches, "ROWS", 257)
    scanned = scan_file(path, WANTED)
    assert decoded(encoded(scanned)) == scanned
    assert_alike(scanned, sketch(rows))
    plan = make_plan(scanned)
    assert plan.columns == make_plan(sketch(rows)).columns
    for one, other in zip(scan_file(path, WANTED, plan), sketch(rows, plan), strict=True):
        for cells, wanted in zip(one.classes, other.classes, strict=True):
            assert cells.kernel is not None
            assert wanted.kernel is not None
            assert cells.kernel.rows == wanted.kernel.rows
            sums, second = np.frombuffer(cells.kernel.sums), np.frombuffer(cells.kernel.second)
            np.testing.assert_allclose(sums, np.frombuffer(wanted.kernel.sums), atol=1e-6)
            np.testing.assert_allclose(second, np.frombuffer(wanted.kernel.second), atol=1e-6)


def test_large_text_files_are_streamed_to_the_same_sketch(tmp_path, monkeypatch):
    path = written(tmp_path, table(), ".csv")
    whole = scan_file(path, WANTED)
    monkeypatch.setattr(batches, "MOST_WHOLE", 10)
    assert scan_file(path, WANTED) == whole


def test_histograms_are_those_of_a_loop_over_values(tmp_path):
    frame = table(500)
    path = written(tmp_path, frame, ".parquet")
    for one in scan_file(path, WANTED):
        bits = next(head.bits for head in one.columns if head.name == "b")
        for cells in one.classes:
            value = frame.filter(pl.col("site") == one.party, pl.col("y") == cells.name)["b"].to_numpy()
            numbers, counts = np.unique(bin_numbers(value, bits), return_counts=True)
            assert cells.numeric["b"].bins == tuple(numbers.tolist())
            assert cells.numeric["b"].counts == tuple(counts.tolist())


@pytest.mark.parametrize("streamed", [False, True])
def test_text_after_many_numbers_makes_the_column_text(tmp_path, monkeypatch, streamed):
    frame = table(400).with_columns(odd=pl.Series(["1", "2"] * 198 + ["x", "y", "x", "y"]))
    path = written(tmp_path, frame, ".csv")
    monkeypatch.setattr(batches, "ROWS", 50)
    monkeypatch.setattr(batches, "INFERRED", 20)
    if streamed:
        monkeypatch.setattr(batches, "MOST_WHOLE", 10)
    found = scan_file(path, WANTED)
    assert {head.name: head.kind for head in found[0].columns}["odd"] == "categorical"
    assert sum(sum(c.categorical["odd"].values()) for one in found for c in one.classes) == 400


def test_ids_dates_row_numbers_and_free_text_never_leave_the_silo(tmp_path):
    frame = table(300).with_columns(
        number=pl.int_range(300),
        day=pl.Series([f"2020-01-{1 + i % 28:02d}" for i in range(300)]),
        note=pl.Series([f"canary-{i}" for i in range(300)]),
    )
    path = written(tmp_path, frame, ".csv")
    found = scan_file(path, WANTED)
    kinds = {head.name: (head.kind, head.reason) for head in found[0].columns}
    assert kinds["number"] == ("unused", "row_number")
    assert kinds["day"] == ("unused", "dates")
    assert kinds["note"] == ("unused", "many_texts")
    data = encoded(found)
    for secret in (b"canary", b"2020-01", b"all.csv", str(tmp_path).encode()):
        assert secret not in data


def test_missing_labels_and_infinite_values_are_counted(tmp_path):
    frame = table(200).with_columns(
        y=pl.when(pl.int_range(200) % 10 == 0).then(None).otherwise(pl.col("y")),
        b=pl.when(pl.int_range(200) % 7 == 0).then(float("inf")).otherwise(pl.col("b")),
    )
    found = scan_file(written(tmp_path, frame, ".parquet"), WANTED)
    assert sum(one.unlabelled for one in found) == 20
    assert sum(one.rows for one in found) == 180
    held = sum(cells.numeric["b"].n for one in found for cells in one.classes)
    assert held == frame.filter(pl.col("y").is_not_null(), pl.col("b").is_finite()).height


def test_a_column_that_names_the_party_is_not_used(tmp_path):
    frame = table(300).with_columns(code=pl.col("site").str.slice(1).cast(pl.Int64) * 10)
    together = pool(scan_file(written(tmp_path, frame, ".parquet"), WANTED))
    assert "code" not in {column.name for column in together.columns}
    assert "names_the_party" in {finding.code for finding in together.findings}


def test_what_cannot_be_scanned_is_told_in_one_line(tmp_path):
    path = written(tmp_path, table(300), ".parquet")
    for wanted, match in (
        (Wanted("nope"), "has no label column 'nope'"),
        (Wanted("y", "nope"), "has no party column"),
        (Wanted("y", "site", drop=("nope",)), "has no column 'nope'"),
        (Wanted("y", "y"), "both the label and the party"),
        (Wanted("b", "site"), "continuous"),
    ):
        with pytest.raises(FedskewError, match=match) as found:
            scan_file(path, wanted)
        assert "\n" not in str(found.value)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FedskewError):
        scan_file(cut, WANTED)
    ids = tmp_path / "ids.parquet"
    table(300).with_columns(y=pl.int_range(300).cast(pl.String)).write_parquet(ids)
    with pytest.raises(FedskewError, match="looks like an id"):
        scan_file(ids, WANTED)


def test_histograms_over_the_budget_are_refused(tmp_path):
    path = written(tmp_path, table(300), ".parquet")
    with pytest.raises(EnvironmentFaultError, match="need more than 0 MB"):
        scan_file(path, WANTED, budget=1000)


def test_sketching_needs_neither_torch_nor_scipy_nor_pandas(tmp_path):
    path = written(tmp_path, table(300), ".csv")
    code = f"""
import sys
for name in ("torch", "scipy", "pandas", "matplotlib", "jinja2", "safetensors"):
    sys.modules[name] = None
sys.argv = ["fedskew", "sketch", {str(path)!r}, "--label", "y", "--party", "site"]
sys.argv += ["--out", {str(tmp_path / "s.json")!r}]
from fedskew.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(decoded((tmp_path / "s.json").read_bytes())) == 4

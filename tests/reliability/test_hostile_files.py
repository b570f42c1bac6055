"""Faults 13 to 18: files made to do harm, or damaged, end in one line; no crash, no hang, no code, no write outside."""

import gzip
import io
import json
import os
import random
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedskew.advisor import recommend
from fedskew.advisor.arguments import written_profile
from fedskew.advisor.reporting import read_report
from fedskew.engine import Validation, validate
from fedskew.profiles import FedskewError, Profile, make_partition, partition_source, profile, read_table
from fedskew.profiles.index_file import load_index
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.delimited import read_delimited
from fedskew.profiles.readers.npz import read_npz

SEED = 20261130


def toy() -> Any:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    return make_partition(rng.normal(size=(120, 3)) + y[:, None], y, np.repeat(list("abcd"), 30))


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """What the commands write as JSON, by name."""
    made = profile(toy())
    trained = validate(toy(), ["fedavg", "fedprox"], rounds=2, seeds=2, jobs=1, model="linear", tuning=False)
    return {"profile": made.to_json(), "advice": recommend(made).to_json(), "validation": trained.to_json()}


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a JSON document stands."""
    if at:
        yield at
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*at, key))


ABSURD: list[Any] = [None, -1, 0, 10**18, 2**63, 2**53 + 1, 1e308, -1e308, 0.5, "", "x" * 2000, [], {}, [1], True]


def mutated(text: str, rng: random.Random) -> str:
    """The document with one value deleted, doubled or made absurd."""
    whole = json.loads(text)
    *path, last = rng.choice(list(places(whole)))
    node = whole
    for key in path:
        node = node[key]
    kind = rng.randrange(4)
    if kind == 0:
        del node[last]
    elif kind == 1 and isinstance(node, list):
        node.append(node[last])
    else:
        node[last] = rng.choice(ABSURD)
    return json.dumps(whole)


@pytest.mark.parametrize("name", ["profile", "advice", "validation"])
def test_a_written_answer_with_one_absurd_value_is_used_or_refused_and_nothing_else(
    name: str, written: dict[str, str]
) -> None:
    rng, refused = random.Random(SEED), 0
    for _ in range(120):
        try:
            found = read_report(mutated(written[name], rng))
            if found.data is not None:
                recommend(found.data)
            found.tables()
        except FedskewError:
            refused += 1
    assert refused > 20


BROKEN_JSON = {
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000,
    "not a number": b'{"schema": NaN}',
    "infinite": b'{"schema": 1e999}',
    "long integer": b'{"parties": ' + b"9" * 100_000 + b"}",
    "not UTF-8": b'{"schema": "\xff\xfe"}',
    "cut": b'{"schema": "fedskew-profile/1", "par',
    "another schema": b'{"schema": "fedskew-profile/99"}',
    "a list": b"[1, 2]",
    "nothing": b"{}",
    "trailing": b'{"schema": "fedskew-profile/1"} {}',
}


@pytest.mark.parametrize("content", BROKEN_JSON.values(), ids=BROKEN_JSON.keys())
def test_json_that_is_no_answer_is_refused_in_one_line_wherever_it_is_read(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    readers: list[Any] = [lambda: load_index(path), lambda: read_table(path, label="y")]
    if not content.startswith(b'{"a":{"a"'):  # there a RecursionError, which the command line tells in one line
        readers.append(lambda: read_report(content))
    for read in readers:
        with pytest.raises(FedskewError) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1500
    try:
        assert written_profile([path]) is None
    except FedskewError as fault:
        said = str(fault)
        assert "\n" not in said
    for kind in (Profile, Validation):
        with pytest.raises((ValueError, RecursionError)):
            kind.from_json(content)


def test_the_command_line_refuses_json_nested_without_end_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(BROKEN_JSON["deep objects"])
    for words in (["report", "a.json", "--quiet"], ["recommend", "a.json"], ["profile", "a.json", "--label", "y"]):
        command = [sys.executable, "-m", "fedskew", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr[-500:]


def test_a_profile_that_contradicts_itself_is_refused(written: dict[str, str]) -> None:
    for key, value in (("parties", 5), ("classes", 2), ("party_names", ["a"]), ("counts", [[1]])):
        whole = json.loads(written["profile"]) | {key: value}
        with pytest.raises(FedskewError, match="do not fit"):
            read_report(json.dumps(whole))


def test_an_index_with_one_absurd_value_is_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    frame = pl.DataFrame({"x": np.arange(60) % 7, "y": np.arange(60) % 2})
    frame.write_csv(tmp_path / "t.csv")
    partition_source(
        tmp_path / "t.csv", "iid", tmp_path / "i.json", reading={"label": "y"}, parameters={"num_partitions": 3}
    )
    text = (tmp_path / "i.json").read_text()
    refused = 0
    for _ in range(150):
        (tmp_path / "m.json").write_text(mutated(text, rng))
        try:
            assert load_index(tmp_path / "m.json").rows <= 60
        except FedskewError as fault:
            said = str(fault)
            assert "\n" not in said
            refused += 1
    assert refused > 50


def test_an_index_that_names_files_elsewhere_reads_nothing_but_tables(tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text(
        json.dumps(
            {
                "schema": "fedskew-index/1", "strategy": "natural", "parameters": {}, "seed": 1,
                "source": ["../../../../../../../../etc/passwd"], "reading": {"label": "y"}, "rows": 2,
                "unassigned": 0, "data_hash": "", "parties": {"a": [0], "b": [1]},
            }
        )
    )  # fmt: skip
    with pytest.raises(FedskewError, match=r"passwd: unknown kind of file|no such file") as caught:
        load_index(tmp_path / "i.json")
    assert "root:" not in str(caught.value)


def test_a_parquet_file_with_flipped_bytes_is_read_or_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame({"x": np.arange(200.0), "y": ["u", "v"] * 100, "p": ["a"] * 100 + ["b"] * 100})
    frame.write_parquet(path)
    whole, refused = path.read_bytes(), 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 4])):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            read_table(path, label="y", party="p")
        except FedskewError as fault:
            said = str(fault)
            assert "\n" not in said
            refused += 1
    assert refused > 20
    capfd.readouterr()  # polars may tell of a panic of its own on stderr


def test_a_csv_with_flipped_bytes_is_read_or_refused_with_its_line(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    whole = b"y,p,x,note\n" + b"".join(
        b'u%d,%s,%d.5,"a ""b"", c"\n' % (i % 2, b"ab"[i % 2 :][:1], i) for i in range(30)
    )
    refused = 0
    for trial in range(300):
        data = bytearray(whole)
        data[rng.randrange(len(data))] = rng.choice(b'\x00",\n\r;\xff\t\x1b=') if trial % 2 else rng.randrange(256)
        (tmp_path / "t.csv").write_bytes(data[: rng.randrange(1, len(data))] if trial % 5 == 0 else data)
        try:
            read_table(tmp_path / "t.csv", label="y", party="p")
        except FedskewError as fault:
            said = str(fault)
            assert said.isprintable(), said
            refused += 1
    assert refused > 50


def test_bombs_are_refused_before_they_unfold(tmp_path: Path) -> None:
    began = time.process_time()
    zeros = bytes(120_000_000)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (len(zeros) // 8, 1)}
    )
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x.npy", header.getvalue() + zeros)
        archive.writestr("y.npy", b"")
    with pytest.raises(FedskewError, match=r"unpacks to|over 200 times"):
        read_npz(tmp_path / "b.npz", Options())
    with zipfile.ZipFile(tmp_path / "n.npz", "w") as archive:  # archives within archives are no arrays
        archive.write(tmp_path / "b.npz", "x.npy")
    with pytest.raises(FedskewError, match=r"n\.npz"):
        read_npz(tmp_path / "n.npz", Options())
    (tmp_path / "t.svm").write_bytes(gzip.compress(b"1 1:1\n" + zeros, compresslevel=1))
    with pytest.raises(FedskewError, match=r"200 times|line 2"):
        read_table(tmp_path / "t.svm", partitioned=False)
    assert time.process_time() - began < 15


def test_a_pipe_a_device_and_a_loop_of_links_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    began = time.monotonic()
    for name in ("pipe.csv", "loop.csv", "device.csv", "nul\0.csv", "x" * 5000 + ".csv"):
        with pytest.raises(FedskewError) as caught:
            read_table(tmp_path / name, label="y", party="p")
        assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 5


HOSTILE = ["../../evil", "/etc/evil", "C:\\evil", "nul\\0", "a" * 5000, "\u202egnp.exe", "..", "~", "CON", "-rf"]


def test_party_names_are_no_paths_wherever_silos_are_written(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"x": np.arange(100) % 7, "y": np.arange(100) % 2, "p": [n for n in HOSTILE for _ in range(10)]}
    )
    (tmp_path / "in").mkdir()
    frame.write_parquet(tmp_path / "in" / "t.parquet")
    made = partition_source(
        tmp_path / "in" / "t.parquet", "natural", tmp_path / "in" / "i.json", write_silos=tmp_path / "in" / "silos",
        reading={"label": "y"}, parameters={"column": "p"},
    )  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"t.parquet", "i.json", "silos"}
    assert all(path.name.startswith("silo-") for path in (tmp_path / "in" / "silos").iterdir())
    assert sum(made.sizes.values()) == 100
    again = read_table(tmp_path / "in" / "silos", label="y", party="party")
    assert set(again.party_names) == set(load_index(tmp_path / "in" / "i.json").party_names)


def test_a_cell_that_a_spreadsheet_would_run_is_disarmed_and_negative_numbers_survive() -> None:
    names = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\tx", "\rx", "plain"]
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 140)
    party = np.repeat(names, 20)
    text = read_report(profile(make_partition(rng.normal(size=(140, 2)), y, party)).to_json()).to_csv("parties")
    cells = [cell.strip('"') for line in text.splitlines()[1:] for cell in line.split(",")]
    for cell in cells:
        if cell.startswith(("=", "+", "@", "\t", "\r", "-")):
            assert cell[0] == "-"
            float(cell)
    assert "'=1+1" in text


def test_delimited_text_is_never_a_program(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y,p,x\n=cmd|x,a,1\n__import__('os').mkdir('ran'),b,2\n=cmd|x,b,3\n")
    frame = read_delimited(path, Options(label="y", party="p"))
    assert hasattr(frame, "frame")
    assert not (tmp_path / "ran").exists()

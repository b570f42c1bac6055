"""Parquet and Arrow files: types as declared, damage refused."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedskew.profiles import EnvironmentFaultError, FedskewError
from fedskew.profiles.readers import parquet as parquet_reader
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.parquet import read_columnar

FRAME = pl.DataFrame({"x": [1.5, None, 3.0], "y": ["a", "b", None]})


def test_parquet_and_both_arrow_forms_read_the_same(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "t.parquet")
    FRAME.write_ipc(tmp_path / "t.arrow")
    FRAME.write_ipc_stream(tmp_path / "t.ipc")
    for name in ("t.parquet", "t.arrow", "t.ipc"):
        assert FRAME.equals(read_columnar(tmp_path / name, Options()).frame)


def test_a_parquet_cut_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    FRAME.write_parquet(path)
    whole = path.read_bytes()
    for length in range(1, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FedskewError, match=r"t\.parquet") as caught:
            read_columnar(path, Options())
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_another_format_under_this_name_is_refused(tmp_path: Path, name: Any) -> None:
    (tmp_path / name).write_text("x,y\n1,2\n")
    with pytest.raises(FedskewError, match=name):
        read_columnar(tmp_path / name, Options())


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    pl.DataFrame().write_parquet(tmp_path / "t.parquet")
    with pytest.raises(FedskewError, match="no columns"):
        read_columnar(tmp_path / "t.parquet", Options())


def test_more_values_than_memory_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: Any) -> None:
    FRAME.write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr("fedskew.profiles.readers.base.available_memory", lambda: 40)
    with pytest.raises(EnvironmentFaultError, match="memory") as caught:  # 3 rows, 2 columns, 8 bytes: 48
        read_columnar(tmp_path / "t.parquet", Options())
    assert caught.value.exit_code == 3


def test_a_panic_of_polars_prints_nothing_and_stderr_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    FRAME.write_parquet(tmp_path / "t.parquet")

    def panics(path: Path) -> Any:
        os.write(2, b"thread '<unnamed>' panicked at crates/polars-parquet")
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr("fedskew.profiles.readers.parquet._declared", panics)
    with pytest.raises(FedskewError, match=r"t\.parquet: cannot be read \(index out of bounds\)"):
        read_columnar(tmp_path / "t.parquet", Options())
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_what_others_write_to_stderr_while_a_file_is_read_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    FRAME.write_parquet(tmp_path / "t.parquet")
    real = parquet_reader._declared

    def talks(path: Path) -> Any:
        os.write(2, b"a warning of another thread")
        return real(path)

    monkeypatch.setattr("fedskew.profiles.readers.parquet._declared", talks)
    assert FRAME.equals(read_columnar(tmp_path / "t.parquet", Options()).frame)
    assert capfd.readouterr().err == "a warning of another thread"


def test_mutated_files_are_read_or_refused_and_print_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.parquet"
    FRAME.write_parquet(path)
    whole, draw = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        data = bytearray(whole)
        data[draw.integers(4, len(data) - 8)] = draw.integers(256)
        path.write_bytes(data)
        try:
            read_columnar(path, Options())
        except FedskewError as fault:
            assert "\n" not in str(fault)  # noqa: PT017 - both outcomes are right
    assert capfd.readouterr().err == ""

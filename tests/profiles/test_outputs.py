"""Outputs are told apart from inputs, whatever the two are called."""

import os
from pathlib import Path

import pytest

from fedskew.profiles import partition_source, written
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.gathering import read_file
from fedskew.profiles.outputs import check_apart
from fedskew.profiles.readers.base import Options


@pytest.fixture
def silos(tmp_path: Path) -> Path:
    folder = tmp_path / "silos"
    folder.mkdir()
    for name in ("north", "south"):
        (folder / f"{name}.csv").write_text("age,sick\n1,y\n2,n\n3,y\n")
    return folder


def test_a_file_is_known_again_through_links_and_dots(silos):
    real = silos / "north.csv"
    link, hard = silos.parent / "link.csv", silos.parent / "hard.csv"
    link.symlink_to(real)
    os.link(real, hard)
    for one, other in ((silos / ".." / "silos" / "north.csv", real), (link, real), (real, link), (hard, real)):
        with pytest.raises(FedskewError, match="would be overwritten"):
            check_apart({"--json": one}, [other])


def test_a_file_in_a_folder_that_is_read_is_an_input(silos):
    with pytest.raises(FedskewError, match=r"--json .*north\.csv: lies in .*silos, which is read"):
        check_apart({"--json": silos / "north.csv"}, [silos])


def test_a_new_file_that_would_be_the_next_silo_is_refused(silos):
    with pytest.raises(FedskewError, match="the next run would read it as data"):
        check_apart({"--json": silos / "west.csv"}, [silos])


@pytest.mark.parametrize(("name", "text"), [("p.json", '{"schema": "fedskew-profile/1"}'), ("page.html", "<!doctype>")])
def test_an_answer_beside_the_data_may_be_written_anew(silos, name, text):
    check_apart({"--json": silos / name}, [silos])
    (silos / name).write_text(text)
    check_apart({"--json": silos / name}, [silos])


@pytest.mark.parametrize("text", ['{"schema": "fedskew-sketch/1"}', '{"users": []}', "no JSON"])
def test_json_that_may_be_data_is_not_written_over(silos, text):
    (silos / "s.json").write_text(text)
    with pytest.raises(FedskewError, match="lies in"):
        check_apart({"--json": silos / "s.json"}, [silos])


def test_two_outputs_are_two_places(silos):
    with pytest.raises(FedskewError, match="--html and --json are both"):
        check_apart({"--json": silos.parent / "x", "--html": silos / ".." / "x"}, [])


def test_partition_does_not_write_its_index_over_the_table(tmp_path):
    table = tmp_path / "t.npz"
    table.write_bytes(b"rows")
    with pytest.raises(FedskewError, match="would be overwritten"):
        partition_source(table, "iid", table)
    assert table.read_bytes() == b"rows"


def test_a_file_too_large_to_be_an_answer_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"schema": "fedskew-profile/1"}')
    assert written.kind_of(written.looked_into(path)) is not None
    monkeypatch.setattr(written, "LARGEST", 10)
    assert written.looked_into(path) == b""
    with pytest.raises(FedskewError, match="unknown kind of file"):
        read_file(path, Options())

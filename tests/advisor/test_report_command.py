"""--html on the commands, and the report command."""

import subprocess
import sys

import numpy as np
import pytest


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fedskew", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def silos(tmp_path_factory):
    path = tmp_path_factory.mktemp("silos") / "t.csv"
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    rows = [f"{v:.3f},{'yes' if v > 0 else 'no'},{'abc'[i % 3]}" for i, v in enumerate(x)]
    path.write_text("\n".join(["x,y,party", *rows]) + "\n")
    return path


def test_a_page_from_the_written_json_equals_the_page_written_at_once(silos, tmp_path):
    first, second, record = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "r.json"
    done = run(
        *("recommend", silos, "--label", "y", "--party", "party", "--json", record, "--html", first, "--quiet"),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run("report", record, "--html", second)
    assert done.returncode == 0, done.stderr
    assert first.read_bytes() == second.read_bytes()
    assert "<!doctype html>" in first.read_text()


def test_a_foreign_file_is_refused_in_one_line(silos, tmp_path):
    done = run("report", silos, "--html", tmp_path / "a.html")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "a.html").exists()


def test_a_page_that_cannot_be_written_is_the_machines_fault(silos, tmp_path):
    done = run("profile", silos, "--label", "y", "--party", "party", "--html", tmp_path / "no" / "a.html", "--quiet")
    assert done.returncode == 3
    assert "a.html" in done.stderr
    assert len(done.stderr.splitlines()) == 1

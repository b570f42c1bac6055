"""fedskew study on the command line: presets, one line for a mistake, a dry run, an interrupted study."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.small_study import study_toml

NOTE = "Made for a test."


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "fedskew", "study", *map(str, words)]


def study(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(study_toml(note=NOTE, rounds=2))
    return path


def test_presets_are_listed() -> None:
    assert study("--list").stdout.split() == [
        "baselines",
        "evidence",
        "paper-images",
        "paper-sensitivity",
        "paper-tabular",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a study file or a preset"),
        (("paper-tabular",), "--out DIR"),
        (("papertabular", "--dry-run"), "did you mean 'paper-tabular'"),
        (("paper-tabular", "--dry-run", "--scale", "row=5"), "did you mean 'rows'"),
        (("paper-tabular", "--dry-run", "--jobs", 0), "--jobs is 0"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words: tuple[object, ...], message: str) -> None:
    done = study(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr


@pytest.mark.slow
def test_a_dry_run_writes_nothing_and_a_run_prints_one_json_document(toml: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dry = study(toml, "--out", out, "--dry-run")
    assert dry.returncode == 0
    assert not out.exists()
    # 4 parties x 1 step x 2 rounds x 2 candidates
    assert "1 of 1 settings to do, 16 local steps" in dry.stdout
    done = study(toml, "--out", out, "--jobs", 1, "--json", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["finished"] == 1
    assert NOTE in done.stderr
    assert "[1/1] FCUBE, homo, 4 parties: fed" in done.stderr


@pytest.mark.kills
@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_study_ends_at_once_keeps_what_it_has_and_goes_on(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    path, out = tmp_path / "long.toml", tmp_path / "out"
    path.write_text(study_toml(note=NOTE, rounds=20_000))
    process = subprocess.Popen(command(path, "--out", out, "--jobs", 1), stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 120
    while not list(out.glob("runs/*/blobs/*")):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.1)
    os.kill(process.pid, number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == code
    assert "what was finished is kept" in told
    assert list(out.glob("runs/*/blobs/*"))
    assert not list(out.glob("settings/*"))

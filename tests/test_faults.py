"""Signals, full and read-only disks, memory: what was finished stays finished, and the exit code says what happened."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedskew.engine import pool, validate
from fedskew.profiles import EnvironmentFaultError, make_partition

pytestmark = pytest.mark.slow
OPTIONS: Any = {"rounds": 6, "seeds": 2, "local_epochs": 1, "lr": 0.1, "references": False, "tuning": False, "jobs": 1}


def table(rows=240, features=4, parties=6, classes=3):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    x = rng.normal(size=(rows, features)).astype(np.float32) + y[:, None]
    return make_partition(x, y, np.arange(rows) % parties)


def timeless(found):
    read = json.loads(found if isinstance(found, str) else found.to_json())
    for candidate in read["candidates"]:
        del candidate["seconds"], candidate["at_equal_seconds"]
    return read


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own: a function that mounts it again with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", folder], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("mounting a small disk needs root")

    def again(options):
        subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)

    yield folder, again
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.kills
def test_a_full_disk_loses_no_finished_round_and_the_run_goes_on_when_there_is_room(small_disk, monkeypatch):
    folder, again = small_disk
    monkeypatch.setattr(pool, "SECONDS", 0.0)
    expected = timeless(validate(table(features=400), ["scaffold"], **OPTIONS))
    with pytest.raises(EnvironmentFaultError, match=r"No space left|full") as caught:
        validate(table(features=400), ["scaffold"], run=folder / "run", **OPTIONS)
    assert caught.value.exit_code == 3
    again("size=64m")
    assert timeless(validate(table(features=400), ["scaffold"], run=folder / "run", **OPTIONS)) == expected


@pytest.mark.kills
def test_a_read_only_folder_is_refused_before_any_work(small_disk):
    folder, again = small_disk
    again("ro")
    began = time.monotonic()
    with pytest.raises(EnvironmentFaultError, match="Read-only"):
        validate(table(), ["fedavg"], run=folder / "run", **OPTIONS)
    assert time.monotonic() - began < 10


@pytest.mark.kills
def test_a_signal_ends_the_run_and_the_same_command_goes_on(tmp_path):
    data = table(rows=3000, features=30)
    frame = pl.DataFrame(data.features).with_columns(y=pl.Series(data.labels), p=pl.Series(data.party))
    frame.write_parquet(tmp_path / "t.parquet")
    command = [sys.executable, "-m", "fedskew", "validate", "t.parquet", "--label", "y", "--party", "p"]
    command += ["--task", "classification", "--jobs", "2", "--json", "-", "--quiet", "--no-tuning", "--seeds", "2"]
    command += ["--algorithms", "fedavg,scaffold", "--recommended", "fedavg", "--rounds", "60"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    answers = []
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        mine, states = [*command, "--run", f"run {code}"], f"run {code}/blobs/*.safetensors"
        process = subprocess.Popen(
            mine, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(6000):  # stored every two seconds; an idle machine trains for about eight
            if list(tmp_path.glob(states)) or process.poll() is not None:
                break
            time.sleep(0.01)
        process.send_signal(number)
        began = time.monotonic()
        out, err = process.communicate(timeout=60)
        assert process.returncode != 0, "finished before anything was stored: nothing was tested"
        assert process.returncode == code, err
        assert time.monotonic() - began < 15  # two seconds when nothing else runs
        assert out == ""
        assert "run the same command again" in err
        assert "Traceback" not in err
        done = subprocess.run(mine, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        answers.append(timeless(done.stdout)["candidates"])
    whole = validate(
        data, ["fedavg", "scaffold"], recommended="fedavg", jobs=1, tuning=False, rounds=60, seeds=2, run=None
    )
    assert answers == [timeless(whole)["candidates"]] * 2


def test_twenty_validations_in_one_process_leave_memory_where_it_was():
    def size():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    if not Path("/proc/self/statm").exists():
        pytest.skip("resident memory is read from /proc")
    for _ in range(3):
        validate(table(), ["fedavg", "scaffold"], **OPTIONS)
    before = size()
    for _ in range(20):
        validate(table(), ["fedavg", "scaffold"], **OPTIONS)
    assert size() - before < 20_000_000


def test_a_thousand_parties_stay_within_the_plan():
    code = """
import re, numpy as np
from pathlib import Path
from fedskew.engine import validate
from fedskew.profiles import make_partition
def peak_kb():  # not ru_maxrss, which a child inherits from the process that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
rng = np.random.default_rng(0)
y = rng.integers(0, 10, 20000)
table = make_partition(rng.normal(size=(20000, 784)).astype(np.float32), y, np.arange(20000) % 1000)
told = []
validate(table, ["fedavg", "scaffold"], rounds=4, seeds=1, local_epochs=1, participation=0.1, model="wide_mlp", jobs=1,
         max_rows=20000, references=False, tuning=False, announce=told.append)
print(told[0].bytes, peak_kb() * 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    planned, peak = map(int, done.stdout.split())
    assert peak <= planned

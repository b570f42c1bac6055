"""Interrupted anywhere, resumed: the same bytes; a killed worker costs a retry and nothing else."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from fedskew.engine import pool, validate
from fedskew.profiles import FedskewError, make_partition

OPTIONS: Any = {"rounds": 6, "seeds": 2, "local_epochs": 1, "lr": 0.1, "participation": 0.5}
SCRIPT = f"""
import sys, numpy as np
from fedskew import make_partition, validate
from fedskew.engine import pool
pool.SECONDS = 0.0
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 240)
table = make_partition(rng.normal(size=(240, 4)) + y[:, None], y, np.repeat(np.arange(6), 40))
found = validate(table, ["fedavg", "scaffold"], run=sys.argv[1], jobs=int(sys.argv[2]), **{OPTIONS!r})
print(found.to_json())
"""


def table(shift=0.0):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    x = rng.normal(size=(240, 4)) + y[:, None]
    x[0, 0] += shift
    return make_partition(x, y, np.repeat(np.arange(6), 40))


def timeless(found):
    read = json.loads(found if isinstance(found, str) else found.to_json())
    for candidate in read["candidates"]:
        del candidate["seconds"], candidate["at_equal_seconds"]
    return read


@pytest.fixture
def one_round_a_part(monkeypatch):
    monkeypatch.setattr(pool, "SECONDS", 0.0)


def test_parts_and_store_change_no_bit(tmp_path, one_round_a_part):
    plain = validate(table(), ["fedavg", "scaffold"], jobs=1, **OPTIONS)
    stored = validate(table(), ["fedavg", "scaffold"], jobs=1, run=tmp_path / "run", **OPTIONS)
    again = validate(table(), ["fedavg", "scaffold"], jobs=1, run=tmp_path / "run", **OPTIONS)
    assert timeless(plain) == timeless(stored)
    assert stored == again  # nothing trained anew: even the seconds are the stored ones


def test_a_run_cut_after_any_round_resumes_to_the_same_bytes(tmp_path, one_round_a_part, monkeypatch):
    expected = timeless(validate(table(), ["scaffold"], jobs=1, tuning=False, references=False, **OPTIONS))
    for cut in range(1, OPTIONS["rounds"]):
        calls = iter(range(100))
        work = pool._work

        def cut_off(*args, calls=calls, work=work, cut=cut):
            if next(calls) == cut:
                raise KeyboardInterrupt
            return work(*args)

        monkeypatch.setattr(pool, "_work", cut_off)
        folder = tmp_path / str(cut)
        with pytest.raises(KeyboardInterrupt):
            validate(table(), ["scaffold"], jobs=1, tuning=False, references=False, run=folder, **OPTIONS)
        monkeypatch.setattr(pool, "_work", work)
        resumed = validate(table(), ["scaffold"], jobs=1, tuning=False, references=False, run=folder, **OPTIONS)
        assert timeless(resumed) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 7},
        {"lr": 0.2},
        {"seeds": 3},
        {"participation": 1.0},
        {"model": "linear"},
        {"tuning": False},
        {"seed": 1},
    ],
)
def test_any_changed_option_is_refused(tmp_path, change):
    options = {**OPTIONS, "rounds": 1, "references": False, "jobs": 1}
    validate(table(), ["fedavg", "scaffold"], run=tmp_path, **options)
    with pytest.raises(FedskewError, match="another run"):
        validate(table(), ["fedavg", "scaffold"], run=tmp_path, **{**options, **change})


def test_a_changed_cell_or_torch_version_is_refused(tmp_path, monkeypatch):
    options = {**OPTIONS, "rounds": 1, "references": False, "jobs": 1, "run": tmp_path}
    validate(table(), ["fedavg", "scaffold"], **options)
    with pytest.raises(FedskewError, match="data was"):
        validate(table(shift=0.001), ["fedavg", "scaffold"], **options)
    monkeypatch.setattr("torch.__version__", "9.9.9")
    with pytest.raises(FedskewError, match=r"torch was .*, is 9\.9\.9"):
        validate(table(), ["fedavg", "scaffold"], **options)


def test_a_forced_resume_is_named_in_the_result_and_never_takes_other_rows(tmp_path):
    options = {**OPTIONS, "rounds": 1, "references": False, "jobs": 1, "run": tmp_path}
    validate(table(), ["fedavg", "scaffold"], **options)
    with pytest.raises(FedskewError, match=r"other rows.*cannot be forced"):
        validate(table(shift=0.001), ["fedavg", "scaffold"], force_resume=True, **options)
    found = validate(table(), ["fedavg", "scaffold"], force_resume=True, **{**options, "rounds": 2})
    assert "rounds was 1, is 2" in str(found.settings["forced_resumes"])
    fresh = validate(table(), ["fedavg", "scaffold"], **{**options, "rounds": 2, "run": tmp_path / "new"})
    assert "forced_resumes" not in fresh.settings
    assert timeless(found)["candidates"] == timeless(fresh)["candidates"]


@pytest.mark.parametrize(
    ("raised", "told", "code"),
    [
        ("RuntimeError('my own mistake')", "my own mistake", 2),
        ("MemoryError", "out of memory for two rows of model 'brokenmodel:make'", 3),
    ],
)
def test_a_user_model_that_raises_is_told_with_its_text(tmp_path, monkeypatch, raised, told, code):
    (tmp_path / "brokenmodel.py").write_text(
        "import torch\nclass M(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.w = torch.nn.Linear(4, 3)\n"
        f"    def forward(self, x):\n        raise {raised}\n"
        "def make(shape, outputs):\n    return M()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "brokenmodel", raising=False)
    with pytest.raises(FedskewError, match=told) as caught:
        validate(table(), ["fedavg"], model="brokenmodel:make", jobs=1, **OPTIONS)
    assert caught.value.exit_code == code


@pytest.mark.kills
@pytest.mark.slow
def test_a_worker_that_is_killed_costs_a_retry_and_no_bit(tmp_path):
    expected = timeless(validate(table(), ["fedavg", "scaffold"], jobs=1, **OPTIONS))
    killed: list[int] = []

    def kill_one(progress):
        if not killed:
            victims = _children(os.getpid())
            killed.extend(victims[:1])
            for pid in victims[:1]:
                os.kill(pid, signal.SIGKILL)

    found = validate(table(), ["fedavg", "scaffold"], jobs=2, run=tmp_path / "run", progress=kill_one, **OPTIONS)
    assert timeless(found) == expected


def _children(pid):
    """Processes started by one process that train (not the resource tracker)."""
    out = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line.split()[0]) for line in out.stdout.splitlines() if "spawn_main" in line]


@pytest.mark.kills
@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_gives_the_same_bytes(tmp_path):
    expected = timeless(validate(table(), ["fedavg", "scaffold"], jobs=1, **OPTIONS))
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    seed = 20261129
    rng = random.Random(seed)
    kills, done = 0, None
    for attempt in range(60):
        command = [sys.executable, str(script), str(tmp_path / "run"), str(1 + attempt % 2)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait = rng.uniform(2.0, 5.0) if kills < 5 else 120
        try:
            out, err = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            time.sleep(0.1)
            continue
        assert process.returncode == 0, err
        done = out
        break
    assert done is not None, f"seed {seed}"
    assert kills >= 1, "finished before the first kill: nothing was tested"
    assert timeless(done) == expected, f"seed {seed}"


KILLER = f"""
import json, os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np, torch
from fedskew import make_partition, validate
from fedskew.engine import pool, session
pool.SECONDS = 0.0
torch.set_num_threads(1)
folder, wanted, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng, kills, results, took = random.Random(seed), 0, [], 1.0
made = np.random.default_rng(0)
y = made.integers(0, 3, 240)
table = make_partition(made.normal(size=(240, 4)) + y[:, None], y, np.repeat(np.arange(6), 40))

def work(answer):
    found = validate(table, ["fedavg", "scaffold"], run=folder / "run", jobs=1, **{OPTIONS!r})
    answer.write_text(found.to_json())

number = 0
while kills < wanted or not results:
    number += 1
    answer = folder / f"answer-{{number}}.json"
    child, began = os.fork(), time.monotonic()
    if not child:
        work(answer)
        os._exit(0)
    until = began + (rng.uniform(0.0, 0.7 * took) if kills < wanted else 600.0)
    finished = False
    while not finished and time.monotonic() < until:
        time.sleep(0.002)
        finished = os.waitpid(child, os.WNOHANG)[0] == child
    if not finished:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
        continue
    results.append(json.loads(answer.read_text()))
    took = max(0.2, time.monotonic() - began) if len(results) == 1 else took
    shutil.rmtree(folder / "run")
print(json.dumps({{"kills": kills, "results": results}}))
"""


@pytest.mark.kills
@pytest.mark.slow
def test_killed_ever_again_at_random_moments_it_always_ends_in_the_same_bytes(tmp_path):
    """As many kills as FEDSKEW_KILLS says (25; ``make test-long``: 500), anywhere from the first line to the last."""
    expected = timeless(validate(table(), ["fedavg", "scaffold"], jobs=1, **OPTIONS))
    wanted, seed = int(os.environ.get("FEDSKEW_KILLS", "25")), 20261130
    script = tmp_path / "kill.py"
    script.write_text(KILLER)
    command = [sys.executable, str(script), str(tmp_path), str(wanted), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 + 20 * wanted)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == wanted
    assert found["results"]
    assert all(timeless(json.dumps(result)) == expected for result in found["results"]), f"seed {seed}"

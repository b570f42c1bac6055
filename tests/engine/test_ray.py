"""On a real Ray, started here and joined: the same bytes as on one machine, through dead workers and a lost head.

``make test-ray`` installs Ray and runs this; each start of Ray takes seconds, so there are as few as will do.
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_study import results_of, study_toml

from fedskew.engine import validate
from fedskew.engine.ray_pool import RayWorkers
from fedskew.profiles import EnvironmentFaultError, make_partition
from fedskew.profiles.partitions import Partition

MISSING = importlib.util.find_spec("ray") is None
pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING, reason="Ray is not installed: make test-ray")]

OPTIONS: Any = {"rounds": 6, "seeds": 2, "local_epochs": 1, "lr": 0.1, "participation": 0.5, "tuning": False}
NAMES = ["fedavg", "scaffold"]
MODEL = f"""
import os, signal, torch
def make(shape, outputs):
    if os.getpid() != {os.getpid()}:  # in a worker of Ray, and never in the process that asks
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.nn.Linear(shape[0], outputs)
"""


def table() -> Partition:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    return make_partition(rng.normal(size=(240, 4)) + y[:, None], y, np.repeat(np.arange(6), 40))


def timeless(found: Any) -> Any:
    read = json.loads(found if isinstance(found, str) else found.to_json())
    for candidate in read["candidates"]:
        del candidate["seconds"], candidate["at_equal_seconds"]
    return read


@pytest.fixture(scope="module")
def expected() -> Any:
    return timeless(validate(table(), NAMES, jobs=1, **OPTIONS))


@pytest.fixture(autouse=True)
def one_round_a_part_and_no_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedskew.engine.ray_pool.SECONDS", 0.0)
    monkeypatch.setattr("fedskew.engine.pool.SECONDS", 0.0)
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # whatever token this machine may hold


class Head:
    """A cluster of one machine, as ``ray start --head`` makes it; ended by its own process id."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        command = [
            *(sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block"),
            *("--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"),
            *("--disable-usage-stats", f"--temp-dir={folder}", "--object-store-memory=100000000"),
        ]
        self.folder, log = folder, folder / "said.txt"
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        until = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)

    def find(self, name: str) -> list[int]:
        """Processes of this head whose command line holds a name."""
        return [pid for pid, line in under(self.process.pid) if name in line]

    def stop(self) -> None:
        left = [pid for pid, _ in under(self.process.pid)]
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in left:
            kill(pid)
        shutil.rmtree(self.folder, ignore_errors=True)


def under(root: int) -> list[tuple[int, str]]:
    """All processes below one, with their command lines."""
    out = subprocess.run(["ps", "-ewwo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in out.splitlines()]
    found: list[tuple[int, str]] = []
    known = {root}
    while True:
        more = [(int(pid), line[0]) for pid, ppid, *line in rows if int(ppid) in known and int(pid) not in known]
        if not more:
            return found
        found += more
        known |= {pid for pid, _ in more}


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        started = Head(short())
    yield started
    started.stop()


def short() -> Path:
    """A folder whose name leaves room for those of Ray's sockets."""
    return Path(tempfile.mkdtemp(prefix="ray-"))


def cut_after(parts: int) -> Callable[[Any], None]:
    told = iter(range(1, 1000))

    def cut(progress: Any) -> None:
        if next(told) == parts:
            raise KeyboardInterrupt

    return cut


def test_a_run_begun_here_goes_on_on_a_ray_started_for_it_to_the_same_bytes(tmp_path: Path, expected: Any) -> None:
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        validate(table(), NAMES, jobs=1, run=run, progress=cut_after(4), **OPTIONS)
    found = validate(table(), NAMES, jobs=2, run=run, backend="ray", **OPTIONS)
    assert timeless(found) == expected
    assert not [line for _, line in under(os.getpid()) if "ray" in line], "it ends with the call"


def test_a_study_on_a_cluster_gives_the_bytes_of_a_local_one(tmp_path: Path, head: Head) -> None:
    from fedskew.advisor.study.reading import read_study
    from fedskew.advisor.study.run import Place
    from fedskew.advisor.study.session import run_study

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    np.savez(tmp_path / "blobs.npz", x=rng.normal(size=(240, 4)) + y[:, None], y=y)
    (tmp_path / "tiny.toml").write_text(
        'title = "Tiny"\n[defaults]\nrounds = 3\nlocal_epochs = 1\nseeds = 2\ncandidates = ["fedavg", "scaffold"]\n'
        '[data.blobs]\nsource = "blobs.npz"\n'
        '[[grid]]\ndata = "blobs"\npartition = "homo"\nparties = 4\nmodel = "linear"\n'
    )
    study = read_study(tmp_path / "tiny.toml", tmp_path, "")
    local = run_study(study, tmp_path / "here", jobs=1)
    there = run_study(study, tmp_path / "there", jobs=1, place=Place(backend="ray", address=head.address))
    assert (local.missing, there.missing, there.failed) == (0, 0, {})
    for path in (tmp_path / "here" / "settings").iterdir():
        assert path.read_bytes() == (tmp_path / "there" / "settings" / path.name).read_bytes()


def test_a_joined_cluster_gives_the_same_bytes_and_goes_on_for_others(expected: Any, head: Head) -> None:
    found = validate(
        table(), NAMES, backend="ray", address=head.address, **OPTIONS
    )  # without a folder: one part a trial
    assert timeless(found) == expected
    assert head.process.poll() is None
    assert head.find("raylet/raylet")


def test_a_worker_killed_in_mid_trial_costs_a_retry_and_no_bit(
    tmp_path: Path, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedskew.engine.ray_pool.SECONDS", 2.0)
    longer = {**OPTIONS, "rounds": 60, "local_epochs": 5}
    words: list[str] = []
    heard = RayWorkers._heard

    def listen(self: RayWorkers) -> Any:
        word = heard(self)
        words.append(word[0])
        return word

    def murder() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and "died" not in words:
            for pid in head.find("ray::run_task")[:1]:
                kill(pid)
                until = 0.0
            time.sleep(0.05)

    monkeypatch.setattr(RayWorkers, "_heard", listen)
    killer = threading.Thread(target=murder)
    killer.start()
    found = validate(table(), NAMES, run=tmp_path, backend="ray", address=head.address, **longer)
    killer.join()
    assert words.count("died") == 1
    assert timeless(found) == timeless(validate(table(), NAMES, jobs=1, **longer))


def test_a_model_that_kills_every_worker_is_an_error_after_three_tries(
    tmp_path: Path, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadlymodel.py").write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    options = {**OPTIONS, "references": False, "model": "deadlymodel:make", "run": tmp_path / "run"}
    with pytest.raises(EnvironmentFaultError, match="died 3 times while training fedavg"):
        validate(table(), ["fedavg"], backend="ray", address=head.address, **options)


def test_an_address_without_a_cluster_is_told_with_what_to_try(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFaultError, match=r"no Ray cluster can be joined at 127\.0\.0\.1:9.*ray status"):
        validate(table(), NAMES, backend="ray", address="127.0.0.1:9", **OPTIONS)


def test_with_its_head_lost_a_command_leaves_with_3_and_goes_on_here_to_the_same_bytes(
    tmp_path: Path, expected: Any
) -> None:
    doomed = Head(short())
    run, parts = tmp_path / "run", iter(range(1000))

    def behead(progress: Any) -> None:
        if next(parts) == 4:
            for pid in doomed.find("gcs/gcs_server"):
                kill(pid)

    try:
        with pytest.raises(EnvironmentFaultError, match=r"is lost.*kept: run the same command again") as caught:
            validate(table(), NAMES, run=run, backend="ray", address=doomed.address, progress=behead, **OPTIONS)
    finally:
        doomed.stop()
    assert caught.value.exit_code == 3
    trained: list[int] = []
    found = validate(table(), NAMES, jobs=1, run=run, progress=lambda p: trained.append(p.round), **OPTIONS)
    assert timeless(found) == expected
    assert len(trained) < 4 * OPTIONS["rounds"], "what was committed is not trained anew"


def test_with_its_head_lost_a_study_leaves_with_3_at_once_and_goes_on_here_to_the_same_bytes(tmp_path: Path) -> None:
    toml = study_toml(
        rows=400, rounds=40, seeds=2, local_epochs=10, candidates=["fedavg", "scaffold"],
        partition=["homo", "label_dirichlet alpha=0.5"], model="mlp",
    )  # fmt: skip
    (tmp_path / "tiny.toml").write_text(toml)
    command = [sys.executable, "-m", "fedskew", "study", "tiny.toml", "--jobs", "1", "--out"]
    doomed = Head(short())
    try:
        words = [*command, "cut", "--backend", "ray", "--address", doomed.address]
        study = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 120
        while not doomed.find("ray::run_task"):
            assert study.poll() is None, study.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        for pid in doomed.find("gcs/gcs_server"):
            kill(pid)
        _, told = study.communicate(timeout=180)
    finally:
        doomed.stop()
    assert study.returncode == 3, told
    assert re.search(r"Ray cluster at .* is lost.*kept: run the same command again", told.splitlines()[-1])
    assert "FAILED" not in told, "no setting is blamed"
    assert not results_of(tmp_path / "cut")
    for out in ("cut", "whole"):
        subprocess.run([*command, out], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    assert results_of(tmp_path / "cut") == results_of(tmp_path / "whole")


def test_the_commands_of_the_page_run_as_written(tmp_path: Path) -> None:
    """But that Ray is installed already, all machines are this one, and the budget of training is cut."""
    with socket.socket() as port:
        if not port.connect_ex(("127.0.0.1", 6379)):
            pytest.skip("something listens on port 6379, which the page names")
    page = (Path(__file__).resolve().parents[2] / "docs" / "scale-out.md").read_text()
    first, second = re.findall(r"```\n(.*?)```", page, re.DOTALL)[:2]
    lines = [line for line in (first + second).splitlines() if not line.startswith("pip ")]
    assert [line.split()[0] for line in lines] == ["fedskew", "export", "ray", "ray", "ray", "fedskew"]
    budget = " --rounds 2 --seeds 1 --no-tuning --no-references"
    lines = [re.sub(r"(fedskew [^#]*[^# ])", rf"\1{budget}", line) for line in lines]
    home = short()
    environment = {
        **{name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "RAY_TMPDIR": str(home),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    script = "set -ex\n" + "\n".join(lines).replace("HEAD", "127.0.0.1")
    try:
        done = subprocess.run(
            ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    finally:
        started = [pid for pid, line in under(1) if str(home) in line]
        for pid in [below for one in started for below, _ in under(one)] + started:
            kill(pid)
        shutil.rmtree(home, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall("Ray runtime started", done.stdout)) == 2

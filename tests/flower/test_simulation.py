"""Exported apps in Flower's own simulation, offline: final weights against the engine's, and failures told.

Needs ``flwr[simulation]``: ``make test-flower`` installs it into an environment of its own and runs this folder. What
counts is the run's status, as ``flwr list`` tells it, and the files it wrote: ``flwr run`` exits with 0 on failure too.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if find_spec("ray") is None or not Path(sys.executable).with_name("flower-superlink").exists():
    pytest.skip("flwr[simulation] is not installed here: make test-flower", allow_module_level=True)

from fedskew.advisor.export import export_flower
from fedskew.engine.algorithms import ALGORITHMS

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
oracle = import_module("flower_oracle")
shell = import_module("flower_shell")

pytestmark = pytest.mark.slow
TOLERANCE = 1e-10
CASES = [
    *((a.name, "wide_mlp") for a in ALGORITHMS),
    *(("fedavg+wsm", "wide_mlp"), ("scaffold+wsm", "wide_mlp")),
    ("fedbn", "norm_net:factory"),
]
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # whatever token this machine may hold
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # 15, unless told: for ever on a machine with other work
    "RAY_prestart_worker_first_driver": "0",  # Flower's actors have an environment of their own and take none of them
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # dozens of processes import the same modules, which pip has left uncompiled
}
CPUS = 2  # that Ray believes to have: an actor that asks for both is the only one


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Flower:
    """A Flower home of our own, its SuperLink, and a Ray that all runs join; ended by process number when done."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir()
        self.ray = tempfile.mkdtemp(prefix="ray-")  # short: names of sockets are limited
        shell.write_script(Path(self.ray))
        here = Path(sys.executable).parent
        path = os.pathsep.join([self.ray, str(here), os.environ["PATH"]])
        self.env = {**os.environ, **QUIET, "PATH": path, "FLWR_HOME": str(home)}
        self.address = f"127.0.0.1:{free_port()}"
        config = f'[superlink]\ndefault = "ours"\n\n[superlink.ours]\naddress = "{self.address}"\ninsecure = true\n'
        (home / "config.toml").write_text(config)
        self.log = (home / "log").open("wb")
        self.processes: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        asked = subprocess.PIPE
        self.shell = self._started(str(HERE / "flower_shell.py"), self.ray, str(CPUS), stdin=asked, stdout=asked)
        self.env["RAY_ADDRESS"] = self._answer().strip()
        host, port = self.address.split(":")
        program = str(Path(sys.executable).with_name("flower-superlink"))
        command = [program, "--insecure", "--simulation", "--host", host, "--port", port]
        self.superlink = self._started(*command, stdout=self.log)
        self._wait_until_it_answers()

    def _started(self, *words: str, **pipes: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, *words]
        process = subprocess.Popen(command, env=self.env, stderr=self.log, start_new_session=True, **pipes)
        self.processes.append(process)
        return process

    def _wait_until_it_answers(self, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.superlink.poll() is None, (self.home / "log").read_text()
            try:
                with urllib.request.urlopen(f"http://{self.address}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"no SuperLink answers on {self.address}")

    def call(self, *words: str) -> Any:
        """Run a flwr command that answers in JSON."""
        assert self.shell.stdin is not None
        self.shell.stdin.write(json.dumps([*words, "--format", "json"]).encode() + b"\n")
        self.shell.stdin.flush()
        return json.loads(self._answer())

    def _answer(self) -> str:
        assert self.shell.stdout is not None
        text = ""
        while not text.endswith("--\n"):
            line = self.shell.stdout.readline().decode()
            assert line, (self.home / "log").read_text()
            text += line
        return text.removesuffix("--\n")

    def start(self, app: Path, silos: Path, cpus: int = CPUS, **config: Any) -> str:
        """Submit an app and return the number of its run."""
        changes = {"data": str(silos), "output": str(app / "output"), **config}
        told = " ".join(f"{name}={json.dumps(value)}" for name, value in changes.items())
        nodes = f"num-supernodes={oracle.PARTIES} client-resources-num-cpus={cpus}"
        answer = self.call("run", str(app), "ours", "--federation-config", nodes, "--run-config", told)
        assert answer["success"], answer
        return str(answer["run-id"])

    def ended(self, run: str, app: Path, seconds: float = 300) -> str:
        """Wait for a run to end and return its status, as ``flwr list`` shows it; meanwhile, look at the app's file."""
        own, now = app / "output" / "status.json", time.monotonic()
        deadline, asked, status = now + seconds, now, "unknown"
        while time.monotonic() < deadline:
            done = own.exists() and json.loads(own.read_text())["status"] != "running"
            if done or time.monotonic() - asked > 10:  # the status is later than the file; or there never is a file
                rows, asked = self.call("list", "ours")["runs"], time.monotonic()
                status = next(str(row["status"]) for row in rows if str(row["run-id"]) == run)
                if status.startswith("finished"):
                    return status
            time.sleep(0.3)
        raise AssertionError(f"run {run} is {status} after {seconds} s; see {self.home}")

    def close(self) -> None:
        """End what was started here: each leads a process group of its own."""
        for process in reversed(self.processes):
            if process.stdin is None:
                process.terminate()
            else:
                process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.log.close()
        shutil.rmtree(self.ray, ignore_errors=True)


@pytest.fixture(scope="module")
def flower(tmp_path_factory):
    running = Flower(tmp_path_factory.mktemp("flower") / "home")
    try:
        running.open()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def silo_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "silos"
    oracle.write_silos(oracle.silos(), folder)
    return folder


@pytest.fixture(scope="module")
def begun(flower, silo_files, tmp_path_factory):
    """A function from the place of a case to its app and run; the next one begins too, while the first one trains."""
    runs: dict[int, tuple[Path, str]] = {}

    def begin(place: int) -> tuple[Path, str]:
        for i in range(place, min(place + 2, len(CASES))):
            if i not in runs:
                app = tmp_path_factory.mktemp("case") / "app"
                export_flower(oracle.choice(*CASES[i]), app)
                runs[i] = app, flower.start(app, silo_files)
        return runs[place]

    return begin


def status_of(app: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((app / "output" / "status.json").read_text())
    return found


@pytest.mark.parametrize("place", range(len(CASES)), ids=["-".join(case) for case in CASES])
def test_three_rounds_in_flower_give_the_engines_weights(place, flower, begun):
    app, run = begun(place)
    wanted, losses = oracle.reference(oracle.choice(*CASES[place]))
    assert flower.ended(run, app) == "finished:completed"
    status = status_of(app)
    assert status["status"] == "completed"
    assert [len(r["trained"]) for r in status["rounds"]] == [oracle.PARTIES] * oracle.ROUNDS
    assert oracle.apart(np.load(app / "output" / "weights.npz"), wanted) < TOLERANCE
    assert status["rounds"][-1]["loss"] == pytest.approx(losses[-1], rel=1e-9)


def spoilt(app: Path, line: str) -> None:
    """Put a line before the party's reply is made, which runs at the first party only."""
    path = app / "federation" / "client_app.py"
    text = path.read_text()
    mark = "    sent = memory.without_personal("
    assert text.count(mark) == 1
    path.write_text(text.replace(mark, f"    if context.node_config['partition-id'] == 0:\n        {line}\n{mark}"))


def test_one_party_that_sends_no_numbers_fails_the_run_by_name(flower, silo_files, tmp_path):
    app = tmp_path / "app"
    export_flower(oracle.choice("fedavg"), app)
    spoilt(app, "weights = weights * float('nan')")
    assert flower.ended(flower.start(app, silo_files), app).startswith("finished:failed")
    status, first = status_of(app), min(f.stem for f in silo_files.iterdir())
    assert status["status"] == "failed"
    assert f"{first} sent weights that are not finite in round 1" in status["reason"]
    assert not (app / "output" / "weights.npz").exists()


def test_one_slow_party_fails_the_run_by_name(flower, silo_files, tmp_path):
    app = tmp_path / "app"
    export_flower(oracle.choice("fedavg"), app)
    spoilt(app, "__import__('time').sleep(14)")
    run = flower.start(app, silo_files, 1, **{"round-seconds": 10.0})  # two actors, so that the others go on
    assert flower.ended(run, app).startswith("finished:failed")
    status, first = status_of(app), min(f.stem for f in silo_files.iterdir())
    assert status["status"] == "failed"
    assert status["reason"].endswith(f"no reply to train within 10.0 seconds from {first}")


def test_a_missing_party_fails_the_run(flower, silo_files, tmp_path):
    app = tmp_path / "app"
    export_flower(oracle.choice("fedavg"), app)
    run = flower.start(app, silo_files, **{"parties": 5, "join-seconds": 2.0})
    assert flower.ended(run, app).startswith("finished:failed")
    assert "4 of 5 parties joined" in status_of(app)["reason"]

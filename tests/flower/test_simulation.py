"""Exported apps in Flower's own simulation, offline: final weights against the engine's, and failures told.

Needs ``flwr[simulation]``: ``make test-flower`` installs it into an environment of its own and runs this folder. What
counts is the run's status, as ``flwr list`` tells it, and the files it wrote: ``flwr run`` exits with 0 on failure too.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed; run `make test-flower`")
pytest.importorskip("ray", reason="flwr[simulation] is not installed; run `make test-flower`")
if not Path(sys.executable).with_name("flower-superlink").exists():
    pytest.skip("Flower's commands are not in this environment; run `make test-flower`", allow_module_level=True)

from fedskew.advisor.export import export_flower
from fedskew.engine.algorithms import ALGORITHMS

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
oracle = import_module("flower_oracle")

pytestmark = pytest.mark.slow
TOLERANCE = 1e-10
CASES = [
    *((a.name, "wide_mlp") for a in ALGORITHMS),
    *(("fedavg+wsm", "wide_mlp"), ("scaffold+wsm", "wide_mlp")),
    ("fedbn", "norm_net:factory"),
]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Flower:
    """A Flower home of our own and its local SuperLink, ended by its process number when done."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir()
        here = Path(sys.executable).parent
        self.env = {
            **os.environ,
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
        }
        self.address = f"127.0.0.1:{free_port()}"
        config = f'[superlink]\ndefault = "ours"\n\n[superlink.ours]\naddress = "{self.address}"\ninsecure = true\n'
        (home / "config.toml").write_text(config)
        host, port = self.address.split(":")
        command = ["flower-superlink", "--insecure", "--simulation", "--host", host, "--port", port]
        self.log = (home / "superlink.log").open("wb")
        self.process = subprocess.Popen(
            [str(here / command[0]), *command[1:]],
            env=self.env,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._wait_until_it_answers()

    def _wait_until_it_answers(self, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.home / "superlink.log").read_text()
            try:
                with urllib.request.urlopen(f"http://{self.address}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.5)
        raise AssertionError(f"no SuperLink answers on {self.address}")

    def call(self, *words: str) -> Any:
        """Run a flwr command that answers in JSON."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / "flwr"), *words, "--format", "json"],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        text = done.stdout
        assert "{" in text, done.stdout + done.stderr
        return json.loads(text[text.index("{") :])

    def start(self, app: Path, silos: Path, cpus: int = 2, **config: Any) -> str:
        """Submit an app and return the number of its run."""
        changes = {"data": str(silos), "output": str(app / "output"), **config}
        told = " ".join(f"{name}={json.dumps(value)}" for name, value in changes.items())
        nodes = f"num-supernodes={oracle.PARTIES} client-resources-num-cpus={cpus}"
        answer = self.call("run", str(app), "ours", "--federation-config", nodes, "--run-config", told)
        assert answer["success"], answer
        return str(answer["run-id"])

    def ended(self, run: str, app: Path, seconds: float = 300) -> str:
        """Wait for a run to end and return its status; asking flwr costs seconds, so the app's own file comes first."""
        own, asked, status = app / "output" / "status.json", time.monotonic(), "unknown"
        deadline = asked + seconds
        while time.monotonic() < deadline:
            done = own.exists() and json.loads(own.read_text())["status"] != "running"
            if done or time.monotonic() - asked > 30:
                rows, asked = self.call("list", "ours")["runs"], time.monotonic()
                status = next(str(row["status"]) for row in rows if str(row["run-id"]) == run)
                if status.startswith("finished"):
                    return status
            time.sleep(0.3)
        raise AssertionError(f"run {run} is {status} after {seconds} s; see {self.home}")

    def close(self) -> None:
        """End the SuperLink and what it started: it leads a process group of its own."""
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)
        self.log.close()


@pytest.fixture(scope="module")
def flower(tmp_path_factory):
    running = Flower(tmp_path_factory.mktemp("flower") / "home")
    yield running
    running.close()


@pytest.fixture(scope="module")
def silo_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "silos"
    oracle.write_silos(oracle.silos(), folder)
    return folder


def status_of(app: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((app / "output" / "status.json").read_text())
    return found


@pytest.mark.parametrize(("name", "model"), CASES, ids=str)
def test_three_rounds_in_flower_give_the_engines_weights(name, model, flower, silo_files, tmp_path):
    what = oracle.choice(name, model)
    export_flower(what, tmp_path / "app")
    run = flower.start(tmp_path / "app", silo_files)
    wanted, losses = oracle.reference(what)
    assert flower.ended(run, tmp_path / "app") == "finished:completed"
    status = status_of(tmp_path / "app")
    assert status["status"] == "completed"
    assert [len(r["trained"]) for r in status["rounds"]] == [oracle.PARTIES] * oracle.ROUNDS
    assert oracle.apart(np.load(tmp_path / "app" / "output" / "weights.npz"), wanted) < TOLERANCE
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
    spoilt(app, "__import__('time').sleep(75)")
    run = flower.start(app, silo_files, 1, **{"round-seconds": 35.0})  # one core a party, so that others go on
    assert flower.ended(run, app).startswith("finished:failed")
    status, first = status_of(app), min(f.stem for f in silo_files.iterdir())
    assert status["status"] == "failed"
    assert status["reason"].endswith(f"no reply to train within 35.0 seconds from {first}")


def test_a_missing_party_fails_the_run(flower, silo_files, tmp_path):
    app = tmp_path / "app"
    export_flower(oracle.choice("fedavg"), app)
    run = flower.start(app, silo_files, **{"parties": 5, "join-seconds": 2.0})
    assert flower.ended(run, app).startswith("finished:failed")
    assert "4 of 5 parties joined" in status_of(app)["reason"]

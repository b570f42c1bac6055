"""Faults 30, 31, 34, 35: where, when and in which process the tool runs changes nothing; nothing phones home."""

import json
import os
import shutil
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedskew.engine import validate
from fedskew.profiles import make_partition

SCRIPT = """
import json, os, sys
opened = []
def hook(event, args):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        opened.append(event)
sys.addaudithook(hook)
os.umask(int(sys.argv[3], 8))
from fedskew.cli import app
source, out = sys.argv[1:3]
words = [source, "--label", "y", "--party", "p", "--quiet"]
training = ["--algorithms", "fedavg,scaffold", "--recommended", "scaffold", "--rounds", "3", "--seeds", "2"]
training += ["--jobs", "1", "--no-tuning", "--no-references", "--run", out + "/run"]
app(["profile", *words, "--json", out + "/profile.json", "--html", out + "/profile.html"], standalone_mode=False)
app(["validate", *words, *training, "--json", out + "/validation.json"], standalone_mode=False)
app(["recommend", out + "/profile.json", "--quiet", "--json", out + "/advice.json"], standalone_mode=False)
app(["partition", source, "--label", "y", "--strategy", "iid", "--num-partitions", "3", "--quiet",
     "--out", out + "/index.json"], standalone_mode=False)
held = open("/proc/net/dev").read().splitlines()[2:] if os.path.exists("/proc/net/dev") else []
print(json.dumps({"opened": opened, "devices": [line.split(":")[0].strip() for line in held]}))
"""


def table(path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["y,p,x,colour"]
    for i in range(240):
        y = rng.integers(0, 3)
        lines.append(f"class {y},Köln {i % 5},{rng.normal() + y:.6f},{'rgb'[rng.integers(0, 3)]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same four commands in two places that differ in all that must not matter; the second without a network."""
    home = tmp_path_factory.mktemp("places")
    table(home / "t.csv")
    (home / "script.py").write_text(SCRIPT)
    places = [
        {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
        {"PYTHONHASHSEED": "4711", "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONUTF8": "0"},
    ]
    found = []
    cut_off = shutil.which("unshare") if os.geteuid() == 0 else None
    for number, place in enumerate(places):
        out, cwd = home / f"out {number}", home / f"cwd-{number}"
        out.mkdir()
        cwd.mkdir()
        (home / f"t{number}").mkdir()
        source = home / f"t{number}" / "t.csv"
        shutil.copy(home / "t.csv", source)
        relative = [source, out] if number == 0 else [os.path.relpath(source, cwd), os.path.relpath(out, cwd)]
        command = [sys.executable, str(home / "script.py"), *map(str, relative), "077" if number else "022"]
        if number and cut_off is not None:
            command = [cut_off, "-n", *command]
        env = {**os.environ, "OMP_NUM_THREADS": "1", **place}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=300)
        assert done.returncode == 0, done.stderr
        found.append((out, json.loads(done.stdout), cut_off is not None and number == 1))
    return found


def timeless(path: Path) -> Any:
    found = json.loads(path.read_text(encoding="utf-8"))
    for candidate in found.get("candidates", ()):
        del candidate["seconds"], candidate["at_equal_seconds"]
    return found


@pytest.mark.slow
def test_hash_seed_time_zone_locale_folder_and_umask_change_no_byte(runs: Any) -> None:
    (one, *_), (other, *_) = runs
    for name in ("profile.json", "profile.html", "advice.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert timeless(one / "validation.json") == timeless(other / "validation.json")
    parts = [json.loads((place / "index.json").read_text(encoding="utf-8")) for place in (one, other)]
    assert parts[0].pop("source") == ["../t0/t.csv"]
    assert parts[1].pop("source") == ["../t1/t.csv"]
    assert parts[0] == parts[1]


@pytest.mark.slow
def test_nothing_opens_a_socket(runs: Any) -> None:
    assert [what["opened"] for _, what, _ in runs] == [[], []]


@pytest.mark.slow
def test_everything_works_without_a_network(runs: Any) -> None:
    _, what, cut_off = runs[1]
    if not cut_off:
        pytest.skip("a process without a network needs root and unshare; that nothing opens a socket is tested anyway")
    assert set(what["devices"]) <= {"lo"}
    assert json.loads((runs[1][0] / "profile.json").read_text())["rows"] == 240


def test_a_clock_that_runs_backwards_gives_no_negative_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(10**9, -3600)
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    toy = make_partition(rng.normal(size=(80, 2)), y, np.arange(80) % 4)
    found = validate(toy, ["fedavg"], rounds=2, seeds=2, jobs=1, references=False, tuning=False, model="linear")
    assert 0 <= found.candidates[0].seconds < 60


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
from fedskew.cli import main
sys.argv = ["fedskew", *{words!r}]
main()
"""


def without(blocked: set[str], *words: str) -> "subprocess.CompletedProcess[str]":
    """The command line in a process that finds none of these packages."""
    code = BLOCKED.format(blocked=blocked, words=words)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300, env=env
    )


@pytest.mark.slow
def test_profile_and_recommend_need_neither_torch_nor_anything_that_draws(tmp_path: Path) -> None:
    table(tmp_path / "t.csv")
    heavy = {"torch", "pandas", "matplotlib", "jinja2", "safetensors", "PIL", "opendp", "ray", "hypothesis"}
    done = without(heavy, "recommend", str(tmp_path / "t.csv"), "--label", "y", "--party", "p")
    assert done.returncode == 0, done.stderr
    assert "label" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "words", "command"),
    [
        ("torch", ("validate", "{t}", "--label", "y", "--party", "p", "--recommended", "fedavg"), "pip install torch"),
        ("safetensors", ("validate", "{t}", "--label", "y", "--party", "p", "--recommended", "fedavg"), "safetensors"),
        ("polars", ("profile", "{t}", "--label", "y", "--party", "p"), "pip install polars"),
        ("matplotlib", ("profile", "{t}", "--label", "y", "--party", "p", "--html", "{t}.html"), "matplotlib"),
        ("jinja2", ("profile", "{t}", "--label", "y", "--party", "p", "--html", "{t}.html"), "pip install jinja2"),
    ],
)
def test_a_missing_package_is_exit_code_3_with_the_command_that_installs_it(
    package: str, words: tuple[str, ...], command: str, tmp_path: Path
) -> None:
    table(tmp_path / "t.csv")
    filled = [word.replace("{t}", str(tmp_path / "t.csv")) for word in words]
    done = without({package}, *filled, "--quiet")
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("fedskew: ")
    assert done.stderr.count("\n") == 1
    assert f"the package {package} is not installed" in done.stderr
    assert command in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]

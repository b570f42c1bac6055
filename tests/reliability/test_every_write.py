"""Fault 3: the k-th write, fsync, rename or commit fails or kills, for every k; what was told as finished is there."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """The library that makes writes fail, built here; the test skips with a reason where that cannot be."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("failing writes are preloaded into a Linux process: needs Linux and a C compiler")
    library = tmp_path / "failing.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "failing.c"), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the C compiler cannot build failing.c: {made.stderr[:200]}")
    return library


@pytest.mark.kills
@pytest.mark.slow
def test_whichever_write_fails_or_kills_nothing_finished_is_lost_and_nothing_is_half_written(shim: Path) -> None:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # fsync costs nothing there
    with tempfile.TemporaryDirectory(dir=memory) as home:
        command = [sys.executable, str(HERE / "failing_writes.py"), home]
        env = {**os.environ, "LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tried"]["store"] >= 200
    assert found["tried"]["report"] >= 9
    assert found["tried"]["silos"] >= 20

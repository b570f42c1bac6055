"""Faults 27 and 28: what does not fit into memory is refused, or fails by itself, in one line; the tool survives."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedskew.profiles.readers import base

GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 30 MB, which takes some 180 MB as text columns in memory."""
    path = tmp_path_factory.mktemp("wide") / "t.csv"
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{i}": rng.normal(size=70_000) for i in range(22)})
    frame.with_columns(y=pl.Series(np.arange(70_000) % 2), p=pl.Series(np.arange(70_000) % 5)).write_csv(path)
    return path


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of 400 MB; the test skips with a reason where there can be none."""
    if not os.access(GROUPS, os.W_OK) or not (GROUPS / "memory.limit_in_bytes").exists():
        pytest.skip("a memory control group needs root and version 1 of the groups")
    made = GROUPS / f"fedskew-test-{os.getpid()}"
    try:
        made.mkdir()
        (made / "memory.limit_in_bytes").write_text(str(400 * 2**20))
    except OSError as fault:
        pytest.skip(f"a memory control group cannot be made: {fault}")
    yield made
    made.rmdir()


def words(path: Path) -> list[str]:
    return [sys.executable, "-m", "fedskew", "profile", str(path), "--label", "y", "--party", "p", "--quiet"]


@pytest.mark.kills
@pytest.mark.slow
def test_a_table_beyond_the_control_groups_memory_is_refused_and_not_killed(table: Path, group: Path) -> None:
    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    done = subprocess.run(  # the table's 180 MB and what reading needs do not fit beside 300 MB that are taken
        words(table), capture_output=True, text=True, check=False, timeout=200, preexec_fn=enter
    )
    assert done.returncode in {0, 3}, done.stderr  # read within the limit, or refused; never killed (-9)
    (group / "memory.limit_in_bytes").write_text(str(150 * 2**20))
    done = subprocess.run(words(table), capture_output=True, text=True, check=False, timeout=200, preexec_fn=enter)
    assert done.returncode == 3, done.stderr
    assert "GiB of memory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_limit_of_the_control_group_counts_as_memory_where_it_is_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = base.available_memory()
    assert 0 < whole < 2**50
    limited = tmp_path / "memory"
    (limited / "jobs").mkdir(parents=True)
    for folder, limit in ((limited, 2**62), (limited / "jobs", 50_000_000)):
        (folder / "memory.limit_in_bytes").write_text(str(limit))
        (folder / "memory.usage_in_bytes").write_text("20000000")
    (tmp_path / "self").write_text("5:memory:/jobs\n4:cpu:/\n")
    monkeypatch.setattr(base, "GROUPS", tmp_path)
    monkeypatch.setattr(base, "OWN_GROUP", tmp_path / "self")
    assert base.available_memory() == 30_000_000
    (limited / "jobs" / "memory.stat").write_text("cache 9\ntotal_inactive_file 4000000\ntotal_active_file 1000000\n")
    assert base.available_memory() == 35_000_000
    (tmp_path / "self").write_text("0::/unit\n")
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "memory.max").write_text("max\n")
    (tmp_path / "memory.max").write_text("9000\n")
    (tmp_path / "memory.current").write_text("4000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 1000\nactive_file 500\n")
    assert base.available_memory() == 6_500
    (tmp_path / "self").unlink()
    assert base.available_memory() > 10_000


LIMITED = """
import resource, sys
limit = {limit} * 2**20
{first}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from fedskew.cli import main
sys.argv = ["fedskew", *{words!r}]
main()
"""


@pytest.mark.kills
@pytest.mark.slow
def test_training_that_runs_out_of_address_space_ends_in_one_line(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    np.savez(tmp_path / "t.npz", x=rng.normal(size=(400, 2000)).astype(np.float32), y=y, party=np.arange(400) % 40)
    (tmp_path / "large.py").write_text(
        "from torch import nn\ndef make(shape, outputs):\n"
        "    return nn.Sequential(nn.Linear(2000, 4000), nn.ReLU(), nn.Linear(4000, outputs))\n"
    )
    options = ["validate", str(tmp_path / "t.npz"), "--recommended", "scaffold", "--algorithms", "scaffold", "--rounds"]
    options += ["1", "--seeds", "1", "--jobs", "1", "--no-tuning", "--no-references", "--quiet"]
    options += ["--model", "large:make", "--run", str(tmp_path / "run")]
    first = "import torch, fedskew.engine.training, polars, scipy.stats, scipy.sparse"
    code = LIMITED.format(limit=4200, first=first, words=options)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300, env=env
    )
    assert done.returncode == 3, (done.returncode, done.stderr[-800:])
    assert "out of memory" in done.stderr
    assert done.stderr.count("\n") == 1

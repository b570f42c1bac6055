"""A worker killed or out of memory costs a retry; a trial that cannot be trained here costs no other one."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.engine.test_resume import table, timeless

from fedskew.engine import pool, validate
from fedskew.engine.algorithms import find_algorithm
from fedskew.engine.plans import ModelSpec, Trial
from fedskew.engine.pool_losses import Losses
from fedskew.engine.settings import Settings
from fedskew.engine.splits import prepare
from fedskew.profiles import EnvironmentFaultError

OPTIONS: Any = {"rounds": 3, "seeds": 2, "local_epochs": 1, "lr": 0.1, "tuning": False, "references": False}
FRAIL = f"""
import os, signal
from dataclasses import replace
from pathlib import Path
from fedskew.engine.algorithms import find_algorithm

FOLDER = Path(__file__).parent
PLAIN = find_algorithm("fedavg")

def siblings():
    parent = os.getppid()
    children = Path(f"/proc/{{parent}}/task/{{parent}}/children").read_text().split()
    lines = [Path(f"/proc/{{child}}/cmdline").read_bytes() for child in children]
    return sum(not line or b"spawn_main" in line for line in lines)  # one that has just died has no line, and was there

def init(weights, hyper):
    how, tried = (FOLDER / "how").read_text(), FOLDER / "tried"
    if how:
        first = not tried.exists()
        with tried.open("a") as log:
            log.write(f"{{siblings()}}\\n")
        if how == "memory" or (how == "memory once" and first):
            raise MemoryError
        if how == "torch":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")
        if how == "die" or (how == "die in a crowd" and siblings() > 1):
            assert os.getpid() != {os.getpid()}
            os.kill(os.getpid(), signal.SIGKILL)
    return PLAIN.init(weights, hyper)

ALGORITHM = replace(PLAIN, name="frail", title="Frail", init=init)
SECOND = replace(ALGORITHM, name="frail too")
"""


@pytest.fixture
def frail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with an algorithm that fails as the file ``how`` beside it says."""
    (tmp_path / "frail_algorithm.py").write_text(FRAIL)
    (tmp_path / "how").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("frail_algorithm")
    del sys.modules["frail_algorithm"]


def run(frail: Any, how: str, jobs: int, folder: Path | None = None, told: list[str] | None = None) -> Any:
    (frail.FOLDER / "how").write_text(how)
    watch = None if told is None else lambda progress: told.append(progress.name)
    return validate(table(), ["scaffold", frail.ALGORITHM, "fednova"], jobs=jobs, run=folder, progress=watch, **OPTIONS)


def tries(frail: Any) -> list[int]:
    """For every try of the frail algorithm, how many workers there were."""
    return [int(line) for line in (frail.FOLDER / "tried").read_text().split()]


@pytest.mark.kills
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "jobs", "reason"),
    [
        (
            "die",
            2,
            r"worker processes died 3 times while training frail \(killed by signal 9, probably out of memory\)",
        ),
        (
            "memory",
            2,
            r"worker processes died 3 times while training frail \(out of memory\), at last with nothing beside",
        ),
        ("torch", 1, r"training died 3 times while training frail \(out of memory\)"),
    ],
)
def test_the_others_are_finished_and_the_same_command_then_trains_the_lost_one_alone(
    frail: Any, tmp_path: Path, how: str, jobs: int, reason: str
) -> None:
    expected = timeless(run(frail, "", 1))
    with pytest.raises(EnvironmentFaultError, match=reason) as caught:
        run(frail, how, jobs, tmp_path / "run")
    assert caught.value.exit_code == 3
    assert "the same command tries it again" in str(caught.value)
    assert len(tries(frail)) == 3
    told: list[str] = []
    assert timeless(run(frail, "", 1, tmp_path / "run", told)) == expected
    assert set(told) == {"frail"}


@pytest.mark.kills
def test_a_lack_of_memory_once_costs_one_retry_and_no_bit(frail: Any) -> None:
    expected = timeless(run(frail, "", 1))
    assert timeless(run(frail, "memory once", 1)) == expected
    assert len(tries(frail)) == 2


@pytest.mark.kills
@pytest.mark.slow
def test_how_a_worker_died_is_told_however_late_its_end_is_noticed(frail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reaped = os.waitpid

    def late(pid: int, flags: int) -> tuple[int, int]:
        main = threading.current_thread() is threading.main_thread()
        time.sleep(0.2 if main else 0)
        found = reaped(pid, flags)
        time.sleep(1 if found[0] and not main else 0)  # meanwhile nobody else can learn this process's exit code
        return found

    monkeypatch.setattr(os, "waitpid", late)
    (frail.FOLDER / "how").write_text("die")
    model = ModelSpec("mlp", (4,), 3)
    trials = [
        Trial(algorithm, {}, Settings(rounds=rounds), (0,), model)
        for algorithm, rounds in ((find_algorithm("fedavg"), 40), (frail.ALGORITHM, 1))
    ]
    told = r"died 1 times while training frail \(killed by signal 9, probably out of memory\)"
    with pool.Workers({"main": prepare(table())}, 2) as workers, pytest.raises(EnvironmentFaultError, match=told):
        workers.run(trials, most=0)


@pytest.mark.kills
@pytest.mark.slow
def test_where_memory_does_not_suffice_for_two_at_a_time_the_last_try_has_nothing_beside_it(frail: Any) -> None:
    both = [frail.ALGORITHM, frail.SECOND]
    expected = timeless(validate(table(), both, jobs=1, **OPTIONS))
    (frail.FOLDER / "how").write_text("die in a crowd")
    assert timeless(validate(table(), both, jobs=2, **OPTIONS)) == expected
    *crowded, first, second = tries(frail)
    assert (first, second) == (1, 1)
    assert set(crowded) == {2}
    assert len(crowded) >= 2


@pytest.mark.kills
def test_workers_that_die_before_they_train_are_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any) -> None:
        raise BrokenProcessPool

    lost = Trial(find_algorithm("fedavg"), {}, Settings(), (0,), ModelSpec("mlp", (4,), 3))
    told = r"worker processes died 3 times while training fedavg \(killed as it started\).*nothing was kept"
    with pool.Workers({"main": prepare(table())}, 2) as workers:
        monkeypatch.setattr(workers, "_drain", die)
        monkeypatch.setattr(workers, "_board", [0.0] * 3)
        with pytest.raises(EnvironmentFaultError, match=told):
            workers.run([lost])


def test_an_error_of_torch_that_is_not_about_memory_is_raised_at_once() -> None:
    losses = Losses([], 2)
    with pytest.raises(RuntimeError, match="shapes differ"):
        pool._count(losses, 0, RuntimeError("shapes differ"))


def test_a_part_that_came_back_gives_the_next_one_all_retries_but_no_company() -> None:
    trial = Trial(find_algorithm("fedavg"), {}, Settings(), (0,), ModelSpec("mlp", (4,), 3))
    losses = Losses([trial, trial], 2)
    for _ in range(2):
        losses.count(0, "killed")
    assert (losses.alone(0), losses.alone(1), losses.given_up(0)) == (True, False, False)
    losses.survived(0)
    for _ in range(2):
        losses.count(0, "killed")
    assert not losses.given_up(0)
    losses.check("workers", kept=True)
    losses.count(0, "killed")
    with pytest.raises(
        EnvironmentFaultError, match=r"workers died 3 times while training fedavg \(killed\).*nothing was"
    ):
        losses.check("workers", kept=False)

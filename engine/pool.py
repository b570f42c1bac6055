"""Trials on several processes, one torch thread each: the same bits for any number of workers, however interrupted."""

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from fedskew.engine.plans import Outcome, Part, Trial, joined
from fedskew.engine.pool_losses import MEMORY, RETRIES, Losses, blamed, short_of_memory
from fedskew.engine.pool_travel import load, save, travels, without_main
from fedskew.engine.snapshots import pack, read_blob, unpack, write_blob
from fedskew.engine.splits import Prepared, without_arrays
from fedskew.engine.store import RunStore
from fedskew.engine.trials import run_part

Tell = Callable[[int, int, float], None]
"""Told now and then: number of the trial, rounds done, mean score."""
SECONDS = 2.0  # a part ends after the round in which this much time has passed: what a kill can cost


def cores() -> int:
    """Cores this process may use.

    Examples
    --------
    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Processes that train; with one job, this process.

    Parameters
    ----------
    data : prepared tables by name; workers map them from files, so they lie in memory once
    jobs : number of processes
    store : where parts are committed and resumed from; None keeps nothing
    """

    def __init__(self, data: Mapping[str, Prepared], jobs: int, store: RunStore | None = None) -> None:
        self._data, self._jobs, self._store = data, jobs, store
        self._folder = tempfile.TemporaryDirectory(prefix="fedskew-")
        self._pool: ProcessPoolExecutor | None = None
        self._board: Any = None

    def __enter__(self) -> Self:
        """Use as a context, so that no process outlives it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End all processes."""
        self._stop(kill=kind is not None)
        self._folder.cleanup()

    def run(self, trials: Sequence[Trial], tell: Tell | None = None, most: int = RETRIES) -> list[Outcome]:
        """Run trials to their ends; outcomes come in the order of the trials.

        A worker that dies or finds no memory costs the part it ran, which is tried again ``most`` times, at last with
        nothing beside it.

        Raises
        ------
        EnvironmentFaultError
            Workers died on the same part again and again, all other trials being done; or the store cannot be written.
        """
        done: list[list[Part]] = [[] if self._store is None else self._store.parts(trial.key) for trial in trials]
        self._train(trials, done, tell, most)
        return [joined(parts) for parts in done]

    @property
    def jobs(self) -> int:
        """How many parts run side by side."""
        return self._jobs

    def _train(self, trials: Sequence[Trial], done: list[list[Part]], tell: Tell | None, most: int = RETRIES) -> None:
        """Bring every trial to its end: its parts join those in ``done``."""
        losses = Losses(trials, most)
        if self._jobs <= 1 or not all(travels(trial) for trial in trials):
            self._run_here(trials, done, tell, losses)
        else:
            self._run_there(trials, done, tell, losses)
        losses.check("worker processes" if self._jobs > 1 else "training", kept=self._store is not None)

    def _run_here(self, trials: Sequence[Trial], done: list[list[Part]], tell: Tell | None, losses: Losses) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the bits depend on it
        try:
            for i, trial in enumerate(trials):
                watch = None if tell is None else _teller(i, tell)
                while not finished(done[i]) and not losses.given_up(i):
                    try:
                        part = _work(trial, self._data[trial.data], _last(done[i]), self._blobs(), watch)
                    except (MemoryError, RuntimeError) as error:
                        _count(losses, i, error)
                    else:
                        losses.survived(i)
                        self._keep(trial, done[i], part)
        finally:
            torch.set_num_threads(threads)

    def _run_there(self, trials: Sequence[Trial], done: list[list[Part]], tell: Tell | None, losses: Losses) -> None:
        while True:
            left = [i for i, parts in enumerate(done) if not finished(parts) and not losses.given_up(i)]
            together = [i for i in left if not losses.alone(i)]
            if not left:
                return
            if not together:
                self._stop(kill=True)  # the memory of idle workers is needed too
            try:
                self._drain(together or left[:1], trials, done, tell, losses)
            except BrokenProcessPool:
                self._bury(losses, left)
            if not together:
                self._stop(kill=False)

    def _drain(
        self,
        places: Sequence[int],
        trials: Sequence[Trial],
        done: list[list[Part]],
        tell: Tell | None,
        losses: Losses,
    ) -> None:
        """Run the trials at some places side by side to their ends, or until their losses ask for something else."""
        alone = losses.alone(places[0])
        pool = self._started(len(trials), 1 if alone else self._jobs)
        waiting: dict[Future[Part], int] = {}

        def submit(i: int) -> None:
            if not finished(done[i]) and not losses.given_up(i) and losses.alone(i) == alone:
                with without_main():
                    waiting[pool.submit(_work_there, i, trials[i], _last(done[i]), self._blobs())] = i

        for i in places:
            submit(i)
        while waiting:
            ready, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for i in waiting.values():
                if tell is not None and self._board[3 * i]:
                    tell(i, int(self._board[3 * i]), self._board[3 * i + 1])
            for future in ready:
                i = waiting.pop(future)
                try:
                    part = future.result()
                except (MemoryError, RuntimeError) as error:
                    _count(losses, i, error)
                else:
                    losses.survived(i)
                    self._keep(trials[i], done[i], part)
                submit(i)

    def _bury(self, losses: Losses, left: Sequence[int]) -> None:
        """Count the deaths that broke the pool, and end what is left of it."""
        processes = dict((self._pool._processes or {}) if self._pool is not None else {})  # noqa: SLF001  (as below)
        running = {int(self._board[3 * i + 2]): i for i in left if self._board[3 * i + 2]}
        codes = _exit_codes(processes)
        self._stop(kill=True)
        found = blamed(running, codes) or dict.fromkeys(left, "killed as it started")
        for i, reason in found.items():
            losses.count(i, reason)

    def _keep(self, trial: Trial, parts: list[Part], part: Part) -> None:
        if self._store is not None:
            self._store.commit(trial.key, part)
        parts.append(part)

    def _blobs(self) -> Path | None:
        return None if self._store is None else self._store.folder / "blobs"

    def _started(self, trials: int, jobs: int) -> ProcessPoolExecutor:
        if self._pool is not None and len(self._board) < 3 * trials:
            self._stop(kill=False)
        if self._pool is None:
            for name, data in self._data.items():
                save(data, Path(self._folder.name), name)
            rest = {name: without_arrays(data) for name, data in self._data.items()}
            context = multiprocessing.get_context("spawn")
            # rounds, score and process by trial, without a lock that a dead worker could hold; room for later calls
            self._board = context.RawArray("d", 3 * max(trials, 64))
            self._pool = ProcessPoolExecutor(
                jobs, mp_context=context, initializer=_open, initargs=(self._folder.name, rest, self._board)
            )
        for i in range(len(self._board)):
            self._board[i] = 0.0
        return self._pool

    def _stop(self, *, kill: bool) -> None:
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())  # noqa: SLF001  (no public way to end busy workers)
            self._pool.shutdown(wait=not kill, cancel_futures=True)
            for process in processes if kill else ():
                process.kill()
        self._pool = None


def finished(parts: Sequence[Part]) -> bool:
    """Whether the last of the parts is the trial's last."""
    return bool(parts) and parts[-1].predicted is not None


def _count(losses: Losses, i: int, error: MemoryError | RuntimeError) -> None:
    """Count a lack of memory as a death of the worker; any other error is raised again."""
    if isinstance(error, BrokenProcessPool) or not short_of_memory(error):
        raise error
    losses.count(i, MEMORY)


def _exit_codes(processes: Mapping[int, BaseProcess], seconds: float = 5.0) -> dict[int, int | None]:
    """Exit codes of a broken pool's processes, whose own thread ends the survivors with SIGTERM and awaits them all.

    A code can be None for a moment after the end: that thread has found it and not noted it yet. Nothing is killed
    here before all are known: a survivor would end like the culprit.
    """
    until = time.monotonic() + seconds
    while True:
        codes = {pid: process.exitcode for pid, process in processes.items()}
        if None not in codes.values() or time.monotonic() > until:
            return codes
        time.sleep(0.01)


def _last(parts: Sequence[Part]) -> tuple[str, str] | None:
    return (parts[-1].state, parts[-1].sha256) if parts else None


def _teller(i: int, tell: Tell) -> Callable[[int, float], None]:
    return lambda rounds, score: tell(i, rounds, score)


def _work(
    trial: Trial,
    data: Prepared,
    last: tuple[str, str] | None,
    blobs: Path | None,
    watch: Callable[[int, float], None] | None,
) -> Part:
    """Run the next part of a trial from its last saved state, and save the state after it unless that was the end."""
    if blobs is None:
        return run_part(trial, data, watch=watch)[0]
    state = None if last is None else unpack(read_blob(blobs / last[0], last[1]))
    part, after = run_part(trial, data, state=state, seconds=SECONDS, watch=watch)
    if part.predicted is not None:
        return part
    name = f"{trial.key}-{part.last}.safetensors"
    return replace(part, state=name, sha256=write_blob(blobs / name, pack(after)))


_WORKER: dict[str, Any] = {}  # a worker's data and board, set once when it starts


def _open(folder: str, rest: Mapping[str, Prepared], board: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides what an interrupt means
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _WORKER.update(data=load(folder, rest), board=board)


def _leave_with_parent() -> None:
    """End this worker when the coordinator is gone, however it went: nobody waits for the result any more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_there(i: int, trial: Trial, last: tuple[str, str] | None, blobs: Path | None) -> Part:
    board = _WORKER["board"]

    def watch(rounds: int, score: float) -> None:
        board[3 * i + 1] = score
        board[3 * i] = rounds

    board[3 * i + 2] = os.getpid()  # stays where this process dies
    try:
        return _work(trial, _WORKER["data"][trial.data], last, blobs, watch)
    finally:
        board[3 * i + 2] = 0

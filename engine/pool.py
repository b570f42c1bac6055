"""Trials on several processes, one torch thread each: the same bits for any number of workers, however interrupted."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from fedskew.engine.plans import Outcome, Part, Trial, joined
from fedskew.engine.snapshots import pack, read_blob, unpack, write_blob
from fedskew.engine.splits import Prepared, arrays_of, with_arrays, without_arrays
from fedskew.engine.store import RunStore
from fedskew.engine.trials import run_part
from fedskew.profiles.errors import EnvironmentFaultError

Tell = Callable[[int, int, float], None]
"""Told now and then: number of the trial, rounds done, mean score."""
RETRIES = 2
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

        A worker that dies costs the part it ran, at most ``most`` times.

        Raises
        ------
        EnvironmentFaultError
            Workers died again and again, or the store cannot be written.
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
        if self._jobs <= 1 or not all(travels(trial) for trial in trials):
            self._run_here(trials, done, tell)
        else:
            self._run_there(trials, done, tell, most)

    def _run_here(self, trials: Sequence[Trial], done: list[list[Part]], tell: Tell | None) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the bits depend on it
        try:
            for i, trial in enumerate(trials):
                watch = None if tell is None else _teller(i, tell)
                while not finished(done[i]):
                    part = _work(trial, self._data[trial.data], _last(done[i]), self._blobs(), watch)
                    self._keep(trial, done[i], part)
        finally:
            torch.set_num_threads(threads)

    def _run_there(self, trials: Sequence[Trial], done: list[list[Part]], tell: Tell | None, most: int) -> None:
        for _ in range(most + 1):
            try:
                self._drain(trials, done, tell)
            except BrokenProcessPool:
                self._stop(kill=True)
                continue
            return
        lost = ", ".join(trial.name for trial, parts in zip(trials, done, strict=True) if not finished(parts))
        raise EnvironmentFaultError(
            f"worker processes died {most + 1} times (out of memory?) while training {lost}; "
            f"try --jobs 1, --max-rows or a smaller --model"
        )

    def _drain(self, trials: Sequence[Trial], done: list[list[Part]], tell: Tell | None) -> None:
        pool = self._started(len(trials))
        waiting: dict[Future[Part], int] = {}

        def submit(i: int) -> None:
            if not finished(done[i]):
                with without_main():
                    waiting[pool.submit(_work_there, i, trials[i], _last(done[i]), self._blobs())] = i

        for i in range(len(trials)):
            submit(i)
        while waiting:
            ready, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for i in waiting.values():
                if tell is not None and self._board[2 * i]:
                    tell(i, int(self._board[2 * i]), self._board[2 * i + 1])
            for future in ready:
                i = waiting.pop(future)
                self._keep(trials[i], done[i], future.result())
                submit(i)

    def _keep(self, trial: Trial, parts: list[Part], part: Part) -> None:
        if self._store is not None:
            self._store.commit(trial.key, part)
        parts.append(part)

    def _blobs(self) -> Path | None:
        return None if self._store is None else self._store.folder / "blobs"

    def _started(self, trials: int) -> ProcessPoolExecutor:
        if self._pool is not None and len(self._board) < 2 * trials:
            self._stop(kill=False)
        if self._pool is None:
            for name, data in self._data.items():
                save(data, Path(self._folder.name), name)
            rest = {name: without_arrays(data) for name, data in self._data.items()}
            context = multiprocessing.get_context("spawn")
            # rounds and score by trial, without a lock that a dead worker could hold; room for later calls
            self._board = context.RawArray("d", 2 * max(trials, 64))
            self._pool = ProcessPoolExecutor(
                self._jobs, mp_context=context, initializer=_open, initargs=(self._folder.name, rest, self._board)
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


@contextmanager
def without_main() -> Iterator[None]:
    """Keep spawned workers from importing the user's script again, which would start its whole work anew."""
    main = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        main.__spec__ = None
        if "__file__" in kept:
            del main.__file__
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)


def travels(trial: Trial) -> bool:
    """Whether another process can find the trial's functions: not those of a user's script or notebook."""
    named = [v for v in (getattr(trial.algorithm, field.name) for field in fields(trial.algorithm)) if callable(v)]
    here = any(v.__module__ == "__main__" or "<" in v.__qualname__ for v in named)
    return not here and not trial.model.name.startswith("__main__:")


def save(data: Prepared, folder: Path, name: str) -> None:
    """Write a table's arrays where another process of this machine can map them."""
    for array, values in arrays_of(data).items():
        path = folder / f"{name}-{array}.npy"
        if not path.exists():
            np.save(path, values, allow_pickle=False)


def load(folder: str, rest: Mapping[str, Prepared]) -> dict[str, Prepared]:
    """Map what :func:`save` wrote; ``rest`` holds what is not an array."""
    data = {}
    for name, empty in rest.items():
        files = {path.stem.removeprefix(f"{name}-"): path for path in sorted(Path(folder).glob(f"{name}-*.npy"))}
        # mode c: pages are shared by all workers, and torch wants arrays that could be written
        arrays = {array: np.load(path, mmap_mode="c", allow_pickle=False) for array, path in files.items()}
        data[name] = with_arrays(empty, arrays)
    return data


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
        board[2 * i + 1] = score
        board[2 * i] = rounds

    return _work(trial, _WORKER["data"][trial.data], last, blobs, watch)

"""Trials on several processes, one torch thread each; same bits for any number of workers."""

import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedskew.engine.plans import Outcome, Trial
from fedskew.engine.splits import Prepared
from fedskew.engine.trials import run_trial
from fedskew.profiles.errors import EnvironmentFaultError

Tell = Callable[[int, int, float], None]
"""Told now and then: number of the trial, rounds done, mean score."""
RETRIES = 2
ARRAYS = ("x", "y", "bounds", "shares", "test_x", "test_y", "test_party")


def cores() -> int:
    """Cores this process may use.

    Examples
    --------
    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_trials(
    trials: Sequence[Trial], data: Prepared, jobs: int, tell: Tell | None = None, most: int = RETRIES
) -> list[Outcome]:
    """Run trials, in this process or on ``jobs`` others; outcomes come in the order of the trials.

    A worker that dies costs a retry of what it ran, at most ``most`` times.

    Raises
    ------
    EnvironmentFaultError
        Workers died again and again.
    """
    if jobs <= 1 or len(trials) <= 1 or not all(_travels(trial) for trial in trials):
        return _run_here(trials, data, tell)
    outcomes: dict[int, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="fedskew-") as folder:
        _save(data, Path(folder))
        empty: dict[str, Any] = {name: np.empty(0) for name in ARRAYS}
        rest = replace(data, **empty)
        for _ in range(most + 1):
            left = [i for i in range(len(trials)) if i not in outcomes]
            try:
                outcomes.update(_run_pool(trials, left, (folder, rest), min(jobs, len(left)), tell))
            except BrokenProcessPool:
                continue
            return [outcomes[i] for i in range(len(trials))]
    lost = ", ".join(trials[i].algorithm.name for i in range(len(trials)) if i not in outcomes)
    raise EnvironmentFaultError(
        f"worker processes died {most + 1} times (out of memory?) while training {lost}; "
        f"try --jobs 1, --max-rows or a smaller --model"
    )


def _run_here(trials: Sequence[Trial], data: Prepared, tell: Tell | None) -> list[Outcome]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the bits depend on it
    try:
        return [run_trial(trial, data, _watch(i, tell)) for i, trial in enumerate(trials)]
    finally:
        torch.set_num_threads(threads)


def _watch(i: int, tell: Tell | None) -> Callable[[int, float], None] | None:
    return None if tell is None else lambda rounds, score: tell(i, rounds, score)


def _run_pool(
    trials: Sequence[Trial], left: Sequence[int], data: tuple[str, Prepared], jobs: int, tell: Tell | None
) -> Iterator[tuple[int, Outcome]]:
    context = multiprocessing.get_context("spawn")
    board = context.RawArray(
        "d", 2 * len(trials)
    )  # rounds done and score of each trial: no lock that a dead worker holds
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_open, initargs=(*data, board)) as pool:
        with _without_main():
            waiting: dict[Future[Outcome], int] = {pool.submit(_work, i, trials[i]): i for i in left}
        try:
            while waiting:
                done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for i in waiting.values():
                    if tell is not None and board[2 * i]:
                        tell(i, int(board[2 * i]), board[2 * i + 1])
                for future in done:
                    yield waiting.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


@contextmanager
def _without_main() -> Iterator[None]:
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


def _travels(trial: Trial) -> bool:
    """Whether another process can find the trial's functions: not those of a user's script or notebook."""
    values = [getattr(trial.algorithm, field.name) for field in fields(trial.algorithm)]
    named = [value for value in values if callable(value)]
    return all(
        v.__module__ != "__main__" and "<" not in v.__qualname__ for v in named
    ) and not trial.model.name.startswith("__main__:")


def _save(data: Prepared, folder: Path) -> None:
    for name in ARRAYS:
        values = getattr(data, name)
        if values is not None:
            np.save(folder / f"{name}.npy", values, allow_pickle=False)


_WORKER: dict[str, Any] = {}  # a worker's data and board, set once when it starts


def _open(folder: str, rest: Prepared, board: Any) -> None:
    import torch

    threading.Thread(target=_leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    arrays: dict[str, Any] = {}
    for name in ARRAYS:
        path = Path(folder) / f"{name}.npy"
        # mode c: pages are shared by all workers, and torch wants arrays that could be written
        arrays[name] = np.load(path, mmap_mode="c", allow_pickle=False) if path.exists() else None
    _WORKER.update(data=replace(rest, **arrays), board=board)


def _leave_with_parent() -> None:
    """End this worker when the coordinator is gone, however it went: nobody waits for the result any more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(i: int, trial: Trial) -> Outcome:
    board = _WORKER["board"]

    def watch(rounds: int, score: float) -> None:
        board[2 * i + 1] = score
        board[2 * i] = rounds

    return run_trial(trial, _WORKER["data"], watch)

"""Worker processes of a study: plain Python processes that are told settings in JSON lines, one at a time.

Every worker has one thread for arithmetic, whatever their number, because the bits depend on it; and ends by itself
when the process that started it is gone, however it went.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from fedskew.advisor.study.grid import Record, Setting
from fedskew.advisor.study.run import HERE, Done, Place, run_setting
from fedskew.engine.backends import ClusterLostError
from fedskew.engine.pool_losses import ended, short_of_memory
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
PROGRAM = "from fedskew.advisor.study.workers import serve; serve()"
RETRIES = 1  # a setting whose worker dies (out of memory?) gets another one so often
KEPT = "finished settings are kept: run the same command again to go on"
Finished = Callable[[Done], None]


class Task(Record, frozen=True):
    """What a worker is told."""

    setting: Setting
    path: str | None
    out: str
    place: Place = HERE


class Crew:
    """Workers; a context, so that no process outlives it.

    Parameters
    ----------
    jobs : number of processes, 1 or more
    place : where the trials of their settings run
    """

    def __init__(self, jobs: int, place: Place = HERE) -> None:
        self._jobs, self._place = jobs, place
        self._ended = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Use as a context."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        with self._lock:
            self._ended = True
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # a pipe whose reader is gone cannot be flushed
                        pipe.close()

    def run(
        self, settings: Sequence[Setting], places: Mapping[str, Path | None], out: Path, finished: Finished
    ) -> list[Done]:
        """Run settings, those on one table near each other; ``finished`` is told of each.

        Returns
        -------
        list of Done, in the order in which they ended; one with an ``error`` has no result

        Raises
        ------
        ClusterLostError
            The place where trials run is gone; settings that are not finished are left as they are.
        """
        waiting = deque(settings)
        answers: queue.Queue[Done | BaseException] = queue.Queue()
        tasks = {s.key: Task(setting=s, path=_text(places[s.data]), out=str(out), place=self._place) for s in settings}
        for _ in range(min(self._jobs, len(settings))):
            thread = threading.Thread(target=self._drive, args=(waiting, tasks, answers), daemon=True)
            self._threads.append(thread)
            thread.start()
        done: list[Done] = []
        while len(done) < len(settings):
            try:
                answer = answers.get(timeout=0.2)  # short, so that a signal is seen
            except queue.Empty:
                continue
            if isinstance(answer, BaseException):
                raise answer
            if answer.lost:
                raise ClusterLostError(f"{answer.error} ({KEPT})")
            done.append(answer)
            finished(answer)
        return done

    def _drive(
        self, waiting: deque[Setting], tasks: Mapping[str, Task], answers: "queue.Queue[Done | BaseException]"
    ) -> None:
        """One worker's life: hand it settings until none is left; a new process where one died."""
        process: subprocess.Popen[bytes] | None = None
        try:
            while waiting:
                try:
                    key = waiting.popleft().key
                except IndexError:  # another thread was faster
                    break
                how = ""
                for _ in range(RETRIES + 1):
                    process = process or self._started()
                    line = _ask(process, tasks[key])
                    if line or self._ended:
                        break
                    how = _end(process)
                    process = None
                if self._ended:
                    return
                died = f"its worker died {RETRIES + 1} times ({how}); try --jobs 1 or fewer rows"
                answers.put(msgspec.json.decode(line, type=Done) if line else Done(key, 0.0, "", died, machine=True))
        except BaseException as error:  # noqa: BLE001  (told to the thread that waits)
            answers.put(error)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ended:
                raise RuntimeError("the crew has ended")
            process = subprocess.Popen(  # noqa: S603  (our own program, no shell)
                [sys.executable, "-c", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **ONE_THREAD},
            )
            self._processes.append(process)
        return process


def _ask(process: subprocess.Popen[bytes], task: Task) -> bytes:
    """The worker's answer, a JSON line; empty if it died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(task) + b"\n")
        process.stdin.flush()
    except OSError:
        return b""
    return process.stdout.readline()


def _end(process: subprocess.Popen[bytes]) -> str:
    """End a worker that answers no more, and say how it went; one that has died keeps the end it had."""
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "no answer"
    return ended(process.returncode)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def serve() -> None:
    """A worker: read tasks from stdin, answer on stdout, end when stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides what an interrupt means
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not mix with the answers
    tasks: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    while True:
        task = msgspec.json.decode(tasks.get(), type=Task)
        answers.write(msgspec.json.encode(_work(task)) + b"\n")
        answers.flush()


def _listen(tasks: "queue.Queue[bytes]") -> None:
    for line in sys.stdin.buffer:
        tasks.put(line)
    os._exit(0)  # the coordinator is gone, or has no more work: nobody waits for what is being done


def _work(task: Task) -> Done:
    try:
        return run_setting(task.setting, None if task.path is None else Path(task.path), Path(task.out), task.place)
    except Exception as error:  # noqa: BLE001  (whatever it is, it must not cost the other settings)
        text, machine = _reason(error)
        return Done(task.setting.key, 0.0, "", text, machine, lost=isinstance(error, ClusterLostError))


def _reason(error: Exception) -> tuple[str, bool]:
    """What to tell of an error, and whether the machine is at fault."""
    if isinstance(error, FedskewError):
        return str(error), isinstance(error, EnvironmentFaultError)
    if short_of_memory(error):
        return "out of memory; try --jobs 1 or fewer rows", True
    if isinstance(error, OSError):
        return f"{error.filename or 'the machine'}: {error.strerror or error}", True
    traceback.print_exc()
    return f"this is a bug ({type(error).__name__}: {error})", False

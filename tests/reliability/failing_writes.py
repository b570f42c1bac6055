"""Run by test_every_write.py with failing.c preloaded: every k, every way to fail; what was told is still there after.

The states of the run are written as the engine writes them, without torch, so that a fork costs milliseconds.
Prints one JSON object: scenario to number of writes tried. A broken promise is an AssertionError.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedskew.engine.plans import Part
from fedskew.engine.store import RunStore
from fedskew.profiles.atomic import folder_atomically, write_atomically
from fedskew.profiles.errors import EnvironmentFaultError

ONCE, EVER, TORN = range(3)
SHIM = ctypes.CDLL(None)
KEY = {"data": "a" * 64, "rounds": "3"}
TRIALS, ROUNDS = ("first", "second"), 2
OLD, NEW = b"old" * 1000, b"new" * 1500


def content(trial: str, round_: int) -> bytes:
    return f"{trial} {round_} ".encode() * 400


def part(trial: str, round_: int) -> Part:
    curves = np.full((3, 2, 1), len(trial) + round_ / 7)
    predicted = np.full((2, 50), float(round_)) if round_ == ROUNDS - 1 else None
    state = "" if predicted is not None else f"{trial}-{round_}"
    sha256 = hashlib.sha256(content(trial, round_)).hexdigest() if state else ""
    return Part(round_, round_ + 1, curves, state, sha256, predicted, np.array([0, 0]), 7, 0.25)


def sound(folder: Path, one: Part) -> bool:
    """Whether the saved state of a part is the one that was written."""
    return hashlib.sha256((folder / "run" / "blobs" / one.state).read_bytes()).hexdigest() == one.sha256


def run(folder: Path, told: Path) -> None:
    """A run that resumes; appends to ``told`` whatever it has finished."""
    store = RunStore(folder / "run", KEY)
    for trial in TRIALS:
        parts = store.parts(trial)
        for round_ in range(len(parts), ROUNDS):
            if round_:
                assert sound(folder, parts[-1])
            made = part(trial, round_)
            if made.state:
                write_atomically(folder / "run" / "blobs" / made.state, content(trial, round_))
            store.commit(trial, made)
            parts.append(made)
            with told.open("a") as stream:
                stream.write(f"{trial} {round_}\n")
    store.remember("done", "yes")
    store.close()


def check_run(folder: Path, told: Path) -> None:
    """All that was told is there, bit for bit, and nothing else than the next round."""
    store = RunStore(folder / "run", KEY)
    said = told.read_text().split("\n") if told.exists() else []
    for trial in TRIALS:
        found = store.parts(trial)
        count = sum(line.startswith(trial) for line in said)
        assert count <= len(found) <= count + 1, (count, len(found))
        for round_, one in enumerate(found):
            made = part(trial, round_)
            assert one.curves.tobytes() == made.curves.tobytes()
            assert (one.predicted is None) == (made.predicted is None)
        if found and found[-1].state:
            assert sound(folder, found[-1])
    store.close()


def write(folder: Path, told: Path) -> None:
    write_atomically(folder / "report.html", NEW)
    told.write_text("written")


def check_write(folder: Path, told: Path) -> None:
    found = (folder / "report.html").read_bytes()
    assert found in {OLD, NEW}
    assert found == NEW or not told.exists()


def silos(folder: Path, told: Path) -> None:
    with folder_atomically(folder / "silos") as part_:
        for name in "abc":
            (part_ / name).write_bytes(NEW)
    told.write_text("written")


def check_silos(folder: Path, told: Path) -> None:
    if (folder / "silos").exists():
        assert {p.name: p.read_bytes() for p in (folder / "silos").iterdir()} == dict.fromkeys("abc", NEW)
    else:
        assert not told.exists()


def child(task: Callable[[Path, Path], None], folder: Path, told: Path, k: int, mode: int) -> tuple[int, int]:
    """Do a task in a fork whose k-th write fails: how it ended (signals negative), and how many writes it made."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        code = 4
        with contextlib.suppress(BaseException):
            SHIM.failing_arm(f"{folder}/".encode(), ctypes.c_long(k), mode)
            try:
                task(folder, told)
                code = 0
            except EnvironmentFaultError:
                code = 3
            except BaseException as fault:  # noqa: BLE001 - told by the exit code
                sys.stderr.write(f"k = {k}, mode {mode}: {type(fault).__name__}: {fault}\n")
            os.write(writing, str(SHIM.failing_count()).encode())
        os._exit(code)
    os.close(writing)
    status = os.waitpid(pid, 0)[1]
    told_count = os.read(reading, 100)
    os.close(reading)
    return os.waitstatus_to_exitcode(status), int(told_count or 0)


def every(name: str, task: Callable[..., None], check: Callable[..., None], home: Path, *, resumes: bool) -> int:
    """Fail at the k-th write for every k and in every way."""
    tried = 0
    for mode in (ONCE, EVER, TORN):
        k = 0
        while True:
            k += 1
            folder, told = home / name, home / f"{name}.told"
            shutil.rmtree(folder, ignore_errors=True)
            told.unlink(missing_ok=True)
            folder.mkdir()
            (folder / "report.html").write_bytes(OLD)
            code, _ = child(task, folder, told, k, mode)
            assert code in {0, 3, -9}, f"{name}, k = {k}, mode {mode}: exit code {code}"
            check(folder, told)
            if mode != TORN and not resumes:
                assert not [p for p in folder.iterdir() if p.name.endswith(".part")]
            if resumes:
                assert child(task, folder, told, 10**9, ONCE)[0] == 0, f"{name}, k = {k}, mode {mode}: no resume"
                check(folder, told)
                assert told.read_text().count("\n") >= len(TRIALS) * ROUNDS - (code != 0)
            if code == 0 and mode != ONCE:
                break  # the k-th write was never reached
            if code == 0 and k > child_writes(task, home, name):
                break
            tried += 1
    return tried


COUNTS: dict[str, int] = {}


def child_writes(task: Callable[..., None], home: Path, name: str) -> int:
    """Writes of an undisturbed task."""
    if name not in COUNTS:
        folder = home / f"{name}-whole"
        folder.mkdir()
        (folder / "report.html").write_bytes(OLD)
        code, COUNTS[name] = child(task, folder, home / f"{name}-whole.told", 10**9, ONCE)
        assert code == 0
    return COUNTS[name]


def main() -> None:
    home = Path(sys.argv[1])
    tried = {
        "store": every("store", run, check_run, home, resumes=True),
        "report": every("report", write, check_write, home, resumes=False),
        "silos": every("silos", silos, check_silos, home, resumes=False),
    }
    sys.stdout.write(json.dumps({"tried": tried, "writes": COUNTS}))


if __name__ == "__main__":
    main()

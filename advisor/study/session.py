"""A study from its settings to its folder: what is done already, what is to do, who does it, and what is written."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedskew.advisor.study.grid import Study
from fedskew.advisor.study.output import write_outputs
from fedskew.advisor.study.run import HERE, Done, Place, Result, read_result, result_path
from fedskew.advisor.study.versions import environment
from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.errors import EnvironmentFaultError


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a study stands after a run.

    ``finished``, ``missing``: number of settings. ``failed``: title and reason. ``machine``: titles of those that
    failed by the machine's fault, which the same command tries again. ``skipped``: data sets that are not here.
    ``files``: what was written, names within the folder.
    """

    name: str
    note: str
    finished: int
    missing: int
    failed: dict[str, str]
    skipped: tuple[str, ...]
    files: tuple[str, ...]
    machine: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One JSON document, indented by two."""
        return msgspec.json.format(
            msgspec.json.encode({"schema": "fedskew-study/1", **msgspec.to_builtins(self)})
        ).decode()


def run_study(
    study: Study,
    out: Path,
    *,
    jobs: int | None = None,
    place: Place = HERE,
    tell: Callable[[str], None] = lambda _: None,
    curves: bool = False,
) -> Standing:
    """Finish what is missing of a study, then write its tables.

    Parameters
    ----------
    study : from ``read_study``
    out : the folder; made where it does not exist. What it holds is kept and gone on from
    jobs : settings at a time, each in a process of its own; None: one a core
    place : where the trials of a setting run: here, or on a Ray cluster
    tell : told a line at a time how far it is
    curves : also draw the learning curves of every setting

    Raises
    ------
    FedskewError
        The folder holds files that are no study's results.
    EnvironmentFaultError
        The folder cannot be written to, another process runs a study in it, or the Ray cluster is lost.
    """
    from fedskew.advisor.study.workers import Crew
    from fedskew.engine.pool import cores

    with _opened(out):
        _note_environment(out, tell)
        for name, path in study.skipped.items():
            tell(f"data set {name} is skipped: {path} is not here")
        todo = [setting for setting in study.settings if not result_path(out, setting).exists()]
        total, count = len(study.settings), len(study.settings) - len(todo)
        if count:
            tell(f"{count} of {total} settings are finished already")
        titles = {setting.key: setting.title for setting in study.settings}
        failed: dict[str, str] = {}
        machine: list[str] = []

        def finished(one: Done) -> None:
            nonlocal count
            count += 1
            if one.error is not None:
                failed[titles[one.key]] = one.error
                machine.extend([titles[one.key]] if one.machine else [])
                tell(f"[{count}/{total}] {titles[one.key]}: FAILED: {one.error}")
            else:
                tell(f"[{count}/{total}] {titles[one.key]}: {one.line} ({one.seconds:.0f} s)")

        try:
            if todo:
                with Crew(jobs or cores(), place) as crew:
                    crew.run(todo, study.places, out, finished)
        finally:  # an interrupt too leaves tables of what there is
            results = finished_results(study, out)
            files = write_outputs(study, results, out, curves=curves)
        left = len(study.settings) - len(results)
        skipped = tuple(study.skipped)
        return Standing(study.name, study.note, len(results), left, failed, skipped, files, tuple(machine))


def finished_results(study: Study, out: Path) -> tuple[Result, ...]:
    """The results that a folder holds, in the order of the study."""
    paths = [result_path(out, setting) for setting in study.settings]
    return tuple(read_result(path) for path in paths if path.exists())


@contextmanager
def _opened(out: Path) -> Iterator[None]:
    """The folders, and a lock that ends with the process."""
    try:
        for name in ("settings", "timings", "runs"):
            (out / name).mkdir(parents=True, exist_ok=True)
        handle = os.open(out / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise EnvironmentFaultError(f"{out}: cannot be used ({error.strerror}); choose another --out") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentFaultError(
                f"{out}: another process runs a study here; wait, or choose another --out"
            ) from None
        yield
    finally:
        os.close(handle)


def _note_environment(out: Path, tell: Callable[[str], None]) -> None:
    """Keep a list of what the results were made with; say so where that has changed."""
    path, now = out / "environment.json", environment()
    seen: list[dict[str, str]] = msgspec.json.decode(path.read_bytes()) if path.exists() else []
    if seen[-1:] == [now]:  # not only somewhere in the list: going back to old versions is a change too
        return
    if seen:
        changed = ", ".join(name for name in now if now[name] != seen[-1].get(name))
        tell(f"changed since the last run: {changed}; finished settings are kept (choose another --out to begin anew)")
    write_atomically(path, msgspec.json.format(msgspec.json.encode([*seen, now])) + b"\n")

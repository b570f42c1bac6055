"""A validation's training, from plans to outcomes: the run folder, the workers, tuning, and what to tell meanwhile."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from fedskew.engine.elimination import run_by_stages
from fedskew.engine.estimates import estimate
from fedskew.engine.fingerprints import own_code, traits
from fedskew.engine.models import build
from fedskew.engine.plans import Estimate, ModelSpec, Outcome, Progress, Trial
from fedskew.engine.pool import Workers, cores
from fedskew.engine.pool_losses import short_of_memory
from fedskew.engine.records import Tried
from fedskew.engine.splits import Prepared, arrays_of
from fedskew.engine.store import RunStore
from fedskew.engine.tuning import tune_all, tuning_table
from fedskew.engine.versions import versions
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError


@dataclass(frozen=True, slots=True)
class Session:
    """How to train.

    ``recommended``: the candidate that elimination between seeds measures the others against. ``run``: a folder to keep
    and resume from; ``auto``, one in the user's cache, named by all that the results depend on and removed when they
    are there; or None. ``force``: resume in spite of a changed key. ``backend``, ``address``: where the trials run
    (``backends.py``); a run may go on elsewhere than it began. ``begun``: see :class:`RunStore`.
    """

    recommended: str
    seed: int
    jobs: int | None
    tuning: bool
    run: Path | str | None
    force: bool
    tell: Callable[[Progress], None] | None
    announce: Callable[[Estimate], None] | None = None
    backend: str = "local"
    address: str | None = None
    begun: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """The trials as they ran, tuned; their outcomes; what tuning tried for each; and what was changed on the way."""

    trials: list[Trial]
    outcomes: list[Outcome]
    tried: list[tuple[Tried, ...]]
    breaks: str | None = None


def train(trials: Sequence[Trial], data: Prepared, session: Session) -> Results:
    """Tune the candidates where asked, then run all trials to their ends.

    Raises
    ------
    FedskewError
        The model cannot be built, or the run folder holds another run.
    EnvironmentFaultError
        Workers or disk failed.
    """
    _try_model(trials[0].model, data)
    tables = {"main": data}
    if session.tuning:
        tables["tuning"] = tuning_table(data, session.seed)
    with _opened(trials, data, session) as store, _workers(tables, len(trials), store, session) as workers:
        if session.announce is not None:
            timed = trials if session.backend == "local" else [_on_cpu(trial) for trial in trials]
            session.announce(estimate(timed, data, workers.jobs, tuning=session.tuning))
        ready, tried = _tuned(trials, workers, session)

        def run(batch: Sequence[Trial]) -> list[Outcome]:
            return workers.run(batch, _teller(batch, session.tell, ""))

        ran, outcomes = run_by_stages(ready, session.recommended, run, data.test_y)
        breaks = None if store is None else store.recall("forced resumes")
    return Results(ran, outcomes, tried, breaks)


def _workers(tables: dict[str, Prepared], trials: int, store: RunStore | None, session: Session) -> Workers:
    jobs = session.jobs or (None if session.address else min(cores(), trials))
    return open_workers(tables, jobs, store, session.backend, session.address)


def open_workers(
    tables: dict[str, Prepared], jobs: int | None, store: RunStore | None, backend: str, address: str | None
) -> Workers:
    """Workers of this machine or of a Ray cluster; ``jobs`` None: as many as the cluster at ``address`` has."""
    if backend == "local":
        return Workers(tables, jobs or cores(), store)
    from fedskew.engine.ray_pool import RayWorkers

    return RayWorkers(tables, jobs, store, address)


def _on_cpu(trial: Trial) -> Trial:
    """The trial as this machine can time it, which may lack the GPU that the cluster has."""
    return replace(trial, settings=msgspec.structs.replace(trial.settings, device="cpu"))


def _try_model(spec: ModelSpec, data: Prepared) -> None:
    """Tell an unknown or broken model before any work starts, with its own words.

    Raises
    ------
    FedskewError
        It cannot be built, raises on the first rows, or gives outputs of another shape.
    EnvironmentFaultError
        There is no memory for it.
    """
    module = build(spec).eval()
    rows = torch.from_numpy(data.x[:2])
    try:
        with torch.no_grad():
            shape = tuple(module(rows).shape)
    except Exception as error:  # a user's module may raise anything
        if short_of_memory(error):  # the machine's fault, not the module's
            raise EnvironmentFaultError(
                f"out of memory for two rows of model {spec.name!r}; try a smaller --model"
            ) from error
        raise FedskewError(
            f"model {spec.name!r} fails on rows of shape {spec.shape}: {type(error).__name__}: {error}"
        ) from error
    if shape != (len(rows), spec.outputs):
        raise FedskewError(
            f"model {spec.name!r} gives outputs of shape {shape} for {len(rows)} rows; it must give "
            f"({len(rows)}, {spec.outputs})"
        )


def run_key(trials: Sequence[Trial], data: Prepared, *, recommended: str, tuning: bool) -> dict[str, str]:
    """Everything that the results depend on, by name: data, options, versions, and the engine's own code."""
    settings = msgspec.to_builtins(trials[0].settings)
    return {
        "data": _hash(arrays_of(data).values()),
        "parties": hashlib.sha256("\x1f".join(data.names).encode("utf-8", "surrogatepass")).hexdigest(),
        "recommended": recommended,
        "candidates": ", ".join(f"{t.name} {sorted(t.hyper.items())}" for t in trials),
        "model": f"{trials[0].model.name} {trials[0].model.shape} {trials[0].model.outputs}",
        "seeds": str(trials[0].seeds),
        "tuning": str(tuning),
        "traits": ", ".join(traits(t.algorithm) for t in trials),
        "own code": ", ".join(filter(None, (own_code(t.algorithm, t.model.name) for t in trials))),
        **{name: str(value) for name, value in settings.items()},
        **versions(),
    }


def _tuned(trials: Sequence[Trial], workers: Workers, session: Session) -> tuple[list[Trial], list[tuple[Tried, ...]]]:
    if not session.tuning:
        return list(trials), [()] * len(trials)
    return tune_all(trials, lambda batch: workers.run(batch, _teller(batch, session.tell, "tuning ")))


def _teller(
    trials: Sequence[Trial], tell: Callable[[Progress], None] | None, prefix: str
) -> Callable[[int, int, float], None] | None:
    if tell is None:
        return None
    return lambda i, rounds, score: tell(Progress(prefix + trials[i].name, rounds, trials[i].settings.rounds, score))


@contextmanager
def _opened(trials: Sequence[Trial], data: Prepared, session: Session) -> Iterator[RunStore | None]:
    if session.run is None:
        yield None
        return
    key = run_key(trials, data, recommended=session.recommended, tuning=session.tuning)
    automatic = session.run == "auto"
    folder = _cache() / _hash([repr(sorted(key.items())).encode()])[:24] if automatic else Path(session.run)
    try:
        store = RunStore(folder, key, force=session.force, begun=None if automatic else session.begun)
    except EnvironmentFaultError:
        if not automatic:
            raise
        yield None  # nobody asked for a folder, so a cache that cannot be used must not stop the work
        return
    try:
        yield store
    finally:
        store.close()
    if automatic:
        shutil.rmtree(folder, ignore_errors=True)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedskew" / "runs"


def _hash(parts: Iterable[NDArray[Any] | bytes | None]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        elif part is not None:
            digest.update(part)
    return digest.hexdigest()

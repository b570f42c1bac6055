"""Running a study: one setting after the other in worker processes, each result in one file that is never half written.

A worker trains one setting with one torch thread in the setting's own run folder; a kill costs at most the part it ran.
Wall-clock seconds stand in ``timings`` and nowhere else, so that results are the same bytes however often it was cut.
"""

import math
import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedskew.advisor.study.candidates import candidate
from fedskew.advisor.study.data import partition_of
from fedskew.advisor.study.grid import Record, Setting
from fedskew.advisor.study.versions import environment
from fedskew.engine.plans import Estimate, ModelSpec, Trial, default_model
from fedskew.engine.records import Validation
from fedskew.engine.splits import Prepared, prepare
from fedskew.engine.summaries import summarise
from fedskew.engine.validation import reference_trials
from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.partitions import Partition
from fedskew.profiles.records import Profile
from fedskew.profiles.steps import fednova_weight_sum, step_ratio
from fedskew.profiles.summary import profile

SCHEMA = "fedskew-study-result/1"
Lines = tuple[tuple[float, ...], ...]


class Result(Record, frozen=True):
    """What one setting gave.

    ``validation``: its seconds are 0, see ``timings``. ``balanced_curves``: balanced accuracy by candidate, seed and
    round. ``train_sizes``: rows that each party trains on. ``step_ratio``: most local steps over fewest.
    ``weight_sum``: FedNova's A, with the momentum of the setting.
    """

    setting: Setting
    profile: Profile
    validation: Validation
    balanced_curves: dict[str, Lines]
    train_sizes: tuple[int, ...]
    step_ratio: float
    weight_sum: float
    schema: str = SCHEMA


class Place(Record, frozen=True):
    """Where trials run: ``backend`` local or ray, ``address`` of a running cluster. No result depends on it."""

    backend: str = "local"
    address: str | None = None


HERE = Place()


@dataclass(frozen=True, slots=True)
class Done:
    """A setting that a worker has finished: one line for a person, or what went wrong.

    ``machine``: not the setting is at fault but the machine, so that the same command may finish it. ``lost``: the
    place where trials run is gone, so that no other setting can run either.
    """

    key: str
    seconds: float
    line: str
    error: str | None = None
    machine: bool = False
    lost: bool = False


def result_path(out: Path, setting: Setting) -> Path:
    """Where the result of a setting stands."""
    return out / "settings" / f"{setting.key}.json"


def read_result(path: Path) -> Result:
    """Read the result of a setting.

    Raises
    ------
    FedskewError
        The file is not what this version writes.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except (msgspec.MsgspecError, OSError) as error:
        raise FedskewError(
            f"{path}: is no result of this version ({error}); delete it and run the study again"
        ) from error


def run_setting(setting: Setting, path: Path | None, out: Path, place: Place = HERE) -> Done:
    """Train a setting to its end, write its result, and drop its run folder.

    Parameters
    ----------
    setting, path : what to train, and where its data lie
    out : folder of the study
    place : where the trials run

    Raises
    ------
    FedskewError
        The data cannot be read or split, or a candidate cannot be trained.
    """
    began = time.monotonic()
    partition = partition_of(setting, path)
    run = out / "runs" / setting.key
    try:
        validation, curves, data = _trained(setting, partition, run, place)
    except EnvironmentFaultError:
        raise
    except FedskewError:
        if not run.exists():
            raise
        shutil.rmtree(run)  # begun with other code or versions: begin anew
        validation, curves, data = _trained(setting, partition, run, place)
    sizes = tuple(int(size) for size in data.bounds[1:] - data.bounds[:-1])
    steps = (setting.local_epochs, setting.batch_size)
    result = Result(
        setting=setting,
        profile=profile(partition),
        validation=_timeless(validation),
        balanced_curves=curves,
        train_sizes=sizes,
        step_ratio=step_ratio(sizes, *steps),
        weight_sum=fednova_weight_sum(sizes, *steps, momentum=setting.momentum),
    )
    seconds = time.monotonic() - began
    spent = {c.algorithm: round(c.seconds, 3) for c in validation.candidates}
    times = {"seconds": round(seconds, 3), "training": spent}
    write_atomically(out / "timings" / f"{setting.key}.json", msgspec.json.format(msgspec.json.encode(times)) + b"\n")
    write_atomically(result_path(out, setting), msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    shutil.rmtree(run, ignore_errors=True)
    return Done(setting.key, seconds, _line(validation))


def estimate_setting(setting: Setting, path: Path | None) -> Estimate:
    """What a setting will take in one process; good to about a factor of two."""
    from fedskew.engine.estimates import estimate

    data = prepare(partition_of(setting, path), None, setting.seed)
    return estimate(_trials(setting, data), data, 1, tuning=setting.tuning)


def _trained(
    setting: Setting, partition: Partition, run: Path, place: Place
) -> tuple[Validation, dict[str, Lines], Prepared]:
    """What ``validate`` does, with all seeds for every candidate, and the curves of balanced accuracy kept."""
    from fedskew.engine.session import open_workers
    from fedskew.engine.store import RunStore
    from fedskew.engine.tuning import can_tune, tune_all, tuning_table

    data = prepare(partition, None, setting.seed)
    trials = _trials(setting, data)
    tables = {"main": data}
    tuned = setting.tuning and can_tune(data)
    if tuned:
        tables["tuning"] = tuning_table(data, setting.seed)
    with (
        closing(RunStore(run, {"setting": setting.key, **environment()})) as store,
        open_workers(tables, 1, store, place.backend, place.address) as workers,
    ):
        trials, tried = tune_all(trials, workers.run) if tuned else (trials, [()] * len(trials))
        outcomes = workers.run(trials)
    names = [trial.name for trial in trials if trial.role == "candidate"]
    against = "fedavg" if "fedavg" in names else names[0]
    used = {"preset": "study", "seed": setting.seed, "tuning": "equal" if tuned else "none"}
    validation = summarise(trials, outcomes, data, against, used, tried)
    curves = {
        trial.name: tuple(tuple(float(v) for v in line if math.isfinite(v)) for line in outcome.balanced)
        for trial, outcome in zip(trials, outcomes, strict=True)
        if trial.role == "candidate"
    }
    return validation, curves, data


def _trials(setting: Setting, data: Prepared) -> list[Trial]:
    shape = data.x.shape[1:]
    spec = ModelSpec(default_model(shape) if setting.model == "auto" else setting.model, shape, data.outputs)
    seeds = tuple(range(setting.seed, setting.seed + setting.seeds))
    chosen = [candidate(text) for text in setting.candidates]
    trials = [Trial(algorithm, hyper, setting.training, seeds, spec) for algorithm, hyper in chosen]
    return trials + reference_trials(trials[0]) if setting.references else trials


def _timeless(found: Validation) -> Validation:
    """The validation without what depends on the clock."""
    still = tuple(msgspec.structs.replace(c, seconds=0.0, at_equal_seconds=None) for c in found.candidates)
    return msgspec.structs.replace(found, candidates=still)


def _line(found: Validation) -> str:
    scored = [(c.accuracy.mean, c.algorithm) for c in found.candidates if c.accuracy.mean is not None]
    best = sorted(scored, key=lambda pair: -pair[0])[:3]
    lost = [c.algorithm for c in found.candidates if c.status != "ok"]
    text = ", ".join(f"{name} {100 * score:.1f}" for score, name in best) or "no candidate has a score"
    return text + (f"; not ok: {', '.join(lost)}" if lost else "")

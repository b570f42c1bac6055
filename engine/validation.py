"""validate(): short paired runs of all candidates on the user's own data, and the verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from fedskew.engine.algorithms.base import Algorithm
from fedskew.engine.algorithms.limits import check_hyper
from fedskew.engine.algorithms.local import LOCAL_ONLY
from fedskew.engine.algorithms.registry import ALGORITHMS, find_algorithm
from fedskew.engine.algorithms.wsm import SUFFIX
from fedskew.engine.backends import check_backend
from fedskew.engine.plans import Estimate, ModelSpec, Progress, Trial, default_model
from fedskew.engine.records import Validation
from fedskew.engine.settings import Settings, changed_settings, find_preset
from fedskew.engine.splits import Prepared, prepare
from fedskew.engine.summaries import summarise
from fedskew.engine.transforms import read_transforms
from fedskew.engine.tuning import can_tune
from fedskew.profiles.errors import SILOS, FedskewError, check_type, check_whole
from fedskew.profiles.partitions import Partition

TRAINING = "training"
"""The name under which ``hyper`` (``--set training.KEY=VALUE``) changes the settings of all algorithms."""


def validate(
    partition: Partition,
    algorithms: Sequence[str | Algorithm] | None = None,
    *,
    recommended: str | Algorithm | None = None,
    preset: str = "quick",
    seeds: int | None = None,
    max_rows: int | None = None,
    model: str | None = None,
    references: bool = True,
    hyper: Mapping[str, Mapping[str, float | str]] | None = None,
    seed: int = 0,
    jobs: int | None = None,
    tuning: bool = True,
    run: Path | str | None = None,
    force_resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
    announce: Callable[[Estimate], None] | None = None,
    begun: Callable[[], None] | None = None,
    backend: str = "local",
    address: str | None = None,
    **settings: float,
) -> Validation:
    """Train all candidates in short paired runs and return a verdict on the recommended one.

    Every candidate gets the same rows, test rows, seeds, initial weights, cohorts and minibatch order.

    Parameters
    ----------
    partition : the silos; rows are held out for testing where it has no test table
    algorithms : ids or values; None: all that are registered
    recommended : id or value that the verdict is about; None: the first of ``algorithms``
    preset : ``quick``, ``standard`` or ``paper``: settings, number of seeds and row cap
    seeds, max_rows : override the preset
    model : name of a model or ``module:factory``; None: by modality
    references : also train the centralised and local-only reference lines
    hyper : by algorithm id, changes to its hyperparameters (``lr`` and ``momentum`` too); by ``training``, settings of
        all of them, as below
    seed : base seed of the splits and of the runs, whose seeds are ``seed``, ``seed + 1`` and so on: a repetition with
        runs that are all new needs one that is at least ``seeds`` away
    jobs : worker processes; None: one a core
    tuning : give every candidate the same number of settings to try, on rows held back from training; not done where
        the parties are too small to spare any, and the settings of the result then say so
    run : folder that keeps every finished part, so that the same call resumes to the same bytes; ``auto``: one in the
        user's cache, removed when done; None keeps nothing
    force_resume : go on in a run folder whose options or versions differ, never whose rows do; the settings of the
        result say so
    progress : called now and then
    announce : told once, before the start, how long it will take and how much memory it needs
    begun : called where ``run`` takes this run for the first time, or another one by force, before any training
    backend : ``local``, processes of this machine, or ``ray``: the same trials, to the same bytes, on a Ray cluster
    address : of a running cluster, ``auto`` or ``HOST:PORT``; None starts one here that ends with the call
    settings : override any field of :class:`Settings`, such as ``rounds=10``

    Raises
    ------
    FedskewError
        An unknown algorithm, model, preset, backend or setting, or two algorithms of one name; nothing to train or test
        on.
    EnvironmentFaultError
        Disk, memory or workers failed, Ray is missing, or its cluster is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from fedskew import make_partition
    >>> x = np.arange(80.0).reshape(40, 2) % 7
    >>> toy = make_partition(x, (x[:, 0] > 3).astype(int), np.repeat(["a", "b"], 20))
    >>> found = validate(toy, ["fedavg", "fedprox"], seeds=2, rounds=1, jobs=1, references=False, tuning=False)
    >>> [c.algorithm for c in found.candidates], found.recommended
    (['fedavg', 'fedprox'], 'fedavg')
    """
    check_type("what is to be trained on", partition, Partition, SILOS)
    check_backend(backend, address)
    check_whole("seed", seed)
    for name, count in (("seeds", seeds), ("max_rows", max_rows), ("jobs", jobs)):
        if count is not None:
            check_whole(name, count, 1)
    budget = find_preset(preset).fitting(model or default_model(partition.features.shape[1:]))
    chosen, chief = _candidates(algorithms, recommended)
    if partition.parties < 2:
        raise FedskewError(f"only one party, {partition.party_names[0]!r}; federated training needs at least two")
    if not all(partition.features.shape[1:]):
        raise FedskewError("no column can serve as a feature, so there is nothing to train on; see `fedskew profile`")
    data = prepare(partition, max_rows if max_rows is not None else budget.max_rows, seed)
    changes = {name.lower(): values for name, values in (hyper or {}).items()}
    general = {**settings, **changes.pop(TRAINING, {})}
    how = changed_settings(budget.settings, {"local_epochs": budget.epochs(len(data.y)), **general})
    read_transforms(how.transforms, data.x.shape[1:], len(data.names))
    trials = _trials(chosen, changes, how, seeds or budget.seeds, seed=seed, data=data, model=model)
    if references:
        trials += reference_trials(trials[0])
    from fedskew.engine.session import Session, train  # torch takes a second to import: only here

    tuning = tuning and can_tune(data)
    tuned = tuning and how.rounds > 0
    how_to = Session(chief, seed, jobs, tuned, run, force_resume, progress, announce, backend, address, begun)
    found = train(trials, data, how_to)
    used = {"preset": preset, "seed": seed, "tuning": "equal" if tuning else "none"}
    if found.breaks:
        used["forced_resumes"] = "; ".join(found.breaks.splitlines())
    return summarise(found.trials, found.outcomes, data, chief, used, found.tried)


def _candidates(
    algorithms: Sequence[str | Algorithm] | None, recommended: str | Algorithm | None
) -> tuple[list[Algorithm], str]:
    """The candidates, registered ones first and in that order, and the name of the recommended one."""
    if isinstance(algorithms, str):
        raise FedskewError(f"algorithms is the text {algorithms!r}; give a list, such as ['fedavg', 'scaffold']")
    wanted = ALGORITHMS if algorithms is None else algorithms
    found = [a if isinstance(a, Algorithm) else find_algorithm(a) for a in wanted]
    if recommended is not None:
        found.append(_named(recommended, found))
    if not found:
        raise FedskewError("no algorithm to train: the list of candidates is empty")
    order = [a.name for a in ALGORITHMS]
    unique: dict[str, Algorithm] = {}
    for a in found:
        name = a.name.lower()
        shipped = find_algorithm(name) if name.removesuffix(SUFFIX) in order else a
        if unique.setdefault(name, shipped) != a:
            raise FedskewError(f"two algorithms are named {a.name!r}; give your own one another name")
    chief = found[0 if recommended is None else -1].name
    return sorted(unique.values(), key=lambda a: order.index(a.name) if a.name in order else len(order)), chief


def _named(wanted: str | Algorithm, among: Sequence[Algorithm]) -> Algorithm:
    """An algorithm by its id, in any case, be it registered or one of the user's own."""
    if isinstance(wanted, Algorithm):
        return wanted
    name = wanted.strip().lower()
    return next((a for a in among if a.name.lower() == name), None) or find_algorithm(wanted)


def _trials(
    chosen: Sequence[Algorithm],
    hyper: Mapping[str, Mapping[str, float | str]],
    how: Settings,
    seeds: int,
    *,
    seed: int,
    data: Prepared,
    model: str | None,
) -> list[Trial]:
    unknown = set(hyper) - {a.name.lower() for a in chosen}
    if unknown:
        raise FedskewError(f"hyperparameters for {min(unknown)!r}, which is no candidate of this run")
    for algorithm in chosen:
        check_hyper(algorithm, hyper.get(algorithm.name.lower(), {}))
    spec = ModelSpec(model or default_model(data.x.shape[1:]), data.x.shape[1:], data.outputs)
    numbers = tuple(range(seed, seed + seeds))
    return [Trial(a, dict(hyper.get(a.name.lower(), {})), how, numbers, spec) for a in chosen]


def reference_trials(like: Trial) -> list[Trial]:
    """The centralised and the local-only line beside a candidate: all parties every round, its rates as given."""
    everyone = msgspec.structs.replace(like.settings, participation=1.0)
    base = replace(like, hyper={}, settings=everyone)
    return [
        replace(base, algorithm=find_algorithm("fedavg"), role="centralised"),
        replace(base, algorithm=LOCAL_ONLY, role="local_only"),
    ]

"""What is to be exported, read from what a command found: the algorithm, its hyperparameters, network and classes."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from fedskew.advisor.hyperparameters import LOCAL, hyperparameters
from fedskew.advisor.reporting import Report
from fedskew.engine.algorithms import Algorithm, find_algorithm
from fedskew.engine.records import Candidate, Validation
from fedskew.engine.settings import Settings
from fedskew.profiles.errors import FedskewError

WANTED = "give a run folder, or what `fedskew advise|validate|recommend --json PATH` wrote"


@dataclass(frozen=True, slots=True)
class Choice:
    """All that an app is made from.

    ``hyper``: the algorithm's own hyperparameters. ``classes``: names in the order of their codes, none for a
    continuous target. ``why``: a sentence for people. ``notes``: what they must know.
    """

    algorithm: Algorithm
    hyper: Mapping[str, float | str]
    parties: int
    model: str
    classes: tuple[str, ...]
    why: str
    rounds: int = 50
    local_epochs: int = 10
    batch_size: int = 64
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-5
    participation: float = 1.0
    seed: int = 0
    dtype: str = "float32"
    notes: tuple[str, ...] = ()


def choose(found: Report, algorithm: str | None = None) -> Choice:
    """Decide what to export: the verdict's winner, else what was recommended; or the algorithm that is asked for.

    Its hyperparameters are the tuned ones of the validation, else the recommendation's to start from.

    Parameters
    ----------
    found : from :func:`fedskew.advisor.read_report`
    algorithm : id of the algorithm to export instead of the one that was found; None for that one

    Raises
    ------
    FedskewError
        There is no advice to follow, no such algorithm, or the document does not say what the classes are.
    """
    name, why = _asked(algorithm) if algorithm is not None else _advised(found)
    value = find_algorithm(name)
    parties, classes = _shape(found)
    if found.validation is not None:
        return _validated(found.validation, value, why, parties, classes)
    advice = found.recommendation
    if advice is None:
        raise FedskewError(f"there is neither a recommendation nor a validation; {WANTED}")
    start = advice.hyperparameters.start if advice.algorithm == value.name else {}
    return _from_start({**_start(value), **start}, value, why, parties, classes, advice.price.model)


def _asked(name: str) -> tuple[str, str]:
    return name, f"The algorithm {find_algorithm(name).title} was asked for."


def _advised(found: Report) -> tuple[str, str]:
    verdict = None if found.validation is None else found.validation.verdict
    if verdict is not None and found.validation is not None:
        if verdict.kind == "all_failed":
            raise FedskewError(
                f"no candidate succeeded: {verdict.text} Give --algorithm NAME to export one all the same"
            )
        return verdict.winner or found.validation.recommended, verdict.text
    if found.recommendation is None:
        raise FedskewError(f"there is neither a recommendation nor a validation; {WANTED}")
    if found.recommendation.void is not None:
        raise FedskewError(
            f"no advice holds until the data are settled: {found.recommendation.void}; "
            "give --algorithm NAME to export one all the same"
        )
    return found.recommendation.algorithm, found.recommendation.sentence


def _shape(found: Report) -> tuple[int, tuple[str, ...]]:
    """How many parties hold rows, and the names of the classes, none for a continuous target.

    Raises
    ------
    FedskewError
        A validation alone, which names neither.
    """
    profile = found.data
    if profile is None:
        raise FedskewError(
            "a validation alone does not name the classes; export the run folder that `fedskew validate --run DIR` "
            "kept, or what `fedskew advise --json PATH` wrote"
        )
    holding = sum(1 for row in profile.counts if any(row))
    return holding, () if profile.task == "regression" else profile.class_names


def _validated(validation: Validation, value: Algorithm, why: str, parties: int, classes: tuple[str, ...]) -> Choice:
    used = validation.settings
    try:
        settings = msgspec.convert({k: v for k, v in used.items() if k in Settings.__struct_fields__}, Settings)
    except msgspec.ValidationError as error:
        raise FedskewError(f"the validation's settings cannot be read: {error}; {WANTED}") from error
    if not isinstance(used.get("model"), str):
        raise FedskewError(f"the validation does not name its model; {WANTED}")
    tuned = next((c for c in validation.candidates if c.algorithm == value.name), None)
    hyper = _start(value) if tuned is None else dict(tuned.hyperparameters)
    notes = [_tuning_note(tuned, value)]
    if settings.transforms:
        notes.append(
            f"Batches were transformed in validation ({', '.join(settings.transforms)}), and the app does not do that: "
            "do it in federation/training.py, where x and y are taken from the rows, or expect other numbers."
        )
    return Choice(
        algorithm=value,
        hyper={name: hyper.get(name, default) for name, default in value.hyper.items()},
        parties=parties,
        model=str(used["model"]),
        classes=classes,
        why=why,
        rounds=max(1, settings.rounds),
        local_epochs=settings.local_epochs,
        batch_size=settings.batch_size,
        lr=float(hyper.get("lr", settings.lr)),
        momentum=float(hyper.get("momentum", settings.momentum)),
        weight_decay=settings.weight_decay,
        participation=settings.participation,
        seed=int(used.get("seed") or 0),  # type: ignore[arg-type]
        dtype=settings.dtype,
        notes=tuple(note for note in notes if note),
    )


def _tuning_note(tuned: Candidate | None, value: Algorithm) -> str:
    if tuned is None:
        return (
            f"{value.title} was no candidate of the validation: its hyperparameters are those to start from, untuned."
        )
    if not tuned.tuning:
        return "Hyperparameters were given, not tuned."
    return f"Hyperparameters are the best of {len(tuned.tuning)} trials on rows held back from training."


def _start(value: Algorithm) -> dict[str, float | str]:
    return {**value.hyper, **hyperparameters(value.name).start}


def _from_start(
    start: Mapping[str, float | str], value: Algorithm, why: str, parties: int, classes: tuple[str, ...], model: str
) -> Choice:
    """From a recommendation: nothing was tuned."""
    own = {name: start.get(name, default) for name, default in value.hyper.items()}
    local = {name: float(start.get(name, default)) for name, default in LOCAL.items()}
    return Choice(
        algorithm=value,
        hyper=own,
        parties=parties,
        model=model,
        classes=classes,
        why=why,
        local_epochs=int(start["local_epochs"]),
        batch_size=int(start["batch_size"]),
        notes=("Hyperparameters are those to start from: nothing was trained or tuned on these data.",),
        lr=local["lr"],
        momentum=local["momentum"],
        weight_decay=local["weight_decay"],
    )

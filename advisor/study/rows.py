"""A study's results as rows: one a setting and candidate, and the same in the schema of the evidence base."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import msgspec

from fedskew.advisor.evidence import EvidenceRow
from fedskew.advisor.study.candidates import base_of, keys_of
from fedskew.advisor.study.run import Result
from fedskew.advisor.study.spelling import skew_of, variant_of
from fedskew.engine.records import Candidate, Score

SOURCE = "fedskew_study"


def grouped(candidates: Sequence[Candidate]) -> dict[str, tuple[Candidate, ...]]:
    """Candidates by the name they are reported under; those of one grid (``fedprox mu=…``) stand together.

    A grid of several takes the algorithm's id, where it is the only entry of that algorithm.
    """
    groups: dict[tuple[str, ...], list[Candidate]] = defaultdict(list)
    for one in candidates:
        groups[base_of(one.algorithm), *keys_of(one.algorithm)].append(one)
    entries = Counter(base for base, *_ in groups)
    found: dict[str, tuple[Candidate, ...]] = {}
    for (base, *keys), members in groups.items():
        alone = len(members) == 1
        name = members[0].algorithm if alone else base if entries[base] == 1 else f"{base} {' '.join(keys)}"
        found[name] = tuple(members)
    return found


def best(members: Sequence[Candidate]) -> Candidate:
    """The member with the highest mean accuracy, on the test rows as in the paper; one that diverged comes last."""
    return max(members, key=lambda one: -1.0 if one.accuracy.mean is None else one.accuracy.mean)


def deviation(score: Score) -> float | None:
    """Sample standard deviation over seeds; None where a seed diverged, 0 with a single seed.

    Examples
    --------
    >>> deviation(Score(mean=0.5, lower=0.0, upper=1.0, by_seed=(0.25, 0.75)))
    0.3535533905932738
    """
    values = [value for value in score.by_seed if value is not None]
    if len(values) < len(score.by_seed) or not values:
        return None
    return statistics.stdev(values) if len(values) > 1 else 0.0


def usable(score: Score, constant: float | None) -> float | None:
    """Mean over seeds in which one that diverged counts what the constant predictor reaches.

    Examples
    --------
    >>> usable(Score(mean=None, lower=None, upper=None, by_seed=(0.75, None)), 0.5)
    0.625
    """
    if score.mean is not None:
        return score.mean
    if constant is None or not score.by_seed:
        return None
    return statistics.fmean(constant if value is None else value for value in score.by_seed)


def settings_tried(one: Candidate) -> int:
    """Number of different settings that tuning tried for a candidate, 1 for none."""
    return max(1, len({msgspec.json.encode(tried.hyperparameters, order="sorted") for tried in one.tuning}))


def rows_of(study: str, result: Result) -> list[dict[str, Any]]:
    """One row a candidate; scores are shares of 1, an interval is the one the verdict uses.

    ``difference``: accuracy minus FedAvg's, null for FedAvg itself and where it was no candidate; its bounds, paired
    over seeds, are null with a single seed.
    ``tuned``: number of settings tried, 1 for none. ``curve``, ``balanced_curve``: one list a seed, a value a round.
    """
    setting, found, validation = result.setting, result.profile, result.validation
    skew, parameters = skew_of(setting.plan)
    common = {
        "study": study,
        "key": setting.key,
        "data": setting.data,
        "partition": setting.partition,
        "skew": skew,
        "param": parameters,
        "parties": found.parties,
        "participation": setting.participation,
        "partition_seed": setting.partition_seed,
        "modality": found.modality,
        "classes": found.classes,
        "train_rows": sum(result.train_sizes),
        "test_rows": validation.settings["test_rows"],
        "model": validation.settings["model"],
        "rounds": setting.rounds,
        "local_epochs": setting.local_epochs,
        "batch_size": setting.batch_size,
        "lr": setting.lr,
        "seeds": setting.seeds,
        "label_skew": found.label.skew,
        "feature_skew": found.feature.skew,
        "quantity_skew": found.quantity.skew,
        "concept_skew": found.concept.skew,
        "prevailing": found.prevailing.kind,
        "step_ratio": result.step_ratio,
        "weight_sum": result.weight_sum,
        "majority": validation.references.majority.accuracy.mean,
        "majority_balanced": validation.references.majority.balanced_accuracy.mean,
    }
    return [{**common, **_own(one, result)} for one in validation.candidates]


def _own(one: Candidate, result: Result) -> dict[str, Any]:
    validation = result.validation
    base = next((c.accuracy.mean for c in validation.candidates if c.algorithm == "fedavg" != one.algorithm), None)
    gap = next((c for c in validation.comparisons if c.algorithm == one.algorithm and base is not None), None)
    return {
        "candidate": one.algorithm,
        "algorithm": base_of(one.algorithm),
        "hyperparameters": msgspec.json.encode(one.hyperparameters, order="sorted").decode(),
        "tuned": settings_tried(one),
        "status": one.status,
        "diverged_at": one.diverged_at,
        "constant_seeds": one.constant_seeds,
        "accuracy": one.accuracy.mean,
        "accuracy_std": deviation(one.accuracy),
        "accuracy_by_seed": list(one.accuracy.by_seed),
        "balanced_accuracy": one.balanced_accuracy.mean,
        "balanced_accuracy_std": deviation(one.balanced_accuracy),
        "balanced_accuracy_by_seed": list(one.balanced_accuracy.by_seed),
        "macro_f1": one.macro_f1,
        "bytes_per_party": one.bytes_per_party,
        "difference": None if base is None or one.accuracy.mean is None else one.accuracy.mean - base,
        "difference_lower": None if gap is None else gap.lower,
        "difference_upper": None if gap is None else gap.upper,
        "curve": [list(line) for line in one.accuracy.curve],
        "balanced_curve": [list(line) for line in result.balanced_curves[one.algorithm]],
    }


def evidence_rows(results: Iterable[Result]) -> tuple[EvidenceRow, ...]:
    """The results in the schema of the evidence base, in percent, ready to stand beside the shipped rows.

    Candidates with hyperparameters of their own are left out, but for grids, of which the best is taken and flagged,
    where the algorithm does not stand beside them as it is. A seed that diverged counts what the constant predictor
    reaches, and the row is flagged. Settings that still look alike, such as two that differ in their candidates alone,
    get a part of their key.
    """
    found = []
    for result in results:
        rows = [_evidence(name, members, result) for name, members in _by_algorithm(result).items()]
        found.append((result.setting.key[-12:], [row for row in rows if row is not None]))
    places = Counter(row.setting for _, rows in found for row in rows[:1])
    return tuple(
        row if places[row.setting] == 1 else replace(row, variant=f"{row.variant} key={key}")
        for key, rows in found
        for row in rows
    )


def _by_algorithm(result: Result) -> dict[str, tuple[Candidate, ...]]:
    """The candidates that may stand for an algorithm: it as it is, else every member of its grids."""
    groups = grouped(result.validation.candidates)
    found = {name: members for name, members in groups.items() if " " not in name}
    for name, members in groups.items():
        base = base_of(name)
        if len(members) > 1 and base not in groups:
            found[base] = (*found.get(base, ()), *members)
    return found


def _evidence(name: str, members: Sequence[Candidate], result: Result) -> EvidenceRow | None:
    setting, profile, chosen = result.setting, result.profile, best(members)
    majority = result.validation.references.majority.accuracy.mean
    mean = usable(chosen.accuracy, majority)
    if mean is None or mean < 0 or result.validation.settings["metric"] != "accuracy":
        return None
    skew, parameters = skew_of(setting.plan)
    reasons = [f"best_of_{len(members)}_on_test"] if len(members) > 1 else []
    reasons += ["diverged"] if chosen.status == "diverged" else []
    spread = deviation(chosen.accuracy)
    return EvidenceRow(
        source=SOURCE,
        code=f"fedskew {version('fedskew')}",
        dataset=setting.data,
        variant=variant_of(setting, str(result.validation.settings["model"])),
        modality=profile.modality,
        skew=skew,
        param=parameters,
        classes=profile.classes,
        parties=profile.parties,
        participation=setting.participation,
        rounds=setting.rounds,
        seeds=setting.seeds,
        label_skew=_index(profile.label.skew),
        quantity_skew=_index(profile.quantity.skew),
        feature_skew=_index(profile.feature.skew),
        tuned=max(len(members), settings_tried(chosen)),
        majority=None if majority is None else 100 * majority,
        algorithm=name,
        mean=100 * mean,
        std=None if spread is None else 100 * spread,
        flag=";".join(reasons) or "ok",
        step_ratio=result.step_ratio,
        weight_sum=result.weight_sum,
    )


def _index(value: float | None) -> float | None:
    """A profile's index as the evidence base takes it: more even than chance counts as no skew."""
    return None if value is None else max(0.0, value)

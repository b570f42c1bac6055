"""A study's results as rows: one a setting and candidate, and the same in the schema of the evidence base."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from fedskew.advisor.evidence import EvidenceRow
from fedskew.advisor.study.candidates import base_of, keys_of
from fedskew.advisor.study.run import Result
from fedskew.engine.records import Candidate, Score
from fedskew.profiles.simulate import Plan

SOURCE = "fedskew_study"
KINDS: Mapping[str, tuple[str, str, str]] = {
    "label_dirichlet": ("label_dirichlet", "beta", "alpha"),
    "label_dirichlet_hsu": ("label_dirichlet", "hsu", "alpha"),
    "label_count": ("label_count", "k", "num_classes_per_partition"),
    "shards": ("label_count", "shards", "num_shards_per_partition"),
    "percent_noniid": ("label_dirichlet", "percent", "percent"),
    "mixed": ("label_count", "mixed", ""),
    "class_lists": ("label_count", "lists", ""),
    "count_matrix": ("natural", "matrix", ""),
    "natural": ("natural", "", ""),
    "quantity_dirichlet": ("quantity", "qbeta", "quantity_beta"),
    "fcube": ("feature", "fcube", ""),
    "covariate_quantile": ("feature", "quantile", ""),
    "feature_noise": ("feature", "noise", "noise"),
    "label_noise": ("concept", "label_noise", ""),
    "label_permutation": ("concept", "permuted", ""),
}
"""How the evidence base spells a strategy: kind of skew, and parameter; a strategy that is not here adds no skew."""


def skew_of(plan: Plan) -> tuple[str, str]:
    """Kind of skew and parameters of a strategy, as the evidence base spells them.

    Examples
    --------
    >>> from fedskew.profiles.simulate import resolve
    >>> skew_of(resolve("noniid-labeldir+noise", {"alpha": 0.5, "noise": 0.1}))
    ('label_dirichlet+feature', 'beta=0.5+noise=0.1')
    >>> skew_of(resolve("homo", {}))
    ('none', '')
    """
    spelled = [KINDS[part.name] for part in plan.parts if part.name in KINDS]
    texts = [f"{name}={plan.values[key]:g}" if key in plan.values else name for _, name, key in spelled]
    kinds = list(dict.fromkeys(kind for kind, _, _ in spelled))
    return "+".join(kinds) or "none", "+".join(text for text in texts if text)


def grouped(candidates: Sequence[Candidate]) -> dict[str, tuple[Candidate, ...]]:
    """Candidates by the name they are reported under; those of one grid (``fedprox mu=…``) stand together.

    A grid of several takes the algorithm's id, where nothing else has it.
    """
    groups: dict[tuple[str, ...], list[Candidate]] = defaultdict(list)
    for one in candidates:
        groups[base_of(one.algorithm), *keys_of(one.algorithm)].append(one)
    found: dict[str, tuple[Candidate, ...]] = {}
    for (base, *keys), members in groups.items():
        alone = len(members) == 1
        name = members[0].algorithm if alone else base if (base,) not in groups else f"{base} {' '.join(keys)}"
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

    Candidates with hyperparameters of their own are left out, but for a grid, of which the best is taken and flagged.
    A seed that diverged counts what the constant predictor reaches, and the row is flagged.
    """
    found = []
    for result in results:
        for name, members in grouped(result.validation.candidates).items():
            if " " not in name:
                row = _evidence(name, members, result)
                found += [row] if row is not None else []
    return tuple(found)


def _evidence(name: str, members: Sequence[Candidate], result: Result) -> EvidenceRow | None:
    setting, profile, chosen = result.setting, result.profile, best(members)
    majority = result.validation.references.majority.accuracy.mean
    mean = usable(chosen.accuracy, majority)
    if mean is None or mean < 0 or result.validation.settings["metric"] != "accuracy":
        return None
    skew, parameters = skew_of(setting.plan)
    reasons = [f"best_of_{len(members)}_on_test"] if len(members) > 1 else []
    reasons += ["diverged"] if chosen.status == "diverged" else []
    model = result.validation.settings["model"]
    variant = f"{model} E={setting.local_epochs} B={setting.batch_size} seed={setting.partition_seed}"
    spread = deviation(chosen.accuracy)
    return EvidenceRow(
        source=SOURCE,
        code=f"fedskew {version('fedskew')}",
        dataset=setting.data,
        variant=variant,
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
    )


def _index(value: float | None) -> float | None:
    """A profile's index as the evidence base takes it: more even than chance counts as no skew."""
    return None if value is None else max(0.0, value)

"""From outcomes to a Validation: scores with intervals, paired comparisons, and the one verdict."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.engine.curves import Curve, at_equal_cost, means, ranking, reached, trend
from fedskew.engine.plans import Outcome, Trial
from fedskew.engine.records import (
    Candidate,
    Comparison,
    PartyScore,
    Reference,
    References,
    Score,
    Tried,
    Validation,
)
from fedskew.engine.scores import by_party, by_row, macro_f1
from fedskew.engine.splits import Prepared
from fedskew.engine.statistics import Spread, spread
from fedskew.engine.verdict import MARGIN, Entry, decide
from fedskew.profiles.steps import cohort_size


def summarise(
    trials: list[Trial],
    outcomes: list[Outcome],
    data: Prepared,
    recommended: str,
    extra: Mapping[str, Any],
    tried: Sequence[tuple[Tried, ...]] | None = None,
) -> Validation:
    """Make the record of a validation; ``trials[0]`` is a candidate, ``recommended`` is among them.

    ``extra`` goes into the settings as it is; ``tried`` says for each trial what tuning tried.
    """
    majority = _majority(data)
    pairs = [(t, o) for t, o in zip(trials, outcomes, strict=True) if t.role == "candidate"]
    lines = [lines for t, lines in zip(trials, tried or [()] * len(trials), strict=True) if t.role == "candidate"]
    seeds = max(len(trial.seeds) for trial in trials)
    candidates = tuple(
        msgspec.structs.replace(
            _candidate(t, o, data, majority),
            tuning=tested,
            eliminated_after=len(t.seeds) if len(t.seeds) < seeds else None,
        )
        for (t, o), tested in zip(pairs, lines, strict=True)
    )
    curves = {c.algorithm: means(c.accuracy.curve) for c in candidates if c.status == "ok"}
    candidates = _costed(candidates, curves)
    paired = _all_paired(pairs, candidates, data, recommended)
    algorithms = {t.algorithm.name: t.algorithm for t, _ in pairs}
    cheapest = sorted(candidates, key=lambda c: (c.bytes_per_party, algorithms[c.algorithm].client_state))
    entries = [
        Entry(
            c.algorithm,
            algorithms[c.algorithm].title,
            c.status,
            c.accuracy.mean,
            eliminated=c.eliminated_after is not None,
        )
        for c in cheapest
    ]
    level = 1 - 0.05 / max(1, len(candidates) - 1)
    return Validation(
        candidates=candidates,
        references=References(
            majority=majority,
            **{t.role: _reference(o, data) for t, o in zip(trials, outcomes, strict=True) if t.role != "candidate"},
        ),
        recommended=recommended,
        comparisons=tuple(_comparison(name, found, level) for name, found in paired.items()),
        verdict=decide(entries, recommended, paired, constant=majority.accuracy.mean or 0.0),
        settings={**_settings_used(pairs[0][0], data, extra), "seeds": seeds},
        ranking=ranking(curves, MARGIN),
    )


def _costed(candidates: tuple[Candidate, ...], curves: Mapping[str, Curve]) -> tuple[Candidate, ...]:
    """Add what the curves say at equal cost and on the way to a target; a failed candidate's curve says nothing."""
    known = [c for c in candidates if len(curves.get(c.algorithm, ()))]
    rounds = max((len(curve) for curve in curves.values()), default=1)
    by_bytes = at_equal_cost(curves, {c.algorithm: c.bytes_per_party / rounds for c in known}) if known else {}
    by_time = at_equal_cost(curves, {c.algorithm: c.seconds / rounds for c in known}) if known else {}
    best = max((curve[-1] for curve in curves.values() if len(curve)), default=0.0)
    target = best - 0.05 * abs(best)  # R² can be below 0
    done = []
    for one in candidates:
        first = reached(curves[one.algorithm], target) if one in known else None
        done.append(
            msgspec.structs.replace(
                one,
                rounds_to_target=first,
                bytes_to_target=None if first is None else round(one.bytes_per_party * first / rounds),
                at_equal_bytes=by_bytes.get(one.algorithm),
                at_equal_seconds=by_time.get(one.algorithm),
            )
        )
    return tuple(done)


def _settings_used(trial: Trial, data: Prepared, extra: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **extra,
        **msgspec.to_builtins(trial.settings),
        "model": trial.model.name,
        "train_rows": len(data.y),
        "test_rows": len(data.test_y),
        "metric": "r_squared" if data.y.dtype.kind == "f" else "accuracy",
    }


def _all_paired(
    pairs: list[tuple[Trial, Outcome]], candidates: tuple[Candidate, ...], data: Prepared, recommended: str
) -> dict[str, Spread]:
    """Each candidate against the recommended one, by name; none where either diverged."""
    hits = {t.algorithm.name: by_row(data.test_y, o.predicted) for t, o in pairs}
    alive = {c.algorithm for c in candidates if c.status != "diverged"}
    return {
        name: _paired(values, hits[recommended])
        for name, values in hits.items()
        if name != recommended and {name, recommended} <= alive
    }


def _paired(values: NDArray[np.float64], against: NDArray[np.float64]) -> Spread:
    gap = values - against[: len(values)]  # an eliminated candidate has fewer seeds
    return spread(gap.mean(axis=1), gap.mean(axis=0))


def _comparison(name: str, found: Spread, level: float) -> Comparison:
    low, high = (_finite(bound) for bound in found.interval(level))
    return Comparison(algorithm=name, difference=found.mean, lower=low, upper=high, p_value=found.p_value())


def _score(values: NDArray[np.float64], rows: NDArray[np.float64] | None, curve: NDArray[np.float64]) -> Score:
    """Mean over seeds with interval; a diverged seed counts as None, and then nothing else is claimed."""
    seeds = tuple(None if math.isnan(v) else float(v) for v in values)
    lines = tuple(tuple(float(v) for v in line[np.isfinite(line)]) for line in curve)
    if None in seeds or not seeds:
        return Score(mean=None, lower=None, upper=None, by_seed=seeds, curve=lines)
    found = spread(values, np.zeros(1) if rows is None else rows)
    low, high = (_finite(bound) for bound in found.interval())
    return Score(mean=found.mean, lower=low, upper=high, by_seed=seeds, curve=lines)


def _candidate(trial: Trial, outcome: Outcome, data: Prepared, majority: Reference) -> Candidate:
    hits = by_row(data.test_y, outcome.predicted)
    final = np.where(outcome.diverged > 0, np.nan, hits.mean(axis=1))
    accuracy = _score(final, hits.mean(axis=0), outcome.score)
    balanced = np.where(outcome.diverged > 0, np.nan, outcome.balanced[:, -1]) if outcome.balanced.shape[1] else final
    constant = _constant(outcome, hits, data)
    diverged = int(outcome.diverged.max()) if (outcome.diverged > 0).any() else None
    poor = data.y.dtype.kind == "f" and not hits.mean() > 0  # one seed far below the mean of the target outweighs all
    status = "diverged" if diverged else "failed" if poor or 2 * constant > len(outcome.predicted) else "ok"
    parties = _parties(hits, outcome, data)
    known = {name: value for name, value in parties.items() if value is not None}
    worst = min(known, key=lambda name: known[name]) if known else None
    f1 = None if diverged or data.y.dtype.kind == "f" else _macro_f1(outcome, data)
    holding = int((np.diff(data.bounds) > 0).sum())
    visits = trial.settings.rounds * cohort_size(holding, trial.settings.participation) / max(1, holding)
    mean, width = accuracy.mean, 8 if trial.settings.dtype == "float64" else 4
    return Candidate(
        algorithm=trial.algorithm.name,
        status=status,
        hyperparameters={"lr": trial.settings.lr, **trial.algorithm.hyper, **trial.hyper},
        accuracy=accuracy,
        balanced_accuracy=msgspec.structs.replace(_score(balanced, None, outcome.balanced), curve=()),
        macro_f1=f1,
        lift=None if mean is None or majority.accuracy.mean is None else mean - majority.accuracy.mean,
        worst_party=None if worst is None else PartyScore(party=worst, accuracy=known[worst]),
        spread=float(np.std(list(known.values()))) if known else None,
        by_party=parties,
        loss=_finite(outcome.loss[:, -1].mean()) if outcome.loss.shape[1] else None,
        seconds=outcome.seconds,
        bytes_per_party=round(2 * width * outcome.parameters * trial.algorithm.traffic * visits),
        best_round=_best_round(outcome.score),
        trend=trend(outcome.score.mean(axis=0)),
        diverged_at=diverged,
        constant_seeds=constant,
    )


def _constant(outcome: Outcome, hits: NDArray[np.float64], data: Prepared) -> int:
    """How many seeds predict one class whatever they are asked; of a continuous target, no better than its mean."""
    if data.y.dtype.kind == "f":
        return int((~(hits.mean(axis=1) > 0)).sum())
    # A test table of one class tells nobody whether a model can name another.
    tells = len(np.unique(data.test_y)) > 1
    return sum(len(np.unique(row)) == 1 for row in outcome.predicted) if tells else 0


def _macro_f1(outcome: Outcome, data: Prepared) -> float:
    truth, classes = data.test_y.astype(np.int64), outcome.predicted.astype(np.int64)
    return float(np.mean([macro_f1(truth, row) for row in classes]))


def _parties(hits: NDArray[np.float64], outcome: Outcome, data: Prepared) -> dict[str, float | None]:
    """Mean over seeds by party; null where a seed diverged, whose weights predict one class whatever they are asked."""
    if data.test_party is None:
        return {}
    if (outcome.diverged > 0).any():
        return dict.fromkeys(data.names)
    return dict(zip(data.names, by_party(hits.mean(axis=0), data.test_party, len(data.names)), strict=True))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _best_round(curve: NDArray[np.float64]) -> int | None:
    if not curve.shape[1] or not np.isfinite(curve).all():
        return None
    return int(curve.mean(axis=0).argmax()) + 1


def _majority(data: Prepared) -> Reference:
    """Always predict the most frequent training class (for a continuous target, its mean)."""
    if data.y.dtype.kind == "f":
        zero = Score(mean=0.0, lower=0.0, upper=0.0)
        return Reference(accuracy=zero, balanced_accuracy=zero)
    share = float((data.test_y == np.bincount(data.y).argmax()).mean())
    seen = len(np.unique(data.test_y))
    return Reference(
        accuracy=Score(mean=share, lower=share, upper=share),
        balanced_accuracy=Score(mean=1 / seen, lower=1 / seen, upper=1 / seen),
    )


def _reference(outcome: Outcome, data: Prepared) -> Reference:
    hits = by_row(data.test_y, outcome.predicted)
    final = np.where(outcome.diverged > 0, np.nan, hits.mean(axis=1))
    balanced = np.where(outcome.diverged > 0, np.nan, outcome.balanced[:, -1]) if outcome.balanced.shape[1] else final
    return Reference(
        accuracy=_score(final, hits.mean(axis=0), outcome.score[:, :0]),
        balanced_accuracy=_score(balanced, None, outcome.balanced[:, :0]),
        by_party=_parties(hits, outcome, data),
    )

"""How a person reads a validation: who is ahead, since when, in which words and units. No matplotlib here."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedskew.engine.algorithms.registry import find_algorithm
from fedskew.engine.records import Candidate, Score, Validation
from fedskew.profiles.naming import shorten


def ranked(found: Validation) -> list[Candidate]:
    """The candidates, best mean first; those without a score last."""
    return sorted(found.candidates, key=lambda c: -1e9 if c.accuracy.mean is None else c.accuracy.mean, reverse=True)


def algorithm_title(name: str) -> str:
    """An algorithm's name as the field writes it; an unknown one is shown as it is.

    Examples
    --------
    >>> algorithm_title("scaffold"), algorithm_title("mine")
    ('SCAFFOLD', 'mine')
    """
    try:
        return find_algorithm(name).title
    except ValueError:
        return shorten(name)


def settled_round(found: Validation) -> int | None:
    """First round, counted from 1, from which the leader stays ahead: the validation's own finding where it has one.

    Else from the mean curves; None where there are no two to compare.
    """
    if found.ranking is not None:
        return found.ranking.settled_at
    means = [mean_curve(one.accuracy) for one in found.candidates if one.accuracy.curve]
    rounds = min((len(mean) for mean in means), default=0)
    if len(means) < 2 or rounds == 0:
        return None
    leaders = np.asarray([mean[:rounds] for mean in means]).argmax(axis=0)
    changes = [i + 1 for i, (before, after) in enumerate(pairwise(leaders)) if before != after]
    return (changes[-1] if changes else 0) + 1


def settled_text(settled: int, rounds: int) -> str:
    """When the lead stopped changing hands.

    Examples
    --------
    >>> settled_text(4, 30), settled_text(30, 30)
    ('the leader is settled from round 4 on', 'the lead still changed hands in the last round')
    """
    if settled == 1:
        return "the same candidate led from the first round on"
    if settled == rounds:
        return "the lead still changed hands in the last round"
    return f"the leader is settled from round {settled} on"


def score_name(found: Validation) -> str:
    """``Accuracy``, or ``R²`` where the target is continuous."""
    return "R²" if found.settings.get("metric") == "r_squared" else "Accuracy"


def constant_name(found: Validation) -> str:
    """The predictor that looks at no feature: of the most frequent class, or of a continuous target's mean."""
    return "always the mean" if found.settings.get("metric") == "r_squared" else "majority class"


def scored(found: Validation) -> list[Candidate]:
    """The candidates with a score, best first."""
    return [one for one in ranked(found) if one.accuracy.mean is not None]


def with_curves(found: Validation) -> list[Candidate]:
    """The candidates with a learning curve, best first."""
    return [one for one in ranked(found) if any(one.accuracy.curve)]


def with_parties(found: Validation) -> list[Candidate]:
    """The candidates with a score of at least one party, best first."""
    return [one for one in ranked(found) if any(value is not None for value in one.by_party.values())]


def mean_curve(score: Score) -> NDArray[np.float64]:
    """Mean over seeds after each round, (rounds,); a seed that ended early counts while it ran."""
    rounds = max(len(seed) for seed in score.curve)
    table = np.full((len(score.curve), rounds), np.nan)
    for row, seed in zip(table, score.curve, strict=True):
        row[: len(seed)] = seed
    told = np.isfinite(table).any(axis=0)
    return np.asarray(np.nanmean(table[:, told], axis=0))


def readable_bytes(count: int) -> str:
    """Bytes as a person reads them.

    Examples
    --------
    >>> readable_bytes(17), readable_bytes(4_100_000)
    ('17 B', '4.1 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"

"""Elimination between seeds: a candidate that is surely worse gets no further seeds.

The t e-process of ``statistics.py`` keeps its level however often one looks, so five seeds now and five later are as
honest as ten at once. It looks at seeds alone, and would be sure of what the test rows cannot tell: all seeds of two
equally good candidates may settle on their own decisions for some rows. So the interval of the verdict, which counts
the rows' variance too, must lie below 0 as well. Within a run nothing is eliminated; there only tuning halves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.engine.plans import Outcome, Trial
from fedskew.engine.scores import by_row
from fedskew.engine.statistics import e_value, spread
from fedskew.engine.verdict import MARGIN

STAGE = 5  # seeds trained side by side before the first look, and between looks
LEVEL = 0.05  # chance that any candidate as good as the recommended one is ever eliminated
# Five seeds can only settle differences of several standard deviations, as of a candidate that collapsed: with the
# customary prior of 1 no result of five seeds, however clear, would reach the bound of eleven candidates.
PRIOR = 3.0

RunFn = Callable[[Sequence[Trial]], list[Outcome]]


def run_by_stages(
    trials: Sequence[Trial], recommended: str, run: RunFn, truth: NDArray[Any]
) -> tuple[list[Trial], list[Outcome]]:
    """Run all trials, ``STAGE`` seeds at a time; candidates found surely worse than the recommended one stop early.

    Parameters
    ----------
    trials : candidates and reference lines, all with the same seeds
    recommended : id that the others are compared with; it and the reference lines get all seeds
    run : runs trials to their ends
    truth : (n,) labels or targets of the test rows

    Returns
    -------
    trials : as they ran; those of an eliminated candidate have fewer seeds
    outcomes : in the order of the trials

    References
    ----------
    The bound on e: Ville's inequality, with Bonferroni over the candidates.
    """
    seeds = trials[0].seeds
    outcomes: list[Outcome | None] = [None] * len(trials)
    alive = list(range(len(trials)))
    for first in range(0, max(1, len(seeds)), STAGE):
        batch = [replace(trials[i], seeds=seeds[first : first + STAGE]) for i in alive]
        for i, more in zip(alive, run(batch), strict=True):
            outcomes[i] = merged(outcomes[i], more)
        found = {i: outcome for i, outcome in enumerate(outcomes) if outcome is not None}
        gone = _worse(found, trials, recommended, truth)
        alive = [i for i in alive if i not in gone]
    done = [outcome for outcome in outcomes if outcome is not None]
    ran = [replace(t, seeds=seeds[: len(o.diverged)]) for t, o in zip(trials, done, strict=True)]
    return ran, done


def merged(before: Outcome | None, after: Outcome) -> Outcome:
    """One outcome of the seeds of both, in that order."""
    if before is None:
        return after
    both = {
        name: np.concatenate([getattr(before, name), getattr(after, name)])
        for name in ("score", "balanced", "loss", "predicted", "diverged")
    }
    return Outcome(**both, parameters=after.parameters, seconds=before.seconds + after.seconds)


def _worse(outcomes: Mapping[int, Outcome], trials: Sequence[Trial], recommended: str, truth: NDArray[Any]) -> set[int]:
    """Places of the candidates that are eliminated now: diverged, or surely worse, in the mean by over the margin."""
    rivals = [i for i, t in enumerate(trials) if t.role == "candidate" and t.algorithm.name != recommended]
    chosen = next(i for i, t in enumerate(trials) if t.role == "candidate" and t.algorithm.name == recommended)
    best, best_rows = _final(outcomes[chosen]), by_row(truth, outcomes[chosen].predicted)
    found = set()
    for i in rivals:
        mine = _final(outcomes[i])
        rows = by_row(truth, outcomes[i].predicted) - best_rows[: len(mine)]
        if not np.isnan(best).any() and (
            np.isnan(mine).any() or _surely(mine - best[: len(mine)], rows.mean(axis=0), len(rivals))
        ):
            found.add(i)
    return found


def _surely(gap: NDArray[np.float64], rows: NDArray[np.float64], comparisons: int) -> bool:
    """Whether ``gap`` (S,) is below 0 by the seeds alone, however often one looks, and by seeds and test rows."""
    if not (gap.mean() < -MARGIN and e_value(gap, PRIOR) > comparisons / LEVEL):
        return False
    return spread(gap, rows).interval(1 - LEVEL / comparisons)[1] < 0


def _final(outcome: Outcome) -> NDArray[np.float64]:
    """Score of each seed after the last round, NaN where it diverged; without rounds all are alike."""
    if not outcome.score.shape[1]:
        return np.zeros(len(outcome.diverged))
    return np.where(outcome.diverged > 0, np.nan, outcome.score[:, -1])

"""Equal tuning for every candidate: the same number of settings, on rows held back from the training silos.

Two stages of four settings each: first the local learning rate, then the algorithm's own grid at the best rate (for an
algorithm without hyperparameters of its own: that rate again, and more). Each stage halves twice, four to two to one,
on paired seeds in ever more rounds, at the end all of them; a setting counts as much as its worst seed. The test rows
are never looked at.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.engine.plans import Outcome, Trial
from fedskew.engine.records import Tried
from fedskew.engine.splits import Prepared
from fedskew.profiles.keyed import generator

RATES = (1.0, 0.3, 3.0, 10.0)  # times the given learning rate
SEEDS = 2
# Share of the rounds, and how many settings run so long. The last rung takes all of them, and there the worst seed
# decides: with a part of the rounds and means, rates won that are fast at first and fall apart later (HAPT by subject:
# SCAFFOLD diverged at the rate chosen; LetterRecognition, label Dirichlet 0.1: it collapsed in some seeds). A tenth of
# the rounds was too short a first rung: with 26 classes it ranked settings that were all still at chance.
RUNGS = (((5, 4), (3, 2)), ((5, 4), (1, 2)))
HELD_BACK = 0.2
GRID_RATE = 0.01  # the learning rate that an algorithm's grid is written for

Setting = dict[str, float | str]
Key = tuple[tuple[str, float | str], ...]
"""A setting as a key: its items."""
RunFn = Callable[[Sequence[Trial]], list[Outcome]]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The chosen change to a candidate's hyperparameters, everything that was tried, and each setting's last score."""

    hyper: Setting
    tried: tuple[Tried, ...]
    scores: dict[Key, float]


def tuning_table(data: Prepared, seed: int) -> Prepared:
    """Hold a fifth of every party's training rows back; the test rows are left out altogether."""
    held = np.zeros(len(data.y), np.bool_)
    places = zip(data.names, data.bounds, data.bounds[1:], rows_held(np.diff(data.bounds)), strict=False)
    for name, first, last, number in places:
        rows = generator("tuning rows", seed, name).permutation(last - first) + first
        held[rows[:number]] = True
    party = np.repeat(np.arange(len(data.names), dtype=np.int32), np.diff(data.bounds))
    kept = np.bincount(party[~held], minlength=len(data.names))
    return replace(
        data,
        x=data.x[~held],
        y=data.y[~held],
        bounds=np.concatenate([[0], np.cumsum(kept)]),
        shares=_shares(data, party[~held], ~held),
        test_x=data.x[held],
        test_y=data.y[held],
        test_party=party[held],
    )


def rows_held(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows of each party are held back for tuning: a fifth, rounded down.

    Where no party has five rows, every fifth row counted over all parties is held back instead, but never a party's
    last one; all 0 where even that leaves nothing, and tuning is then not possible.

    Examples
    --------
    >>> [rows_held(np.array(sizes)).tolist() for sizes in ([50, 14, 3], [3, 3, 4], [1, 1, 1])]
    [[10, 2, 0], [0, 1, 1], [0, 0, 0]]
    """
    found = (HELD_BACK * sizes).astype(np.int64)
    if not found.any():
        every = np.diff(np.floor(HELD_BACK * np.cumsum(sizes) + 1e-9), prepend=0.0).astype(np.int64)
        found = np.clip(np.minimum(every, np.asarray(sizes, np.int64) - 1), 0, None)
    return found


def can_tune(data: Prepared) -> bool:
    """Whether any party can spare rows to judge settings on."""
    return bool(rows_held(np.diff(data.bounds)).any())


def tune_all(trials: Sequence[Trial], run: RunFn) -> tuple[list[Trial], list[tuple[Tried, ...]]]:
    """The trials as they are to run, tuned, and what was tried for each.

    The centralised line is tuned like a candidate; the local-only one, which no held-back rows of all parties could
    judge, takes FedAvg's rate.
    """
    ready = list(trials)
    tried: list[tuple[Tried, ...]] = [()] * len(trials)
    places = [i for i, trial in enumerate(trials) if trial.role != "local_only"]
    for i, found in zip(places, tune([trials[i] for i in places], run), strict=True):
        ready[i] = replace(trials[i], hyper={**found.hyper, **trials[i].hyper})
        tried[i] = found.tried
    base = next((ready[i] for i in places if ready[i].name == "fedavg"), ready[places[0]])
    for i, trial in enumerate(trials):
        if trial.role == "local_only":
            ready[i] = replace(trial, hyper={"lr": base.hyper["lr"]})
    return ready, tried


def tune(trials: Sequence[Trial], run: RunFn) -> list[Tuned]:
    """Tune all trials side by side, one call of ``run`` a rung.

    Parameters
    ----------
    trials : the candidates as they would run; hyperparameters they already carry stay as they are
    run : runs trials on the tuning table

    Returns
    -------
    list of Tuned, in the order of the trials; each tried the same number of settings
    """
    rates: list[list[Setting]] = [
        [{"lr": _rounded(trial.settings.lr * factor)} for factor in RATES] for trial in trials
    ]
    first = _stage(trials, rates, run, RUNGS[0])
    own = [_own(trial, found.hyper) for trial, found in zip(trials, first, strict=True)]
    second = _stage(trials, own, run, RUNGS[1])
    return [_chosen(a, b) for a, b in zip(first, second, strict=True)]


def _chosen(first: Tuned, second: Tuned) -> Tuned:
    """The winner of the last rung, unless a smaller rate had already reached more in fewer rounds.

    Then all that ran to the end fell apart, and the best of the smaller rates is taken: greater ones would fall too.
    """
    scores = {**first.scores, **second.scores}
    finalists = list(second.scores)[-RUNGS[1][-1][1] :]
    smaller = [setting for setting in scores if _rate(setting) < min(_rate(finalist) for finalist in finalists)]
    best = max([*finalists, *smaller], key=lambda setting: scores[setting])
    return Tuned(dict(best), first.tried + second.tried, scores)


def _rate(setting: Key) -> float:
    return float(dict(setting)["lr"])


def _own(trial: Trial, best: Mapping[str, float | str]) -> list[Setting]:
    """The algorithm's own grid at the best rate; a rate in the grid is taken relative to the one it is written for.

    Another rate that the first stage has tried is halved: who tunes the rate alone tries as many settings as the rest.
    """
    rate = float(best["lr"])
    grid = trial.algorithm.grid or ({},)  # a user's algorithm may have nothing of its own to try
    seen = {_rounded(trial.settings.lr * factor) for factor in RATES}
    found: list[Setting] = []
    for entry in grid:
        at = _rounded(rate * float(entry.get("lr", GRID_RATE)) / GRID_RATE)
        again = set(entry) == {"lr"} and at in seen
        found.append({**entry, "lr": _rounded(at / 2) if again else at})
    return found


def _rounded(value: float) -> float:
    """Six digits are enough for a rate, and read better than 0.029999999999999999."""
    return float(f"{value:.6g}")


def _stage(
    trials: Sequence[Trial], settings: Sequence[list[Setting]], run: RunFn, rungs: Sequence[tuple[int, int]]
) -> list[Tuned]:
    """Halve each trial's settings over the rungs; ties go to the setting named first."""
    left = [list(choices) for choices in settings]
    tried: list[list[Tried]] = [[] for _ in trials]
    last: list[dict[Key, float]] = [{} for _ in trials]
    for share, keep in rungs:
        batch = [
            _short(trial, choice, share)
            for trial, choices in zip(trials, left, strict=True)
            for choice in choices[:keep]
        ]
        outcomes = iter(run(batch))
        for i, choices in enumerate(left):
            found = [next(outcomes) for _ in choices[:keep]]
            scores = [_worst(outcome) for outcome in found]
            ranks = scores if share == 1 else [_mean(outcome) for outcome in found]
            for choice, score in zip(choices, scores, strict=False):
                last[i].pop(tuple(choice.items()), None)  # those of the last rung stand last
                last[i][tuple(choice.items())] = score
            tried[i] += [
                Tried(
                    hyperparameters={**trials[i].algorithm.hyper, **choice, **trials[i].hyper},
                    rounds=_rounds(trials[i], share),
                    score=None if score == -np.inf else score,
                )
                for choice, score in zip(choices, scores, strict=False)
            ]
            left[i] = [choices[k] for k in np.argsort([-rank for rank in ranks], kind="stable")]
    return [Tuned(dict(c[0]), tuple(lines), scores) for c, lines, scores in zip(left, tried, last, strict=True)]


def _rounds(trial: Trial, share: int) -> int:
    return max(2, trial.settings.rounds // share)


def _short(trial: Trial, choice: Setting, share: int) -> Trial:
    return replace(
        trial,
        hyper={**choice, **trial.hyper},
        settings=msgspec.structs.replace(trial.settings, rounds=_rounds(trial, share)),
        seeds=tuple(-1 - k - trial.seeds[0] for k in range(SEEDS)),  # never those of the runs that are judged
        data="tuning",
    )


def _worst(outcome: Outcome) -> float:
    """Score of the worst seed after the last round; minus infinity where one diverged."""
    last = outcome.score[:, -1]
    return float(last.min()) if np.isfinite(last).all() else -np.inf


def _mean(outcome: Outcome) -> float:
    last = outcome.score[:, -1]
    return float(last.mean()) if np.isfinite(last).all() else -np.inf


def _shares(data: Prepared, party: NDArray[np.int32], kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    if data.y.dtype.kind == "f":
        return data.shares
    counts = np.zeros(data.shares.shape)
    np.add.at(counts, (party, data.y[kept].astype(np.int64)), 1.0)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))

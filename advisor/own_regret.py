"""How good advice is on our own study: regret of tree, constants, second opinion, and of short validation.

Regret of a choice: best score of the setting at the end of all rounds minus the choice's, in points. Whatever learns,
learns without the data set it is judged on. FedBN is left out: without BatchNorm in the model it is FedAvg.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from fedskew.advisor.evidence import EvidenceRow, published
from fedskew.advisor.likeness import place_of
from fedskew.advisor.own_evidence import Constants, OwnRow
from fedskew.advisor.price import COSTS
from fedskew.advisor.second_opinion import differences, opinions
from fedskew.advisor.tree import LEAVES, walk

Results = dict[str, OwnRow]
"""One setting: its row by algorithm, cheapest to tune and run first, as in the study."""
METRICS = ("balanced", "accuracy")
Choice = Callable[[Results, str], str]
"""From a setting and a metric to the algorithm chosen."""
HALVINGS = ((10, 2), (25, 4), (50, 0))
"""Percent of the rounds, and into how many parts the candidates are cut then; 0: the leader alone."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How one chooses, and what it trains: percent of training all candidates to their ends."""

    choose: Choice
    trained: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over settings with its 95 % bootstrap interval over data sets."""

    mean: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.lower:.2f} to {self.upper:.2f})"


def own_settings(rows: Iterable[OwnRow], *, modified: bool = False) -> tuple[Results, ...]:
    """The settings in order; one without FedAvg is left out.

    Parameters
    ----------
    rows : of our study
    modified : with algorithms under a modifier (``fedavg+wsm``), which no policy chooses
    """
    found: dict[str, Results] = defaultdict(dict)
    for row in rows:
        if row.algorithm != "fedbn" and (modified or row.algorithm in COSTS):
            found[row.setting][row.algorithm] = row
    return tuple(results for results in found.values() if "fedavg" in results)


def first(results: Results) -> OwnRow:
    """The row of FedAvg, which stands for its setting."""
    return results["fedavg"]


def regret(results: Results, name: str, metric: str) -> float:
    """Points lost to the best of a setting."""
    return max(row.score(metric) for row in results.values()) - results[name].score(metric)


def tree_choice(results: Results, metric: str) -> str:  # noqa: ARG001  (a choice takes a metric)
    """The tree on the measured profile, next name of the leaf where the first was no candidate."""
    leaf = LEAVES[walk(first(results).facts)[0]]
    return next(name for name in (leaf.algorithm, *leaf.alternatives, "fedavg") if name in results)


def always(name: str) -> Choice:
    """A constant."""
    return lambda results, metric: name  # noqa: ARG005


def leader(share: int) -> Choice:
    """Validation cut short: the leader of the mean curve at a share of the rounds; the cheaper one of equals."""
    return lambda results, metric: max(results, key=lambda name: results[name].score(metric, share))


def halving(results: Results, metric: str) -> str:
    """Validation that drops the worse half after 10 % of the rounds, half of the rest after 25 %, and ends at 50 %."""
    alive = list(results)
    for share, parts in HALVINGS:
        kept = math.ceil(len(results) / parts) if parts else 1
        alive = sorted(alive, key=lambda name: -results[name].score(metric, share))[:kept]
    return alive[0]


def halving_cost(candidates: int) -> float:
    """What halving trains of all candidates' rounds, percent.

    Examples
    --------
    >>> halving_cost(10)
    25.0
    """
    total, alive, before = 0.0, candidates, 0
    for share, parts in HALVINGS:
        total += alive * (share - before)
        alive, before = math.ceil(candidates / parts) if parts else 1, share
    return total / candidates


def best_constant_without(table: Sequence[Results]) -> Choice:
    """The constant with the least mean regret on the table's other data sets; FedAvg where there are none."""

    def choose(results: Results, metric: str) -> str:
        rest = [one for one in table if first(one).dataset != first(results).dataset]
        return best_constant(rest, metric, results) if rest else "fedavg"

    return choose


def best_constant(table: Sequence[Results], metric: str, among: Iterable[str]) -> str:
    """The name with the least mean regret on a table; the first of equals."""
    known = [name for name in among if all(name in one for one in table)]
    return min(known, key=lambda name: fmean(regret(one, name, metric) for one in table))


def opinion_rows(table: Sequence[Results], metric: str, without: frozenset[str]) -> tuple[EvidenceRow, ...]:
    """All evidence but that on some data sets: what others published, and our own in a metric.

    Published accuracies stand beside our balanced accuracy too: most of their test sets are balanced.
    """
    own = (row.evidence(metric) for one in table for row in one.values())
    return tuple(row for row in (*published(), *own) if row.dataset not in without)


def opinion_choice(table: Sequence[Results], basis: str | None = None, constants: Constants | None = None) -> Choice:
    """The second opinion of all evidence but that on the setting's data set.

    Parameters
    ----------
    table : our settings
    basis : the metric of the evidence; None: the one that is judged
    constants : of the estimator
    """
    known: dict[tuple[str, str], tuple[EvidenceRow, ...]] = {}

    def choose(results: Results, metric: str) -> str:
        key = (basis or metric, first(results).dataset)
        if key not in known:
            known[key] = opinion_rows(table, key[0], frozenset({key[1]}))
        return opinion_of(known[key], constants)(results)

    return choose


def opinion_of(rows: tuple[EvidenceRow, ...], constants: Constants | None = None) -> Callable[[Results], str]:
    """The first choice of the second opinion among a setting's candidates, from some rows."""

    def choose(results: Results) -> str:
        found = opinions(place_of(first(results).evidence()), rows, constants)
        return next(one.algorithm for one in found if one.algorithm in results)

    return choose


def regrets(table: Sequence[Results], choose: Choice, metric: str) -> NDArray[np.float64]:
    """Regret of a choice in each setting, (settings,) float64 in points."""
    return np.array([regret(one, choose(one, metric), metric) for one in table])


def over_data_sets(
    values: Sequence[float] | NDArray[np.float64], datasets: Sequence[str], draws: int = 4000
) -> Interval:
    """Mean over settings, and its interval when whole data sets are drawn anew.

    Parameters
    ----------
    values : (settings,) float
    datasets : the data set of each
    draws : bootstrap samples

    Examples
    --------
    >>> print(over_data_sets([1.0, 1.0, 1.0], ["A", "A", "B"]))
    1.00 (1.00 to 1.00)
    """
    names = sorted(set(datasets))
    points, where = np.asarray(values, dtype=np.float64), np.array([names.index(name) for name in datasets])
    sums, counts = np.bincount(where, points), np.bincount(where).astype(np.float64)
    drawn = np.random.default_rng(0).integers(0, len(names), (draws, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    lower, upper = np.percentile(means, [2.5, 97.5])
    return Interval(float(points.mean()), float(lower), float(upper))


def datasets_of(table: Sequence[Results]) -> list[str]:
    """The data set of each setting."""
    return [first(one).dataset for one in table]


def gaps(table: Sequence[Results], name: str, base: str, metric: str) -> NDArray[np.float64]:
    """Score of one algorithm minus another's in each setting, (settings,) float64 in points."""
    return np.array([one[name].score(metric) - one[base].score(metric) for one in table])


def coverage(table: Sequence[Results], constants: Constants | None = None) -> tuple[int, int]:
    """How many differences to FedAvg the second opinion's intervals held on data sets left out, and of how many.

    Differences as the estimator counts them; settings where both fail are left out, as there.
    """
    held = total = 0
    rows = {name: opinion_rows(table, "accuracy", frozenset({name})) for name in set(datasets_of(table))}
    for one in table:
        place, row = place_of(first(one).evidence()), first(one)
        expected = {found.algorithm: found.expected_gain for found in opinions(place, rows[row.dataset], constants)}
        for name, items in differences(tuple(each.evidence() for each in one.values())).items():
            if name in expected:
                held += expected[name].lower <= items[0].points <= expected[name].upper
                total += 1
    return held, total

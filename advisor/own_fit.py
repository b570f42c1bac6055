"""The constants of the second opinion, chosen by leave-one-data-set-out regret on our own study; and that, nested.

The estimator averages within data sets first, so leaving one out is leaving out a column: all means are made once for
each width, weight and cap, and every choice of constants on every rest of the data follows from them. The choices are
those of :func:`fedskew.advisor.second_opinion.opinions`, to the digit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedskew.advisor.evidence import CITATION
from fedskew.advisor.likeness import likeness, place_of
from fedskew.advisor.own_evidence import SHARES, Constants
from fedskew.advisor.own_regret import (
    METRICS,
    Choice,
    Results,
    always,
    best_constant_without,
    datasets_of,
    first,
    leader,
    opinion_rows,
    regret,
    tree_choice,
)
from fedskew.advisor.second_opinion import ENOUGH, MOST, NEAR, Difference, differences

GRID = tuple(
    Constants(published=p, pseudo=s, width=w, cap=c)
    for p, s, w, c in product((0.05, 0.25, 1.0), (0.25, 1.0, 4.0), (0.7, 1.0, 2.0, 4.0), (20.0, 100.0))
)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sums:
    """One algorithm, by setting and data set: mean difference and weight near each setting, and over all settings.

    ``means``, ``near``: (settings, data sets). ``known``: whether a data set holds a neighbour. ``overall``, ``trust``:
    (data sets,).
    """

    means: Floats
    near: Floats
    known: NDArray[np.bool_]
    overall: Floats
    trust: Floats


def _sums(items: tuple[Difference, ...], alike: Floats, names: Sequence[str], published: float) -> Sums:
    own = np.array([item.row.source not in CITATION for item in items])
    tops = np.where(own | (not own.any()), 1.0, published)
    of = np.zeros((len(items), len(names)))
    of[np.arange(len(items)), [names.index(item.row.dataset) for item in items]] = 1
    points = np.array([item.points for item in items])
    trust = np.array([item.trust for item in items]) * tops
    ceilings = MOST * (of * tops[:, None]).max(axis=0)
    weights = alike * trust
    near, all_trust = weights @ of, trust @ of
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.nan_to_num((weights * points) @ of / near)
        overall = np.nan_to_num((trust * points) @ of / all_trust)
    known = np.stack([(alike * column >= NEAR).any(axis=1) for column in of.T], axis=1)
    return Sums(means, np.minimum(near, ceilings), known, overall, np.minimum(all_trust, ceilings))


def _gains(one: Sums, pseudo: float, left: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Expected gain at each setting without its data set and another; ``left``: (settings, data sets), 0 where out."""
    trust = one.trust * left
    overall = (trust * one.overall).sum(axis=1) / (trust.sum(axis=1) + pseudo)
    near = one.near * left
    gain = ((near * one.means).sum(axis=1) + pseudo * overall) / (near.sum(axis=1) + pseudo)
    return gain.round(2), (one.known & (left > 0)).sum(axis=1) >= ENOUGH


class Fit:
    """All that choosing needs, for one table of settings and one metric of its evidence.

    Parameters
    ----------
    table : our settings
    basis : metric of the evidence
    judged : metrics whose mean regret counts
    grid : constants to choose from
    """

    def __init__(
        self, table: Sequence[Results], basis: str, judged: Sequence[str] = METRICS, grid: Sequence[Constants] = GRID
    ) -> None:
        rows = opinion_rows(table, basis, frozenset())
        self.grid, self.names = tuple(grid), sorted({row.dataset for row in rows})
        self.datasets = np.array([self.names.index(name) for name in datasets_of(table)])
        self.table = table
        places = [place_of(first(one).evidence()) for one in table]
        self._known: dict[tuple[float, float, float], Mapping[str, Sums]] = {}
        for width, cap in {(one.width, one.cap) for one in self.grid}:
            found = differences(rows, cap)
            alike = {
                name: np.array([[likeness(here, item.place, width) for item in items] for here in places])
                for name, items in found.items()
            }
            for published in {one.published for one in self.grid}:
                sums = {n: _sums(items, alike[n], self.names, published) for n, items in found.items()}
                self._known[published, width, cap] = sums
        algorithms = ["fedavg", *differences(rows)]
        lost = [{name: float(np.mean([regret(one, name, m) for m in judged])) for name in one} for one in table]
        self._lost = np.array([[each.get(name, np.inf) for name in algorithms] for each in lost])
        self._algorithms = algorithms

    def choose(self, constants: Constants, without: int | None = None) -> NDArray[np.int64]:
        """Index of the algorithm chosen at each setting, its own data set out, and another if named."""
        left = np.ones((len(self.table), len(self.names)))
        left[np.arange(len(self.table)), self.datasets] = 0
        if without is not None:
            left[:, without] = 0
        sums = self._known[constants.published, constants.width, constants.cap]
        score = np.full((len(self.table), len(self._algorithms)), 0.0)
        for i, name in enumerate(self._algorithms[1:], start=1):
            gain, known = _gains(sums[name], constants.pseudo, left)
            score[:, i] = np.where(known, gain, gain - 1e6)
        score[~np.isfinite(self._lost)] = -np.inf
        return score.argmax(axis=1)

    def losses(self, constants: Constants, without: int | None = None) -> Floats:
        """Regret at each setting, points."""
        return self._lost[np.arange(len(self.table)), self.choose(constants, without)]

    def best(self, without: int | None = None) -> Constants:
        """The constants with the least mean regret, on all data sets but one if named; the first of equals."""
        kept = np.ones(len(self.table), dtype=bool) if without is None else self.datasets != without
        if not kept.any():
            return self.grid[0]
        return min(self.grid, key=lambda one: round(float(self.losses(one, without)[kept].mean()), 9))

    def nested(self) -> tuple[str, ...]:
        """The algorithm at each setting, by constants chosen without its data set."""
        chosen = np.zeros(len(self.table), dtype=np.int64)
        for left in sorted(set(self.datasets.tolist())):
            here = self.datasets == left
            chosen[here] = self.choose(self.best(left))[here]
        return tuple(self._algorithms[i] for i in chosen)


def choices(table: Sequence[Results]) -> dict[str, Choice]:
    """Everything that is compared, by the name to print; the second opinion with its constants chosen nested."""
    return {
        "the tree": tree_choice,
        "always FedAvg": always("fedavg"),
        "always FedProx": always("fedprox"),
        "always SCAFFOLD": always("scaffold"),
        "best constant": best_constant_without(table),
        "second opinion": _told(table, Fit(table, "accuracy").nested()),
        "second opinion, balanced accuracy": _told(table, Fit(table, "balanced", ("balanced",)).nested()),
        **{f"validation, {share} % of the rounds": leader(share) for share in SHARES},
    }


def _told(table: Sequence[Results], names: Sequence[str]) -> Choice:
    known = {first(one).setting: name for one, name in zip(table, names, strict=True)}
    return lambda results, metric: known[first(results).setting]  # noqa: ARG005

"""The constants of the second opinion, chosen by leave-one-data-set-out regret; and that, nested.

Regret on our study and on two published tables, NIID-Bench's and Flower's: ours are short runs and theirs long ones,
and constants that please ours alone would not hear the others at all.

The estimator averages within data sets first, so leaving one out is leaving out a column: all means are made once for
each width, weight and cap, and every choice of constants on every rest of the data follows from them. The choices are
those of :func:`fedskew.advisor.second_opinion.opinions`, to the digit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedskew.advisor.evidence import CITATION, published
from fedskew.advisor.likeness import likeness, place_of
from fedskew.advisor.own_evidence import SHARES, Constants
from fedskew.advisor.own_regret import (
    METRICS,
    Choice,
    Policy,
    Results,
    always,
    best_constant_without,
    datasets_of,
    first,
    halving,
    halving_cost,
    leader,
    opinion_rows,
    regret,
    tree_choice,
)
from fedskew.advisor.regret import regret as published_regret
from fedskew.advisor.regret import settings
from fedskew.advisor.second_opinion import ENOUGH, MOST, NEAR, SHORTLIST, Difference, differences

GRID = tuple(
    Constants(published=p, pseudo=s, width=w, cap=c)
    for p, s, w, c in product((0.1, 0.25, 0.5), (0.25, 1.0, 4.0), (0.7, 1.0, 2.0, 4.0), (20.0, 100.0))
)
TABLES = ("niid_bench", "flower_niid_bench")
"""Published tables whose regret counts beside that of our study."""
FIRST = SHORTLIST
"""How many of the second opinion's names are kept."""
SHORTLISTS = ((3, 10), (3, 25), (3, 100), (FIRST, 100))
"""How many of its names are trained, and for what percent of the rounds."""
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
        self.settings, self._algorithms = len(table), ["fedavg", *differences(rows)]
        others = [one for source in TABLES for one in settings(published(), source)]
        places = [place_of(first(one).evidence()) for one in table]
        places += [place_of(next(iter(one.values()))) for one in others]
        lost = [{name: float(np.mean([regret(one, name, m) for m in judged])) for name in one} for one in table]
        lost += [{name: published_regret(one, (name,)) for name in one} for one in others]
        self._lost = np.array([[each.get(name, np.inf) for name in self._algorithms] for each in lost])
        datasets = [*datasets_of(table), *(next(iter(one.values())).dataset for one in others)]
        self.datasets = np.array([self.names.index(name) for name in datasets])
        self._known: dict[tuple[float, float, float], Mapping[str, Sums]] = {}
        for width, cap in sorted({(one.width, one.cap) for one in self.grid}):
            found = differences(rows, cap)
            alike = {
                name: np.array([[likeness(here, item.place, width) for item in items] for here in places])
                for name, items in found.items()
            }
            for weight in {one.published for one in self.grid}:
                sums = {n: _sums(items, alike[n], self.names, weight) for n, items in found.items()}
                self._known[weight, width, cap] = sums

    def ranked(self, constants: Constants, without: int | None = None) -> NDArray[np.int64]:
        """Algorithms by index, best first, at each setting; its own data set is left out, and another if named.

        Returns
        -------
        (settings, algorithms) int64, our settings first, then the published ones; what was no candidate stands last
        """
        cases = len(self.datasets)
        left = np.ones((cases, len(self.names)))
        left[np.arange(cases), self.datasets] = 0
        if without is not None:
            left[:, without] = 0
        sums = self._known[constants.published, constants.width, constants.cap]
        score = np.zeros((cases, len(self._algorithms)))
        for i, name in enumerate(self._algorithms[1:], start=1):
            gain, known = _gains(sums[name], constants.pseudo, left)
            score[:, i] = np.where(known, gain, gain - 1e6)
        score[~np.isfinite(self._lost)] = -np.inf
        order: NDArray[np.int64] = np.argsort(-score, axis=1, kind="stable").astype(np.int64)
        return order

    def losses(self, constants: Constants, without: int | None = None) -> Floats:
        """Regret at each setting, points."""
        return np.take_along_axis(self._lost, self.ranked(constants, without)[:, :1], axis=1)[:, 0]

    def best(self, without: int | None = None) -> Constants:
        """The constants with the least mean regret, on all data sets but one if named; the first of equals."""
        kept = np.ones(len(self.datasets), dtype=bool) if without is None else self.datasets != without
        return min(self.grid, key=lambda one: round(float(self.losses(one, without)[kept].mean()), 9))

    def nested(self) -> tuple[tuple[str, ...], ...]:
        """The first :data:`FIRST` algorithms at each setting, ours first, by constants chosen without its data set."""
        found = np.zeros((len(self.datasets), min(FIRST, len(self._algorithms))), dtype=np.int64)
        for left in sorted(set(self.datasets.tolist())):
            here = self.datasets == left
            found[here] = self.ranked(self.best(left))[here][:, : found.shape[1]]
        return tuple(tuple(self._algorithms[i] for i in line) for line in found)

    def on_published(self) -> float:
        """Mean regret on the published tables, nested, points."""
        chosen = [names[0] for names in self.nested()[self.settings :]]
        lost = self._lost[self.settings :]
        return float(np.mean([line[self._algorithms.index(name)] for name, line in zip(chosen, lost, strict=True)]))


def choices(table: Sequence[Results]) -> dict[str, Policy]:
    """Everything that is compared, by the name to print; the second opinion with its constants chosen nested."""
    names, most = Fit(table, "accuracy").nested(), max(len(one) for one in table)
    untrained = {
        "the tree": tree_choice,
        "always FedAvg": always("fedavg"),
        "always FedProx": always("fedprox"),
        "always SCAFFOLD": always("scaffold"),
        "best constant": best_constant_without(table),
        "second opinion": _told(table, names),
        "second opinion, of balanced accuracies": _told(table, Fit(table, "balanced", ("balanced",)).nested()),
    }
    return {
        **{name: Policy(choose, 0.0) for name, choose in untrained.items()},
        **{
            f"its first {count}, {'all' if share == 100 else f'{share} % of the'} rounds": Policy(
                _told(table, names, count, share), share * min(count, most) / most
            )
            for count, share in SHORTLISTS
        },
        **{f"validation, {share} % of the rounds": Policy(leader(share), share) for share in SHARES},
        "validation, halving three times": Policy(halving, halving_cost(most)),
    }


def _told(table: Sequence[Results], names: Sequence[tuple[str, ...]], count: int = 1, share: int = 100) -> Choice:
    """The leader of the first few names at a share of the rounds."""
    known = {first(one).setting: chosen for one, chosen in zip(table, names, strict=False)}

    def choose(results: Results, metric: str) -> str:
        few = [name for name in known[first(results).setting] if name in results][:count]
        return max(few, key=lambda name: results[name].score(metric, share))

    return choose

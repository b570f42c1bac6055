"""The second opinion: what the nearest settings of the evidence base say, as differences to FedAvg with an interval.

The estimator, in four steps (``docs/recommendation.md`` has the reasons and its regret):

1. In each setting, difference = score - score of FedAvg in points. A score below the best constant predictor counts as
   that predictor's (both failed), differences end at +-20 (in our own study at ``cap``), and a setting where both
   failed says nothing.
2. Each setting weighs trust x likeness. Likeness is a product of factors from 0 to 1: shared kinds of skew, their
   indices, modality, classes, parties, participation (what is not stated counts as 0.7), and where both state them
   the step ratio and FedNova's A. Beside rows of a study of ours (paired seeds, equal tuning, code that is tested
   against its papers) published rows weigh ``published`` of that.
3. Settings of one data set are averaged first, and a data set counts once at most (``published`` where nobody but
   others tried it).
4. The mean over data sets is pulled towards the algorithm's mean over all settings, and that one towards 0 ("no
   difference"), each by ``pseudo`` data sets. So with few neighbours the answer nears 0 and the interval widens.

``published``, ``pseudo``, ``cap`` and ``width`` (of the likeness) are fitted by leave-one-data-set-out regret on our
study and two published tables and ship with our rows (:func:`fedskew.advisor.own_evidence.fitted`).

The interval is for one more data set, not for the mean over many: spread between data sets and uncertainty together.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np

from fedskew.advisor.decision import model_size
from fedskew.advisor.evidence import CITATION, EvidenceRow
from fedskew.advisor.likeness import Place, likeness, place_of, place_of_situation
from fedskew.advisor.own_evidence import SOURCE, Constants, fitted
from fedskew.advisor.price import TITLES, base_name, cost, traffic
from fedskew.advisor.situation import Situation
from fedskew.profiles.counting import many, signed

CAP = 20.0
"""Points, of a published difference; one collapse must not outweigh everything else."""
MOST = 1.0
"""Largest weight of a data set, whatever the number of its settings."""
PRIOR_SD = 3.0
"""Points; spread of differences between data sets before any is seen."""
PRIOR_DF = 3.0
"""What that guess is worth, in degrees of freedom."""
ENOUGH = 2
"""Data sets with a neighbour that an algorithm needs before it can be the evidence's choice."""
SHORTLIST = 5
"""How many of the second opinion's names are worth training: half of the candidates, for under a point of regret."""
NEAR = 0.1
"""Likeness from which a setting is called a neighbour."""
MARGIN = 0.5
"""Points that matter in practice; the same as in validation."""


class Gain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expected accuracy minus FedAvg's, in points, with a 95 % interval for a new data set in such a setting."""

    mean: float
    lower: float
    upper: float


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting of the evidence: ``difference`` in points to FedAvg, ``likeness`` 0 to 1, ``trust`` 0 to 1."""

    source: str
    dataset: str
    skew: str
    param: str
    difference: float
    likeness: float
    trust: float
    flag: str


class Opinion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The evidence on one algorithm: ``settings`` and ``datasets`` count its neighbours, nearest few in ``nearest``.

    ``own``: how many of the settings are of fedskew's own study, which are short runs on few rows.
    """

    algorithm: str
    expected_gain: Gain
    settings: int
    datasets: int
    own: int = 0
    nearest: tuple[Neighbour, ...] = ()


class SecondOpinion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the evidence says.

    ``algorithm``: highest expected gain among the usable ones with neighbours on two data sets or more. ``verdict``:
    ``no_evidence`` (there is none but FedAvg), ``no_measurable_difference`` (expected gain under half a point: take the
    cheaper), ``better`` (interval above 0), else ``cannot_tell``. ``agrees``: the recommended algorithm is expected
    within half a point of this one; false where the evidence has nothing on it. ``candidates``: all that the evidence
    knows and that may be used here, best first.
    """

    algorithm: str
    expected_gain: Gain
    settings: int
    verdict: str
    agrees: bool
    text: str
    candidates: tuple[Opinion, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One algorithm against FedAvg in one setting, in points."""

    row: EvidenceRow
    points: float
    trust: float
    place: Place


@cache
def differences(rows: tuple[EvidenceRow, ...], cap: float = CAP) -> Mapping[str, tuple[Difference, ...]]:
    """All usable differences to FedAvg by algorithm (step 1 of the estimator); ``cap`` is that of our own rows."""
    settings: dict[tuple[Any, ...], dict[str, EvidenceRow]] = defaultdict(dict)
    for row in rows:
        settings[row.setting][row.algorithm] = row
    found: dict[str, list[Difference]] = defaultdict(list)
    for results in settings.values():
        base = results.get("fedavg")
        for name, row in results.items():
            if base is None or name == "fedavg" or (row.failed and base.failed):
                continue
            floor = row.majority or 0.0
            points = max(row.mean, floor) - max(base.mean, floor)
            trust = min(row.trust, base.trust)
            if trust > 0:
                most = CAP if row.source in CITATION else cap
                found[name].append(Difference(row, float(np.clip(points, -most, most)), trust, place_of(row)))
    return {name: tuple(items) for name, items in found.items()}


def _by_dataset(
    items: tuple[Difference, ...], weights: list[float], ceilings: list[float]
) -> tuple[list[float], list[float]]:
    """Weighted mean and capped weight of each data set (step 3)."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for item, weight, ceiling in zip(items, weights, ceilings, strict=True):
        one = sums[item.row.dataset]
        one[0] += weight * item.points
        one[1] += weight
        one[2] = max(one[2], ceiling)
    kept = [one for one in sums.values() if one[1] > 0]
    return [total / weight for total, weight, _ in kept], [min(weight, MOST * top) for _, weight, top in kept]


def _ceilings(items: tuple[Difference, ...], published: float) -> list[float]:
    """What a row weighs at most: less for a published one, where there are rows of our own on the algorithm."""
    own = [item.row.source not in CITATION for item in items]
    return [1.0 if mine or not any(own) else published for mine in own]


def _gain(items: tuple[Difference, ...], alike: list[float], constants: Constants) -> Gain:
    """Partial pooling (step 4)."""
    from scipy.special import stdtrit

    pseudo, tops = constants.pseudo, _ceilings(items, constants.published)
    trust = [item.trust * top for item, top in zip(items, tops, strict=True)]
    means, trusts = _by_dataset(items, trust, tops)
    overall = sum(m * w for m, w in zip(means, trusts, strict=True)) / (sum(trusts) + pseudo)
    means, near = _by_dataset(items, [t * like for t, like in zip(trust, alike, strict=True)], tops)
    total = sum(near)
    mean = (sum(m * w for m, w in zip(means, near, strict=True)) + pseudo * overall) / (total + pseudo)
    spread = (sum(w * (m - mean) ** 2 for m, w in zip(means, near, strict=True)) + PRIOR_SD**2) / (total + 1)
    effective = total**2 / sum(w * w for w in near) if total else 0.0
    half = float(stdtrit(PRIOR_DF + effective, 0.975)) * math.sqrt(spread * (1 + 1 / (total + pseudo)))
    return Gain(mean=round(mean, 2), lower=round(mean - half, 2), upper=round(mean + half, 2))


def opinions(place: Place, rows: tuple[EvidenceRow, ...], constants: Constants | None = None) -> tuple[Opinion, ...]:
    """What the evidence expects of each algorithm at a place, best first; FedAvg itself is 0 by definition.

    Algorithms without neighbours on two data sets stand last, whatever their mean.

    Parameters
    ----------
    place : the user's setting
    rows : the evidence base
    constants : of the estimator; None: those fitted to the shipped evidence
    """
    constants = constants or fitted()
    zero = Gain(mean=0.0, lower=0.0, upper=0.0)
    found = [Opinion(algorithm="fedavg", expected_gain=zero, settings=0, datasets=0)]
    for name, items in differences(rows, constants.cap).items():
        alike = [likeness(place, item.place, constants.width) for item in items]
        tops = _ceilings(items, constants.published)
        weights = [item.trust * like * top for item, like, top in zip(items, alike, tops, strict=True)]
        order = sorted(range(len(items)), key=lambda i: (-weights[i], items[i].row.source, items[i].row.dataset))
        near = [i for i in order if alike[i] >= NEAR]
        nearest = tuple(_neighbour(items[i], alike[i]) for i in near[:3])
        found.append(
            Opinion(
                algorithm=name,
                expected_gain=_gain(items, alike, constants),
                settings=len(near),
                datasets=len({items[i].row.dataset for i in near}),
                own=sum(items[i].row.source == SOURCE for i in near),
                nearest=nearest,
            )
        )
    return tuple(sorted(found, key=lambda opinion: (not _known(opinion), -opinion.expected_gain.mean)))


def _known(opinion: Opinion) -> bool:
    return opinion.algorithm == "fedavg" or opinion.datasets >= ENOUGH


def _neighbour(item: Difference, alike: float) -> Neighbour:
    row = item.row
    return Neighbour(
        source=row.source,
        dataset=row.dataset,
        skew=row.skew,
        param=row.param,
        difference=round(item.points, 2),
        likeness=round(alike, 3),
        trust=item.trust,
        flag=row.flag,
    )


def second_opinion(
    situation: Situation, recommended: str, rows: tuple[EvidenceRow, ...], constants: Constants | None = None
) -> SecondOpinion:
    """What the evidence says about a situation, beside the recommended algorithm.

    Parameters
    ----------
    situation : what is known
    recommended : id of the algorithm to compare with
    rows : the evidence base
    constants : of the estimator; None: those fitted to the shipped evidence
    """
    found = tuple(o for o in opinions(place_of_situation(situation), rows, constants) if usable(o.algorithm, situation))
    best, known = found[0], sum(_known(o) for o in found)
    mine = next((o for o in found if o.algorithm == base_name(recommended)), None)
    agrees = mine is not None and best.expected_gain.mean - mine.expected_gain.mean < MARGIN
    verdict = "no_evidence" if known == 1 else _verdict(best)
    return SecondOpinion(
        algorithm=best.algorithm,
        expected_gain=best.expected_gain,
        settings=best.settings,
        verdict=verdict,
        agrees=agrees,
        text=_text(verdict, best, recommended, agrees=agrees, known=mine is not None),
        candidates=found,
    )


def shortlist(opinion: SecondOpinion, recommended: str) -> tuple[str, ...]:
    """The candidates worth training: the recommended one, FedAvg, and the evidence's first :data:`SHORTLIST`.

    On our own study, without the data set judged, the best of these five loses 0.2 to 0.6 points to the best of all
    candidates (``docs/recommendation.md``, 4.1).

    Examples
    --------
    >>> from fedskew.advisor.second_opinion import shortlist
    >>> from fedskew.advisor import demo_partition, recommend
    >>> from fedskew.profiles import profile
    >>> found = recommend(profile(demo_partition()))
    >>> shortlist(found.second_opinion, found.algorithm)
    ('scaffold', 'fedavg', 'fedyogi', 'fedadam', 'fedadagrad', 'fedavgm')
    """
    names = [one.algorithm for one in opinion.candidates[:SHORTLIST]]
    return tuple(dict.fromkeys((recommended, "fedavg", *names)))


def usable(algorithm: str, situation: Situation) -> bool:
    """Whether an algorithm keeps to the constraints: state at clients, bandwidth, one model, BatchNorm for FedBN.

    Where not even FedAvg fits the bandwidth, what costs no more than it stays, as in the recommendation.
    """
    if situation.stateless_clients and cost(algorithm).state:
        return False
    size = None if situation.bandwidth is None else model_size(situation)[1]
    if size is not None and traffic(algorithm, size) > max(situation.bandwidth or 0.0, traffic("fedavg", size)):
        return False
    return algorithm != "fedbn" or (situation.has_batchnorm and situation.goal == "personal")


def _verdict(best: Opinion) -> str:
    if best.expected_gain.mean < MARGIN:
        return "no_measurable_difference"
    return "better" if best.expected_gain.lower > 0 else "cannot_tell"


def _text(verdict: str, best: Opinion, recommended: str, *, agrees: bool, known: bool) -> str:
    gain, name, mine = best.expected_gain, TITLES[best.algorithm], TITLES[base_name(recommended)]
    points = f"{signed(gain.mean)} points ({signed(gain.lower)} to {signed(gain.upper)}) against FedAvg"
    basis = f"from {many(best.settings, 'setting')} on {many(best.datasets, 'data set')} like yours"
    basis += f", {best.own} of them {'a short run' if best.own == 1 else 'short runs'} of our own" if best.own else ""
    nothing = f"has nothing on {mine}"
    where = (
        "it agrees with the recommendation" if agrees else f"it would not choose {mine}" if known else f"it {nothing}"
    )
    same = "expects nothing to beat FedAvg by half a point" + ("" if known else f" and {nothing}")
    cheaper = "" if mine == "FedAvg" else f", so {mine} must show its worth: validate, or take FedAvg, which is cheaper"
    return {
        "no_evidence": "Too little is published on settings like yours: validate before you decide.",
        "no_measurable_difference": f"The evidence {same}{cheaper}.",
        "better": f"The evidence expects {name} to be better, {points}, {basis}; {where}.",
        "cannot_tell": f"The evidence leans to {name}, {points}, {basis}, but cannot tell; {where}.",
    }[verdict]

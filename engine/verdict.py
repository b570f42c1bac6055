"""The verdict, computed once: JSON, terminal and report show this one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedskew.engine.records import Verdict
from fedskew.engine.statistics import Spread, seeds_to_settle
from fedskew.profiles.counting import signed

MARGIN = 0.005  # half a point of accuracy: smaller differences do not pay for a change of algorithm


@dataclass(frozen=True, slots=True)
class Entry:
    """What the verdict needs of a candidate: its name, status and mean score; candidates stand cheapest first.

    ``eliminated``: it was found surely worse than the recommended one, and got no further seeds.
    """

    name: str
    title: str
    status: str
    mean: float | None
    eliminated: bool = False


def decide(
    entries: Sequence[Entry],
    recommended: str,
    paired: Mapping[str, Spread],
    margin: float = MARGIN,
    constant: float = -math.inf,
) -> Verdict:
    """Decide between the recommended algorithm and the others, in a fixed order of kinds.

    Parameters
    ----------
    entries : all candidates, cheapest first
    recommended : name of the recommended one, which must be among them
    paired : for every other candidate with a score, itself minus the recommended one
    margin : the smallest difference worth a change
    constant : score of the best constant: of a candidate that does not exceed it nobody says that it works

    Returns
    -------
    Verdict
        ``all_failed``; ``overturned``: another's lower bound is above 0 and its mean above the margin (or the
        recommended one failed and another did not); ``no_difference``: all that did not fail lie within the margin by
        interval; ``confirmed``: every upper bound is below the margin; else ``cannot_tell``. An eliminated candidate
        counts as a comparison, but leaves nothing open: its few seeds make a wide interval, not a rival.
    """
    alive = [e for e in entries if e.status == "ok"]
    title = {e.name: e.title for e in entries}
    if not alive:
        return _all_failed(entries)
    if recommended not in {e.name for e in alive}:
        status = next(e.status for e in entries if e.name == recommended)
        return _fallen(alive, title[recommended], status, constant)
    others = [e for e in alive if e.name != recommended]
    if not others:
        text = f"{title[recommended]} is the only candidate that did not fail."
        return Verdict(kind="confirmed", winner=recommended, difference=None, lower=None, upper=None, text=text)
    level = 1 - 0.05 / max(1, len(entries) - 1)
    bounds = {e.name: paired[e.name].interval(level) for e in others}
    better = [e for e in others if bounds[e.name][0] > 0 and paired[e.name].mean > margin]
    rivals = [e for e in others if not e.eliminated]
    near = max(rivals or others, key=lambda e: paired[e.name].mean)
    if better:
        best = max(better, key=lambda e: paired[e.name].mean)
        text = f"{title[best.name]} beats the recommended {title[recommended]} by {_points(paired[best.name], level)}."
        return _verdict("overturned", best.name, paired[best.name], level, text)
    if all(-margin <= low and high <= margin for low, high in bounds.values()):
        cheapest = alive[0]
        text = (
            f"No difference worth having: all {len(alive)} candidates that did not fail lie within "
            f"{100 * margin:g} points of {title[recommended]}. Take the cheapest, {title[cheapest.name]}."
        )
        return _verdict("no_difference", cheapest.name, paired[near.name], level, text)
    if all(bounds[e.name][1] < margin for e in rivals):
        text = (
            f"{title[recommended]} is confirmed: no candidate is better by {100 * margin:g} points or more; "
            f"the nearest, {title[near.name]}, differs by {_points(paired[near.name], level)}."
        )
        return _verdict("confirmed", recommended, paired[near.name], level, text)
    nearest = max(rivals, key=lambda e: bounds[e.name][1])
    settle = _settle([paired[e.name] for e in rivals], margin, round(0.05 / (1 - level)))
    text = (
        f"Cannot tell: {title[nearest.name]} against the recommended {title[recommended]} is "
        f"{_points(paired[nearest.name], level)}. What would settle it: {settle}."
    )
    return _verdict("cannot_tell", None, paired[nearest.name], level, text, settle)


def _all_failed(entries: Sequence[Entry]) -> Verdict:
    diverged = sum(e.status == "diverged" for e in entries)
    why = f"{diverged} diverged, " if diverged else ""
    text = (
        f"Every candidate failed ({why}{len(entries) - diverged} predict no better than the best constant): "
        f"train longer, change the learning rate, or look at the labels before federating."
    )
    return Verdict(kind="all_failed", winner=None, difference=None, lower=None, upper=None, text=text)


def _fallen(alive: Sequence[Entry], title: str, status: str, constant: float) -> Verdict:
    best = max(alive, key=lambda e: -math.inf if e.mean is None else e.mean)
    how = "diverged" if status == "diverged" else "predicts no better than the best constant"
    text = f"{best.title} works here and the recommended {title} does not: it {how}."
    if best.mean is None or best.mean <= constant:
        text = f"The recommended {title} {how}. {best.title}, the best of the others, scores no more than a constant."
    return Verdict(kind="overturned", winner=best.name, difference=None, lower=None, upper=None, text=text)


def _settle(found: Sequence[Spread], margin: float, comparisons: int) -> str:
    """What would settle a verdict, if means and spreads stay: one rival overturns; to confirm takes all of them."""
    if found[0].seeds < 2:
        return "two seeds or more: of one, nobody knows how far seeds differ"
    ahead = [one for one in found if one.mean > margin]
    counts = [seeds_to_settle(one, one.mean if ahead else margin - one.mean, comparisons) for one in ahead or found]
    known = [count for count in counts if count is not None]
    if not known or (not ahead and len(known) < len(counts)):
        return "a larger test set or more rounds; more seeds alone would not settle it"
    return f"{min(known) if ahead else max(known)} seeds"


def _verdict(
    kind: str, winner: str | None, found: Spread, level: float, text: str, settle: str | None = None
) -> Verdict:
    low, high = (bound if math.isfinite(bound) else None for bound in found.interval(level))
    return Verdict(kind=kind, winner=winner, difference=found.mean, lower=low, upper=high, text=text, settle=settle)


def _points(found: Spread, level: float) -> str:
    low, high = found.interval(level)
    if math.isinf(low):
        return f"{signed(100 * found.mean)} points (one seed, no interval)"
    return f"{signed(100 * found.mean)} points ({signed(100 * low)} to {signed(100 * high)})"

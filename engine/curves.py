"""What learning curves say beyond their ends: whether the ranking has settled, and scores at equal cost."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedskew.engine.records import Ranking

Curve = NDArray[np.float64]
"""Mean score over seeds by round, (R,)."""


def trend(curve: Curve) -> str | None:
    """Rising or falling when a line through the last third moves by more than a point over it; None: too short.

    Examples
    --------
    >>> trend(np.linspace(0.1, 0.9, 30)), trend(np.full(30, 0.5))
    ('rising', 'flat')
    """
    last = curve[-max(3, len(curve) // 3) :]
    if len(last) < 3 or not np.isfinite(last).all():
        return None
    moved = np.polyfit(np.arange(len(last)), last, 1)[0] * (len(last) - 1)
    return "rising" if moved > 0.01 else "falling" if moved < -0.01 else "flat"


def ranking(curves: Mapping[str, Curve], margin: float) -> Ranking:
    """Say whether short runs can be trusted to name the leader.

    Parameters
    ----------
    curves : mean score by round of every candidate that did not fail, all of one length
    margin : leads smaller than this count as ties

    Returns
    -------
    Ranking
        ``settled_at``: the first round from which the final leader was never again behind by more than the margin.

    Examples
    --------
    >>> found = ranking({"a": np.array([0.1, 0.5, 0.6]), "b": np.array([0.3, 0.4, 0.5])}, 0.005)
    >>> found.leader, found.settled_at, found.crossed
    ('a', 2, True)
    """
    names = list(curves)
    rounds = len(curves[names[0]]) if names else 0
    if rounds == 0:
        return Ranking(leader=None, settled_at=None, stable=False, crossed=False, rising=())
    table = np.stack([curves[name] for name in names])
    leader = int(table[:, -1].argmax())
    behind = table.max(axis=0) - table[leader] > margin
    settled = int(np.flatnonzero(behind)[-1]) + 2 if behind.any() else 1
    rising = tuple(name for name in names if trend(curves[name]) == "rising")
    return Ranking(
        leader=names[leader],
        settled_at=settled,
        stable=settled <= rounds - rounds // 3,
        crossed=bool(behind.any()),
        rising=rising,
    )


def reached(curve: Curve, target: float) -> int | None:
    """The first round, from 1, at which a curve reaches a target; None: never.

    Examples
    --------
    >>> reached(np.array([0.2, 0.5, 0.6]), 0.5), reached(np.array([0.2]), 0.5)
    (2, None)
    """
    there = np.flatnonzero(curve >= target)
    return int(there[0]) + 1 if len(there) else None


def at_equal_cost(curves: Mapping[str, Curve], costs: Mapping[str, float]) -> dict[str, float | None]:
    """Score of each candidate when all have spent what the cheapest spends over its whole run.

    Parameters
    ----------
    curves : mean score by round
    costs : of one round, in any unit, above 0

    Examples
    --------
    >>> at_equal_cost({"a": np.array([0.1, 0.2]), "b": np.array([0.3, 0.4])}, {"a": 1.0, "b": 2.0})
    {'a': 0.2, 'b': 0.3}
    """
    budget = min((costs[name] * len(curve) for name, curve in curves.items()), default=0.0)
    found: dict[str, float | None] = {}
    for name, curve in curves.items():
        rounds = int(budget / costs[name] + 1e-9) if costs[name] > 0 else len(curve)
        found[name] = float(curve[rounds - 1]) if 0 < rounds <= len(curve) else None
    return found


def means(curves: Sequence[Sequence[float]]) -> Curve:
    """Mean over seeds of curves of one length, (R,).

    Examples
    --------
    >>> means([[0.0, 1.0], [1.0, 0.0]]).tolist()
    [0.5, 0.5]
    """
    return np.asarray(np.asarray(curves, dtype=np.float64).mean(axis=0))

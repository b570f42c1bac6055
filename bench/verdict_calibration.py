"""How often the verdict errs: simulated validations with known truth.

    python bench/verdict_calibration.py [--draws 2000]

Equal candidates (six, seed standard deviations of 0.7 to 35 points as seen on a9a): share of "overturned", which is
an error. A rival two points better at a paired standard deviation of one point: share of "overturned", which is right.
All within the margin: share of "no_difference". Test rows are common to all seeds, as in a real validation.
"""

import argparse

import numpy as np

from fedskew.engine.statistics import Spread
from fedskew.engine.verdict import Entry, decide

SPREADS = (0.007, 0.02, 0.05, 0.10, 0.20, 0.35)  # of six candidates over seeds


def simulate(rng, means, spreads, seeds, rows=4000, disagreement=0.1):
    """One validation: the verdict on candidate 0. ``disagreement``: variance of a row's paired difference."""
    scores = np.asarray(means)[:, None] + np.asarray(spreads)[:, None] * rng.normal(size=(len(means), seeds))
    luck = rng.normal(size=len(means)) * np.sqrt(disagreement / rows)
    paired = {}
    for i in range(1, len(means)):
        gap = scores[i] - scores[0] + luck[i]
        paired[str(i)] = Spread(float(gap.mean()), float(gap.var(ddof=1)) / seeds, disagreement / rows, seeds, rows)
    entries = [Entry(str(i), str(i), "ok", float(scores[i].mean())) for i in range(len(means))]
    return decide(entries, "0", paired).kind


def share(kind, draws, seed, **how):
    rng = np.random.default_rng(seed)
    return sum(simulate(rng, **how) == kind for _ in range(draws)) / draws


def table(draws):
    """Rows of (what, seeds, share)."""
    lines = []
    for seeds in (3, 5, 10):
        for first in (0, 2, 5):  # the recommended one: steady, middling, wild
            order = [SPREADS[first], *(s for i, s in enumerate(SPREADS) if i != first)]
            equal = share("overturned", draws, 1, means=[0.7] * 6, spreads=order, seeds=seeds)
            lines.append((f"equal, recommended sd {order[0]:.3f}: overturned", seeds, equal))
        found = share("overturned", draws, 2, means=[0.7, 0.72], spreads=[0.01 / 2**0.5] * 2, seeds=seeds)
        lines.append(("2 points better, paired sd 1: overturned", seeds, found))
        alike = share("no_difference", draws, 3, means=[0.7] * 6, spreads=[0.0005] * 6, seeds=seeds, disagreement=0.001)
        lines.append(("all alike, sd 0.05: no_difference", seeds, alike))
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=2000)
    for what, seeds, value in table(parser.parse_args().draws):
        print(f"{what:48} {seeds:3} seeds  {100 * value:5.1f} %")

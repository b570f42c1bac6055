"""A measure of one's own: a function of the count table and what it is, as one value.

To ship it, add the value to MEASURES in profiles/measures.py; every profile then carries it under ``measures``.
"""

import numpy as np

import fedskew
from fedskew.profiles.measures import Measure
from fedskew.profiles.null import Counts


def rarest_class(counts: Counts) -> float:
    """Share of the parties with rows that hold the rarest class."""
    held = counts[counts.sum(axis=1) > 0]
    return float((held[:, held.sum(axis=0).argmin()] > 0).mean())


RAREST = Measure(
    name="rarest_class",
    text="parties that hold the rarest class / parties with rows",
    unit="share of parties",
    range=(0.0, 1.0),
    source="an example",
    compute=rarest_class,
)

if __name__ == "__main__":
    silos = fedskew.make_partition(np.zeros((6, 1)), list("xxyxxx"), list("aabbcc"))
    print(f"{RAREST.name}: {RAREST.compute(silos.counts):.2f} {RAREST.unit}")

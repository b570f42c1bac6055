"""Concept shift: what a label means, or how reliable it is, differs from party to party."""

from dataclasses import replace

import numpy as np

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Partition
from fedskew.profiles.strategies.base import NUM_PARTITIONS, Parameter, Strategy, Values


def _label_noise(partition: Partition, values: Values, seed: int) -> Partition:
    _check_classes(partition, "label_noise")
    labels = partition.labels.copy()
    i = np.arange(1, partition.parties + 1)
    chances = values["label_noise"] * (i / partition.parties if values["label_noise_schedule"] == "(i+1)/N" else i**0)
    for party in range(partition.parties):
        rows = labels[partition.rows_of(party)]
        rng = generator("label noise", seed, party)
        wrong = rng.random(len(rows)) < chances[party]
        # A step of 1 to K - 1 round the classes: every wrong class is equally likely.
        rows[wrong] = (rows[wrong] + rng.integers(1, partition.classes, int(wrong.sum()))) % partition.classes
    return replace(partition, labels=labels, _counts=[])


def _label_permutation(partition: Partition, values: Values, seed: int) -> Partition:
    _check_classes(partition, "label_permutation")
    if (values["permuted_classes"] or 2) > partition.classes:
        raise FedskewError(
            f"permuted_classes is {values['permuted_classes']}; the table has {partition.classes} classes"
        )
    rng = generator("label permutation", seed)
    shifted = round(partition.parties * values["shifted_parties"])
    labels = partition.labels.copy()
    for party in rng.permutation(partition.parties)[:shifted]:
        chosen = rng.choice(partition.classes, values["permuted_classes"] or partition.classes, replace=False)
        mapping = np.arange(partition.classes)
        mapping[chosen] = np.roll(chosen, 1)  # one cycle in random order: no chosen class keeps its name
        where = partition.rows_of(int(party))
        labels[where] = mapping[labels[where]]
    return replace(partition, labels=labels, _counts=[])


def _check_classes(partition: Partition, name: str) -> None:
    if partition.target is not None:
        raise FedskewError(f"{name} changes class labels, and this table has a continuous target; bin it first")
    if partition.classes < 2:
        raise FedskewError(f"{name} needs two classes or more; the table has {partition.classes}")


LABEL_NOISE = Strategy(
    name="label_noise",
    summary="a share of each party's labels is replaced by a wrong class",
    source="own; symmetric label noise as in Natarajan et al. 2013, its rate by party as NIID-Bench's noise",
    parameters=(
        NUM_PARTITIONS,
        Parameter("label_noise", "float", 0.4, "chance that a label of the noisiest party is wrong", 0, 1,
                  aliases=("flip", "label_noise_rate")),
        Parameter("label_noise_schedule", "choice", "(i+1)/N", "growing from party to party, or constant",
                  choices=("(i+1)/N", "constant")),
    ),
    transform=_label_noise,
)  # fmt: skip
"""Wrong classes are equally likely. A given test table keeps its labels."""

LABEL_PERMUTATION = Strategy(
    name="label_permutation",
    summary="in a share of the parties the classes change names: the same x has another label",
    source="own; swapped labels as in Ghosh et al. 2020 (IFCA) and Sattler et al. 2020 (clustered FL)",
    parameters=(
        NUM_PARTITIONS,
        Parameter("shifted_parties", "float", 0.5, "share of the parties whose labels are permuted", 0, 1,
                  aliases=("share",)),
        Parameter("permuted_classes", "int", None, "classes that change names; left out: all", 2, 1_000_000),
    ),
    transform=_label_permutation,
    aliases={"concept": {}, "concept-shift": {}},
)  # fmt: skip
"""Each shifted party draws its own cycle through the permuted classes. A given test table keeps its labels."""

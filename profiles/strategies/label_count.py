"""Label skew by number of classes: each party holds k of the K classes (NIID-Bench's #C=k, and its code's `mixed`)."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.strategies.base import NUM_PARTITIONS, Codes, Parameter, Rows, Strategy, Values
from fedskew.profiles.strategies.holders import (
    Holds,
    deal_classes,
    fit_holders,
    random_subsets,
    split_by,
    split_evenly,
)
from fedskew.profiles.strategies.sharing import deal, even, log_dirichlet, shares_of


def _label_count(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    parties, each, first = values["num_partitions"], values["num_classes_per_partition"], values["first"]
    present = np.flatnonzero(rows.class_sizes)
    sizes = rows.class_sizes[present]
    _check_feasible(sizes, parties, each)
    holds = (
        random_subsets(parties, len(sizes), each, rng) if first == "random" else _anchored(parties, sizes, values, rng)
    )
    if first == "random":
        holders, most = holds.sum(axis=0), np.minimum(sizes, parties)
        if (holders < 1).any() or (holders > most).any():
            holds = deal_classes(fit_holders(holders, most, rng), parties, each, rng)
    counts = np.zeros((parties, rows.classes), dtype=np.int64)
    if rows.quantity is None:
        counts[:, present] = split_evenly(sizes, holds, rng)
    else:
        weights = np.broadcast_to(rows.quantity.shares[:, None] + 1e-300, holds.shape)
        counts[:, present] = split_by(sizes, holds, weights)
    return deal(rows.labels, counts, rng)


def _check_feasible(sizes: NDArray[np.int64], parties: int, each: int) -> None:
    classes = len(sizes)
    if each > classes:
        raise FedskewError(
            f"num_classes_per_partition is {each}, but the table has {classes} classes with rows; "
            f"allowed are {-(-classes // parties)} to {classes}"
        )
    if parties * each < classes:
        raise FedskewError(
            f"{parties} parties with {each} classes each can own {parties * each} of the {classes} classes, and every "
            f"class needs an owner; allowed are num_partitions from {-(-classes // each)} or "
            f"num_classes_per_partition from {-(-classes // parties)} to {classes}"
        )
    if int(np.minimum(sizes, parties).sum()) < parties * each:
        most = int(np.minimum(sizes, parties).sum()) // parties
        advice = (
            f"allowed is num_classes_per_partition up to {most}" if most else f"there are {sizes.sum()} rows in all"
        )
        raise FedskewError(
            f"{parties} parties with {each} classes each are too many: each holder of a class needs one of its rows, "
            f"and the rarest class has {sizes.min()}; {advice}; try fewer parties"
        )


def _anchored(parties: int, sizes: NDArray[np.int64], values: Values, rng: np.random.Generator) -> Holds:
    """Class i mod K for party i; the others at random, or the next ones in order; every class gets an owner."""
    classes, each = len(sizes), values["num_classes_per_partition"]
    party = np.arange(parties)
    keys = rng.random((parties, classes))
    if values["first"] == "deterministic":
        keys = ((np.arange(classes)[None, :] - party[:, None]) % classes).astype(np.float64)
    keys[party, party % classes] = -1.0
    holds = keys.argsort(axis=1).argsort(axis=1) < each
    for orphan in rng.permutation(np.flatnonzero(~holds.any(axis=0))):
        spare = holds & (holds.sum(axis=0) > 1)
        spare[party, party % classes] = False  # the anchors stay
        where, what = np.nonzero(spare)
        chosen = rng.integers(len(where))
        holds[where[chosen], what[chosen]] = False
        holds[where[chosen], orphan] = True
    crowded = np.flatnonzero(holds.sum(axis=0) > sizes)
    if crowded.size:
        k = crowded[0]
        raise FedskewError(
            f"class number {k} has {sizes[k]} rows but {holds[:, k].sum()} holders; use first='random', which gives "
            f"rare classes fewer holders, or fewer parties"
        )
    return np.asarray(holds)


def _mixed(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    parties = values["num_partitions"]
    present = np.flatnonzero(rows.class_sizes)
    sizes = rows.class_sizes[present]
    _check_feasible(sizes, parties, 2)
    wanted = rng.permutation(even(2 * parties, len(sizes)))
    holds = deal_classes(fit_holders(wanted, np.minimum(sizes, parties), rng), parties, 2, rng)
    weights = np.zeros(holds.shape)
    for k in range(len(sizes)):
        owners = np.flatnonzero(holds[:, k])
        weights[owners, k] = shares_of(log_dirichlet(rng, values["alpha"], (len(owners),)))
    counts = np.zeros((parties, rows.classes), dtype=np.int64)
    counts[:, present] = split_by(sizes, holds, weights)
    return deal(rows.labels, counts, rng)


LABEL_COUNT = Strategy(
    name="label_count",
    summary="each party holds k classes; a class is split evenly over its holders",
    source="Li et al. 2022 (NIID-Bench), section IV-A, quantity-based label imbalance (#C=k)",
    parameters=(
        NUM_PARTITIONS,
        Parameter(
            "num_classes_per_partition", "int", 2, "classes a party holds", 1, 1_000_000,
            aliases=("k", "classes_per_party", "num_classes", "class_per_client"),
        ),
        Parameter(
            "first", "choice", "random",
            "random: k distinct random classes; 'i mod K': the first is fixed, as in NIID-Bench's code; "
            "deterministic: classes i, i+1, ... modulo K",
            choices=("random", "i mod K", "deterministic"),
        ),
    ),
    assign=_label_count,
    aliases={
        "noniid-#label": {},
        "pathological": {},
        "PathologicalPartitioner": {},
        "noniid-#label-code": {"first": "i mod K"},
    },
    pattern=r"(?:noniid-#label|#c=?)(\d+)",
    pattern_parameter="num_classes_per_partition",
    takes_quantity=True,
)  # fmt: skip
"""Every party holds exactly k classes, every class has an owner and every holder at least one row of each.

NIID-Bench's code stops with an error where a class has no owner; here random subsets are dealt anew with the numbers
of holders corrected. Numbers of holders differ by chance, so party sizes differ for k >= 2, as in the source.
"""

MIXED = Strategy(
    name="mixed",
    summary="each party holds two classes; a class is split over its holders by Dirichlet shares",
    source="NIID-Bench's code, partition `mixed` (its paper's mixed skews are compositions, see the module simulate)",
    parameters=(
        NUM_PARTITIONS,
        Parameter(
            "alpha", "float", 0.5, "concentration of the shares of a class among its holders", 1e-6, 1e6,
            aliases=("beta",),
        ),
    ),
    assign=_mixed,
    aliases={"mixed-code": {}},
)  # fmt: skip
"""With N = K every class has two holders, as in the source; else numbers of holders are as equal as they can be."""

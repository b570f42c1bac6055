"""Label skew by Dirichlet shares: per class over parties (NIID-Bench), per party over classes (Hsu)."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.strategies.base import (
    MIN_PARTITION_SIZE,
    NUM_PARTITIONS,
    Codes,
    Parameter,
    Rows,
    Strategy,
    Values,
    check_floor,
)
from fedskew.profiles.strategies.sharing import Counts, cut, deal, even, log_dirichlet, shares_of, top_up

_SMALLEST = 1e-9  # of a concentration times a party's share of rows


def _label_dirichlet(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    parties, floor = values["num_partitions"], values["min_partition_size"]
    check_floor(len(rows.labels), parties, floor)
    alpha = values["alpha"]
    if rows.quantity is not None:  # mean share of a party is then its share of the rows
        alpha = np.maximum(alpha * parties * rows.quantity.shares, _SMALLEST)
    logs = log_dirichlet(rng, alpha, (rows.classes, parties))
    sizes = rows.class_sizes
    counts = _capped(sizes, logs) if values["balance"] else _shared(sizes, logs)
    with np.errstate(divide="ignore"):
        wishes = (logs + np.log(sizes)[:, None]).T
    return deal(rows.labels, top_up(counts, wishes, floor, rng), rng)


def _shared(sizes: NDArray[np.int64], logs: NDArray[np.float64]) -> Counts:
    return np.stack([cut(int(size), share) for size, share in zip(sizes, shares_of(logs), strict=True)], axis=1)


def _capped(sizes: NDArray[np.int64], logs: NDArray[np.float64]) -> Counts:
    """Walk the classes in order; parties that hold n / N rows or more are closed to later classes."""
    parties = logs.shape[1]
    counts = np.zeros((parties, len(sizes)), dtype=np.int64)
    for k, size in enumerate(sizes):
        is_open = counts.sum(axis=1) * parties < sizes.sum()
        if is_open.any():  # always, while rows are left: the closed parties alone would hold them all
            counts[is_open, k] = cut(int(size), shares_of(logs[k, is_open]))
    return counts


def _hsu(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    """Draw party by party from what is left; equal in law to drawing row by row without replacement.

    Draws of a used-up class are skipped, which is the same as renormalising over the others; each pass through the
    inner loop either fills the party or uses up a class, so there are at most K + 1 passes.
    """
    n, parties = len(rows.labels), values["num_partitions"]
    if rows.quantity is None:
        check_floor(n, parties, 1, fixed=True)
    sizes = even(n, parties) if rows.quantity is None else rows.quantity.sizes(n)
    alpha = np.full(rows.classes, values["alpha"])
    if values["prior"] == "pooled":
        alpha = np.maximum(values["alpha"] * rows.class_sizes / n, _SMALLEST)
    logs = log_dirichlet(rng, alpha, (parties, rows.classes))
    left = rows.class_sizes.copy()
    counts = np.zeros((parties, rows.classes), dtype=np.int64)
    for party, size in enumerate(sizes):
        missing = int(size)
        while missing:
            drawn = np.minimum(rng.multinomial(missing, shares_of(logs[party], left > 0)), left)
            counts[party] += drawn
            left -= drawn
            missing -= int(drawn.sum())
    return deal(rows.labels, counts, rng)


LABEL_DIRICHLET = Strategy(
    name="label_dirichlet",
    summary="each class is split over the parties by shares p ~ Dir(alpha)",
    source="Li et al. 2022 (NIID-Bench), section IV-A, distribution-based label imbalance; Yurochkin et al. 2019",
    parameters=(
        NUM_PARTITIONS,
        Parameter(
            "alpha", "float", 0.5, "concentration of the Dirichlet law; smaller is more skewed", 1e-6, 1e6,
            aliases=("beta", "dirichlet_alpha", "dir_alpha"),
        ),
        Parameter(
            "balance", "bool", False,
            "NIID-Bench's cap: parties with n/N rows or more get nothing of later classes; milder than the plain law",
            aliases=("self_balancing", "cap"),
        ),
        MIN_PARTITION_SIZE,
    ),
    assign=_label_dirichlet,
    aliases={
        "noniid-labeldir": {},
        "noniid-labeldir-code": {"balance": True, "min_partition_size": 10},
        "DirichletPartitioner": {},
        "lda": {},
    },
    takes_quantity=True,
)  # fmt: skip
"""For each class draw p ~ Dir_N(alpha) and cut its shuffled rows at floor(cumsum(p) * n_class).

The published code also closes parties that hold n / N rows (``balance``) and redraws everything until the smallest
party has 10 rows. Here a floor is met by construction: parties under it are topped up from parties above it, with rows
of the classes they lean to. With a quantity strategy the base measure is the party's share of rows (own definition).
"""

LABEL_DIRICHLET_HSU = Strategy(
    name="label_dirichlet_hsu",
    summary="each party draws its class mix q ~ Dir(alpha) and takes rows by it; sizes are equal",
    source="Hsu, Qi, Brown 2019, section 3; Legate, Federated Learning Baselines, --dirichlet",
    parameters=(
        NUM_PARTITIONS,
        Parameter(
            "alpha", "float", 0.1, "concentration of the Dirichlet law; smaller is more skewed", 1e-6, 1e6,
            aliases=("dirichlet_alpha", "dir_alpha"),
        ),
        Parameter(
            "prior", "choice", "uniform",
            "uniform: Dir(alpha) for every class, as FL-baselines; pooled: Dir(alpha * class share), as Hsu",
            choices=("uniform", "pooled"),
        ),
    ),
    assign=_hsu,
    aliases={"dirichlet": {}, "hsu": {}, "InnerDirichletPartitioner": {}},
    takes_quantity=True,
)  # fmt: skip
"""Rows are drawn without replacement: when a class is used up, the others are renormalised for all later parties.

Caveats of the source: late parties get left-overs, so the order of parties matters and the last ones are less skewed
than alpha says; and with quantity skew both skews interact.
"""

"""Quantity skew: party sizes by a Dirichlet draw."""

import numpy as np

from fedskew.profiles.strategies.base import (
    MIN_PARTITION_SIZE,
    NUM_PARTITIONS,
    Parameter,
    Quantity,
    Strategy,
    Values,
    check_floor,
)
from fedskew.profiles.strategies.sharing import log_dirichlet, shares_of


def _quantity(rows: int, values: Values, rng: np.random.Generator) -> Quantity:
    parties, floor = values["num_partitions"], values["min_partition_size"]
    check_floor(rows, parties, floor)
    return Quantity(shares_of(log_dirichlet(rng, values["quantity_beta"], (parties,))), floor)


QUANTITY_DIRICHLET = Strategy(
    name="quantity_dirichlet",
    summary="party sizes by shares q ~ Dir(quantity_beta), rows at random",
    source="Li et al. 2022 (NIID-Bench), section IV-C; Legate, Federated Learning Baselines, --quantity_skew",
    parameters=(
        NUM_PARTITIONS,
        Parameter(
            "quantity_beta", "float", 0.5, "concentration of the sizes; smaller is more skewed", 1e-6, 1e6,
            aliases=("beta", "alpha"),
        ),
        MIN_PARTITION_SIZE,
    ),
    quantity=_quantity,
    aliases={"iid-diff-quantity": {}, "quantity": {}, "quantity-skew": {"min_partition_size": 10}},
)  # fmt: skip
"""Every party gets ``min_partition_size`` rows, the rest is cut at floor(cumsum(q) * rest).

NIID-Bench redraws q until every party has 10 rows, which for many parties never ends. With a floor the sizes follow a
Dirichlet law shifted by the floor, not the Dirichlet law itself. With ``shards`` the number of shards is skewed, with
``label_dirichlet_hsu`` the sizes are, with ``label_dirichlet`` and ``label_count`` the shares of each class.
"""

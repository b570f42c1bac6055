"""McMahan's shards: rows sorted by label, cut into shards, a few shards for each party."""

import numpy as np

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.strategies.base import NUM_PARTITIONS, Codes, Parameter, Rows, Strategy, Values
from fedskew.profiles.strategies.sharing import by_class, even


def _shards(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    n, parties, each = len(rows.labels), values["num_partitions"], values["num_shards_per_partition"]
    total = parties * each
    if total > n:
        raise FedskewError(
            f"{parties} parties with {each} shards each need {total} rows, but there are {n}; allowed are "
            f"num_partitions up to {n // each} or num_shards_per_partition up to {n // parties}"
        )
    shares = np.full(parties, each) if rows.quantity is None else rows.quantity.sizes(total, floor=1)
    owners = rng.permutation(np.repeat(np.arange(parties, dtype=np.int32), shares))
    party = np.empty(n, dtype=np.int32)
    party[by_class(rows.labels, rows.classes, rng)] = np.repeat(owners, even(n, total))
    return party


SHARDS = Strategy(
    name="shards",
    summary="rows sorted by label and cut into equal shards, some shards at random for each party",
    source="McMahan et al. 2017, section 3, pathological non-IID; Legate, Federated Learning Baselines, --shards",
    parameters=(
        NUM_PARTITIONS,
        Parameter(
            "num_shards_per_partition", "int", 2, "shards a party gets", 1, 1_000_000,
            aliases=("shards_per_party", "num_shards"),
        ),
    ),
    assign=_shards,
    aliases={"shard": {}, "ShardPartitioner": {}},
    takes_quantity=True,
)  # fmt: skip
"""Shards differ by at most one row, so no row is left over; a shard may straddle two classes.

With a quantity strategy the *number* of shards a party gets is skewed, at least one each.
"""

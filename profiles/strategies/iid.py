"""Parties that differ by chance only."""

import numpy as np

from fedskew.profiles.strategies.base import NUM_PARTITIONS, Codes, Rows, Strategy, Values, check_floor
from fedskew.profiles.strategies.sharing import deal, deal_blocks, even, stratified


def _iid(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    n, parties = len(rows.labels), values["num_partitions"]
    if rows.quantity is not None:
        return deal_blocks(rows.quantity.sizes(n), rng)
    check_floor(n, parties, 1, fixed=True)
    return deal_blocks(even(n, parties), rng)


def _stratified(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    parties = values["num_partitions"]
    check_floor(len(rows.labels), parties, 1, fixed=True)
    return deal(rows.labels, stratified(rows.class_sizes, parties, rng), rng)


IID = Strategy(
    name="iid",
    summary="rows at random, sizes equal within 1",
    source="Li et al. 2022 (NIID-Bench), section IV, homogeneous; McMahan et al. 2017, section 3, IID",
    parameters=(NUM_PARTITIONS,),
    assign=_iid,
    aliases={"homo": {}, "homogeneous": {}, "IidPartitioner": {}},
    takes_quantity=True,
)
"""Shuffle all rows and cut them into N pieces; unlike FL-baselines, the n mod N left-over rows are kept."""

IID_STRATIFIED = Strategy(
    name="iid_stratified",
    summary="rows at random, every class and every size equal within 1",
    source="own, for users who expect `homo` to be balanced by class",
    parameters=(NUM_PARTITIONS,),
    assign=_stratified,
    aliases={"stratified": {}},
)
"""Split every class evenly over all parties; left-over rows go round, so that sizes differ by at most 1 too."""

"""Percent non-IID: a part of the rows split by label, the rest at random."""

import numpy as np

from fedskew.profiles.strategies.base import NUM_PARTITIONS, Codes, Parameter, Rows, Strategy, Values, check_floor
from fedskew.profiles.strategies.sharing import by_class, even


def _percent(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    n, parties = len(rows.labels), values["num_partitions"]
    check_floor(n, parties, 1, fixed=True)
    order = rng.permutation(n)
    skewed = order[: round(n * values["percent_noniid"] / 100)]
    skewed = skewed[by_class(rows.labels[skewed], rows.classes, rng)]
    # Both parts are cut evenly, the second at the other end, so that whole sizes differ by at most 1.
    sizes = even(n, parties)
    first = even(len(skewed), parties)
    codes = np.arange(parties, dtype=np.int32)
    party = np.empty(n, dtype=np.int32)
    party[skewed] = np.repeat(codes, first)
    party[order[len(skewed) :]] = np.repeat(codes, sizes - first)
    return party


PERCENT_NONIID = Strategy(
    name="percent_noniid",
    summary="a percentage of the rows is sorted by label and cut into blocks, the rest is IID",
    source="Hsieh et al. 2020, The Non-IID Data Quagmire, section 3 (skewness of label partitions)",
    parameters=(
        NUM_PARTITIONS,
        Parameter(
            "percent_noniid", "float", 50.0, "percentage of the rows that is split by label", 0, 100,
            aliases=("percent", "skewness"),
        ),
    ),
    assign=_percent,
    aliases={"percent-non-iid": {}},
)  # fmt: skip
"""100 gives each party one consecutive block of the rows sorted by label, 0 is IID."""

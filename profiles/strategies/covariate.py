"""Covariate shift: parties by the value of a feature, or by the region of the FCUBE cube."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Holdout, Partition, make_partition
from fedskew.profiles.strategies.base import NUM_PARTITIONS, Codes, Parameter, Rows, Strategy, Values, check_floor
from fedskew.profiles.strategies.sharing import even, stratified


def _quantile(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    n, parties = len(rows.labels), values["num_partitions"]
    check_floor(n, parties, 1, fixed=True)
    level = _feature(rows.table, values["feature"])
    stray = rng.random(n) < values["overlap"]
    level = np.where(stray, rng.permutation(level), level)
    # Ties fall in random order and missing values last, so sizes are equal within 1 whatever the values are.
    order = np.lexsort((rng.random(n), level))
    blocks = even(n, parties)
    if values["within_class"]:
        order = order[np.argsort(rows.labels[order], kind="stable")]
        blocks = stratified(rows.class_sizes, parties, rng).T.ravel()
    party = np.empty(n, dtype=np.int32)
    party[order] = np.repeat(np.tile(np.arange(parties, dtype=np.int32), len(blocks) // parties), blocks)
    return party


def _feature(table: Partition, name: str) -> NDArray[np.float64]:
    """One number a row: the named column, a category's number, or the brightness of an image."""
    if table.modality == "image":
        if name not in {"", "brightness"}:
            raise FedskewError(f"feature is {name!r}; images can be split by 'brightness' only")
        return np.asarray(table.features.mean(axis=(1, 2, 3), dtype=np.float64))
    names = [column.name for column in table.columns]
    if name not in {"", *names}:
        raise FedskewError(f"feature is {name!r}, which is no column of the table; {choices(name, names)}")
    column = table.columns[names.index(name) if name else 0]
    if column.kind == "numeric":
        return _dense(table.features[:, [column.start]])[:, 0]
    block = _dense(table.features[:, column.start : column.stop])
    return np.where(block.any(axis=1), block.argmax(axis=1), np.nan)


def _dense(block: object) -> NDArray[np.float64]:
    toarray = getattr(block, "toarray", None)
    return np.asarray(block if toarray is None else toarray(), dtype=np.float64)


def _fcube_regions(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:  # noqa: ARG001
    table = rows.table
    if table.modality == "image" or table.features.shape[1] != 3:
        raise FedskewError(
            "fcube splits points of a cube around the origin by its octants; it needs exactly 3 numeric features. "
            "The data set itself comes from fedskew.profiles.strategies.fcube()"
        )
    return _region(_dense(table.features))


def _region(points: NDArray[np.float64]) -> Codes:
    """Pairs of octants opposite to each other through the origin: 2 * (x1 x2 < 0) + (x1 x3 < 0)."""
    positive = points >= 0
    return np.asarray(2 * (positive[:, 0] != positive[:, 1]) + (positive[:, 0] != positive[:, 2]), dtype=np.int32)


def fcube(rows: int = 4_000, test_rows: int = 1_000, seed: int = 42) -> Partition:
    """Generate NIID-Bench's FCUBE: points of the cube [-1, 1]^3, four parties, label by the sign of x1.

    Each party holds two octants opposite to each other: its labels are balanced and its features differ from every
    other party's. Label 0 is x1 > 0, as in the published code (the paper's text has it the other way round).

    Parameters
    ----------
    rows : training rows, split evenly over the four parties and, within a party, over the two labels; at least 8
    test_rows : rows of the test table, uniform in the cube, labelled with the party whose region they lie in
    seed : 0 or more

    Raises
    ------
    FedskewError
        Fewer than 8 training rows or a negative number of test rows.

    Examples
    --------
    >>> fcube().counts.tolist()
    [[500, 500], [500, 500], [500, 500], [500, 500]]

    References
    ----------
    Li et al. 2022 (NIID-Bench), section IV-B, synthetic feature imbalance.
    """
    if rows < 8 or test_rows < 0:
        raise FedskewError(
            f"fcube has rows={rows} and test_rows={test_rows}; allowed are rows from 8, test_rows from 0"
        )
    points = generator("fcube", seed).random((rows, 3))
    party = np.repeat(np.arange(4, dtype=np.int32), even(rows, 4))
    points[party >= 2, 1] *= -1
    points[party % 2 == 1, 2] *= -1
    within = np.arange(rows) - np.concatenate([[0], np.cumsum(even(rows, 4))])[party]
    labels = within % 2
    points[labels == 1] *= -1
    test = 2 * generator("fcube test", seed).random((test_rows, 3)) - 1
    held_out = Holdout(test.astype(np.float32), (test[:, 0] <= 0).astype(np.int64), _region(test))
    return make_partition(
        points, labels, party,
        class_names=("0", "1"), party_names=("0", "1", "2", "3"), test=held_out if test_rows else None,
    )  # fmt: skip


FCUBE = Strategy(
    name="fcube",
    summary="points of a cube by pairs of opposite octants: four parties with other features and equal labels",
    source="Li et al. 2022 (NIID-Bench), section IV-B, synthetic feature imbalance (FCUBE)",
    parameters=(),
    assign=_fcube_regions,
    aliases={"synthetic": {}},
    needs_features=True,
    names=lambda _rows, _values: ("0", "1", "2", "3"),
)
"""Party 2 * (x1 x2 < 0) + (x1 x3 < 0) of a table with three features around 0."""

COVARIATE_QUANTILE = Strategy(
    name="covariate_quantile",
    summary="rows sorted by one feature and cut into equal parts: covariate shift",
    source="own; histogram splits are in Jimenez Gutierrez et al. 2024 (FedArtML)",
    parameters=(
        NUM_PARTITIONS,
        Parameter("feature", "text", "", "column to split by; left out: the first column, or an image's brightness",
                  aliases=("by", "split_by")),
        Parameter("overlap", "float", 0.0, "share of the rows that goes to a party at random", 0, 1),
        Parameter("within_class", "bool", False, "cut within each class, so that the label mix stays equal"),
    ),
    assign=_quantile,
    needs_features=True,
    aliases={"covariate-shift": {}, "quantile": {}},
)  # fmt: skip
"""P(x) differs between parties and P(y | x) does not; label skew follows where the feature predicts the label.

``within_class`` removes that label skew. A time column as the feature gives a split by time.
"""

"""Which rows train and which test: per party, stratified by class, drawn from the partition alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.encoding import Scaling, encode, scaling
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Holdout, Partition

TEST_SHARE = 0.25  # the share NIID-Bench holds out where a data set has no test part of its own
DENSE_LIMIT = 200_000_000  # bytes; sparse features above this stay sparse

ARRAYS = ("x", "y", "bounds", "shares", "test_x", "test_y", "test_party")
CSR = ("values", "columns", "starts", "shape")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Arrays ready to train on, scaled by the training rows alone.

    ``x`` (N, ...) float32, or a scipy CSR array (N, F) where a dense one would be large; ``y`` (N,) int64 classes, or
    a continuous target in float32, of mean 0 and standard deviation 1 over the training rows; rows grouped by party:
    ``bounds`` (P + 1,); ``shares`` (P, K), of the quantile bins for a continuous target; ``test_x``, ``test_y`` alike;
    ``test_party`` (n,) int32, or None where not known.
    """

    x: Any
    y: NDArray[np.int64] | NDArray[np.float32]
    bounds: NDArray[np.int64]
    names: tuple[str, ...]
    shares: NDArray[np.float64]
    test_x: Any
    test_y: NDArray[np.int64] | NDArray[np.float32]
    test_party: NDArray[np.int32] | None
    classes: int

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for a row: one a class, or the one of a continuous target."""
        return 1 if self.y.dtype.kind == "f" else self.classes


def hold_out(partition: Partition, share: float = TEST_SHARE, seed: int = 0) -> Partition:
    """Move a share of every party's rows into a held-out test table, unless there is one already.

    Parameters
    ----------
    partition : the table
    share : 0 to 1; the last row of a party and class always stays for training
    seed : of the draw

    Raises
    ------
    FedskewError
        Every party and class has a single row, so nothing can be held out.

    Examples
    --------
    >>> from fedskew.profiles.partitions import make_partition
    >>> toy = make_partition(np.zeros((8, 1)), [0, 0, 0, 0, 1, 1, 1, 1], ["a"] * 8)
    >>> split = hold_out(toy)
    >>> split.rows, len(split.test.labels)
    (6, 2)
    """
    if partition.test is not None:
        return partition
    picked = draw_stratified(partition, share, seed, leave=1)
    if not picked.any():
        raise FedskewError(
            "no rows can be held out for testing: no party has two rows of one class; give a test table with --test"
        )
    target = None if partition.target is None else partition.target[picked]
    test = Holdout(partition.features[picked], partition.labels[picked], partition.party[picked], target)
    return partition.select(~picked).with_test(test)


def cap_rows(partition: Partition, most: int | None, seed: int = 0) -> Partition:
    """Keep at most about ``most`` training rows, the same share of every party and class."""
    if most is None or partition.rows <= most:
        return partition
    dropped = draw_stratified(partition, 1 - most / partition.rows, seed, leave=1)
    return partition.select(~dropped)


def draw_stratified(partition: Partition, share: float, seed: int, leave: int) -> NDArray[np.bool_]:
    """Draw about ``share`` of the rows of every party and class, leaving at least ``leave`` of each; (N,) bool.

    Rounding is carried from class to class, so a party's total is within one row of its share where ``leave`` allows.
    """
    picked = np.zeros(partition.rows, np.bool_)
    for party in range(partition.parties):
        rows = partition.rows_of(party)
        labels = partition.labels[rows]
        keys = generator("split", seed, partition.party_names[party]).random(len(labels))
        order = np.lexsort((keys, labels))
        counts = partition.counts[party]
        ends = np.cumsum(counts)
        wanted = np.diff(np.floor(ends * share + 0.5), prepend=0.0).astype(np.int64)
        take = np.clip(np.minimum(wanted, counts - leave), 0, None)
        rank = np.arange(len(labels)) - np.repeat(ends - counts, counts)
        picked[rows.start + order[rank < np.repeat(take, counts)]] = True
    return picked


def prepare(partition: Partition, most: int | None = None, seed: int = 0) -> Prepared:
    """Hold out a test table, find the scaling on what is left, cap the rows, and lay out the arrays.

    Raises
    ------
    FedskewError
        Nothing can be held out, there is nothing to train on, or a continuous target has one value among the test
        rows, which leaves R² undefined.
    """
    split = hold_out(partition, seed=seed)
    how = scaling(split)
    train = cap_rows(split, most, seed)
    test = split.test
    if test is None or not len(test.labels):
        raise FedskewError("the test table has no rows; give one with --test or leave it out to hold rows out")
    keep = np.arange(len(test.labels))
    room = None if most is None else max(most, 10_000)
    if room is not None and len(keep) > room:
        keep = np.sort(generator("test rows", seed).choice(len(keep), room, replace=False))
    test = test.select(keep)
    y, test_y = _answers(train, test)
    counts = train.counts.astype(np.float64)
    return Prepared(
        x=_ready(train.features, how),
        y=y,
        bounds=np.concatenate([[0], np.cumsum(train.sizes)]),
        names=train.party_names,
        shares=counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        test_x=_ready(test.features, how),
        test_y=test_y,
        test_party=test.party,
        classes=train.classes,
    )


def _answers(train: Partition, test: Holdout) -> tuple[Any, Any]:
    """What is to be predicted for the training and the test rows: class codes, or a target scaled by the former."""
    if train.target is None:
        return train.labels, test.labels
    if test.target is None:
        raise FedskewError("the training rows have a continuous target and the test rows have classes")
    if len(np.unique(test.target)) < 2:
        raise FedskewError("the target has one value among the test rows, so R² is not defined; give more test rows")
    centre, width = float(train.target.mean()), float(train.target.std()) or 1.0
    first, second = (((target - centre) / width).astype(np.float32) for target in (train.target, test.target))
    return first, second


def arrays_of(data: Prepared) -> dict[str, NDArray[Any]]:
    """Everything that is as long as the table, as plain arrays by name: what travels to workers and what is hashed.

    A sparse table becomes four: its values, columns, row starts and shape.
    """
    found: dict[str, NDArray[Any]] = {}
    for name in ARRAYS:
        values = getattr(data, name)
        if hasattr(values, "indptr"):
            parts = (values.data, values.indices, values.indptr, np.asarray(values.shape))
            found |= {f"{name}.{part}": array for part, array in zip(CSR, parts, strict=True)}
        elif values is not None:
            found[name] = values
    return found


def without_arrays(data: Prepared) -> Prepared:
    """What is left of the tables, small enough to travel: names and the number of classes."""
    empty: dict[str, Any] = {name: np.empty(0) for name in ARRAYS}
    return replace(data, **empty)


def with_arrays(rest: Prepared, arrays: Mapping[str, NDArray[Any]]) -> Prepared:
    """Put back what :func:`arrays_of` took apart, without a copy."""
    whole: dict[str, Any] = {name: arrays.get(name) for name in ARRAYS}
    for name in ARRAYS:
        if f"{name}.values" in arrays:
            from scipy.sparse import csr_array

            values, columns, starts, shape = (arrays[f"{name}.{part}"] for part in CSR)
            whole[name] = csr_array((values, columns, starts), shape=tuple(shape.tolist()), copy=False)
    return replace(rest, **whole)


def _ready(features: Any, how: Scaling) -> Any:
    """Scaled features: dense, unless they are sparse and would be large."""
    if isinstance(features, np.ndarray):
        return np.ascontiguousarray(encode(features, how))
    rows, width = features.shape
    if rows * width * 4 > DENSE_LIMIT:
        found = encode(features, how).astype(np.float32)
        found.sum_duplicates()
        return found
    return np.ascontiguousarray(encode(features.toarray(), how))

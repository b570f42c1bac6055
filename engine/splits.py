"""Which rows train and which test: per party, stratified by class, drawn from the partition alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.encoding import Scaling, encode, scaling
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Holdout, Partition, make_partition

TEST_SHARE = 0.25  # the share NIID-Bench holds out where a data set has no test part of its own
DENSE_LIMIT = 4_000_000_000  # bytes; sparse features above this are refused rather than made dense


@dataclass(frozen=True, slots=True)
class Prepared:
    """Arrays ready to train on, scaled by the training rows alone.

    ``x`` (N, ...) float32, ``y`` (N,) int64 classes or float32 targets, rows grouped by party: ``bounds`` (P + 1,);
    ``shares`` (P, K); ``test_x``, ``test_y`` alike; ``test_party`` (n,) int32, or None where not known.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64] | NDArray[np.float32]
    bounds: NDArray[np.int64]
    names: tuple[str, ...]
    shares: NDArray[np.float64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64] | NDArray[np.float32]
    test_party: NDArray[np.int32] | None
    classes: int


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
    test = Holdout(partition.features[picked], _target(partition)[picked], partition.party[picked])
    return _select(partition, ~picked).with_test(test)


def cap_rows(partition: Partition, most: int | None, seed: int = 0) -> Partition:
    """Keep at most about ``most`` training rows, the same share of every party and class."""
    if most is None or partition.rows <= most:
        return partition
    dropped = draw_stratified(partition, 1 - most / partition.rows, seed, leave=1)
    return _select(partition, ~dropped)


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
        Nothing can be held out, there is nothing to train on, or sparse features are too large to be made dense.
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
    counts = train.counts.astype(np.float64)
    return Prepared(
        x=_dense(train.features, how),
        y=_target(train),
        bounds=np.concatenate([[0], np.cumsum(train.sizes)]),
        names=train.party_names,
        shares=counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        test_x=_dense(test.features[keep], how),
        test_y=test.labels[keep],
        test_party=None if test.party is None else test.party[keep],
        classes=train.classes,
    )


def _target(partition: Partition) -> NDArray[np.int64]:
    return partition.labels


def _select(partition: Partition, keep: NDArray[np.bool_]) -> Partition:
    return make_partition(
        partition.features[keep],
        partition.labels[keep],
        partition.party[keep],
        class_names=partition.class_names,
        party_names=partition.party_names,
        columns=partition.columns,
        test=partition.test,
        findings=partition.findings,
        target=None if partition.target is None else partition.target[keep],
    )


def _dense(features: object, how: Scaling) -> NDArray[np.float32]:
    if not isinstance(features, np.ndarray):
        rows, width = features.shape  # type: ignore[attr-defined]  # a CSR array
        if rows * width * 4 > DENSE_LIMIT:
            raise FedskewError(
                f"{rows} x {width} sparse features need {rows * width * 4 / 1e9:.0f} GB as a dense table; "
                f"take fewer rows with --max-rows or fewer columns with --features"
            )
        features = features.toarray()  # type: ignore[attr-defined]
    return np.ascontiguousarray(encode(features, how))

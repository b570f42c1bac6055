"""A study's data: read a table once, hold out its test rows, cap it, and split it into parties."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedskew.advisor.demo import demo_partition
from fedskew.advisor.study.grid import GENERATED, Setting, Table, strategy_of
from fedskew.engine.splits import cap_rows, hold_out
from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Holdout, Partition, make_partition
from fedskew.profiles.readers.npz import member_names
from fedskew.profiles.simulate import simulate
from fedskew.profiles.strategies import fcube
from fedskew.profiles.table import read_table

_MAKERS = {"fcube": fcube, "demo": demo_partition}


@lru_cache(maxsize=1)
def prepared_table(table: Table, path: Path | None, seed: int) -> Partition:
    """Read a data set, hold out its test rows where it has none of its own, then cap both; the last one is kept.

    The test rows are drawn before the rows are given to simulated parties, so they are the same for every partition
    and follow the pooled law; where the table names parties, they are drawn from each.

    Raises
    ------
    FedskewError
        The file cannot be read in this way.
    """
    whole = hold_out(_every(_read(table, path), table.every), seed=seed)
    train = cap_rows(whole, table.rows, seed)
    test = train.test
    if test is not None and table.test_rows is not None and len(test.labels) > table.test_rows:
        kept = np.sort(generator("study test rows", seed).choice(len(test.labels), table.test_rows, replace=False))
        train = train.with_test(test.select(kept))
    return train


@lru_cache(maxsize=1)
def partition_of(setting: Setting, path: Path | None) -> Partition:
    """The partition of a setting.

    Raises
    ------
    FedskewError
        The table cannot be read, or the strategy cannot split it.
    """
    table = prepared_table(setting.table, path, setting.seed)
    name, parameters = strategy_of(setting.partition, setting.parties)
    return simulate(table, name, seed=setting.partition_seed, **parameters)


def _read(table: Table, path: Path | None) -> Partition:
    if path is None:
        return _MAKERS[table.source.removeprefix(GENERATED)]()
    if path.suffix == ".npz" and "tr_indptr" in member_names(path):
        return _sparse(table, path)
    if not table.parties:
        return _without_parties(table, path)
    names = ("label", "party", "features", "modality", "task")
    how: dict[str, Any] = {name: getattr(table, name) for name in names}
    return read_table(path, drop=table.drop, partitioned=False, **how)


def _without_parties(table: Table, path: Path) -> Partition:
    """An npz of features and labels alone, whatever else it holds."""
    if path.suffix != ".npz":
        raise FedskewError(f"{path}: parties = false is for npz; of a table, drop the column of the party")
    members = member_names(path)
    x, y = table.features or "X", table.label or "y"
    for name in (x, y):
        if name not in members:
            raise FedskewError(f"{path}: has no member {name!r}; {choices(name, members)}")
    with np.load(path, allow_pickle=False) as held:
        return read_table((held[x], held[y]), partitioned=False, modality=table.modality, task=table.task)


def _sparse(table: Table, path: Path) -> Partition:
    """An archive with the parts of two CSR tables, ``tr_data``, ``tr_indices``, ``tr_indptr`` and the same with te."""
    from scipy.sparse import csr_array

    with np.load(path, allow_pickle=False) as held:
        wanted = ("data", "indices", "indptr")
        try:
            parts = {side: tuple(held[f"{side}_{name}"] for name in wanted) for side in ("tr", "te")}
            width = int(max(indices.max() for _, indices, _ in parts.values())) + 1
            labels, test_labels = held["y_train"], held["y_test"]
        except KeyError as error:
            raise FedskewError(f"{path}: a sparse archive needs the member {error}") from None
        names = tuple(str(name) for name in held["classes"]) if "classes" in held.files else None
    train, test = (
        csr_array(parts[side], shape=(len(rows), width)) for side, rows in (("tr", labels), ("te", test_labels))
    )
    if table.columns is not None and table.columns < width:
        frequent = np.sort(np.argsort(-np.bincount(train.indices, minlength=width), kind="stable")[: table.columns])
        train, test = train[:, frequent], test[:, frequent]
    names = names or tuple(str(code) for code in range(int(max(labels.max(), test_labels.max())) + 1))
    dense: tuple[Any, Any] = (train, test)
    if table.columns is not None:
        dense = (train.toarray(), test.toarray())
    return make_partition(
        dense[0],
        labels,
        np.zeros(len(labels), np.int32),
        class_names=names,
        party_names=("all",),
        test=Holdout(dense[1], test_labels.astype(np.int64)),
    )


def _every(partition: Partition, step: int) -> Partition:
    """Every so manyth row of each party, in the order of the file."""
    if step == 1:
        return partition
    first = np.searchsorted(partition.party, partition.party)
    kept = np.flatnonzero((np.arange(partition.rows) - first) % step == 0)
    return partition.select(kept)

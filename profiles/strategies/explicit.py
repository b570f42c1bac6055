"""Partitions the user spells out: lists of classes, a matrix of counts, or parties the table already names."""

from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.partitions import ordered_names
from fedskew.profiles.strategies.base import Codes, Parameter, Rows, Strategy, Values
from fedskew.profiles.strategies.holders import split_evenly
from fedskew.profiles.strategies.sharing import deal, even


def _named(values: Values, key: str) -> dict[str, Any]:
    """The user's list or mapping by party name, in the order of names."""
    given = values[key]
    if given is None:
        raise FedskewError(f"{key} is missing; give one entry for each party, as JSON or as a Python list or mapping")
    if not given:
        raise FedskewError(f"{key} is empty; give one entry for each party")
    entries = given if isinstance(given, dict) else dict(enumerate(given))
    by_name = {str(name): entry for name, entry in entries.items()}
    if len(by_name) < len(entries):
        raise FedskewError(f"{key} names a party twice; each party may stand once")
    for name in by_name:
        if name != name.strip() or name.lower() in {"", "nan", "null"}:
            raise FedskewError(f"{key} names a party {name!r}; a name has no outer spaces and does not mean missing")
    return {name: by_name[name] for name in ordered_names(by_name)}


def _class_lists(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    lists = _named(values, "class_lists")
    holds = np.zeros((len(lists), rows.classes), dtype=np.bool_)
    place = {name: k for k, name in enumerate(rows.class_names)}
    for party, (name, wanted) in enumerate(lists.items()):
        if not isinstance(wanted, (list, tuple)) or not wanted:
            raise FedskewError(f"class_lists of party {name!r} is {wanted!r}; it must be a list of class names")
        for label in wanted:
            if str(label) not in place:
                known = choices(str(label), rows.class_names)
                raise FedskewError(f"class_lists of party {name!r} names the class {str(label)!r}; {known}")
            holds[party, place[str(label)]] = True
    holders, sizes = holds.sum(axis=0), rows.class_sizes
    for k in np.flatnonzero((holders > sizes) | ((holders == 0) & (sizes > 0)))[:1]:
        raise FedskewError(
            f"class {rows.class_names[k]!r} has {sizes[k]} rows and {holders[k]} parties that list it; "
            f"every class with rows needs an owner, and every owner at least one row"
        )
    return deal(rows.labels, split_evenly(sizes, holds, rng), rng)


def _count_matrix(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    counts = _matrix(rows, values)
    sizes = rows.class_sizes
    wrong = np.flatnonzero(counts.sum(axis=0) != sizes)
    if not values["proportional"]:
        for k in wrong[:1]:
            raise FedskewError(
                f"count_matrix gives class {rows.class_names[k]!r} {counts[:, k].sum()} rows, but the table has "
                f"{sizes[k]}; columns must sum to the class sizes, or set proportional=true to split by shares"
            )
        return deal(rows.labels, counts, rng)
    for k in wrong:
        if counts[:, k].sum() == 0:
            raise FedskewError(f"count_matrix gives class {rows.class_names[k]!r} to no party; it has {sizes[k]} rows")
        ends = [end * int(sizes[k]) // int(counts[:, k].sum()) for end in accumulate(counts[:, k].tolist())]
        counts[:, k] = np.diff(ends, prepend=0)  # in whole numbers: equal counts give equal parts
    return deal(rows.labels, counts, rng)


def _matrix(rows: Rows, values: Values) -> NDArray[np.int64]:
    matrix = _named(values, "count_matrix")
    for name, row in matrix.items():
        numbers = isinstance(row, (list, tuple)) and all(type(x) is int and 0 <= x < 2**53 for x in row)
        if not numbers or len(row) != rows.classes:
            raise FedskewError(
                f"count_matrix of party {name!r} must be {rows.classes} whole numbers from 0, "
                f"one for each class in the order {', '.join(rows.class_names[:20])}"
            )
    return np.array(list(matrix.values()), dtype=np.int64)


def _natural(rows: Rows, values: Values, rng: np.random.Generator) -> Codes:
    ids = len(rows.party_names)
    groups = _groups(rows, values)
    if groups is None:
        return rows.party
    # Permute the ids and cut them into groups whose numbers of ids differ by at most 1.
    group = np.empty(ids, dtype=np.int32)
    group[rng.permutation(ids)] = np.repeat(np.arange(groups, dtype=np.int32), even(ids, groups))
    return np.asarray(group[rows.party])


def _groups(rows: Rows, values: Values) -> int | None:
    ids = len(rows.party_names)
    if ids < 2:
        raise FedskewError("natural needs a table that names its parties; read it with the column that holds them")
    groups: int | None = values["num_partitions"]
    if values["group_size"] is not None:
        if groups is not None:
            raise FedskewError("natural takes num_partitions or group_size, not both; leave one out")
        groups = -(-ids // values["group_size"])
    if groups is not None and groups > ids:
        raise FedskewError(f"num_partitions is {groups}, but the table names {ids} parties; allowed are 1 to {ids}")
    return groups


def _natural_names(rows: Rows, values: Values) -> tuple[str, ...]:
    groups = _groups(rows, values)
    return rows.party_names if groups is None else tuple(str(i) for i in range(groups))


CLASS_LISTS = Strategy(
    name="class_lists",
    summary="the classes of each party are given; a class is split evenly over the parties that list it",
    source="explicit; FedLab and PFLlib offer the same",
    parameters=(
        Parameter("class_lists", "json", None, 'classes by party, as {"a": ["cat", "dog"], "b": ["dog"]}'),
    ),
    assign=_class_lists,
    names=lambda _rows, values: tuple(_named(values, "class_lists")),
)  # fmt: skip
"""Every class with rows must be listed by somebody: a partition covers the table."""

COUNT_MATRIX = Strategy(
    name="count_matrix",
    summary="the number of rows of each class in each party is given",
    source="explicit; proportional: NIID-Bench's code, transfer-from-femnist and transfer-from-criteo",
    parameters=(
        Parameter("count_matrix", "json", None, "one list of K counts for each party", aliases=("matrix", "counts")),
        Parameter("proportional", "bool", False, "split every class in proportion to its column of the matrix"),
    ),
    assign=_count_matrix,
    aliases={"DistributionPartitioner": {"proportional": True}},
    names=lambda _rows, values: tuple(_named(values, "count_matrix")),
)
"""A party whose counts are all 0 has no rows: that is asked for."""

NATURAL = Strategy(
    name="natural",
    summary="the parties the table names, as they are or several of them grouped into one",
    source="Li et al. 2022 (NIID-Bench), section IV-B, real-world feature imbalance (`real`: FEMNIST by writer)",
    parameters=(
        Parameter("num_partitions", "int", None, "number of groups of ids; left out: every id is a party", 1, 1_000_000,
                  aliases=("n_parties", "parties", "num_clients", "n_clients", "num_users", "num_parties")),
        Parameter("group_size", "int", None, "ids a group holds, instead of num_partitions", 1, 1_000_000_000),
    ),
    assign=_natural,
    aliases={"real": {}, "NaturalIdPartitioner": {}, "GroupedNaturalIdPartitioner": {}},
    names=_natural_names,
)  # fmt: skip
"""Grouping permutes the ids and cuts them into groups of equal numbers of ids; an id is never split."""

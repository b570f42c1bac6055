"""Make sketches of rows at hand: of a partition, party by party."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.coding import twin
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.histogram import bin_numbers, bits_between
from fedskew.profiles.kernel import CHUNK_BYTES, PAIRS, Projection, random_features
from fedskew.profiles.moments import Moments, moments_of
from fedskew.profiles.partitions import Column, Partition
from fedskew.profiles.sketching.minima import RowKey, part_of
from fedskew.profiles.sketching.plan import Plan, planned_features, row_key
from fedskew.profiles.sketching.record import ClassCells, ColumnHead, KernelCell, NumericCell, Sketch

UPPER = np.triu_indices(2 * PAIRS)


def sketch(partition: Partition, plan: Plan | None = None, *, hash_key: bytes | None = None) -> tuple[Sketch, ...]:
    """Sketch each party of a partition.

    Parameters
    ----------
    partition : of images and sparse tables only labels and sizes are sketched
    plan : adds the sums of random features by class, for the joint feature index
    hash_key : a secret of the silos, 16 bytes or more: adds the least keyed hashes of rows; needs a plan

    Returns
    -------
    one sketch a party, in the order of their names, those without rows too

    Raises
    ------
    FedskewError
        The partition has a class that the plan has not, or there is a key and no plan.

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> north, south = sketch(make_partition([[1.0], [3.0], [5.0]], ["x", "x", "y"], ["n", "n", "s"]))
    >>> north.party, north.classes[0].name, north.classes[0].numeric["x0"].mean
    ('n', 'x', 2.0)
    """
    dense = partition.modality == "tabular" and isinstance(partition.features, np.ndarray)
    if plan is not None and not dense:
        raise FedskewError("a plan is for dense tables; images and sparse tables are sketched without one")
    columns = tuple(c for c in partition.columns if c.stop > c.start) if dense else ()
    key = None if hash_key is None else row_key(hash_key, plan)
    features, names = partition.features, partition.class_names
    held = {column.name for column in columns}
    if plan is not None:
        names = tuple(twin(name, plan.class_names) for name in names)
        features, columns = planned_features(plan, columns, features), plan.table_columns()
    return tuple(
        party_sketch(
            name,
            columns,
            features[partition.rows_of(code)] if dense else np.zeros((int(partition.sizes[code]), 0), np.float32),
            partition.labels[partition.rows_of(code)],
            names,
            plan=plan,
            lacking={column.name for column in columns} - held,
            modality=partition.modality,
            key=key,
        )
        for code, name in enumerate(partition.party_names)
    )


def party_sketch(
    party: str,
    columns: Sequence[Column],
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
    class_names: Sequence[str],
    *,
    plan: Plan | None = None,
    lacking: Collection[str] = (),
    modality: Any = "tabular",
    key: RowKey | None = None,
) -> Sketch:
    """Sketch the rows of one party.

    Parameters
    ----------
    columns, features : (n, F) float32, as in a Partition
    labels : (n,) codes into ``class_names``
    lacking : columns of the plan that the party's table does not have; nor does its sketch
    """
    codes, starts, order = _by_class(labels)
    moments = moments_by_class(features, order, starts)
    kernels: dict[str, KernelCell] = {}
    if plan is not None:
        kernels = kernel_cells(plan, party, features, labels, class_names)
    heads, numeric, categorical = [], [], []
    for place, column in enumerate(columns):
        if column.kind == "numeric":
            head, cells = _numeric(column, place, features, order, starts, moments)
            numeric.append((column.name, cells))
        else:
            hits = np.rint(moments[0] * moments[1])[:, column.start : column.stop].astype(np.int64)
            head = ColumnHead(name=column.name, place=place, kind="categorical" if hits.any() else "empty", kept=True)
            categorical.append((column, hits))
        heads.append(head)
    classes = [
        ClassCells(
            name=class_names[code],
            rows=int(rows),
            numeric={name: cells[at] for name, cells in sorted(numeric) if at in cells},
            categorical={
                column.name: dict(sorted((c, int(n)) for c, n in zip(column.categories, hits[at], strict=True) if n))
                for column, hits in sorted(categorical, key=lambda item: item[0].name)
                if hits[at].any()
            },
            kernel=kernels.get(class_names[code]),
        )
        for at, (code, rows) in enumerate(zip(codes.tolist(), np.diff(starts, append=len(labels)), strict=True))
    ]
    return Sketch(
        party=party,
        columns=(
            *(head for head in heads if head.name not in lacking),
            *(plan.unused_heads() if plan is not None else ()),
        ),
        classes=tuple(sorted(classes, key=lambda cells: cells.name)),
        modality=modality,
        plan=None if plan is None else plan.sha256,
        minima=None if key is None else part_of(features, labels, tuple(class_names), key),
    )


def numeric_cell(moments: Moments, numbers: NDArray[Any], counts: NDArray[Any]) -> NumericCell:
    """One cell from its moments (5,) and its histogram."""
    n, mean, m2, m3, m4 = moments.tolist()
    return NumericCell(
        n=int(n), mean=mean, m2=m2, m3=m3, m4=m4, bins=tuple(numbers.tolist()), counts=tuple(counts.tolist())
    )


def moments_by_class(features: NDArray[np.float32], order: NDArray[np.int64], starts: NDArray[np.int64]) -> Moments:
    """Moments (5, K, F) of the classes whose rows stand at ``starts`` of ``order``, a few features at a time."""
    width = features.shape[1]
    out = np.zeros((5, len(starts), width))
    step = max(1, CHUNK_BYTES // (8 * max(1, len(order))))
    for at in range(0, width, step):
        block = features[:, at : at + step][order].astype(np.float64)
        out[:, :, at : at + step] = moments_of(block, starts)
    return out


def kernel_cells(
    plan: Plan, party: str, features: NDArray[np.float32], labels: NDArray[np.int64], class_names: Sequence[str]
) -> dict[str, KernelCell]:
    """Sums of random features of the rows that enter, by class name.

    Raises
    ------
    FedskewError
        A class is not in the plan.
    """
    place = {name: code for code, name in enumerate(plan.class_names)}
    used = np.unique(labels).tolist()
    strange = [class_names[code] for code in used if class_names[code] not in place]
    if strange:
        raise FedskewError(f"party {party!r} has a class that the plan has not: {strange[0]!r}; make the plan anew")
    lookup = np.array([place.get(name, -1) for name in class_names], np.int64)
    entering = plan.entering(party, features, lookup[labels])
    by, cells = plan.projection(), {}
    for code in used:
        rows = np.flatnonzero(entering & (labels == code))
        sums, second = feature_sums(features, rows, by)
        cells[class_names[code]] = kernel_cell(len(rows), sums, second)
    return cells


def feature_sums(
    features: NDArray[np.float32], rows: NDArray[np.int64], by: Projection
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sum (128,) of the random features of some rows, and of their outer products (128, 128)."""
    sums, second = np.zeros(2 * PAIRS), np.zeros((2 * PAIRS, 2 * PAIRS))
    step = max(256, CHUNK_BYTES // (8 * max(2 * PAIRS, features.shape[1])))
    for at in range(0, len(rows), step):
        wide = random_features(features[rows[at : at + step]], by).astype(np.float64)
        sums += wide.sum(axis=0)
        second += wide.T @ wide
    return sums, second


def kernel_cell(rows: int, sums: NDArray[np.float64], second: NDArray[np.float64]) -> KernelCell:
    """The sums in the form in which they leave the silo."""
    return KernelCell(rows=rows, sums=sums.astype("<f8").tobytes(), second=second[UPPER].astype("<f8").tobytes())


def kernel_arrays(cell: KernelCell) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sums (128,) and (128, 128) of a cell."""
    upper = np.zeros((2 * PAIRS, 2 * PAIRS))
    upper[UPPER] = np.frombuffer(cell.second, "<f8")
    return np.frombuffer(cell.sums, "<f8").astype(np.float64), upper + np.triu(upper, 1).T


def _by_class(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Codes in use, where the rows of each start in the order of classes, and that order."""
    order = np.argsort(labels, kind="stable")
    codes, starts = np.unique(labels[order], return_index=True)
    return codes.astype(np.int64), starts.astype(np.int64), order


def _numeric(
    column: Column,
    place: int,
    features: NDArray[np.float32],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    moments: Moments,
) -> tuple[ColumnHead, dict[int, NumericCell]]:
    value = features[order, column.start]
    seen = np.isfinite(value)
    if not seen.any():
        return ColumnHead(name=column.name, place=place, kind="empty", kept=True), {}
    bits = bits_between(float(value[seen].min()), float(value[seen].max()))
    binary = bool(((value[seen] == 0) | (value[seen] == 1)).all())
    cells = {}
    for at, (first, last) in enumerate(_spans(starts, len(value))):
        part = value[first:last][seen[first:last]]
        if len(part):
            numbers, counts = np.unique(bin_numbers(part, bits), return_counts=True)
            cells[at] = numeric_cell(moments[:, at, column.start], numbers, counts)
    head = ColumnHead(name=column.name, place=place, kind="numeric", bits=bits, binary=binary, kept=True)
    return head, cells


def _spans(starts: NDArray[np.int64], rows: int) -> Iterator[tuple[int, int]]:
    yield from zip(starts.tolist(), [*starts.tolist()[1:], rows], strict=False)

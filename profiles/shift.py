"""Shift of each column between parties within classes: of the mean, of the spread, of the whole distribution."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.encoding import never_varies
from fedskew.profiles.histogram import bin_numbers, bits_between, distances, tabulated
from fedskew.profiles.moments import Moments, merged, moments_of, no_moments, pooled
from fedskew.profiles.partitions import Column, Partition
from fedskew.profiles.records import FeatureShift

CHUNK_BYTES = 1 << 23
MOST_CELLS = 4_000_000  # (party, feature) pairs at a time
MOST_FEATURES = 1_000  # measured one by one
Vector = NDArray[np.float64]
Bins = Callable[[int], "tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]"]
"""From a numeric feature to its histogram in a class: bin numbers, places of their parties among those of the class,
and rows that each stands for (None: one)."""


@dataclass(frozen=True, slots=True)
class ClassCells:
    """What all rows of one class add: the parties that hold some (C,), their moments (5, C, F), their histograms."""

    party: NDArray[np.int64]
    moments: Moments
    bins: Bins


def feature_shifts(partition: Partition) -> tuple[FeatureShift, ...]:
    """Measure each column of a table; nothing for images, whose pixels mean nothing one by one.

    Parameters
    ----------
    partition : dense or sparse table; of more than 1,000 features, the first 1,000 (sparse: the fullest) are measured

    Returns
    -------
    one entry a column, in the order of ``partition.columns``; a column that does not vary has null measures

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> x = np.tile([0.0, 1.0, 2.0, 3.0], 20)
    >>> party = np.repeat(["a", "b"], 40)
    >>> shift = feature_shifts(make_partition((x + 3 * (party == "b"))[:, None], np.zeros(80), party))[0]
    >>> shift.name, round(shift.mean_share, 3), round(shift.wasserstein, 3)
    ('x0', 0.638, 0.802)
    """
    if partition.modality == "image":
        return ()
    groups = _classes(partition)
    parties = max((len(group.party) for group in groups), default=1)
    found: list[FeatureShift] = []
    for columns, features in _blocks(partition, parties):
        bits = _bits(features, columns)
        found.extend(shifts(columns, (_cells(features, group, bits) for group in groups), bits))
    return tuple(found)


def shifts(columns: list[Column], cells: Iterable[ClassCells], bits: dict[int, int]) -> Iterator[FeatureShift]:
    """Measure columns from what their classes add: the one way for rows at hand and for sketches.

    Parameters
    ----------
    columns : numbered from 0 without gaps
    cells : of each class
    bits : of the bins of each numeric feature
    """
    width = columns[-1].stop if columns else 0
    mean, spread, distance = np.zeros((2, width)), np.zeros((2, width)), np.zeros((3, width))
    whole, cross = no_moments(width), {c.name: np.zeros(2) for c in columns if c.kind == "categorical"}
    for cell in cells:
        whole = merged(whole, pooled(cell.moments))
        if len(cell.party) < 2:
            continue
        _add_moments(mean, spread, cell.moments)
        for feature, its_bits in bits.items():
            distance[:, feature] += _distance(cell, feature, its_bits)
        for column in columns:
            if column.kind == "categorical":
                part = cell.moments[:2, :, column.start : column.stop]
                cross[column.name] += _association(np.rint(part[0] * part[1]))
    flat = never_varies(whole[0], whole[1], whole[2])
    std = np.sqrt(whole[2] / np.maximum(whole[0], 1))
    for column in columns:
        place = column.start
        if column.kind == "categorical":
            share = _ratio(cross[column.name], 1.0)
            yield FeatureShift(name=column.name, mean_share=share, spread_share=None, wasserstein=None)
        elif flat[place]:
            yield FeatureShift(name=column.name, mean_share=None, spread_share=None, wasserstein=None)
        else:
            yield _finished(column.name, float(std[place]), mean[:, place], spread[:, place], distance[:, place])


@dataclass(frozen=True, slots=True)
class _Group:
    """The rows of one class, ascending by party: their numbers, where each party starts, and each party's code."""

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    party: NDArray[np.int64]

    def chunks(self, width: int) -> Iterator[tuple[NDArray[np.int64], slice, NDArray[np.int64]]]:
        """Pieces of the rows, the parties each piece touches, and where those start inside it."""
        step = max(256, CHUNK_BYTES // (8 * max(1, width)))
        for done in range(0, len(self.rows), step):
            piece = self.rows[done : done + step]
            first = int(np.searchsorted(self.starts, done, side="right")) - 1
            last = int(np.searchsorted(self.starts, done + len(piece), side="left"))
            yield piece, slice(first, last), np.maximum(self.starts[first:last] - done, 0)


def _classes(partition: Partition) -> list[_Group]:
    order = np.argsort(partition.labels, kind="stable")
    ends = np.cumsum(np.bincount(partition.labels, minlength=partition.classes))
    groups = []
    for rows in np.split(order, ends[:-1]):
        if len(rows):
            party, starts = np.unique(partition.party[rows], return_index=True)
            groups.append(_Group(rows, starts, party.astype(np.int64)))
    return groups


def _measured(partition: Partition) -> tuple[list[Column], Any]:
    """The columns to measure and their features, by column where sparse."""
    features = partition.features
    dense = isinstance(features, np.ndarray)
    features = features if dense else features.tocsc()
    filled = None if dense else np.diff(features.indptr)
    return fullest([c for c in partition.columns if c.stop > c.start], features.shape[1], filled), features


def fullest(columns: list[Column], width: int, filled: NDArray[Any] | None = None) -> list[Column]:
    """Leave out columns where there are more features than are measured one by one: the last, or the emptiest."""
    if width <= MOST_FEATURES:
        return columns
    if filled is not None:
        columns = sorted(columns, key=lambda c: -int(filled[c.start : c.stop].max()))
    widths = np.cumsum([c.stop - c.start for c in columns])
    return sorted(columns[: max(1, int((widths <= MOST_FEATURES).sum()))], key=lambda c: c.start)


def _blocks(partition: Partition, parties: int) -> Iterator[tuple[list[Column], Any]]:
    """Columns in blocks small enough for the sums of all parties: columns numbered from 0, and their features."""
    columns, features = _measured(partition)
    dense = isinstance(features, np.ndarray)
    widest = max(1, MOST_CELLS // parties if dense else min(MOST_CELLS // parties, CHUNK_BYTES // partition.rows))
    for block in in_blocks(columns, widest):
        places = np.concatenate([np.arange(c.start, c.stop) for c in block])
        whole = dense and len(places) == features.shape[1]
        part = features if whole else features[:, places]
        yield renumbered(block), part if dense else part.toarray()


def in_blocks(columns: list[Column], widest: int) -> Iterator[list[Column]]:
    """Columns, as many together as have at most ``widest`` features; one at least."""
    block: list[Column] = []
    for column in [*columns, None]:
        if block and (column is None or sum(c.stop - c.start for c in block) + column.stop - column.start > widest):
            yield block
            block = []
        if column is not None:
            block.append(column)


def renumbered(columns: list[Column]) -> list[Column]:
    """The same columns with their features numbered from 0 without gaps."""
    stops = np.cumsum([c.stop - c.start for c in columns]).tolist()
    return [replace(c, start=stop - (c.stop - c.start), stop=stop) for c, stop in zip(columns, stops, strict=True)]


def _bits(features: NDArray[np.float32], columns: list[Column]) -> dict[int, int]:
    """Bits of the bins of each numeric feature that holds a value."""
    found: dict[int, int] = {}
    for column in columns:
        if column.kind == "numeric":
            value = features[:, column.start]
            value = value[np.isfinite(value)]
            if len(value):
                found[column.start] = bits_between(float(value.min()), float(value.max()))
    return found


def _cells(features: NDArray[np.float32], group: _Group, bits: dict[int, int]) -> ClassCells:
    """What the rows of a class add."""
    width = features.shape[1]
    moments = no_moments(len(group.party), width)
    for rows, parties, edges in group.chunks(width):
        moments[:, parties] = merged(moments[:, parties], moments_of(features[rows].astype(np.float64), edges))
    local = np.repeat(np.arange(len(group.party)), np.diff(np.append(group.starts, len(group.rows))))

    def bins(feature: int) -> tuple[NDArray[Any], NDArray[Any], None]:
        value = features[group.rows, feature]
        seen = np.isfinite(value)
        return bin_numbers(value[seen], bits[feature]), local[seen], None

    return ClassCells(group.party, moments, bins)


def _add_moments(mean_share: Vector, spread_share: Vector, moments: Moments) -> None:
    """Between-party sums of squares of the value and of its squared deviation, each less what chance gives."""
    n, mean, second, _, fourth = moments
    rows = n.sum(axis=0)
    centre = (n * mean).sum(axis=0) / np.maximum(rows, 1)
    between = (n * (mean - centre) ** 2).sum(axis=0)
    total = between + second.sum(axis=0)
    chance = total * np.maximum((n > 0).sum(axis=0) - 1, 0) / np.maximum(rows - 1, 1)
    mean_share += [between - chance, total - chance]
    spread_share += _spreads(n, second, fourth)


def _spreads(n: Vector, second: Vector, fourth: Vector) -> tuple[Vector, Vector]:
    r"""Between-party and total variance of the squared deviation, unbiased where parties do not differ.

    :math:`\mathrm{var}(s^2) = \mu_4/n - \sigma^4 (n-3)/(n(n-1))`, and for a sample of n rows
    :math:`E\sum (x-\bar x)^4 = \frac{n-1}{n^2}[(n^2-3n+3)\mu_4 + 3(2n-3)\sigma^4]` (Cramér 1946, section 27.5).
    """
    n = np.where(n >= 2, n, 0)
    safe = np.maximum(n, 2)
    rows = np.maximum(n.sum(axis=0), 1)
    spread = second / (safe - 1)
    typical = (np.maximum(n - 1, 0) * spread).sum(axis=0) / np.maximum(np.maximum(n - 1, 0).sum(axis=0), 1)
    share = np.where(n > 0, (safe - 1) / safe**2, 0)
    of_fourth, of_square = share * (safe**2 - 3 * safe + 3), share * 3 * (2 * safe - 3)
    seen = np.where(n > 0, fourth, 0).sum(axis=0) - typical**2 * of_square.sum(axis=0)
    kurtic = seen / np.maximum(of_fourth.sum(axis=0), 1e-300)
    total = np.maximum(rows * (kurtic - typical**2), 0)
    noise = np.maximum(kurtic / safe - typical**2 * (safe - 3) / (safe * (safe - 1)), 0)
    extra = (n * (spread - typical) ** 2).sum(axis=0) - (n * (1 - n / rows) * noise).sum(axis=0)
    return np.minimum(extra, total), total


def _distance(cell: ClassCells, feature: int, bits: int) -> list[float]:
    """Row-weighted 1-Wasserstein distance of the parties of a class to all its rows, by chance, and the rows."""
    numbers, party, weight = cell.bins(feature)
    if not len(numbers):
        return [0.0, 0.0, 0.0]
    count, mean = cell.moments[:2, :, feature]
    most = int(np.clip(200_000 // len(count), 32, 2048))
    table, places = tabulated(numbers, party, len(count), most, bits, weight)
    distance, chance = distances(table, places)
    centre = float((count * mean).sum() / max(count.sum(), 1))
    apart = np.where(count > 0, np.abs(mean - centre), 0.0)  # exact, where bins are too coarse to see it
    return [float(count @ np.maximum(distance, apart)), float(count @ chance), float(count.sum())]


def _association(table: Vector) -> Vector:
    """Goodman and Kruskal's tau of category and party: between and total, each less what chance gives."""
    n = table.sum(axis=1)
    rows = n.sum()
    if rows < 2:
        return np.zeros(2)
    pool = float((table.sum(axis=0) ** 2).sum()) / rows
    between = float(((table**2).sum(axis=1) / np.maximum(n, 1)).sum()) - pool
    chance = (rows - pool) * max(np.count_nonzero(n) - 1, 0) / (rows - 1)
    return np.array([between - chance, rows - pool - chance])


def _finished(name: str, std: float, mean: Vector, spread: Vector, distance: Vector) -> FeatureShift:
    near, chance, weight = distance.tolist()
    return FeatureShift(
        name=name,
        mean_share=_ratio(mean, std**2),
        spread_share=_ratio(spread, std**4),
        wasserstein=float(near / weight / std) if weight else None,
        wasserstein_chance=float(chance / weight / std) if weight else None,
    )


def _ratio(pair: Vector, unit: float) -> float | None:
    return float(pair[0] / pair[1]) if pair[1] > 1e-9 * unit else None

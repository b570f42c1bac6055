"""Shift of each column between parties within classes: of the mean, of the spread, of the whole distribution."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.encoding import Scaling, scaling
from fedskew.profiles.histogram import distances, histogram
from fedskew.profiles.partitions import Column, Partition
from fedskew.profiles.records import FeatureShift

CHUNK_BYTES = 1 << 23
MOST_CELLS = 4_000_000  # (party, feature) pairs at a time
MOST_FEATURES = 1_000  # measured one by one
Vector = NDArray[np.float64]


@dataclass(slots=True)
class _Tally:
    """Sums over classes, each (F,): between less chance and total less chance, for means and spreads; Wasserstein."""

    width: int
    mean: Vector = field(init=False)
    spread: Vector = field(init=False)
    distance: Vector = field(init=False)
    pooled: Vector = field(init=False)

    def __post_init__(self) -> None:
        self.mean, self.spread = np.zeros((2, self.width)), np.zeros((2, self.width))
        self.distance = np.zeros((3, self.width))  # distance, distance by chance, rows
        self.pooled = np.zeros((3, self.width))  # rows, sum, sum of squares


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
    how = scaling(partition)
    groups = _classes(partition)
    parties = max((len(group.party) for group in groups), default=1)
    found: list[FeatureShift] = []
    for columns, places, features in _blocks(partition, parties):
        part = Scaling(how.shift[places], how.scale[places])
        found.extend(_block(columns, features, part, groups))
    return tuple(found)


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
    """The columns to measure, numbered from 0 without gaps, and their features, by column where sparse."""
    columns = [c for c in partition.columns if c.stop > c.start]
    features = partition.features
    dense = isinstance(features, np.ndarray)
    features = features if dense else features.tocsc()
    if features.shape[1] > MOST_FEATURES:
        filled = np.zeros(features.shape[1]) if dense else np.diff(features.indptr)
        columns = sorted(columns, key=lambda c: -int(filled[c.start : c.stop].max()))
        widths = np.cumsum([c.stop - c.start for c in columns])
        columns = sorted(columns[: max(1, int((widths <= MOST_FEATURES).sum()))], key=lambda c: c.start)
    return columns, features


def _blocks(partition: Partition, parties: int) -> Iterator[tuple[list[Column], NDArray[np.int64], Any]]:
    """Columns in blocks small enough for the sums of all parties: columns, numbers of their features, features."""
    columns, features = _measured(partition)
    dense = isinstance(features, np.ndarray)
    widest = max(1, MOST_CELLS // parties if dense else min(MOST_CELLS // parties, CHUNK_BYTES // partition.rows))
    block: list[Column] = []
    for column in [*columns, None]:
        if block and (column is None or sum(c.stop - c.start for c in block) + column.stop - column.start > widest):
            places = np.concatenate([np.arange(c.start, c.stop) for c in block])
            whole = dense and len(places) == features.shape[1]
            part = features if whole else features[:, places]
            yield _renumbered(block), places, part if dense else part.toarray()
            block = []
        if column is not None:
            block.append(column)


def _renumbered(columns: list[Column]) -> list[Column]:
    stops = np.cumsum([c.stop - c.start for c in columns]).tolist()
    return [replace(c, start=stop - (c.stop - c.start), stop=stop) for c, stop in zip(columns, stops, strict=True)]


def _block(
    columns: list[Column], features: NDArray[np.float32], how: Scaling, groups: list[_Group]
) -> Iterator[FeatureShift]:
    tally = _Tally(features.shape[1])
    cross = {c.name: np.zeros(2) for c in columns if c.kind == "categorical"}
    numeric = [c.start for c in columns if c.kind == "numeric"]
    for group in groups:
        powers = _powers(features, how, group)
        tally.pooled += powers[:, :3].sum(axis=0)
        if len(group.party) < 2:
            continue
        _add_moments(tally, powers)
        _add_distances(tally, features, how, group, powers, numeric)
        for column in columns:
            if column.kind == "categorical":
                cross[column.name] += _association(powers[:, 1, column.start : column.stop])
    yield from (_finished(column, tally, cross) for column in columns)


def _powers(features: NDArray[np.float32], how: Scaling, group: _Group) -> Vector:
    """Count and sums of the first four powers of the scaled values, by party and feature: (C, 5, F)."""
    width = features.shape[1]
    out = np.zeros((len(group.party), 5, width))
    for rows, parties, edges in group.chunks(width):
        value = (features[rows] - how.shift) / how.scale
        value = value.astype(np.float64)
        blank = ~np.isfinite(value)
        some = bool(blank.any())
        value[blank] = 0.0
        lengths = np.diff(np.append(edges, len(rows)))[:, None]
        out[parties, 0] += lengths - (np.add.reduceat(blank, edges, axis=0, dtype=np.int64) if some else 0)
        power = value.copy()
        for k in range(1, 5):
            out[parties, k] += np.add.reduceat(power, edges, axis=0)
            if k < 4:
                power *= value
    return out


def _add_moments(tally: _Tally, powers: Vector) -> None:
    """Between-party sums of squares of the value and of its squared deviation, each less what chance gives."""
    n = powers[:, 0]
    safe = np.maximum(n, 1)
    mean = powers[:, 1] / safe
    second = np.maximum(powers[:, 2] - n * mean**2, 0)
    fourth = np.maximum(powers[:, 4] - 4 * mean * powers[:, 3] + 6 * mean**2 * powers[:, 2] - 3 * n * mean**4, 0)
    rows = n.sum(axis=0)
    centre = powers[:, 1].sum(axis=0) / np.maximum(rows, 1)
    between = (n * (mean - centre) ** 2).sum(axis=0)
    total = between + second.sum(axis=0)
    chance = total * np.maximum((n > 0).sum(axis=0) - 1, 0) / np.maximum(rows - 1, 1)
    tally.mean += [between - chance, total - chance]

    tally.spread += _spreads(n, second, fourth)


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


def _add_distances(
    tally: _Tally,
    features: NDArray[np.float32],
    how: Scaling,
    group: _Group,
    powers: Vector,
    numeric: list[int],
) -> None:
    """Row-weighted 1-Wasserstein distances of the parties to the pool, in scaled units."""
    local = np.repeat(np.arange(len(group.party)), np.diff(np.append(group.starts, len(group.rows))))
    most = int(np.clip(200_000 // len(group.party), 32, 2048))
    for j in numeric:
        value = features[group.rows, j]
        seen = np.isfinite(value)
        if not seen.any():
            continue
        n = powers[:, 0, j]
        scale = float(how.scale[j])
        offset = abs(float(how.shift[j])) / scale  # a narrow column far from 0 needs finer bins
        bits = 7 + int(np.clip(np.ceil(np.log2(max(offset, 1.0))), 0, 16))
        table, places = histogram(value[seen], local[seen], len(group.party), most, bits)
        distance, chance = distances(table, places / scale)
        centre = powers[:, 1, j].sum() / n.sum()
        apart = np.abs(powers[:, 1, j] / np.maximum(n, 1) - centre)  # exact, where bins are too coarse to see it
        tally.distance[:, j] += [float(n @ np.maximum(distance, apart)), float(n @ chance), float(n.sum())]


def _association(table: Vector) -> Vector:
    """Goodman and Kruskal's tau of category and party: between and total, each less what chance gives."""
    n = table.sum(axis=1)
    rows = n.sum()
    if rows < 2:
        return np.zeros(2)
    pooled = float((table.sum(axis=0) ** 2).sum()) / rows
    between = float(((table**2).sum(axis=1) / np.maximum(n, 1)).sum()) - pooled
    chance = (rows - pooled) * max(np.count_nonzero(n) - 1, 0) / (rows - 1)
    return np.array([between - chance, rows - pooled - chance])


def _finished(column: Column, tally: _Tally, cross: dict[str, Vector]) -> FeatureShift:
    if column.kind == "categorical":
        mean_share = _ratio(cross[column.name])
        return FeatureShift(name=column.name, mean_share=mean_share, spread_share=None, wasserstein=None)
    place = column.start
    rows, total, squares = tally.pooled[:, place].tolist()
    std = max(squares / max(rows, 1) - (total / max(rows, 1)) ** 2, 0) ** 0.5
    near, chance, weight = tally.distance[:, place].tolist()
    varies = std > 1e-6
    return FeatureShift(
        name=column.name,
        mean_share=_ratio(tally.mean[:, place]) if varies else None,
        spread_share=_ratio(tally.spread[:, place]) if varies else None,
        wasserstein=float(near / weight / std) if varies and weight else None,
        wasserstein_chance=float(chance / weight / std) if varies and weight else None,
    )


def _ratio(pair: Vector) -> float | None:
    return float(pair[0] / pair[1]) if pair[1] > 1e-9 else None

"""Rows that stand in two silos, estimated from the least keyed hashes of each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.duplicates import MOST_PAIRS
from fedskew.profiles.partitions import Finding, Severity
from fedskew.profiles.sketching.minima import known
from fedskew.profiles.sketching.record import Sketch


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Two silos by place, about how many rows of either stand in the other, and a 95 % interval (equal if exact)."""

    first: int
    second: int
    rows: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Silo:
    """Known hashes, ascending, how many rows have each, and what ``share`` of all hashes they are."""

    place: int
    rows: int
    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]
    share: float

    def pairs_under(self, share: float) -> float:
        """Pairs of equal rows within the silo, of the hashes in the least ``share``."""
        stop = len(self.hashes) if share >= self.share else int(np.searchsorted(self.hashes, np.uint64(share * 2**63)))
        counts = self.counts[:stop].astype(np.float64)
        return float((counts * (counts - 1)).sum()) / 2


def shared_rows(sketches: tuple[Sketch, ...]) -> tuple[list[SharedRows], int, bool, int]:
    """Find the pairs of silos that share more equal rows than their own repetitions explain.

    Hashes under the lesser of two silos' limits are the same random part of the rows of both; what holds of all rows
    holds of them. The bound is that of :func:`fedskew.profiles.duplicates.copied_rows`, with one repetition more than
    was seen allowed for.

    Returns
    -------
    (pairs of silos beyond the bound; all rows with a known hash that also stand in another silo; whether each two silos
    were compared: not where too many share some; how many copies there can be at most: all rows but those of the silo
    that holds most of their kind)
    """
    silos = [
        _Silo(place, one.rows, *known(one.minima, one.rows))
        for place, one in enumerate(sketches)
        if one.minima is not None and one.rows
    ]
    if len(silos) < 2:
        return [], 0, True, 0
    holder = np.repeat(np.arange(len(silos)), [len(silo.hashes) for silo in silos])
    hashes, group, holders = np.unique(
        np.concatenate([silo.hashes for silo in silos]), return_inverse=True, return_counts=True
    )
    twice = holders[group] > 1
    rows = np.concatenate([silo.counts for silo in silos])[twice].astype(np.float64)
    equal = int(rows.sum())
    if not equal:
        return [], 0, True, 0
    if float((holders.astype(np.float64) ** 2).sum()) > MOST_PAIRS:
        return [], equal, False, equal
    from scipy.sparse import csr_array, triu

    table = csr_array((rows, (group[twice], holder[twice])), shape=(len(hashes), len(silos)))
    pairs = triu(table.T @ table, k=1).tocoo()
    chances = np.array([silo.share * silo.rows * (silo.rows - 1) / 2 for silo in silos])
    least = (sum(silo.pairs_under(silo.share) for silo in silos) + 1) / max(float(chances.sum()), 1.0)
    found = (
        _pair(silos[i], silos[j], float(hits), least, len(sketches))
        for i, j, hits in zip(*pairs.coords, pairs.data, strict=True)
    )
    copies = int(table.sum() - table.max(axis=1).sum())
    if any(silo.share < 1.0 for silo in silos):
        copies = sum(one.rows for one in sketches) - max(one.rows for one in sketches)
    return [one for one in found if one is not None], equal, True, copies


def _pair(one: _Silo, other: _Silo, hits: float, least: float, parties: int) -> SharedRows | None:
    """The rows that two silos share, if ``hits`` pairs of equal rows are beyond the bound."""
    from scipy.special import gammainc, gammaincinv

    share = min(one.share, other.share)
    own = [silo.pairs_under(share) / max(share * silo.rows * (silo.rows - 1) / 2, 1e-300) for silo in (one, other)]
    expected = share * max(float(np.sqrt(own[0] * own[1])), least) * one.rows * other.rows
    tail = float(gammainc(hits, max(2 * expected, 1e-9)))  # P(Poisson >= hits)
    if tail * parties**2 >= 1e-3 or hits <= 2 * expected:
        return None
    _, at, to = np.intersect1d(one.hashes, other.hashes, assume_unique=True, return_indices=True)
    rows, kinds, most = int(np.minimum(one.counts[at], other.counts[to]).sum()), len(at), min(one.rows, other.rows)
    if share == 1.0:
        return SharedRows(one.place, other.place, rows, rows, rows)
    scale = rows / kinds / share
    about, low, high = (
        min(round(value * scale), most) for value in (kinds, gammaincinv(kinds, 0.025), gammaincinv(kinds + 1, 0.975))
    )
    return SharedRows(one.place, other.place, about, max(low, 1), high)


def copies_found(sketches: tuple[Sketch, ...]) -> Iterator[Finding]:
    """The finding ``duplicate_rows``, as of rows at hand; nothing where the sketches hold no row hashes."""
    pairs, equal, compared, copies = shared_rows(sketches)
    if not compared:
        text = f"{equal} rows also stand in another silo; so many silos share some that each two could not be compared"
        yield Finding(code="duplicate_rows", severity="mild", text=text, count=equal)
    elif pairs:
        rows = min(sum(pair.rows for pair in pairs), copies)
        who = tuple(sketches[i].party for i in sorted({i for pair in pairs for i in (pair.first, pair.second)}))
        worst = max(pairs, key=lambda pair: pair.rows)
        exact = all(pair.low == pair.rows == pair.high for pair in pairs)
        within = f"({worst.rows})" if worst.low == worst.high else f"({worst.rows}, 95 % {worst.low} to {worst.high})"
        times = "twice" if len(who) == 2 else "several times"
        text = (
            f"{'' if exact else 'about '}{rows} rows are copies of rows of another silo, more than repetition within "
            f"silos explains; the most {within} in {sketches[worst.first].party!r} and "
            f"{sketches[worst.second].party!r}: the same records may be counted {times}"
            f"{'' if exact else ' (estimated from the least row hashes)'}"
        )
        share = rows / max(sum(one.rows for one in sketches), 1)
        severity: Severity = "strong" if share >= 0.05 else "mild"
        yield Finding(code="duplicate_rows", severity=severity, text=text, parties=who, count=rows)
    elif equal:
        text = f"{equal} rows also stand in another silo, no more than coarse columns give by themselves"
        yield Finding(code="duplicate_rows", severity="none", text=text, count=equal)

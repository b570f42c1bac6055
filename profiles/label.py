"""Label skew beyond chance: how far the party tells the label."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.class_count import classes_per_party
from fedskew.profiles.dirichlet import alpha_estimate, beta_estimate
from fedskew.profiles.divergence import beyond_chance, entropy_bits, shares
from fedskew.profiles.margins import sum_law
from fedskew.profiles.null import (
    Chance,
    Counts,
    Floats,
    chance_of,
    chance_of_large,
    counts_are_large,
    xlogx,
    xlogx_table,
)
from fedskew.profiles.partitions import Partition
from fedskew.profiles.records import ClassesPerParty, Deviant, EntropyBits, LabelSkew
from fedskew.profiles.severity import SIGNIFICANCE, severity

LEAST_ROOM = 0.05  # an index needs this share of min(H) above what chance gives
NORMAL_95 = 1.959964
SHARED_ROWS = 10  # two parties with so many rows of one class each always get an index
SHOWN = 5
MANY_CELLS = 2_500  # from here on the sum over cells is normal, and no table is drawn
LOOKED_UP = 5_000_000  # n ln n is looked up for counts to here, and worked out beyond
BLOCK_CELLS = 100_000  # so that the jackknife stays in cache


@dataclass(frozen=True, slots=True)
class LabelIndex:
    """The label index: ``skew`` and why it is missing, ``p_value`` and 95 % ``interval``."""

    skew: float | None
    p_value: float | None
    interval: tuple[float, float] | None
    reason: str | None


def label_skew(partition: Partition) -> LabelSkew:
    """Measure the label skew of a partition.

    Parameters
    ----------
    partition : with any number of parties, rows and classes

    Returns
    -------
    LabelSkew : see :func:`label_skew_of`

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> toy = make_partition(np.zeros((40, 1)), ["x"] * 20 + ["y"] * 20, ["a"] * 20 + ["b"] * 20)
    >>> found = label_skew(toy)
    >>> found.skew, found.severity, found.entropy_bits.pooled, found.missing_classes
    (1.0, 'strong', 1.0, {'a': 1, 'b': 1})
    """
    return label_skew_of(partition.counts, partition.party_names, partition.class_names)


def label_skew_of(counts: Counts, party_names: tuple[str, ...], class_names: tuple[str, ...]) -> LabelSkew:
    """Measure label skew from the count table alone, so that sketches and pooled rows give the same numbers.

    Parameters
    ----------
    counts : (P, K) int64 rows by party and class
    party_names, class_names : P and K texts

    Returns
    -------
    LabelSkew : the index of :func:`label_index`; entropies in bits; effective classes 2 ** entropy; pairwise
        divergences corrected for chance; Dirichlet fits; the #C=k pattern
    """
    del class_names  # identity is the place in the table; kept for symmetry with the other measures
    held = counts.sum(axis=1)
    present = int((counts.sum(axis=0) > 0).sum())
    index = label_index(counts)
    bits = _party_bits(counts)
    pattern = _pattern(counts, index)
    beta, capped = beta_estimate(counts, recognise_cap=pattern.k is None)
    jensen_shannon, hellinger, divergence = _divergences(counts)
    seen = {name: bool(n) for name, n in zip(party_names, held, strict=True)}
    entropy = {name: float(b) if seen[name] else None for name, b in zip(party_names, bits, strict=True)}
    found = {n: float(d) for n, d in zip(party_names, divergence, strict=True) if np.isfinite(d)}
    worst = sorted(found, key=lambda name: (-round(found[name], 12), name))[:SHOWN]
    missing = present - (counts > 0).sum(axis=1)
    return LabelSkew(
        skew=index.skew,
        p_value=index.p_value,
        severity=severity("label", index.skew, index.p_value),
        interval=index.interval,
        reason=index.reason,
        entropy_bits=EntropyBits(pooled=float(entropy_bits(shares(counts.sum(axis=0)))), by_party=entropy),
        beta=beta,
        alpha=alpha_estimate(counts),
        capped=capped,
        classes_per_party=pattern,
        jensen_shannon=jensen_shannon,
        hellinger=hellinger,
        missing_classes={name: int(m) for name, m in zip(party_names, missing, strict=True)},
        effective_classes={name: None if b is None else float(2.0**b) for name, b in entropy.items()},
        divergence={name: found.get(name) for name in party_names},
        most_deviant=tuple(Deviant(party=name, divergence=found[name]) for name in worst if found[name] > 0),
    )


def label_index(counts: Counts, chance: Chance | None = None) -> LabelIndex:
    """The label index: mutual information of party and label beyond chance, as a share of what it could be.

    (I - E0) / (min(H(label), H(party)) - E0), where E0 is the mean of I over tables with the same margins. 0 is
    chance, 1 says that one of the two names the other; signed, never clipped. The p-value counts such tables with an
    I at least as large. The 95 % interval is index ± 1.96 standard errors of the jackknife that deletes one row at a
    time within its party (E0 scaled with the rows).

    Parameters
    ----------
    counts : (P, K) int64
    chance : the law of sum n ln n over tables with these margins, if already known

    Returns
    -------
    LabelIndex : null with reason ``too_few_rows`` where min(H) - E0 is under 5 % of min(H) and no two parties hold
        ten rows of one class, or where one row less halves it; ``one_party`` where fewer than two parties have rows; 0
        where there is one class

    References
    ----------
    Vinh, Epps, Bailey 2010, JMLR 11, eq. 13 (adjustment for chance, here with the min normaliser);
    Efron and Stein 1981, Annals of Statistics 9, eq. 1.6 (jackknife variance).

    Examples
    --------
    >>> label_index(np.array([[30, 0], [0, 30]])).skew
    1.0
    >>> label_index(np.array([[1, 0], [0, 1]])).reason
    'too_few_rows'
    """
    table = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if len(table) < 2:
        return LabelIndex(None, None, None, "one_party")
    if table.shape[1] < 2:
        return LabelIndex(0.0, 1.0, None, "one_class")
    parts = _Sums.of(table)
    law = chance or label_chance(table)
    expected = parts.information(law.mean)
    p_value = law.p_value(parts.cells)
    room = parts.most - expected
    shared = int(np.max(np.minimum((table >= SHARED_ROWS).sum(axis=0), 2))) == 2
    if room <= 1e-9 * parts.most or (room < LEAST_ROOM * parts.most and not shared):
        return LabelIndex(None, None, None, "too_few_rows")
    skew = (parts.information(parts.cells) - expected) / room
    error = _jackknife_error(table, parts, expected)
    if error is None:
        return LabelIndex(None, None, None, "too_few_rows")
    margin = NORMAL_95 * error
    return LabelIndex(float(skew), p_value, (float(skew - margin), float(skew + margin)), None)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of n ln n over cells, parties and classes; nats."""

    rows: int
    cells: float
    parties: float
    classes: float

    @classmethod
    def of(cls, table: Counts) -> "_Sums":
        cells = _sum_xlogx(table)
        by_party, by_class = np.sort(table.sum(axis=1)), np.sort(table.sum(axis=0))
        return cls(int(table.sum()), cells, float(xlogx(by_party).sum()), float(xlogx(by_class).sum()))

    def information(self, cells: float) -> float:
        return float((cells - self.parties - self.classes) / self.rows + np.log(self.rows))

    @property
    def most(self) -> float:
        return float(np.log(self.rows) - max(self.parties, self.classes) / self.rows)


def _sum_xlogx(table: Counts) -> float:
    """Sum of n ln n, each distinct count once: fast, and the same bits in any order of parties."""
    if int(table.max()) <= table.size:
        times = np.bincount(table.ravel())
        return float(xlogx_table(len(times) - 1) @ times)
    values, times = np.unique(table, return_counts=True)
    return float(xlogx(values) @ times)


def label_chance(table: Counts) -> Chance:
    """The law of sum n ln n over tables with these margins: drawn, or by theory where cells are many.

    Parameters
    ----------
    table : (P, K) int64 without empty parties or classes
    """
    by_party, by_class = table.sum(axis=1), table.sum(axis=0)
    if table.size < MANY_CELLS:
        if counts_are_large(by_party, by_class):
            return chance_of_large(by_party, by_class)
        return chance_of(by_party, by_class, cell_sum(table), "label index")
    mean, spread = sum_law(by_party, by_class)
    return Chance(mean, np.zeros(0), spread)


def cell_sum(table: Counts) -> Callable[[Counts], Floats]:
    """The statistic of the label test for tables with these margins: sum of n ln n over cells, (d, P, K) to (d,)."""
    largest = int(min(table.sum(axis=1).max(), table.sum(axis=0).max()))
    if largest > LOOKED_UP:
        return lambda tables: np.asarray(xlogx(tables).sum(axis=(1, 2)))
    look_up = xlogx_table(largest)

    def statistic(tables: Counts) -> Floats:
        if len(tables) == 1 and tables.size > len(look_up):
            return np.array([_sum_xlogx(tables)])
        return np.asarray(xlogx(tables, look_up).sum(axis=(1, 2)))

    return statistic


def _jackknife_error(table: Counts, parts: _Sums, expected: float) -> float | None:
    """Standard error of the index: each row deleted once, all rows of a cell at a time; parties are strata.

    None where a single row decides over half of what the index is a share of (a half is stated, not fitted).
    """
    by_party, by_class = table.sum(axis=1), table.sum(axis=0)
    lost_class = xlogx(by_class - 1) - xlogx(by_class)
    lost_party = xlogx(by_party - 1) - xlogx(by_party)
    looked_up = int(table.max()) <= LOOKED_UP
    steps = np.diff(xlogx_table(int(table.max())), prepend=0.0) if looked_up else np.zeros(0)
    left = parts.rows - 1
    log_left, chance = np.log(left), expected * parts.rows / left
    block, variance = max(1, BLOCK_CELLS // table.shape[1]), []
    for at in range(0, len(table), block):
        n = table[at : at + block]
        kept_party = (parts.parties + lost_party[at : at + block])[:, None]
        kept_class = parts.classes + lost_class
        step = steps[n] if looked_up else xlogx(n) - xlogx(np.maximum(n - 1, 0))
        information = (parts.cells - step - kept_party - kept_class) / left + log_left
        room = log_left - np.maximum(kept_party, kept_class) / left - chance
        if (room[n > 0] < (parts.most - expected) / 2).any():
            return None
        index = (information - chance) / np.maximum(room, 1e-12)
        rows = by_party[at : at + block]
        mean = (n * index).sum(axis=1) / rows
        variance.append((n * (index - mean[:, None]) ** 2).sum(axis=1) * (rows - 1) / rows)
    return float(np.sqrt(np.sort(np.concatenate(variance)).sum()))


def _party_bits(counts: Counts) -> Floats:
    """Label entropy of each party in bits, (P,); 0 where it has no rows."""
    rows = counts.sum(axis=1)
    inner = xlogx_table(int(counts.max(initial=0)))[counts].sum(axis=1) if counts.max() < counts.size else None
    inner = xlogx(counts).sum(axis=1) if inner is None else inner
    nats = (xlogx(rows) - inner) / np.maximum(rows, 1)
    return np.asarray(np.maximum(nats, 0.0) / np.log(2.0))


def _pattern(counts: Counts, index: LabelIndex) -> ClassesPerParty:
    """Few rows leave classes out by chance: a pattern counts only where the label index is beyond chance."""
    beyond = index.p_value is not None and index.p_value < SIGNIFICANCE
    return classes_per_party(counts) if beyond else ClassesPerParty()


def _divergences(counts: Counts) -> tuple[float | None, float | None, NDArray[np.float64]]:
    """Pairwise divergences, and each party's own, NaN for parties without rows."""
    by_party = np.full(len(counts), np.nan)
    held = counts.sum(axis=1) > 0
    if held.sum() < 2:
        return None, None, by_party
    shannon, hellinger, by_party[held] = beyond_chance(counts[held][:, counts.sum(axis=0) > 0])
    return shannon, hellinger, by_party

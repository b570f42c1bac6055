"""How far apart parties' label mixes are: Jensen-Shannon and Hellinger, corrected for chance."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.keyed import generator
from fedskew.profiles.null import Counts, Floats, chance_tables

PAIR_CELLS = 2_000_000  # pairs x classes looked at in one table; beyond, a fixed sample of pairs
CHANCE_CELLS = 20_000_000  # the same summed over the tables drawn for chance
MOST_DRAWS = 200
CACHE_CELLS = 100_000


def shares(tables: Counts) -> Floats:
    """Label mix of each party: counts (…, P, K) to shares that sum to 1; parties without rows give zeros."""
    return np.asarray(tables / np.maximum(tables.sum(axis=-1, keepdims=True), 1))


def entropy_bits(mix: Floats) -> Floats:
    """Entropy in bits along the last axis, 0 to log2 K; an all-zero mix gives 0.

    Examples
    --------
    >>> entropy_bits(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    return np.asarray(0.0 - (mix * np.log2(np.where(mix > 0, mix, 1.0))).sum(axis=-1))


def mean_hellinger(tables: Counts) -> Floats:
    """Mean squared Hellinger distance over all pairs of parties, 0 (equal mixes) to 1 (no class shared), (…,).

    For two mixes it is 1 - sum of sqrt(p q); its mean over the pairs takes one pass over the table.

    References
    ----------
    Hellinger 1909; Le Cam 1986, Asymptotic Methods in Statistical Decision Theory, ch. 4.

    Examples
    --------
    >>> float(mean_hellinger(np.array([[4, 0], [0, 2], [0, 9]]))).__round__(3)
    0.667
    """
    root = np.sqrt(shares(tables))
    parties = tables.shape[-2]
    whole = (root.sum(axis=-2) ** 2).sum(axis=-1)
    return np.asarray(1.0 - (whole - (root**2).sum(axis=(-1, -2))) / (parties * (parties - 1)))


def mean_jensen_shannon(tables: Counts) -> Floats:
    """Mean Jensen-Shannon divergence over pairs of parties in bits, 0 to 1, (…,).

    All pairs while pairs x classes stay under two million, else a fixed sample of them.

    References
    ----------
    Lin 1991, IEEE Trans. Information Theory 37, eq. 3.14, with equal weights.

    Examples
    --------
    >>> float(mean_jensen_shannon(np.array([[4, 0], [0, 2], [0, 9]]))).__round__(3)
    0.667
    """
    parties, classes = tables.shape[-2:]
    pairs = parties * (parties - 1) // 2
    if pairs * classes <= PAIR_CELLS:
        chosen = [(np.array([i]), np.arange(i + 1, parties)) for i in range(parties - 1)]
    else:
        pairs = max(1, PAIR_CELLS // classes)
        rng = generator("pairs of parties", parties)
        first = rng.integers(parties, size=pairs)
        second = (first + rng.integers(1, parties, size=pairs)) % parties
        chosen = [(first[at : at + 1000], second[at : at + 1000]) for at in range(0, pairs, 1000)]
    return np.asarray(sum(_pair_divergence(tables, one, other) for one, other in chosen) / pairs)


def _pair_divergence(tables: Counts, one: NDArray[np.int64], other: NDArray[np.int64]) -> Floats:
    """Sum over pairs of H((p + q) / 2) - (H(p) + H(q)) / 2; a single ``one`` is paired with each of ``other``."""
    p, q = shares(tables[..., one, :]), shares(tables[..., other, :])
    return np.asarray((entropy_bits((p + q) / 2) - (entropy_bits(p) + entropy_bits(q)) / 2).sum(axis=-1))


def to_the_others(table: Counts) -> Floats:
    """Jensen-Shannon divergence in bits, 0 to 1, of each party's mix to that of all other parties' rows, (P,).

    Every party and the others together must have rows.

    Examples
    --------
    >>> to_the_others(np.array([[3, 0], [0, 3]])).tolist()
    [1.0, 1.0]
    """
    by_class, out = table.sum(axis=0), np.zeros(len(table))
    step = max(1, CACHE_CELLS // table.shape[1])
    for at in range(0, len(table), step):
        part = table[at : at + step]
        own, other = shares(part), shares(by_class - part)
        out[at : at + step] = entropy_bits((own + other) / 2) - (entropy_bits(own) + entropy_bits(other)) / 2
    return out


def beyond_chance(table: Counts) -> tuple[float | None, float | None, Floats]:
    """Pairwise Jensen-Shannon and Hellinger, and each party's divergence to the others, corrected for chance.

    Parameters
    ----------
    table : (P, K) int64, P of at least 2, every party and class with rows

    Returns
    -------
    jensen_shannon, hellinger : (J - J0) / (1 - J0) with J0 the mean over tables drawn with the same margins: 0 chance,
        1 no class shared; None where chance alone gives nearly 1
    by_party : (P,) bits, the divergence minus what chance gives a party of that size
    """
    parties, classes = table.shape
    by_party = table.sum(axis=1)
    order = np.argsort(-by_party, kind="stable")
    cells = min(parties * (parties - 1) // 2 * classes, PAIR_CELLS) + 3 * table.size
    draws = int(np.clip(CHANCE_CELLS // cells, 1, MOST_DRAWS))
    shannon, hellinger, single = [], [], np.zeros(parties)
    margins = by_party[order], -np.sort(-table.sum(axis=0))
    for block in chance_tables(*margins, draws, "divergence"):
        shannon.append(mean_jensen_shannon(block))
        hellinger.append(mean_hellinger(block))
        for one in block:
            single += to_the_others(one) / draws
    sizes, place = np.unique(margins[0], return_inverse=True)  # equal sizes share one chance level
    level = np.bincount(place, single) / np.bincount(place)
    expected = level[np.searchsorted(sizes, by_party)]
    return (
        _corrected(float(mean_jensen_shannon(table[order])), float(np.concatenate(shannon).mean())),
        _corrected(float(mean_hellinger(table)), float(np.concatenate(hellinger).mean())),
        to_the_others(table) - expected,
    )


def _corrected(observed: float, chance: float) -> float | None:
    return None if 1.0 - chance < 0.05 else (observed - chance) / (1.0 - chance)

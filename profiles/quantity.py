"""Quantity skew: how unequal the party sizes are, and whether label skew alone explains it."""

import numpy as np

from fedskew.profiles.dirichlet import Groups, strength_of
from fedskew.profiles.keyed import generator
from fedskew.profiles.null import Counts, Floats
from fedskew.profiles.partitions import Partition
from fedskew.profiles.records import Estimate, LabelSkew, QuantitySkew
from fedskew.profiles.severity import severity
from fedskew.profiles.size_model import implied_by_label

DRAWS = 9_999
SIZE_DRAWS = 2_000_000  # sizes drawn in all; large numbers of parties get fewer vectors
BLOCK_SIZES = 1_000_000  # of them at a time
LEAST_ROOM = 0.05
NORMAL_95 = 1.959964


def quantity_skew(partition: Partition, label: LabelSkew) -> QuantitySkew:
    """Measure the quantity skew of a partition.

    Parameters
    ----------
    partition : with any number of parties and rows
    label : its label skew, which alone makes sizes unequal to some degree

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> from fedskew.profiles.label import label_skew
    >>> toy = make_partition(np.zeros((100, 1)), ["x", "y"] * 50, ["a"] * 90 + ["b"] * 10)
    >>> found = quantity_skew(toy, label_skew(toy))
    >>> round(found.gini, 3), round(found.skew, 2), found.max_min_ratio, found.severity
    (0.4, 0.78, 9.0, 'strong')
    """
    return quantity_skew_of(partition.counts, partition.party_names, label)


def quantity_skew_of(counts: Counts, party_names: tuple[str, ...], label: LabelSkew) -> QuantitySkew:
    """Measure quantity skew from the count table alone.

    skew = (G - G0) / ((P - 1)/P - G0): G the Gini index of the sizes, G0 its mean under Multinomial(n, 1/P). 0 is
    what equal chances give, 1 one party holding all. The p-value counts such draws with a G at least as large. The
    95 % interval is skew ± 1.96 standard deviations under Multinomial(n, q).

    Parameters
    ----------
    counts : (P, K) int64
    party_names : P texts
    label : label skew of the same table

    Returns
    -------
    QuantitySkew : null with reason ``one_party`` or ``too_few_rows``

    References
    ----------
    Gini 1912; Li, Diao, Chen, He 2022, section IV-D (q ~ Dir(beta)).
    """
    sizes = np.sort(counts.sum(axis=1))
    rows, parties = int(sizes.sum()), len(sizes)
    skew, p_value, interval, reason = _index(sizes)
    q = sizes / rows
    graded = severity("quantity", skew, p_value)
    return QuantitySkew(
        skew=skew,
        gini=float(gini(sizes)),
        severity=graded,
        p_value=p_value,
        interval=interval,
        reason=reason,
        effective_parties=float(1.0 / (q**2).sum()),
        max_min_ratio=float(sizes[-1] / sizes[0]) if sizes[0] else None,
        beta=_size_beta(sizes),
        largest_share=float(q[-1]),
        sizes=dict(zip(party_names, counts.sum(axis=1).tolist(), strict=True)),
        implied_by_label=implied_by_label(counts, label) if parties > 1 and label.severity != "none" else None,
    )


def gini(sizes: Counts) -> Floats:
    """Gini index of the sizes along the last axis, 0 (equal) to (P - 1)/P (one party holds all).

    Examples
    --------
    >>> float(gini(np.array([10, 10]))), float(gini(np.array([0, 10])))
    (0.0, 0.5)
    """
    ordered = np.sort(sizes, axis=-1).astype(np.float64)  # exact, and products with ranks cannot overflow
    parties = ordered.shape[-1]
    rank = 2 * np.arange(1, parties + 1) - parties - 1
    return np.asarray((ordered * rank).sum(axis=-1) / (parties * np.maximum(ordered.sum(axis=-1), 1)))


def _ginis(rng: np.random.Generator, rows: int, shares: Floats, draws: int) -> Floats:
    """Gini index of sizes drawn with these shares, (draws,): a few draws at a time, which changes none of them."""
    block = max(1, BLOCK_SIZES // len(shares))
    many = (min(block, draws - at) for at in range(0, draws, block))
    return np.concatenate([gini(rng.multinomial(rows, shares, size=some)) for some in many])


def _index(sizes: Counts) -> tuple[float | None, float | None, tuple[float, float] | None, str | None]:
    rows, parties = int(sizes.sum()), len(sizes)
    if parties < 2:
        return None, None, None, "one_party"
    draws = int(np.clip(SIZE_DRAWS // parties, 99, DRAWS))
    rng = generator("equal sizes")
    chance = _ginis(rng, rows, np.full(parties, 1.0 / parties), draws)
    observed, expected, most = float(gini(sizes)), float(chance.mean()), (parties - 1) / parties
    if most - expected < LEAST_ROOM * most:
        return None, None, None, "too_few_rows"
    above = int((chance >= observed - 1e-12).sum())
    around = _ginis(generator("sizes around"), rows, sizes / rows, 99)
    margin = NORMAL_95 * float(around.std(ddof=1)) / (most - expected)
    skew = (observed - expected) / (most - expected)
    return skew, (1 + above) / (1 + draws), (skew - margin, skew + margin), None


def _size_beta(sizes: Counts) -> Estimate:
    """Strength of q ~ Dir(beta), one draw only: wide."""
    if len(sizes) < 2:
        return Estimate(reason="one_party")
    one = sizes[None, :]
    return strength_of(Groups.of(one, np.ones(len(sizes)), np.ones(one.shape, np.bool_)))

"""How unequal label skew alone makes the party sizes."""

import numpy as np

from fedskew.profiles.keyed import generator
from fedskew.profiles.null import Counts, Floats
from fedskew.profiles.records import LabelSkew

DRAWS, CELLS = 999, 4_000_000  # size vectors simulated, and shares drawn for all of them
FEWEST, SHOWN = 3, 50  # of huge tables, whose spread hardly varies
LEVEL = 0.99
NORMAL_95 = 1.959964


def implied_by_label(counts: Counts, label: LabelSkew) -> bool:
    """Whether the fitted label model alone makes sizes as unequal as these.

    Sizes are simulated from the label model: #C=k with random classes where it was recognised, else class by class
    from Dir(beta) with beta drawn from its interval, with the size cap where it was recognised. True where the sum of
    (q - 1/P)^2 is at most the 99th percentile of the simulated ones. Where classes are drawn one by one, a party large
    in one class need not be large in the next; where it is, the sizes are a skew of their own however small beta reads.
    So the same must hold for that sum as a share of its mean over classes, taken class by class.

    Parameters
    ----------
    counts : (P, K) int64, P of at least 2
    label : label skew of the same table

    Examples
    --------
    >>> from fedskew.profiles.label import label_skew_of
    >>> table = np.diag([500, 500, 20])
    >>> implied_by_label(table, label_skew_of(table, ("a", "b", "c"), ("x", "y", "z")))
    True
    """
    parties, rows = len(counts), int(counts.sum())
    observed = float(((counts.sum(axis=1) / rows - 1 / parties) ** 2).sum())
    by_class = np.sort(counts.sum(axis=0)) if not label.capped else counts.sum(axis=0)
    by_class = by_class[by_class > 0]
    k = label.classes_per_party.k
    if k is not None:
        return bool(observed <= np.quantile(_spread_of_count(by_class, parties, k), LEVEL) + 1e-12)
    spread, common = _spread_of_dirichlet(by_class, parties, label)
    if observed > np.quantile(spread, LEVEL) + 1e-12:
        return False
    held = counts[:, counts.sum(axis=0) > 0]
    by_itself = float(((held / held.sum(axis=0) - 1 / parties) ** 2).sum(axis=0) @ held.sum(axis=0)) / rows
    return bool(observed <= by_itself * np.quantile(common, LEVEL) + 1e-12)


def _spread_of_count(by_class: Counts, parties: int, k: int) -> Floats:
    """Each party holds k distinct random classes, each class is split evenly over its holders; (draws,)."""
    rng = generator("sizes of class counts")
    spread = np.zeros(int(np.clip(CELLS // (parties * len(by_class)), FEWEST, DRAWS)))
    for at in range(len(spread)):
        held = np.argsort(rng.random((parties, len(by_class))), axis=1)[:, :k]
        holders = np.bincount(held.ravel(), minlength=len(by_class))
        sizes = (by_class / np.maximum(holders, 1))[held].sum(axis=1)
        spread[at] = ((sizes / sizes.sum() - 1 / parties) ** 2).sum()
    return spread


def _spread_of_dirichlet(by_class: Counts, parties: int, label: LabelSkew) -> tuple[Floats, Floats]:
    """Class by class from Dir(beta), beta log-normal over its interval: the sum, and its share of the sum by class.

    In huge uncapped tables only some parties are followed and the rest of each Dirichlet is drawn as one share, which
    is exact; their squares stand for all.
    """
    rng = generator("sizes of label Dirichlet")
    middle = label.beta.estimate or label.beta.lower or label.beta.upper or 1.0
    low, high = label.beta.lower or middle, label.beta.upper or middle
    followed = (
        parties if label.capped else int(np.clip(CELLS // (FEWEST * len(by_class)), min(SHOWN, parties), parties))
    )
    draws = int(np.clip(CELLS // (followed * len(by_class)), FEWEST, DRAWS))
    beta = np.exp(rng.normal(np.log(middle), np.log(high / low) / (2 * NORMAL_95), size=(draws, 1)))
    sizes, alone, quota = np.zeros((draws, followed)), np.zeros(draws), by_class.sum() / parties
    for rows in by_class:
        share = rng.standard_gamma(np.broadcast_to(beta, sizes.shape))
        if label.capped:
            share = np.where(sizes >= quota, 0.0, share)
        share += 1e-300  # a class whose every open share underflows to 0 is spread evenly
        rest = rng.standard_gamma(beta[:, 0] * (parties - followed)) if followed < parties else np.zeros(draws)
        share /= (share.sum(axis=1) + rest)[:, None]
        sizes += rows * share
        alone += rows / by_class.sum() * ((share - 1 / parties) ** 2).sum(axis=1)
    squares = ((sizes / by_class.sum() - 1 / parties) ** 2).sum(axis=1)
    return np.asarray(squares * (parties / followed)), np.asarray(squares / np.maximum(alone, 1e-300))

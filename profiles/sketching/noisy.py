"""What the noise of differential privacy does to the indices: its bias taken away, intervals widened by its spread."""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.keyed import generator
from fedskew.profiles.quantity import gini
from fedskew.profiles.records import LabelSkew, QuantitySkew
from fedskew.profiles.severity import severity

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
DRAWS, LEAST_DRAWS, MOST_CELLS = 400, 50, 20_000_000


def label_corrected(found: LabelSkew, counts: Counts, scales: Floats) -> LabelSkew:
    """The label index of noised counts, less what noise of the same law adds once more; its interval widened.

    What chance gives is kept as measured on the noised counts, and so is the p-value.

    Parameters
    ----------
    counts : (P, K) noised rows by party and class, negative ones cut to 0
    scales : (P,) of the integer Laplace noise, 0 where a party has none

    References
    ----------
    Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 10.2 (bias) with the noise's known law.
    """
    if found.skew is None:
        return found
    information, room = _information(counts)
    chance = 0.0 if found.skew >= 1 else float((information - found.skew * room) / (1 - found.skew))

    def index(tables: Counts) -> Floats:
        each, most = _information(tables)
        return np.asarray((each - chance) / np.maximum(most - chance, 1e-12))

    skew, interval = _corrected(found.skew, found.interval, index, counts, scales)
    level = severity("label", skew, found.p_value)
    return msgspec.structs.replace(found, skew=skew, interval=interval, severity=level)


def quantity_corrected(found: QuantitySkew, counts: Counts, scales: Floats) -> QuantitySkew:
    """The quantity index of noised counts, corrected in the same way."""
    parties = len(counts)
    if found.skew is None or found.skew >= 1:
        return found
    most = (parties - 1) / parties
    chance = (found.gini - found.skew * most) / (1 - found.skew)

    def index(tables: Counts) -> Floats:
        return np.asarray((gini(tables.sum(axis=-1)) - chance) / (most - chance))

    skew, interval = _corrected(found.skew, found.interval, index, counts, scales)
    level = severity("quantity", skew, found.p_value)
    return msgspec.structs.replace(found, skew=skew, interval=interval, severity=level)


def _corrected(
    skew: float,
    interval: tuple[float, float] | None,
    index: Callable[[Counts], Floats],
    counts: Counts,
    scales: Floats,
) -> tuple[float, tuple[float, float] | None]:
    again = index(_noised_again(counts, scales))
    bias, spread = float(again.mean() - index(counts[None])[0]), 1.96 * float(again.std())
    if interval is None:
        return skew - bias, None
    below, above = (float(np.hypot(skew - interval[0], spread)), float(np.hypot(interval[1] - skew, spread)))
    return skew - bias, (skew - bias - below, skew - bias + above)


def _noised_again(counts: Counts, scales: Floats) -> Counts:
    """Tables (R, P, K) with noise of the same law drawn once more: to learn what it does, not to hide anything."""
    draws = int(np.clip(MOST_CELLS // max(counts.size, 1), LEAST_DRAWS, DRAWS))
    rng, out = generator("noise again", counts.size), np.repeat(counts[None], draws, axis=0)
    for party in np.flatnonzero(scales > 0).tolist():
        stop = -np.expm1(-1 / scales[party])
        shape = (draws, counts.shape[1])
        out[:, party] += rng.geometric(stop, shape) - rng.geometric(stop, shape)
    return np.maximum(out, 0)


def _information(tables: Counts) -> tuple[Floats, Floats]:
    """Mutual information of party and class and the lesser of their entropies, in nats, of tables (…, P, K)."""
    n = np.maximum(tables.sum(axis=(-2, -1)), 1).astype(np.float64)
    party, label = _plogp(tables.sum(axis=-1), n), _plogp(tables.sum(axis=-2), n)
    both = _plogp(tables.reshape(*tables.shape[:-2], -1), n)
    return np.asarray(party + label - both), np.minimum(party, label)


def _plogp(counts: Counts, n: Floats) -> Floats:
    share = counts / n[..., None]
    return np.asarray(-(share * np.log(np.maximum(share, 1e-300))).sum(axis=-1))

"""One scale for all parties, from sums that tell no row: number, mean and squared deviations of every column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def moments(x: NDArray[Any]) -> Arrays:
    """What a party tells about its training rows: of images the range, of columns (F,) moments and "only 0 and 1"."""
    if x.ndim == 4:
        largest = 255.0 if x.dtype == np.uint8 else max(1.0, float(np.nanmax(np.abs(x), initial=0.0)))
        return {"largest": np.asarray([largest])}
    values = x.astype(np.float32).astype(np.float64)
    seen = np.isfinite(values)
    count = seen.sum(axis=0).astype(np.float64)
    mean = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    m2 = (np.where(seen, values - mean, 0.0) ** 2).sum(axis=0)
    binary = (~seen | (values == 0) | (values == 1)).all(axis=0).astype(np.float64)
    return {"count": count, "mean": mean, "m2": m2, "binary": binary}


def merge(told: Sequence[Arrays]) -> Arrays:
    """Shift and scale, float32, from what all parties told: mean 0, deviation 1; 0/1 columns stay, constants become 0.

    Images are divided by 255 where they are bytes, else by their largest value where that is above 1.
    """
    if "largest" in told[0]:
        largest = max(float(one["largest"][0]) for one in told)
        return {"shift": np.zeros(1, np.float32), "scale": np.full(1, largest, np.float32)}
    count, mean, m2 = (np.zeros_like(told[0]["mean"]) for _ in range(3))
    for one in told:  # Chan's merge
        total = np.maximum(count + one["count"], 1)
        delta = one["mean"] - mean
        m2 = m2 + one["m2"] + delta**2 * count * one["count"] / total
        mean = mean + delta * one["count"] / total
        count = count + one["count"]
    binary = np.all([one["binary"] > 0 for one in told], axis=0)
    std = np.sqrt(m2 / np.maximum(count, 1))
    constant = std <= 1e-6 * np.maximum(np.abs(mean), 1e-30)
    shift, scale = np.where(binary & ~constant, 0.0, mean), np.where(binary | constant, 1.0, std)
    return {"shift": shift.astype(np.float32), "scale": scale.astype(np.float32)}


def unscaled() -> Arrays:
    """Leave the features as they are."""
    return {"shift": np.zeros(1, np.float32), "scale": np.ones(1, np.float32)}


def apply(x: NDArray[Any], how: Arrays) -> NDArray[np.float32]:
    """Scale features; a missing value becomes 0, the mean of its column."""
    scaled = (x.astype(np.float32) - how["shift"]) / how["scale"]
    return np.nan_to_num(scaled, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)

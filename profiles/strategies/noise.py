"""Feature skew by Gaussian noise: its level grows with the number of the party, or its place in the image differs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.encoding import scaling
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Features, Holdout, Partition
from fedskew.profiles.strategies.base import NUM_PARTITIONS, Parameter, Strategy, Values
from fedskew.profiles.strategies.sharing import even

_CHUNK = 8_192  # rows at a time


def noise_scales(parties: int, values: Values) -> NDArray[np.float64]:
    """Standard deviation of each party's noise, (P,), in units of the feature (images: of the pixel range).

    Parameters
    ----------
    parties : P
    values : ``noise`` (sigma), ``noise_law``, ``noise_schedule`` of the strategy ``feature_noise``

    Examples
    --------
    >>> law = {"noise": 0.1, "noise_schedule": "auto", "noise_type": "level"}
    >>> (noise_scales(4, law | {"noise_law": "variance"}) ** 2).round(4).tolist()
    [0.0025, 0.005, 0.0075, 0.01]
    >>> noise_scales(3, law | {"noise_law": "code"}).tolist()
    [0.0, 0.05, 0.1]

    References
    ----------
    Li et al. 2022 (NIID-Bench), section IV-B: x_i ~ Gau(sigma * i / N); its text leaves open of what sigma is the unit.
    """
    sigma, law = values["noise"], values["noise_law"]
    i = np.arange(parties, dtype=np.float64)
    schedule = values["noise_schedule"]
    if schedule == "auto":
        schedule = "i/(N-1)" if law == "code" else "(i+1)/N"
    f = {"(i+1)/N": (i + 1) / parties, "i/N": i / parties, "i/(N-1)": i / max(parties - 1, 1)}[schedule]
    if values["noise_type"] == "space":
        f = np.ones(parties)
    if law == "variance":
        return np.asarray(sigma * np.sqrt(f))
    return np.asarray(np.sqrt(sigma * f) if law == "paper" else sigma * f)


def _feature_noise(partition: Partition, values: Values, seed: int) -> Partition:
    if not isinstance(partition.features, np.ndarray):
        raise FedskewError("feature_noise would make sparse features dense; give the table as dense columns")
    unit = _units(partition)
    image = partition.modality == "image"
    if values["noise_type"] == "space" and not image:
        raise FedskewError("noise_type='space' puts noise on a region of an image, and the table has no images")
    scales = noise_scales(partition.parties, values)
    noisy = _as_float(partition.features, unit)
    for party in range(partition.parties):
        _add(
            noisy[partition.rows_of(party)], _mask(partition, party, values) * scales[party] * unit, "rows", seed, party
        )
    test = partition.test
    if test is not None and values["noise_test"] != "clean":
        test = _noisy_test(partition, test, values, scales, seed)
    elif test is not None:
        test = replace(test, features=_as_float(test.features, unit))
    return replace(partition, features=noisy, test=test)


def _noisy_test(partition: Partition, test: Holdout, values: Values, scales: NDArray[np.float64], seed: int) -> Holdout:
    n, parties, unit = len(test.labels), partition.parties, _units(partition)
    clean = _as_float(test.features, unit)
    labels, party, target = test.labels, test.party, test.target
    if values["noise_test"] == "all":
        clean, labels = np.concatenate([clean] * parties), np.tile(labels, parties)
        target = None if target is None else np.tile(target, parties)
        party = np.repeat(np.arange(parties, dtype=np.int32), n)
    elif party is None:
        blocks = np.repeat(np.arange(parties, dtype=np.int32), even(n, parties))
        party = generator("noise test parties", seed).permutation(blocks)
    for code in range(parties):
        rows = np.flatnonzero(party == code)
        block = clean[rows]
        _add(block, _mask(partition, code, values) * scales[code] * unit, "test", seed, code)
        clean[rows] = block
    return Holdout(clean, labels, party, target)


def _units(partition: Partition) -> NDArray[np.float32]:
    """What a noise of 1 means: the pixel range for images, a standard deviation for numeric columns, else 0."""
    features = partition.features
    if features.ndim == 4:
        # Pixels of type uint8 become numbers from 0 to 1 first, so their unit is 1.
        return np.ones(1, np.float32) if features.dtype == np.uint8 else scaling(partition).scale
    unit = scaling(partition).scale.copy()
    with np.errstate(invalid="ignore"):
        spread = np.nanmax(features, axis=0, initial=-np.inf) > np.nanmin(features, axis=0, initial=np.inf)
    unit[~spread] = 0.0
    for column in partition.columns:
        if column.kind == "categorical":
            unit[column.start : column.stop] = 0.0
    return unit


def _as_float(features: Features, unit: NDArray[np.float32]) -> NDArray[np.float32]:  # noqa: ARG001
    array = np.array(features, dtype=np.float32)
    return array / np.float32(255) if features.dtype == np.uint8 else array


def _mask(partition: Partition, party: int, values: Values) -> Any:
    """1, or for noise by space 1 on the party's cell of a grid over the image; the last party has no cell."""
    if values["noise_type"] == "level":
        return np.float32(1)
    height, width = partition.features.shape[2:]
    mask = np.zeros((1, height, width), dtype=np.float32)
    if party == partition.parties - 1:
        return mask
    side = math.ceil(math.sqrt(partition.parties - 1))
    row, column = divmod(party, side)
    rows = slice(row * height // side, (row + 1) * height // side)
    columns = slice(column * width // side, (column + 1) * width // side)
    mask[:, rows, columns] = 1
    return mask


def _add(block: NDArray[np.float32], scale: Any, what: str, seed: int, party: int) -> None:
    """Add noise in place; the numbers depend on the seed, the party and the row's place within the party only."""
    scale = np.asarray(scale, dtype=np.float32)
    if not scale.any():
        return
    rng = generator("feature noise", what, seed, party)
    for start in range(0, len(block), _CHUNK):
        part = block[start : start + _CHUNK]
        part += rng.standard_normal(part.shape, dtype=np.float32) * scale


FEATURE_NOISE = Strategy(
    name="feature_noise",
    summary="Gaussian noise on the features, more of it from party to party (level) or elsewhere (space)",
    source="Li et al. 2022 (NIID-Bench), section IV-B, noise-based feature imbalance",
    parameters=(
        NUM_PARTITIONS,
        Parameter("noise", "float", 0.1, "sigma, in pixel ranges or in standard deviations of a column", 0, 1e6,
                  aliases=("sigma", "noise_sigma", "noise_level")),
        Parameter("noise_type", "choice", "level", "level: more noise from party to party; space: a region each",
                  choices=("level", "space")),
        Parameter("noise_law", "choice", "variance",
                  "variance: sigma^2 f; paper: variance sigma f; std and code: standard deviation sigma f",
                  choices=("variance", "paper", "std", "code")),
        Parameter("noise_schedule", "choice", "auto", "f of party i = 0 .. N-1; auto: (i+1)/N, for code i/(N-1)",
                  choices=("auto", "(i+1)/N", "i/N", "i/(N-1)")),
        Parameter("noise_redraw", "choice", "fixed",
                  "fixed: one draw, part of the data; each_access: recorded, for training that redraws it",
                  choices=("fixed", "each_access")),
        Parameter("noise_test", "choice", "own",
                  "clean; own: each test row with one party's noise; all: N copies, as NIID-Bench's code",
                  choices=("clean", "own", "all")),
    ),
    transform=_feature_noise,
    aliases={"noise": {}, "gau": {}, "noise-code": {"noise_law": "code", "noise_redraw": "each_access",
                                                    "noise_test": "all"}},
)  # fmt: skip
"""Three definitions disagree: the paper's, its own strategy table's and the code's; ``noise_law`` names them.

Values are not clipped. Categorical and constant columns get no noise, missing values stay missing. By space, the image
is cut into a grid of ceil(sqrt(N - 1)) cells a side, party i has full noise on cell i and the last party none; the
published code confuses cell size and grid side, which is put right here.
"""

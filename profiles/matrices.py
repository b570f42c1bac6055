"""Features that come as arrays: images or a matrix, and the columns of a matrix that name the party."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.columns import Groups, names_party
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.noticed import Noticed
from fedskew.profiles.partitions import Column

SMALLEST = 8  # pixels a side


def looks_like_images(shape: tuple[int, ...]) -> bool:
    """Whether an array is images: (N, H, W), (N, H, W, 1 or 3) or (N, C, H, W) with H, W >= 8 and H <= 2 W.

    Examples
    --------
    >>> looks_like_images((60000, 28, 28)), looks_like_images((10411, 128, 6)), looks_like_images((9, 32, 32, 3))
    (True, False, True)
    """
    if len(shape) not in {3, 4}:
        return False
    height, width = shape[1:3] if len(shape) == 3 or shape[3] in {1, 3} else shape[2:4]
    return height >= SMALLEST and width >= SMALLEST and height <= 2 * width


def shape_features(
    features: NDArray[Any], modality: Literal["tabular", "image"] | None, where: str
) -> NDArray[np.float32] | NDArray[np.uint8]:
    """Bring an array into the shape of a partition: (N, F) float32, or (N, C, H, W) uint8 or float32.

    Whole numbers 0 to 255 of images become uint8. Channels that stand last are moved.

    Raises
    ------
    FedskewError
        ``modality`` is ``image`` and the array has no height and width.
    """
    images = looks_like_images(features.shape) if modality is None else modality == "image"
    if not images:
        flat = features.reshape(len(features), -1) if len(features) else features.reshape(0, _width(features.shape))
        return flat.astype(np.float32, copy=False)
    if features.ndim not in {3, 4}:
        shape = features.shape
        raise FedskewError(f"{where}: features of shape {shape} are no images; (N, H, W) or (N, C, H, W) are needed")
    if features.ndim == 3:
        features = features[:, None]
    elif features.shape[3] in {1, 3}:
        features = np.ascontiguousarray(features.transpose(0, 3, 1, 2))
    if features.dtype.kind in "iu" and features.size and features.min() >= 0 and features.max() <= 255:
        return features.astype(np.uint8, copy=False)
    return features.astype(np.float32, copy=False)


def choose_matrix(
    matrix: NDArray[np.float32], names: list[str], kept: tuple[str, ...], asked: frozenset[str], groups: Groups
) -> tuple[NDArray[np.float32], tuple[Column, ...], Noticed]:
    """Keep the wanted columns of a matrix, rows in the order of ``groups``; those that name the party are left out.

    Infinite values become NaN and are counted.
    """
    noticed = Noticed(groups.rows)
    place = {name: i for i, name in enumerate(names)}
    chosen = []
    for name in kept:
        column = groups.gather(matrix[:, place[name]]).astype(np.float64)
        infinite, missing = int(np.isinf(column).sum()), int(np.isnan(column).sum())
        if names_party(column, groups):
            (noticed.kept_leaks if name in asked else noticed.leaks).append(name)
            if name not in asked:
                continue
        if infinite:
            noticed.non_finite[name] = infinite
        if missing:
            noticed.missing[name] = missing
        chosen.append(name)
    columns = tuple(Column(name, "numeric", i, i + 1) for i, name in enumerate(chosen))
    return take_columns(groups.gather(matrix), names, columns), columns, noticed


def take_columns(matrix: NDArray[np.float32], names: list[str], columns: tuple[Column, ...]) -> NDArray[np.float32]:
    """The wanted columns of a matrix, infinite values as NaN."""
    place = {name: i for i, name in enumerate(names)}
    if len(columns) != len(names):
        matrix = matrix[:, [place[column.name] for column in columns]]
    infinite = np.isinf(matrix)
    return np.where(infinite, np.float32(np.nan), matrix) if infinite.any() else matrix


def _width(shape: tuple[int, ...]) -> int:
    width = 1
    for length in shape[1:]:
        width *= length
    return width

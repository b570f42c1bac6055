"""Features that come as arrays: images or a matrix, and the columns of a matrix that name the party."""

from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.columns import Groups, names_party
from fedskew.profiles.counting import many
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.noticed import Noticed, some
from fedskew.profiles.partitions import Column, Finding
from fedskew.profiles.readers.base import check_memory

SMALLEST = 8  # pixels a side
FULL = 0.05
"""Share of cells that are not 0 from which the columns of a sparse file are as those of any table, and are scaled."""


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


def stack_rows(parts: list[Any], names: list[str]) -> tuple[Any, list[Finding]]:
    """Rows of all silos one below the other; sparse ones are padded to the widest, with a finding."""
    if len(parts) == 1:
        return parts[0], []
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts), []
    from scipy.sparse import csr_array, vstack

    width = max(part.shape[1] for part in parts)
    narrow = [name for name, part in zip(names, parts, strict=True) if part.shape[1] < width]
    whole = csr_array(vstack([widen(csr_array(part), width) for part in parts], format="csr"))
    if not narrow:
        return whole, []
    ends = many(len(narrow), "silo ends", "silos end")
    text = f"{ends} before feature {width - 1}, which others have; what is not there counts as 0: "
    shown = tuple(Path(name).stem for name in narrow)
    return whole, [
        Finding(code="padded_columns", severity="mild", text=text + some(list(shown)), parties=shown, count=len(narrow))
    ]


def widen(matrix: Any, width: int) -> Any:
    """A CSR array with as many columns as asked for: empty ones appended, or the last ones cut off."""
    from scipy.sparse import csr_array

    if matrix.shape[1] > width:
        return matrix[:, :width]
    shape = (matrix.shape[0], width)
    return csr_array((matrix.data, matrix.indices, matrix.indptr), shape=shape, copy=False)


def dense_if_full(matrix: Any, where: str) -> Any:
    """A CSR array as a dense one where at least a twentieth of its cells hold something."""
    rows, width = matrix.shape
    if matrix.nnz < FULL * rows * width:
        return matrix
    check_memory(Path(where), 8 * rows * width)
    return matrix.toarray()


def refuse_image_table(where: object) -> NoReturn:
    """Refuse to take columns with names for pixels.

    Raises
    ------
    FedskewError
        Always; it says which sources hold images.
    """
    raise FedskewError(
        f"{where}: --modality is 'image', but this is a table of columns; images are read from folders of images, npz "
        "arrays, MNIST, CIFAR, SVHN and LEAF. Leave out --modality"
    )


def shape_features(features: Any, modality: Literal["tabular", "image"] | None, where: str) -> Any:
    """Bring an array into the shape of a partition: (N, F) float32, or (N, C, H, W) uint8 or float32.

    Whole numbers 0 to 255 of images become uint8. Channels that stand last are moved. CSR stays CSR.

    Raises
    ------
    FedskewError
        ``modality`` is ``image`` and the array has no height and width.
    """
    if not isinstance(features, np.ndarray):
        if modality == "image":
            raise FedskewError(f"{where}: its features are sparse, and images are not; leave out --modality image")
        return features.astype(np.float32, copy=False)
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
    matrix: Any, names: list[str], kept: tuple[str, ...], asked: frozenset[str], groups: Groups
) -> tuple[Any, tuple[Column, ...], Noticed]:
    """Keep the wanted columns of a matrix, rows in the order of ``groups``; those that name the party are left out.

    Infinite values become NaN and are counted; in CSR, where neither has a place, they are an error.
    """
    if not isinstance(matrix, np.ndarray):
        return _choose_sparse(matrix, names, kept, asked, groups)
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


def _choose_sparse(
    matrix: Any, names: list[str], kept: tuple[str, ...], asked: frozenset[str], groups: Groups
) -> tuple[Any, tuple[Column, ...], Noticed]:
    if not np.isfinite(matrix.data).all():
        raise FedskewError("the sparse features hold NaN or infinite values; replace them by numbers")
    noticed = Noticed(groups.rows)
    matrix = groups.gather(matrix)
    leaks = {names[place] for place in _name_the_party(matrix, groups)}
    leaks &= {*kept}
    noticed.kept_leaks, noticed.leaks = sorted(leaks & asked), sorted(leaks - asked)
    chosen = [name for name in kept if name not in leaks or name in asked]
    columns = tuple(Column(name, "numeric", i, i + 1) for i, name in enumerate(chosen))
    return take_columns(matrix, names, columns), columns, noticed


def _name_the_party(matrix: Any, groups: Groups) -> NDArray[np.int64]:
    """Columns of a CSR array that are constant within every party but not between those of two rows and more."""
    sizes = np.diff(groups.starts, append=groups.rows)
    if len(sizes) < 2 or groups.rows - len(sizes) < 10:
        return np.empty(0, np.int64)
    suspects, first = np.arange(matrix.shape[1]), None
    differs = np.zeros(matrix.shape[1], np.bool_)
    for start, size in zip(groups.starts, sizes, strict=True):
        if size < 2 or not len(suspects):
            continue
        block = matrix[start : start + size]
        low, high = block.min(axis=0).toarray().ravel(), block.max(axis=0).toarray().ravel()
        first = low if first is None else first
        differs |= low != first
        suspects = suspects[(low == high)[suspects]]
    return suspects[differs[suspects]]


def take_columns(matrix: Any, names: list[str], columns: tuple[Column, ...]) -> Any:
    """The wanted columns of a matrix, infinite values as NaN."""
    place = {name: i for i, name in enumerate(names)}
    if len(columns) != len(names):
        matrix = matrix[:, [place[column.name] for column in columns]]
    if not isinstance(matrix, np.ndarray):
        return matrix
    infinite = np.isinf(matrix)
    return np.where(infinite, np.float32(np.nan), matrix) if infinite.any() else matrix


def _width(shape: tuple[int, ...]) -> int:
    width = 1
    for length in shape[1:]:
        width *= length
    return width

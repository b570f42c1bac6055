"""MATLAB files of SVHN: ``X`` (32, 32, 3, N) with ``y`` (N, 1), in which 10 is the digit 0."""

from pathlib import Path

import numpy as np

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import Arrays, Options, Reader, refuse_columns
from fedskew.profiles.readers.matfile import read_arrays

TRAIN, TEST = "train_32x32.mat", "test_32x32.mat"
ZERO = 10


def holds_svhn(folder: Path) -> bool:
    """Whether a folder holds ``train_32x32.mat``."""
    return (folder / TRAIN).is_file()


def read_mat(path: Path, options: Options) -> Arrays:
    """Read ``X`` and ``y``; with ``train_32x32.mat`` also ``test_32x32.mat`` beside it, as the test part.

    ``X`` may also be (N, F), a table. In images the label 10 becomes 0.

    Parameters
    ----------
    path : a MATLAB file up to version 7.2, or the folder of SVHN
    options : ``label`` and ``party`` must not be given, since the file has no columns

    Raises
    ------
    FedskewError
        The file is cut, damaged or of version 7.3 (HDF5), lacks ``X`` or ``y``, or they do not fit each other.
    EnvironmentFaultError
        Memory cannot hold what it declares.
    """
    refuse_columns(path, options, "SVHN's files hold X and y only")
    path = path / TRAIN if path.is_dir() else path
    beside = path.with_name(TEST)
    test = None
    if path.name == TRAIN and options.party_required and beside.is_file():
        test = _read(beside)
    found = _read(path)
    return Arrays(found.name, found.features, found.labels, test=test, modality=found.modality)


def _read(path: Path) -> Arrays:
    found, names = read_arrays(path, ("X", "y"))
    for name in ("X", "y"):
        if name not in found:
            raise FedskewError(f"{path}: has no {name!r}; X and y are needed. There are: {', '.join(names) or 'none'}")
    features, labels = found["X"], found["y"].ravel()
    shape = features.shape
    if len(shape) not in {2, 4} or (len(shape) == 4 and shape[2] not in {1, 3}):
        raise FedskewError(f"{path}: X has the shape {shape}; allowed are (H, W, 3, N) and (N, F)")
    rows = shape[3] if len(shape) == 4 else shape[0]
    if not features.size:
        raise FedskewError(f"{path}: X has the shape {shape}; at least one row is needed")
    if len(labels) != rows:
        raise FedskewError(f"{path}: X has the shape {shape} and y {found['y'].shape}; one label a row is needed")
    if labels.dtype.kind == "f" and bool((labels == np.floor(labels)).all()):
        labels = labels.astype(np.int64)
    if len(shape) == 2:
        return Arrays(str(path), features, labels)
    pixels = np.ascontiguousarray(features.transpose(3, 2, 0, 1))
    return Arrays(str(path), pixels, np.where(labels == ZERO, 0, labels), modality="image")


MAT = Reader("MATLAB (SVHN)", (".mat",), read_mat, folder=holds_svhn)

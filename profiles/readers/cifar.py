"""CIFAR's python batches: read as data, never unpickled (see ``opcodes``)."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.readers.base import Arrays, Options, Reader, check_file, check_memory, refuse_columns
from fedskew.profiles.readers.opcodes import BadPickleError, plain_values

LABELS = ("labels", "fine_labels", "coarse_labels")
_META = {"batches.meta": ("labels", "label_names"), "meta": ("fine_labels", "fine_label_names")}
_SIDE = 32


def is_pickle(path: Path) -> bool:
    """Whether a file begins as a pickle of protocol 2 to 5 with a dict in it."""
    try:
        with path.open("rb") as file:
            begin = file.read(16)
    except OSError:
        return False
    return len(begin) > 2 and begin[0] == 0x80 and 2 <= begin[1] <= 5 and b"}" in begin[2:]


def holds_cifar(folder: Path) -> bool:
    """Whether a folder holds ``data_batch_…`` (CIFAR-10), or ``train`` beside ``meta`` (CIFAR-100)."""
    return any(is_pickle(path) for path in _batches(folder))


def read_cifar(path: Path, options: Options) -> Arrays:
    """Read one batch, or a folder of batches with ``test_batch`` (CIFAR-100: ``test``) as its test part.

    Classes are called as ``batches.meta`` names them, where it lies beside.

    Parameters
    ----------
    path : a batch, or the folder ``cifar-10-batches-py`` or ``cifar-100-python``
    options : ``label`` may be ``coarse_labels`` (CIFAR-100)

    Returns
    -------
    Arrays
        Features (N, 3, 32, 32) uint8.

    Raises
    ------
    FedskewError
        A file is cut or damaged, holds anything but plain values, or lacks its data or labels.
    EnvironmentFaultError
        Memory cannot hold it.
    """
    refuse_columns(path, options, "CIFAR's batches name no parties", label=False)
    files = _batches(path) if path.is_dir() else [path]
    check_memory(path, 3 * sum(map(check_file, files)))
    found = [_batch(file, options.label) for file in files]
    folder = path if path.is_dir() else path.parent
    names = _class_names(folder, options.label)
    test = None
    if path.is_dir() and options.party_required:
        held_out = next((file for name in ("test_batch", "test") if (file := folder / name).is_file()), None)
        if held_out is not None:
            check_memory(held_out, 3 * check_file(held_out))
            test = _arrays(held_out, [_batch(held_out, options.label)], names)
    return _arrays(path, found, names, test)


def _batches(folder: Path) -> list[Path]:
    try:
        held = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError:
        return []
    batches = [path for path in held if path.name.startswith("data_batch")]
    if not batches and (folder / "meta").is_file():
        batches = [path for path in held if path.name == "train"]
    return batches


def _arrays(
    path: Path, batches: list[tuple[NDArray[np.uint8], NDArray[np.int64]]], names: list[str], test: Arrays | None = None
) -> Arrays:
    pixels = np.concatenate([batch[0] for batch in batches]).reshape(-1, 3, _SIDE, _SIDE)
    labels: NDArray[Any] = np.concatenate([batch[1] for batch in batches])
    if names and labels.max(initial=0) < len(names) and labels.min(initial=0) >= 0:
        labels = np.array(names)[labels]
    return Arrays(str(path), pixels, labels, test=test, modality="image")


def _batch(path: Path, label: str | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels (n, 3072) and labels (n,) of one file."""
    found = _dict(path)
    wanted = (label,) if label is not None else LABELS
    name = next((name for name in wanted if name in found), None)
    if name is None:
        what = f"no labels {label!r}" if label is not None else "no labels"
        raise FedskewError(f"{path}: has {what}; {choices(label or 'labels', found)}")
    data, codes = found.get("data"), found[name]
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3 * _SIDE**2:
        what = f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise FedskewError(f"{path}: 'data' is {what}; (N, {3 * _SIDE**2}) bytes are needed, the pixels of 32 x 32 RGB")
    if not isinstance(codes, list | np.ndarray) or len(codes) != len(data):
        count = len(codes) if isinstance(codes, list | np.ndarray) else "no"
        raise FedskewError(f"{path}: has {len(data)} images and {count} {name}; the file is damaged")
    if not all(isinstance(code, int | np.integer) and 0 <= code < 2**31 for code in codes):
        raise FedskewError(f"{path}: {name!r} holds something else than whole numbers from 0")
    return data, np.asarray(codes, np.int64)


def _class_names(folder: Path, label: str | None) -> list[str]:
    """The names of the classes; none where no file lists them."""
    for file, (labels, names) in _META.items():
        if not is_pickle(folder / file):
            continue
        wanted = names if label in {None, labels} else f"{str(label).removesuffix('s')}_names"
        listed = _dict(folder / file).get(wanted, [])
        if isinstance(listed, list) and all(isinstance(name, str | bytes) for name in listed):
            texts = [_text(name) for name in listed]
            return texts if len(set(texts)) == len(texts) else []
    return []


def _dict(path: Path) -> dict[str, Any]:
    try:
        value = plain_values(path.read_bytes())
    except BadPickleError as fault:
        raise FedskewError(f"{path}: cannot be read as a CIFAR batch: {fault}") from None
    if not isinstance(value, dict) or not all(isinstance(key, str | bytes) for key in value):
        raise FedskewError(f"{path}: is no CIFAR batch: a dict with 'data' and 'labels' is needed")
    return {_text(key): item for key, item in value.items()}


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("latin1")


CIFAR = Reader("CIFAR python batch", (), read_cifar, claims=is_pickle, folder=holds_cifar)

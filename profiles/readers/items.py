"""Data sets in memory that give item by item or column by column: torch's and Hugging Face's, by their behaviour."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.noticed import some
from fedskew.profiles.partitions import Finding
from fedskew.profiles.readers.base import Arrays, Loaded, Options, Table

LABELS = ("label", "labels", "y", "target", "fine_label")
NOBODY = ""
"""The party of rows that no index list holds; no party may be called so."""


def is_dataset(source: object) -> bool:
    """Whether this is a data set of torch or Hugging Face, told by its classes, so that neither is imported for it."""
    named = any(kind.__name__ == "Dataset" for kind in type(source).__mro__)
    return named and hasattr(source, "__getitem__") and hasattr(source, "__len__")


def is_dataset_with_parties(source: object) -> bool:
    """Whether this is ``(dataset, index lists)``."""
    return isinstance(source, tuple) and len(source) == 2 and is_dataset(source[0])


def read_dataset(source: Any, options: Options, name: str) -> Loaded:
    """Take in a data set, or ``(dataset, parties)`` with row numbers by party.

    Torch: items ``(x, y)``, all x of one shape. Hugging Face: its columns; where one holds images or lists, that one
    is the features. Names of a ``ClassLabel`` are used.

    Parameters
    ----------
    source : the data set, or it and a dict of row numbers by party, or a list of such lists (parties 0, 1, …)
    options : of a Hugging Face data set ``label``, ``party`` and ``features`` name columns
    name : what messages call it

    Raises
    ------
    FedskewError
        Items are of another form or of several shapes, or a row number is out of range or stands twice.
    """
    if not is_dataset_with_parties(source):
        return _columns(source, options, name) if hasattr(source, "column_names") else _items(source, options, name)
    data, parties = source
    found = read_dataset(data, options, name)
    rows = found.frame.height if isinstance(found, Table) else len(found.labels)
    party, silos = _owners(parties, rows, name)
    if isinstance(found, Table):
        raise FedskewError(f"{name}: a table with index lists is not read; add a column that names the party")
    return Arrays(found.name, found.features, found.labels, party, members=found.members, silos=silos)


def _owners(parties: Any, rows: int, name: str) -> tuple[NDArray[np.str_], tuple[str, ...]]:
    """The party of each row, and the names of all."""
    lists = parties if isinstance(parties, Mapping) else dict(enumerate(parties))
    names = [str(key) for key in lists]
    if len(set(names)) < len(names) or NOBODY in names:
        raise FedskewError(
            f"{name}: each party needs a name of its own, and none may be empty; there are {some(names)}"
        )
    owner = np.full(rows, -1)
    for code, held in enumerate(lists.values()):
        places = np.asarray(held)
        if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
            raise FedskewError(f"{name}: party {names[code]!r} must be a list of row numbers")
        places = places.astype(np.int64)
        wrong = places[(places < 0) | (places >= rows)]
        if wrong.size:
            raise FedskewError(f"{name}: party {names[code]!r} has row {wrong[0]}; there are rows 0 to {rows - 1}")
        taken = places[owner[places] >= 0]
        if taken.size or len(np.unique(places)) < len(places):
            raise FedskewError(f"{name}: party {names[code]!r} has a row that stands twice; each belongs to one party")
        owner[places] = code
    return np.array([*names, NOBODY])[owner], tuple(names)


def _items(source: Any, options: Options, name: str) -> Arrays:
    """All items of a torch data set."""
    for what, value in (("label", options.label), ("party", options.party if options.party_required else None)):
        if value is not None:
            raise FedskewError(f"{name}: {what} is {value!r}, but items are pairs (x, y); give (dataset, index lists)")
    if not len(source):
        raise FedskewError(f"{name}: has no items; at least one is needed")
    tensors = getattr(source, "tensors", None)
    if isinstance(tensors, tuple) and len(tensors) == 2:
        return Arrays(name, np.asarray(tensors[0]), _flat(name, np.asarray(tensors[1])))
    features: list[NDArray[Any]] = []
    labels = []
    for place in range(len(source)):
        item = source[place]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise FedskewError(f"{name}: item {place} is of type {type(item).__name__}; (x, y) is needed")
        features.append(np.asarray(item[0]))
        labels.append(np.asarray(item[1]))
    return Arrays(name, _stacked(name, features), _flat(name, _stacked(name, labels)))


def _stacked(name: str, values: list[NDArray[Any]]) -> NDArray[Any]:
    for place, value in enumerate(values):
        if value.shape != values[0].shape:
            raise FedskewError(
                f"{name}: item {place} has the shape {value.shape}, item 0 {values[0].shape}; resize them"
            )
    whole: NDArray[Any] = np.stack(values)
    if whole.dtype.kind == "O":
        raise FedskewError(f"{name}: its items hold Python objects; numbers are needed")
    return whole


def _flat(name: str, labels: NDArray[Any]) -> NDArray[Any]:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise FedskewError(f"{name}: its labels have the shape {labels.shape}; one a row is needed")
    return labels


def _columns(source: Any, options: Options, name: str) -> Loaded:
    """All columns of a Hugging Face data set."""
    import polars as pl

    names = [str(column) for column in source.column_names]
    held = {column: _named(source, column) for column in names}
    wide = [column for column in names if _is_wide(held[column])]
    if not wide:
        return Table(name, pl.DataFrame({column: pl.Series(values, strict=False) for column, values in held.items()}))
    asked = options.features[0] if options.features else None
    x = asked if asked is not None else wide[0]
    if x not in wide or (asked is None and len(wide) > 1):
        raise FedskewError(f"{name}: say which column holds the features with features=; {choices(x, wide)}")
    label = options.label or next((column for column in LABELS if column in names), None)
    party = options.party if options.party_required or options.party in names else None
    for what, column in (("label", label), ("party", party)):
        if column not in names and not (what == "party" and column is None):
            raise FedskewError(f"{name}: has no {what} column {column!r}; {choices(str(column), names)}")
    unused = [column for column in names if column not in {x, label, party}]
    text = f"{name}: not used beside the features {x!r}: {some(unused)}"
    findings = (Finding(code="unused_column", severity="mild", text=text, count=len(unused)),) if unused else ()
    labels = np.asarray(held[str(label)])
    owners = None if party is None else np.asarray(held[party])
    features = _stacked(name, [np.asarray(value) for value in held[x]])
    return Arrays(name, features, _flat(name, labels), owners, members=tuple(names), findings=findings)


def _named(source: Any, column: str) -> list[Any]:
    """The values of a column, codes of a ``ClassLabel`` as its names."""
    values = list(source[column])
    names = getattr((getattr(source, "features", None) or {}).get(column), "names", None)
    if not isinstance(names, Sequence) or isinstance(names, str):
        return values
    return [names[code] if code is not None and 0 <= code < len(names) else None for code in values]


def _is_wide(values: list[Any]) -> bool:
    """Whether a column holds images, arrays or lists."""
    first = next((value for value in values if value is not None), None)
    return not isinstance(first, str | bytes | Mapping) and np.asarray(first).ndim > 0

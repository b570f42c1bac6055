"""Tables and arrays that are in memory already: pandas and polars frames, dicts and tuples of numpy arrays."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.readers.base import Loaded, Options, Table
from fedskew.profiles.readers.items import is_dataset, is_dataset_with_parties, read_dataset
from fedskew.profiles.readers.npz import FEATURES, pick_members

if TYPE_CHECKING:
    import polars as pl


def is_frame(source: object) -> bool:
    """Whether this is a pandas or polars frame, told by its class so that neither is imported for it."""
    kind = type(source)
    return kind.__name__ in {"DataFrame", "LazyFrame"} and kind.__module__.split(".")[0] in {"pandas", "polars"}


def read_memory(source: Any, options: Options, name: str = "the table") -> Loaded:
    """Take in a pandas or polars frame, a dict of arrays with the keys of an npz, columns, or ``(x, y[, party])``.

    x may be a scipy sparse matrix. A data set of torch or Hugging Face: see :func:`read_dataset`.

    Raises
    ------
    FedskewError
        The source is none of these, or its parts have different lengths.
    """
    if is_frame(source):
        return Table(name, _polars(source))
    if is_dataset(source) or is_dataset_with_parties(source):
        return read_dataset(source, options, name)
    if isinstance(source, tuple) and 2 <= len(source) <= 3:
        source = dict(zip(("x", "y", "party"), source, strict=False))
    if not isinstance(source, Mapping) or not all(isinstance(key, str) for key in source):
        raise FedskewError(
            f"the source is of type {type(source).__name__}; allowed are paths, pandas and polars frames, "
            "a dict of arrays, a tuple (x, y) or (x, y, party), or a Dataset of torch or Hugging Face"
        )
    arrays = {key: _array(value) for key, value in source.items() if value is not None}
    by_member = any(key.lower() in FEATURES for key in arrays) or bool(set(options.features or ()) & set(_wide(arrays)))
    if by_member and any(key.lower() in {"y", "y_train", options.label} or key == options.label for key in arrays):
        return pick_members(name, tuple(arrays), lambda key: _plain(name, key, arrays[key]), options)
    if not arrays or any(array.ndim != 1 for array in arrays.values()):
        raise FedskewError(f"{name}: its arrays must be 1-D columns, or have the keys 'x', 'y' and perhaps 'party'")
    if len({len(array) for array in arrays.values()}) > 1:
        raise FedskewError(f"{name}: its columns have different lengths")
    import polars as pl

    return Table(name, pl.DataFrame([to_series(key, array) for key, array in arrays.items()]))


def _array(value: Any) -> Any:
    """A numpy array, or a CSR array of any scipy sparse matrix."""
    if not hasattr(value, "tocsr"):
        return np.asarray(value)
    from scipy.sparse import csr_array

    return csr_array(value)


def _wide(arrays: Mapping[str, Any]) -> list[str]:
    return [key for key, array in arrays.items() if array.ndim > 1]


def _plain(name: str, key: str, array: Any) -> Any:
    if array.dtype.kind != "O":
        return array
    series = to_series(key, array)
    if series.dtype.is_nested() or series.dtype.is_temporal():
        raise FedskewError(f"{name}: {key!r} holds Python objects; numbers or texts are needed")
    return np.asarray(series.to_list()) if not series.null_count() else series.to_numpy()


def _polars(frame: Any) -> "pl.DataFrame":
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if any(level is not None and level not in frame.columns for level in frame.index.names):
        frame = frame.reset_index()  # a named index is a column to its owner
    names = [str(name) for name in frame.columns]
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if repeated:
        raise FedskewError(f"the table names the column {repeated[0]!r} twice; rename one of them")
    return pl.DataFrame([_from_pandas(name, frame.iloc[:, i]) for i, name in enumerate(names)])


def _from_pandas(name: str, column: Any) -> "pl.Series":
    """One pandas column without pyarrow: numpy types as they are, all else value by value."""
    import polars as pl

    kind = getattr(column.dtype, "kind", "O")
    if isinstance(column.dtype, np.dtype) and kind in "biufmM":
        values = column.to_numpy()
        return pl.Series(name, values.astype("datetime64[us]") if kind == "M" else values)
    return to_series(name, column.astype(object).where(column.notna(), None).to_numpy())


def to_series(name: str, values: Any) -> "pl.Series":
    """A 1-D array as a column; of Python objects, None and NaN are null wherever they stand.

    Examples
    --------
    >>> to_series("y", np.array([None, "a", "b"], dtype=object)).to_list()
    [None, 'a', 'b']
    """
    import polars as pl

    if values.dtype.kind not in "OS":
        return pl.Series(name, np.ascontiguousarray(values))
    items = [None if _absent(value) else value for value in values.tolist()]
    kinds = {type(value) for value in items if value is not None}
    if kinds == {bytes}:
        items = [None if value is None else value.decode("utf-8", "replace") for value in items]
    elif len(kinds) > 1 and not kinds <= {int, float}:
        items = [None if value is None else str(value) for value in items]
    try:
        return pl.Series(name, items, strict=len(kinds) <= 1)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(name, [None if value is None else str(value) for value in items])


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN differs from itself

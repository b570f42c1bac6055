"""Which columns become features, and how: types inferred from the merged values, categories from the merged counts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.noticed import Noticed
from fedskew.profiles.partitions import Column
from fedskew.profiles.readers.base import MISSING_VALUES

if TYPE_CHECKING:
    import polars as pl

CATEGORIES = 50  # the most frequent ones get an indicator each
FEW = 20  # so few distinct texts are categories in a short table too
ROW_NUMBERS = 30  # rows from which distinct, dense integers are row numbers
DATE = r"^(\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?|\d{1,2}:\d\d(:\d\d(\.\d+)?)?|-?P(\d+[YMWD])+(T[\d.HMS]+)?|-?PT[\d.HMS]+)$"
DECIMAL_COMMA = r"^[+-]?\d+,\d+$"


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in the order they are wanted, grouped by party: ``starts`` of the groups, in that order.

    Parties that a strategy made count as one group: nothing can name them.
    """

    order: NDArray[np.int64] | None
    starts: NDArray[np.int64]
    rows: int

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values in the wanted order."""
        return values if self.order is None else values[self.order]


def group_rows(party: NDArray[np.int64], *, simulated: bool = False) -> Groups:
    """How to put rows in groups of one party each, parties ascending, rows as they stood."""
    order = None if len(party) < 2 or bool((np.diff(party) >= 0).all()) else np.argsort(party, kind="stable")
    ascending = party if order is None else party[order]
    starts = np.flatnonzero(np.diff(ascending, prepend=-1)).astype(np.int64)
    starts = starts[:1] if simulated else starts
    return Groups(order, starts, len(party))


def encode_training(
    frame: "pl.DataFrame", groups: Groups, asked: frozenset[str] = frozenset()
) -> tuple[NDArray[np.float32], tuple[Column, ...], Noticed]:
    """Make features of the columns of a table.

    A column is numeric if every value that is not missing is a number; numbers stay as they are (float32, exact for
    whole numbers up to 2**24), NaN where missing or infinite. ``true`` and ``false`` become 1 and 0. Any other text
    becomes one 0/1 feature for each of its 50 most frequent values. Ids, dates, row numbers and columns that name the
    party are left out and noticed.

    Parameters
    ----------
    frame : the columns that may become features, N rows
    groups : how the rows are grouped by party
    asked : columns that the user named, used even if they look like an id or name the party

    Returns
    -------
    features : (N, F) float32, rows in the order of ``groups``
    columns : the slice of each
    noticed : what a person should know
    """
    noticed = Noticed(groups.rows)
    columns: list[Column] = []
    parts: list[NDArray[np.float32]] = []
    width = 0
    for series in frame.iter_columns():
        found = _encode_one(series, groups, noticed, keep=series.name in asked)
        if found is None:
            continue
        part, categories = found
        kind = "categorical" if categories is not None else "numeric"
        more = series.name in noticed.rest
        columns.append(Column(series.name, kind, width, width + len(part), categories or (), more))  # type: ignore[arg-type]
        parts.extend(part)
        width += len(part)
    return _matrix(parts, groups.rows), tuple(columns), noticed


def encode_test(frame: "pl.DataFrame", columns: tuple[Column, ...]) -> tuple[NDArray[np.float32], Noticed]:
    """Make features of a test table with the columns and categories of the training one."""
    noticed = Noticed(frame.height)
    parts: list[NDArray[np.float32]] = []
    for column in columns:
        series = frame.get_column(column.name)
        if column.kind == "numeric":
            values = numbers(series)
            if values is None:
                values = _coerced(series)
                noticed.strays[column.name] = "training holds numbers there; what is none counts as missing"
            parts.append(_finite(column.name, values, noticed).astype(np.float32))
            continue
        codes = _codes(texts(series), column.categories)
        _count_text(column.name, codes, len(column.categories), noticed)
        parts.extend(_indicators(codes, len(column.categories)))
    return _matrix(parts, frame.height), noticed


def _encode_one(
    series: "pl.Series", groups: Groups, noticed: Noticed, *, keep: bool
) -> tuple[list[NDArray[np.float32]], tuple[str, ...] | None] | None:
    reason = _unusable(series)
    values = None if reason else numbers(series)
    if reason is None and values is None:
        return _encode_text(series, groups, noticed, keep=keep)
    if values is not None:
        reason = None if not np.isnan(values).all() else "all its values are missing"
    if reason is None and values is not None:
        values = groups.gather(_finite(series.name, values, noticed))
        reason = None if keep or not _row_number(values, groups) else "it numbers the rows"
        if reason is None and not _leaks(series.name, values, groups, noticed, keep=keep):
            return [values.astype(np.float32)], None
    if reason is not None:
        noticed.unused[series.name] = reason
    _forget(series.name, noticed)
    return None


def _encode_text(
    series: "pl.Series", groups: Groups, noticed: Noticed, *, keep: bool
) -> tuple[list[NDArray[np.float32]], tuple[str, ...]] | None:
    text = texts(series)
    _count_strays(text, noticed)
    counts = text.drop_nulls().value_counts(name="n")
    distinct, seen = counts.height, len(text) - text.null_count()
    if text.drop_nulls().str.contains(DATE).all():
        noticed.unused[series.name] = "it holds dates or times"
    elif not keep and seen > 1 and (distinct == seen or (distinct > seen / 2 and distinct > FEW)):
        comma = bool(text.drop_nulls().str.contains(DECIMAL_COMMA).all())
        hint = "; they look like numbers with a decimal comma, write them with a point" if comma else ""
        noticed.unused[series.name] = f"{distinct} different texts in {seen} values{hint}"
    else:
        ranked = counts.sort(by=["n", series.name], descending=[True, False])
        names = tuple(ranked.get_column(series.name).to_list())
        codes = groups.gather(_codes(text, names))
        if _leaks(series.name, np.where(codes < 0, np.nan, codes), groups, noticed, keep=keep):
            return None
        _count_text(series.name, codes, min(len(names), CATEGORIES), noticed)
        return _indicators(codes, min(len(names), CATEGORIES)), names[:CATEGORIES]
    return None


def numbers(series: "pl.Series") -> NDArray[np.float64] | None:
    """The column as float64 with NaN where missing, or None if it holds anything that is not a number.

    Examples
    --------
    >>> import polars as pl
    >>> numbers(pl.Series(["1", " 2.5", "NA", None])).tolist()
    [1.0, 2.5, nan, nan]
    >>> numbers(pl.Series(["true", "?", "FALSE"])).tolist()
    [1.0, nan, 0.0]
    >>> numbers(pl.Series(["1", "b"])) is None
    True
    """
    import polars as pl

    if series.dtype.is_numeric() or series.dtype in {pl.Boolean, pl.Null}:
        return series.cast(pl.Float64).to_numpy().astype(np.float64, copy=False)
    text = series.cast(pl.String)
    parsed = text.cast(pl.Float64, strict=False)
    if parsed.null_count() > text.null_count():
        odd = text.filter(parsed.is_null() & text.is_not_null())
        clean = odd.unique().str.strip_chars()
        clean = clean.filter(~clean.is_in(list(MISSING_VALUES)))
        if clean.cast(pl.Float64, strict=False).null_count():
            return _booleans(text)
        parsed = texts(text).cast(pl.Float64)
    return parsed.to_numpy().astype(np.float64, copy=False)


def texts(series: "pl.Series") -> "pl.Series":
    """The column as text without outer spaces, null where missing."""
    import polars as pl

    text = series.cast(pl.String).str.strip_chars()
    return text.set(text.is_in(list(MISSING_VALUES)), None)


def _booleans(text: "pl.Series") -> NDArray[np.float64] | None:
    low = texts(text).str.to_lowercase()
    if not set(low.drop_nulls().unique().to_list()) <= {"true", "false"}:
        return None
    return np.where(low.is_null().to_numpy(), np.nan, (low == "true").fill_null(value=False).to_numpy())


def _coerced(series: "pl.Series") -> NDArray[np.float64]:
    import polars as pl

    return texts(series).cast(pl.Float64, strict=False).to_numpy().astype(np.float64)


def _unusable(series: "pl.Series") -> str | None:
    import polars as pl

    kind = series.dtype
    if kind.is_temporal():
        return "it holds dates or times"
    if kind.is_nested() or kind in {pl.Binary, pl.Object}:
        return f"its type is {kind}"
    return None


def _finite(name: str, values: NDArray[np.float64], noticed: Noticed) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        infinite = np.isinf(values.astype(np.float32))  # what float32 cannot hold would become infinite
    if infinite.any():
        noticed.non_finite[name] = int(infinite.sum())
        values = np.where(infinite, np.nan, values)
    absent = np.isnan(values)
    missing = int(absent.sum()) - noticed.non_finite.get(name, 0)
    if missing:
        noticed.missing[name] = missing
        values = np.where(absent, np.nan, values)  # a computed NaN may have a sign; all are one to a run folder
    return values


def _row_number(values: NDArray[np.float64], groups: Groups) -> bool:
    """Whether whole numbers count the rows: of the table, or of each party by itself."""
    if len(values) < ROW_NUMBERS or not (values == np.floor(values)).all():  # NaN is not equal to itself
        return False
    if _dense(values):
        return True
    parts = [part for part in np.split(values, groups.starts[1:]) if len(part) > 1]
    return sum(map(len, parts)) >= ROW_NUMBERS and all(_dense(part) for part in parts)


def _dense(values: NDArray[np.float64]) -> bool:
    return bool(values.max() - values.min() + 1 <= 2 * len(values)) and len(np.unique(values)) == len(values)


def _leaks(name: str, values: NDArray[np.float64], groups: Groups, noticed: Noticed, *, keep: bool) -> bool:
    if not names_party(values, groups):
        return False
    (noticed.kept_leaks if keep else noticed.leaks).append(name)
    return not keep


def names_party(values: NDArray[np.float64], groups: Groups) -> bool:
    """Whether a column is constant within every party but not between parties of two rows and more.

    A missing value is a value here. Too few rows (under ten beyond the first of each party) prove nothing.
    """
    sizes = np.diff(groups.starts, append=groups.rows)
    if len(sizes) < 2 or groups.rows - len(sizes) < 10:
        return False
    filled = np.where(np.isnan(values), np.inf, values)
    low, high = np.minimum.reduceat(filled, groups.starts), np.maximum.reduceat(filled, groups.starts)
    large = low[sizes > 1]
    return bool((low == high).all() and (large != large[0]).any())


def _codes(text: "pl.Series", names: tuple[str, ...]) -> NDArray[np.int64]:
    """Place of each value among the names; their number for a name that is not there, -1 where missing."""
    import polars as pl

    if not names or text.null_count() == len(text):
        return np.where(text.is_null().to_numpy(), -1, len(names)).astype(np.int64)
    places = pl.Series(range(len(names)), dtype=pl.Int64)
    codes = text.replace_strict(pl.Series(names), places, default=len(names), return_dtype=pl.Int64).to_numpy()
    return np.where(text.is_null().to_numpy(), -1, codes).astype(np.int64)


def _count_text(name: str, codes: NDArray[np.int64], width: int, noticed: Noticed) -> None:
    missing, rest = int((codes < 0).sum()), int((codes >= width).sum())
    if missing:
        noticed.missing[name] = missing
    if rest:
        noticed.rest[name] = rest


def _indicators(codes: NDArray[np.int64], count: int) -> list[NDArray[np.float32]]:
    return [(codes == code).astype(np.float32) for code in range(count)]


def _matrix(parts: list[NDArray[np.float32]], rows: int) -> NDArray[np.float32]:
    matrix = np.empty((rows, len(parts)), np.float32)
    for place, part in enumerate(parts):
        matrix[:, place] = part
    return matrix


def _count_strays(text: "pl.Series", noticed: Noticed) -> None:
    """Notice a column that is text only because of a few values that are no numbers."""
    import polars as pl

    seen = text.drop_nulls()
    stray = seen.filter(seen.cast(pl.Float64, strict=False).is_null())
    if len(stray) < len(seen) / 2:
        noticed.strays[text.name] = f"{len(stray)} of {len(seen)} values are no numbers, such as {stray[0]!r:.40}"


def _forget(name: str, noticed: Noticed) -> None:
    noticed.missing.pop(name, None)
    noticed.non_finite.pop(name, None)

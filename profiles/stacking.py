"""Tables of several files one below the other: silos may differ in their columns, shards of one table may not."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.noticed import schema_mismatch
from fedskew.profiles.partitions import Finding
from fedskew.profiles.readers.base import Table

if TYPE_CHECKING:
    import polars as pl


def stack_tables(
    tables: Mapping[str, Table], names: Sequence[str], named: Collection[str], *, silos: bool
) -> tuple["pl.DataFrame", tuple[Finding, ...]]:
    """Rows of all tables; a column of several types becomes float64 or text.

    Parameters
    ----------
    tables : by the name of the silo or shard
    names : columns of the result
    named : those of them that hold names (label, party): every table needs them, and they become text where whole
        numbers meet floats, so that 1 and 1.0 stay one name
    silos : whether each table is a party's own; its rows then lack the columns that others have, with a finding

    Raises
    ------
    FedskewError
        Tables differ in the columns of names, or in any column if they are shards of one table.
    """
    _check_same_columns(list(tables.values()), [name for name in names if name in named or not silos])
    held = {silo: set(table.frame.columns) & set(names) for silo, table in tables.items() if table.frame.height}
    return _merge([table.frame for table in tables.values()], names, named), schema_mismatch(held)


def all_columns(tables: Iterable[Table]) -> list[str]:
    """The columns of all tables, each at the least place it has in any: the order of the tables is no matter."""
    least: dict[str, int] = {}
    for table in tables:
        for place, name in enumerate(table.frame.columns):
            least[name] = min(place, least.get(name, place))
    return sorted(least, key=lambda name: (least[name], name))


def _check_same_columns(tables: Sequence[Table], needed: Sequence[str]) -> None:
    """Every table must hold the columns that most tables hold; a file that does not is named with its column."""
    held = [frozenset(table.frame.columns) & frozenset(needed) for table in tables]
    usual, _ = Counter(held).most_common(1)[0]
    model = next(table for table, columns in zip(tables, held, strict=True) if columns == usual)
    for table, columns in zip(tables, held, strict=True):
        if columns == usual:
            continue
        lacking = [name for name in needed if name in usual and name not in columns]
        extra = [name for name in needed if name in columns and name not in usual]
        if lacking:
            known = choices(lacking[0], table.frame.columns)
            raise FedskewError(f"{table.name}: has no column {lacking[0]!r}, which {model.name} has; {known}")
        if extra:
            advice = f"leave it out with --drop {extra[0]}"
            raise FedskewError(f"{table.name}: has a column {extra[0]!r}, which {model.name} has not; {advice}")


def _merge(frames: "Sequence[pl.DataFrame]", names: Sequence[str], named: Collection[str]) -> "pl.DataFrame":
    import polars as pl

    if len(frames) == 1:
        return frames[0].select(names)
    merged = []
    for name in names:
        parts = [frame.get_column(name, default=pl.Series(name, [None] * frame.height, pl.Null)) for frame in frames]
        kinds = {part.dtype for part in parts if part.dtype != pl.Null}
        if len({part.dtype for part in parts}) > 1:
            kind = _common(kinds, names=name in named)
            parts = [_as_text(part) if kind == pl.String else part.cast(kind) for part in parts]
        merged.append(pl.concat(parts))
    return pl.DataFrame(merged)


def _common(kinds: "set[pl.DataType]", *, names: bool) -> Any:
    import polars as pl

    if len(kinds) == 1:
        return next(iter(kinds))
    if all(kind.is_integer() for kind in kinds):
        return pl.Int128
    return pl.Float64 if all(kind.is_numeric() for kind in kinds) and not names else pl.String


def _as_text(part: "pl.Series") -> "pl.Series":
    import polars as pl

    if part.dtype.is_nested() or part.dtype in {pl.Binary, pl.Object}:
        return pl.Series(part.name, [None if value is None else str(value) for value in part.to_list()], pl.String)
    return part.cast(pl.String)

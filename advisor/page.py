"""What a report is made of, before it becomes HTML, Markdown, LaTeX or CSV: sections of text, pictures and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedskew.engine.reading import readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | None
Kind = Literal["text", "count", "index", "percent", "number", "bytes", "p"]
"""How a column's numbers are shown: ``percent`` takes a share; CSV keeps all of them raw."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: what stands above it, and how its cells are shown."""

    title: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; the first column names the row. ``note`` says what was left out, if anything was."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure (its label says what it shows) and the key of the table that holds its numbers."""

    figure: "Figure"
    table: str


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a list: ``mark`` is a severity or empty, ``small`` what it rests on, ``link`` an address or empty."""

    text: str
    mark: str = ""
    small: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under one heading; a fact is a term, its value and a remark, ``code`` a name and its text."""

    key: str
    title: str
    facts: tuple[tuple[str, str, str], ...] = ()
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    items: tuple[Item, ...] = ()
    tables: tuple[Table, ...] = ()
    code: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report: the answer in one sentence, what it is about, the sections, and all numbers at the end."""

    headline: str
    warning: str
    about: str
    sections: tuple[Section, ...]
    tables: tuple[Table, ...]


ABSENT = "\N{EN DASH}"


def shown(value: Cell, kind: Kind) -> str:
    """A cell as a person reads it; an absent value is a dash.

    Examples
    --------
    >>> (
    ...     shown(0.0761, "index"),
    ...     shown(0.742, "percent"),
    ...     shown(51920, "count"),
    ...     shown(-1e-9, "index"),
    ... )
    ('0.076', '74.2', '51,920', '0.000')
    """
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    if kind == "count":
        return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    if kind == "index":
        return f"{value:z.3f}"
    if kind == "percent":
        return f"{100 * value:z.1f}"
    if kind == "p":
        return "< .001" if value < 0.001 else f"{value:.2g}"
    if kind == "bytes":
        return readable_bytes(int(value))
    return f"{value:.4g}"


MOST_CELLS = 104_000


def capped(table: Table) -> Table:
    """The same table with at most :data:`MOST_CELLS` cells; the note says how many rows the JSON holds beyond them."""
    most = max(1, MOST_CELLS // max(1, len(table.columns)))
    if len(table.rows) <= most:
        return table
    note = f"The first {most:,} of {len(table.rows):,} rows; the JSON and CSV files hold all of them."
    return Table(table.key, table.title, table.columns, table.rows[:most], note)

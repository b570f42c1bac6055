"""The pieces that terminal views are made of: tables, labelled lines, and names made harmless."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

LABEL = 10  # columns of a label and the space behind it


def clean(name: str) -> str:
    """Show control characters instead of sending them to the terminal, and keep a name to 40 characters.

    Examples
    --------
    >>> clean("a" + chr(27) + "b") == "a" + chr(92) + "x1bb"
    True
    """
    safe = printable_line(name)
    return safe if len(safe) <= 40 else safe[:39] + "…"


def printable_line(text: str) -> str:
    """A text without control characters, however long."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def columns(*headers: str) -> Table:
    """A table without lines whose columns do not wrap; a caller may add columns that do."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(header, no_wrap=True)
    return table


def labelled(label: str, lines: Sequence[tuple[str, str] | RenderableType]) -> Table:
    """Lines, as (text, style) or as parts of their own, right of one label."""
    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True, width=LABEL)
    grid.add_column()
    for i, line in enumerate(lines):
        part = Text(printable_line(str(line[0])), str(line[1])) if isinstance(line, tuple) else line
        grid.add_row(Text(label if i == 0 else "", "bold"), part)
    return grid

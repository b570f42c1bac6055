"""From a page or a table to text: HTML, Markdown, LaTeX, CSV. Names are data in each of them."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from fedskew.advisor.page import Cell, Item, Page, Section, Table, capped, shown
from fedskew.advisor.page_validation import deviation
from fedskew.engine.reading import algorithm_title, ranked
from fedskew.engine.records import Validation
from fedskew.profiles.drawing import svg
from fedskew.profiles.naming import printable

MOST_ROWS = 60  # of a table in Markdown


def html(page: Page, version: str) -> str:
    """The page as one file of HTML: every value escaped, the pictures alone marked as safe."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from fedskew.advisor.reporting import template

    def clean(value: Any) -> Any:
        return value if isinstance(value, Markup) else _clean(str(value))

    titles = {t.key: t.title for t in (*page.tables, *(t for s in page.sections for t in s.tables))}
    prefixes = (f"p{number}-" for number in count())
    sections = [_section(section, titles, prefixes) for section in page.sections]
    shape = {
        "headline": page.headline,
        "warning": page.warning,
        "about": page.about,
        "sections": sections,
        "tables": [_table(table) for table in page.tables],
    }
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=clean, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template()).render(page=shape, version=version) + "\n"


def _section(section: Section, titles: Mapping[str, str], prefixes: Iterator[str]) -> dict[str, Any]:
    """What the template needs of a section; every picture gets a prefix of its own for the ids in it."""
    from markupsafe import Markup

    return {
        "key": section.key,
        "title": section.title,
        "facts": section.facts,
        "text": section.text,
        "notes": section.items,
        "code": section.code,
        "beside": [_table(table) for table in section.tables if _fits_beside(section, table)],
        "tables": [_table(table) for table in section.tables if not _fits_beside(section, table)],
        "pictures": [
            {
                "svg": Markup(svg(picture.figure, next(prefixes), themed=True)),  # noqa: S704 - escaped by svg
                "finding": str(picture.figure.get_label()),
                "table": picture.table,
                "title": titles[picture.table],
            }
            for picture in section.pictures
        ],
    }


def _fits_beside(section: Section, table: Table) -> bool:
    """A narrow table takes the free place beside an odd picture."""
    return len(section.pictures) % 2 == 1 and len(table.columns) <= 7


def _clean(text: str) -> str:
    return text if text.isprintable() else "\n".join(printable(line) for line in text.split("\n"))


def _table(table: Table) -> Mapping[str, Any]:
    table = capped(table)
    kinds = [column.kind for column in table.columns]
    return {
        "key": table.key,
        "title": table.title,
        "columns": table.columns,
        "note": table.note,
        "textual": [kind == "text" for kind in kinds],
        "shown": [[shown(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in table.rows],
    }


def markdown(page: Page) -> str:
    """The page as Markdown: text, lists and tables; each picture becomes the sentence that says what it shows."""
    lines = [f"# {_marked(page.headline)}", "", _marked(page.about), ""]
    lines += [f"> **No advice holds yet:** {_marked(page.warning)}", ""] if page.warning else []
    for section in page.sections:
        lines += [f"## {section.title}", ""]
        lines += [f"- **{_marked(term)}: {_marked(value)}.** {_marked(more)}" for term, value, more in section.facts]
        lines += [line for text in section.text for line in (_marked(text), "")]
        lines += [f"- {_marked(str(picture.figure.get_label()))}" for picture in section.pictures]
        lines += [_listed(item) for item in section.items]
        for table in section.tables:
            lines += ["", *_markdown_table(table)]
        for table in page.tables if section.key == "numbers" else ():
            lines += ["", *_markdown_table(table)]
        for name, code in section.code:
            lines += ["", f"{name}:", "", *(f"    {line}" for line in _clean(code).splitlines())]
        lines.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _listed(item: Item) -> str:
    mark = f"**{item.mark}** " if item.mark and item.mark != "none" else ""
    small = f" ({_marked(item.small)})" if item.small else ""
    return f"- {mark}{_marked(item.text)}{small}"


def _markdown_table(table: Table) -> list[str]:
    kinds = [column.kind for column in table.columns]
    rows = [
        "| " + " | ".join(_marked(shown(cell, kind)) for cell, kind in zip(row, kinds, strict=True)) + " |"
        for row in table.rows[:MOST_ROWS]
    ]
    head = "| " + " | ".join(_marked(column.title) for column in table.columns) + " |"
    rule = "|" + "|".join(" --- " if kind == "text" else " ---: " for kind in kinds) + "|"
    cut = [f"The first {MOST_ROWS} of {len(table.rows):,} rows."] if len(table.rows) > MOST_ROWS else []
    return [f"**{_marked(table.title)}**", "", head, rule, *rows, *(["", *cut] if cut else [])]


def _marked(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&!])", r"\\\1", printable(text)).replace("](", "]\\(")


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\N{EN DASH}": "--",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}


def latex_escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    Examples
    --------
    >>> print(latex_escaped(r"50% of \input{x}_$"))
    50\% of \textbackslash{}input\{x\}\_\$
    """
    return "".join(_LATEX.get(c, c) for c in printable(text))


def latex_scores(found: Validation) -> str:
    """Candidates, best first: mean ± standard deviation over seeds in %, the best mean of each column in bold."""
    rows = []
    for one in ranked(found):
        scores = ((one.accuracy.mean, deviation(one)), (one.balanced_accuracy.mean, None), (one.macro_f1, None))
        rows.append((algorithm_title(one.algorithm), scores))
    best = [max((m for _, scores in rows if (m := scores[i][0]) is not None), default=None) for i in range(3)]
    lines = [
        " & ".join([latex_escaped(name), *(_score(*score, top) for score, top in zip(scores, best, strict=True))])
        + r" \\"
        for name, scores in rows
    ]
    head = r"Algorithm & Accuracy (\%) & Balanced accuracy (\%) & Macro-F1 (\%) \\"
    return _tabular("lrrr", head, lines)


def _score(mean: float | None, spread: float | None, best: float | None) -> str:
    if mean is None:
        return "--"
    text = f"{100 * mean:.1f}"
    bold = best is not None and text == f"{100 * best:.1f}"
    text = rf"\mathbf{{{text}}}" if bold else text
    return f"${text}$" if spread is None else rf"${text} \pm {100 * spread:.1f}$"


def latex(table: Table) -> str:
    """Any table as a LaTeX tabular with booktabs rules."""
    kinds = [column.kind for column in table.columns]
    lines = [
        " & ".join(latex_escaped(shown(cell, kind)) for cell, kind in zip(row, kinds, strict=True)) + r" \\"
        for row in table.rows
    ]
    head = " & ".join(latex_escaped(column.title) for column in table.columns) + r" \\"
    return _tabular("".join("l" if kind == "text" else "r" for kind in kinds), head, lines)


def _tabular(shape: str, head: str, lines: list[str]) -> str:
    body = [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(body) + "\n"


def csv_text(table: Table) -> str:
    """A table as CSV with a header: numbers raw, absent ones empty, texts guarded against spreadsheets."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([guarded(column.title) for column in table.columns])
    writer.writerows([guarded(cell) for cell in row] for row in table.rows)
    return buffer.getvalue()


def guarded(cell: Cell) -> Cell:
    """A cell that no spreadsheet runs: texts that begin with = + - @ TAB or CR get a leading apostrophe.

    Examples
    --------
    >>> guarded("=1+1"), guarded(-0.5), guarded("plain")
    ("'=1+1", -0.5, 'plain')
    """
    if not isinstance(cell, str):
        return cell
    text = cell.encode("utf-8", "backslashreplace").decode()
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text

"""How pictures look, and how one becomes the same bytes of SVG every time. What they show is said elsewhere.

Colours are a handful of named values. In a notebook or paper they stand as they are; in a page, ``themed``, each
becomes a CSS variable, so that one picture serves light, dark and print.
"""

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from typing import Any, cast
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fedskew.profiles.naming import printable, wide

INK, MUTED, FAINT, PAPER = "#1c2126", "#5b636c", "#d7dce1", "#fefefe"
ACCENT, WASH, MILD, STRONG = "#0b62b0", "#e3edf7", "#8a5a00", "#b3261e"
THEME: Mapping[str, str] = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    FAINT: "var(--faint)",
    PAPER: "var(--paper)",
    ACCENT: "var(--accent)",
    WASH: "var(--wash)",
    MILD: "var(--mild)",
    STRONG: "var(--strong)",
}
"""The colours of all pictures, and the CSS variable each becomes in a page."""
SEVERITY: Mapping[str, tuple[str, str]] = {"none": ("·", MUTED), "mild": ("!", MILD), "strong": ("!!", STRONG)}
"""Mark and colour of a severity: never the colour alone."""
WIDTH = 4.8  # inches; two beside each other on a desk, one on a telephone
SIZE, SMALL = 9.0, 8.0  # points
_STYLE: dict[str, Any] = {
    "font.size": SIZE,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedskew",
    "svg.image_inline": True,
}
_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


Where = Figure | SubFigure
"""What a picture is drawn on."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture before it is drawn: its height in inches, how to draw it, and the sentence that says what it shows."""

    height: float
    draw: Callable[[Where], None]
    finding: str


def styled() -> AbstractContextManager[None]:
    """The settings in which every picture is drawn and written; the user's own stay untouched."""
    return mpl.rc_context(cast("Any", _STYLE))


def figure(*plots: Plot) -> Figure:
    """Draw some pictures below each other; the finding becomes the label of the figure.

    Parameters
    ----------
    plots : at least one

    Returns
    -------
    matplotlib Figure, no part of pyplot; ``get_label()`` is its alternative text
    """
    with styled():
        made = Figure(figsize=(WIDTH, sum(plot.height for plot in plots)))
        made.set_label(" ".join(plot.finding for plot in plots))
        if len(plots) == 1:
            plots[0].draw(made)
            return made
        parts = made.subfigures(len(plots), 1, height_ratios=[plot.height for plot in plots], hspace=0, squeeze=False)
        for plot, part in zip(plots, parts[:, 0], strict=True):
            part.set_facecolor("none")
            plot.draw(part)
    return made


def panel(
    where: Where,
    *,
    left: float,
    right: float = 0.1,
    top: float = 0.1,
    bottom: float = 0.1,
    spines: str = "",
) -> Axes:
    """Axes with margins in inches, without a frame but for the ``spines`` named (any of l, r, t, b)."""
    width, height = (side / where.dpi for side in (where.bbox.width, where.bbox.height))
    box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    axes = where.add_axes(box)
    for name, spine in axes.spines.items():
        spine.set_visible(name[0] in spines)
        spine.set(color=FAINT, linewidth=0.8)
    axes.tick_params(length=0, colors=MUTED, labelsize=SMALL, pad=4)
    return axes


def write(axes: Axes, x: float, y: float, text: str, *, shift: tuple[float, float] = (0, 0), **how: Any) -> None:
    """Write text as it is: never maths, never control characters; centred on ``y`` unless told otherwise.

    ``x`` and ``y`` are in the units of the axes, ``shift`` in points.
    """
    style = {"va": "center", "fontsize": SMALL, "color": INK, "parse_math": False, "annotation_clip": False, **how}
    axes.annotate(printable(text), (x, y), xytext=shift, textcoords="offset points", **style)


def title(where: Where, text: str) -> None:
    """A heading in the upper left corner."""
    width, height = where.bbox.width, where.bbox.height
    place = (0.02 * where.dpi / width, 1 - 0.08 * where.dpi / height)
    where.text(*place, text, fontsize=SIZE, color=INK, va="top", weight="bold", parse_math=False)


def footnote(where: Where, text: str) -> None:
    """A small line in the lower left corner."""
    place = (0.02 * where.dpi / where.bbox.width, 0.05 * where.dpi / where.bbox.height)
    where.text(*place, printable(text), fontsize=7.5, color=MUTED, va="bottom", parse_math=False)


def margin(names: list[str], size: float = SMALL) -> float:
    """Inches that the longest of some texts needs, with a little air."""
    return 0.12 + max((wide(name) for name in names), default=0) * size * 0.66 / 72


def svg(made: Figure, prefix: str, *, themed: bool = False) -> str:
    """The picture as an inline SVG element: same figure, same bytes.

    Parameters
    ----------
    made : the figure; its label becomes the alternative text
    prefix : of all ids, so that several pictures fit into one page
    themed : colours become CSS variables, and the size is left to the page

    Returns
    -------
    one ``<svg>`` element; text stays text, and no date, comment, style sheet or unused id is in it
    """
    buffer = io.StringIO()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a browser has the fonts for it
        made.savefig(buffer, format="svg", metadata=_METADATA, facecolor="none" if themed else PAPER)
    root = ET.fromstring(buffer.getvalue())  # noqa: S314 - written one line above
    used = set(re.findall(r"#([\w.-]+)", " ".join(v for e in root.iter() for v in _links(e))))
    names = {name: f"{prefix}{i}" for i, name in enumerate(sorted(used))}
    wanted = ("viewBox",) if themed else ("viewBox", "width", "height")
    opening = {
        "xmlns": "http://www.w3.org/2000/svg",
        **{name: root.attrib[name] for name in wanted},
        "role": "img",
        "aria-label": printable(str(made.get_label())),
        "style": "stroke-linejoin:round;stroke-linecap:butt;font-family:"
        + ("inherit" if themed else "system-ui,'DejaVu Sans',sans-serif"),
    }
    shape = "".join(f' {name}="{escape(value)}"' for name, value in opening.items())
    return f"<svg{shape}>{''.join(_written(child, names, themed=themed) for child in root)}</svg>"


def _links(element: ET.Element) -> list[str]:
    return [value for name, value in element.attrib.items() if "url(#" in value or name.endswith("href")]


def _written(element: ET.Element, names: Mapping[str, str], *, themed: bool) -> str:
    tag = element.tag.rsplit("}", 1)[-1]
    if tag in {"style", "metadata"}:
        return ""
    given = {}
    for name, value in element.attrib.items():
        short = name.rsplit("}", 1)[-1]
        kept = _attribute(short, value, names, themed=themed)
        if kept:
            given[short] = kept
    inner = "".join(_written(child, names, themed=themed) for child in element)
    if tag == "text":
        inner = escape(element.text or "", quote=False) + inner
    if tag in {"g", "defs"} and not inner:
        return ""
    if tag == "g" and not given:
        return inner
    shape = "".join(f' {name}="{escape(value)}"' for name, value in given.items())
    return f"<{tag}{shape}>{inner}</{tag}>" if inner else f"<{tag}{shape}/>"


def _attribute(name: str, value: str, names: Mapping[str, str], *, themed: bool) -> str:
    """One attribute, shortened; empty where it says nothing."""
    if name == "id":
        return names.get(value, "")
    if name == "href" and value.startswith("data:"):
        return value.replace("\n", "")
    if name == "transform" and value.startswith("rotate(-0 "):
        return ""
    value = re.sub(r"#([\w.-]+)", lambda found: "#" + names.get(found[1], found[1]), value)
    if name == "style":
        return _short_style(value, themed=themed)
    if name in {"d", "x", "y", "width", "height", "transform"}:
        value = " ".join(
            re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value).split()
        )
    return value


def _short_style(value: str, *, themed: bool) -> str:
    parts = [part.strip() for part in value.split(";")]
    kept = ";".join(part.replace(": ", ":") for part in parts if part and not part.startswith("font-family"))
    if themed:
        for colour, variable in THEME.items():
            kept = kept.replace(colour, variable)
    return kept


def card(sentence: str, made: Figure, key: str) -> str:
    """What a notebook shows of a record: its sentence and its picture; names are escaped.

    ``key`` is any text that tells this record from others, so that ids do not meet in one notebook.
    """
    prefix = "f" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"<div><p><b>{escape(printable(sentence))}</b></p>{svg(made, prefix)}</div>"

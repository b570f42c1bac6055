"""Pictures of the feature shift: which parties and which columns differ, ranked."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedskew.profiles.drawing import (
    ACCENT,
    FAINT,
    MUTED,
    PAPER,
    WASH,
    Plot,
    Where,
    figure,
    margin,
    panel,
    title,
    write,
)
from fedskew.profiles.naming import shorten
from fedskew.profiles.records import Profile

RANKED = 15  # parties or columns that a ranking shows
ROW = 0.21  # inches


def feature_plots(profile: Profile) -> list[Plot]:
    """Those of the feature pictures for which there is something to show."""
    plots = [party_plot(profile)] if any(v is not None for v in profile.feature.by_party.values()) else []
    return plots + ([column_plot(profile)] if profile.feature.by_feature else [])


def feature_by_party(profile: Profile) -> Figure:
    """How far each party's features lie from the others', given the class."""
    return figure(party_plot(profile))


def feature_by_column(profile: Profile) -> Figure:
    """Which columns differ between parties, given the class."""
    return figure(column_plot(profile))


def party_plot(profile: Profile) -> Plot:
    """The picture of :func:`feature_by_party` before it is drawn."""
    found = {name: value for name, value in profile.feature.by_party.items() if value is not None}
    ranked = sorted(found, key=lambda name: (-found[name], name))
    height = _ranking_height(len(ranked))
    rows = [(name, found[name], None) for name in ranked]
    top = "no party could be measured"
    if ranked:
        top = f"party {shorten(ranked[0])} differs most ({found[ranked[0]]:.3f})"
    finding = f"Feature shift by party, 0 is chance: {top}."
    heading = "Feature shift by party, given the class"
    return Plot(height, lambda where: _draw_ranking(where, heading, rows), finding)


def column_plot(profile: Profile) -> Plot:
    """The picture of :func:`feature_by_column` before it is drawn."""

    def size(shift: tuple[str, float | None, float | None]) -> float:
        return max(shift[1] or 0.0, shift[2] or 0.0)

    rows = [(found.name, found.mean_share, found.spread_share) for found in profile.feature.by_feature]
    rows.sort(key=lambda shift: (-size(shift), shift[0]))
    top = f"column {shorten(rows[0][0])} differs most ({size(rows[0]):.3f})"
    finding = f"Shift of {len(rows)} columns between parties, 0 is chance: {top}."
    heading = "Shift of each column, given the class"
    return Plot(_ranking_height(len(rows), legend=True), lambda where: _draw_ranking(where, heading, rows), finding)


def _ranking_height(rows: int, *, legend: bool = False) -> float:
    return 0.55 + 0.22 * legend + ROW * min(rows, RANKED) + 0.22 * (rows > RANKED)


def _draw_ranking(where: Where, heading: str, rows: Sequence[tuple[str, float | None, float | None]]) -> None:
    """A dot a row, at most :data:`RANKED` rows; a second, open dot where there is a second value."""
    shown, rest = rows[:RANKED], rows[RANKED:]
    names = [shorten(name) for name, _, _ in shown]
    double = any(second is not None for _, _, second in rows)
    axes = panel(
        where, left=max(0.5, margin(names)), right=0.95, top=0.38 + 0.22 * double, bottom=0.1 + 0.22 * bool(rest)
    )
    values = [value for _, *pair in shown for value in pair if value is not None]
    low, high = min([0.0, *values]), max([1e-3, *values])
    axes.set(xlim=(low - 0.02 * (high - low), high * 1.04), ylim=(len(shown) - 0.5, -0.5), xticks=[], yticks=[])
    title(where, heading)
    if double:
        write(axes, axes.get_xlim()[0], -0.5, "●  mean        ○  spread", shift=(0, 5), va="bottom", color=MUTED)
    axes.axvline(0, color=FAINT, linewidth=1)
    for row, (first, second) in enumerate((first, second) for _, first, second in shown):
        _draw_dots(axes, row, names[row], first, second)
    if rest:
        most = max((value or 0.0 for _, *pair in rest for value in pair), default=0.0)
        write(
            axes,
            axes.get_xlim()[0],
            len(shown) - 0.5,
            f"and {len(rest):,} more, at most {most:.3f}",
            shift=(0, -8),
            color=MUTED,
        )


def _draw_dots(axes: Axes, row: int, name: str, first: float | None, second: float | None) -> None:
    left, right = axes.get_xlim()
    write(axes, left, row, name, shift=(-4, 0), ha="right")
    axes.plot([min(0, first or 0), max(0, first or 0, second or 0)], [row, row], color=WASH, linewidth=4, zorder=1)
    if second is not None:
        axes.plot([second], [row], "o", markersize=5, color=PAPER, markeredgecolor=MUTED, zorder=2)
    if first is not None:
        axes.plot([first], [row], "o", markersize=5, color=ACCENT, zorder=3)
    texts = [f"{value:z.3f}" for value in (first, second) if value is not None]
    write(axes, right, row, " · ".join(texts) or "not measurable", shift=(4, 0), color=MUTED, fontsize=7.5)

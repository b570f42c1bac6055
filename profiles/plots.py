"""Pictures of a profile: the four skews, who holds what, and where the features differ.

Each function returns a matplotlib Figure whose label (``get_label()``) is the finding in words. Above
:data:`MANY_PARTIES` parties or :data:`MANY_CLASSES` classes the map is sorted and the rarest classes share a column.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from fedskew.profiles.drawing import (
    ACCENT,
    INK,
    MUTED,
    PAPER,
    SEVERITY,
    SMALL,
    WIDTH,
    Plot,
    Where,
    figure,
    margin,
    panel,
    title,
    write,
)
from fedskew.profiles.feature_plots import feature_plots
from fedskew.profiles.naming import shorten
from fedskew.profiles.records import ConceptSkew, FeatureSkew, LabelSkew, Profile, QuantitySkew
from fedskew.profiles.severity import THRESHOLDS

MANY_PARTIES, MANY_CLASSES = 60, 25
CELLS = 400  # above so many, numbers no longer fit into the cells of the map
ROW = 0.21  # inches
_TINT = LinearSegmentedColormap.from_list("tint", [(*to_rgba(ACCENT)[:3], 0.0), (*to_rgba(ACCENT)[:3], 1.0)])


def overview(profile: Profile) -> Figure:
    """Everything a profile has to show in one figure: skews, map with sizes, features."""
    plots = [_gauges(profile), _map(profile)]
    plots += [_sizes(profile)] if profile.parties > MANY_PARTIES else []
    return figure(*plots, *feature_plots(profile))


def skew_gauges(profile: Profile) -> Figure:
    """The four skews beyond chance, each on its own scale of severity."""
    return figure(_gauges(profile))


def party_class_map(profile: Profile) -> Figure:
    """Which share of each party's rows is of which class, with the size of each party beside it."""
    return figure(_map(profile))


def party_sizes(profile: Profile) -> Figure:
    """Rows by party, ranked: for partitions too large for bars beside the map."""
    return figure(_sizes(profile))


def _gauges(profile: Profile) -> Plot:
    return Plot(2.55, lambda where: _draw_gauges(where, profile), gauges_finding(profile))


def gauges_finding(profile: Profile) -> str:
    """The four skews in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from fedskew import make_partition, profile
    >>> toy = make_partition(np.eye(4), ["x", "y", "x", "y"], ["a", "a", "b", "b"])
    >>> gauges_finding(profile(toy)).split(",")[0]
    'Skew beyond chance: label -0.503 (none)'
    """
    parts = []
    for name, skew in _skews(profile):
        value = "not measurable" if skew.skew is None else f"{skew.skew:z.3f} ({skew.severity})"
        parts.append(f"{name} {value}")
    return f"Skew beyond chance: {', '.join(parts)}."


def _skews(profile: Profile) -> tuple[tuple[str, LabelSkew | QuantitySkew | FeatureSkew | ConceptSkew], ...]:
    return (
        ("label", profile.label),
        ("quantity", profile.quantity),
        ("feature", profile.feature),
        ("concept", profile.concept),
    )


def _draw_gauges(where: Where, profile: Profile) -> None:
    axes = panel(where, left=0.85, right=1.25, top=0.62, bottom=0.12)
    title(where, "Skew beyond chance")
    axes.set(xlim=(0, 3), ylim=(4, 0), xticks=[], yticks=[])
    for i, word in enumerate(("none", "mild", "strong")):
        write(axes, i + 0.5, -0.22, word, ha="center", color=MUTED)
    for row, (name, skew) in enumerate(_skews(profile)):
        floor = THRESHOLDS[name]
        ends = (0.0, floor.mild, floor.strong, 1.0)
        y = row + 0.38
        for i, alpha in enumerate((0.10, 0.24, 0.42)):  # three zones, equally wide whatever their numbers
            axes.barh(y, 0.99, left=i + 0.005, height=0.34, color=ACCENT, alpha=alpha, linewidth=0)
            write(axes, i, y + 0.36, f"{ends[i]:g}", ha="left" if i == 0 else "center", color=MUTED, fontsize=7)
        write(axes, 3, y + 0.36, "1", ha="right", color=MUTED, fontsize=7)
        write(axes, 0, y, name, shift=(-6, 0), ha="right", weight="bold")
        _draw_needle(axes, y, skew, ends)


def _draw_needle(
    axes: Axes, y: float, skew: LabelSkew | QuantitySkew | FeatureSkew | ConceptSkew, ends: Sequence[float]
) -> None:
    mark, colour = SEVERITY[skew.severity]
    if skew.skew is None:
        write(axes, 3, y, "not measurable", shift=(7, 0), color=MUTED)
        write(axes, 3, y + 0.34, (skew.reason or "").replace("_", " "), shift=(7, 0), color=MUTED, fontsize=7)
        return
    interval = getattr(skew, "interval", None)
    if interval is not None:
        low, high = (_place(value, ends) for value in interval)
        axes.plot([low, high], [y, y], color=INK, linewidth=1.6, solid_capstyle="round", clip_on=False)
    face, edge = (PAPER, INK) if skew.severity == "none" else (INK, PAPER)  # hollow: no more than chance
    axes.plot(
        [_place(skew.skew, ends)],
        [y],
        "o",
        color=face,
        markersize=6.5,
        markeredgecolor=edge,
        markeredgewidth=1.2,
        clip_on=False,  # at 0 it stands on the edge
        zorder=4,
    )
    write(axes, 3, y, f"{skew.skew:z.3f}", shift=(7, 0), weight="bold")
    chance = "" if skew.p_value is None else ", p < .001" if skew.p_value < 0.001 else f", p {skew.p_value:.2g}"
    write(axes, 3, y + 0.36, f"{mark} {skew.severity}{chance}", shift=(7, 0), color=colour, fontsize=7.5)


def _place(value: float, ends: Sequence[float]) -> float:
    """Where an index stands on the scale of three equally wide zones, 0 to 3."""
    return float(np.interp(value, ends, (0, 1, 2, 3)))


def _map(profile: Profile) -> Plot:
    counts = np.asarray(profile.counts, dtype=float).reshape(profile.parties, profile.classes)
    many = profile.parties > MANY_PARTIES
    names = [shorten(name, 20) for name in profile.class_names]
    if profile.classes > MANY_CLASSES:
        order = np.argsort(-counts.sum(axis=0), kind="stable")
        top, rest = order[: MANY_CLASSES - 1], order[MANY_CLASSES - 1 :]
        counts = np.column_stack([counts[:, top], counts[:, rest].sum(axis=1)])
        names = [*(names[i] for i in top), f"{len(rest)} others"]
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    finding = map_finding(profile)
    if many:
        largest = shares.argmax(axis=1)
        order = np.lexsort((np.arange(len(shares)), -shares.max(axis=1), largest))
        return Plot(3.9, lambda where: _draw_many(where, shares[order], names), finding)
    head = _head(names)
    height = 0.45 + head + 0.25 + profile.parties * _row_height(profile.parties)
    return Plot(height, lambda where: _draw_map(where, profile, shares, names), finding)


def map_finding(profile: Profile) -> str:
    """What the map of parties and classes shows."""
    missing = sum(count == 0 for row in profile.counts for count in row)
    cells = profile.parties * profile.classes
    lonely = sum(sum(count > 0 for count in row) == 1 for row in profile.counts)
    text = f"{profile.parties:,} parties by {profile.classes:,} classes: {missing:,} of {cells:,} cells are empty"
    text += f", {lonely:,} {'party holds' if lonely == 1 else 'parties hold'} a single class" if lonely else ""
    if profile.label.most_deviant and profile.label.severity != "none":
        text += f"; farthest from the common mix is party {shorten(profile.label.most_deviant[0].party)}"
    return text + "."


def _row_height(parties: int) -> float:
    return ROW if parties <= 30 else 0.16


def _head(names: Sequence[str]) -> float:
    """Inches for the names of the classes above the map; they stand upright where they would touch."""
    return margin(list(names)) if _upright(names) else 0.2


def _upright(names: Sequence[str]) -> bool:
    return max(margin([name]) for name in names) > 2.4 / len(names)


def _class_names(where: Where, axes: Axes, names: Sequence[str]) -> None:
    """Name the columns of a map; where they stand too close for that, every second or third one."""
    turned = _upright(names)
    room = 72 * axes.bbox.width / where.dpi / len(names)  # points a column
    for i in range(0, len(names), max(1, -int(-1.15 * SMALL // room)) if turned else 1):
        write(axes, i, -0.5, names[i], shift=(0, 3), rotation=90 * turned, ha="center", va="bottom", color=MUTED)


def _draw_map(where: Where, profile: Profile, shares: NDArray[np.float64], names: list[str]) -> None:
    parties = [shorten(name, 16) for name in profile.party_names]
    size = SMALL if len(parties) <= 30 else 7
    left = max(0.5, margin(parties, size))
    head = _head(names)
    sizes = [profile.quantity.sizes[name] for name in profile.party_names]
    axes = panel(where, left=left, right=1.5, top=0.35 + head, bottom=0.25)
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(parties) - 0.5, -0.5), xticks=[], yticks=[])
    title(where, "Share of each party's rows by class, in %")
    _class_names(where, axes, names)
    few = shares.size <= CELLS
    if few:
        _cells(axes, shares, numbers=shares.shape[1] <= 12)
    else:
        axes.imshow(shares, cmap=_TINT, vmin=0, vmax=_darkest(shares), aspect="auto", interpolation="none")
        dark = f"white: no rows; darkest: {100 * _darkest(shares):.0f} % of the party's rows or more"
        write(axes, -0.5, len(parties) - 0.5, dark, shift=(0, -7), color=MUTED, fontsize=7.5)
    write(axes, -0.5, -0.5, "party", shift=(-4, 3), ha="right", va="bottom", color=MUTED)
    for row, name in enumerate(parties):
        write(axes, -0.5, row, name, shift=(-4, 0), ha="right", fontsize=size)
    bars = panel(where, left=WIDTH - 1.4, right=0.62, top=0.35 + head, bottom=0.25)
    bars.set(xlim=(0, max(1, *sizes)), ylim=(len(parties) - 0.5, -0.5), xticks=[], yticks=[])
    write(bars, 0, -0.5, "rows", shift=(0, 3), va="bottom", color=MUTED)
    bars.barh(range(len(sizes)), sizes, height=0.62, color=MUTED, alpha=0.45, linewidth=0)
    for row, rows in enumerate(sizes):
        write(bars, rows, row, f"{rows:,}", shift=(3, 0), fontsize=size, color=MUTED)


def _darkest(shares: NDArray[np.float64]) -> float:
    """Share at which the tint is full: the largest of the named classes, rounded up to 5 %."""
    named = shares[:, : MANY_CLASSES - 1] if shares.shape[1] == MANY_CLASSES else shares
    return max(0.05, min(1.0, float(np.ceil(20 * named.max(initial=0.0))) / 20))


def _cells(axes: Axes, shares: NDArray[np.float64], *, numbers: bool) -> None:
    """A box a cell; under a number the tint stays so light that the number reads well on it, light and dark."""
    for (row, column), share in np.ndenumerate(shares):
        low, tall = column - 0.48, row - 0.46
        if share > 0:
            axes.add_patch(_box(low, tall, share, 0.54 if numbers else 0.98))
        if numbers:
            text = f"{100 * share:.0f}" if share >= 0.005 or share == 0 else "<1"
            write(axes, column, row, text, ha="center", fontsize=7.5, color=INK if share > 0 else MUTED)


def _box(x: float, y: float, share: float, most: float) -> Rectangle:
    alpha = round(0.06 + (most - 0.06) * share, 2)
    return Rectangle((x, y), 0.96, 0.92, facecolor=ACCENT, alpha=alpha, linewidth=0)


def _draw_many(where: Where, shares: NDArray[np.float64], names: list[str]) -> None:
    head = _head(names)
    axes = panel(where, left=0.5, right=0.95, top=0.4 + head, bottom=0.3)
    title(where, "Share of each party's rows by class, in %")
    most = _darkest(shares)
    image = axes.imshow(shares, cmap=_TINT, vmin=0, vmax=most, aspect="auto", interpolation="none")
    axes.set(xlim=(-0.5, len(names) - 0.5), xticks=[], yticks=[])
    _class_names(where, axes, names)
    axes.set_ylabel(f"{len(shares):,} parties, by their largest class", fontsize=SMALL, color=MUTED, labelpad=6)
    scale = panel(where, left=WIDTH - 0.7, right=0.55, top=0.4 + head, bottom=0.3)
    bar = axes.figure.colorbar(image, cax=scale, ticks=[0, most / 2, most])
    bar.outline.set_visible(False)
    scale.set_yticklabels(["0 %", f"{50 * most:g} %", f"{100 * most:g} %"])
    scale.tick_params(length=0, colors=MUTED, labelsize=SMALL)


def _sizes(profile: Profile) -> Plot:
    return Plot(2.0, lambda where: _draw_sizes(where, profile), sizes_finding(profile))


def sizes_finding(profile: Profile) -> str:
    """How unequal the sizes are, in a sentence."""
    sizes = profile.quantity.sizes.values()
    return (
        f"Party sizes run from {min(sizes):,} to {max(sizes):,} rows; the {profile.parties:,} parties are worth "
        f"{profile.quantity.effective_parties:,.1f} of equal size."
    )


def _draw_sizes(where: Where, profile: Profile) -> None:
    ranked = np.sort(np.fromiter(profile.quantity.sizes.values(), dtype=float))[::-1]
    axes = panel(where, left=0.7, right=0.2, top=0.35, bottom=0.45, spines="b")
    title(where, "Rows of each party, largest first")
    x = np.linspace(0, len(ranked) - 1, min(len(ranked), 400))
    axes.fill_between(x, np.interp(x, range(len(ranked)), ranked), color=ACCENT, alpha=0.35, linewidth=0, step="mid")
    axes.axhline(ranked.mean(), color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    write(axes, len(ranked) - 1, ranked.mean(), f"mean {ranked.mean():,.0f}", shift=(0, 2), ha="right", va="bottom")
    axes.set(xlim=(0, len(ranked) - 1), ylim=(0, 1.06 * max(1, ranked[0])))
    axes.set_xticks([0, len(ranked) - 1], ["1st", f"{len(ranked):,}th"])
    axes.set_yticks([0, ranked[0]], ["0", f"{ranked[0]:,.0f}"])
    axes.xaxis.get_majorticklabels()[0].set_horizontalalignment("left")
    axes.xaxis.get_majorticklabels()[-1].set_horizontalalignment("right")

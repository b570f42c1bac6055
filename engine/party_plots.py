"""Pictures of a validation, continued: for which parties, and at what price."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedskew.engine.reading import algorithm_title, readable_bytes, score_name, scored, with_parties
from fedskew.engine.records import Candidate, Validation
from fedskew.profiles.drawing import (
    ACCENT,
    FAINT,
    INK,
    MUTED,
    PAPER,
    SMALL,
    STRONG,
    WIDTH,
    Plot,
    Where,
    figure,
    margin,
    panel,
    title,
    write,
)
from fedskew.profiles.naming import shorten

ROW = 0.25  # inches
FEW = 60  # parties up to which each gets a dot


def party_spread(found: Validation) -> Figure:
    """Accuracy of every party under each candidate, the worst named."""
    return figure(party_plot(found))


def cost_against_accuracy(found: Validation) -> Figure:
    """Accuracy against bytes per party and against seconds."""
    return figure(cost_plot(found))


def party_plot(found: Validation) -> Plot:
    """The picture of :func:`party_spread` before it is drawn."""
    shown = with_parties(found)
    worst = min(
        (one for one in shown if one.worst_party is not None),
        key=lambda one: one.worst_party.accuracy if one.worst_party else 1.0,
        default=None,
    )
    text = ""
    if worst is not None and worst.worst_party is not None:
        name, value = shorten(worst.worst_party.party), 100 * worst.worst_party.accuracy
        text = f" the lowest is party {name} with {value:.1f} % under {algorithm_title(worst.algorithm)}."
    finding = f"{score_name(found)} by party under {len(shown)} candidates:{text}"
    return Plot(0.6 + ROW * len(shown) + 0.35, lambda where: _draw_parties(where, found, shown), finding)


def _draw_parties(where: Where, found: Validation, shown: Sequence[Candidate]) -> None:
    title(where, f"{score_name(found)} in % of every party, the worst named")
    names = [algorithm_title(one.algorithm) for one in shown]
    axes = panel(where, left=margin(names), right=1.5, top=0.42, bottom=0.3, spines="b")
    tables = [np.sort([100 * v for v in one.by_party.values() if v is not None]) for one in shown]
    low, high = min(float(t[0]) for t in tables), max(float(t[-1]) for t in tables)
    air = max(0.5, 0.05 * (high - low))
    axes.set(xlim=(low - air, high + air), ylim=(len(shown) - 0.4, -0.6), yticks=[])
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    write(axes, high + air, -0.6, "the worst", shift=(6, 4), color=STRONG, fontsize=7.5)
    for row, (one, values) in enumerate(zip(shown, tables, strict=True)):
        colour = ACCENT if one.algorithm == found.recommended else INK
        write(axes, low - air, row, names[row], shift=(-6, 0), ha="right", color=colour)
        axes.plot([values[0], values[-1]], [row, row], color=FAINT, linewidth=3, solid_capstyle="round", zorder=1)
        if len(values) <= FEW:
            axes.plot(values, [row] * len(values), "o", markersize=4.5, color=colour, alpha=0.4, markeredgewidth=0)
        else:
            lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
            axes.plot([lower, upper], [row, row], color=colour, alpha=0.45, linewidth=6, solid_capstyle="butt")
            axes.plot([middle], [row], "|", color=colour, markersize=9, markeredgewidth=1.6)
        axes.plot([values[0]], [row], "o", markersize=5, color=STRONG, markeredgecolor=PAPER)
        if one.worst_party is not None:
            text = f"{shorten(one.worst_party.party, 12)} · {100 * one.worst_party.accuracy:.1f}"
            write(axes, high + air, row, text, shift=(6, 0), color=STRONG, fontsize=7.5)


def cost_plot(found: Validation) -> Plot:
    """The picture of :func:`cost_against_accuracy` before it is drawn."""
    shown = scored(found)
    return Plot(max(2.6, 0.8 + 0.2 * len(shown)), lambda where: _draw_costs(where, found, shown), cost_finding(found))


def cost_finding(found: Validation) -> str:
    """Who scores highest at which traffic, and who needs less; where all need the same, who is soonest done."""
    shown = scored(found)
    best, least = shown[0], min(one.bytes_per_party for one in shown)
    text = f"Cost against {score_name(found).lower()}: {algorithm_title(best.algorithm)} scores highest"
    text += f" and moves {readable_bytes(best.bytes_per_party)} per party, "
    if best.bytes_per_party > least:
        thrifty = next(one for one in shown if one.bytes_per_party == least)
        text += f"{best.bytes_per_party / least:.3g} times the {readable_bytes(least)} of {_titled(thrifty)}"
    elif any(one.bytes_per_party > least for one in shown):
        text += "the least of all"
    else:
        text += "as all do"
    soonest = min(shown, key=lambda one: one.seconds)
    return f"{text}; {_titled(soonest)} trained fastest, in {soonest.seconds:.3g} s."


def _titled(one: Candidate) -> str:
    return algorithm_title(one.algorithm)


def _draw_costs(where: Where, found: Validation, shown: Sequence[Candidate]) -> None:
    title(where, f"{score_name(found)} in % against what a candidate costs")
    texts = [f"{i} {shorten(algorithm_title(one.algorithm), 16)}" for i, one in enumerate(shown, 1)]
    names = margin(texts) + 0.1
    wide = (WIDTH - 0.55 - names) / 2
    values = [100 * one.accuracy.mean for one in shown if one.accuracy.mean is not None]
    air = max(0.3, 0.08 * (max(values) - min(values)))
    for side, (heading, costs) in enumerate(
        (
            ("MB per party", [one.bytes_per_party / 1e6 for one in shown]),
            ("seconds", [one.seconds for one in shown]),
        )
    ):
        axes = panel(
            where,
            left=0.5 + side * wide,
            right=names + (1 - side) * wide + 0.2,
            top=0.45,
            bottom=0.55,
            spines="lb",
        )
        axes.set(xlim=(0, 1.15 * max(*costs, 1e-9)), ylim=(min(values) - air, max(values) + air))
        axes.grid(color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel(heading, fontsize=SMALL, color=MUTED)
        axes.locator_params(axis="both", nbins=4)
        axes.tick_params(labelsize=7, labelleft=side == 0)
        for one, x, y in zip(shown, costs, values, strict=True):
            colour = ACCENT if one.algorithm == found.recommended else INK
            axes.plot([x], [y], "o", markersize=6, color=colour, alpha=0.75, markeredgecolor=PAPER)
        _number(axes, costs, values)
    _legend(where, shown, texts, found.recommended, names)


def _number(axes: Axes, costs: Sequence[float], values: Sequence[float]) -> None:
    """Put each point's number to its right; where points lie together, the numbers stand in one line."""
    scale, low = axes.get_xlim()[1], axes.get_ylim()
    taken: list[tuple[float, float, list[int]]] = []
    for i, (x, y) in enumerate(zip(costs, values, strict=True), 1):
        for near in taken:
            if abs(near[0] - x) < 0.12 * scale and abs(near[1] - y) < 0.075 * (low[1] - low[0]):
                near[2].append(i)
                break
        else:
            taken.append((x, y, [i]))
    for x, y, numbers in taken:
        write(axes, x, y, ",".join(map(str, numbers)), shift=(6, 0), fontsize=7)


def _legend(where: Where, shown: Sequence[Candidate], texts: Sequence[str], recommended: str, width: float) -> None:
    axes = panel(where, left=WIDTH - width, right=0.05, top=0.45, bottom=0.3)
    rows = max(len(shown), round((where.bbox.height / where.dpi - 0.75) / 0.19))
    axes.set(xlim=(0, 1), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
    for row, (one, text) in enumerate(zip(shown, texts, strict=True)):
        write(axes, 0, row, text, color=ACCENT if one.algorithm == recommended else INK)

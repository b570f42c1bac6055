"""Pictures of a validation: who is ahead, how surely, how soon, for which parties and at what price.

Each function returns a matplotlib Figure whose label (``get_label()``) is the finding in words.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedskew.engine.party_plots import cost_plot, party_plot
from fedskew.engine.reading import (
    algorithm_title,
    constant_name,
    mean_curve,
    ranked,
    score_name,
    scored,
    settled_round,
    settled_text,
    with_curves,
    with_parties,
)
from fedskew.engine.records import Candidate, Reference, Score, Validation
from fedskew.profiles.drawing import (
    ACCENT,
    FAINT,
    INK,
    MUTED,
    PAPER,
    STRONG,
    WIDTH,
    Plot,
    Where,
    figure,
    footnote,
    margin,
    panel,
    title,
    write,
)
from fedskew.profiles.naming import shorten

ROW = 0.25  # inches


def overview(found: Validation) -> Figure:
    """Everything a validation has to show in one figure."""
    return figure(*validation_plots(found))


def validation_plots(found: Validation) -> list[Plot]:
    """Those of the pictures for which there is something to show, in the order in which they are read."""
    plots = [_board(found)]
    plots += [_curves(found)] if with_curves(found) else []
    plots += [party_plot(found)] if with_parties(found) else []
    return plots + ([cost_plot(found)] if scored(found) else [])


def leaderboard(found: Validation) -> Figure:
    """Mean accuracy with its interval and a dot a seed, best first; reference lines below."""
    return figure(_board(found))


def learning_curves(found: Validation) -> Figure:
    """Accuracy by round of each candidate, with the range over seeds and a mark where the leader was settled."""
    return figure(_curves(found))


def _board(found: Validation) -> Plot:
    lines = [
        (name, line)
        for name, line in (
            ("centralised", found.references.centralised),
            ("local only", found.references.local_only),
            (constant_name(found), found.references.majority),
        )
        if line is not None
    ]
    best = ranked(found)[0]
    worth = "no score" if best.accuracy.mean is None else f"{100 * best.accuracy.mean:.1f} %"
    finding = f"Leaderboard of {len(found.candidates)} candidates: {algorithm_title(best.algorithm)} leads with {worth}"
    finding += _where_recommended(found)
    height = 0.62 + ROW * (len(found.candidates) + len(lines)) + 0.5
    return Plot(height, lambda where: _draw_board(where, found, lines), finding)


def _where_recommended(found: Validation) -> str:
    """The end of the finding: how the recommended one stands, where another leads."""
    for place, one in enumerate(ranked(found), 1):
        if one.algorithm == found.recommended and place > 1 and one.accuracy.mean is not None:
            name, score = algorithm_title(one.algorithm), 100 * one.accuracy.mean
            return f"; the recommended {name} is number {place} with {score:.1f} %."
    return "."


def _draw_board(where: Where, found: Validation, lines: Sequence[tuple[str, Reference]]) -> None:
    title(where, f"{score_name(found)} in %, mean with its 95 % interval, a dot a seed")
    rows = [(algorithm_title(one.algorithm), one.accuracy, one) for one in ranked(found)]
    names = [name for name, _, _ in rows] + [name for name, _ in lines]
    axes = panel(where, left=margin([*names, "recommended"]), right=1.3, top=0.45, bottom=0.55, spines="b")
    scores = [score for _, score, _ in rows] + [
        line.accuracy for _, line in lines if line is not found.references.majority
    ]
    low, high = _limits(scores)
    axes.set(xlim=(low, high), ylim=(len(names) - 0.3, -0.7), yticks=[])
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for row, (name, score, one) in enumerate(rows):
        chosen = one.algorithm == found.recommended
        _draw_score(axes, row, score, ACCENT if chosen else INK)
        weight = "bold" if chosen else "normal"
        write(axes, low, row, name, shift=(-6, 0), ha="right", weight=weight, color=ACCENT if chosen else INK)
        write(
            axes,
            high,
            row,
            _value(score, one),
            shift=(6, 0),
            weight=weight,
            color=STRONG if one.status != "ok" else INK,
        )
    for row, (name, line) in enumerate(lines, len(rows)):
        inside = line.accuracy.mean is not None and 100 * line.accuracy.mean >= low
        if inside:
            _draw_score(axes, row, line.accuracy, MUTED)
        write(axes, low, row, name, shift=(-6, 0), ha="right", color=MUTED)
        write(axes, high, row, _value(line.accuracy, None), shift=(6, 0), color=MUTED)
        if not inside:
            write(axes, low, row, "further left", shift=(3, 0), color=MUTED, fontsize=7)
    footnote(where, f"blue: the recommended {algorithm_title(found.recommended)}")


def _limits(scores: Sequence[Score]) -> tuple[float, float]:
    """Percent; the lower end is cut a little below what the candidates need, never above 0 where there is nothing."""
    values = [100 * value for s in scores for value in (s.mean, s.lower, s.upper, *s.by_seed) if value is not None]
    if not values:
        return 0.0, 100.0
    low, high = min(values), max(values)
    air = max(0.5, 0.06 * (high - low))
    return low - air, high + air


def _draw_score(axes: Axes, row: int, score: Score, colour: str) -> None:
    seeds = [100 * value for value in score.by_seed if value is not None]
    axes.plot(seeds, [row] * len(seeds), "o", markersize=3.6, color=colour, alpha=0.38, markeredgewidth=0)
    if score.lower is not None and score.upper is not None:
        axes.plot([100 * score.lower, 100 * score.upper], [row, row], color=colour, linewidth=1.4)
    if score.mean is not None:
        axes.plot([100 * score.mean], [row], "D", markersize=5.5, color=colour, markeredgecolor=PAPER)


def _value(score: Score, one: Candidate | None) -> str:
    if one is not None and one.status == "diverged":
        return f"diverged, round {one.diverged_at}"
    if score.mean is None:
        return "no score"
    half = "" if score.lower is None or score.upper is None else f" ± {50 * (score.upper - score.lower):.1f}"
    return f"{100 * score.mean:.1f}{half}" + (" failed" if one is not None and one.status == "failed" else "")


COLUMNS = 3


def _curves(found: Validation) -> Plot:
    shown = with_curves(found)
    settled, rows = settled_round(found), -(-len(shown) // COLUMNS)
    when = f" {settled_text(settled, max(len(mean_curve(one.accuracy)) for one in shown))}." if settled else ""
    still = [algorithm_title(one.algorithm) for one in shown if one.trend == "rising"]
    rising = f" Still rising at the end: {', '.join(still)}." if still else " No curve still rises at the end."
    finding = f"Learning curves of {len(shown)} candidates:{when}{rising}"
    return Plot(0.75 + 1.3 * rows, lambda where: _draw_curves(where, found, shown, settled), finding)


def _draw_curves(where: Where, found: Validation, shown: Sequence[Candidate], settled: int | None) -> None:
    title(where, f"{score_name(found)} in % by round, mean and range over seeds")
    means = [100 * mean_curve(one.accuracy) for one in shown]
    low, high = float(min(mean.min() for mean in means)), float(max(mean.max() for mean in means))
    rounds = max(2, *(len(mean) for mean in means))
    rows = -(-len(shown) // COLUMNS)
    wide, tall = (WIDTH - 0.55) / COLUMNS, 1.3
    for i, (one, mean) in enumerate(zip(shown, means, strict=True)):
        row, column = divmod(i, COLUMNS)
        axes = panel(
            where,
            left=0.45 + column * wide,
            right=WIDTH - 0.45 - (column + 1) * wide + 0.18,
            top=0.55 + row * tall,
            bottom=0.2 + (rows - 1 - row) * tall + 0.36,
            spines="lb",
        )
        _draw_curve(axes, one, mean, means, ACCENT if one.algorithm == found.recommended else INK)
        if settled is not None and settled > 1:
            axes.axvline(settled, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.set(xlim=(1, rounds), ylim=(low - 0.04 * (high - low) - 0.1, high + 0.08 * (high - low) + 0.1))
        axes.set_xticks([1, rounds])
        axes.xaxis.get_majorticklabels()[0].set_horizontalalignment("left")
        axes.xaxis.get_majorticklabels()[-1].set_horizontalalignment("right")
        axes.set_yticks([low, high], [f"{low:.0f}", f"{high:.0f}"] if column == 0 else ["", ""])
        axes.tick_params(labelsize=7)
    if settled is not None:
        footnote(where, f"{'dashed: ' * (settled > 1)}{settled_text(settled, rounds)}")


def _draw_curve(
    axes: Axes, one: Candidate, mean: NDArray[np.float64], others: Sequence[NDArray[np.float64]], colour: str
) -> None:
    for other in others:
        axes.plot(range(1, len(other) + 1), other, color=FAINT, linewidth=0.8)
    seeds = [seed for seed in one.accuracy.curve if len(seed) == len(mean)]
    if len(seeds) > 1:
        table = 100 * np.asarray(seeds)
        axes.fill_between(range(1, len(mean) + 1), table.min(0), table.max(0), color=colour, alpha=0.18, linewidth=0)
    axes.plot(range(1, len(mean) + 1), mean, color=colour, linewidth=1.5)
    end = f" diverged at {one.diverged_at}" if one.diverged_at is not None else f" {mean[-1]:.1f}"
    name = shorten(algorithm_title(one.algorithm), 15)
    axes.set_title(name + end, fontsize=7.5, color=colour, loc="left", pad=3, weight="bold")

"""Pictures of a validation: who is ahead, how surely, how soon, for which parties and at what price.

Each function returns a matplotlib Figure whose label (``get_label()``) is the finding in words.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from numpy.typing import NDArray

from fedskew.engine.algorithms.registry import find_algorithm
from fedskew.engine.records import Candidate, Reference, Score, Validation
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
    figure,
    footnote,
    margin,
    panel,
    shorten,
    title,
    write,
)

ROW = 0.25  # inches
FEW = 60  # parties up to which each gets a dot


def overview(found: Validation) -> Figure:
    """Everything a validation has to show in one figure."""
    return figure(*validation_plots(found))


def validation_plots(found: Validation) -> list[Plot]:
    """Those of the pictures for which there is something to show, in the order in which they are read."""
    plots = [_board(found)]
    plots += [_curves(found)] if _with_curves(found) else []
    plots += [_parties(found)] if _with_parties(found) else []
    return plots + ([_costs(found)] if _scored(found) else [])


def leaderboard(found: Validation) -> Figure:
    """Mean accuracy with its interval and a dot a seed, best first; reference lines below."""
    return figure(_board(found))


def learning_curves(found: Validation) -> Figure:
    """Accuracy by round of each candidate, with the range over seeds and a mark where the leader was settled."""
    return figure(_curves(found))


def party_spread(found: Validation) -> Figure:
    """Accuracy of every party under each candidate, the worst named."""
    return figure(_parties(found))


def cost_against_accuracy(found: Validation) -> Figure:
    """Accuracy against bytes per party and against seconds."""
    return figure(_costs(found))


def ranked(found: Validation) -> list[Candidate]:
    """The candidates, best mean first; those without a score last."""
    return sorted(found.candidates, key=lambda c: -1e9 if c.accuracy.mean is None else c.accuracy.mean, reverse=True)


def algorithm_title(name: str) -> str:
    """An algorithm's name as the field writes it; an unknown one is shown as it is.

    Examples
    --------
    >>> algorithm_title("scaffold"), algorithm_title("mine")
    ('SCAFFOLD', 'mine')
    """
    try:
        return find_algorithm(name).title
    except ValueError:
        return shorten(name)


def settled_round(found: Validation) -> int | None:
    """First round, counted from 1, from which the leader by mean score stays the leader to the end.

    None where there are no two curves to compare.
    """
    means = [_mean_curve(one.accuracy) for one in found.candidates if one.accuracy.curve]
    rounds = min((len(mean) for mean in means), default=0)
    if len(means) < 2 or rounds == 0:
        return None
    leaders = np.asarray([mean[:rounds] for mean in means]).argmax(axis=0)
    changes = [i + 1 for i, (before, after) in enumerate(pairwise(leaders)) if before != after]
    return (changes[-1] if changes else 0) + 1


def settled_text(settled: int, rounds: int) -> str:
    """When the lead stopped changing hands.

    Examples
    --------
    >>> settled_text(4, 30), settled_text(30, 30)
    ('the leader is settled from round 4 on', 'the lead still changed hands in the last round')
    """
    if settled == rounds > 1:
        return "the lead still changed hands in the last round"
    return f"the leader is settled from round {settled} on"


def _score_name(found: Validation) -> str:
    return "R²" if found.settings.get("metric") == "r_squared" else "Accuracy"


def _scored(found: Validation) -> list[Candidate]:
    return [one for one in ranked(found) if one.accuracy.mean is not None]


def _with_curves(found: Validation) -> list[Candidate]:
    return [one for one in ranked(found) if any(one.accuracy.curve)]


def _with_parties(found: Validation) -> list[Candidate]:
    return [one for one in ranked(found) if any(value is not None for value in one.by_party.values())]


def _mean_curve(score: Score) -> NDArray[np.float64]:
    rounds = max(len(seed) for seed in score.curve)
    table = np.full((len(score.curve), rounds), np.nan)
    for row, seed in zip(table, score.curve, strict=True):
        row[: len(seed)] = seed
    told = np.isfinite(table).any(axis=0)
    return np.asarray(np.nanmean(table[:, told], axis=0))


def _board(found: Validation) -> Plot:
    lines = [
        (name, line)
        for name, line in (
            ("centralised", found.references.centralised),
            ("local only", found.references.local_only),
            ("majority class", found.references.majority),
        )
        if line is not None
    ]
    best = ranked(found)[0]
    worth = "no score" if best.accuracy.mean is None else f"{100 * best.accuracy.mean:.1f} %"
    finding = (
        f"Leaderboard of {len(found.candidates)} candidates: {algorithm_title(best.algorithm)} leads with {worth}."
    )
    height = 0.62 + ROW * (len(found.candidates) + len(lines)) + 0.5
    return Plot(height, lambda where: _draw_board(where, found, lines), finding)


def _draw_board(where: FigureBase, found: Validation, lines: Sequence[tuple[str, Reference]]) -> None:
    title(where, f"{_score_name(found)} in %, mean with its 95 % interval, a dot a seed")
    rows = [(algorithm_title(one.algorithm), one.accuracy, one) for one in ranked(found)]
    names = [name for name, _, _ in rows] + [name for name, _ in lines]
    axes = panel(where, left=margin([*names, "recommended"]), right=1.3, top=0.45, bottom=0.55, spines="b")
    scores = [score for _, score, _ in rows] + [line.accuracy for name, line in lines if name != "majority class"]
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
            write(axes, low, row, "‹ further left", shift=(3, 0), color=MUTED, fontsize=7)
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
    shown = _with_curves(found)
    settled, rows = settled_round(found), -(-len(shown) // COLUMNS)
    when = f" {settled_text(settled, max(len(_mean_curve(one.accuracy)) for one in shown))}." if settled else ""
    still = [algorithm_title(one.algorithm) for one in shown if one.trend == "rising"]
    rising = f" Still rising at the end: {', '.join(still)}." if still else " No curve still rises at the end."
    finding = f"Learning curves of {len(shown)} candidates:{when}{rising}"
    return Plot(0.75 + 1.3 * rows, lambda where: _draw_curves(where, found, shown, settled), finding)


def _draw_curves(where: FigureBase, found: Validation, shown: Sequence[Candidate], settled: int | None) -> None:
    title(where, f"{_score_name(found)} in % by round, mean and range over seeds")
    means = [100 * _mean_curve(one.accuracy) for one in shown]
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
        if settled is not None:
            axes.axvline(settled, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.set(xlim=(1, rounds), ylim=(low - 0.04 * (high - low) - 0.1, high + 0.08 * (high - low) + 0.1))
        axes.set_xticks([1, rounds])
        axes.xaxis.get_majorticklabels()[0].set_ha("left")
        axes.xaxis.get_majorticklabels()[-1].set_ha("right")
        axes.set_yticks([low, high], [f"{low:.0f}", f"{high:.0f}"] if column == 0 else ["", ""])
        axes.tick_params(labelsize=7)
    if settled is not None:
        footnote(where, f"dashed: {settled_text(settled, rounds)}")


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
    name = algorithm_title(one.algorithm)
    axes.set_title(name + end, fontsize=7.5, color=colour, loc="left", pad=3, weight="bold")


def _parties(found: Validation) -> Plot:
    shown = _with_parties(found)
    worst = min(
        (one for one in shown if one.worst_party is not None),
        key=lambda one: one.worst_party.accuracy if one.worst_party else 1.0,
        default=None,
    )
    text = ""
    if worst is not None and worst.worst_party is not None:
        name, value = shorten(worst.worst_party.party), 100 * worst.worst_party.accuracy
        text = f" the lowest is {name} with {value:.1f} % under {algorithm_title(worst.algorithm)}."
    finding = f"{_score_name(found)} by party under {len(shown)} candidates:{text}"
    return Plot(0.6 + ROW * len(shown) + 0.35, lambda where: _draw_parties(where, found, shown), finding)


def _draw_parties(where: FigureBase, found: Validation, shown: Sequence[Candidate]) -> None:
    title(where, f"{_score_name(found)} in % of every party, the worst named")
    names = [algorithm_title(one.algorithm) for one in shown]
    axes = panel(where, left=margin(names), right=1.5, top=0.42, bottom=0.3, spines="b")
    tables = [np.sort([100 * v for v in one.by_party.values() if v is not None]) for one in shown]
    low, high = min(float(t[0]) for t in tables), max(float(t[-1]) for t in tables)
    air = max(0.5, 0.05 * (high - low))
    axes.set(xlim=(low - air, high + air), ylim=(len(shown) - 0.4, -0.6), yticks=[])
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
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


def _costs(found: Validation) -> Plot:
    shown = _scored(found)
    cheap = min(shown, key=lambda one: (one.bytes_per_party, one.seconds))
    best = shown[0]
    finding = f"Cost against {_score_name(found).lower()}: {algorithm_title(best.algorithm)} scores highest at "
    finding += (
        f"{readable_bytes(best.bytes_per_party)} per party; {algorithm_title(cheap.algorithm)} is the cheapest at "
    )
    finding += f"{readable_bytes(cheap.bytes_per_party)}."
    return Plot(max(2.6, 0.8 + 0.2 * len(shown)), lambda where: _draw_costs(where, found, shown), finding)


def readable_bytes(count: int) -> str:
    """Bytes as a person reads them.

    Examples
    --------
    >>> readable_bytes(17), readable_bytes(4_100_000)
    ('17 B', '4.1 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _draw_costs(where: FigureBase, found: Validation, shown: Sequence[Candidate]) -> None:
    title(where, f"{_score_name(found)} in % against what a candidate costs")
    texts = [f"{i} {algorithm_title(one.algorithm)}" for i, one in enumerate(shown, 1)]
    names = margin(texts) + 0.1
    wide = (WIDTH - 0.55 - names) / 2
    values = [100 * one.accuracy.mean for one in shown if one.accuracy.mean is not None]
    air = max(0.3, 0.08 * (max(values) - min(values)))
    for side, (heading, costs) in enumerate(
        (
            ("MB per party, whole run", [one.bytes_per_party / 1e6 for one in shown]),
            ("seconds to train", [one.seconds for one in shown]),
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


def _legend(
    where: FigureBase, shown: Sequence[Candidate], texts: Sequence[str], recommended: str, width: float
) -> None:
    axes = panel(where, left=WIDTH - width, right=0.05, top=0.45, bottom=0.3)
    rows = max(len(shown), round((where.bbox.height / where.dpi - 0.75) / 0.19))
    axes.set(xlim=(0, 1), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
    for row, (one, text) in enumerate(zip(shown, texts, strict=True)):
        write(axes, 0, row, text, color=ACCENT if one.algorithm == recommended else INK)

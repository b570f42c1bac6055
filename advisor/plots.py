"""Pictures of a recommendation: the tree with the path lit, and what the evidence expects.

Each function returns a matplotlib Figure whose label (``get_label()``) is the finding in words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from fedskew.advisor.recommendation import KIND_TITLES, Recommendation
from fedskew.advisor.tree import LEAVES, QUESTIONS, ROOT, Step
from fedskew.engine.reading import algorithm_title
from fedskew.profiles.counting import signed
from fedskew.profiles.drawing import (
    ACCENT,
    FAINT,
    INK,
    MUTED,
    PAPER,
    Plot,
    Where,
    figure,
    margin,
    panel,
    title,
    write,
)
from fedskew.profiles.naming import shorten

LINE = 0.2  # inches
STEP = 0.2  # inches that each level of the tree stands further to the right


def overview(advice: Recommendation) -> Figure:
    """Everything a recommendation has to show in one figure."""
    return figure(*recommendation_plots(advice))


def recommendation_plots(advice: Recommendation) -> list[Plot]:
    """The tree, and the second opinion where the evidence has one."""
    return [_tree(advice)] + ([_opinion(advice)] if advice.second_opinion.candidates else [])


def decision_tree(advice: Recommendation) -> Figure:
    """The tree of the paper as it was walked, the path lit; branches not taken show where they lead."""
    return figure(_tree(advice))


def expected_gains(advice: Recommendation) -> Figure:
    """What published results lead to expect of each algorithm against FedAvg, with intervals."""
    return figure(_opinion(advice))


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of the drawn tree: an answer at a depth, what follows it, and whether the path runs through it."""

    depth: int
    text: str
    result: str
    lit: bool


def branches(path: Sequence[Step]) -> tuple[Branch, ...]:
    """The lines of the tree for a path: questions on it are opened, all others are only named.

    A path that this tree does not know (from an older version) gives its own lines and no others.

    Examples
    --------
    >>> steps = [Step(question="Which skew prevails beyond chance?", answer="feature")]
    >>> [line.result for line in branches(steps) if line.lit]
    ['', 'SCAFFOLD']
    """
    lines, used = _walked(ROOT, list(path), 0)
    steps = path[used:] if used else path
    depth = max((line.depth for line in lines if line.lit), default=-1) + 1
    return (*lines, *(Branch(depth, f"{step.question} {step.answer}", "", lit=True) for step in steps))


def _walked(place: str, path: list[Step], depth: int) -> tuple[list[Branch], int]:
    question = QUESTIONS[place]
    if not path or path[0].question != question.text or path[0].answer not in question.ways:
        return [], 0
    lines, used = [Branch(depth, question.text, "", lit=True)], 1
    for answer, way in question.ways.items():
        lit = answer == path[0].answer
        ends = "" if lit and way in QUESTIONS else _result(way)
        lines.append(Branch(depth + 1, _answer_text(answer), ends, lit))
        if lit and way in QUESTIONS:
            below, more = _walked(way, path[1:], depth + 2)
            lines += below
            used += more
    return lines, used


def _answer_text(answer: str) -> str:
    return KIND_TITLES.get(answer, "no skew" if answer == "none" else answer)


def _result(way: str) -> str:
    return ", ".join(dict.fromkeys(algorithm_title(name) for name in _ends(way)))


def _ends(way: str) -> Iterator[str]:
    """The algorithms that can still be reached from a place in the tree."""
    if way in LEAVES:
        yield LEAVES[way].algorithm
        return
    for below in QUESTIONS[way].ways.values():
        yield from _ends(below)


def _tree(advice: Recommendation) -> Plot:
    lines = branches(advice.path)
    answers = ", ".join(_answer_text(step.answer) for step in advice.path)
    finding = f"The path through the decision tree ({answers}) ends at {algorithm_title(advice.algorithm)}."
    return Plot(0.55 + LINE * len(lines), lambda where: _draw_tree(where, lines, advice.algorithm), finding)


def _draw_tree(where: Where, lines: Sequence[Branch], algorithm: str) -> None:
    title(where, f"The path through the tree: {algorithm_title(algorithm)}")
    axes = panel(where, left=0.15, right=1.4, top=0.4, bottom=0.1)
    room = where.bbox.width / where.dpi - 0.25  # inches
    width = (room - 1.3) / STEP  # levels that fit
    axes.set(xlim=(0, width), ylim=(len(lines) - 0.5, -0.5), xticks=[], yticks=[])
    for row, above in _elbows(lines):
        x = lines[row].depth - 0.6
        lit = lines[row].lit
        axes.plot(
            [x, x, x + 0.45],
            [above + 0.3, row, row],
            color=ACCENT if lit else FAINT,
            linewidth=1.8 if lit else 1,
            zorder=2 + lit,
        )
    for row, line in enumerate(lines):
        colour = ACCENT if line.lit else MUTED
        asked = line.lit and not line.result and line.text.rstrip().endswith("?")
        how: dict[str, Any] = {
            "color": INK if asked else colour,
            "weight": "bold" if line.lit and not asked else "normal",
        }
        most = int((room - STEP * line.depth - 1.35 * bool(line.result)) / 0.068)
        write(axes, line.depth, row, shorten(line.text, most), **how)
        if line.result:
            write(axes, width, row, f"→ {line.result}", color=colour, weight="bold" if line.lit else "normal")


def _elbows(lines: Sequence[Branch]) -> Iterator[tuple[int, int]]:
    """Each line but the first with the nearest line above that is one level up."""
    for row, line in enumerate(lines):
        above = next((i for i in range(row - 1, -1, -1) if lines[i].depth < line.depth), None)
        if above is not None:
            yield row, above


def _opinion(advice: Recommendation) -> Plot:
    found = advice.second_opinion
    finding = f"Second opinion from {found.settings} published settings: {found.text}"
    return Plot(0.75 + 0.23 * len(found.candidates) + 0.25, lambda where: _draw_opinion(where, advice), finding)


def _draw_opinion(where: Where, advice: Recommendation) -> None:
    title(where, "Expected gain over FedAvg in points, 95 %")
    shown = sorted(advice.second_opinion.candidates, key=lambda one: -one.expected_gain.mean)
    names = [algorithm_title(one.algorithm) for one in shown]
    axes = panel(where, left=margin(names), right=1.6, top=0.42, bottom=0.35, spines="b")
    ends = [value for one in shown for value in (one.expected_gain.lower, one.expected_gain.upper)]
    low, high = min(ends) - 0.5, max(ends) + 0.5
    axes.set(xlim=(low, high), ylim=(len(shown) - 0.4, -0.6), yticks=[])
    axes.axvline(0, color=MUTED, linewidth=0.9)
    for row, (one, name) in enumerate(zip(shown, names, strict=True)):
        chosen, gain = one.algorithm == advice.algorithm, one.expected_gain
        colour = ACCENT if chosen else INK
        axes.plot([gain.lower, gain.upper], [row, row], color=colour, linewidth=1.4, alpha=1 if chosen else 0.6)
        axes.plot([gain.mean], [row], "D", color=colour, markersize=5.5, markeredgecolor=PAPER)
        write(axes, low, row, name, shift=(-6, 0), ha="right", color=colour, weight="bold" if chosen else "normal")
        text = (
            f"{signed(gain.mean)} ({signed(gain.lower)} to {signed(gain.upper)})"
            if gain.lower < gain.upper
            else "the baseline"
        )
        write(axes, high, row, text, shift=(6, 0), color=colour, fontsize=7.5)

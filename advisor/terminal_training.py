"""The terminal's view of a validation: the verdict, the leaderboard, and the live table while training runs."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedskew.advisor.terminal_parts import clean, columns, labelled
from fedskew.advisor.wording import candidate_note, how_trained
from fedskew.engine import Progress, Validation
from fedskew.engine.reading import algorithm_title, constant_name, ranked, readable_bytes, score_name
from fedskew.engine.records import Candidate, Comparison, Score
from fedskew.profiles.counting import signed

WIDE = 110  # columns of a terminal from which the leaderboard shows more
NARROW = 68  # below which it shows less
WIDE_COLUMNS = ("balanced", "worst party")


def verdict_lines(found: Validation) -> RenderableType:
    """The verdict in one sentence, and why runs as short as these may mislead."""
    lines = [(found.verdict.text, "bold cyan")]
    ranking = found.ranking
    if ranking is not None and ranking.leader is not None and not ranking.stable:
        rising = f"; still rising: {', '.join(map(algorithm_title, ranking.rising))}" if ranking.rising else ""
        since = f"{algorithm_title(ranking.leader)} leads only since round {ranking.settled_at}"
        lines.append((f"Short runs mislead: {since}{rising}.", "yellow"))
    return labelled("Verdict", lines)


def board_view(found: Validation, width: int = 80) -> RenderableType:
    """The leaderboard with the reference lines; worst parties where ``width`` columns allow, no traffic where not."""
    wide, narrow = width >= WIDE, width < NARROW
    score = score_name(found)
    score = "accuracy" if score == "Accuracy" else f"{score},"
    heading = f"{score} %" if narrow else f"{score} % (95 %)"
    table = columns("algorithm", heading)
    table.add_column("against advice", no_wrap=not narrow)
    for title in () if narrow else ("traffic", *WIDE_COLUMNS[: 2 * wide]):
        table.add_column(title, no_wrap=True)
    if not narrow:
        table.add_column("note")
    notes = {one.algorithm: candidate_note(one) for one in ranked(found)}
    gaps = {gap.algorithm: gap for gap in found.comparisons}
    for one in ranked(found):
        gap = gaps.get(one.algorithm)
        extra = (
            Text(readable_bytes(one.bytes_per_party)),
            Text(_percent(one.balanced_accuracy.mean)),
            Text(_worst(one)),
        )
        table.add_row(
            Text(algorithm_title(one.algorithm), "bold" if one.algorithm == found.recommended else ""),
            _interval(one.accuracy, narrow=narrow),
            Text(_against(one, gap, found.recommended)),
            *extra[: 0 if narrow else 1 + 2 * wide],
            *([] if narrow else [Text(notes[one.algorithm])]),
        )
    lines = found.references
    for title, line in (
        ("centralised", lines.centralised),
        ("local only", lines.local_only),
        (constant_name(found), lines.majority),
    ):
        if line is not None:
            table.add_row(Text(title, "dim"), _interval(line.accuracy, narrow=narrow))
    below = [f"{algorithm_title(name)}: {note}." for name, note in notes.items() if note and narrow]
    return Group(table, *map(Text, below), Text(how_trained(found), "dim"))


def _against(one: Candidate, gap: Comparison | None, recommended: str) -> str:
    if gap is not None:
        low, high = gap.lower, gap.upper
        span = "no interval" if low is None or high is None else f"{signed(100 * low)} to {signed(100 * high)}"
        return f"{signed(100 * gap.difference)} ({span})"
    return "recommended" if one.algorithm == recommended else "-"


def _interval(score: Score, *, narrow: bool) -> Text:
    low, high = score.lower, score.upper
    told = not narrow and low is not None and high is not None and low != high
    shown = f" ({100 * (low or 0):.1f} to {100 * (high or 0):.1f})" if told else ""
    return Text.assemble("-" if score.mean is None else f"{100 * score.mean:.1f}", (shown, "dim"))


def _worst(one: Candidate) -> str:
    return "" if one.worst_party is None else f"{clean(one.worst_party.party)} {_percent(one.worst_party.accuracy)}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def progress_view(lines: Iterable[Progress]) -> Table:
    """The live table: how far each run is and how well it does."""
    table = columns("training", "rounds", "", "score")
    for line in lines:
        done = round(20 * line.round / max(1, line.rounds))
        bar = Text("━" * done, "cyan") + Text("━" * (20 - done), "dim")
        count = f"{line.round}/{line.rounds}"
        name = algorithm_title(line.name)
        table.add_row(Text(name), Text(count), bar, Text(_percent(line.score) if line.round else ""))
    return table

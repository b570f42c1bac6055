"""Who won how often, and how much each candidate loses to the best: a study's leaderboard, as Markdown."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from fedskew.advisor.study.rows import best, grouped, usable
from fedskew.advisor.study.run import Result
from fedskew.advisor.study.spelling import skew_of
from fedskew.profiles.counting import signed

TIE = 0.0005  # share of 1: as far as a percent with one digit can tell


@dataclass(slots=True)
class Line:
    """One candidate's tally over the settings it ran in; points are percentage points of accuracy."""

    wins: int = 0
    ranks: list[int] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)
    balanced: list[float] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    failed: int = 0
    diverged: int = 0


def tally(results: Sequence[Result]) -> dict[str, Line]:
    """Count over settings: wins (ties count for all), rank, regret, gain over FedAvg, failures.

    Regret: the best candidate's mean minus one's own. A seed that diverged counts what the constant predictor reaches.
    Of a grid of hyperparameters the best on the test rows stands for all.
    """
    lines: dict[str, Line] = defaultdict(Line)
    for result in results:
        majority = result.validation.references.majority
        groups = {name: best(members) for name, members in grouped(result.validation.candidates).items()}
        scores = {name: usable(one.accuracy, majority.accuracy.mean) for name, one in groups.items()}
        known = {name: score for name, score in scores.items() if score is not None}
        even = {n: usable(one.balanced_accuracy, majority.balanced_accuracy.mean) for n, one in groups.items()}
        top = max((score for score in even.values() if score is not None), default=0.0)
        for name, score in known.items():
            line, one, level = lines[name], groups[name], even[name]
            lead = max(known.values()) - score
            line.wins += lead <= TIE and one.status == "ok"
            line.ranks.append(1 + sum(other > score + TIE for other in known.values()))
            line.regret.append(100 * lead)
            line.balanced += [] if level is None else [100 * (top - level)]
            line.failed += one.status == "failed"
            line.diverged += one.status == "diverged"
            if "fedavg" in known and name != "fedavg":
                line.gains.append(100 * (score - known["fedavg"]))
    return dict(lines)


def leaderboard(title: str, note: str, results: Sequence[Result]) -> str:
    """The leaderboard as Markdown: over all settings, then by kind of skew."""
    text = [f"# {title}", "", *([note, ""] if note else [])]
    text += [f"{len(results)} settings. Points are percentage points; a seed that diverged counts as the constant", ""]
    text[-2] += " predictor. Wins within 0.05 points count for all; of a grid of hyperparameters the best is taken."
    text += _table(tally(results))
    by_kind: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_kind[skew_of(result.setting.plan)[0]].append(result)
    for kind in sorted(by_kind) if len(by_kind) > 1 else ():
        text += ["", f"## {kind}: {len(by_kind[kind])} settings", "", *_table(tally(by_kind[kind]))]
    return "\n".join(text) + "\n"


def _table(lines: dict[str, Line]) -> list[str]:
    names = "| candidate | settings | wins | mean rank | mean regret | worst regret | mean regret, balanced accuracy |"
    head = [f"{names} mean gain on FedAvg | failed | diverged |", "|---|" + "---:|" * 9]
    order = sorted(lines, key=lambda name: (fmean(lines[name].regret), name))
    return head + [_row(name, lines[name]) for name in order]


def _row(name: str, line: Line) -> str:
    gain = signed(fmean(line.gains), 2) if line.gains else "-"
    even = f"{fmean(line.balanced):.2f}" if line.balanced else "-"
    cells = (
        *(name, len(line.ranks), line.wins, f"{fmean(line.ranks):.1f}", f"{fmean(line.regret):.2f}"),
        *(f"{max(line.regret):.1f}", even, gain, line.failed, line.diverged),
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"

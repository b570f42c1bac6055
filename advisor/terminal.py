"""What a person sees in a terminal: the answer first, then why, then the tables. Names are data, never markup.

The order is that of the page: verdict, advice with its price, how sure, the skew, why, the leaderboard, the checks.
"""

from collections.abc import Iterable, Mapping

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedskew.advisor.advice import Advice
from fedskew.advisor.recommendation import KIND_TITLES, Recommendation
from fedskew.advisor.terminal_parts import clean, columns, labelled, printable_line
from fedskew.advisor.terminal_training import board_view, verdict_lines
from fedskew.advisor.wording import (
    about,
    prevailing_sentence,
    price_remark,
    price_value,
    reading_of,
    standing_out,
    sureness,
)
from fedskew.engine import Validation
from fedskew.engine.reading import algorithm_title
from fedskew.profiles import Profile
from fedskew.profiles.counting import many, signed
from fedskew.profiles.partitioning import Summary

Shown = Profile | Recommendation | Validation | Advice | Summary
"""What the terminal can show."""
MARKS = {"none": ("·", "dim"), "mild": ("!", "yellow"), "strong": ("‼", "bold red")}
MOST = 12  # findings shown before the rest is only counted
NARROW, TINY = 68, 52  # columns of a terminal below which a table shows less, and still less


def skew_lines(profile: Profile) -> RenderableType:
    """How bad, which kind, which silo."""
    lines = [(prevailing_sentence(profile), "bold cyan")]
    lines += [(line, "") for line in standing_out(profile)]
    return labelled("Skew", [*lines, (about(profile) + ".", "dim")])


def skew_table(profile: Profile, width: int = 80) -> RenderableType:
    """The four skews with interval, p-value, severity and what they read as; less of it in a narrow terminal."""
    narrow, tiny = width < NARROW, width < TINY
    table = columns("skew", "beyond chance" + (", 95 %" if not narrow else ""), *(("p",) if not narrow else ()))
    table.add_column("severity", no_wrap=True)
    if not tiny:
        table.add_column("reads as")
    label, quantity = profile.label, profile.quantity
    rows = (
        ("label", label, label.interval, reading_of(label.beta).replace("Dirichlet", "Dir")),
        ("quantity", quantity, quantity.interval, f"{quantity.effective_parties:.1f} effective parties"),
        ("feature", profile.feature, profile.feature.interval, ""),
        ("concept", profile.concept, None, ""),
    )
    for name, skew, interval, reads in rows:
        value = Text(f"{skew.skew:z.3f}" if skew.skew is not None else "-")
        if skew.skew is not None and interval is not None and not narrow:
            value.append(f" ({interval[0]:z.3f} to {interval[1]:z.3f})", "dim")
        mark, style = MARKS[skew.severity]
        p = "" if skew.p_value is None else "< .001" if skew.p_value < 0.001 else f"{skew.p_value:.2g}"
        told = reads if skew.skew is not None else f"not measurable: {(skew.reason or '').replace('_', ' ')}"
        table.add_row(
            Text(name),
            value,
            *([] if narrow else [Text(p)]),
            Text(f"{mark} {skew.severity}", style) if skew.skew is not None else Text("-"),
            *([] if tiny else [Text(told, "dim")]),
        )
    return table


def findings(profile: Profile) -> RenderableType | None:
    """What reading and profiling noticed, the first of it."""
    if not profile.hygiene:
        return None
    rows = [(*MARKS[finding.severity], finding.text) for finding in profile.hygiene[:MOST]]
    if len(profile.hygiene) > MOST:
        rows.append(("", "", f"and {len(profile.hygiene) - MOST} more findings (see --json)"))
    return marked("Data", rows)


def marked(label: str, rows: Iterable[tuple[str, str, str]]) -> Table:
    """Lines of (mark, its style, text) behind a label; wrapped parts stay right of the mark."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for mark, colour, text in rows:
        grid.add_row(Text(mark, colour), Text(printable_line(text)))
    return labelled(label, [grid])


def advice_lines(advice: Recommendation) -> RenderableType:
    """The sentence, the price, and how sure."""
    word, sure = sureness(advice)
    return Group(
        labelled("Advice", [(advice.sentence, "bold cyan")]),
        labelled("Price", [(f"{price_value(advice.price)} per party and round ({price_remark(advice.price)}).", "")]),
        labelled("How sure", [(f"{word.capitalize()}. {sure}", "")]),
    )


def why_lines(advice: Recommendation) -> RenderableType:
    """The path through the tree, what stands behind its end, and where to start."""
    titles = {**KIND_TITLES, "none": "no skew"}
    answers = [titles.get(step.answer, step.answer) for step in advice.path]
    asked = [step.question for step in advice.path]
    path = [f"{question} {text[:1].upper()}{text[1:]}." for question, text in zip(asked, answers, strict=True)]
    lines: list[RenderableType] = [
        labelled("Why", [*((step, "dim") for step in path), *((w, "") for w in advice.why[:1])])
    ]
    lines.append(labelled("Start", [(_settings(advice.hyperparameters.start) + ".", "")]))
    return Group(*lines)


def check_lines(advice: Recommendation) -> RenderableType:
    """The checks that found something, what published settings expect, and what would change the answer."""
    found = [(*MARKS[check.severity], check.text) for check in advice.checks if check.severity != "none"]
    parts: list[RenderableType] = [marked("Checks", found)] if found else []
    evidence = [(line, "") for line in _evidence(advice)]
    parts += [labelled("Evidence", evidence)] if evidence else []
    changes = [(change.text, "dim") for change in advice.what_would_change[:4]]
    return Group(*parts, *([labelled("Changes", changes)] if changes else []))


def _evidence(advice: Recommendation) -> list[str]:
    """What published settings expect of the best three algorithms, against FedAvg."""
    lines = []
    known = [one for one in advice.second_opinion.candidates if one.settings and one.algorithm != "fedavg"]
    for one in known[:3]:
        gain = one.expected_gain
        span = f"{signed(gain.mean)} points against FedAvg ({signed(gain.lower)} to {signed(gain.upper)})"
        basis = f"{many(one.settings, 'setting')} on {many(one.datasets, 'data set')}"
        lines.append(f"{algorithm_title(one.algorithm)} {span}, {basis}.")
    return lines


def _settings(values: Mapping[str, float | str]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )


def partition_view(made: Summary) -> RenderableType:
    """What was written, and how large the parties are: the largest and the smallest where there are many."""
    title = Text.assemble(
        ("Partition  ", "bold"), (made.strategy, "bold cyan"), f", seed {made.seed}, written to {made.index}"
    )
    table = columns("party", "rows", "", "classes held")
    ranked = sorted(made.sizes, key=lambda name: -made.sizes[name])
    half = MOST // 2
    shown = list(made.sizes) if len(ranked) <= MOST else [*ranked[:half], *ranked[-half:]]
    most = max(made.sizes.values(), default=1)
    for i, name in enumerate(shown):
        if len(ranked) > MOST and i == half:
            table.add_row(Text(f"… {len(ranked) - MOST} more", "dim"))
        bar = Text("━" * round(24 * made.sizes[name] / max(1, most)), "cyan")
        held = sum(count > 0 for count in made.counts[name])
        table.add_row(Text(clean(name)), Text(f"{made.sizes[name]:,}"), bar, Text(f"{held} of {len(made.class_names)}"))
    lines: list[RenderableType] = [title, Text(), table]
    if made.silos is not None:
        how = f" (read them with {' '.join(made.silo_options)})" if made.silo_options else ""
        lines.append(Text(f"Silo files: {made.silos}{how}", "dim"))
    return Group(*lines)


def show(console: Console, record: Shown) -> None:
    """Print a record, part by part, with an empty line after each."""
    if isinstance(record, Summary):
        views: list[RenderableType | None] = [partition_view(record)]
    elif isinstance(record, Profile):
        views = _views(console.width, record, None, None)
    elif isinstance(record, Recommendation):
        views = _views(console.width, record.profile, record, None)
    elif isinstance(record, Validation):
        views = _views(console.width, None, None, record)
    else:
        views = _views(console.width, record.profile, record.recommendation, record.validation)
    for view in views:
        if view is not None:
            console.print(view)
            console.print()


def _views(
    width: int, profile: Profile | None, advice: Recommendation | None, found: Validation | None
) -> list[RenderableType | None]:
    answer = [
        *([verdict_lines(found)] if found is not None else []),
        *([advice_lines(advice)] if advice is not None else []),
        *([skew_lines(profile)] if profile is not None else []),
    ]
    return [
        Group(*answer),
        skew_table(profile, width) if profile is not None else None,
        why_lines(advice) if advice is not None else None,
        board_view(found, width) if found is not None else None,
        check_lines(advice) if advice is not None else None,
        findings(profile) if profile is not None else None,
    ]

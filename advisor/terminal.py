"""What a person sees in a terminal: the answer first, then why, then the tables. Names are data, never markup."""

from collections.abc import Iterable, Mapping

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedskew.advisor.advice import Advice
from fedskew.advisor.recommendation import Recommendation
from fedskew.engine import Progress, Validation, find_algorithm
from fedskew.engine.records import Candidate, Comparison, Score
from fedskew.profiles import Profile
from fedskew.profiles.partitioning import Summary
from fedskew.profiles.records import Estimate

Shown = Profile | Recommendation | Validation | Advice | Summary
"""What the terminal can show."""
MARKS = {"none": ("·", "dim"), "mild": ("!", "yellow"), "strong": ("‼", "bold red")}
KINDS = {
    "none": "no skew beyond chance",
    "label_count": "label skew: whole classes missing at parties",
    "label_dirichlet": "label skew: unequal shares of the classes",
    "feature": "feature skew: the same class looks different from party to party",
    "quantity": "quantity skew: very unequal party sizes",
    "concept": "concept shift: the same features mean different labels",
    "mixed": "mixed skew",
}
MOST = 12  # findings shown before the rest is only counted
WIDE = 110  # columns of a terminal from which a table shows more
WIDE_COLUMNS = ("balanced", "worst party")


def clean(name: str) -> str:
    """Show control characters instead of sending them to the terminal, and keep a name to 40 characters.

    Examples
    --------
    >>> clean("a" + chr(27) + "b") == "a" + chr(92) + "x1bb"
    True
    """
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    return safe if len(safe) <= 40 else safe[:39] + "…"


def profile_view(profile: Profile) -> RenderableType:
    """How bad, which kind, which silo; then the four skews and what else was noticed."""
    kind = profile.prevailing
    found = " + ".join(kind.components) if len(kind.components) > 1 else ""
    head = Text.assemble(
        ("Skew  ", "bold"),
        (KINDS[kind.kind], "bold cyan"),
        f" ({found})" if found else "",
        f", {kind.confidence:.0%} sure",
    )
    what = f"{profile.parties} parties, {profile.rows:,} rows, {profile.classes} classes, {profile.features:,} features"
    lines: list[RenderableType] = [head, Text(f"      {what}, {profile.modality}", "dim")]
    worst = profile.label.most_deviant[:3]
    if worst and profile.label.severity != "none":
        lines.append(
            Text(f"      farthest from the common label mix: {', '.join(clean(d.party) for d in worst)}", "dim")
        )
    lines += [Text(), _skews(profile), *_findings(profile)]
    return Group(*lines)


def _skews(profile: Profile) -> Table:
    table = _table("skew", "beyond chance, 95 %", "p", "severity", "reads as")
    label, quantity = profile.label, profile.quantity
    rows = (
        ("label", label, label.interval, _reads("Dir β", label.beta)),
        ("quantity", quantity, quantity.interval, f"{quantity.effective_parties:.1f} effective parties"),
        ("feature", profile.feature, profile.feature.interval, ""),
        ("concept", profile.concept, None, ""),
    )
    for name, skew, interval, reads in rows:
        value = Text(skew.reason or "-", "dim") if skew.skew is None else Text(f"{skew.skew:.3f}")
        if skew.skew is not None and interval is not None:
            value.append(f" ({interval[0]:.3f} to {interval[1]:.3f})", "dim")
        mark, style = MARKS[skew.severity]
        p = "" if skew.p_value is None else f"{skew.p_value:.2g}"
        table.add_row(Text(name), value, Text(p), Text(f"{mark} {skew.severity}", style), Text(reads, "dim"))
    return table


def _reads(name: str, found: Estimate) -> str:
    if found.estimate is None:
        return found.reason or ""
    upper = "∞" if found.upper is None else f"{found.upper:.2g}"
    lower = "0" if found.lower is None else f"{found.lower:.2g}"
    return f"{name} {found.estimate:.2g} ({lower} to {upper})"


def _findings(profile: Profile) -> list[RenderableType]:
    if not profile.hygiene:
        return []
    marked = [(*MARKS[finding.severity], finding.text) for finding in profile.hygiene[:MOST]]
    lines: list[RenderableType] = [Text(), _marked(marked)]
    if len(profile.hygiene) > MOST:
        lines.append(Text(f"    and {len(profile.hygiene) - MOST} more findings (see --json)", "dim"))
    return lines


def _marked(lines: Iterable[tuple[str, str, str]], style: str = "") -> Table:
    """Lines of (mark, its style, text) whose wrapped parts stay right of the mark."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for mark, colour, text in lines:
        grid.add_row(Text(f"  {mark}", colour), Text(_printable(text), style))
    return grid


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def recommendation_view(advice: Recommendation) -> RenderableType:
    """The sentence, the path, the checks, the second opinion, the price, and what would change the answer."""
    opening = Text.assemble(("Advice  ", "bold"), (_printable(advice.sentence), "bold cyan"))
    path = [("?", "dim", f"{step.question} {step.answer}") for step in advice.path]
    marked = [(*MARKS[check.severity], check.text) for check in advice.checks if check.severity != "none"]
    facts = [("$", "dim", _price(advice)), (">", "dim", f"Start with {_settings(advice.hyperparameters.start)}.")]
    changes = [("↔", "dim", change.text) for change in advice.what_would_change[:4]]
    return Group(
        opening,
        _marked(path, "dim"),
        _marked([("=", "dim", line) for line in advice.why[:1]]),
        Text(),
        _marked(marked),
        _marked([("+", "dim", line) for line in _evidence(advice)]),
        _marked(facts),
        _marked(changes, "dim"),
    )


def _evidence(advice: Recommendation) -> list[str]:
    """What published settings expect of the best three algorithms, against FedAvg."""
    lines = []
    known = [one for one in advice.second_opinion.candidates if one.settings and one.algorithm != "fedavg"]
    for one in known[:3]:
        gain = one.expected_gain
        span = f"{gain.mean:+.1f} points ({gain.lower:+.1f} to {gain.upper:+.1f})"
        where = f"{one.settings} near settings on {one.datasets} data sets"
        lines.append(f"Evidence: {find_title(one.algorithm)} against FedAvg {span}, from {where}.")
    return lines or ["Evidence: no published setting is near this one."]


def _price(advice: Recommendation) -> str:
    price, moved = advice.price, advice.price.bytes_per_party_round
    size = "traffic unknown" if moved is None else f"{moved:,} bytes per party and round"
    state = f"; parties keep {price.client_state} between rounds"
    return f"{size} ({price.model}), {price.relative_compute:g} times FedAvg's compute{state}."


def _settings(values: Mapping[str, float | str]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )


def validation_view(found: Validation, width: int = 80) -> RenderableType:
    """The verdict, the leaderboard, the reference lines; worst parties where ``width`` columns allow."""
    wide = width >= WIDE
    verdict = Text.assemble(("Verdict  ", "bold"), (_printable(found.verdict.text), "bold cyan"))
    score = "R²," if found.settings.get("metric") == "r_squared" else "accuracy"
    table = _table("algorithm", f"{score} % (95 %)", "against advice", "traffic", *WIDE_COLUMNS[: 2 * wide], "note")
    gaps = {c.algorithm: c for c in found.comparisons}
    ranked = sorted(found.candidates, key=lambda c: -1.0 if c.accuracy.mean is None else c.accuracy.mean, reverse=True)
    for one in ranked:
        gap = gaps.get(one.algorithm)
        extra = (Text(_percent(one.balanced_accuracy.mean)), Text(_worst(one)))
        table.add_row(
            Text(find_title(one.algorithm), "bold" if one.algorithm == found.recommended else ""),
            _interval(one.accuracy),
            Text("recommended" if gap is None else _gap(gap)),
            Text(_bytes(one.bytes_per_party)),
            *extra[: 2 * wide],
            Text(_note(one)),
        )
    lines = found.references
    for title, reference in (
        ("centralised", lines.centralised),
        ("local only", lines.local_only),
        ("majority class", lines.majority),
    ):
        if reference is not None:
            table.add_row(Text(title, "dim"), _interval(reference.accuracy))
    used = found.settings
    how = (
        f"{used['seeds']} paired seeds, {used['rounds']} rounds of {used['local_epochs']} local epochs, "
        f"model {used['model']}, {used['train_rows']:,} rows to train and {used['test_rows']:,} to test"
    )
    return Group(verdict, *_cautions(found), Text(), table, Text(how, "dim"))


def _cautions(found: Validation) -> list[Text]:
    """Why runs as short as these may mislead."""
    ranking = found.ranking
    if ranking is None or ranking.leader is None or ranking.stable:
        return []
    rising = f"; still rising: {', '.join(map(find_title, ranking.rising))}" if ranking.rising else ""
    text = f"Short runs mislead: {find_title(ranking.leader)} leads only since round {ranking.settled_at}{rising}."
    return [Text(f"         {text}", "yellow")]


def _interval(score: Score) -> Text:
    low, high = score.lower, score.upper
    shown = "" if low is None or high is None or low == high else f" ({100 * low:.1f} to {100 * high:.1f})"
    return Text.assemble("-" if score.mean is None else f"{100 * score.mean:.1f}", (shown, "dim"))


def _gap(gap: Comparison) -> str:
    return f"{100 * gap.difference:+.1f} ({100 * gap.lower:+.1f} to {100 * gap.upper:+.1f})"


def _worst(one: Candidate) -> str:
    return "" if one.worst_party is None else f"{clean(one.worst_party.party)} {_percent(one.worst_party.accuracy)}"


def _note(one: Candidate) -> str:
    if one.status == "diverged":
        return f"diverged at round {one.diverged_at}"
    if one.status == "failed":
        return "failed: constant predictor"
    return "still rising" if one.trend == "rising" else "falling" if one.trend == "falling" else ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def find_title(name: str) -> str:
    """An algorithm's name as the field writes it."""
    try:
        return find_algorithm(name).title
    except ValueError:
        return clean(name)


def progress_view(lines: Iterable[Progress]) -> Table:
    """The live table: how far each run is and how well it does."""
    table = _table("training", "rounds", "", "score")
    for line in lines:
        done = round(20 * line.round / max(1, line.rounds))
        bar = Text("━" * done, "cyan") + Text("━" * (20 - done), "dim")
        count = f"{line.round}/{line.rounds}"
        table.add_row(Text(find_title(line.name)), Text(count), bar, Text(_percent(line.score) if line.round else ""))
    return table


def partition_view(made: Summary) -> RenderableType:
    """What was written, and how large the parties are: the largest and the smallest where there are many."""
    title = Text.assemble(
        ("Partition  ", "bold"), (made.strategy, "bold cyan"), f", seed {made.seed}, written to {made.index}"
    )
    table = _table("party", "rows", "", "classes held")
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
    """Print a record."""
    if isinstance(record, Profile):
        views = [profile_view(record)]
    elif isinstance(record, Summary):
        views = [partition_view(record)]
    elif isinstance(record, Recommendation):
        views = [profile_view(record.profile), recommendation_view(record)]
    elif isinstance(record, Validation):
        views = [validation_view(record, console.width)]
    else:
        views = [validation_view(record.validation, console.width)] if record.validation is not None else []
        views += [profile_view(record.profile), recommendation_view(record.recommendation)]
    for view in views:
        console.print(view)
        console.print()


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(header, no_wrap=header not in {"note", "reads as"})
    return table

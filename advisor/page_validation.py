"""The part of the page about the validation: does the advice hold on these data?"""

import statistics

from fedskew.advisor.page import Cell, Column, Picture, Section, Table
from fedskew.advisor.wording import candidate_note, how_trained, run_length
from fedskew.engine import party_plots, plots
from fedskew.engine.reading import algorithm_title, constant_name, ranked
from fedskew.engine.records import Candidate, Comparison, Validation

VERDICTS = {
    "all_failed": "every candidate failed",
    "overturned": "overturned",
    "no_difference": "no difference worth having",
    "confirmed": "confirmed",
    "cannot_tell": "cannot tell",
}


def verdict_fact(found: Validation) -> tuple[str, str, str]:
    """Term, value and remark of the verdict."""
    return ("Validation", VERDICTS.get(found.verdict.kind, found.verdict.kind), run_length(found))


def validation_sections(found: Validation) -> tuple[Section, ...]:
    """Leaderboard with curves, then parties with cost."""
    board = [Picture(plots.leaderboard(found), "leaderboard")]
    if any(any(one.accuracy.curve) for one in found.candidates):
        board.append(Picture(plots.learning_curves(found), "curves"))
    fair = []
    if any(any(v is not None for v in one.by_party.values()) for one in found.candidates):
        fair.append(Picture(party_plots.party_spread(found), "accuracy"))
    if any(one.accuracy.mean is not None for one in found.candidates):
        fair.append(Picture(party_plots.cost_against_accuracy(found), "costs"))
    sections = [
        Section(
            "validation",
            "Does it hold on these data",
            text=(how_trained(found),),
            pictures=tuple(board),
            tables=(leaderboard(found),),
        )
    ]
    if fair:
        sections.append(Section("parties", "Who gains, and at what cost", pictures=tuple(fair)))
    return tuple(sections)


LEADERBOARD = (
    Column("algorithm"),
    Column("accuracy, %", "percent"),
    Column("lower", "percent"),
    Column("upper", "percent"),
    Column("sd of seeds", "percent"),
    Column("against advice, points", "percent"),
    Column("lower", "percent"),
    Column("upper", "percent"),
    Column("balanced, %", "percent"),
    Column("lift", "percent"),
    Column("worst party"),
    Column("its accuracy, %", "percent"),
    Column("spread", "percent"),
    Column("bytes per party", "bytes"),
    Column("seconds", "number"),
    Column("note"),
)


def leaderboard(found: Validation) -> Table:
    """Candidates, best first, then the reference lines."""
    gaps = {gap.algorithm: gap for gap in found.comparisons}
    rows = [_board_row(one, gaps.get(one.algorithm), found.recommended) for one in ranked(found)]
    lines = found.references
    for name, line in (
        ("centralised", lines.centralised),
        ("local only", lines.local_only),
        (constant_name(found), lines.majority),
    ):
        if line is not None:
            score, other = line.accuracy, line.balanced_accuracy.mean
            rows.append((name, score.mean, score.lower, score.upper, *[None] * 4, other, *[None] * 6, "reference"))
    return Table("leaderboard", "Leaderboard, with 95 % intervals", LEADERBOARD, rows)


def _board_row(one: Candidate, gap: Comparison | None, recommended: str) -> tuple[Cell, ...]:
    worst = one.worst_party
    return (
        algorithm_title(one.algorithm),
        one.accuracy.mean,
        one.accuracy.lower,
        one.accuracy.upper,
        deviation(one),
        *([None] * 3 if gap is None else [gap.difference, gap.lower, gap.upper]),
        one.balanced_accuracy.mean,
        one.lift,
        None if worst is None else worst.party,
        None if worst is None else worst.accuracy,
        one.spread,
        one.bytes_per_party,
        one.seconds,
        _note(one, recommended),
    )


def deviation(one: Candidate) -> float | None:
    """Standard deviation over seeds, None below two of them."""
    seeds = [value for value in one.accuracy.by_seed if value is not None]
    return statistics.stdev(seeds) if len(seeds) > 1 else None


def _note(one: Candidate, recommended: str) -> str:
    note = candidate_note(one)
    return ", ".join(part for part in ("recommended" if one.algorithm == recommended else "", note) if part)


def validation_tables(found: Validation) -> tuple[Table, ...]:
    """Each seed, each round, each party."""
    shown = ranked(found)
    seeds = max((len(one.accuracy.by_seed) for one in shown), default=0)
    by_seed = Table(
        "seeds",
        "Accuracy of each seed, in %",
        (Column("algorithm"), *(Column(f"seed {i + 1}", "percent") for i in range(seeds))),
        [
            (algorithm_title(one.algorithm), *one.accuracy.by_seed, *[None] * (seeds - len(one.accuracy.by_seed)))
            for one in shown
        ],
    )
    return tuple(
        table for table in (_cost_table(shown), by_seed, _curve_table(shown), _party_table(found, shown)) if table.rows
    )


def _cost_table(shown: list[Candidate]) -> Table:
    columns = (
        Column("algorithm"),
        Column("bytes per party", "bytes"),
        Column("seconds", "number"),
        Column("accuracy at equal bytes, %", "percent"),
        Column("at equal seconds, %", "percent"),
        Column("rounds to target", "count"),
        Column("bytes to target", "bytes"),
        Column("best round", "count"),
        Column("macro-F1, %", "percent"),
        Column("loss", "number"),
        Column("settings tried", "count"),
        Column("hyperparameters"),
    )
    rows = [
        (
            algorithm_title(one.algorithm),
            one.bytes_per_party,
            one.seconds,
            one.at_equal_bytes,
            one.at_equal_seconds,
            one.rounds_to_target,
            one.bytes_to_target,
            one.best_round,
            one.macro_f1,
            one.loss,
            len(one.tuning),
            _listed(one.hyperparameters),
        )
        for one in shown
    ]
    return Table("costs", "What each candidate costs, and its hyperparameters", columns, rows)


def _listed(values: dict[str, float | str]) -> str:
    return ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items())


def _curve_table(shown: list[Candidate]) -> Table:
    curves = [one for one in shown if any(one.accuracy.curve)]
    rounds = max((len(seed) for one in curves for seed in one.accuracy.curve), default=0)
    rows = []
    for i in range(rounds):
        values = [[seed[i] for seed in one.accuracy.curve if len(seed) > i] for one in curves]
        rows.append((str(i + 1), *(statistics.fmean(value) if value else None for value in values)))
    columns = (Column("round"), *(Column(algorithm_title(one.algorithm), "percent") for one in curves))
    return Table("curves", "Accuracy after each round, mean over seeds, in %", columns, rows)


def _party_table(found: Validation, shown: list[Candidate]) -> Table:
    told = [(algorithm_title(one.algorithm), one.by_party) for one in shown if one.by_party]
    lines = found.references
    for name, line in (("centralised", lines.centralised), ("local only", lines.local_only)):
        told += [(name, line.by_party)] if line is not None and line.by_party else []
    names = list(dict.fromkeys(name for _, values in told for name in values))
    rows = [(name, *(values.get(name) for _, values in told)) for name in names]
    return Table(
        "accuracy",
        "Accuracy of every party, in %",
        (Column("party"), *(Column(name, "percent") for name, _ in told)),
        rows,
    )

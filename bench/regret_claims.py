"""The two tables that `bench/regret.py` writes beside the regret: claims of the paper, and severities of the profile.

A claim is the gap of two algorithms over the settings that it speaks of. Ours: mean of the data sets' means, with
Student's 95 % interval over data sets (few data sets, so no bootstrap), without settings in which both fail. The
paper's: mean over its rows, all of them, the contested ones included.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from fedskew.advisor import own_regret as measure
from fedskew.advisor.evidence import EvidenceRow, published
from fedskew.advisor.own_regret import Interval, Results
from fedskew.advisor.tree import LEAVES, walk

MARGIN = 0.5  # points that matter, as in validation and second opinion
FEW = 3  # data sets under which nothing is called


@dataclass(frozen=True, slots=True)
class Claim:
    """``a`` minus ``b`` over the settings that ``holds`` is true of; ``text`` says which."""

    text: str
    a: str
    b: str
    holds: Callable[[EvidenceRow], bool]


def _whole(row: EvidenceRow) -> bool:
    return row.participation in (None, 1.0)


def _part(row: EvidenceRow) -> bool:
    return row.participation is not None and row.participation < 1


def _label(row: EvidenceRow) -> bool:
    return bool(row.kinds & {"label_dirichlet", "label_count"})


def _table(row: EvidenceRow) -> bool:
    return row.skew == "label_dirichlet" and row.modality == "tabular" and _whole(row)


def _image(row: EvidenceRow) -> bool:
    return row.skew == "label_dirichlet" and row.modality == "image" and _whole(row)


def _quantity(row: EvidenceRow) -> bool:
    return row.skew == "quantity" and _whole(row)


def _one_class(row: EvidenceRow) -> bool:
    return row.skew == "label_count" and row.param == "k=1"


CLAIMS = (
    Claim("label Dirichlet on tables, all parties", "scaffold", "fedavg", _table),
    Claim("the same (the leaf names FedProx)", "fedprox", "scaffold", _table),
    Claim("label Dirichlet on images, all parties", "scaffold", "fedavg", _image),
    Claim("feature skew", "scaffold", "fedavg", lambda row: row.skew == "feature" and _whole(row)),
    Claim("quantity skew, all parties", "scaffold", "fedavg", _quantity),
    Claim("a tenth of the parties a round, label skew", "scaffold", "fedavg", lambda r: _part(r) and _label(r)),
    Claim("quantity skew, all parties", "fednova", "fedavg", _quantity),
    Claim("quantity skew, a tenth a round", "fednova", "fedavg", lambda r: r.skew == "quantity" and _part(r)),
    Claim("every skewed setting", "fedprox", "fedavg", lambda row: bool(row.kinds)),
    Claim("one class a party", "fedprox", "fedavg", _one_class),
    *(
        Claim(text, name, "fedavg", holds)
        for text, holds in (
            ("label skew, all parties", lambda row: _label(row) and _whole(row)),
            ("label skew, a tenth a round", lambda row: _label(row) and _part(row)),
            ("no label skew, all parties", lambda row: not _label(row) and bool(row.kinds) and _whole(row)),
        )
        for name in ("fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedavg+wsm")
    ),
)


def over_means(values: Sequence[float], datasets: Sequence[str]) -> Interval:
    """Mean of the data sets' means with Student's interval; endless with a single data set."""
    from scipy.special import stdtrit

    groups: dict[str, list[float]] = defaultdict(list)
    for name, value in zip(datasets, values, strict=True):
        groups[name].append(value)
    means = [fmean(group) for group in groups.values()]
    if len(means) < 2:
        return Interval(fmean(means), -math.inf, math.inf)
    half = float(stdtrit(len(means) - 1, 0.975)) * stdev(means) / math.sqrt(len(means))
    return Interval(fmean(means), fmean(means) - half, fmean(means) + half)


def papers_gap(claim: Claim) -> tuple[float, int] | None:
    """Mean gap of the paper's own rows, main table, mixtures and README, and how many."""
    settings: dict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
    for row in published():
        if row.source.startswith("niid_bench") and claim.holds(row):
            settings[row.setting][row.algorithm] = row.mean
    found = [one[claim.a] - one[claim.b] for one in settings.values() if claim.a in one and claim.b in one]
    return (fmean(found), len(found)) if found else None


def verdict(ours: Interval, datasets: int, paper: float | None) -> str:
    """What our figures say about the paper's."""
    if datasets < FEW:
        return f"too few: {datasets} data set{'s' if datasets > 1 else ''}"
    same = ours.lower > -MARGIN and ours.upper < MARGIN
    sure = ours.lower > 0 or ours.upper < 0
    if not same and not sure:
        return "cannot tell"
    if paper is None:
        return "no difference that matters" if same else "better" if ours.lower > 0 else "worse"
    if same:
        return "for: none that matters" if abs(paper) < MARGIN else "**against**: none that matters"
    if abs(paper) < MARGIN:
        return "**against**: there is one"
    return "for" if (ours.mean > 0) == (paper > 0) else "**against**"


def claims_page(table: tuple[Results, ...]) -> str:
    """Every claim with its intervals, as a Markdown table."""
    lines = [
        "| settings | gap | ours, accuracy | ours, balanced | settings (sets); > 0.5, < -0.5 | paper (rows) | says |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim in CLAIMS:
        chosen = [one for one in table if claim.holds(_row(one)) and _alive(one, claim.a, claim.b)]
        paper = papers_gap(claim)
        theirs = "-" if paper is None else f"{paper[0]:+.1f} ({paper[1]})"
        gap = f"{_title(claim.a)} - {_title(claim.b)}"
        if not chosen:
            lines.append(f"| {claim.text} | {gap} | - | - | 0 | {theirs} | not run yet |")
            continue
        datasets = measure.datasets_of(chosen)
        sets = len(set(datasets))
        values = {metric: measure.gaps(chosen, claim.a, claim.b, metric) for metric in measure.METRICS}
        ours = {metric: over_means(points.tolist(), datasets) for metric, points in values.items()}
        better, worse = (values["accuracy"] > MARGIN).sum(), (values["accuracy"] < -MARGIN).sum()
        said = verdict(ours["accuracy"], sets, None if paper is None else paper[0])
        cells = (_cell(ours["accuracy"]), _cell(ours["balanced"]), f"{len(chosen)} ({sets}); {better}, {worse}")
        lines.append(f"| {claim.text} | {gap} | {' | '.join(cells)} | {theirs} | {said} |")
    return "\n".join([*lines, "", *_weight_sums(table), "", *_failures(table)])


def _weight_sums(table: tuple[Results, ...]) -> list[str]:
    """FedNova by A, which the sizes give before any training."""
    lines = [
        "| FedNova's A, all parties a round | settings (data sets) | FedNova - FedAvg, accuracy | worst |",
        "|---|---|---|---|",
    ]
    for text, low, high in (
        ("under 1.2", 0.0, 1.2),
        ("1.2 to 2", 1.2, 2.0),
        ("2 to 3", 2.0, 3.0),
        ("over 3", 3.0, 1e9),
    ):
        chosen = [
            one
            for one in table
            if _alive(one, "fednova", "fedavg") and low <= measure.first(one).weight_sum < high and _whole(_row(one))
        ]
        if not chosen:
            lines.append(f"| {text} | 0 | - | - |")
            continue
        datasets, points = measure.datasets_of(chosen), measure.gaps(chosen, "fednova", "fedavg", "accuracy")
        interval = _cell(over_means(points.tolist(), datasets))
        lines.append(f"| {text} | {len(chosen)} ({len(set(datasets))}) | {interval} | {points.min():+.1f} |")
    return lines


def _failures(table: tuple[Results, ...]) -> list[str]:
    """Who ends as a constant predictor or diverges, out of all settings."""
    counted = []
    for name in table[0]:
        rows = [one[name] for one in table if name in one]
        failed, diverged = (sum(row.status == status for row in rows) for status in ("failed", "diverged"))
        counted.append(f"{_title(name)} {failed} and {diverged}")
    return [
        f"Settings of {len(table)} that end as a constant predictor; with a seed that diverged: {', '.join(counted)}."
    ]


def severity_page(table: tuple[Results, ...]) -> str:
    """What the tree's leaf gains over FedAvg, by how severe the profile calls the skew, and by leaf."""
    lines = [
        "| the profile says | settings (sets) | regret of the leaf | of FedAvg | leaf - FedAvg, balanced | accuracy |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[Results]] = defaultdict(list)
    for one in table:
        groups[{"none": "no skew"}.get(measure.first(one).severity, f"{measure.first(one).severity} skew")].append(one)
    for one in table:
        groups[f"leaf `{walk(measure.first(one).facts)[0]}`"].append(one)
    for text, chosen in groups.items():
        datasets = measure.datasets_of(chosen)
        tree = {m: measure.regrets(chosen, measure.tree_choice, m) for m in measure.METRICS}
        base = {m: measure.regrets(chosen, measure.always("fedavg"), m) for m in measure.METRICS}
        gaps = [_cell(over_means((base[m] - tree[m]).tolist(), datasets)) for m in measure.METRICS]
        means = (f"{tree['balanced'].mean():.2f}", f"{base['balanced'].mean():.2f}")
        named = LEAVES[text[6:-1]].algorithm if text.startswith("leaf") else ""
        shown = f"{text}: {_title(named)}" if named else text
        lines.append(f"| {shown} | {len(chosen)} ({len(set(datasets))}) | {' | '.join((*means, *gaps))} |")
    return "\n".join([*lines, "", _floors(table)])


def _floors(table: tuple[Results, ...]) -> str:
    """What the tree would lose if mild skews were taken for none."""

    def strict(results: Results, metric: str) -> str:
        return measure.tree_choice(results, metric) if measure.first(results).severity == "strong" else "fedavg"

    plain = measure.regrets(table, measure.tree_choice, "balanced").mean()
    other = measure.regrets(table, strict, "balanced").mean()
    gap = other - plain
    told = f"raising the floor would {'help' if gap < 0 else 'cost'}"
    if abs(gap) < MARGIN:
        told = "no floor between the two can be told from the other"
    return (
        f"If every skew under the strong floor counted as none, the tree would lose {other:.2f} points of balanced "
        f"accuracy instead of {plain:.2f}: {told}."
    )


def _alive(results: Results, *names: str) -> bool:
    """Whether all were candidates and one of them at least learnt something; two failures say nothing of the gap."""
    return all(name in results for name in names) and any(results[name].status != "failed" for name in names)


def _row(results: Results) -> EvidenceRow:
    return measure.first(results).evidence()


def _title(name: str) -> str:
    from fedskew.engine import find_algorithm

    return find_algorithm(name).title


def _cell(one: Interval) -> str:
    if math.isinf(one.upper):
        return f"{one.mean:+.1f} (one data set)"
    return f"{one.mean:+.1f} ({one.lower:+.1f} to {one.upper:+.1f})"

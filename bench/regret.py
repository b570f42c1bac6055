"""How good is the advice on our own study? Regret by policy, and what the study says for and against the paper.

    python bench/regret.py --study DIR ...    take the results of `fedskew study evidence --out DIR` into the package
    python bench/regret.py                    from the rows in the package

Folders after the first hold further candidates in the same settings:
`fedskew study evidence --candidates fedavg,fedavg+wsm --out DIR` with the scale of the first.

Writes advisor/own_evidence.csv with the second opinion's constants fitted to it, docs/pictures/regret.svg, and what
stands between the markers of docs/recommendation.md, where the numbers are. Under a minute on one core; the same rows
give the same bytes.
"""

import argparse
import json
from pathlib import Path

import regret_claims

from fedskew.advisor import own_regret as measure
from fedskew.advisor.own_evidence import OwnRow, format_own, parse_own
from fedskew.advisor.own_fit import FIRST, Fit, choices
from fedskew.advisor.own_regret import METRICS, Interval, Policy, Results
from fedskew.advisor.own_results import joined, own_rows
from fedskew.advisor.price import TITLES as TITLE
from fedskew.advisor.study.run import read_result
from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.drawing import (
    ACCENT,
    FAINT,
    INK,
    SMALL,
    STRONG,
    WIDTH,
    Plot,
    figure,
    footnote,
    margin,
    panel,
    svg,
    title,
)
from fedskew.profiles.errors import FedskewError

ROOT = Path(__file__).resolve().parents[1]
PACKAGED = ROOT / "advisor" / "own_evidence.csv"
PAGE = ROOT / "docs" / "recommendation.md"
PICTURE = ROOT / "docs" / "pictures" / "regret.svg"
TITLES = {"balanced": "balanced accuracy", "accuracy": "accuracy"}
COLOURS = {"balanced": ACCENT, "accuracy": STRONG}
Figures = dict[str, dict[str, Interval]]
"""Regret by policy and metric."""


def taken(folder: Path) -> tuple[tuple[OwnRow, ...], str]:
    """The rows of a study's folder and one line on where they come from."""
    results = [read_result(path) for path in sorted((folder / "settings").glob("*.json"))]
    if not results:
        raise FedskewError(f"{folder}: there is no finished setting in it; run fedskew study evidence --out {folder}")
    made = json.loads((folder / "environment.json").read_text())
    code = ", ".join(  # a study may have gone on with newer code: all of them are named
        f"{name} {' and '.join(dict.fromkeys(one[name] for one in made))}"
        for name in ("fedskew", "code", "torch", "numpy")
    )
    shape = {(r.setting.rounds, r.setting.local_epochs, r.setting.seeds, r.setting.tuning) for r in results}
    text = "; ".join(
        f"{rounds} rounds, E {epochs}, {seeds} seeds, {'equal tuning' if tuning else 'no tuning'}"
        for rounds, epochs, seeds, tuning in sorted(shape)
    )
    rows = own_rows(results)
    most = max(row.train_rows for row in rows)
    return rows, f"{len(results)} settings of fedskew study: {text}, at most {most} rows to train on; {code}"


def figures(table: tuple[Results, ...], known: dict[str, Policy]) -> Figures:
    """Mean regret with its interval, by policy and metric."""
    datasets = measure.datasets_of(table)
    return {
        name: {m: measure.over_data_sets(measure.regrets(table, policy.choose, m), datasets) for m in METRICS}
        for name, policy in known.items()
    }


def regret_page(table: tuple[Results, ...], known: dict[str, Policy], found: Figures, fit: Fit, provenance: str) -> str:
    """Table, chart and what the figures say, in Markdown."""
    sets = len(set(measure.datasets_of(table)))
    lines = [
        f"Rows: {provenance}.",
        f"Mean regret in points over {len(table)} settings on {sets} data sets, and its 95 % bootstrap interval.",
        "Trained: percent of training all candidates to their ends.",
        "",
        "| policy | trained | balanced accuracy | accuracy |",
        "|---|---|---|---|",
        *(
            f"| {name} | {known[name].trained:g} | {cells['balanced']} | {cells['accuracy']} |"
            for name, cells in found.items()
        ),
        "",
        "![mean regret by policy, with intervals over data sets](pictures/regret.svg)",
        "",
        *(_against(table, known, metric) for metric in METRICS),
        *_aims(table, found, fit),
    ]
    return "\n".join(lines)


def _against(table: tuple[Results, ...], known: dict[str, Policy], metric: str) -> str:
    """The second opinion beside the constants, paired."""
    datasets = measure.datasets_of(table)
    mine = measure.regrets(table, known["second opinion"].choose, metric)
    parts = []
    for name in ("best constant", "always FedProx", "the tree"):
        gap = measure.over_data_sets(mine - measure.regrets(table, known[name].choose, metric), datasets)
        if gap.lower <= 0 <= gap.upper:
            verdict = "cannot be told from"
        else:
            verdict = "loses less than" if gap.upper < 0 else "**loses more than**"
        parts.append(f"{verdict} {name} ({_signed(gap)} points)")
    constant = TITLE[measure.best_constant(table, metric, table[0])]
    return f"- {TITLES[metric]}: the second opinion {', '.join(parts)}. In hindsight the best constant is {constant}."


def _aims(table: tuple[Results, ...], found: Figures, fit: Fit) -> list[str]:
    mine, constant = found["second opinion"]["balanced"].mean, found["best constant"]["balanced"].mean
    short = found["validation, 10 % of the rounds"]["balanced"].mean
    few = found[f"its first {FIRST}, all rounds"]
    held, total = measure.coverage(table, fit.best())
    first = "met" if mine <= constant / 2 else "**not met**"
    second = "met" if short <= 0.5 else "**not met**"
    others, theirs = len(fit.datasets) - fit.settings, fit.on_published()
    share = 100 * held / max(total, 1)
    return [
        f"- Aim 1, second opinion at most half of the best constant's regret: {first} ({mine:.2f}, {constant:.2f}).",
        f"- Aim 2, validation at 10 % of the rounds at most 0.5 points: {second} ({short:.2f}). Nearest comes the",
        f"  shortlist, the second opinion's first {FIRST} trained to their ends: {few['balanced']}; in accuracy",
        f"  {few['accuracy']}.",
        f"- The second opinion's 95 % intervals held {held} of {total} differences to FedAvg ({share:.0f} %).",
        f"- On {others} settings of NIID-Bench and Flower, with our study too, it loses {theirs:.2f} points.",
        f"- Constants fitted to all of these and shipped: {fit.best()}; above, without the set judged.",
        "- Validation chooses the leader of the mean curve over seeds on the rows it is then judged on, at the end of",
        "  the same runs: it is flattered a little, and at 100 % its regret is 0 by definition.",
    ]


def _signed(gap: Interval) -> str:
    return f"{gap.mean:+.2f}, {gap.lower:+.2f} to {gap.upper:+.2f}"


def chart(found: Figures, settings: int, datasets: int) -> str:
    """A dot and an interval for each policy and metric."""
    names = list(found)
    height = 1.0 + 0.26 * len(names)

    def draw(where):
        title(where, "Points lost to the best candidate, mean over settings")
        axes = panel(where, left=margin(names), right=0.2, top=0.55, bottom=0.45, spines="b")
        for shift, metric in ((0.16, "balanced"), (-0.16, "accuracy")):
            for i, name in enumerate(names):
                one, y = found[name][metric], len(names) - 1 - i + shift
                axes.plot([one.lower, one.upper], [y, y], color=COLOURS[metric], linewidth=1.2)
                axes.plot([one.mean], [y], "o" if metric == "balanced" else "s", color=COLOURS[metric], markersize=3.5)
        axes.set_yticks(range(len(names)), names[::-1], color=INK)
        axes.set_xlim(left=0)
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        for x, metric, mark in ((0.02, "balanced", "●"), (1.5, "accuracy", "■")):
            look = {"va": "top", "fontsize": SMALL, "color": COLOURS[metric]}
            where.text(x / WIDTH, 1 - 0.3 / height, f"{mark} {TITLES[metric]}", **look)
        footnote(where, f"Points; {settings} settings on {datasets} data sets, 95 % over data sets; less is better")

    best = min(found, key=lambda name: found[name]["balanced"].mean)
    finding = f"Mean regret of {len(names)} policies; least in balanced accuracy: {best}."
    return svg(figure(Plot(height, draw, finding)), "r")


def insert(text: str, name: str, new: str) -> str:
    """Put new text between the markers of that name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise FedskewError(f"{PAGE.name}: needs the markers {begin} and {end}, once each")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{new}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    """Print the table and write what follows from it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--study", type=Path, nargs="+", help="folders of studies to take into the package")
    options.add_argument("--dry-run", action="store_true", help="print, and write nothing")
    given = options.parse_args()
    if given.study:
        rows, provenance = taken(given.study[0])
        for more in given.study[1:]:
            others, origin = taken(more)
            new = sorted({row.algorithm for row in others} - {row.algorithm for row in rows})
            rows, provenance = joined(rows, others), f"{provenance}; {', '.join(new)} by {origin.rpartition('; ')[2]}"
        rows = parse_own(format_own(rows, provenance), PACKAGED.name)  # as the package will read them
    else:
        text = PACKAGED.read_text()
        rows, provenance = parse_own(text, PACKAGED.name), text.splitlines()[1].removeprefix("# ")
    table = measure.own_settings(rows)
    if not table:
        raise FedskewError(f"{PACKAGED.name} holds no setting yet; give the folder of a study with --study")
    fit, known = Fit(table, "accuracy"), choices(table)
    found = figures(table, known)
    pages = {
        "regret": regret_page(table, known, found, fit, provenance),
        "claims": regret_claims.claims_page(measure.own_settings(rows, modified=True)),
        "severity": regret_claims.severity_page(table),
    }
    print("\n\n".join(pages.values()))
    if not given.dry_run:
        write_atomically(PACKAGED, format_own(rows, provenance, fit.best()).encode())
        sets = len(set(measure.datasets_of(table)))
        write_atomically(PICTURE, chart(found, len(table), sets).encode())
        page = PAGE.read_text()
        for name, new in pages.items():
            page = insert(page, name, new)
        write_atomically(PAGE, page.encode())


if __name__ == "__main__":
    main()

"""Tables as in the NIID-Bench paper: ours beside the paper's number, and how far apart they are."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedskew.advisor.evidence import EvidenceRow, shipped
from fedskew.advisor.price import TITLES
from fedskew.advisor.study.candidates import base_of
from fedskew.advisor.study.rows import best, deviation, grouped
from fedskew.advisor.study.run import Result
from fedskew.advisor.study.spelling import ambiguous, details_of, skew_of, told, varying
from fedskew.profiles.counting import signed

PAPER = "niid_bench"
SCALE = ("model", "rows", "seeds")
"""Fields that the scale names of every setting."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number: ours and the paper's, percent; None is not there. ``status`` is that of our candidate."""

    ours: float | None
    std: float | None
    status: str
    paper: float | None = None
    paper_std: float | None = None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, points."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper

    @property
    def flag(self) -> str:
        """``*``: further apart than either standard deviation; ``**``: than twice the larger; else nothing.

        Examples
        --------
        >>> Cell(80.0, 1.0, "ok", 82.5, 2.0).flag, Cell(80.0, 1.0, "ok", 81.5, 2.0).flag
        ('*', '')
        """
        if self.difference is None:
            return ""
        larger = max(self.std or 0.0, self.paper_std or 0.0)
        distance = abs(self.difference) + 1e-9
        return "**" if distance > 2 * larger + 2e-9 else "*" if distance > larger + 2e-9 else ""


@dataclass(frozen=True, slots=True)
class Line:
    """One setting of the table: what it is, its scale in words, and a cell by candidate."""

    data: str
    partition: str
    scale: str
    cells: dict[str, Cell]


def paper_numbers(dataset: str, skew: str, parameters: str) -> dict[str, EvidenceRow]:
    """The paper's row by algorithm; empty where it has none.

    Examples
    --------
    >>> paper_numbers("adult", "label_count", "k=1")["fedprox"].mean
    76.4
    """
    kinds, wanted = set(skew.split("+")), set(parameters.split("+"))
    rows = [row for row in shipped() if row.source == PAPER and row.dataset == dataset]
    return {
        row.algorithm: row for row in rows if set(row.skew.split("+")) == kinds and set(row.param.split("+")) == wanted
    }


def table(results: Sequence[Result], *, paper: bool) -> list[Line]:
    """One line a setting, in the order of the study; with ``paper``, the published number stands in each cell."""
    lines = []
    settings = [result.setting for result in results]
    wide, unclear = [name for name in varying(settings) if name not in SCALE], ambiguous(settings)
    for result in results:
        setting = result.setting
        skew, parameters = skew_of(setting.plan)
        theirs = paper_numbers(setting.data, skew, parameters) if paper else {}
        cells = {}
        groups = grouped(result.validation.candidates)
        for name, members in groups.items():
            one = best(members)
            mean, spread, row = one.accuracy.mean, deviation(one.accuracy), theirs.get(published(name, list(groups)))
            cells[name] = Cell(
                ours=None if mean is None else 100 * mean,
                std=None if spread is None else 100 * spread,
                status=one.status,
                paper=None if row is None else row.mean,
                paper_std=None if row is None else row.std,
            )
        more = details_of(setting.plan) if (setting.data, skew, parameters) in unclear else ()
        scale = ", ".join([_scale(result), *told(setting, wide)])
        lines.append(Line(setting.data, _spelled(skew, parameters, more, result), scale, cells))
    return lines


def published(name: str, names: Sequence[str]) -> str:
    """The algorithm beside which a column stands in the paper: of several variants, the one without a setting.

    Examples
    --------
    >>> published("fedprox mu=0.01", ["fedavg", "fedprox mu=0.01"])
    'fedprox'
    >>> published("scaffold lineage=code-2021", ["scaffold", "scaffold lineage=code-2021"])
    'scaffold lineage=code-2021'
    """
    base = base_of(name)
    return base if sum(base_of(one) == base for one in names) == 1 else name


def markdown(title: str, note: str, lines: Sequence[Line]) -> str:
    """The table as Markdown: ``ours ± std | paper ± std | difference`` in each cell, the best of each side in bold."""
    names = _names(lines)
    text = [f"# {title}", "", *([note, ""] if note else [])]
    text += [
        "Accuracy in percent, mean ± sample standard deviation over seeds: ours / the paper's / the difference. `*`:",
        "apart by more than either standard deviation; `**`: by more than twice the larger. † constant predictor,",
        "‡ diverged. Of a grid of hyperparameters the best on the test rows is reported, as in the paper for FedProx.",
        "",
        "| data | partition | scale | " + " | ".join(_title(name) for name in names) + " |",
        "|---" * (3 + len(names)) + "|",
    ]
    for line in lines:
        ours, theirs = _tops(line)
        cells = [_cell(line.cells.get(name), ours, theirs) for name in names]
        text.append("| " + " | ".join([line.data, line.partition, line.scale, *cells]) + " |")
    return "\n".join([*text, *_won(lines)]) + "\n"


def latex(title: str, note: str, lines: Sequence[Line]) -> str:
    """The table for LaTeX with booktabs: two lines a setting where the paper has a number, ours above the paper's."""
    names = _names(lines)
    text = [f"% {title}", *(f"% {part}" for part in [note] if part), r"\begin{tabular}{ll" + "r" * len(names) + "}"]
    text += [
        r"\toprule",
        "data & partition & " + " & ".join(_tex(_title(name)) for name in names) + r" \\",
        r"\midrule",
    ]
    for line in lines:
        ours, theirs = _tops(line)
        first = [_number(line.cells.get(name), ours, paper=False) for name in names]
        text.append(" & ".join([_tex(line.data), _tex(line.partition), *first]) + r" \\")
        if theirs is not None:
            second = [_number(line.cells.get(name), theirs, paper=True) for name in names]
            text.append(" & ".join(["", r"\quad paper", *second]) + r" \\")
    return "\n".join([*text, r"\bottomrule", r"\end{tabular}"]) + "\n"


def winners(scores: Iterable[Mapping[str, float]]) -> Counter[str]:
    """How often each candidate has the highest score of a row; a tie counts for all who share it.

    Examples
    --------
    >>> winners([{"fedavg": 88.1, "fedprox": 88.1}, {"fedavg": 9.0, "fedprox": 8.0}])
    Counter({'fedavg': 2, 'fedprox': 1})
    """
    rows = [row for row in scores if row]
    return Counter(name for row in rows for name, score in row.items() if score == max(row.values()))


def _won(lines: Sequence[Line]) -> list[str]:
    """A line of Markdown on who wins, ours and the paper's; rounded as printed, ours without constant predictors."""
    ours = winners(
        {n: round(c.ours, 1) for n, c in line.cells.items() if c.ours is not None and c.status == "ok"}
        for line in lines
    )
    theirs = winners({n: c.paper for n, c in line.cells.items() if c.paper is not None} for line in lines)
    paper = f"; the paper's {_counted(theirs, lines)}" if theirs else ""
    return ["", f"Rows won, ties counted for all: ours {_counted(ours, lines)}{paper}."]


def _counted(found: Counter[str], lines: Sequence[Line]) -> str:
    return ", ".join(f"{_title(name)} {found[name]}" for name in _names(lines))


def _names(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line.cells))


def _title(name: str) -> str:
    base, _, rest = name.partition(" ")
    plain, wsm, _ = base.partition("+")
    return f"{TITLES.get(plain, plain)}{' + WSM' if wsm else ''} {rest}".strip()


def _tops(line: Line) -> tuple[float | None, float | None]:
    """The best of ours and of the paper's, rounded as printed."""
    ours = [round(cell.ours, 1) for cell in line.cells.values() if cell.ours is not None and cell.status == "ok"]
    theirs = [cell.paper for cell in line.cells.values() if cell.paper is not None]
    return max(ours, default=None), max(theirs, default=None)


def _cell(cell: Cell | None, top: float | None, paper_top: float | None) -> str:
    if cell is None:
        return ""
    mark = {"failed": " †", "diverged": " ‡"}.get(cell.status, "")
    parts = [_score(cell.ours, cell.std, top, "**") + mark]
    if cell.paper is not None:
        parts.append(_score(cell.paper, cell.paper_std, paper_top, "**"))
        parts.append(
            "-" if cell.difference is None else signed(cell.difference) + cell.flag.replace("*", chr(92) + "*")
        )
    return " / ".join(parts)


def _score(mean: float | None, std: float | None, top: float | None, bold: str) -> str:
    if mean is None:
        return "-"
    text = f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}")
    return f"{bold}{text}{bold}" if top is not None and round(mean, 1) >= top else text


def _number(cell: Cell | None, top: float | None, *, paper: bool) -> str:
    if cell is None:
        return ""
    mean, std = (cell.paper, cell.paper_std) if paper else (cell.ours, cell.std)
    if mean is None:
        return "--"
    text = f"{mean:.1f}" + ("" if std is None else rf" \pm {std:.1f}")
    if top is not None and round(mean, 1) >= top:
        text = rf"\mathbf{{{text}}}"
    return f"${text}$" + ("" if paper else cell.flag)


def _spelled(skew: str, parameters: str, details: Sequence[str], result: Result) -> str:
    setting = result.setting
    parts = [skew, parameters.replace("+", ", "), *details, f"{result.profile.parties} parties"]
    parts += [f"{setting.participation:g} a round"] if setting.participation < 1 else []
    return ", ".join(part for part in parts if part)


def _scale(result: Result) -> str:
    setting = result.setting
    sizes = f"{sum(result.train_sizes):,} rows, T={setting.rounds}, E={setting.local_epochs}, B={setting.batch_size}"
    return f"{sizes}, {setting.seeds} seeds, {result.validation.settings['model']}"


def _tex(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, "\\" + sign)
    return text

"""Our own study in the package: one setting and candidate a row, with the scores of short runs beside the final one.

``own_evidence.csv`` is made by ``bench/regret.py`` from the results of ``fedskew study evidence``; its second line says
from how many settings, with which code. A seed that diverged counts as the constant predictor, and a candidate whose
seeds mostly predict one class does so as a whole: both have learnt nothing that one could use.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from fedskew.advisor.evidence import KINDS, EvidenceRow
from fedskew.advisor.price import COSTS, base_name
from fedskew.advisor.situation import Facts
from fedskew.profiles.errors import FedskewError, choices

VERSION = "fedskew-own-evidence/1"
SOURCE = "fedskew_study"
SHARES = (5, 10, 25, 50)
"""Percent of the rounds at which the table keeps the score of a shorter run."""
SAME_DATA = {"mplsstops-87": "mplsstops"}
"""Tables that are one data set: no rule may learn from the one and be judged on the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRow:
    """One candidate in one setting of our study; scores in percent, None is "not known".

    Parameters
    ----------
    setting : key of the setting in the study, its file's name
    dataset, table : the data set, and the name of its table in the study
    skew, param, model : as in :class:`EvidenceRow`
    kind, components, classes_each, strong_concept : what the profile measured, see :class:`Facts`
    severity : the gravest of the components: ``none``, ``mild`` or ``strong``
    step_ratio, weight_sum : most local steps over fewest, and FedNova's A
    tuned : number of settings tried
    majority, majority_balanced : the constant predictor
    status : ``ok``, ``failed`` (a constant predictor) or ``diverged``
    constant : share of the seeds that predict one class, 0 to 1
    accuracy, balanced : mean over seeds at the end; ``_sd`` over seeds, None where a seed diverged
    accuracy_5, … : mean over seeds at 5, 10, 25, 50 % of the rounds
    """

    setting: str
    dataset: str
    table: str
    modality: str
    skew: str
    param: str
    kind: str
    components: str
    severity: str
    classes_each: int | None
    strong_concept: int
    classes: int
    parties: int
    participation: float
    train_rows: int
    model: str
    rounds: int
    local_epochs: int
    batch_size: int
    seeds: int
    label_skew: float | None
    feature_skew: float | None
    quantity_skew: float | None
    step_ratio: float
    weight_sum: float
    majority: float
    majority_balanced: float
    algorithm: str
    tuned: int
    status: str
    constant: float
    accuracy: float
    accuracy_sd: float | None
    accuracy_5: float
    accuracy_10: float
    accuracy_25: float
    accuracy_50: float
    balanced: float
    balanced_sd: float | None
    balanced_5: float
    balanced_10: float
    balanced_25: float
    balanced_50: float

    @property
    def facts(self) -> Facts:
        """What the tree looks at, as the profile of these data measured it."""
        components = tuple(part for part in self.components.split("+") if part)
        return Facts(self.kind, components, self.modality, self.classes_each, bool(self.strong_concept))

    def evidence(self, metric: str = "accuracy") -> EvidenceRow:
        """The row in the schema of the evidence base.

        Parameters
        ----------
        metric : ``accuracy`` or ``balanced``
        """
        flags = {"failed": "constant_predictor", "diverged": "diverged_seeds"}
        shape = f"E={self.local_epochs} B={self.batch_size} rows={self.train_rows}"
        return EvidenceRow(
            source=SOURCE,
            code=VERSION,
            dataset=self.dataset,
            variant=f"{self.table} {self.model} {shape}",
            modality=self.modality,
            skew=self.skew,
            param=self.param,
            classes=self.classes,
            parties=self.parties,
            participation=self.participation,
            rounds=self.rounds,
            seeds=self.seeds,
            tuned=self.tuned,
            metric=metric,
            label_skew=self.label_skew,
            quantity_skew=self.quantity_skew,
            feature_skew=self.feature_skew,
            majority=self.majority if metric == "accuracy" else self.majority_balanced,
            algorithm=self.algorithm,
            mean=self.score(metric),
            std=self.accuracy_sd if metric == "accuracy" else self.balanced_sd,
            flag=flags.get(self.status, "ok"),
            step_ratio=self.step_ratio,
            weight_sum=self.weight_sum,
        )

    def score(self, metric: str, share: int = 100) -> float:
        """Mean over seeds in percent at a share of the rounds, one of :data:`SHARES` or 100."""
        return float(getattr(self, metric if share == 100 else f"{metric}_{share}"))


@dataclass(frozen=True, slots=True)
class Constants:
    """What the second opinion is free in; as they stand here where there is no study to fit them to.

    ``published``: weight of a published row beside our own. ``pseudo``: data sets that a prior mean counts. ``width``:
    multiplies every width of the likeness. ``cap``: points at which a difference of our own ends.
    """

    published: float = 0.25
    pseudo: float = 1.0
    width: float = 1.0
    cap: float = 20.0

    def __str__(self) -> str:
        return " ".join(f"{one.name}={getattr(self, one.name):g}" for one in fields(self))


STATED = Constants()
FIT = "# fit: "
COLUMNS = tuple(column.name for column in fields(OwnRow))
_TYPES: Mapping[str, Any] = {column.name: column.type for column in fields(OwnRow)}
SCORES = tuple(name for name in COLUMNS if name.startswith(("accuracy", "balanced", "majority")))


def _text() -> str:
    return files("fedskew.advisor").joinpath("own_evidence.csv").read_text("utf-8")


@cache
def fitted() -> Constants:
    """The constants of the second opinion that ship with our study; read once."""
    return parse_fit(_text(), "own_evidence.csv")


def parse_fit(text: str, name: str) -> Constants:
    """The constants in the head of the file; those stated in the code where there are none.

    Raises
    ------
    FedskewError
        The line is not of the form that :func:`format_own` writes.

    Examples
    --------
    >>> print(parse_fit("# fit: published=0.5 pseudo=1 width=2 cap=20", "here"))
    published=0.5 pseudo=1 width=2 cap=20
    """
    line = next((line for line in text.splitlines()[:4] if line.startswith(FIT)), None)
    if line is None:
        return STATED
    try:
        pairs = dict(pair.split("=") for pair in line[len(FIT) :].split())
        found = Constants(**{name: float(value) for name, value in pairs.items()})
    except (TypeError, ValueError):
        raise FedskewError(f"{name}: {line!r} does not name numbers for {STATED}") from None
    if not 0 <= found.published <= 1 or min(found.pseudo, found.width, found.cap) <= 0:
        raise FedskewError(f"{name}: {line!r}: published must be 0 to 1, the others above 0")
    return found


@cache
def own_evidence() -> tuple[OwnRow, ...]:
    """The rows of our study that come with the package; read once.

    Examples
    --------
    >>> {row.source for row in (own.evidence() for own in own_evidence())} <= {"fedskew_study"}
    True
    """
    return parse_own(_text(), "own_evidence.csv")


def parse_own(text: str, name: str) -> tuple[OwnRow, ...]:
    """Check and parse the text of the file.

    Raises
    ------
    FedskewError
        Another version, other columns, or a cell that breaks the schema; the message names line and column.
    """
    first, _, rest = text.partition("\n")
    if first.strip() != f"# {VERSION}":
        raise FedskewError(f"{name}: the first line is {first[:60]!r}; it must be '# {VERSION}'")
    body = [line for line in rest.splitlines() if not line.startswith("#")]
    offset = 2 + len(rest.splitlines()) - len(body)
    table = csv.DictReader(body)
    if tuple(table.fieldnames or ()) != COLUMNS:
        odd = sorted(set(table.fieldnames or ()) ^ set(COLUMNS))
        raise FedskewError(f"{name}: columns differ from the schema at {odd or 'their order'}; make the file anew")
    rows = tuple(_row(cells, f"{name}, line {line}") for line, cells in enumerate(table, start=offset + 1))
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.setting, row.algorithm) in seen:
            raise FedskewError(f"{name}: {row.algorithm} stands twice in the setting {row.setting}")
        seen.add((row.setting, row.algorithm))
    return rows


def format_own(rows: Iterable[OwnRow], provenance: str, fit: Constants = STATED) -> str:
    """The text of the file, ``provenance`` and the fit in its head; :func:`parse_own` reads it back."""
    out = io.StringIO()
    out.write(f"# {VERSION}\n# {provenance}\n{FIT}{fit}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        cells = [getattr(row, name) for name in COLUMNS]
        writer.writerow(["" if cell is None else f"{cell:g}" if isinstance(cell, float) else cell for cell in cells])
    return out.getvalue()


def _row(cells: Mapping[str, str | None], where: str) -> OwnRow:
    if None in cells or None in cells.values():
        raise FedskewError(f"{where}: the number of cells differs from the header's {len(COLUMNS)}")
    values = {name: _cell(str(cells[name]), name, where) for name in COLUMNS}
    row = OwnRow(**values)
    for given, allowed in (
        (base_name(row.algorithm), tuple(COSTS)),
        (row.status, ("ok", "failed", "diverged")),
        (row.modality, ("tabular", "image")),
        *((kind, KINDS) for kind in row.skew.split("+")),
    ):
        if given not in allowed:
            raise FedskewError(f"{where}: {given!r} is not known: {choices(given, allowed)}")
    return row


def _cell(text: str, name: str, where: str) -> Any:
    kind = _TYPES[name]
    if kind is str:
        return text
    if not text and kind in (int | None, float | None):
        return None
    try:
        value = int(text) if kind in (int, int | None) else float(text)
    except ValueError:
        raise FedskewError(f"{where}, column {name}: {text!r} is not a number") from None
    ceiling = 100.0 if name in SCORES else 1.0 if name in ("participation", "constant") else math.inf
    if not 0 <= value <= ceiling or value == math.inf:
        raise FedskewError(f"{where}, column {name}: {text} is out of range")
    return value

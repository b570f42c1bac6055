"""The evidence base: published results and our own studies, one algorithm in one setting a row.

A CSV with the version in its first line. Rows are facts with their provenance; contested ones stay, flagged, and weigh
less (``trust``). ``docs/recommendation.md`` names the sources and what is contested.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedskew.advisor.price import COSTS, base_name
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError, choices

VERSION = "fedskew-evidence/1"
KINDS = ("none", "label_count", "label_dirichlet", "feature", "quantity", "concept", "natural")
CONTESTED = ("contested", "broken", "suspect", "copied")
"""What a flag begins with where the number itself is in doubt."""
CITATION: Mapping[str, str] = MappingProxyType(
    {
        "niid_bench": "li2022niid",
        "niid_bench_mixed": "li2022niid",
        "niid_bench_leaderboard": "li2022niid",
        "flbenchmark": "fedbench2025",
        "flower_niid_bench": "beutel2020flower",
        "flower_fednova": "beutel2020flower",
        "flower_moon": "beutel2020flower",
        "flamby": "terrail2022flamby",
        "moon_paper": "li2021moon",
        "nvflare_cifar10": "roth2022nvflare",
        "legate_baselines": "legate2026baselines",
        "scaffold_pytorch": "karhoutam2023scaffold",
    }
)
"""The work behind each source; a source that is not here is the user's own study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One algorithm in one setting; None is "not stated".

    Parameters
    ----------
    source, code : who published it, and the state of the code that made it
    dataset, variant : the data, and what else tells settings apart (network, local epochs)
    modality : ``tabular`` or ``image``
    skew : kinds joined by ``+``; ``natural`` where real silos differ in ways nobody graded
    param : parameters of the partition, such as ``beta=0.5``, ``k=1``, ``qbeta=0.5``, ``noise=0.1``
    classes, parties, participation, rounds, seeds : K, N, share above 0 to 1, rounds, runs behind the mean
    tuned : number of settings tried for this algorithm (1: none)
    metric : ``accuracy`` or another; all in percent, 0 to 100
    label_skew, quantity_skew, feature_skew : the profile's indices, expected for such a partition
    majority : percent that the best constant predictor reaches
    algorithm : id
    mean, std : percent; std over runs
    flag : ``ok``, or reasons for less trust joined by ``;``
    trust : 0 (not used) to 1
    step_ratio, weight_sum : most local steps over fewest, FedNova's A; columns that a file may lack
    """

    source: str
    code: str
    dataset: str
    variant: str
    modality: str
    skew: str
    param: str
    classes: int | None = None
    parties: int | None = None
    participation: float | None = None
    rounds: int | None = None
    seeds: int | None = None
    tuned: int | None = None
    metric: str = "accuracy"
    label_skew: float | None = None
    quantity_skew: float | None = None
    feature_skew: float | None = None
    majority: float | None = None
    algorithm: str
    mean: float
    std: float | None = None
    flag: str = "ok"
    trust: float = 1.0
    step_ratio: float | None = None
    weight_sum: float | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of skew; empty for none."""
        return frozenset(self.skew.split("+")) - {"none"}

    @property
    def setting(self) -> tuple[Any, ...]:
        """What rows to be compared must share: everything but the algorithm and its result."""
        place = (self.source, self.dataset, self.variant, self.skew, self.param)
        return (*place, self.parties, self.participation, self.rounds, self.seeds, self.metric)

    @property
    def contested(self) -> bool:
        """Whether the number itself is in doubt."""
        return any(reason.startswith(CONTESTED) for reason in self.flag.split(";"))

    @property
    def failed(self) -> bool:
        """Whether a constant predictor does as well (within 0.1 points)."""
        return self.majority is not None and self.mean <= self.majority + 0.1


MECHANISM = ("step_ratio", "weight_sum")
"""Columns that a file has where one of its rows states them, and else not."""
COLUMNS = tuple(column.name for column in fields(EvidenceRow) if column.name not in MECHANISM)
WHOLE = ("classes", "parties", "rounds", "seeds", "tuned")
REAL = ("participation", "label_skew", "quantity_skew", "feature_skew", "majority", "mean", "std", "trust", *MECHANISM)
PERCENT = ("majority", "mean", "std")


@cache
def shipped() -> tuple[EvidenceRow, ...]:
    """The evidence base that comes with the package: published results, and those of our own study; read once.

    Of our study FedBN's rows are left out (its models have no BatchNorm, and so it is FedAvg there), and those of an
    algorithm with a modifier, which ``recommend`` does not choose.
    """
    from fedskew.advisor.own_evidence import own_evidence

    chosen = (row for row in own_evidence() if row.algorithm in COSTS and row.algorithm != "fedbn")
    return (*published(), *(row.evidence() for row in chosen))


@cache
def published() -> tuple[EvidenceRow, ...]:
    """What others have published; read once.

    Examples
    --------
    >>> len({row.dataset for row in published() if row.source == "niid_bench"})
    9
    """
    return parse_evidence(files("fedskew.advisor").joinpath("evidence.csv").read_text("utf-8"), "evidence.csv")


def read_evidence(path: str | Path) -> tuple[EvidenceRow, ...]:
    """Read an evidence file, such as a study wrote.

    Raises
    ------
    FedskewError
        The file is not of this version, or a row breaks the schema; the message names line and column.
    EnvironmentFaultError
        The file cannot be read.
    """
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise EnvironmentFaultError(f"cannot read the evidence file {path}: {error.strerror}") from error
    return parse_evidence(text, str(path))


def parse_evidence(text: str, name: str = "evidence") -> tuple[EvidenceRow, ...]:
    """Check and parse the text of an evidence file.

    Raises
    ------
    FedskewError
        As :func:`read_evidence`.
    """
    first, _, rest = text.partition("\n")
    if first.strip() != f"# {VERSION}":
        raise FedskewError(f"{name}: the first line is {first[:60]!r}; it must be '# {VERSION}'")
    table = csv.DictReader(io.StringIO(rest))
    if tuple(table.fieldnames or ()) not in (COLUMNS, COLUMNS + MECHANISM):
        odd = sorted(set(table.fieldnames or ()) ^ set(COLUMNS))
        raise FedskewError(
            f"{name}: columns differ from the schema at {odd or 'their order'}; expected {', '.join(COLUMNS)}"
        )
    rows = tuple(_row(cells, f"{name}, line {line}") for line, cells in enumerate(table, start=3))
    seen: set[tuple[Any, ...]] = set()
    for line, row in enumerate(rows, start=3):
        key = (*row.setting, row.algorithm)
        if key in seen:
            raise FedskewError(f"{name}, line {line}: {row.algorithm} stands twice in the setting {row.setting}")
        seen.add(key)
    return rows


def format_evidence(rows: Iterable[EvidenceRow]) -> str:
    """The text of an evidence file; :func:`parse_evidence` reads it back unchanged."""
    listed = tuple(rows)
    stated = any(getattr(row, name) is not None for row in listed for name in MECHANISM)
    columns = COLUMNS + MECHANISM if stated else COLUMNS
    out = io.StringIO()
    out.write(f"# {VERSION}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in listed:
        cells = (getattr(row, name) for name in columns)
        writer.writerow(["" if cell is None else f"{cell:.10g}" if isinstance(cell, float) else cell for cell in cells])
    return out.getvalue()


def _row(cells: Mapping[str, str | None], where: str) -> EvidenceRow:
    if None in cells or None in cells.values():
        raise FedskewError(f"{where}: the number of cells differs from the header's {len(cells) - (None in cells)}")
    values: dict[str, Any] = dict(cells)
    for names, kind in ((WHOLE, int), (REAL, float)):
        for name in names:
            values[name] = _number(str(values.get(name, "")), kind, f"{where}, column {name}")
    if values["mean"] is None or values["trust"] is None:
        raise FedskewError(f"{where}: mean and trust must be given")
    row = EvidenceRow(**values)
    _check(row, where)
    return row


def _number(text: str, kind: type[int] | type[float], where: str) -> float | None:
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        raise FedskewError(f"{where}: {text!r} is not a number; leave it empty where it is not stated") from None
    if not 0 <= value < float("inf"):
        raise FedskewError(f"{where}: {text!r} is out of range; it must be 0 or more")
    return value


def _check(row: EvidenceRow, where: str) -> None:
    if row.modality not in ("tabular", "image"):
        raise FedskewError(f"{where}: unknown modality {row.modality!r}: {choices(row.modality, ['tabular', 'image'])}")
    for kind in row.skew.split("+"):
        if kind not in KINDS:
            raise FedskewError(f"{where}: unknown skew {kind!r}: {choices(kind, KINDS)}")
    if base_name(row.algorithm) not in COSTS:
        raise FedskewError(f"{where}: unknown algorithm {row.algorithm!r}: {choices(row.algorithm, COSTS)}")
    ceilings = {**dict.fromkeys(PERCENT, 100.0), "trust": 1.0, "participation": 1.0}
    for name, ceiling in ceilings.items():
        if (getattr(row, name) or 0.0) > ceiling:
            raise FedskewError(f"{where}, column {name}: {getattr(row, name):g} is above {ceiling:g}")

"""What a study is: data sets, a grid of settings, candidates.

Axes of the grid may hold one value or a list; a study is the union of the products of its ``[[grid]]`` blocks.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from fedskew.engine.settings import Settings
from fedskew.profiles.simulate import Plan, resolve

GENERATED = "generated:"
"""What a source begins with that is made and not read: ``generated:fcube``, ``generated:demo``."""
MADE = ("fcube", "demo")

Positive = Annotated[int, msgspec.Meta(ge=1)]
Whole = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Rate = Annotated[float, msgspec.Meta(gt=0)]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frozen, named fields only."""


class Table(Record, frozen=True):
    """A data set: where it is, how it is read, and how much of it is used.

    ``source``: a file, absolute or in the data folder, or ``generated:fcube``, ``generated:demo``. ``label``,
    ``party``, ``drop``, ``features``, ``modality``, ``task``: as in ``read_table``. ``every``: of each party's rows,
    take every so manyth (overlapping windows). ``rows``, ``test_rows``: most rows to train and to test on.
    ``columns``: of a sparse table, the most frequent ones. ``parties``: false leaves the parties that an npz names
    unread, and with them the search for columns that give them away.
    """

    source: str
    label: str | None = None
    party: str | None = None
    drop: tuple[str, ...] = ()
    features: str | None = None
    modality: Literal["tabular", "image"] | None = None
    task: Literal["classification", "regression"] | None = None
    every: Positive = 1
    rows: Positive | None = None
    test_rows: Positive | None = None
    columns: Positive | None = None
    parties: bool = True


class Grid(Record, frozen=True):
    """One block of the grid; every field down to ``weight_decay`` is an axis.

    ``data``: names of data sets, or ``all``. ``rows``: instead of the data set's own. ``partition``: strategy with
    parameters, such as ``label_dirichlet alpha=0.1``; ``natural`` keeps the parties of the table. ``candidates``: ids,
    with hyperparameters where wanted (``fedprox mu=0.001|0.01|0.1|1``: four, the best is reported), or ``all``.
    """

    data: str | tuple[str, ...]
    partition: str | tuple[str, ...]
    parties: Positive | tuple[Positive, ...] = 10
    partition_seed: Whole | tuple[Whole, ...] = 42
    rows: Positive | tuple[Positive, ...] | None = None
    model: str | tuple[str, ...] = "auto"
    participation: Share | tuple[Share, ...] = 1.0
    rounds: Positive | tuple[Positive, ...] = 50
    local_epochs: Positive | tuple[Positive, ...] = 10
    batch_size: Positive | tuple[Positive, ...] = 64
    lr: Rate | tuple[Rate, ...] = 0.01
    momentum: float | tuple[float, ...] = 0.9
    weight_decay: float | tuple[float, ...] = 1e-5
    seeds: Positive = 3
    seed: Whole = 0
    tuning: bool = False
    references: bool = False
    candidates: str | tuple[str, ...] = ("fedavg", "fedprox mu=0.001|0.01|0.1|1", "scaffold", "fednova")


AXES = (
    *("data", "partition", "parties", "partition_seed", "rows", "model", "participation", "rounds"),
    *("local_epochs", "batch_size", "lr", "momentum", "weight_decay"),
)


class Setting(Record, frozen=True):
    """One point of the grid: all that its result depends on, but for the versions of the code.

    ``sha256`` is that of the data file, empty for a generated one; ``parties`` is null where the strategy sets them.
    """

    data: str
    table: Table
    sha256: str
    partition: str
    parties: int | None
    partition_seed: int
    model: str
    participation: float
    rounds: int
    local_epochs: int
    batch_size: int
    lr: float
    momentum: float
    weight_decay: float
    seeds: int
    seed: int
    tuning: bool
    references: bool
    candidates: tuple[str, ...]

    @property
    def key(self) -> str:
        """A name for files: what a person recognises, and a hash of everything."""
        words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.data}-{self.partition}").strip("-")[:60]
        return f"{words}-{hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]}"

    @property
    def title(self) -> str:
        """What a person calls it."""
        parties = "" if self.parties is None else f", {self.parties} parties"
        share = "" if self.participation == 1 else f", {self.participation:g} a round"
        return f"{self.data}, {self.partition}{parties}{share}"

    @property
    def plan(self) -> Plan:
        """The strategy with every parameter."""
        return resolve(*strategy_of(self.partition, self.parties))

    @property
    def training(self) -> Settings:
        """The settings that the engine knows."""
        return msgspec.convert({name: getattr(self, name) for name in TRAINING}, Settings)


TRAINING = ("rounds", "local_epochs", "batch_size", "lr", "momentum", "weight_decay", "participation")


@dataclass(frozen=True, slots=True)
class Study:
    """A study laid out: settings in order, where each data set lies, and what was left out.

    ``note``: what a reader must know of the whole, the scale included. ``paper``: the NIID-Bench paper's numbers stand
    beside ours. ``places``: path by data set, None for a generated one. ``skipped``: name of a data set that is not
    here, and the path looked at.
    """

    name: str
    title: str
    note: str
    paper: bool
    settings: tuple[Setting, ...]
    places: Mapping[str, Path | None]
    skipped: Mapping[str, Path]


def strategy_of(text: str, parties: int | None) -> tuple[str, dict[str, str]]:
    """Name and parameters of a strategy written as ``label_dirichlet alpha=0.1``; ``parties`` where it takes them.

    Examples
    --------
    >>> strategy_of("label_dirichlet alpha=0.1", 5)
    ('label_dirichlet', {'alpha': '0.1', 'num_partitions': '5'})
    """
    name, *pairs = text.split()
    parameters = dict(pair.partition("=")[::2] for pair in pairs)
    if parties is not None:
        parameters["num_partitions"] = str(parties)
    return name, parameters

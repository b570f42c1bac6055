"""One batch of a file added to what a scan has so far: cells, columns, kernel sums."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.coding import plain, twin
from fedskew.profiles.columns import DATE, numbers, texts
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.kernel import PAIRS
from fedskew.profiles.readers.base import Options
from fedskew.profiles.rowhash import row_hashes
from fedskew.profiles.sketching.batches import Reader
from fedskew.profiles.sketching.blocks import Groups, Room, copy_narrow
from fedskew.profiles.sketching.budget import Budget
from fedskew.profiles.sketching.cells import cell_codes
from fedskew.profiles.sketching.making import feature_sums
from fedskew.profiles.sketching.minima import LeastHashes, RowKey
from fedskew.profiles.sketching.plan import Plan
from fedskew.profiles.sketching.tallies import NumericTally, TextTally, settle

if TYPE_CHECKING:
    import polars as pl

THREADS = 2
MOST_CATEGORIES = 1_000  # of a text column whose categories no plan fixes


class TextFoundError(Exception):
    """A column that looked numeric in its first rows holds text later."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read: the label, the party column (None: the whole file is ``party_name``), and which columns."""

    label: str
    party: str | None = None
    party_name: str = "all"
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    on_bad_row: Literal["error", "skip"] = "error"
    classification: bool = False

    @property
    def options(self) -> Options:
        """How a text file is read."""
        return Options(delimiter=self.delimiter, encoding=self.encoding, on_bad_row=self.on_bad_row)


@dataclass(slots=True)
class Scan:
    """Everything that has been added up so far."""

    columns: list[str]
    plan: Plan | None
    text: set[str]
    budget: Budget
    key: RowKey | None = None
    reader: Reader | None = None
    pool: ThreadPoolExecutor | None = None
    rooms: list[Room] = field(default_factory=lambda: [Room() for _ in range(THREADS)])
    batch: "dict[str, pl.Series | NDArray[Any]]" = field(default_factory=dict)
    cells: dict[tuple[str, str], int] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    unlabelled: dict[str, int] = field(default_factory=dict)
    homeless: int = 0
    numeric: dict[str, NumericTally] = field(default_factory=dict)
    categorical: dict[str, TextTally] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    kernels: dict[int, list[NDArray[np.float64]]] = field(default_factory=dict)
    entered: dict[int, int] = field(default_factory=dict)
    minima: dict[str, LeastHashes] = field(default_factory=dict)


def add_batch(path: Path, frame: "pl.DataFrame", wanted: Wanted, scan: Scan) -> None:
    """Add one batch."""
    import polars as pl

    label = plain(frame.get_column(wanted.label), "label", str(path))
    if wanted.party is not None:
        party = plain(frame.get_column(wanted.party), "party", str(path))
    else:
        party = pl.Series("party", [wanted.party_name]).new_from_index(0, frame.height)
    kept = label.is_not_null() & party.is_not_null()
    if not kept.all():
        scan.homeless += int(party.is_null().sum())
        for name in party.filter(label.is_null()).drop_nulls().cast(pl.String).to_list():
            scan.unlabelled[name] = scan.unlabelled.get(name, 0) + 1
        frame, label, party = frame.filter(kept), label.filter(kept), party.filter(kept)
    for name in party.unique().cast(pl.String).to_list() if wanted.party is not None else [wanted.party_name]:
        scan.unlabelled.setdefault(name, 0)
    if not frame.height:
        return
    cell = cell_codes(path, party, label, scan.cells)
    scan.rows.extend([0] * (len(scan.cells) - len(scan.rows)))
    groups = Groups(cell)
    for code, count in zip(groups.codes.tolist(), groups.lengths.tolist(), strict=True):
        scan.rows[code] += count
    matrix: list[NDArray[np.float32]] = []
    for name in scan.columns:
        _add_column(name, frame.get_column(name), scan, cell, matrix)
    _add_numbers(scan, groups)
    if scan.plan is not None:
        full = _with_absent(scan.plan, scan.columns, matrix, frame.height)
        label_codes = _plan_labels(scan, scan.plan, cell)
        _add_kernel(scan, scan.plan, full, groups, label_codes)
        if scan.key is not None:
            _add_hashes(scan, scan.key.hashes(full, label_codes, scan.plan.class_names), cell)


def _add_numbers(scan: Scan, groups: Groups) -> None:
    """Add the numeric columns of a batch, on several threads: each column on one, so that none changes a number."""
    for name in scan.batch:
        if name not in scan.numeric:
            scan.numeric[name] = NumericTally(scan.budget)
    columns = [(scan.numeric[name], value) for name, value in scan.batch.items()]
    scan.budget.hold(len(scan.cells), len(scan.numeric))

    def share(of: int) -> None:
        for tally, value in columns[of::THREADS]:
            tally.add(value, groups, scan.rooms[of])

    for _ in map(share, range(THREADS)) if scan.pool is None else scan.pool.map(share, range(THREADS)):
        pass
    settle([tally for tally, _ in columns], groups)
    scan.batch.clear()


def _add_column(
    name: str,
    series: "pl.Series",
    scan: Scan,
    cell: NDArray[np.int64],
    matrix: list[NDArray[np.float32]],
) -> None:
    planned = None if scan.plan is None else next(c for c in scan.plan.columns if c.name == name)
    if name in scan.odd:
        return
    if series.dtype.is_temporal() or series.dtype.is_nested():
        scan.odd[name] = "dates" if series.dtype.is_temporal() else "type"
        return
    value: pl.Series | NDArray[np.float64] | None = None
    if planned is not None and planned.kind == "numeric":
        value = _coerced(series)
    elif planned is None and name not in scan.text and name not in scan.categorical:
        value = series if series.dtype.is_float() else numbers(series)
        if value is None and name in scan.numeric and scan.numeric[name].moments[0].any():
            raise TextFoundError(name)
    if value is not None:
        scan.batch[name] = value
        if scan.plan is not None:
            narrow = np.empty(len(value), np.float32)
            copy_narrow(value, narrow)
            matrix.append(np.where(np.isinf(narrow), np.float32(np.nan), narrow))
            scan.batch[name] = matrix[-1]
        return
    scan.numeric.pop(name, None)
    hits = _add_text(name, series, scan, cell)
    if planned is not None:
        matrix.extend((hits == i).astype(np.float32) for i in range(len(planned.categories)))


def _add_text(name: str, series: "pl.Series", scan: Scan, cell: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the categories of a batch; the code of each value among those of a plan, -1 for any other."""
    import polars as pl

    text = texts(series)
    planned = None if scan.plan is None else next(c for c in scan.plan.columns if c.name == name)
    seen = text.drop_nulls().unique()
    allowed = None if planned is None else set(planned.categories)
    names = sorted(one for one in seen.to_list() if allowed is None or one in allowed)
    if planned is not None:
        names = list(planned.categories)
    tally = scan.categorical.setdefault(name, TextTally(MOST_CATEGORIES))
    if planned is None and len(seen):
        tally.dates = tally.dates is not False and bool(seen.str.contains(DATE).all())
    if not names or not len(seen):
        return np.full(len(text), -1, np.int64)
    if tally.given_up and planned is None:
        return np.full(len(text), -1, np.int64)
    places = pl.Series(range(len(names)), dtype=pl.Int64)
    code = text.replace_strict(pl.Series(names), places, default=-1, return_dtype=pl.Int64).fill_null(-1).to_numpy()
    held = code >= 0
    tally.add(names, code[held], cell[held])
    return np.asarray(code)


def _coerced(series: "pl.Series") -> NDArray[np.float64]:
    """Numbers of a planned numeric column; what is none counts as missing."""
    import polars as pl

    value = numbers(series)
    return texts(series).cast(pl.Float64, strict=False).to_numpy().astype(np.float64) if value is None else value


def _add_kernel(scan: Scan, plan: Plan, full: NDArray[np.float32], groups: Groups, label: NDArray[np.int64]) -> None:
    """Add the random features of the rows that enter; ``label`` holds each row's code among the plan's classes."""
    by, pairs = plan.projection(), list(scan.cells)
    limits = [plan.limit(pairs[code][0]) for code in groups.codes.tolist()]
    hashes = None if all(limit is None for limit in limits) else row_hashes(full, label)
    cells = zip(groups.codes.tolist(), np.split(groups.order, groups.starts[1:]), limits, strict=True)
    for code, rows, limit in cells:
        entering = rows if limit is None or hashes is None else rows[hashes[rows] < limit]
        sums, second = feature_sums(full, entering, by)
        if code not in scan.kernels:
            scan.kernels[code] = [np.zeros(2 * PAIRS), np.zeros((2 * PAIRS, 2 * PAIRS))]
        scan.kernels[code][0] += sums
        scan.kernels[code][1] += second
        scan.entered[code] = scan.entered.get(code, 0) + len(entering)


def _plan_labels(scan: Scan, plan: Plan, cell: NDArray[np.int64]) -> NDArray[np.int64]:
    """The code of each row's class in the plan."""
    place = {name: code for code, name in enumerate(plan.class_names)}
    known = [twin(label, place) for _, label in scan.cells]
    for (party, _), label in zip(scan.cells, known, strict=True):
        if label not in place:
            raise FedskewError(f"party {party!r} has a class that the plan has not: {label!r}; make the plan anew")
    return np.array([place[label] for label in known], np.int64)[cell]


def _add_hashes(scan: Scan, hashes: NDArray[np.uint64], cell: NDArray[np.int64]) -> None:
    """Keep the least hashes of each party's rows."""
    names = sorted({party for party, _ in scan.cells})
    code = {name: at for at, name in enumerate(names)}
    party = np.array([code[name] for name, _ in scan.cells], np.int64)[cell]
    for name in names:
        scan.minima.setdefault(name, LeastHashes())
    most = np.array([scan.minima[name].most for name in names], np.uint64)
    near = np.flatnonzero(hashes <= most[party])
    near = near[np.argsort(party[near], kind="stable")]
    codes, starts = np.unique(party[near], return_index=True)
    for at, rows in zip(codes.tolist(), np.split(near, starts[1:]), strict=True):
        scan.minima[names[at]].add(hashes[rows])


def _with_absent(plan: Plan, columns: list[str], matrix: list[NDArray[np.float32]], rows: int) -> NDArray[np.float32]:
    """The features in the plan's order, with those of columns that the file lacks: NaN if numeric, else 0."""
    if len(columns) == len(plan.columns):
        return np.column_stack(matrix)
    out, at = np.zeros((rows, plan.width), np.float32), 0
    for column in plan.table_columns():
        if column.name in columns:
            for feature in range(column.start, column.stop):
                out[:, feature] = matrix[at]
                at += 1
        elif column.kind == "numeric":
            out[:, column.start] = np.nan
    return out

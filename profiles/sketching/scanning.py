"""Sketch files that may be larger than memory: one pass, batch by batch, every number in a fixed order."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.gathering import refuse_both
from fedskew.profiles.readers.base import available_memory
from fedskew.profiles.sketching.adding import THREADS, Scan, TextFoundError, Wanted, add_batch
from fedskew.profiles.sketching.batches import (
    Reader,
    Tell,
    UntypedError,
    Way,
    chosen,
    column_names,
    iter_batches,
    planned,
)
from fedskew.profiles.sketching.budget import Budget, give_back
from fedskew.profiles.sketching.plan import Plan, row_key
from fedskew.profiles.sketching.record import Sketch
from fedskew.profiles.sketching.result import sketches_of
from fedskew.profiles.sketching.tallies import MOST_ROWS

BUDGET = 1 << 29
Watch = Callable[[int], None]
"""Told how many rows have been read."""


def scan_file(
    path: Path,
    wanted: Wanted,
    plan: Plan | None = None,
    *,
    watch: Watch | None = None,
    tell: Tell | None = None,
    budget: int | None = None,
    hash_key: bytes | None = None,
    reader: Reader | None = None,
) -> tuple[Sketch, ...]:
    """Sketch a Parquet, Arrow, CSV or TSV file in one pass, in memory that does not grow with its rows.

    Parameters
    ----------
    path : the file
    wanted : label, party and columns
    plan : adds the kernel sums
    watch : told how many rows have been read
    tell : told what was noticed about the file
    budget : bytes of histograms; 512 MB, or half of what is available, where None. They take 8 kB a party, class and
        numeric column; what would be over the budget gets fewer bins, and that is told
    hash_key : a secret of the silos: adds the least keyed hashes of rows; needs a plan
    reader : ``polars`` or ``pyarrow``: the sketches are the same, byte by byte. None: as the variable
        ``FEDSKEW_READER`` says, else Polars, and pyarrow for a file that Polars cannot open

    Returns
    -------
    one sketch a party, in the order of their names

    Raises
    ------
    FedskewError
        A column does not exist, the label is an id or continuous, a class is not in the plan, or there is a key and
        no plan.
    EnvironmentFaultError
        Parties, classes and columns need more histograms than the budget even with 512 bins each, or pyarrow is asked
        for and not installed.
    """
    reader = chosen(path, wanted.options, reader)
    there = column_names(path, wanted.options, reader=reader)
    columns = _columns(path, there, wanted, plan)
    most = min(BUDGET, available_memory() // 2) if budget is None else budget
    names = [name for name in (wanted.party, wanted.label) if name is not None]
    cells, numeric = planned(path, names, columns, reader=reader)
    key = None if hash_key is None else row_key(hash_key, plan)
    text: set[str] = set()
    way: Way = "plain"
    while True:
        give_back()
        scan = Scan(columns, plan, text, Budget(most, cells=cells, columns=numeric, tell=tell), key, reader)
        try:
            _run(path, wanted, scan, watch, tell or _silent, way=way)
        except TextFoundError as found:
            text = {*text, str(found)}
        except UntypedError as found:
            way = found.way
        else:
            if scan.homeless and tell is not None:
                tell(f"{path.name}: {scan.homeless} rows have no party and were left out")
            return sketches_of(path, scan, wanted, _taken(there, wanted))


def _columns(path: Path, there: list[str], wanted: Wanted, plan: Plan | None) -> list[str]:
    for what, name in (("label", wanted.label), ("party", wanted.party)):
        if name is not None and name not in there:
            raise FedskewError(f"{path}: has no {what} column {name!r}; {choices(name, there)}")
    if wanted.label == wanted.party:
        raise FedskewError(f"{path}: {wanted.label!r} is both the label and the party; name two columns")
    refuse_both(wanted.features, wanted.drop)
    for name in (*wanted.drop, *(wanted.features or ())):
        if name not in there:
            raise FedskewError(f"{path}: has no column {name!r}; {choices(name, there)}")
    if plan is not None:
        return _planned(path, there, wanted, plan)
    return _taken(there, wanted)


def _taken(there: list[str], wanted: Wanted) -> list[str]:
    other = {wanted.label, wanted.party, *wanted.drop}
    return [name for name in there if name in (wanted.features or there) and name not in other]


def _planned(path: Path, there: list[str], wanted: Wanted, plan: Plan) -> list[str]:
    """The columns of a plan that a silo has; all silos must use the same, so none can be left out here."""
    kept = [column.name for column in plan.columns if column.name in there]
    for name in kept:
        option = "--drop" if name in wanted.drop else "--features"
        if name in wanted.drop or (wanted.features is not None and name not in wanted.features):
            raise FedskewError(
                f"{path}: the plan asks for column {name!r}, and {option} leaves it out; change {option}, or ask for a "
                f"plan made of sketches without {name!r}"
            )
    return kept


def _silent(text: str) -> None:
    """Tell nothing."""


def _run(path: Path, wanted: Wanted, scan: Scan, watch: Watch | None, tell: Tell, *, way: Way) -> None:
    names = [name for name in (wanted.label, wanted.party) if name is not None]
    done = 0
    batches = iter_batches(path, [*names, *scan.columns], names, wanted.options, tell=tell, way=way, reader=scan.reader)
    with ThreadPoolExecutor(THREADS) as scan.pool:
        for frame in batches:
            add_batch(path, frame, wanted, scan)
            done += frame.height
            del frame  # before the next one is read
            if done > MOST_ROWS:
                raise FedskewError(f"{path}: has more than {MOST_ROWS} rows; split the file and merge the sketches")
            if watch is not None:
                watch(done)
    scan.pool = None

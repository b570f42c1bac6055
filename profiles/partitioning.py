"""From a source and the name of a strategy to an index file, and on request to silo files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedskew.profiles.atomic import check_output
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.gathering import refuse_both
from fedskew.profiles.index_file import make_index, relative_to_index, write_index
from fedskew.profiles.matrices import looks_like_images
from fedskew.profiles.outputs import check_apart
from fedskew.profiles.partitions import Partition, make_partition
from fedskew.profiles.silos import are_file_names
from fedskew.profiles.silos import write_silos as write_silo_files
from fedskew.profiles.simulate import Plan, assign, resolve, transformed
from fedskew.profiles.sources import Source, hash_of, open_source
from fedskew.profiles.strategies.base import Codes

_COLUMN = ("column", "partition_by")


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What was written: where, by which strategy, and how large the parties are.

    ``parameters`` hold every value, defaults too; ``sizes`` and ``counts`` are by party name, the latter with one
    number of rows for each of ``class_names``. ``silos`` and ``test`` are the folder and file written, if any;
    ``silo_options`` is what the commands need besides to read them, such as ``--label y``.
    """

    index: str
    strategy: str
    parameters: dict[str, Any]
    seed: int
    rows: int
    unassigned: int
    class_names: tuple[str, ...]
    sizes: dict[str, int]
    counts: dict[str, list[int]]
    silos: str | None = None
    test: str | None = None
    silo_options: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The summary as one JSON document, indented by two."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def partition_source(
    source: Any,
    strategy: str,
    out: str | Path,
    *,
    seed: int = 42,
    parameters: Mapping[str, Any] | None = None,
    write_silos: str | Path | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Summary:
    """Partition files by a strategy: write the index file and, on request, one file a party.

    Parameters
    ----------
    source : one path or several, see ``read_table``
    strategy : name, alias, or several joined by ``+``
    out : the index file, ``.json`` or ``.npz``
    seed : 0 or more
    parameters : by name or alias; texts are parsed; ``column`` names the party column of ``natural``
    write_silos : a new folder for one Parquet file a party (images: one npz)
    reading : options of ``read_table`` such as ``label``; None means not given

    Raises
    ------
    FedskewError
        Bad input: the source, the strategy or a parameter, or a request the table cannot meet.
    EnvironmentFaultError
        A place cannot be written to; found before any work is done.
    """
    given, options = _options_of(parameters, reading)
    refuse_both(options.get("features"), options.get("drop"))
    plan = resolve(strategy, given)
    paths = _paths(source)
    index_path = _writable(Path(out), write_silos)
    check_apart({"--out": index_path}, map(Path, paths))
    opened = open_source(paths[0] if len(paths) == 1 else paths, options)
    codes, names = assign_source(opened, plan, seed)
    result = transformed(opened.partitioned(codes, names, simulated=plan.simulated), plan, seed)
    silos, test = None, None
    if write_silos is not None:
        silos = Path(write_silos)
        test = write_silo_files(opened, codes, names, result, silos, plan=plan)
    index = make_index(
        codes, names, plan, seed,
        source=[relative_to_index(path, index_path) for path in paths],
        reading=_recorded(options, index_path),
        data_hash=hash_of(paths),
    )  # fmt: skip
    write_index(index, index_path)
    return Summary(
        index=str(index_path),
        strategy=plan.name,
        parameters=dict(plan.values),
        seed=int(seed),
        rows=opened.rows,
        unassigned=index.unassigned,
        class_names=result.class_names,
        sizes=dict(zip(result.party_names, result.sizes.tolist(), strict=True)),
        counts=dict(zip(result.party_names, result.counts.tolist(), strict=True)),
        silos=None if silos is None else str(silos),
        test=None if test is None else str(test),
        silo_options=() if silos is None else _silo_options(opened, names, result, test),
    )


def _options_of(
    parameters: Mapping[str, Any] | None, reading: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the strategy gets, and what the reader gets: the column of ``natural`` is the reader's party."""
    given = dict(parameters or {})
    options = {
        name: value for name, value in (reading or {}).items() if value is not None and value not in ((), [], "")
    }
    for name in _COLUMN:
        if given.get(name) is not None:
            options["party"] = given[name]
        given.pop(name, None)
    return given, options


def _writable(index_path: Path, silos: str | Path | None) -> Path:
    """Check both places before any work is done."""
    if index_path.suffix.lower() not in {".json", ".npz"}:
        raise FedskewError(f"{index_path}: the name of an index file ends in .json or .npz")
    check_output(index_path)
    if silos is not None:
        check_output(Path(silos), folder=True)
    return index_path


def _recorded(options: Mapping[str, Any], index_path: Path) -> dict[str, Any]:
    """The reader's options as the index keeps them: paths from where it lies."""
    return {name: relative_to_index(value, index_path) if name == "test" else value for name, value in options.items()}


def assign_source(opened: Source, plan: Plan, seed: int) -> tuple[Codes, tuple[str, ...]]:
    """Party codes by row of the source, -1 for rows without a label or, for ``natural``, without a party."""
    labels, places = opened.unpartitioned(features=plan.assign.needs_features)
    if plan.assign.name == "natural":
        found = opened.parties()
        if found is None:
            raise FedskewError(
                f"{opened.data.where}: natural needs the column that names the parties; give it with --party"
            )
        party, names = found
        places = places[party[places] >= 0]
        labels = make_partition(
            np.zeros((len(places), 0), np.float32), np.zeros(len(places), np.int64), np.zeros(len(places), np.int32)
        )
        codes, chosen = assign(labels, plan, seed, party=party[places], party_names=names)
    else:
        codes, chosen = assign(labels, plan, seed)
    every = np.full(opened.rows, -1, dtype=np.int32)
    every[places] = codes
    return every, chosen


def _silo_options(source: Source, names: tuple[str, ...], result: Partition, test: Path | None) -> tuple[str, ...]:
    """How to read the silo files again."""
    if result.modality == "image":
        how = [] if looks_like_images(result.features.shape) else ["--modality", "image"]
    else:
        how = ["--label", source.data.label.name, *([] if are_file_names(names) else ["--party", "party"])]
    return (*how, *([] if test is None else ["--test", str(test)]))


def _paths(source: Any) -> list[str]:
    items = [source] if isinstance(source, (str, Path)) else list(source)
    if not items or not all(isinstance(item, (str, Path)) for item in items):
        raise FedskewError("an index file records where its data are; give paths, or use simulate() for data in memory")
    return [str(item) for item in items]

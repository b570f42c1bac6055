"""From a TOML file, or the name of one that ships, to a study laid out: checked, one setting after the other."""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from fedskew.advisor.arguments import listed
from fedskew.advisor.study.candidates import parse_candidates
from fedskew.advisor.study.grid import AXES, GENERATED, MADE, Grid, Record, Setting, Study, Table, strategy_of
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError, choices
from fedskew.profiles.simulate import resolve
from fedskew.profiles.sources import hash_of

SCALES = ("rows", "rounds", "seeds", "local_epochs")
"""What ``--scale`` can cap."""


class _File(Record, frozen=True):
    data: dict[str, Any]
    grid: list[dict[str, Any]]
    name: str = ""
    title: str = ""
    note: str = ""
    paper: bool = False
    defaults: dict[str, Any] = msgspec.field(default_factory=dict)


def presets() -> tuple[str, ...]:
    """Names of the studies that come with the package.

    Examples
    --------
    >>> "paper-tabular" in presets()
    True
    """
    folder = files("fedskew.advisor.study").joinpath("presets")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def read_study(source: str | Path, data: Path | None = None, scale: str = "", candidates: str = "") -> Study:
    """Read a study from a TOML file or take a preset by its name.

    Parameters
    ----------
    source : path, or one of :func:`presets`
    data : folder of the data files; None: ``FEDSKEW_DATA``, else the folder of the TOML file
    scale : caps such as ``rows=6000,rounds=10,seeds=2``; told in every output
    candidates : these, parted by commas, in the place of all that the study names; told in every output

    Raises
    ------
    FedskewError
        No such file or preset, a key or value that is not allowed, or no data set is here.
    """
    text, where, beside = _text(source)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FedskewError(f"{where}: is not TOML: {error}") from error
    file = _convert(raw, _File, where)
    folder = data or Path(os.environ.get("FEDSKEW_DATA") or beside)
    tables = {name: _convert(entry, Table, f"{where}, [data.{name}]") for name, entry in file.data.items()}
    caps, others = _caps(scale), {"candidates": tuple(listed(candidates))} if candidates else {}
    if "rows" in caps:
        tables = {
            n: msgspec.structs.replace(t, rows=min(t.rows or caps["rows"], caps["rows"])) for n, t in tables.items()
        }
    places = {name: _place(table.source, folder, f"{where}, [data.{name}]") for name, table in tables.items()}
    skipped = {name: path for name, path in places.items() if path is not None and not path.exists()}
    here = {name: path for name, path in places.items() if name not in skipped}
    if not here:
        raise FedskewError(
            f"{where}: none of its data sets ({', '.join(tables)}) is in {folder}; "
            "name the folder with --data or FEDSKEW_DATA"
        )
    sums = {name: "" if path is None else hash_of([path]) for name, path in here.items()}
    found: dict[str, Setting] = {}
    for number, block in enumerate(file.grid, start=1):
        place = f"{where}, [[grid]] {number}"
        grid = _capped(_convert({**file.defaults, **block, **others}, Grid, place), caps)
        for setting in _settings(grid, tables, sums, place):
            found.setdefault(setting.key, setting)
    label = f"SCALED DOWN: {', '.join(f'{k} at most {v}' for k, v in caps.items())}." if caps else ""
    name = file.name or Path(where).stem
    instead = f"CANDIDATES OF THIS RUN: {', '.join(others['candidates'])}." if others else ""
    note = " ".join(part for part in (label, instead, " ".join(file.note.split())) if part)
    return Study(name, file.title or name, note, file.paper, tuple(found.values()), here, skipped)


def only(study: Study, words: str) -> Study:
    """The settings whose title holds a text, or one of several parted by commas.

    Raises
    ------
    FedskewError
        None does.
    """
    wanted = [word.lower() for word in listed(words)]
    kept = tuple(s for s in study.settings if any(word in s.title.lower() for word in wanted))
    if not kept:
        absent = f" (without the data sets that are not here: {', '.join(study.skipped)})" if study.skipped else ""
        raise FedskewError(f"--only {words!r} fits none of the {len(study.settings)} settings{absent}; see --dry-run")
    return replace(study, settings=kept)


def _settings(grid: Grid, tables: Mapping[str, Table], sums: Mapping[str, str], where: str) -> Iterator[Setting]:
    wanted = tuple(tables) if grid.data == "all" else _listed(grid.data)
    for name in wanted:
        if name not in tables:
            raise FedskewError(f"{where}: data is {name!r}; {choices(name, tables)}")
    candidates = parse_candidates(_listed(grid.candidates), where)
    axes = [wanted if axis == "data" else _listed(getattr(grid, axis)) for axis in AXES]
    for values in product(*axes):
        point: dict[str, Any] = dict(zip(AXES, values, strict=True))
        if not _takes_parties(str(point["partition"]), where):
            point["parties"] = None
        if point["data"] not in sums:
            continue
        table, rows = tables[point["data"]], point.pop("rows")
        if rows is not None:
            table = msgspec.structs.replace(table, rows=rows)
        plain: dict[str, Any] = {n: getattr(grid, n) for n in ("seeds", "seed", "tuning", "references")}
        plain |= {"table": table, "sha256": sums[point["data"]], "candidates": candidates}
        setting = Setting(**point, **plain)
        try:
            setting.training  # noqa: B018  (checks the ranges)
        except msgspec.ValidationError as error:
            raise FedskewError(f"{where}: {error}") from error
        yield setting


def _takes_parties(text: str, where: str) -> bool:
    if not text.split():
        raise FedskewError(f"{where}: partition is empty; name a strategy, see fedskew partition --list")
    try:
        plan = resolve(*strategy_of(text, None))
    except FedskewError as error:
        raise FedskewError(f"{where}: partition {text!r}: {error}") from error
    if not plan.simulated or "num_partitions=" in text:
        return False
    return any(parameter.name == "num_partitions" for parameter in plan.assign.parameters)


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _text(source: str | Path) -> tuple[str, str, Path]:
    """The text of a study, what messages call it, and the folder it lies in."""
    path = Path(source)
    if not path.exists() and str(source) in presets():
        text = files("fedskew.advisor.study").joinpath("presets", f"{source}.toml").read_text("utf-8")
        return text, str(source), Path()
    try:
        return path.read_text("utf-8"), str(source), path.parent
    except FileNotFoundError:
        known = choices(str(source), presets())
        raise FedskewError(f"{source}: there is no such study file, nor a preset of that name; {known}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFaultError(f"{source}: cannot be read as text: {error}") from error


def _convert(raw: Mapping[str, Any], kind: Any, where: str) -> Any:
    for name in raw:
        if name not in kind.__struct_fields__:
            raise FedskewError(f"{where}: there is no key {name!r}; {choices(name, kind.__struct_fields__)}")
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise FedskewError(f"{where}: {str(error).replace(' - at `$.', ' at `')}") from error


def _place(source: str, folder: Path, where: str) -> Path | None:
    if source.startswith(GENERATED):
        name = source.removeprefix(GENERATED)
        if name not in MADE:
            raise FedskewError(f"{where}: source is {source!r}; {choices(source, [GENERATED + made for made in MADE])}")
        return None
    return folder / source  # an absolute source stays as it is


def _caps(scale: str) -> dict[str, int]:
    caps: dict[str, int] = {}
    for pair in listed(scale):
        name, _, value = pair.partition("=")
        if name not in SCALES or not value.isdecimal() or int(value) < 1:
            raise FedskewError(f"--scale {pair!r}: give KEY=NUMBER, 1 or more; {choices(name, SCALES)}")
        caps[name] = int(value)
    return caps


def _capped(grid: Grid, caps: Mapping[str, int]) -> Grid:
    changed: dict[str, Any] = {}
    for name in SCALES:
        if name in caps and getattr(grid, name) is not None:
            changed[name] = _least(getattr(grid, name), caps[name])
    return msgspec.structs.replace(grid, **changed)


def _least(value: Any, cap: int) -> Any:
    unique: Iterable[int] = dict.fromkeys(min(one, cap) for one in _listed(value))
    return tuple(unique) if isinstance(value, tuple) else min(value, cap)

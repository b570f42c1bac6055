"""What ``fedskew study`` does: read the study, say what it would take or run it, and say where it stands."""

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fedskew.advisor.study.grid import Study
from fedskew.advisor.study.plan import Forecast, forecast
from fedskew.advisor.study.reading import only, presets, read_study
from fedskew.advisor.study.run import Place
from fedskew.advisor.study.session import Standing, run_study
from fedskew.advisor.study.workers import KEPT
from fedskew.engine.backends import check_backend
from fedskew.profiles.atomic import check_output, write_atomically
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.outputs import check_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The options of the command line."""

    out: Path | None
    data: Path | None = None
    jobs: int | None = None
    backend: str = "local"
    address: str | None = None
    scale: str = ""
    only: str = ""
    candidates: str = ""
    dry_run: bool = False
    curves: bool = False
    json: str | None = None
    quiet: bool = False
    list: bool = False


def study_command(source: str | None, order: Order) -> int:
    """Do what the command line asks for; progress goes to stderr, a line a setting.

    Returns
    -------
    int : 0; 1 where settings are missing at the end; 3 where the machine is to blame for any of them, so that the same
        command may finish them

    Raises
    ------
    FedskewError
        The study cannot be read, or an option is wrong.
    """
    if order.list:
        sys.stdout.write("\n".join(presets()) + "\n")
        return 0
    if source is None:
        raise FedskewError("name a study file or a preset; fedskew study --list shows the presets")
    if order.out is None and not order.dry_run:
        raise FedskewError("say where the results go with --out DIR (or look first with --dry-run)")
    if order.jobs is not None and order.jobs < 1:
        raise FedskewError(f"--jobs is {order.jobs}; it must be 1 or more")
    check_backend(order.backend, order.address)
    if order.json not in (None, "-"):
        check_output(Path(str(order.json)))
        check_apart({"--json": Path(str(order.json))}, [Path(source)])
    if order.data is not None and not Path(order.data).is_dir():
        raise FedskewError(f"--data {order.data}: there is no such folder")
    study = read_study(source, order.data, order.scale, order.candidates)
    if order.only:
        study = only(study, order.only)
    found = _found(study, order)
    if order.json == "-":
        sys.stdout.write(found.to_json() + "\n")
    elif order.json is not None:
        write_atomically(Path(order.json), found.to_json().encode() + b"\n")
    if not order.quiet and order.json != "-":
        sys.stdout.write(_text(found, order.out) + "\n")
    if not isinstance(found, Standing) or not found.missing:
        return 0
    return EnvironmentFaultError.exit_code if found.machine else 1


def _found(study: Study, order: Order) -> Forecast | Standing:
    progress = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

    def tell(line: str) -> None:
        if not order.quiet:
            progress.print(line, style="dim")

    if order.out is None or order.dry_run:
        return forecast(study, order.out, jobs=order.jobs, tell=lambda title: tell(f"estimating {title}"))
    if study.note:
        tell(study.note)
    place = Place(order.backend, order.address)
    return run_study(study, order.out, jobs=order.jobs, place=place, tell=tell, curves=order.curves)


def _text(found: Forecast | Standing, out: Path | None) -> str:
    if isinstance(found, Forecast):
        return found.to_text()
    lines = [f"{found.finished} settings finished, {found.missing} missing"]
    lines += [f"skipped, not here: {name}" for name in found.skipped]
    lines += [f"failed: {title}: {reason}" for title, reason in found.failed.items()]
    if found.machine:
        lines.append(f"{len(found.machine)} of {found.missing} failed by the machine's fault; {KEPT}")
    lines += [f"{out}: {', '.join(name for name in found.files if '/' not in name)}"] if found.files else []
    return "\n".join(lines)

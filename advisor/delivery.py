"""Where answers go: the terminal, a JSON file, a page, the run folder; and the live table while training runs."""

import io
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from rich.console import Console
from rich.live import Live

from fedskew.advisor.advice import Advice
from fedskew.advisor.arguments import check_outputs
from fedskew.advisor.recommendation import Recommendation
from fedskew.advisor.terminal import Shown, show
from fedskew.advisor.terminal_training import progress_view
from fedskew.engine import Estimate, Progress, Validation
from fedskew.profiles import FedskewError, Profile
from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.counting import many
from fedskew.profiles.errors import EnvironmentFaultError
from fedskew.profiles.partitioning import Summary

ANSWER = "answer.json"
"""The file of a run folder that holds what the finished command found."""
COMMAND = "command.txt"
"""The file of a run folder that holds the command which began the run, so that somebody else can finish it."""
STORE = "run.sqlite"


def console(target: str | None) -> Console:
    """The console for tables: stderr where the JSON takes stdout (``target`` is ``-``).

    A stream that cannot write every character (``PYTHONIOENCODING=ascii``) gets escapes instead of an error.
    """
    stream = sys.stderr if target == "-" else sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    return _Console(stderr=target == "-", highlight=False)


class _Console(Console):
    """Rich's console ends the process with code 1 where nobody reads on; ``| head`` is no failure."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which ends with code 0."""
        raise BrokenPipeError


class Watchers(TypedDict):
    """The two listeners of :func:`fedskew.engine.validate`; None where nobody watches."""

    progress: Callable[[Progress], None] | None
    announce: Callable[[Estimate], None] | None


@contextmanager
def watching(target: str | None, *, quiet: bool) -> Iterator[Watchers]:
    """Say what training will take, and show a live table while it runs; in a pipe only the former."""
    out = console(target)
    if quiet:
        yield {"progress": None, "announce": None}
        return

    def announce(what: Estimate) -> None:
        short = what.seconds < 90
        minutes = many(max(1, round(what.seconds)), "second") if short else many(round(what.seconds / 60), "minute")
        out.print(f"Training {what.lane_steps:,} local steps: about {minutes}, {what.bytes / 1e9:.1f} GB", style="dim")

    if not out.is_terminal:
        yield {"progress": None, "announce": announce}
        return
    lines: dict[str, Progress] = {}
    with Live(console=out, refresh_per_second=4, transient=True) as live:

        def tell(now: Progress) -> None:
            lines[now.name] = now
            live.update(progress_view(lines.values()))

        yield {"progress": tell, "announce": announce}


def begin(run: Path | None, *, trains: bool = True) -> None:
    """Note in a run folder which command began it, and take away the answer of the one before.

    Call it once the folder is known to take the run: a refused command must leave both as they are.

    Parameters
    ----------
    run : the folder, made if it does not exist; None for none
    trains : False: the command trains nothing, and must not take the place of one that did

    Raises
    ------
    FedskewError
        The command trains nothing, and the folder holds a validation.
    EnvironmentFaultError
        The folder cannot be made or written to.
    """
    if run is None:
        return
    if not trains and (run / STORE).exists():
        raise FedskewError(f"{run} holds a validation, and this command makes none: use another --run folder")
    try:
        run.mkdir(parents=True, exist_ok=True)
        (run / ANSWER).unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentFaultError(f"cannot make the run folder {run}: {error.strerror}") from error
    command = shlex.join(["fedskew", *sys.argv[1:]])
    write_atomically(run / COMMAND, (command + "\n").encode("utf-8", "surrogateescape"))


def deliver(
    record: Shown,
    target: str | None,
    *,
    quiet: bool,
    html: Path | None = None,
    run: Path | None = None,
    advice: Recommendation | None = None,
    profile: Profile | None = None,
) -> None:
    """Write the JSON and the page where they were asked for, and print the tables.

    Parameters
    ----------
    record : what a command found
    target : path of the JSON file, ``-`` for stdout, None for none
    quiet : print no tables
    html : path of the page, None for none; not for a partition
    run : the run folder, which keeps the answer as ``answer.json``; None for none
    advice : the recommendation that a validation is about, where the command made it itself: the page and the run
        folder show it too, with its profile
    profile : of the data, where there is no such advice: the run folder keeps it, since an export needs the classes

    Raises
    ------
    EnvironmentFaultError
        A file cannot be written.
    """
    if run is not None:
        write_atomically(run / ANSWER, _document(record, advice, profile))
    if target == "-":
        _write_out(record.to_json() + "\n")
    elif target is not None:
        text = record.to_json() + "\n"
        json.loads(text)  # what cannot be read back is a bug here, not at the reader's
        write_atomically(Path(target), text.encode())
    if html is not None and not isinstance(record, Summary):
        from fedskew.advisor.reporting import report

        write_atomically(html, report(record, *([] if advice is None else [advice])).to_html().encode())
    if not quiet:
        show(console(target), record)


def _write_out(text: str) -> None:
    """JSON on stdout: UTF-8, whatever the terminal's encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)


def _document(record: Shown, advice: Recommendation | None, profile: Profile | None) -> bytes:
    """The record as JSON; a validation with its recommendation as ``advise`` writes them, or with its profile."""
    if isinstance(record, Validation) and profile is not None:
        from fedskew.advisor.reporting import report

        return (report(record, profile).to_json() + "\n").encode()
    if isinstance(record, Validation) and advice is not None:
        record = Advice(profile=advice.profile, recommendation=advice, validation=record)
    return (record.to_json() + "\n").encode()


def deliver_again(source: Path, *, quiet: bool, html: Path | None) -> None:
    """Show an answer that is read back, and write its page where that is asked for.

    Parameters
    ----------
    source : a run folder, or a file that ``--json`` wrote
    quiet : print nothing
    html : path of the page, None for none

    Raises
    ------
    FedskewError
        There is no answer in the source, or the page would be written over it.
    EnvironmentFaultError
        The page cannot be written.
    """
    from fedskew.advisor.reporting import read_report

    check_outputs({"html": html, "source": source})
    found = read_report(read_answer(source), str(source))
    if html is not None:
        write_atomically(html, found.to_html().encode())
    if quiet:
        return
    out = console(None)
    if html is not None:
        out.print(f"Report written to {html}", markup=False)
        return
    for record in (found.validation, found.recommendation or found.data):
        if record is not None:
            show(out, record)


MOST_BYTES = 256_000_000


def read_answer(source: Path) -> bytes:
    """Read the answer of a finished run folder, or a file that ``--json`` wrote.

    Raises
    ------
    FedskewError
        The folder holds no run or an unfinished one, or the file cannot be read or is larger than fedskew writes.
    """
    if not source.is_dir():
        return read_whole(source)
    if (source / ANSWER).is_file():
        return read_whole(source / ANSWER)
    if not (source / STORE).is_file() and not (source / COMMAND).is_file():
        raise FedskewError(f"{source} is no run folder: it holds no {ANSWER}; give what --run or --json wrote")
    try:
        command = (source / COMMAND).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        command = f"fedskew validate ... --run {shlex.quote(str(source))}, with the options that began it"
    raise FedskewError(f"the run in {source} is not finished and holds no {ANSWER} yet; finish it with: {command}")


def read_whole(path: Path) -> bytes:
    """Read a file that fedskew wrote.

    Raises
    ------
    FedskewError
        It cannot be read, or is larger than anything fedskew writes.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise FedskewError(f"{path} is larger than {MOST_BYTES // 1_000_000} MB; no report of fedskew is")
        return path.read_bytes()
    except OSError as error:
        raise FedskewError(f"cannot read {path}: {error.strerror}; give what --json or --run wrote") from error

"""Where answers go: the terminal, a JSON file, and the live table while training runs."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from rich.console import Console
from rich.live import Live

from fedskew.advisor.terminal import Shown, progress_view, show
from fedskew.engine import Estimate, Progress
from fedskew.profiles import FedskewError
from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.partitioning import Summary


def console(target: str | None) -> Console:
    """The console for tables: stderr where the JSON takes stdout (``target`` is ``-``)."""
    return Console(stderr=target == "-", highlight=False)


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
        minutes = f"{what.seconds / 60:.0f} minutes" if what.seconds >= 90 else f"{max(1, what.seconds):.0f} seconds"
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


def deliver(record: Shown, target: str | None, *, quiet: bool, html: Path | None = None) -> None:
    """Write the JSON and the page where they were asked for, and print the tables.

    Parameters
    ----------
    record : what a command found
    target : path of the JSON file, ``-`` for stdout, None for none
    quiet : print no tables
    html : path of the page, None for none; not for a partition

    Raises
    ------
    EnvironmentFaultError
        The file cannot be written.
    """
    if target == "-":
        sys.stdout.write(record.to_json() + "\n")
    elif target is not None:
        text = record.to_json() + "\n"
        json.loads(text)  # what cannot be read back is a bug here, not at the reader's
        write_atomically(Path(target), text.encode())
    if html is not None and not isinstance(record, Summary):
        from fedskew.advisor.reporting import report

        write_atomically(html, report(record).to_html().encode())
    if not quiet:
        show(console(target), record)


MOST_BYTES = 256_000_000


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
        raise FedskewError(f"cannot read {path}: {error.strerror}; give what --json wrote") from error

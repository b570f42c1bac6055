"""What `fedskew sketch`, `fedskew plan` and sketch files as SOURCE do; needs neither torch nor scipy."""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedskew.advisor.arguments import check_outputs, columns_of, listed, read_source, refuse_reading
from fedskew.profiles.counting import many
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.matrices import refuse_image_table
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.batches import STREAMED
from fedskew.profiles.sketching.file import is_sketch, read_sketches, write_sketches
from fedskew.profiles.sketching.merging import respelled
from fedskew.profiles.sketching.minima import read_key
from fedskew.profiles.sketching.plan import Plan, make_plan, read_plan, write_plan
from fedskew.profiles.sketching.pool import TOLD
from fedskew.profiles.sketching.privacy import noised, withheld
from fedskew.profiles.sketching.record import Sketch
from fedskew.profiles.sketching.scanning import scan_file

if TYPE_CHECKING:
    from fedskew.profiles import Partition


def read_silos(source: list[Path] | None, options: Mapping[str, Any]) -> "Partition | tuple[Sketch, ...]":
    """Read what SOURCE names: rows, or sketches if all its files are sketch files.

    Raises
    ------
    FedskewError
        Some files are sketches and some are not, an option would read sketches otherwise, or as ``read_table`` and
        ``read_sketches`` do.
    """
    found = sketches_in(source or [])
    if found is None:
        return read_source(source, options)
    files = sketch_files(source or [])
    refuse_reading(options, f"{files[0]} is a sketch, in which label and columns are settled")
    check_outputs({**options, "source": files})
    return found


def rows_of(silos: "Partition | tuple[Sketch, ...]") -> "Partition":
    """The partition, if it is one.

    Raises
    ------
    FedskewError
        They are sketches, which hold no row to train on.
    """
    if isinstance(silos, tuple):
        raise FedskewError(
            "sketches hold no rows to train on; give the rows themselves, or use `fedskew advise --no-validate`"
        )
    return silos


def sketches_in(source: Sequence[Path]) -> tuple[Sketch, ...] | None:
    """The sketches of all files, or None where none is a sketch file; a folder counts as the files in it."""
    sketched = sketch_files(source)
    if not sketched:
        return None
    others = [file for path in source for file in _rows_in(path) if file not in sketched]
    if others:
        raise FedskewError(f"{others[0]}: is no sketch file, and {sketched[0]} is one; give sketches or rows, not both")
    return tuple(sketch for file in sketched for sketch in read_sketches(file))


def _rows_in(path: Path) -> list[Path]:
    """A file, or the files of a folder that would be read as rows if no sketch lay beside them."""
    if not path.is_dir():
        return [path]
    from fedskew.profiles.gathering import SUFFIXES

    rows = SUFFIXES - {".json"}  # plans and profiles may lie beside sketches
    return sorted(file for file in path.iterdir() if file.suffix.lower() in rows and not file.name.startswith("."))


def sketch_files(source: Sequence[Path]) -> list[Path]:
    """The sketch files among all files; a folder counts as the files in it."""
    files = [file for path in source for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    return [file for file in files if is_sketch(file)]


def make_sketches(source: list[Path], out: Path, options: Mapping[str, Any]) -> str:
    """Sketch the silos of a source into one file.

    Parameters
    ----------
    source : files, or a folder of them; without ``--party`` each is one party, named by its stem
    out : the sketch file
    options : of the command line

    Returns
    -------
    what to tell: parties, rows, rows a second

    Raises
    ------
    FedskewError
        The data cannot be read, or what is asked for does not go together.
    """
    check_outputs({**options, "source": _files(source)})
    if options["label"] is None and any(_streams(path, options) for path in _files(source)):
        raise FedskewError("say which column is the label with --label")
    if options["spend_again"] and options["epsilon"] is None:
        raise FedskewError("--spend-again draws noise anew, so it needs --epsilon")
    epsilon, plan = options["epsilon"], None if options["plan"] is None else read_plan(options["plan"])
    if plan is not None and epsilon is None and not plan.columns:
        raise FedskewError(
            f"{options['plan']}: names classes only, which is for --epsilon; for the joint index make a plan of the "
            "sketches of all silos"
        )
    key = _hash_key(options, plan, _files(source))
    if epsilon is not None:
        _check_spending(out, options, plan)
    started, rows = time.monotonic(), _Rows(quiet=options["quiet"])
    kernel = None if epsilon is not None else plan  # noise goes on counts only
    found = [s for path in _files(source) for s in _sketched(path, options, kernel, key, rows)]
    if plan is not None:
        found = [respelled(sketch, plan.class_names) for sketch in found]
    held = sum(sketch.rows for sketch in found)  # those without a label or a party are in no sketch
    times = Counter(sketch.party for sketch in found)
    twice = [name for name, count in times.items() if count > 1]
    if twice:
        raise FedskewError(f"two files hold the party {twice[0]!r}; sketch them one by one and merge the sketches")
    if epsilon is not None and plan is not None:
        found = [noised(sketch, epsilon, plan) for sketch in found]
    if options["min_count"] is not None:
        found = [withheld(sketch, options["min_count"]) for sketch in found]
    write_sketches(out, found)
    rows.clear()
    seconds = max(time.monotonic() - started, 1e-6)
    return (
        f"sketches of {many(len(found), 'party', 'parties')}, {many(held, 'row')} ({rows.done / seconds:,.0f} rows/s), "
        f"written to {out} ({out.stat().st_size:,} bytes)"
    )


def write_plan_of(source: list[Path], out: Path, classes: str | None) -> str:
    """Make a plan of sketches, or of a declared list of classes; returns what to tell."""
    check_outputs({"out": out, "source": sketch_files(source)})
    if classes is not None:
        names = tuple(sorted(set(listed(classes))))
        if source or len(names) < 2:
            raise FedskewError("--classes a,b,c declares two classes and more, and takes the place of SKETCH files")
        made = Plan(class_names=names, columns=(), variance=0.0)
    else:
        found = sketches_in(source)
        if found is None:
            what = f"{source[0]}: is no sketch file; " if source else ""
            raise FedskewError(f"{what}give the sketch files of all silos (or --classes a,b,c)")
        made = make_plan(found)
    write_plan(out, made)
    left = "".join(f"\nleft out: column {name!r}: {TOLD[why]}" for name, why in made.left_out.items())
    return (
        f"plan of {many(len(made.class_names), 'class', 'classes')} and {many(len(made.columns), 'column')} "
        f"written to {out}{left}"
    )


def _check_spending(out: Path, options: Mapping[str, Any], plan: Plan | None) -> None:
    if plan is None:
        raise FedskewError(
            "--epsilon needs --plan, since the list of classes must not come from the data; make one with "
            "`fedskew plan --classes a,b,c --out PLAN`"
        )
    if options["min_count"] is not None:
        raise FedskewError("--epsilon and --min-count do not go together: noise hides rows already")
    if out.exists() and is_sketch(out) and not options["spend_again"]:
        spent = sum(s.noise.epsilon for s in read_sketches(out) if s.noise is not None)
        if spent:
            raise FedskewError(
                f"{out}: these silos have spent epsilon already; a second draw adds to it. Use the file as it is, or "
                "give --spend-again"
            )


def _hash_key(options: Mapping[str, Any], plan: Plan | None, files: Sequence[Path]) -> bytes | None:
    """The secret of the silos, if rows are to be hashed."""
    path = options["hash_key"]
    if path is None:
        return None
    if path.resolve() in {file.resolve() for file in files}:
        raise FedskewError(f"--hash-key {path} is the data; give a file that holds the silos' common secret")
    if plan is None:
        raise FedskewError("--hash-key needs --plan, so that all silos hash the same columns in the same form")
    for name in ("min_count", "epsilon"):
        if options[name] is not None:
            raise FedskewError(f"--hash-key and --{name.replace('_', '-')} do not go together: a hash is of one row")
    return read_key(path)


def _files(source: list[Path]) -> list[Path]:
    files: list[Path] = []
    for path in source:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in STREAMED and file.name[0] not in "._")
        files.extend(inside or [path])
    return files


def _sketched(
    path: Path, options: Mapping[str, Any], plan: Plan | None, key: bytes | None, rows: "_Rows"
) -> tuple[Sketch, ...]:
    if options["modality"] == "image" and path.suffix.lower() in STREAMED:
        refuse_image_table(path)
    if not _streams(path, options):
        return _sketched_whole(path, options, plan, key, rows)
    wanted = Wanted(
        label=options["label"],
        party=options["party"],
        party_name=path.stem,
        drop=() if options["drop"] is None else columns_of("drop", options["drop"]),
        features=None if options["features"] is None else columns_of("features", options["features"]),
        delimiter=options["delimiter"],
        encoding=options["encoding"],
        on_bad_row=options["on_bad_row"],
        classification=options["task"] == "classification",
    )
    before = rows.done
    return scan_file(path, wanted, plan, watch=lambda done: rows.show(before + done), tell=rows.tell, hash_key=key)


def _streams(path: Path, options: Mapping[str, Any]) -> bool:
    """Whether a file is read batch by batch, column by column; of all others the label is where their kind has it."""
    return path.suffix.lower() in STREAMED and options["task"] != "regression"


def _sketched_whole(
    path: Path, options: Mapping[str, Any], plan: Plan | None, key: bytes | None, rows: "_Rows"
) -> tuple[Sketch, ...]:
    """Sketch what is not read batch by batch: arrays, images, sparse tables."""
    from fedskew.advisor.arguments import reading_options
    from fedskew.profiles import read_table
    from fedskew.profiles.sketching.making import sketch

    partition = read_table(path, partitioned=False, **reading_options(options))
    if partition.target is not None:
        raise FedskewError(f"{path}: the label is continuous; cut it into the same bins in all silos before sketching")
    if partition.party_names == ("all",):
        partition = replace(partition, party_names=(path.stem,))
    rows.show(rows.done + partition.rows)
    return sketch(partition, plan, hash_key=key)


class _Rows:
    """Counts rows, and shows on a terminal how many there are and how fast they come."""

    def __init__(self, *, quiet: bool) -> None:
        self.done, self.started, self.shown = 0, time.monotonic(), 0.0
        self.live = not quiet and sys.stderr.isatty()
        self.quiet = quiet

    def show(self, done: int) -> None:
        """Note how many rows have been read."""
        self.done = done
        now = time.monotonic()
        if self.live and now - self.shown > 0.2:
            self.shown = now
            sys.stderr.write(f"\r{done:,} rows, {done / max(now - self.started, 1e-6):,.0f} rows/s ")
            sys.stderr.flush()

    def tell(self, text: str) -> None:
        """Tell what was noticed on the way."""
        if not self.quiet:
            sys.stderr.write(f"{text}\n")

    def clear(self) -> None:
        """Take the line away."""
        if self.live:
            sys.stderr.write("\r\x1b[K")

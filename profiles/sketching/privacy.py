"""What a silo may keep back: cells of few rows, and by the noise of differential privacy what any one row says."""

import secrets

import numpy as np
from msgspec import structs

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.sketching.plan import Plan
from fedskew.profiles.sketching.record import ClassCells, ColumnHead, KernelCell, Noise, NumericCell, Sketch, Withheld

MOST_MIN_COUNT = 10**6


def withheld(sketch: Sketch, min_count: int) -> Sketch:
    """Leave out whatever rests on fewer than ``min_count`` rows.

    A class with fewer rows goes as a whole, and its rows are counted without its name. Of the other classes cells of a
    column with fewer values go, and categories; neighbouring bins of a histogram are joined until each holds enough.
    A column with fewer missing values than that in a class still shows how many, as rows less values.

    Parameters
    ----------
    min_count : at least 2

    Raises
    ------
    FedskewError
        ``min_count`` is no such number, or the sketch carries noise.

    Examples
    --------
    >>> rare = Sketch(party="a", classes=(ClassCells(name="x", rows=9), ClassCells(name="y", rows=2)))
    >>> kept = withheld(rare, 5)
    >>> [cells.name for cells in kept.classes], kept.withheld.classes, kept.withheld.rows
    (['x'], 1, 2)
    """
    if not 2 <= min_count <= MOST_MIN_COUNT:
        raise FedskewError(f"--min-count is {min_count}; it must be 2 to {MOST_MIN_COUNT} (leave it out to keep all)")
    if sketch.noise is not None:
        raise FedskewError(f"party {sketch.party!r}: its counts carry noise, which hides rows already")
    rare = [cells for cells in sketch.classes if cells.rows < min_count]
    tally = {"cells": 0, "categories": 0, "bins": 0}
    columns: set[str] = set()
    classes = [_kept(cells, min_count, tally, columns) for cells in sketch.classes if cells.rows >= min_count]
    heads = tuple(_head(head, classes) for head in sketch.columns)
    note = Withheld(
        min_count=min_count,
        classes=len(rare),
        rows=sum(cells.rows for cells in rare),
        columns=tuple(sorted(columns)),
        **tally,
    )
    return structs.replace(sketch, columns=heads, classes=tuple(classes), withheld=note, minima=None)


def _kept(cells: ClassCells, least: int, tally: dict[str, int], columns: set[str]) -> ClassCells:
    numeric = {}
    for name, cell in cells.numeric.items():
        if cell.n < least:
            tally["cells"] += 1
            columns.add(name)
        else:
            numeric[name] = _joined(cell, least, tally)
    categorical = {}
    for name, counts in cells.categorical.items():
        kept = {category: count for category, count in counts.items() if count >= least}
        tally["categories"] += len(counts) - len(kept)
        if len(kept) < len(counts):
            columns.add(name)
        if kept:
            categorical[name] = kept
    kernel: KernelCell | None = cells.kernel
    if kernel is not None and 0 < kernel.rows < least:
        kernel = None
        tally["cells"] += 1
    return ClassCells(name=cells.name, rows=cells.rows, numeric=numeric, categorical=categorical, kernel=kernel)


def _joined(cell: NumericCell, least: int, tally: dict[str, int]) -> NumericCell:
    """Join runs of neighbouring bins into the fullest of each, until every run holds enough rows."""
    runs: list[list[tuple[int, int]]] = [[]]
    for pair in zip(cell.bins, cell.counts, strict=True):
        if runs[-1] and sum(count for _, count in runs[-1]) >= least:
            runs.append([])
        runs[-1].append(pair)
    if len(runs) > 1 and sum(count for _, count in runs[-1]) < least:
        runs[-2].extend(runs.pop())
    tally["bins"] += len(cell.bins) - len(runs)
    bins = tuple(max(run, key=lambda pair: pair[1])[0] for run in runs)
    counts = tuple(sum(count for _, count in run) for run in runs)
    return structs.replace(cell, bins=bins, counts=counts)


def _head(head: ColumnHead, classes: list[ClassCells]) -> ColumnHead:
    held = any(head.name in cells.numeric or head.name in cells.categorical for cells in classes)
    if head.kind in {"numeric", "categorical"} and not held:
        return ColumnHead(name=head.name, place=head.place, kind="empty", kept=head.kept)
    return head


def noised(sketch: Sketch, epsilon: float, plan: Plan) -> Sketch:
    """The differentially private sketch of a party: its label counts with integer Laplace noise, and nothing else.

    Counts are those of the plan's classes, so that no name comes from the data; one row more or less changes one of
    them by one, so the noise has scale 1 / epsilon and the whole file is epsilon-differentially private for rows.
    Negative counts become 0, which raises the counts of empty classes a little. Columns are left out: epsilon split
    over columns, classes and bins would drown them.

    Parameters
    ----------
    epsilon : above 0, at most 100
    plan : names the classes

    Raises
    ------
    FedskewError
        Epsilon is no such number, or a class is not in the plan.
    EnvironmentFaultError
        OpenDP is not installed.
    """
    if not 0 < epsilon <= 100:
        raise FedskewError(f"--epsilon is {epsilon}; it must be above 0 and at most 100")
    counts = {cells.name: cells.rows for cells in sketch.classes}
    strange = sorted(counts.keys() - set(plan.class_names))
    if strange:
        raise FedskewError(f"party {sketch.party!r} has a class that the plan has not: {strange[0]!r}")
    drawn, spent = _laplace([counts.get(name, 0) for name in plan.class_names], 1 / epsilon)
    classes = [
        ClassCells(name=name, rows=max(count, 0)) for name, count in sorted(zip(plan.class_names, drawn, strict=True))
    ]
    return Sketch(
        party=sketch.party,
        classes=tuple(cells for cells in classes if cells.rows),
        plan=plan.sha256,
        noise=Noise(epsilon=spent, budget={"labels": spent}, scale=1 / epsilon, nonce=secrets.token_hex(16)),
    )


def _laplace(counts: list[int], scale: float) -> tuple[list[int], float]:
    """Counts with integer Laplace noise, and the epsilon that costs, by OpenDP's own reckoning."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise EnvironmentFaultError("--epsilon needs OpenDP: pip install 'fedskew[dp]'") from None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    mechanism = space >> dp.m.then_laplace(scale=scale)
    return [int(np.clip(count, -(2**47), 2**47)) for count in mechanism(counts)], float(mechanism.map(d_in=1))

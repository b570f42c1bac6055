"""What a scan added up, as the sketches of its parties."""

from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import structs

from fedskew.profiles.coding import CONTINUOUS
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.sketching.adding import Scan, Wanted
from fedskew.profiles.sketching.making import kernel_cell
from fedskew.profiles.sketching.minima import LeastHashes
from fedskew.profiles.sketching.record import ClassCells, ColumnHead, KernelCell, NumericCell, Sketch


def sketches_of(path: Path, scan: Scan, wanted: Wanted, there: Collection[str]) -> tuple[Sketch, ...]:
    """Make the sketches of all parties of a scan, in the order of their names.

    Of a plan's columns they hold those that are ``there``, in the file: so that what a silo lacks is told.
    """
    if not scan.cells:
        raise FedskewError(f"{path}: no row has a label" + (" and a party" if wanted.party else ""))
    _check_labels(path, scan, wanted)
    by_party: dict[str, dict[str, int]] = {name: {} for name in scan.unlabelled}
    for (party, label), code in scan.cells.items():
        by_party[party][label] = code
    heads = [_head(place, name, scan, wanted) for place, name in enumerate(scan.columns)]
    if scan.plan is not None:
        place = {column.name: i for i, column in enumerate(scan.plan.columns)}
        heads = [structs.replace(head, place=place[head.name]) for head in heads]
        heads += [head for head in scan.plan.unused_heads() if head.name in there]
    sums = {head.name: scan.numeric[head.name].given_up_cells() for head in heads if head.kind == "numeric"}
    return tuple(
        Sketch(
            party=party,
            columns=tuple(_own_head(head, cells.values(), scan) for head in heads),
            classes=tuple(_class_cells(label, cells[label], heads, scan, sums) for label in sorted(cells)),
            unlabelled=scan.unlabelled[party],
            plan=None if scan.plan is None else scan.plan.sha256,
            minima=None if scan.key is None else scan.minima.get(party, LeastHashes()).record(scan.key.name),
        )
        for party, cells in sorted(by_party.items())
    )


def _check_labels(path: Path, scan: Scan, wanted: Wanted) -> None:
    """Refuse labels that name rows, and continuous ones, whose bins no silo can choose alone."""
    names, rows = {label for _, label in scan.cells}, sum(scan.rows)
    if len(names) > CONTINUOUS and not wanted.classification and all(_is_decimal(name) for name in names):
        raise FedskewError(
            f"{path}: label column {wanted.label!r} is continuous ({len(names)} numbers); cut it into the same bins in "
            "all silos before sketching, or give --task classification"
        )
    if rows >= 4 and (len(names) == rows or (len(names) > 1_000 and len(names) > rows / 2)):
        raise FedskewError(
            f"{path}: label column {wanted.label!r} looks like an id ({len(names)} values in {rows} rows); give a "
            "column of classes"
        )


def _is_decimal(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return any(mark in name for mark in ".eE")


def _head(place: int, name: str, scan: Scan, wanted: Wanted) -> ColumnHead:
    kept = scan.plan is not None or name in (wanted.features or ())
    reason = scan.odd.get(name, "")
    text, numeric = scan.categorical.get(name), scan.numeric.get(name)
    if text is not None and scan.plan is None:
        reason = "dates" if text.dates else "many_texts" if text.looks_like_ids() and not kept else reason
        reason = "many_texts" if text.given_up else reason
    elif numeric is not None and not kept and numeric.numbers_rows(sum(scan.rows)):
        reason = "row_number"
    if reason:
        return ColumnHead(name=name, place=place, kind="unused", kept=kept, reason=reason)  # type: ignore[arg-type]
    if text is not None and text.table.any():
        return ColumnHead(name=name, place=place, kind="categorical", kept=kept)
    if numeric is not None and numeric.moments[0].any():
        return ColumnHead(name=name, place=place, kind="numeric", bits=numeric.bits, binary=numeric.binary, kept=kept)
    return _empty(name, place, kept=kept)


def _empty(name: str, place: int, *, kept: bool) -> ColumnHead:
    return ColumnHead(name=name, place=place, kind="empty", kept=kept)


def _own_head(head: ColumnHead, codes: Iterable[int], scan: Scan) -> ColumnHead:
    """The head of a column in one party's sketch: empty where the party holds no value of it."""
    held = False
    for code in codes:
        if head.kind == "numeric":
            held |= scan.numeric[head.name].holds([code])
        elif head.kind == "categorical":
            held |= bool(scan.categorical[head.name].counts(code))
    if head.kind in {"numeric", "categorical"} and not held:
        return _empty(head.name, head.place, kept=head.kept)
    return head


def _class_cells(
    label: str, code: int, heads: list[ColumnHead], scan: Scan, sums: dict[str, dict[int, NumericCell]]
) -> ClassCells:
    numeric, categorical = {}, {}
    for head in sorted(heads, key=lambda head: head.name):
        if head.kind == "numeric" and (cell := sums[head.name].get(code)) is not None:
            numeric[head.name] = cell
        if head.kind == "categorical" and (counts := scan.categorical[head.name].counts(code)):
            categorical[head.name] = counts
    kernel: KernelCell | None = None
    if code in scan.kernels:
        kernel = kernel_cell(scan.entered[code], scan.kernels[code][0], scan.kernels[code][1])
    return ClassCells(name=label, rows=scan.rows[code], numeric=numeric, categorical=categorical, kernel=kernel)

"""Reading: from files, frames or arrays to a Partition, whatever the format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.coding import Coded, code_exact, code_labels, code_names, doubtful_names, skipped
from fedskew.profiles.columns import encode_training, group_rows
from fedskew.profiles.counting import many
from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.gathering import Choice, Gathered, array_names, gather, refuse_both
from fedskew.profiles.heldout import encode_holdout, gather_test
from fedskew.profiles.matrices import choose_matrix
from fedskew.profiles.partitions import Column, Finding, Partition, make_partition
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.folder import is_file
from fedskew.profiles.readers.leaf import is_leaf
from fedskew.profiles.readers.npz import member_names

TASKS, MODALITIES, BAD_ROWS = ("classification", "regression"), ("tabular", "image"), ("error", "skip")


def read_table(
    source: Any,
    *,
    label: str | None = None,
    party: str | None = None,
    drop: tuple[str, ...] | list[str] | str = (),
    features: tuple[str, ...] | list[str] | str | None = None,
    test: Any = None,
    task: Literal["classification", "regression"] | None = None,
    modality: Literal["tabular", "image"] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    on_bad_row: Literal["error", "skip"] = "error",
    partitioned: bool = True,
) -> Partition:
    """Read a table whose rows belong to parties.

    Parameters
    ----------
    source : one CSV, TSV, Parquet, Arrow or npz file; several files or a folder, one file a silo (its stem is the
        party); a folder of images ``party/class/*.png`` (or ``class/*.png``, one party); an index file (``.json``); a
        pandas or polars frame; a dict of frames by party; a dict of arrays with the keys of an npz; ``(x, y)`` or
        ``(x, y, party)``, x dense or scipy sparse; a torch or Hugging Face ``Dataset``, a dict of them by party, or
        ``(dataset, row numbers by party)``; svmlight, idx (MNIST), CIFAR batches, SVHN ``.mat`` or LEAF JSON: a file or
        the folder of the data set
    label, party : columns, or members of an npz; with ``party``, several files are shards of one table
    drop : columns to leave out
    features : columns to use and no others, even such as look like an id; or a member of an npz
    test : the held-out table, a source of the same columns
    task : ``regression`` bins any numeric label by its quantiles, ``classification`` never does; where not given,
        floats with more than 20 distinct values are a continuous target
    modality : ``image`` or ``tabular`` where the shape of an array does not tell
    delimiter, encoding : of text files; ``,`` (tab in ``.tsv``) and UTF-8 where not given
    on_bad_row : ``skip`` leaves rows with too few or too many fields out and counts them
    partitioned : False accepts data of one party, called ``all`` where it has no name

    Returns
    -------
    Partition
        With a finding for whatever was left out or looks wrong.

    Raises
    ------
    FedskewError
        The source cannot be read, a column does not exist, the label is an id, or there is one party only.

    Examples
    --------
    >>> import numpy as np
    >>> rows = {"age": np.array([30, 40, 50, 40]), "sick": np.array(list("ynny")), "site": np.array(list("BAAB"))}
    >>> toy = read_table(rows, label="sick", party="site")
    >>> toy.party_names, toy.class_names, toy.features.ravel().tolist()
    (('A', 'B'), ('n', 'y'), [40.0, 50.0, 30.0, 40.0])
    """
    for name, value, allowed in (("task", task, TASKS), ("modality", modality, MODALITIES)):
        if value is not None and value not in allowed:
            raise FedskewError(f"{name} is {value!r}; {choices(str(value), allowed)}")
    if on_bad_row not in BAD_ROWS:
        raise FedskewError(f"on_bad_row is {on_bad_row!r}; {choices(str(on_bad_row), BAD_ROWS)}")
    choice = Choice(None if features is None else _names(features), _names(drop))
    refuse_both(choice.features, choice.drop)
    options = Options(label, party, choice.features, modality, delimiter, encoding, on_bad_row)
    index = _index(source)
    if index is not None:
        from fedskew.profiles.index_file import load_index

        given = {"label": label, "party": party, "drop": choice.drop, "features": choice.features, "test": test}
        given |= {"task": task, "modality": modality, "delimiter": delimiter, "encoding": encoding}
        return load_index(index, **given, on_bad_row=None if on_bad_row == "error" else on_bad_row)
    data = gather(source, options, choice)
    held_out = gather_test(test, data, options, choice)
    return to_partition(data, held_out, choice, task, partitioned=partitioned)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that count, grouped by party: their place in the source, their codes, and all names."""

    places: NDArray[np.int64]
    labels: Coded
    party: NDArray[np.int64]
    party_names: tuple[str, ...]


def to_partition(
    data: Gathered, held_out: Gathered | None, choice: Choice, task: str | None, *, partitioned: bool
) -> Partition:
    """Make the Partition of what was gathered: rows without a label or a party are left out and counted.

    Parameters
    ----------
    data, held_out : rows to train on, and the test table, if there is one
    choice, task, partitioned : see :func:`read_table`

    Raises
    ------
    FedskewError
        No row is left, or there is one party only and ``partitioned`` asks for more.
    """
    rows, findings = _rows(data, task, partitioned=partitioned)
    asked = frozenset(choice.features or ())
    groups = group_rows(rows.party, simulated=data.simulated)
    matrix: Any
    columns: tuple[Column, ...] = ()
    if data.table is not None:
        whole = not data.table.width or len(rows.places) == data.table.height  # without columns its height is 0
        matrix, columns, noticed = encode_training(data.table if whole else data.table[rows.places], groups, asked)
        findings += noticed.findings()
    else:
        assert data.array is not None
        matrix = data.array if len(rows.places) == data.array.shape[0] else data.array[rows.places]
        if matrix.ndim == 4:
            matrix = groups.gather(matrix)
        else:
            matrix, columns, noticed = choose_matrix(matrix, array_names(data.array), data.names, asked, groups)
            findings += noticed.findings()
    if matrix.ndim == 2 and not matrix.shape[1]:
        text = "no column can serve as a feature: labels and sizes can be profiled, but no model can be trained"
        findings.append(Finding(code="no_features", severity="strong", text=text))
    target = None if rows.labels.target is None else groups.gather(rows.labels.target)
    names, test = rows.labels.names, None
    if held_out is not None:
        test, names, more = encode_holdout(held_out, data, columns, rows.labels, rows.party_names)
        findings += more
    return make_partition(
        matrix,
        groups.gather(rows.labels.codes),
        groups.gather(rows.party),
        class_names=names,
        party_names=rows.party_names,
        columns=columns,
        test=test,
        findings=tuple(findings),
        target=target,
    )


def _rows(data: Gathered, task: str | None, *, partitioned: bool) -> tuple[_Rows, list[Finding]]:
    """Codes of the rows that have a label and a party, and findings on those that have not."""
    if not len(data.label):
        raise FedskewError(f"{data.where}: has no rows below its header; at least one is needed")
    party = _parties(data, partitioned=partitioned)
    labels = code_labels(data.label, data.where, task)
    no_party, no_label = party.codes < 0, labels.codes < 0
    findings = [*data.findings, *skipped(no_party, "party", party.codes, party.names)]
    findings += skipped(no_label, "label", party.codes, party.names)
    findings += doubtful_names(labels, "label", data.label.name)
    if data.party is not None and not data.silos:  # names of files are no doubtful ones
        findings += doubtful_names(party, "party", data.party.name)
    places = np.flatnonzero(~(no_party | no_label))
    if not len(places):
        what = "label" if no_label.all() else "party" if no_party.all() else "label and party"
        raise FedskewError(f"{data.where}: no row has a {what}")
    codes, names = party.codes[places], party.names
    if data.silos:
        empty = tuple(names[code] for code in np.flatnonzero(np.bincount(codes, minlength=len(names)) == 0))
        if empty:
            text = f"{many(len(empty), 'party has', 'parties have')} no usable row"
            findings.append(Finding(code="empty_party", severity="mild", text=text, parties=empty, count=len(empty)))
    else:
        codes, names = _used(codes, names)
    if partitioned and len(names) < 2:
        what = (
            f"party column {data.party.name!r} holds" if data.party is not None and not data.silos else "the source is"
        )
        raise FedskewError(
            f"{data.where}: {what} one party only, {names[0]!r}; skew is between two and more. "
            "Give another --party or more files, or split the data with fedskew partition"
        )
    if labels.target is not None:
        text = (
            f"label {data.label.name!r} is continuous: its classes are {len(labels.names)} quantile bins; the paper's "
            "guidance is for classification (--task classification treats each value as a class)"
        )
        findings.append(Finding(code="continuous_target", severity="mild", text=text, count=len(places)))
        kept = Coded(labels.codes[places], labels.names, labels.target[places], labels.edges)
    else:
        kept = Coded(*_used(labels.codes[places], labels.names))
    return _Rows(places, kept, codes, names), findings


def _parties(data: Gathered, *, partitioned: bool) -> Coded:
    if data.party is not None:
        if not data.silos:
            return code_names(data.party, "party", data.where)
        return code_exact(data.party, data.silos)  # those without rows are parties too
    if not partitioned:
        return Coded(np.zeros(len(data.label), np.int64), ("all",))
    if data.table is not None:
        shown = ", ".join(repr(name) for name in data.names[:20])
        raise FedskewError(f"{data.where}: say which column holds the party with --party. There are: {shown}")
    if Path(data.where).is_dir():
        raise FedskewError(
            f"{data.where}: its folders are read as classes, class/*.png; lay the images out as party/class/*.png, or "
            "make parties with fedskew partition"
        )
    there = f" (its members: {', '.join(data.members)})" if data.members else ""
    raise FedskewError(
        f"{data.where}: has no party{there}; name a member with --party, or make parties with fedskew partition"
    )


def _used(codes: NDArray[np.int64], names: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes into those names only that some row uses."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    if len(used) == len(names):
        return codes, names
    return np.searchsorted(used, codes), tuple(names[code] for code in used)


def _names(given: tuple[str, ...] | list[str] | str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _index(source: Any) -> Path | None:
    """The path of an index file, if that is what the source is."""
    items = source if isinstance(source, list | tuple) else [source]
    if len(items) != 1 or not isinstance(items[0], str | Path):
        return None
    path = Path(items[0])
    if path.suffix.lower() == ".json":
        return None if is_leaf(path) else path
    held = member_names(path) if path.suffix.lower() == ".npz" and is_file(path) else ()
    return path if "fedskew_index" in held else None

"""The held-out test table, in the columns, categories and names of the training one."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.coding import Coded, align, bin_target, code_exact, code_names, numeric_target, skipped
from fedskew.profiles.columns import encode_test
from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.gathering import Choice, Gathered, array_names, gather
from fedskew.profiles.matrices import take_columns, widen
from fedskew.profiles.partitions import Column, Finding, Holdout
from fedskew.profiles.readers.base import Options


def gather_test(test: Any, data: Gathered, options: Options, choice: Choice) -> Gathered | None:
    """The held-out table: the given one, read as the training one, or else the source's own, if it has one.

    A party column of a given one is used where it is there.
    """
    if test is None:
        return data.test
    by_member = choice.features if data.array is not None and set(choice.features or ()) <= {*data.members} else None
    found = gather(test, replace(options, party_required=False), Choice(by_member, ()), "the test table")
    if (found.table is None) != (data.table is None):
        raise FedskewError(f"{found.where}: the test data and {data.where} must both be tables or both be arrays")
    if data.test is None:
        return found
    count = len(data.test.label)
    text = f"the {count} test rows that come with {data.where} are not used: another test table was given"
    unused = Finding(code="unused_test", severity="mild", text=text, count=count)
    return replace(found, findings=(*found.findings, unused))


def encode_holdout(
    test: Gathered, data: Gathered, columns: tuple[Column, ...], labels: Coded, party_names: tuple[str, ...]
) -> tuple[Holdout, tuple[str, ...], list[Finding]]:
    """The held-out rows in the codes of the training ones, the classes of both, and what was noticed."""
    where = f"{test.where}: " if test.where.startswith("the ") else f"test {test.where}: "
    coded = _test_labels(test, labels)
    codes, names = coded.codes, coded.names
    missing = codes < 0
    findings = [*test.findings, *skipped(missing, "label", np.full(len(missing), -1), (), where)]
    places = np.flatnonzero(~missing)
    if not len(places):
        raise FedskewError(f"{test.where}: no row of the test data has a label; at least one is needed")
    if test.table is not None:
        there = set(test.table.columns)
        for column in columns:
            if column.name not in there:
                known = choices(column.name, test.table.columns)
                raise FedskewError(f"{test.where}: has no column {column.name!r}, which {data.where} has; {known}")
        matrix, noticed = encode_test(test.table[places] if missing.any() else test.table, columns)
        findings += noticed.findings(where)
    else:
        assert test.array is not None
        assert data.array is not None
        test, cut = _same_width(_same_channels(test, data.array), data, where)
        findings += cut
        assert test.array is not None
        if test.array.shape[1:] != data.array.shape[1:]:
            shape, wanted = test.array.shape[1:], data.array.shape[1:]
            raise FedskewError(
                f"{test.where}: the rows of the test data have the shape {shape}, those to train have {wanted}"
            )
        if test.array.ndim == 4 and test.array.dtype != data.array.dtype:
            raise FedskewError(f"{test.where}: test images are {test.array.dtype}, those to train {data.array.dtype}")
        matrix = test.array[places] if missing.any() else test.array
        if matrix.ndim == 2:
            matrix = take_columns(matrix, array_names(data.array), columns)
    party, more = _test_party(test, places, party_names, where)
    target = None if coded.target is None else coded.target[places]
    return Holdout(matrix, codes[places], party, target), names, findings + more


def _same_width(test: Gathered, data: Gathered, where: str) -> tuple[Gathered, list[Finding]]:
    """Test rows of an svmlight file in the width and the form (dense, CSR) of the training rows."""
    if not (test.ragged and data.ragged):
        return test, []
    from scipy.sparse import csr_array

    width = data.array.shape[1]
    matrix = csr_array(test.array)
    here, known = matrix.shape[1], 0 if "x0" in data.names else 1
    lost = matrix[:, width:].count_nonzero() + (matrix[:, [0]].count_nonzero() if known else 0)
    findings = []
    if here != width or lost:
        what = f"cut off, {lost} of its values with them" if lost or here > width else "filled with 0"
        text = f"{where}has features up to {here - 1}, the training data {known} to {width - 1}: the others are {what}"
        findings.append(Finding(code="padded_columns", severity="mild", text=text, count=abs(here - width)))
    matrix = widen(matrix, width)
    return replace(test, array=matrix.toarray() if isinstance(data.array, np.ndarray) else matrix), findings


def _same_channels(test: Gathered, array: Any) -> Gathered:
    """Grey images of a test folder as RGB where one of the training images has colour."""
    if test.array is None or test.array.ndim != 4 or array.ndim != 4 or (test.array.shape[1], array.shape[1]) != (1, 3):
        return test
    return replace(test, array=np.repeat(test.array, 3, axis=1))


def _test_labels(test: Gathered, labels: Coded) -> Coded:
    """Codes of the test labels, and the training classes with those that only the test data know appended."""
    if labels.edges is not None:
        return bin_target(numeric_target(test.label, test.where), labels.edges)
    return Coded(*align(code_names(test.label, "label", test.where, guard=False), labels.names))


def _test_party(
    test: Gathered, places: NDArray[np.int64], names: tuple[str, ...], where: str
) -> tuple[NDArray[np.int32] | None, list[Finding]]:
    if test.party is None:
        return None, []
    exact = bool(test.silos)
    coded = code_exact(test.party, test.silos) if exact else code_names(test.party, "party", test.where, guard=False)
    codes, everything = align(coded, names)
    codes = codes[places]
    strange = int(((codes < 0) | (codes >= len(names))).sum())
    if not strange:
        return codes.astype(np.int32), []
    new = everything[len(names) :]
    text = f"{where}{strange} rows are of no party of the training data {list(new[:5])}; its parties are not used"
    return None, [Finding(code="unknown_test_party", severity="mild", text=text, parties=(), count=strange)]

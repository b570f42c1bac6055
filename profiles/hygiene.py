"""Findings that a person must know before trusting any number: counted, named, graded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.between import association
from fedskew.profiles.counting import many
from fedskew.profiles.duplicates import copied_rows
from fedskew.profiles.label_sets import label_set_mismatch
from fedskew.profiles.partitions import Column, Finding, Partition, Severity

CHUNK_BYTES = 1 << 24
SHOWN = 5  # names in a sentence
STEPS = 64  # steps of float32 within a standard deviation; with fewer a column is coarse (stated, not fitted)
SURE = 0.01  # level of a test, shared by all columns or parties it is made for
Check = Callable[[Partition], Iterator[Finding]]


def hygiene(partition: Partition) -> tuple[Finding, ...]:
    """Collect what reading noticed and what the checks of this module find.

    Codes: ``duplicate_rows``, ``test_leakage``, ``classes_only_in_test``, ``classes_not_in_test``, ``unused_classes``,
    ``constant_columns``, ``no_features``, ``coarse_columns``, ``unscaled_columns``, ``missingness_skew``, ``test_mix``,
    ``one_class``, ``one_class_parties``, ``tiny_parties``, ``label_set_mismatch``. A code that reading already gave is
    not given twice.

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> toy = make_partition([[1.0, 7], [2, 7], [3, 7], [4, 7]], ["x", "y", "x", "x"], ["a", "a", "b", "b"])
    >>> [(finding.code, finding.parties) for finding in hygiene(toy)]
    [('constant_columns', ()), ('one_class_parties', ('b',))]
    """
    known = {finding.code for finding in partition.findings}
    found = (finding for check in CHECKS for finding in check(partition))
    return (*partition.findings, *(finding for finding in found if finding.code not in known))


def _copies(partition: Partition) -> Iterator[Finding]:
    shared = copied_rows(partition)
    names = (*partition.party_names, "the test set")
    between = [copy for copy in shared.pairs if copy.second < partition.parties]
    leaks = [copy for copy in shared.pairs if copy.second == partition.parties]
    if shared.widest:
        count = shared.in_silos
        text = (
            f"{count} rows, {many(shared.kinds, 'different one')}, stand in two silos or more, some in "
            f"{shared.widest}, more than repetition within silos explains: the same records may be counted many times"
        )
        yield Finding(code="duplicate_rows", severity=_graded(count / partition.rows), text=text, count=count)
    elif between:
        count = min(sum(copy.rows for copy in between), shared.copies)
        who = tuple(names[i] for i in sorted({i for copy in between for i in (copy.first, copy.second)}))
        worst = max(between, key=lambda copy: copy.rows)
        text = (
            f"{count} rows are copies of rows of another silo, more than repetition within silos explains; the most "
            f"({worst.rows}) in {names[worst.first]!r} and {names[worst.second]!r}: the same records may be counted "
            f"{'twice' if len(who) == 2 else 'several times'}"
        )
        yield Finding(
            code="duplicate_rows", severity=_graded(count / partition.rows), text=text, parties=who, count=count
        )
    elif shared.equal and not leaks:
        text = (
            f"{shared.equal} rows also stand in another silo or the test set, no more than coarse columns give by "
            f"themselves"
        )
        yield Finding(code="duplicate_rows", severity="none", text=text, count=shared.equal)
    if leaks and partition.test is not None:
        count, held = min(sum(copy.rows for copy in leaks), shared.tested), len(partition.test.labels)
        text = f"{count} of {held} test rows also stand in training silos: test scores would be too good"
        who = tuple(names[copy.first] for copy in leaks)
        yield Finding(code="test_leakage", severity=_graded(5 * count / held), text=text, parties=who, count=count)


def _class_sets(partition: Partition) -> Iterator[Finding]:
    trained = partition.counts.sum(axis=0) > 0
    tested = np.zeros(partition.classes, np.bool_)
    if partition.test is not None and len(partition.test.labels):
        labels = partition.test.labels
        tested = np.bincount(labels[labels >= 0], minlength=partition.classes)[: partition.classes] > 0
        yield from _classes(
            partition, tested & ~trained, "classes_only_in_test", "strong", "in the test set but in no silo"
        )
        yield from _classes(
            partition, trained & ~tested, "classes_not_in_test", "mild", "in silos but not in the test set"
        )
    yield from _classes(partition, ~trained & ~tested, "unused_classes", "mild", "named but hold no row")


def _classes(
    partition: Partition, which: NDArray[np.bool_], code: str, severity: Severity, what: str
) -> Iterator[Finding]:
    if which.any():
        names = [partition.class_names[i] for i in np.flatnonzero(which)]
        text = f"{len(names)} of {partition.classes} classes are {what}: {_listed(names)}"
        yield Finding(code=code, severity=severity, text=text, count=len(names))


@dataclass(frozen=True, slots=True)
class Facts:
    """Of each feature (F,): does it never vary, does it take 0 and 1 only, mean, deviation; blanks of a column (P,)."""

    flat: NDArray[np.bool_]
    binary: NDArray[np.bool_]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    missing: tuple[NDArray[np.int64], ...]


def column_findings(
    columns: tuple[Column, ...], facts: Facts, sizes: NDArray[np.int64], party_names: tuple[str, ...]
) -> Iterator[Finding]:
    """Constant and unscaled columns, and columns missing at unlike rates: the same from rows and from sketches."""
    yield from _constant(columns, facts)
    yield from _coarse(columns, facts)
    yield from _unscaled(columns, facts)
    yield from _missingness(columns, facts, sizes, party_names)


def _columns(partition: Partition) -> Iterator[Finding]:
    if not partition.columns or not isinstance(partition.features, np.ndarray) or partition.modality == "image":
        return
    yield from column_findings(partition.columns, _facts(partition), partition.sizes, partition.party_names)


def _facts(partition: Partition) -> Facts:
    features = partition.features
    width = features.shape[1]
    least, largest = np.full(width, np.inf), np.full(width, -np.inf)
    seen, mean, squares = np.zeros(width), np.zeros(width), np.zeros(width)
    missing = np.zeros((partition.parties, width), np.int64)
    step = max(256, CHUNK_BYTES // (8 * max(1, width)))
    for start in range(0, len(features), step):
        block = features[start : start + step].astype(np.float64)
        blank = ~np.isfinite(block)
        if blank.any():
            np.add.at(missing, partition.party[start : start + step][blank.any(axis=1)], blank[blank.any(axis=1)])
        least = np.minimum(least, np.where(blank, np.inf, block).min(axis=0))
        largest = np.maximum(largest, np.where(blank, -np.inf, block).max(axis=0))
        block[blank] = 0.0
        n = len(block) - blank.sum(axis=0)
        centre = block.sum(axis=0) / np.maximum(n, 1)
        total = np.maximum(seen + n, 1)
        squares += (np.where(blank, 0.0, block - centre) ** 2).sum(axis=0) + (centre - mean) ** 2 * seen * n / total
        mean += (centre - mean) * n / total
        seen += n
    return Facts(
        flat=largest <= least,
        binary=(least == 0) & (largest == 1),
        mean=mean,
        std=np.sqrt(squares / np.maximum(seen, 1)),
        missing=tuple(_blank(partition, column, missing) for column in partition.columns),
    )


def _constant(columns: tuple[Column, ...], facts: Facts) -> Iterator[Finding]:
    names = [c.name for c in columns if c.stop > c.start and facts.flat[c.start : c.stop].all()]
    if names:
        text = f"{len(names)} of {len(columns)} columns never vary and say nothing: {_listed(names)}"
        yield Finding(code="constant_columns", severity="mild", text=text, count=len(names))
    if len(names) == len(columns):
        text = "no column varies: labels and sizes can be profiled, but no model can learn from such features"
        yield Finding(code="no_features", severity="strong", text=text)


def _coarse(columns: tuple[Column, ...], facts: Facts) -> Iterator[Finding]:
    step = np.spacing(np.abs(facts.mean).astype(np.float32))
    names = [c.name for c in columns if c.kind == "numeric" and 0 < facts.std[c.start] < STEPS * step[c.start]]
    if names:
        text = (
            f"values so large beside their spread that single precision holds few different ones of them: "
            f"{_listed(names)}; subtract a constant, such as the time at which the data begin"
        )
        yield Finding(code="coarse_columns", severity="mild", text=text, count=len(names))


def _unscaled(columns: tuple[Column, ...], facts: Facts) -> Iterator[Finding]:
    numeric = [c for c in columns if c.kind == "numeric" and facts.std[c.start] > 0 and not facts.binary[c.start]]
    if len(numeric) < 2:
        return
    spread = [float(facts.std[c.start]) for c in numeric]
    widest, narrowest = int(np.argmax(spread)), int(np.argmin(spread))
    ratio = spread[widest] / spread[narrowest]
    if ratio >= 100:
        text = (
            f"columns have very different scales: {numeric[widest].name!r} varies {ratio:.0f} times as much as "
            f"{numeric[narrowest].name!r}; standardise them from merged moments, as fedskew does"
        )
        count = sum(value * 100 <= spread[widest] for value in spread)
        yield Finding(code="unscaled_columns", severity="mild", text=text, count=count)


def _missingness(
    columns: tuple[Column, ...], facts: Facts, sizes: NDArray[np.int64], party_names: tuple[str, ...]
) -> Iterator[Finding]:
    tests = []
    for column, blank in zip(columns, facts.missing, strict=True):
        told = blank.any() and not column.more  # else a rare category would pass for a missing value
        found = association(np.stack([sizes - blank, blank], axis=1)) if told else None
        if found is not None:
            tests.append((column.name, blank, *found))
    skewed = [test for test in tests if test[3] * len(tests) < SURE and test[2] >= 0.01]
    if not skewed:
        return
    name, blank, share, _ = max(skewed, key=lambda test: test[2])
    rate = np.where(sizes > 0, blank / np.maximum(sizes, 1), -1.0)
    most, least = int(rate.argmax()), int(np.where(sizes > 0, rate, 2.0).argmin())
    text = (
        f"{many(len(skewed), 'column')} {'is' if len(skewed) == 1 else 'are'} missing at other rates in some silos "
        f"than in others; most in {name!r}: "
        f"{rate[most]:.1%} in {party_names[most]!r}, {rate[least]:.1%} in {party_names[least]!r} "
        f"(share beyond chance {share:.3f})"
    )
    parties = tuple(party_names[p] for p in np.flatnonzero((rate >= rate[most] - 1e-12) & (sizes > 0))[:SHOWN])
    severity: Severity = "strong" if share >= 0.25 else "mild"
    yield Finding(code="missingness_skew", severity=severity, text=text, parties=parties, count=len(skewed))


def _blank(partition: Partition, column: Column, missing: NDArray[np.int64]) -> NDArray[np.int64]:
    """Missing values of a column by party: NaN where numeric, no category at all where categorical."""
    if column.kind == "numeric" or column.stop == column.start:
        return np.asarray(missing[:, column.start : column.stop].sum(axis=1))
    filled = np.zeros(partition.rows, np.bool_)
    for feature in range(column.start, column.stop):
        filled |= partition.features[:, feature] != 0
    return np.bincount(partition.party[~filled], minlength=partition.parties)


def _test_mix(partition: Partition) -> Iterator[Finding]:
    """Compare the classes of the test rows with those of the training rows, party by party where the party is known."""
    test = partition.test
    if test is None or not len(test.labels) or not partition.classes:
        return
    if test.party is None:
        pairs = [(np.bincount(test.labels, minlength=partition.classes), partition.counts.sum(axis=0), -1)]
    else:
        cells = test.party.astype(np.int64) * partition.classes + test.labels
        held = np.bincount(cells, minlength=partition.counts.size).reshape(partition.counts.shape)
        pairs = [(held[p], partition.counts[p], p) for p in range(partition.parties)]
    found = [(party, association(np.stack([one, other]))) for one, other, party in pairs]
    off = [(p, share) for p, share in found if share is not None and share[1] * len(pairs) < SURE and share[0] >= 0.005]
    if not off:
        return
    party, (share, _) = max(off, key=lambda item: item[1][0])
    names = tuple(partition.party_names[p] for p, _ in off if p >= 0)
    where = f"in {len(names)} silos, most in {partition.party_names[party]!r}" if names else "over all silos together"
    text = f"test rows have another class mix than training rows {where} (share beyond chance {share:.3f})"
    yield Finding(
        code="test_mix", severity="strong" if share >= 0.25 else "mild", text=text, parties=names, count=len(off)
    )


def _thin_parties(partition: Partition) -> Iterator[Finding]:
    yield from thin_parties(partition.counts, partition.party_names)


def _label_sets(partition: Partition) -> Iterator[Finding]:
    yield from label_set_mismatch(partition.counts, partition.party_names, partition.class_names)


def thin_parties(counts: NDArray[np.int64], party_names: tuple[str, ...]) -> Iterator[Finding]:
    """A single class in all, parties of one class, and parties of fewer than two rows."""
    sizes, classes, parties = counts.sum(axis=1), (counts > 0).sum(axis=1), len(counts)
    if (counts.sum(axis=0) > 0).sum() == 1:
        text = "all rows have the same label: there is nothing to learn, and no label skew to measure"
        yield Finding(code="one_class", severity="strong", text=text, count=int(sizes.sum()))
    elif counts.shape[1] >= 2:
        single = [party_names[p] for p in np.flatnonzero((classes == 1) & (sizes >= 2))]
        if single:
            text = f"{len(single)} of {parties} silos hold one class only: {_listed(single)}"
            severity: Severity = "strong" if 2 * len(single) >= parties else "mild"
            yield Finding(
                code="one_class_parties", severity=severity, text=text, parties=tuple(single), count=len(single)
            )
    tiny = [party_names[p] for p in np.flatnonzero(sizes < 2)]
    if tiny:
        text = f"{len(tiny)} of {parties} silos hold fewer than two rows: {_listed(tiny)}"
        yield Finding(code="tiny_parties", severity="mild", text=text, parties=tuple(tiny), count=len(tiny))


def _graded(share: float) -> Severity:
    return "strong" if share >= 0.05 else "mild"


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


CHECKS: tuple[Check, ...] = (_copies, _class_sets, _columns, _test_mix, _thin_parties, _label_sets)
"""Every check; adding one is one small function."""

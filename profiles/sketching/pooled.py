"""The profile of sketches: the same numbers as of the rows, for all that sums can give."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.between import Share, class_terms, index_from
from fedskew.profiles.feature import feature_skew_of, unidentified_counts
from fedskew.profiles.hygiene import Facts, column_findings, thin_parties
from fedskew.profiles.kernel import KernelSums
from fedskew.profiles.label import label_skew_of
from fedskew.profiles.label_sets import label_set_mismatch
from fedskew.profiles.measures import measure_all
from fedskew.profiles.partitions import Column, Finding
from fedskew.profiles.prevailing import prevailing
from fedskew.profiles.quantity import quantity_skew_of
from fedskew.profiles.records import ConceptSkew, FeatureShift, FeatureSkew, Profile
from fedskew.profiles.shift import MOST_CELLS, ClassCells, fullest, in_blocks, renumbered, shifts
from fedskew.profiles.sketching.copies import copies_found
from fedskew.profiles.sketching.making import kernel_arrays
from fedskew.profiles.sketching.noisy import label_corrected, quantity_corrected
from fedskew.profiles.sketching.pool import Pool, facts_of, pool
from fedskew.profiles.sketching.record import Sketch

Codes = NDArray[np.int64]
NEARLY_ALL = 0.999  # one silo's share of the rows from which the others hardly count


def profile_sketches(sketches: Sequence[Sketch]) -> Profile:
    """Profile silos from their sketches.

    Concept shift needs rows and is null (``needs_rows``). The joint feature index is null (``needs_plan``) unless all
    sketches follow one plan; columns are measured one by one without.

    Parameters
    ----------
    sketches : one a party, in any order

    Raises
    ------
    FedskewError
        Two are of one party, they follow different plans or hash rows with different keys, or no row has a label.

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> from fedskew.profiles.sketching.making import sketch
    >>> toy = make_partition(np.zeros((40, 1)), ["x"] * 20 + ["y"] * 20, ["a"] * 20 + ["b"] * 20)
    >>> found = profile_sketches(sketch(toy))
    >>> found.prevailing.kind, found.label.skew, found.feature.reason, found.concept.reason
    ('label_count', 1.0, 'no_shared_class', 'needs_rows')
    """
    together = pool(sketches)
    label = label_skew_of(together.counts, together.party_names, together.class_names)
    quantity = quantity_skew_of(together.counts, together.party_names, label)
    scales = np.array([0.0 if s.noise is None else s.noise.scale for s in together.sketches])
    if scales.any():
        label = label_corrected(label, together.counts, scales)
        quantity = quantity_corrected(quantity, together.counts, scales)
    feature = _feature(together)
    concept = ConceptSkew(skew=None, p_value=None, severity="none", reason="needs_rows")
    return Profile(
        parties=len(together.sketches),
        rows=int(together.counts.sum()),
        classes=len(together.class_names),
        features=together.width,
        party_names=together.party_names,
        class_names=together.class_names,
        modality=max(together.sketches, key=lambda sketch: sketch.rows).modality,
        task="classification",
        label=label,
        quantity=quantity,
        feature=feature,
        concept=concept,
        prevailing=prevailing(label, quantity, feature, concept),
        hygiene=(*together.findings, *_hygiene(together, feature)),
        counts=tuple(tuple(row) for row in together.counts.tolist()),
        measures=measure_all(together.counts),
    )


def _feature(together: Pool) -> FeatureSkew:
    by_feature = tuple(_by_feature(together))
    reason = "no_features" if _without(together) else unidentified_counts(together.counts)
    share = None
    if reason is None:
        reason = _lacking(together)
        share = _joint(together) if reason is None else None
    return feature_skew_of(share, reason, by_feature, together.party_names)


def _without(together: Pool) -> bool:
    """Whether tables have no column that can serve as a feature; sketches with noise hold labels alone."""
    return not together.columns and all(one.modality == "tabular" and one.noise is None for one in together.sketches)


def _lacking(together: Pool) -> str | None:
    """What the joint index needs and the sketches do not hold."""
    if any(sketch.modality == "image" for sketch in together.sketches) or not together.columns:
        return "needs_rows"
    cells = [cell for sketch in together.sketches for cell in sketch.classes if cell.rows]
    return "needs_plan" if any(cell.kernel is None for cell in cells) else None


def _joint(together: Pool) -> Share | None:
    return index_from((class_terms(sums) for sums in _kernel_sums(together)), len(together.sketches))


def _kernel_sums(together: Pool) -> Iterator[KernelSums]:
    """The sums of each class that two parties and more hold."""
    for label, counts in zip(together.class_names, together.counts.T, strict=True):
        kernels = {party: together.cells[party][label].kernel for party in np.flatnonzero(counts).tolist()}
        found = {party: kernel for party, kernel in kernels.items() if kernel is not None and kernel.rows}
        if len(kernels) < 2 or not found:
            continue
        arrays = [kernel_arrays(kernel) for kernel in found.values()]
        yield KernelSums(
            np.array(list(found), np.int64),
            np.array([kernel.rows for kernel in found.values()], np.int64),
            np.stack([sums for sums, _ in arrays]),
            np.sum([second for _, second in arrays], axis=0),
        )


def _by_feature(together: Pool) -> Iterator[FeatureShift]:
    columns = fullest(list(together.columns), together.width)
    for block in in_blocks(columns, max(1, MOST_CELLS // len(together.sketches))):
        numbered = renumbered(block)
        bits = together.bits(numbered)
        yield from shifts(numbered, _cells(together, numbered, bits), bits)


def _cells(together: Pool, columns: list[Column], bits: dict[int, int]) -> Iterator[ClassCells]:
    by_place = {column.start: column for column in columns}
    for label, counts in zip(together.class_names, together.counts.T, strict=True):
        parties = np.flatnonzero(counts).astype(np.int64)
        if not len(parties):
            continue

        def bins(feature: int, label: str = label, parties: Codes = parties) -> tuple[Codes, Codes, Codes]:
            return together.histogram(by_place[feature], bits[feature], label, parties)

        yield ClassCells(parties, together.moments(columns, label, parties), bins)


def _hygiene(together: Pool, feature: FeatureSkew) -> Iterator[Finding]:
    """What the sums can tell, and what they cannot."""
    sizes = together.counts.sum(axis=1)
    if together.columns:
        moments, binary = together.whole()
        flat, zero_one = facts_of(moments, binary)
        facts = Facts(
            flat=flat,
            binary=zero_one,
            mean=moments[1],
            std=np.sqrt(moments[2] / np.maximum(moments[0], 1)),
            missing=tuple(together.missing(column) for column in together.columns),
        )
        yield from column_findings(together.columns, facts, sizes, together.party_names)
    elif _without(together):
        text = "no column can serve as a feature: labels and sizes can be profiled, but no model can be trained"
        yield Finding(code="no_features", severity="strong", text=text)
    yield from thin_parties(together.counts, together.party_names)
    yield from label_set_mismatch(together.counts, together.party_names, together.class_names)
    yield from _unlabelled(together)
    yield from _copies(together)
    yield from _suspicious(together)
    yield from _limits(together, feature)


def _unlabelled(together: Pool) -> Iterator[Finding]:
    count = sum(sketch.unlabelled for sketch in together.sketches)
    if count:
        whole = count + int(together.counts.sum())
        names = tuple(sketch.party for sketch in together.sketches if sketch.unlabelled)
        text = f"{count} of {whole} rows have no label and were left out"
        severe = count > 0.05 * whole
        yield Finding(
            code="missing_labels", severity="strong" if severe else "mild", text=text, parties=names, count=count
        )


def _copies(together: Pool) -> Iterator[Finding]:
    """Silos with the same content, and rows that stand in two silos where sketches hold hashes of rows."""
    content = [msgspec.json.encode(msgspec.structs.replace(s, party="-", noise=None)) for s in together.sketches]
    times = Counter(text for text, s in zip(content, together.sketches, strict=True) if s.rows > 1 and s.columns)
    who = tuple(s.party for text, s in zip(content, together.sketches, strict=True) if times[text] > 1)
    if who:
        text = f"{len(who)} silos have sketches that differ in nothing but the name: {', '.join(map(repr, who[:5]))}"
        yield Finding(code="duplicate_silos", severity="strong", text=text, parties=who, count=len(who))
    yield from copies_found(together.sketches)


def _suspicious(together: Pool) -> Iterator[Finding]:
    sizes = together.counts.sum(axis=1)
    largest = int(sizes.argmax())
    share = sizes[largest] / max(sizes.sum(), 1)
    if len(sizes) > 1 and share >= NEARLY_ALL:
        name = together.party_names[largest]
        text = (
            f"{name!r} says that it holds {share:.4%} of all rows ({int(sizes[largest])}); the other silos hardly "
            "count. Check its sketch, and profile without it"
        )
        yield Finding(code="dominant_party", severity="strong", text=text, parties=(name,), count=int(sizes[largest]))


def _withheld_text(held: list[Sketch]) -> str:
    """What kinds of cells were withheld, and in which columns: not the names that they would tell."""
    total = {
        kind: sum(getattr(sketch.withheld, kind) for sketch in held)
        for kind in ("classes", "rows", "cells", "categories", "bins")
    }
    told = {
        f"{total['classes']} classes in {total['rows']} rows": total["classes"],
        f"{total['cells']} cells of columns": total["cells"],
        f"{total['categories']} categories": total["categories"],
    }
    columns = sorted({name for sketch in held for name in sketch.withheld.columns})
    shown = ", ".join(map(repr, columns[:5])) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    least = max(sketch.withheld.min_count for sketch in held)
    return (
        f"what rests on fewer than {least} rows was withheld without its name: "
        f"{', '.join(text for text, count in told.items() if count)}"
        f"{f'; columns concerned: {shown}' if columns else ''}; {total['bins']} bins were joined to others"
    )


def _limits(together: Pool, feature: FeatureSkew) -> Iterator[Finding]:
    """What was withheld or noised, and what a feature skew from sketches may be instead."""
    held = [sketch for sketch in together.sketches if sketch.withheld.min_count]
    cells = sum(s.withheld.classes + s.withheld.cells + s.withheld.categories for s in held)
    if cells:
        text = _withheld_text(held)
        names = tuple(s.party for s in held if s.withheld.classes + s.withheld.cells + s.withheld.categories)
        yield Finding(code="withheld_cells", severity="mild", text=text, parties=names, count=cells)
    noisy = [sketch for sketch in together.sketches if sketch.noise is not None]
    if noisy:
        scale = max(s.noise.scale for s in noisy if s.noise is not None)
        text = (
            f"{len(noisy)} sketches carry the noise of differential privacy: counts are off by about {scale:.2g}; "
            "label and quantity skew and their intervals allow for it, all other numbers do not"
        )
        yield Finding(
            code="noisy_counts", severity="mild", text=text, parties=tuple(s.party for s in noisy), count=len(noisy)
        )
    shifted = [one for one in feature.by_feature if one.mean_share is not None and one.mean_share >= 0.05]
    if feature.severity != "none" or shifted:
        text = (
            "features differ between silos within classes; without rows this may be concept shift, silos that label "
            "like rows unlike: test it where rows are at hand"
        )
        yield Finding(code="may_be_concept_shift", severity="mild", text=text, count=len(shifted))

"""The profile of a partition: every measure, and which skew prevails."""

from collections.abc import Iterator, Sequence

from fedskew.profiles.concept import concept_skew
from fedskew.profiles.errors import SILOS, check_type
from fedskew.profiles.feature import feature_skew
from fedskew.profiles.hygiene import hygiene
from fedskew.profiles.label import label_skew
from fedskew.profiles.measures import measure_all
from fedskew.profiles.partitions import Finding, Partition
from fedskew.profiles.prevailing import prevailing
from fedskew.profiles.quantity import quantity_skew
from fedskew.profiles.records import ConceptSkew, FeatureSkew, Profile
from fedskew.profiles.severity import SIGNIFICANCE
from fedskew.profiles.sketching.record import Sketch


def profile(partition: Partition | Sequence[Sketch]) -> Profile:
    """Profile a partition: label, quantity, feature and concept skew beyond chance, and which one prevails.

    Parameters
    ----------
    partition : from ``read_table`` or ``make_partition``; or the sketches of all silos, one a party, in any order,
        which give the same numbers for all that sums can tell and null with a reason for the rest

    Raises
    ------
    FedskewError
        Two sketches are of one party, they follow different plans, or no row has a label.

    Returns
    -------
    Profile : frozen; :meth:`Profile.to_json` writes the stable keys

    Examples
    --------
    >>> import numpy as np
    >>> from fedskew.profiles import make_partition
    >>> toy = make_partition(np.zeros((40, 1)), ["x"] * 20 + ["y"] * 20, ["a"] * 20 + ["b"] * 20)
    >>> found = profile(toy)
    >>> found.prevailing.kind, found.label.skew, found.parties, found.rows
    ('label_count', 1.0, 2, 40)
    """
    if not isinstance(partition, Partition):
        check_type("what is to be profiled", partition, (list, tuple), SILOS)
        for one in partition:
            check_type("one of what is to be profiled", one, Sketch, SILOS)
        from fedskew.profiles.sketching.pooled import profile_sketches

        return profile_sketches(partition)
    label = label_skew(partition)
    quantity = quantity_skew(partition, label)
    feature, concept = feature_skew(partition), concept_skew(partition)
    width = 1
    for size in partition.features.shape[1:]:
        width *= int(size)
    shape = tuple(int(size) for size in partition.features.shape[1:])
    return Profile(
        parties=partition.parties,
        rows=partition.rows,
        classes=partition.classes,
        features=width,
        party_names=partition.party_names,
        class_names=partition.class_names,
        modality=partition.modality,
        task="classification" if partition.target is None else "regression",
        label=label,
        quantity=quantity,
        feature=feature,
        concept=concept,
        prevailing=prevailing(label, quantity, feature, concept),
        hygiene=(*hygiene(partition), *_labels_differ(feature, concept)),
        counts=tuple(tuple(row) for row in partition.counts.tolist()),
        image_shape=(shape[0], shape[1], shape[2]) if len(shape) == 3 else None,
        measures=measure_all(partition.counts),
    )


def _labels_differ(feature: FeatureSkew, concept: ConceptSkew) -> Iterator[Finding]:
    """Some party labels like rows unlike, too little to grade: then features of a class differ since labels do."""
    shifted = concept.severity == "none" and concept.p_value is not None and concept.p_value < SIGNIFICANCE
    if shifted and feature.severity != "none":
        text = (
            "features differ between silos within classes, and at least one silo also labels like rows unlike (concept "
            f"p {concept.p_value:.1g}), though over all silos that explains little: labels that are wrong in some "
            "silos look like this; compare labels of like rows before you take it for feature skew"
        )
        yield Finding(code="may_be_concept_shift", severity="mild", text=text)

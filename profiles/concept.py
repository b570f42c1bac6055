"""Concept shift, P(label | x)."""

from fedskew.profiles.partitions import Partition
from fedskew.profiles.records import ConceptSkew


def concept_skew(partition: Partition) -> ConceptSkew:  # noqa: ARG001
    """Null with a reason until it is measured rightly."""
    return ConceptSkew(skew=None, p_value=None, severity="none", reason="not_measured")

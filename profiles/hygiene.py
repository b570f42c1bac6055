"""Findings that a person must know before trusting any number."""

from fedskew.profiles.partitions import Finding, Partition


def hygiene(partition: Partition) -> tuple[Finding, ...]:
    """What reading the table found."""
    return partition.findings

"""Further measures of the count table: each a small value in one tuple."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedskew.profiles.null import Counts


@dataclass(frozen=True, slots=True)
class Measure:
    """One number about a partition's count table: what it is, its unit and range, whose it is, how to compute it.

    ``compute`` takes (P, K) int64 counts with at least one row and gives a float, or None where it is not defined.
    """

    name: str
    text: str
    unit: str
    range: tuple[float, float]
    source: str
    compute: Callable[[Counts], float | None]


def _rows(counts: Counts) -> Counts:
    return np.asarray(counts[counts.sum(axis=1) > 0])


def total_variation(counts: Counts) -> float:
    """Mean over rows of half the L1 distance between the party's label mix and the pooled one."""
    table = _rows(counts)
    mix = table / table.sum(axis=1, keepdims=True)
    apart = np.abs(mix - table.sum(axis=0) / table.sum()).sum(axis=1) / 2
    return float((apart * table.sum(axis=1)).sum() / table.sum())


def cramers_v(counts: Counts) -> float | None:
    """Bias-corrected Cramér's V of party and label."""
    table = _rows(counts)
    table = table[:, table.sum(axis=0) > 0]
    n, (r, k) = int(table.sum()), table.shape
    if min(r, k) < 2 or n < 2:
        return None
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    phi2 = float(((table - expected) ** 2 / expected).sum() / n)
    phi2 = max(0.0, phi2 - (r - 1) * (k - 1) / (n - 1))
    most = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(phi2 / most)) if most > 1e-9 else None


def one_class_parties(counts: Counts) -> float:
    """Share of the parties with rows that hold a single class."""
    return float(((_rows(counts) > 0).sum(axis=1) == 1).mean())


def classes_in_one_party(counts: Counts) -> float:
    """Share of the classes with rows that a single party holds."""
    held = (counts > 0).sum(axis=0)
    return float((held[held > 0] == 1).mean())


def empty_parties(counts: Counts) -> float:
    """Share of the parties without rows."""
    return float((counts.sum(axis=1) == 0).mean())


def majority_share(counts: Counts) -> float:
    """Share of the largest class in all rows: what a constant predictor reaches."""
    return float(counts.sum(axis=0).max() / counts.sum())


MEASURES: tuple[Measure, ...] = (
    Measure(
        "total_variation",
        "sum over parties of n_p/n * sum over classes of |share in p - pooled share| / 2; not corrected for chance",
        "share of rows",
        (0.0, 1.0),
        "Hsieh et al. 2020, The Non-IID Data Quagmire, section 6 (as EMD / 2)",
        total_variation,
    ),
    Measure(
        "cramers_v",
        "sqrt(max(0, phi2 - (P-1)(K-1)/(n-1)) / (min(P~, K~) - 1))",
        "1",
        (0.0, 1.0),
        "Bergsma 2013, J. Korean Statistical Society 42, eq. 5",
        cramers_v,
    ),
    Measure(
        "one_class_parties",
        "parties with one class / parties with rows",
        "share of parties",
        (0.0, 1.0),
        "Li et al. 2022, #C=1",
        one_class_parties,
    ),
    Measure(
        "classes_in_one_party",
        "classes one party holds / classes with rows",
        "share of classes",
        (0.0, 1.0),
        "fedskew",
        classes_in_one_party,
    ),
    Measure(
        "empty_parties", "parties without rows / parties", "share of parties", (0.0, 1.0), "fedskew", empty_parties
    ),
    Measure(
        "majority_share",
        "rows of the largest class / rows",
        "share of rows",
        (0.0, 1.0),
        "accuracy of a constant predictor",
        majority_share,
    ),
)
"""All further measures; to add one, write its function and a line here."""


def measure_all(counts: Counts) -> dict[str, float | None]:
    """Compute every measure of the tuple.

    Parameters
    ----------
    counts : (P, K) int64 with at least one row

    Examples
    --------
    >>> found = measure_all(np.array([[8, 0], [0, 8]]))
    >>> found["total_variation"], found["one_class_parties"], found["majority_share"]
    (0.5, 1.0, 0.5)
    """
    return {measure.name: measure.compute(counts) for measure in MEASURES}

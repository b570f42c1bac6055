"""The one table of severity thresholds, each with its origin."""

from dataclasses import dataclass
from types import MappingProxyType

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.partitions import Severity

SIGNIFICANCE = 0.01
"""A p-value at or above this is chance."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """From which index a skew is mild and from which strong, whether its p-value counts, and where they come from.

    ``mild`` and ``strong`` are inclusive, in units of the index (0 chance, 1 full dependence on the party).
    """

    mild: float
    strong: float
    tested: bool
    origin: str


THRESHOLDS: "MappingProxyType[str, Threshold]" = MappingProxyType(
    {
        "label": Threshold(
            mild=0.01,
            strong=0.25,
            tested=True,
            origin="stated: label Dirichlet 5 reads 0.03, 0.5 reads 0.25 (10 parties, 10 classes), IID tables 0",
        ),
        "feature": Threshold(
            mild=0.003,
            strong=0.05,
            tested=True,
            origin="stated: MNIST reads 0.006 to 0.02 under Gau(0.1), 0.0003 at most without feature skew",
        ),
        "quantity": Threshold(
            mild=0.05,
            strong=0.4,
            tested=False,
            origin="stated, there being no chance test: equal chances read 0, q ~ Dir(0.5) over 10 parties about 0.6",
        ),
        "concept": Threshold(
            mild=0.005,
            strong=0.05,
            tested=True,
            origin="stated, not fitted: 0.5 % and 5 % of the pooled model's remaining log loss",
        ),
    }
)


def severity(kind: str, skew: float | None, p_value: float | None) -> Severity:
    """Grade one index by the table.

    Parameters
    ----------
    kind : ``label``, ``feature``, ``quantity`` or ``concept``
    skew : the index, 0 chance to 1 full dependence; None where the data cannot identify it
    p_value : 0 to 1; None where there is no test; not looked at for ``quantity``

    Returns
    -------
    ``none``, ``mild`` or ``strong``; an index without a value is ``none``

    Raises
    ------
    FedskewError
        The kind does not exist.

    Examples
    --------
    >>> severity("label", 0.3, 0.0001), severity("label", 0.3, 0.2), severity("label", 0.005, 0.0001)
    ('strong', 'none', 'none')
    >>> severity("quantity", 0.3, None)
    'mild'
    """
    if kind not in THRESHOLDS:
        raise FedskewError(f"there is no skew called {kind!r}: {choices(kind, THRESHOLDS)}")
    floor = THRESHOLDS[kind]
    if skew is None or skew < floor.mild:
        return "none"
    if floor.tested and p_value is not None and p_value >= SIGNIFICANCE:
        return "none"
    return "strong" if skew >= floor.strong else "mild"

"""The one table of severity thresholds, each with its origin."""

from dataclasses import dataclass
from types import MappingProxyType

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.partitions import Severity

SIGNIFICANCE = 0.01
"""A p-value at or above this is chance."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """From which index a skew is mild and from which strong, and where they come from.

    ``mild`` and ``strong`` are inclusive, in units of the index (0 chance, 1 full dependence on the party).
    """

    mild: float
    strong: float
    origin: str


THRESHOLDS: "MappingProxyType[str, Threshold]" = MappingProxyType(
    {
        "label": Threshold(
            mild=0.01,
            strong=0.25,
            origin="mild fitted on MNIST and a9a: between 0.0005, the largest index without label skew, and 0.17, the "
            "smallest under Dirichlet 0.5 (geometric mean 0.009); strong stated: Dirichlet 0.5 reads 0.25",
        ),
        "feature": Threshold(
            mild=0.0006,
            strong=0.05,
            origin="mild fitted on MNIST and a9a: between 0.0003, the largest index without feature skew, and 0.0013, "
            "the smallest under Gau(0.1) (geometric mean 0.0006); Fashion-MNIST was looked at when the image kernel "
            "was made, not for this; strong stated: natural silos (subjects, regions) read above, noise below",
        ),
        "quantity": Threshold(
            mild=0.05,
            strong=0.4,
            origin="checked on MNIST and a9a: equal sizes read -0.02, Dirichlet 0.5 reads 0.41 or more, so that any "
            "floor between would do; both stated; sizes of rows dealt out by chance are multinomial",
        ),
        "concept": Threshold(
            mild=0.005,
            strong=0.05,
            origin="checked on MNIST and a9a, not fitted: 0.003 at most without concept shift, 0.06 and 0.21 where one "
            "of five parties swaps two classes, 0.009 under label noise; both stated",
        ),
    }
)


def severity(kind: str, skew: float | None, p_value: float | None) -> Severity:
    """Grade one index by the table.

    Parameters
    ----------
    kind : ``label``, ``feature``, ``quantity`` or ``concept``
    skew : the index, 0 chance to 1 full dependence; None where the data cannot identify it
    p_value : 0 to 1; None where there is no test

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
    >>> severity("quantity", 0.3, None), severity("quantity", 0.3, 0.1)
    ('mild', 'none')
    """
    if kind not in THRESHOLDS:
        raise FedskewError(f"there is no skew called {kind!r}: {choices(kind, THRESHOLDS)}")
    floor = THRESHOLDS[kind]
    if skew is None or skew < floor.mild:
        return "none"
    if p_value is not None and p_value >= SIGNIFICANCE:
        return "none"
    return "strong" if skew >= floor.strong else "mild"

"""Which skew prevails: the kinds beyond their floors, how sure that is, and what would stand otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedskew.profiles.records import ConceptSkew, FeatureSkew, LabelSkew, Prevailing, QuantitySkew
from fedskew.profiles.severity import SIGNIFICANCE, THRESHOLDS

NORMAL_95 = 1.959964
UNSEEN = 0.5  # "none" is no surer than this where label or feature skew could not be identified
RANK: Mapping[str, int] = {"none": 0, "mild": 1, "strong": 2}
Index = LabelSkew | FeatureSkew | QuantitySkew | ConceptSkew
ABSENT_REASONS = ("one_party", "one_class")  # nothing there to identify


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of skew: whether it counts as a component, how sure that is (0.5 to 1), and index over floor."""

    kind: str
    stands: bool
    confidence: float
    ratio: float

    @property
    def order(self) -> tuple[float, bool, float]:
        """Weakest first; among equals the absent kind nearest its floor."""
        return round(self.confidence, 2), self.stands, -self.ratio


def prevailing(label: LabelSkew, quantity: QuantitySkew, feature: FeatureSkew, concept: ConceptSkew) -> Prevailing:
    """Name the prevailing skew.

    Components are the kinds whose severity is not ``none``. Two of them may be shadows of another: quantity counts
    only where label skew does not already imply it, and feature only where it is graded higher than a concept shift
    (permuted labels move P(x | label) as well). None stands: ``none``; one: that kind; several: ``mixed``.

    Returns
    -------
    Prevailing : ``confidence`` is that of the weakest call, 0 to 1: of an index by the normal law of its interval
        around its floor, of a test by how far p is from 0.01; ``runner_up`` is what would stand if it flipped

    Examples
    --------
    >>> from fedskew.profiles.records import ClassesPerParty, EntropyBits, Estimate
    >>> label = LabelSkew(
    ...     skew=0.6,
    ...     p_value=1e-4,
    ...     severity="strong",
    ...     interval=(0.5, 0.7),
    ...     beta=Estimate(),
    ...     alpha=Estimate(),
    ...     entropy_bits=EntropyBits(pooled=1.0, by_party={}),
    ...     capped=None,
    ...     classes_per_party=ClassesPerParty(),
    ... )
    >>> quantity = QuantitySkew(
    ...     skew=0.0,
    ...     gini=0.0,
    ...     severity="none",
    ...     p_value=0.5,
    ...     effective_parties=2.0,
    ...     max_min_ratio=1.0,
    ...     beta=Estimate(),
    ...     largest_share=0.5,
    ...     sizes={},
    ... )
    >>> found = prevailing(
    ...     label,
    ...     quantity,
    ...     FeatureSkew(skew=0.0, p_value=0.9, severity="none"),
    ...     ConceptSkew(skew=0.0, p_value=0.9, severity="none"),
    ... )
    >>> found.kind, found.runner_up, found.components
    ('label_dirichlet', 'mixed', ('label_dirichlet',))
    """
    name = "label_count" if label.classes_per_party.k is not None else "label_dirichlet"
    implied = label.severity != "none" and bool(quantity.implied_by_label)
    shadowed = concept.severity != "none" and RANK[concept.severity] >= RANK[feature.severity]
    calls = [
        _call(name, "label", label),
        _call("feature", "feature", feature, shadow=shadowed),
        _call("quantity", "quantity", quantity, shadow=implied),
        _call("concept", "concept", concept),
    ]
    known = [call for call in calls if call is not None]
    components = tuple(call.kind for call in known if call.stands)
    weakest = min(known, key=lambda call: call.order, default=None)
    confidence = weakest.confidence if weakest else 0.0
    unseen = any(index.skew is None and index.reason not in ABSENT_REASONS for index in (label, feature))
    if not components and unseen:
        confidence = min(confidence, UNSEEN)
    other = None
    if weakest is not None:
        left = [call.kind for call in known if call.stands != (call is weakest)]
        other = _named(tuple(left))
    return Prevailing(kind=_named(components), components=components, confidence=confidence, runner_up=other)


def _named(components: tuple[str, ...]) -> str:
    return "none" if not components else components[0] if len(components) == 1 else "mixed"


def _call(kind: str, measure: str, index: Index, *, shadow: bool = False) -> Call | None:
    """The call on one kind, None where its index could not be identified."""
    skew, severity = index.skew, index.severity
    if skew is None:
        return None
    from scipy.special import ndtr

    floor = THRESHOLDS[measure].mild
    interval = None if isinstance(index, ConceptSkew) else index.interval
    half = (interval[1] - interval[0]) / 2 if interval else 0.5 * max(floor, abs(skew))
    beyond = float(ndtr((skew - floor) / max(half / NORMAL_95, 1e-9)))
    tested = index.p_value
    if severity != "none":
        sure = beyond if tested is None else min(beyond, 1 - (tested / SIGNIFICANCE) ** 2 / 2)
        return Call(kind, stands=not shadow, confidence=float(np.clip(sure, 0.5, 1.0)), ratio=skew / floor)
    by_test = 0.5 if tested is None else 1 - SIGNIFICANCE / (2 * max(tested, SIGNIFICANCE))
    return Call(kind, stands=False, confidence=float(np.clip(max(1 - beyond, by_test), 0.5, 1.0)), ratio=skew / floor)

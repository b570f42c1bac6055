"""How alike two settings are: the same kinds of skew, as strong, on data and parties of the same sort."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from fedskew.advisor.evidence import EvidenceRow
from fedskew.advisor.situation import LABEL_KINDS, Situation
from fedskew.profiles.steps import fednova_weight_sum, step_ratio

UNKNOWN = 0.7
"""The factor of what is not stated."""
MOMENTUM = 0.9
"""Of the local optimizer, for A; the engine's own."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a setting lies: what likeness is measured on. None: not known."""

    kinds: frozenset[str]
    modality: str
    classes: int | None
    parties: int | None
    participation: float | None
    label: float | None
    quantity: float | None
    feature: float | None
    step_ratio: float | None = None
    weight_sum: float | None = None


def place_of(row: EvidenceRow) -> Place:
    """The place of an evidence row."""
    return Place(
        row.kinds,
        row.modality,
        row.classes,
        row.parties,
        row.participation,
        row.label_skew,
        row.quantity_skew,
        row.feature_skew,
        row.step_ratio,
        row.weight_sum,
    )


def place_of_situation(situation: Situation) -> Place:
    """The place of the user's own setting."""
    profile = situation.profile
    return Place(
        frozenset(situation.components),
        situation.modality,
        profile.classes,
        profile.parties,
        situation.participation,
        profile.label.skew,
        profile.quantity.skew,
        profile.feature.skew,
        *_mechanism(situation),
    )


def _mechanism(situation: Situation) -> tuple[float | None, float | None]:
    sizes, steps = situation.sizes, (situation.local_epochs, situation.batch_size)
    if not sum(sizes):
        return None, None
    return step_ratio(sizes, *steps), fednova_weight_sum(sizes, *steps, momentum=MOMENTUM)


def _bell(a: float | None, b: float | None, width: float, scale: Callable[[float], float] = float) -> float:
    """1 where equal, 0.61 at one ``width`` apart on the given scale."""
    if a is None or b is None:
        return UNKNOWN
    return math.exp(-0.5 * ((scale(a) - scale(b)) / width) ** 2)


def _decades(value: float) -> float:
    return math.log10(max(value, 1e-3))


def _shared(a: frozenset[str], b: frozenset[str]) -> float:
    """Share of the kinds of skew in common; the two label skews are half alike, a natural one is half anything."""
    if "natural" in a | b:
        return 1.0 if a == b else 0.5 if a and b else 0.25
    if not a and not b:
        return 1.0
    both = len(a & b)
    if not both and a & set(LABEL_KINDS) and b & set(LABEL_KINDS):
        return 0.5 / len(a | b)
    return both / len(a | b)


@lru_cache(maxsize=100_000)
def likeness(a: Place, b: Place, width: float = 1.0) -> float:
    """How alike two settings are, 0 to 1; symmetric, 1 for a fully known setting and itself.

    Parameters
    ----------
    a, b : the settings
    width : multiplies the widths of all bells

    Examples
    --------
    >>> here = Place(frozenset({"quantity"}), "image", 10, 10, 1.0, 0.0, 0.6, 0.0)
    >>> there = Place(frozenset({"quantity"}), "tabular", 10, 10, 1.0, 0.0, 0.6, 0.0)
    >>> likeness(here, here), likeness(here, there)
    (1.0, 0.3)
    """
    factor = _shared(a.kinds, b.kinds)
    if not factor:
        return 0.0
    kinds = a.kinds | b.kinds
    if kinds & set(LABEL_KINDS):
        factor *= _bell(a.label, b.label, 0.2 * width)
    if "quantity" in kinds:
        factor *= _bell(a.quantity, b.quantity, 0.3 * width)
    if "feature" in kinds:
        factor *= _bell(a.feature, b.feature, width, _decades)
    factor *= 1.0 if a.modality == b.modality else 0.3
    factor *= _bell(a.classes, b.classes, 0.5 * width, _decades)
    factor *= _bell(a.parties, b.parties, 0.7 * width, _decades)
    factor *= _bell(a.participation, b.participation, 0.5 * width, _decades)
    for one, other, spread in ((a.step_ratio, b.step_ratio, 0.5), (a.weight_sum, b.weight_sum, 0.3)):
        if one is not None and other is not None:  # no published table states them; sizes are compared already
            factor *= _bell(one, other, spread * width, _decades)
    return factor

"""Which skew prevails."""

from typing import Any

import msgspec
import pytest

from fedskew.profiles.prevailing import prevailing
from fedskew.profiles.records import (
    ClassesPerParty,
    ConceptSkew,
    EntropyBits,
    Estimate,
    FeatureSkew,
    LabelSkew,
    Prevailing,
    QuantitySkew,
)
from fedskew.profiles.severity import severity

NOTHING = Estimate()


def _named(
    label: float | None = 0.0,
    feature: float | None = 0.0,
    quantity: float = 0.0,
    concept: float | None = 0.0,
    **more: Any,
) -> Prevailing:
    def p(skew: float | None) -> float | None:
        return None if skew is None else 0.5 if skew == 0 else 0.0001

    records = (
        LabelSkew(
            skew=label,
            p_value=p(label),
            severity=severity("label", label, p(label)),
            interval=None,
            beta=NOTHING,
            alpha=NOTHING,
            entropy_bits=EntropyBits(pooled=1.0, by_party={}),
            capped=None,
            classes_per_party=ClassesPerParty(k=more.get("k")),
            reason=None if label is not None else "too_few_rows",
        ),
        QuantitySkew(
            skew=quantity,
            gini=0.0,
            severity=severity("quantity", quantity, None),
            p_value=0.5,
            effective_parties=2.0,
            max_min_ratio=1.0,
            beta=NOTHING,
            largest_share=0.5,
            sizes={},
            implied_by_label=more.get("implied"),
        ),
        FeatureSkew(
            skew=feature,
            p_value=p(feature),
            severity=severity("feature", feature, p(feature)),
            reason=None if feature is not None else "no_shared_class",
        ),
        ConceptSkew(skew=concept, p_value=p(concept), severity=severity("concept", concept, p(concept))),
    )
    return prevailing(*records)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (_named(), "none"),
        (_named(label=0.3), "label_dirichlet"),
        (_named(label=0.9, k=2), "label_count"),
        (_named(feature=0.02), "feature"),
        (_named(quantity=0.5), "quantity"),
        (_named(concept=0.1), "concept"),
        (_named(label=0.3, feature=0.02), "mixed"),
        (_named(quantity=0.5, feature=0.02), "mixed"),
    ],
)
def test_one_component_names_the_kind_and_several_are_mixed(found: Prevailing, kind: str) -> None:
    assert found.kind == kind
    assert (found.kind == "mixed") == (len(found.components) > 1)


def test_quantity_that_label_skew_implies_is_no_component() -> None:
    assert _named(label=0.3, quantity=0.5, implied=True).components == ("label_dirichlet",)
    assert _named(label=0.3, quantity=0.5, implied=False).components == ("label_dirichlet", "quantity")
    assert _named(quantity=0.5, implied=True).components == ("quantity",)


def test_concept_shift_hides_the_feature_skew_it_causes_unless_that_is_graded_higher() -> None:
    assert _named(concept=0.2, feature=0.04).kind == "concept"
    assert _named(concept=0.2, feature=0.4).kind == "concept"
    assert _named(concept=0.01, feature=0.4).components == ("feature", "concept")


def test_an_index_at_its_floor_is_the_weakest_call_and_gives_the_runner_up() -> None:
    found = _named(label=0.3, feature=0.00062)
    assert (found.kind, found.runner_up) == ("mixed", "label_dirichlet")
    assert found.confidence < 0.8
    assert _named(quantity=0.049).runner_up == "quantity"


def test_none_is_unsure_where_label_or_feature_could_not_be_identified() -> None:
    assert _named(label=None).confidence <= 0.5
    assert _named(feature=None).confidence <= 0.5
    assert _named().confidence > 0.9
    assert _named(label=1.0, k=1, feature=None).confidence > 0.9


def test_records_round_trip_through_json() -> None:
    found = _named(label=0.3)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Prevailing) == found

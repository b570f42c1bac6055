"""The tree: every leaf is reached, by hand and through profile() from our own generator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedskew.advisor.citations import CITATIONS
from fedskew.advisor.price import COSTS
from fedskew.advisor.situation import Facts, Situation
from fedskew.advisor.tree import LEAVES, QUESTIONS, ROOT, graph, walk
from fedskew.profiles import profile
from fedskew.profiles.records import Profile
from fedskew.profiles.simulate import simulate

BY_HAND = [
    ("none", Facts("none", (), "image")),
    ("concept", Facts("concept", ("concept",), "image")),
    ("concept", Facts("mixed", ("concept", "quantity"), "tabular", strong_concept=True)),
    ("label_count_1", Facts("label_count", ("label_count",), "image", classes_each=1)),
    ("label_count_1", Facts("mixed", ("label_count", "quantity"), "image", classes_each=1)),
    ("label_count", Facts("label_count", ("label_count",), "tabular", classes_each=3)),
    ("label_dirichlet_image", Facts("label_dirichlet", ("label_dirichlet",), "image")),
    ("label_dirichlet_tabular", Facts("label_dirichlet", ("label_dirichlet",), "tabular")),
    ("label_dirichlet_tabular", Facts("mixed", ("label_dirichlet", "quantity"), "tabular")),
    ("label_dirichlet_tabular", Facts("mixed", ("label_dirichlet", "feature"), "tabular")),
    ("feature", Facts("feature", ("feature",), "tabular")),
    ("feature", Facts("mixed", ("feature", "concept"), "image")),
    ("quantity", Facts("quantity", ("quantity",), "image")),
    ("mixed_label_feature", Facts("mixed", ("label_dirichlet", "feature"), "image")),
    ("mixed_quantity_feature", Facts("mixed", ("quantity", "feature"), "image")),
    ("mixed_quantity_label_image", Facts("mixed", ("label_dirichlet", "quantity", "feature"), "image")),
]


@pytest.mark.parametrize(("leaf", "facts"), BY_HAND)
def test_facts_lead_to_their_leaf(leaf: str, facts: Facts) -> None:
    found, path = walk(facts)
    assert found == leaf
    assert path[0].question == QUESTIONS[ROOT].text
    assert path[0].answer == facts.kind


def test_every_leaf_is_reached_by_hand() -> None:
    assert {leaf for leaf, _ in BY_HAND} == set(LEAVES)


def test_every_way_leads_to_a_question_or_leaf_and_every_node_is_used() -> None:
    ends = {place for question in QUESTIONS.values() for place in question.ways.values()}
    assert ends <= set(QUESTIONS) | set(LEAVES)
    assert ends | {ROOT} == set(QUESTIONS) | set(LEAVES)


def test_leaves_name_known_algorithms_and_works_only() -> None:
    for leaf in LEAVES.values():
        assert {leaf.algorithm, *leaf.alternatives, *leaf.named} <= set(COSTS)
        assert set(leaf.citations) <= set(CITATIONS)
        assert not leaf.named or leaf.algorithm in leaf.named


def test_each_node_says_who_asks_or_answers() -> None:
    assert all(question.origin for question in QUESTIONS.values())
    assert all(leaf.origin for leaf in LEAVES.values())
    assert LEAVES["none"].origin == "fedskew"


def test_no_reason_calls_a_published_result_a_row() -> None:
    words = " ".join(f"{leaf.remark} {leaf.evidence}" for leaf in LEAVES.values())
    assert "Three published results" in words
    assert " rows" not in words.replace("like rows", "")  # a person reads it beside the number of their own rows


def test_graph_has_a_line_for_every_answer() -> None:
    assert len(graph().splitlines()) == sum(len(question.ways) for question in QUESTIONS.values())


def clusters(modality: str, rows: int = 2000, classes: int = 10) -> tuple[Any, Any]:
    """Rows around one centre a class: 8 by 8 images or a table of 8 columns."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(classes), rows // classes))
    if modality == "tabular":
        return (rng.normal(size=(classes, 8))[labels] * 2 + rng.normal(size=(rows, 8))).astype(np.float32), labels
    images = rng.normal(size=(classes, 1, 8, 8))[labels] * 60 + 128 + rng.normal(size=(rows, 1, 8, 8)) * 25
    return images.clip(0, 255).astype(np.uint8), labels


GOLDEN: list[tuple[str, str, str, dict[str, Any]]] = [
    ("none", "image", "iid", {}),
    ("none", "tabular", "iid", {}),
    ("label_count_1", "image", "label_count", {"num_classes_per_partition": 1}),
    ("label_count_1", "tabular", "label_count", {"num_classes_per_partition": 1}),
    ("label_count", "image", "label_count", {"num_classes_per_partition": 2}),
    ("label_count", "tabular", "label_count", {"num_classes_per_partition": 2}),
    ("label_dirichlet_image", "image", "label_dirichlet", {"alpha": 0.5}),
    ("label_dirichlet_tabular", "tabular", "label_dirichlet", {"alpha": 0.5}),
    ("feature", "image", "feature_noise", {"noise": 0.5}),
    ("feature", "tabular", "feature_noise", {"noise": 2.0}),
    ("quantity", "image", "quantity_dirichlet", {"alpha": 0.5}),
    ("quantity", "tabular", "quantity_dirichlet", {"alpha": 0.5}),
    ("mixed_label_feature", "image", "label_dirichlet+feature_noise", {"alpha": 0.5, "noise": 0.5}),
    ("mixed_quantity_feature", "image", "quantity_dirichlet+feature_noise", {"alpha": 0.5, "noise": 0.5}),
    ("mixed_quantity_label_image", "image", "label_dirichlet+quantity_dirichlet", {"alpha": 0.5}),
    ("concept", "tabular", "label_permutation", {}),
]


def profiled(modality: str, strategy: str, parameters: dict[str, Any]) -> Profile:
    return profile(simulate(clusters(modality), strategy, num_partitions=10, **parameters))


@pytest.mark.parametrize(("leaf", "modality", "strategy", "parameters"), GOLDEN)
def test_generated_partition_reaches_its_leaf(
    leaf: str, modality: str, strategy: str, parameters: dict[str, Any]
) -> None:
    found = profiled(modality, strategy, parameters)
    assert walk(Situation(found, found.modality).facts)[0] == leaf


def test_every_leaf_has_a_generated_partition() -> None:
    assert {leaf for leaf, *_ in GOLDEN} == set(LEAVES)


def test_modality_can_be_overridden(profile_of: Callable[..., Profile]) -> None:
    found = profile_of("label_dirichlet", modality="image")
    assert walk(Situation(found, "tabular").facts)[0] == "label_dirichlet_tabular"

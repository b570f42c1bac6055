"""The whole profile, end to end."""

import json

import msgspec
import numpy as np
import pytest

from fedskew.profiles import Partition, Profile, make_partition, profile, read_table, simulate


@pytest.fixture(autouse=True)
def _fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the tables drawn for chance: ten times faster, p no lower than 0.001."""
    monkeypatch.setattr("fedskew.profiles.null.DRAWS", 999)


def _partition(table: np.ndarray, seed: int = 0) -> Partition:
    party, labels = np.nonzero(np.ones_like(table))
    party, labels = np.repeat(party, table.ravel()), np.repeat(labels, table.ravel())
    features = np.random.default_rng(seed).normal(size=(len(party), 3)) + labels[:, None]
    return make_partition(features, [f"class {c}" for c in labels], [f"silo {p}" for p in party])


KEYS = {
    "": {
        "schema",
        "parties",
        "rows",
        "classes",
        "party_names",
        "class_names",
        "modality",
        "prevailing",
        "label",
        "quantity",
        "feature",
        "concept",
        "hygiene",
    },
    "prevailing": {"kind", "components", "confidence", "runner_up"},
    "label": {
        "skew",
        "p_value",
        "severity",
        "interval",
        "entropy_bits",
        "beta",
        "alpha",
        "classes_per_party",
        "capped",
    },
    "quantity": {"skew", "gini", "severity", "p_value", "effective_parties", "max_min_ratio", "beta"},
    "feature": {"skew", "p_value", "severity", "reason", "by_feature"},
    "concept": {"skew", "p_value", "severity", "reason"},
}


def test_json_has_the_stable_keys_and_round_trips() -> None:
    found = profile(_partition(np.array([[60, 5], [5, 60], [20, 20]])))
    document = json.loads(found.to_json())
    for part, keys in KEYS.items():
        assert keys <= set(document[part] if part else document)
    assert set(document["label"]["beta"]) >= {"estimate", "lower", "upper", "reading"}
    assert set(document["label"]["entropy_bits"]) == {"pooled", "by_party"}
    assert set(document["label"]["classes_per_party"]) == {"k", "share"}
    assert Profile.from_json(found.to_json()) == found


def test_unknown_keys_are_refused() -> None:
    document = json.loads(profile(_partition(np.array([[9, 5], [5, 9]]))).to_json())
    document["extra"] = 1
    with pytest.raises(msgspec.ValidationError, match="extra"):
        Profile.from_json(json.dumps(document))


def test_frame_has_one_row_a_party() -> None:
    found = profile(_partition(np.array([[60, 0], [5, 60], [20, 20]])))
    frame = found.to_frame()
    assert list(frame.index) == ["silo 0", "silo 1", "silo 2"]
    assert frame["rows"].tolist() == [60, 65, 40]
    assert frame["missing_classes"].tolist() == [1, 0, 0]
    assert frame["entropy_bits"].tolist() == pytest.approx([0.0, 0.391, 1.0], abs=0.001)
    assert frame["effective_classes"].tolist() == pytest.approx([1.0, 1.311, 2.0], abs=0.001)


def test_frame_shows_nan_for_a_party_without_rows() -> None:
    empty = make_partition(
        np.zeros((4, 1)), [0, 1, 0, 1], [0, 0, 1, 1], class_names=("x", "y"), party_names=("a", "b", "c")
    )
    frame = profile(empty).to_frame()
    assert frame.loc["c", "rows"] == 0
    assert frame.loc["c", ["entropy_bits", "effective_classes", "divergence"]].isna().all()


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (np.full((6, 4), 100), "none"),
        (np.kron(np.eye(5, dtype=np.int64), np.array([[200]])), "label_count"),
        (np.array([[400, 30, 170], [20, 300, 280], [200, 90, 5], [60, 210, 150]]), "label_dirichlet"),
        (np.outer([1000, 200, 40, 20], [1, 1, 1]), "quantity"),
    ],
)
def test_made_partitions_are_named_rightly(table: np.ndarray, kind: str) -> None:
    assert profile(_partition(table)).prevailing.kind == kind


def test_labels_swapped_in_one_of_five_parties_are_named_concept_and_not_feature() -> None:
    rng = np.random.default_rng(3)
    labels, party = rng.integers(0, 4, 2000), np.arange(2000) % 5
    x = np.array([[0, 0], [0, 2], [2, 0], [2, 2]])[labels] + 0.7 * rng.standard_normal((2000, 2))
    swapped = np.where((party == 2) & (labels < 2), 1 - labels, labels)
    assert profile(make_partition(x, swapped, party)).prevailing.kind == "concept"
    assert profile(make_partition(x, labels, party)).prevailing.kind == "none"


def test_profile_of_the_same_rows_in_another_order_has_the_same_bytes() -> None:
    part = _partition(np.array([[30, 5], [5, 30], [20, 20]]))
    order = np.random.default_rng(1).permutation(part.rows)
    names = np.array(part.party_names)[part.party[order]], np.array(part.class_names)[part.labels[order]]
    turned = make_partition(part.features[order], names[1], names[0])
    assert profile(turned).label == profile(part).label
    assert profile(turned).quantity == profile(part).quantity


@pytest.mark.parametrize("table", [[[5]], [[1]], [[1, 1]], [[3], [2]], [[1, 0], [0, 1]], [[0, 2], [1, 0], [9, 9]]])
def test_tiny_partitions_give_valid_json_without_nan(table: list[list[int]]) -> None:
    text = profile(_partition(np.array(table))).to_json()
    assert "NaN" not in text
    json.loads(text, parse_constant=pytest.fail)


def test_image_shape_and_width_are_told() -> None:
    images = np.zeros((8, 1, 8, 9), np.uint8)
    found = profile(make_partition(images, [0, 1] * 4, ["a", "b", "b", "a"] * 2))
    assert (found.modality, found.image_shape, found.features) == ("image", (1, 8, 9), 72)


def test_label_noise_that_shows_as_feature_skew_is_told(data_file) -> None:
    source = read_table(data_file("letterrecognition.npz"), partitioned=False)
    found = profile(simulate(source, "label_noise", num_partitions=10))
    assert found.concept.severity == "none"
    assert found.feature.severity != "none"
    assert "may_be_concept_shift" in {finding.code for finding in found.hygiene}
    clean = profile(simulate(source, "iid", num_partitions=10))
    assert "may_be_concept_shift" not in {finding.code for finding in clean.hygiene}

from typing import Any

import numpy as np
import pytest

from fedskew.profiles.concept import concept_skew
from fedskew.profiles.logistic import cross_fitted, fitted
from fedskew.profiles.partitions import Partition, make_partition


def measured(partition: Partition) -> Any:
    return concept_skew(partition)


def blobs(seed: int, rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, rows)
    centres = np.array([[0, 0, 1], [0, 2, 0], [2, 0, 0], [2, 2, 1]])
    return centres[labels] + 0.8 * rng.standard_normal((rows, 3)), labels


def test_labels_swapped_between_two_classes_in_one_of_five_parties_are_found() -> None:
    x, labels = blobs(0)
    party = np.arange(2000) % 5
    swapped = np.where((party == 3) & (labels < 2), 1 - labels, labels)
    found = measured(make_partition(x, swapped, party))
    assert found.p_value < 1e-6
    assert found.skew > 0.02
    assert found.severity != "none"


def test_two_parties_that_contradict_each_other_are_found() -> None:
    x, labels = blobs(1)
    party = np.arange(2000) % 2
    found = measured(make_partition(x, (labels < 2) ^ (party == 1), party))
    assert found.p_value < 1e-6


def test_label_noise_in_one_party_is_found() -> None:
    x, labels = blobs(2)
    rng, party = np.random.default_rng(2), np.arange(2000) % 4
    noisy = np.where((party == 0) & (rng.random(2000) < 0.5), rng.integers(0, 4, 2000), labels)
    assert measured(make_partition(x, noisy, party)).p_value < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iid", "label", "quantity", "covariate"])
def test_false_alarms_are_rare_without_concept_shift(kind: str) -> None:
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, labels = blobs(100 + seed, 1200)
        party = rng.integers(0, 4, 1200)
        if kind == "label":
            party = np.where(rng.random(1200) < 0.6, labels, party)
        if kind == "quantity":
            party = rng.choice(4, 1200, p=[0.7, 0.2, 0.06, 0.04])
        if kind == "covariate":
            x = rng.standard_normal((1200, 1)) + 0.7 * party[:, None]
            labels = (np.sin(2 * x[:, 0]) + 0.5 * rng.standard_normal(1200) > 0).astype(int)
        found = concept_skew(make_partition(x, labels, party), sized=False)  # the same answer below 1 %, sooner
        alarms += found.p_value is not None and found.p_value < 0.01
    assert alarms <= 3  # binomial(40, 0.01): more with probability 0.0007


def test_tables_of_few_kinds_of_rows_are_sampled_row_by_row() -> None:
    rng = np.random.default_rng(9)
    x, party = rng.integers(0, 2, (30_000, 2)), rng.integers(0, 3, 30_000)
    labels = (x[:, 0] ^ (rng.random(30_000) < 0.2)).astype(int)
    found = measured(make_partition(x, labels, party))
    assert found.reason is None
    assert found.p_value > 0.001
    swapped = np.where((party == 1) & (rng.random(30_000) < 0.3), 1 - labels, labels)
    assert measured(make_partition(x, swapped, party)).skew > found.skew + 0.02


def test_parties_without_common_ground_have_no_index() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (4000, 3))
    signs = (x > 0).astype(int)
    party = (signs[:, 0] ^ signs[:, 1]) * 2 + (signs[:, 0] ^ signs[:, 2])
    found = measured(make_partition(x, signs[:, 0], party))
    assert found.skew is None
    assert found.reason == "no_overlap"


def test_parties_of_one_class_each_can_show_no_concept_shift() -> None:
    x, labels = blobs(7)
    party = 2 * labels + np.arange(2000) % 2
    found = measured(make_partition(x, labels, party))
    assert (found.skew, found.severity, found.reason) == (None, "none", "one_class")


def test_what_is_not_found_need_not_be_sized_and_what_is_found_is() -> None:
    x, labels = blobs(8)
    party = np.arange(2000) % 4
    quiet = concept_skew(make_partition(x, labels, party), sized=False)
    assert (quiet.skew, quiet.reason) == (None, "not_sized")
    swapped = make_partition(x, np.where((party == 3) & (labels < 2), 1 - labels, labels), party)
    assert concept_skew(swapped, sized=False) == concept_skew(swapped)


def test_reasons_are_given_for_one_class_one_party_and_few_rows() -> None:
    x = np.random.default_rng(4).standard_normal((60, 2))
    assert measured(make_partition(x, np.zeros(60), np.arange(60) % 2)).reason == "one_class"
    assert measured(make_partition(x, np.arange(60) % 2, np.zeros(60))).reason == "no_shared_class"
    assert measured(make_partition(x, np.arange(60) // 12 % 2, np.arange(60) % 12)).reason == "too_few_rows"


def test_constant_features_give_a_defined_answer() -> None:
    found = measured(make_partition(np.ones((80, 2)), np.arange(80) // 2 % 2, np.arange(80) % 2))
    assert (found.p_value is None) == (found.reason is not None)


def test_logistic_fit_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    x, labels = blobs(5)
    weights, centre, basis = fitted(x, labels, 4)
    logits = (x - centre) @ basis @ weights[1:] + weights[0]
    share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    oracle = LogisticRegression(C=1e3, max_iter=2000).fit(x, labels).predict_proba(x)
    assert np.abs(share - oracle).max() < 0.02  # another ridge, another stopping rule


def test_cross_fitted_rows_never_see_themselves() -> None:
    rng = np.random.default_rng(6)
    x, labels, fold = rng.standard_normal((200, 60)), rng.integers(0, 2, 200), np.arange(200) % 2
    logs = cross_fitted(x, labels, 2, fold)
    assert -logs[np.arange(200), labels].mean() > np.log(2)  # pure noise: a model that saw them would look better

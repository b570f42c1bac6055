"""Scores against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from fedskew.engine.scores import accuracy, balanced_accuracy, by_party, macro_f1, r_squared

pairs = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n), st.lists(st.integers(0, 4), min_size=n, max_size=n)
    )
)


@given(pairs)
def test_scores_of_classes_equal_scikit_learn(pair):
    truth, predicted = np.array(pair[0]), np.array(pair[1])
    recalls = [(predicted[truth == c] == c).mean() for c in np.unique(truth)]
    assert accuracy(truth, predicted) == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert balanced_accuracy(truth, predicted) == pytest.approx(np.mean(recalls))
    expected = metrics.f1_score(truth, predicted, average="macro", zero_division=0)
    assert macro_f1(truth, predicted) == pytest.approx(expected)


def test_scores_without_rows_are_undefined():
    empty = np.zeros(0, np.int64)
    assert accuracy(empty, empty) is None
    assert balanced_accuracy(empty, empty) is None
    assert macro_f1(empty, empty) is None
    assert r_squared(np.zeros(0), np.zeros(0)) is None


def test_r_squared_equals_scikit_learn():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=30)
    predicted = truth + rng.normal(size=30)
    assert r_squared(truth, predicted) == pytest.approx(metrics.r2_score(truth, predicted))


def test_a_party_without_test_rows_has_no_score():
    hits = np.array([1.0, 0.0, 1.0])
    assert by_party(hits, np.array([0, 0, 2], np.int32), 4) == [0.5, None, 1.0, None]

"""What curves say: settled rankings, targets, equal costs, from curves drawn by hand."""

import numpy as np

from fedskew.engine.curves import at_equal_cost, ranking, reached, trend


def test_a_leader_since_the_first_round_is_settled_at_once():
    found = ranking({"a": np.linspace(0.5, 0.9, 9), "b": np.linspace(0.1, 0.8, 9)}, 0.005)
    assert (found.leader, found.settled_at, found.stable, found.crossed) == ("a", 1, True, False)


def test_a_leader_of_the_last_third_only_is_not_stable():
    late = np.array([0.1] * 7 + [0.9, 0.9])
    found = ranking({"a": late, "b": np.full(9, 0.5)}, 0.005)
    assert (found.leader, found.settled_at, found.stable, found.crossed) == ("a", 8, False, True)


def test_a_lead_within_the_margin_unsettles_nothing():
    found = ranking({"a": np.array([0.500, 0.6, 0.7]), "b": np.array([0.504, 0.5, 0.5])}, 0.005)
    assert found.settled_at == 1


def test_no_candidate_or_no_round_is_defined():
    assert ranking({}, 0.005).leader is None
    assert ranking({"a": np.zeros(0)}, 0.005).leader is None


def test_trend_needs_three_finite_rounds():
    assert trend(np.array([0.1, 0.2])) is None
    assert trend(np.array([0.1, np.nan, 0.2])) is None
    assert trend(np.array([0.9, 0.8, 0.7])) == "falling"


def test_targets_and_equal_budgets():
    assert reached(np.array([0.1, 0.5, 0.4]), 0.5) == 2
    curves = {"cheap": np.array([0.1, 0.2, 0.3, 0.4]), "double": np.array([0.2, 0.4, 0.6, 0.8])}
    assert at_equal_cost(curves, {"cheap": 1.0, "double": 2.0}) == {"cheap": 0.4, "double": 0.4}
    assert at_equal_cost(curves, {"cheap": 1.0, "double": 9.0})["double"] is None

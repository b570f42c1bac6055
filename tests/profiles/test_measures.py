"""Further measures of the count table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2_contingency

from fedskew.profiles.measures import MEASURES, measure_all

NAMES = {measure.name: measure for measure in MEASURES}


def test_names_are_unique_and_every_measure_is_documented() -> None:
    assert len(NAMES) == len(MEASURES)
    assert all(measure.text and measure.unit and measure.source for measure in MEASURES)


@given(arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.integers(0, 20)))
def test_every_measure_stays_in_its_range_and_ignores_order(table: np.ndarray) -> None:
    if table.sum() == 0:
        return
    found, turned = measure_all(table), measure_all(table[::-1, ::-1])
    for name, value in found.items():
        low, high = NAMES[name].range
        assert value is None or low <= value <= high + 1e-9
        assert value == pytest.approx(turned[name])


def test_cramers_v_agrees_with_scipys_chi_square() -> None:
    table = np.array([[30, 5, 9], [4, 22, 8]])
    n, (r, k) = table.sum(), table.shape
    phi2 = chi2_contingency(table, correction=False)[0] / n - (r - 1) * (k - 1) / (n - 1)
    most = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    assert NAMES["cramers_v"].compute(table) == pytest.approx(np.sqrt(phi2 / most))


def test_shares_are_counted_by_hand() -> None:
    found = measure_all(np.array([[4, 0, 0], [0, 0, 0], [2, 2, 0]]))
    assert found["one_class_parties"] == 0.5
    assert found["classes_in_one_party"] == 0.5
    assert found["empty_parties"] == pytest.approx(1 / 3)
    assert found["majority_share"] == 0.75
    assert found["total_variation"] == 0.25

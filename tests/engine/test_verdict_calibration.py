"""A short form of bench/verdict_calibration.py: how often the verdict errs, over simulated validations."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "bench" / "verdict_calibration.py"
SPEC = importlib.util.spec_from_file_location("verdict_calibration", PATH)
assert SPEC is not None
assert SPEC.loader is not None
bench = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench)


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("first", [0, 5])
def test_equal_candidates_are_seldom_overturned(seeds, first):
    order = [bench.SPREADS[first], *(s for i, s in enumerate(bench.SPREADS) if i != first)]
    assert bench.share("overturned", 2000, 11, means=[0.7] * 6, spreads=order, seeds=seeds) <= 0.05


def test_two_points_at_a_paired_deviation_of_one_are_found_by_the_standard_preset():
    found = bench.share("overturned", 500, 12, means=[0.7, 0.72], spreads=[0.01 / 2**0.5] * 2, seeds=10)
    assert found >= 0.8


def test_candidates_within_the_margin_are_called_so():
    how = {"means": [0.7] * 6, "spreads": [0.0005] * 6, "seeds": 5, "disagreement": 0.001}
    assert bench.share("no_difference", 300, 13, **how) >= 0.95

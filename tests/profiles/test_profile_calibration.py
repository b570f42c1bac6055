"""The short form of bench/profile_calibration.py."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "profile_calibration.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("profile_calibration", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("sizes", "classes"),
    [
        ([20] * 10, 10),
        ([200] * 2, 10),
        ([20] * 100, 10),
        ([6000] * 10, 10),
        ([5000, 20, 20, 20, 20], 10),
        ([50] * 100, 100),
    ],
)
def test_false_alarms_keep_the_one_per_cent_level(bench: ModuleType, sizes: list[int], classes: int) -> None:
    rate, mean, _ = bench.false_alarms(np.array(sizes), classes, 400, 1)
    assert rate <= 0.025  # 0.01 + 3 standard errors
    assert mean == pytest.approx(0.0, abs=0.005)


def test_rows_too_few_to_identify_say_so(bench: ModuleType) -> None:
    assert bench.false_alarms(np.array([20, 20]), 100, 5, 1)[2] == "too_few_rows"


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(
    ("parties", "classes", "beta", "rows"), [(10, 10, 0.1, 600), (10, 26, 0.5, 600), (50, 10, 1.0, 6000)]
)
def test_beta_is_recovered(bench: ModuleType, parties: int, classes: int, beta: float, rows: int, cut: bool) -> None:
    ratio, cover, missing = bench.recovery(parties, classes, beta, rows=rows, fits=25, cut=cut)
    assert ratio == pytest.approx(1.0, abs=0.15)
    assert cover >= 0.84
    assert missing == 0.0


@pytest.mark.parametrize("beta", [0.1, 0.5, 5.0])
def test_the_size_cap_is_recognised_and_never_where_there_is_none(bench: ModuleType, beta: float) -> None:
    seen, ratio = bench.capped(10, 10, beta, rows=6000, fits=25, cap=True)
    assert seen >= 0.8
    assert ratio == pytest.approx(1.0, abs=0.2)
    assert bench.capped(10, 10, beta, rows=6000, fits=25, cap=False)[0] == 0.0

"""The short form of bench/prevailing_grid.py."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "prevailing_grid.py"


@pytest.fixture(scope="module")
def grid() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prevailing_grid", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its records look their module up
    spec.loader.exec_module(module)
    return module


def test_parties_of_fcube_differ_in_their_features_only(grid: ModuleType) -> None:
    for cell, seed, partition in grid.partitions("fcube", 2, set()):
        assert grid.measured("fcube", cell, seed, partition).named().kind == "feature"


@pytest.mark.slow
@pytest.mark.parametrize("data", ["a9a", "covtype"])
def test_every_kind_of_skew_and_its_mixtures_are_named_on_real_tables(
    grid: ModuleType, data: str, data_file: Callable[[str], Path]
) -> None:
    data_file(grid.FILES[data])
    wrong = {}
    for cell, seed, partition in grid.partitions(data, 1, set()):
        found = grid.measured(data, cell, seed, partition)
        if found.named().kind != found.wanted:
            wrong[cell] = found.named()
    assert not wrong

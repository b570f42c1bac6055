"""The script that writes the regret into the documentation: verdicts and intervals by hand, markers, repeatability."""

import importlib
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scipy.stats import ttest_1samp

from fedskew.advisor.own_evidence import STATED, OwnRow, format_own, parse_own
from fedskew.advisor.own_regret import Interval, own_settings
from fedskew.profiles.errors import FedskewError

from .test_own_regret import own  # noqa: TID252

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scripts() -> tuple[ModuleType, ModuleType]:
    """``bench/regret.py`` and its tables."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return importlib.import_module("regret"), importlib.import_module("regret_claims")
    finally:
        sys.path.remove(str(ROOT / "bench"))


def rows(**changes: Any) -> tuple[OwnRow, ...]:
    gains = {"fedavg": 0.0, "fedprox": 0.1, "scaffold": -4.0, "fednova": -9.0, "fedadam": 3.0}
    return tuple(
        own(d, name, 60.0 + gain + i / 9, d, **changes) for i, d in enumerate("ABCD") for name, gain in gains.items()
    )


def test_interval_over_data_sets_is_students(scripts: tuple[ModuleType, ModuleType]) -> None:
    found = scripts[1].over_means([1.0, 3.0, 4.0, 9.0], ["A", "A", "B", "C"])
    expected = ttest_1samp([2.0, 4.0, 9.0], 0).confidence_interval(0.95)
    assert found.mean == 5.0
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high))
    assert math.isinf(scripts[1].over_means([1.0, 2.0], ["A", "A"]).upper)


@pytest.mark.parametrize(
    ("lower", "upper", "sets", "paper", "said"),
    [
        (1.0, 3.0, 2, 5.0, "too few: 2 data sets"),
        (-1.0, 3.0, 4, 5.0, "cannot tell"),
        (1.0, 3.0, 4, 5.0, "for"),
        (1.0, 3.0, 4, -5.0, "**against**"),
        (-3.0, -1.0, 4, -5.0, "for"),
        (-0.2, 0.3, 4, -33.0, "**against**: none that matters"),
        (-0.2, 0.3, 4, 0.1, "for: none that matters"),
        (1.0, 3.0, 4, 0.1, "**against**: there is one"),
        (1.0, 3.0, 4, None, "better"),
        (-3.0, -1.0, 4, None, "worse"),
    ],
)
def test_verdict_on_a_claim(
    scripts: tuple[ModuleType, ModuleType], lower: float, upper: float, sets: int, paper: float | None, said: str
) -> None:
    assert scripts[1].verdict(Interval((lower + upper) / 2, lower, upper), sets, paper) == said


def test_claims_carry_the_papers_own_figures(scripts: tuple[ModuleType, ModuleType]) -> None:
    lines = scripts[1].claims_page(own_settings(rows())).splitlines()
    (nova,) = [line for line in lines if line.startswith("| quantity skew, all parties | FedNova")]
    assert "-9.0 (-9.0 to -9.0)" in nova
    assert "-33.3 (7)" in nova  # facts, section H: mean regret 33.76 against FedAvg's 0.44
    assert nova.endswith("| for |")
    (dirichlet,) = [line for line in lines if line.startswith("| label Dirichlet on tables, all parties | SCAFFOLD")]
    assert "+1.6 (3)" in dirichlet  # 8.07 - 6.50
    assert dirichlet.endswith("not run yet |")


def test_two_failures_say_nothing_of_a_gap(scripts: tuple[ModuleType, ModuleType]) -> None:
    lines = scripts[1].claims_page(own_settings(rows(status="failed"))).splitlines()
    assert all(line.endswith("not run yet |") for line in lines[2:] if line.count("|") == 8)


def test_everything_goes_between_its_markers(scripts: tuple[ModuleType, ModuleType]) -> None:
    text = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb"
    once = scripts[0].insert(text, "x", "new")
    assert once == "a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb"
    assert scripts[0].insert(once, "x", "new") == once
    with pytest.raises(FedskewError, match="once each"):
        scripts[0].insert("a", "x", "new")
    page = (ROOT / "docs" / "recommendation.md").read_text()
    assert all(
        page.count(f"<!-- {name}:{end} -->") == 1
        for name in ("regret", "claims", "severity")
        for end in ("begin", "end")
    )


def test_one_command_makes_table_fit_chart_and_page(
    scripts: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripts[0]
    page = "".join(f"<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in ("regret", "claims", "severity"))
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "own.csv").write_text(format_own(rows(), "made up", STATED))
    for name, file in (("PACKAGED", "own.csv"), ("PAGE", "page.md"), ("PICTURE", "r.svg")):
        monkeypatch.setattr(script, name, tmp_path / file)
    monkeypatch.setattr(sys, "argv", ["regret.py"])
    script.main()
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    text = first["page.md"].decode()
    assert "| always FedAvg | 0 | 3.00 (3.00 to 3.00) | 3.00 (3.00 to 3.00) |" in text
    assert "| best constant | 0 | 0.00 (0.00 to 0.00) | 0.00 (0.00 to 0.00) |" in text
    assert parse_own(first["own.csv"].decode(), "x") == parse_own(format_own(rows(), "made up"), "x")
    assert b"second opinion" in first["r.svg"]
    script.main()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first

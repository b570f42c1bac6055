"""The examples of the documentation run as written and say what the documentation says."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
SAYS = {
    "quickstart.py": "recommended: ",
    "own_algorithm.py": "broken laws: none",
    "own_measure.py": "rarest_class: 0.33 share of parties",
    "own_check.py": "All 600 parties take part in every round",
    "own_reader.py": "clinic.pairs: 2 rows, columns age, outcome",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_as_written(name: str) -> None:
    command = [sys.executable, str(DOCS / "examples" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
    assert not done.stderr


def test_no_example_outgrows_what_one_reads_at_once() -> None:
    for path in (DOCS / "examples").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 60, path.name


def test_an_own_algorithm_that_depends_on_the_order_of_parties_breaks_a_law() -> None:
    """The example's law check can fail: a server that takes the first party's weights is found out."""
    from dataclasses import replace

    from fedskew.engine.algorithms.base import Hyper, Next, Update
    from fedskew.engine.conformance import check_algorithm

    ours = runpy.run_path(str(DOCS / "examples" / "own_algorithm.py"))["MEDIAN"]

    def first(update: Update, hyper: Hyper) -> Next:
        return Next(update.trained[..., 0, :])

    found = check_algorithm(replace(ours, aggregate=first), networks=[])
    assert "the order of the update's parties is irrelevant" in [law.law for law in found if law.status == "broken"]

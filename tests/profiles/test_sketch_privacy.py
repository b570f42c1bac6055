"""What is withheld and what is noised."""

import sys
from collections import Counter

import numpy as np
import pytest

from fedskew.profiles import make_plan, profile, sketch
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.partitions import Column, make_partition
from fedskew.profiles.sketching.file import decoded, encoded
from fedskew.profiles.sketching.plan import Plan
from fedskew.profiles.sketching.privacy import _laplace, noised, withheld
from fedskew.profiles.sketching.record import ClassCells, Sketch

PLAN = Plan(class_names=("x", "y", "z"), columns=(), variance=0.0)


def silos():
    rng = np.random.default_rng(0)
    labels = np.array(["x"] * 60 + ["y"] * 37 + ["canary"] * 3)
    columns = (Column("a", "numeric", 0, 1), Column("k", "categorical", 1, 3, ("u", "secret")))
    k = np.zeros((100, 2))
    k[:, 0] = 1
    k[:2] = [0, 1]
    x = np.column_stack([rng.standard_normal(100), k])
    x[60:95, 0] = np.nan
    return sketch(make_partition(x, labels, np.repeat(["p"], 100), columns=columns))


def test_cells_of_few_rows_are_withheld_and_counted():
    (kept,) = [withheld(one, 5) for one in silos()]
    assert [cells.name for cells in kept.classes] == ["x", "y"]
    note = kept.withheld
    assert (note.classes, note.rows, note.cells, note.categories) == (1, 3, 1, 1)
    assert note.columns == ("a", "k")
    assert "a" not in kept.classes[1].numeric
    assert kept.classes[0].categorical == {"k": {"u": 58}}
    assert all(count >= 5 for cells in kept.classes for cell in cells.numeric.values() for count in cell.counts)
    assert sum(kept.classes[0].numeric["a"].counts) == 60
    data = encoded([kept])
    assert decoded(data) == (kept,)
    for secret in (b"canary", b"secret"):
        assert secret not in data


def test_what_was_withheld_is_told_by_the_profile():
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(300) < 0.02, "rare", np.where(rng.random(300) < 0.5, "x", "y"))
    found = profile([withheld(s, 10) for s in sketch(make_partition(rng.random((300, 1)), labels, np.arange(300) % 3))])
    told = {finding.code: finding for finding in found.hygiene}["withheld_cells"]
    assert "fewer than 10 rows" in told.text
    assert found.rows == 300 - np.count_nonzero(labels == "rare")


def test_a_limit_that_withholds_nothing_is_refused():
    for wrong in (1, 0, -3, 10**7):
        with pytest.raises(FedskewError, match="--min-count"):
            withheld(silos()[0], wrong)


def test_epsilon_must_be_positive_and_classes_declared():
    one = Sketch(party="p", classes=(ClassCells(name="other", rows=5),))
    for epsilon in (0, -1, float("nan"), float("inf")):
        with pytest.raises(FedskewError, match="--epsilon"):
            noised(one, epsilon, PLAN)
    with pytest.raises(FedskewError, match="has a class that the plan has not"):
        noised(one, 1.0, PLAN)


def test_without_opendp_the_error_names_the_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(EnvironmentFaultError, match=r"pip install 'fedskew\[dp\]'"):
        noised(Sketch(party="p"), 1.0, PLAN)


def test_noise_has_the_law_of_integer_laplace_and_is_written_down():
    pytest.importorskip("opendp")
    one = Sketch(party="p", classes=(ClassCells(name="x", rows=1000),), unlabelled=3)
    counts = Counter(count - 1000 for count in _laplace([1000] * 20_000, 1.0)[0])
    p = np.exp(-1.0)
    law = {k: (1 - p) / (1 + p) * p ** abs(k) for k in range(-3, 4)}
    chi = sum((counts[k] - 20_000 * q) ** 2 / (20_000 * q) for k, q in law.items())
    assert chi < 30  # seven cells; P(chi-squared with 7 degrees above 30) is 1e-4
    drawn = [noised(one, 1.0, PLAN) for _ in range(20)]
    noise = drawn[0].noise
    assert noise is not None
    assert (round(noise.epsilon, 9), noise.scale, list(noise.budget)) == (1.0, 1.0, ["labels"])
    assert len({s.noise.nonce for s in drawn if s.noise}) == 20
    assert decoded(encoded([drawn[0]])) == (drawn[0],)
    assert all(s.columns == () and s.unlabelled == 0 and not s.minima for s in drawn)


def test_noise_hides_whether_a_row_is_there():
    """The law of the count for 10 rows is never more than e times that for 11, as epsilon = 1 promises."""
    pytest.importorskip("opendp")
    seen = [Counter(_laplace([n] * 20_000, 1.0)[0]) for n in (10, 11)]
    for value in range(8, 14):
        one, other = seen[0][value] + 1, seen[1][value] + 1
        error = 4 * (1 / one + 1 / other) ** 0.5
        assert abs(np.log(one / other)) <= 1 + error


def test_values_and_strings_of_the_data_never_appear_in_a_noised_file():
    pytest.importorskip("opendp")
    rng = np.random.default_rng(2)
    values = rng.random(200) * 1e3
    toy = make_partition(values[:, None], np.where(rng.random(200) < 0.5, "x", "y"), np.arange(200) % 2)
    plan = make_plan(sketch(toy))
    data = encoded([noised(one, 1.0, plan) for one in sketch(toy, plan)])
    assert not any(f"{value:.4f}"[:6].encode() in data for value in values)
    assert b"x0" not in data

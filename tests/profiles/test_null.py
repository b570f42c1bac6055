"""Chance: tables with both margins fixed."""

from itertools import permutations
from typing import Literal

import numpy as np
import pytest
from scipy.stats import fisher_exact, hypergeom, random_table

from fedskew.profiles import null
from fedskew.profiles.keyed import generator
from fedskew.profiles.label import cell_sum
from fedskew.profiles.null import Chance, chance_of, chance_tables, draws_for


def _information(cells: float, rows: np.ndarray, columns: np.ndarray) -> float:
    n = rows.sum()
    return float((cells - null.xlogx(rows).sum() - null.xlogx(columns).sum()) / n + np.log(n))


@pytest.mark.parametrize(
    ("rows", "columns"), [((20, 20), (13, 27)), ((5, 3, 40, 2), (10, 10, 30)), ((30,) * 10, (3,) * 100)]
)
def test_mean_information_equals_the_exact_hypergeometric_sum(rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
    a, b = np.array(rows), np.array(columns)
    table = np.outer(a, b) // a.sum()
    found = _information(chance_of(a, b, cell_sum(table + 1), "test").mean, a, b)
    law = chance_of(a, b, lambda t: np.array([_information(c, a, b) for c in null.xlogx(t).sum(axis=(1, 2))]), "test")
    assert found == pytest.approx(_exact(a, b), abs=5 * law.draws.std() / np.sqrt(len(law.draws)))


def _exact(a: np.ndarray, b: np.ndarray) -> float:
    n, total = int(a.sum()), 0.0
    for i in a:
        for j in b:
            k = np.arange(1, min(i, j) + 1)
            total += float((k / n * np.log(n * k / (i * j)) * hypergeom.pmf(k, n, i, j)).sum())
    return total


def test_p_value_agrees_with_fishers_exact_test() -> None:
    table = np.array([[12, 5], [4, 15]])
    law = chance_of(table.sum(axis=1), table.sum(axis=0), cell_sum(table), "test")
    found = law.p_value(float(null.xlogx(table).sum()))
    # Fisher orders tables by probability, we by information: for this table the two order the tails alike.
    assert found == pytest.approx(fisher_exact(table).pvalue, abs=0.006)


def test_margins_are_kept_in_every_way_of_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = np.array([30, 3, 50]), np.array([40, 1, 22, 20])
    for limits in ({}, {"CELL_NS": 0.0}, {"BLOCK_CELLS": 1}, {"BLOCK_CELLS": 1, "SHUFFLE_NS": 1e9}):
        for name, value in limits.items():
            monkeypatch.setattr(null, name, value)
        tables = np.concatenate(list(chance_tables(rows, columns, 40, "test")))
        assert tables.shape == (40, 3, 4)
        assert (tables.sum(axis=2) == rows).all()
        assert (tables.sum(axis=1) == columns).all()


@pytest.mark.parametrize(("method", "cell_ns"), [("boyett", 1e9), ("patefield", 0.0)])
@pytest.mark.parametrize("alone", [True, False])
def test_tables_are_those_of_scipy_whether_its_compiled_part_is_found_or_not(
    alone: bool, method: Literal["boyett", "patefield"], cell_ns: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, columns = np.array([30, 3, 50]), np.array([40, 1, 22, 20])
    monkeypatch.setattr(null, "CELL_NS", cell_ns)
    assert null._compiled() is not None  # else every profile takes a second more
    if not alone:
        monkeypatch.setattr(null, "_compiled", lambda: None)
    found = np.concatenate(list(chance_tables(rows, columns, 40, "test")))
    rng = generator("chance tables", "test")
    assert (found == random_table(rows, columns).rvs(40, method=method, random_state=rng)).all()
    assert rows.tolist() == [30, 3, 50]


@pytest.mark.parametrize("shuffle_ns", [0.0, 1e9])
def test_dealing_large_tables_has_the_hypergeometric_mean_and_variance(
    shuffle_ns: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(null, "BLOCK_CELLS", 1)
    monkeypatch.setattr(null, "SHUFFLE_NS", shuffle_ns)
    rows, columns = np.array([30, 20, 50]), np.array([40, 60])
    first = np.concatenate(list(chance_tables(rows, columns, 1000, "test")))[:, 0, 0]
    assert first.mean() == pytest.approx(12.0, abs=4 * np.sqrt(5.09 / 1000))
    assert first.var() == pytest.approx(30 * 0.4 * 0.6 * 70 / 99, rel=0.2)


def test_the_law_does_not_depend_on_the_order_of_the_margins() -> None:
    a, b = np.array([5, 9, 2]), np.array([6, 10])
    laws = [chance_of(a[list(order)], b, cell_sum(np.full((3, 2), 9)), "test") for order in permutations(range(3))]
    assert all(np.array_equal(laws[0].draws, law.draws) for law in laws)


def test_same_margins_same_bytes() -> None:
    a, b = np.array([500, 900]), np.array([600, 800])
    first, second = (chance_of(a, b, cell_sum(np.full((2, 2), 900)), "test") for _ in range(2))
    assert first.draws.tobytes() == second.draws.tobytes()


def test_a_statistic_that_cannot_vary_is_never_significant() -> None:
    assert Chance(3.0, np.zeros(0), 0.0).p_value(3.0) == 1.0
    assert Chance(3.0, np.full(9999, 3.0)).p_value(3.0) == 1.0


def test_draws_depend_on_sizes_only_and_stay_within_bounds() -> None:
    assert draws_for(200, 100) == 9999
    assert draws_for(10**9, 10**8) == 999

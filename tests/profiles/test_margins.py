"""The sum of n ln n under fixed margins, without drawing a table."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from fedskew.profiles import margins
from fedskew.profiles.label import cell_sum, label_index
from fedskew.profiles.margins import sum_law
from fedskew.profiles.null import chance_of, xlogx


def _exact_mean(a: np.ndarray, b: np.ndarray) -> float:
    n, total = int(a.sum()), 0.0
    for i in a:
        for j in b:
            k = np.arange(0, min(i, j) + 1)
            total += float((xlogx(k) * hypergeom.pmf(k, n, i, j)).sum())
    return total


@pytest.mark.parametrize("sizes", [[40] * 6, [500, 30, 3, 1], [7, 9, 11, 100, 2000]])
def test_mean_equals_the_hypergeometric_sum(sizes: list[int]) -> None:
    a = np.array(sizes)
    b = np.bincount(np.arange(a.sum()) % 5)
    assert sum_law(a, b)[0] == pytest.approx(_exact_mean(a, b), rel=1e-9)


def test_many_distinct_margins_are_interpolated_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    a = rng.multinomial(200_000, rng.dirichlet(np.full(90, 0.7))) + 1
    b = np.bincount(rng.choice(60, size=a.sum(), p=rng.dirichlet(np.full(60, 0.7))), minlength=60)
    splined = sum_law(a, b[b > 0])
    monkeypatch.setattr(margins, "NODES", 1000)
    exact = sum_law(a, b[b > 0])
    assert splined[0] == pytest.approx(exact[0], abs=0.02 * exact[1])
    assert splined[1] == pytest.approx(exact[1], rel=0.001)


@pytest.mark.parametrize(("parties", "rows", "classes"), [(60, 20, 60), (60, 200, 50), (300, 8, 10)])
def test_law_of_tables_of_many_cells_is_the_one_of_drawn_tables(parties: int, rows: int, classes: int) -> None:
    a = np.full(parties, rows)
    b = np.bincount(np.arange(parties * rows) % classes)
    draws = chance_of(a, b, cell_sum(np.full((2, 2), rows)), "test", draws=1500).draws
    mean, spread = sum_law(a, b)
    assert draws.mean() == pytest.approx(mean, abs=4 * spread / np.sqrt(1500))
    assert draws.std() == pytest.approx(spread, rel=0.10)  # 4 standard errors of a spread from 1,500 draws, and 3 %
    assert np.mean(draws > mean + 2.326 * spread) == pytest.approx(0.01, abs=0.011)


def test_index_is_the_same_on_both_sides_of_the_number_of_cells_that_changes_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    table = np.stack([rng.multinomial(300, p) for p in rng.dirichlet(np.full(40, 30.0), size=40)])
    drawn = label_index(table)
    monkeypatch.setattr("fedskew.profiles.label.MANY_CELLS", 1)
    theory = label_index(table)
    assert drawn.skew is not None
    assert theory.skew == pytest.approx(drawn.skew, abs=2e-4)

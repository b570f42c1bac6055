"""Quantity skew and what label skew alone implies."""

import numpy as np
import pytest

from fedskew.profiles.label import label_skew_of
from fedskew.profiles.quantity import gini, quantity_skew_of
from fedskew.profiles.records import QuantitySkew
from fedskew.profiles.size_model import implied_by_label


@pytest.fixture(autouse=True)
def _fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the tables drawn for chance: ten times faster, p no lower than 0.001."""
    monkeypatch.setattr("fedskew.profiles.null.DRAWS", 999)


def _quantity(table: np.ndarray) -> QuantitySkew:
    names = tuple(str(i) for i in range(len(table)))
    return quantity_skew_of(table, names, label_skew_of(table, names, tuple(map(str, range(table.shape[1])))))


def _label_dirichlet(rng: np.random.Generator, beta: float, classes: int = 10) -> np.ndarray:
    return np.stack([rng.multinomial(2000, rng.dirichlet(np.full(10, beta))) for _ in range(classes)], axis=1)


def test_gini_agrees_with_the_mean_absolute_difference() -> None:
    sizes = np.array([3, 90, 17, 0, 44])
    naive = np.abs(sizes[:, None] - sizes[None, :]).mean() / (2 * sizes.mean())
    assert float(gini(sizes)) == pytest.approx(naive)


def test_multinomial_sizes_are_at_chance_in_the_mean_and_in_p() -> None:
    rng = np.random.default_rng(1)
    found = [_quantity(rng.multinomial(500, np.full(10, 0.1))[:, None]) for _ in range(60)]
    assert np.mean([one.skew for one in found if one.skew is not None]) == pytest.approx(0.0, abs=0.01)
    assert np.mean([one.p_value < 0.2 for one in found if one.p_value is not None]) == pytest.approx(0.2, abs=0.15)
    assert {one.severity for one in found} <= {"none", "mild"}


def test_one_party_holding_all_reads_one() -> None:
    found = _quantity(np.array([[900], [0], [0]]))
    assert found.skew == pytest.approx(1.0)
    assert found.effective_parties == 1.0
    assert found.largest_share == 1.0
    assert found.max_min_ratio is None
    assert found.severity == "strong"


def test_quantity_dirichlet_interval_covers_beta_and_is_wide() -> None:
    rng = np.random.default_rng(2)
    hits, ratios = [], []
    for _ in range(40):
        q = rng.dirichlet(np.full(10, 0.5))
        found = _quantity(np.diff((np.cumsum(q) * 60_000).astype(int), prepend=0)[:, None]).beta
        hits.append((found.lower or 0) <= 0.5 <= (found.upper or np.inf))
        ratios.append((found.estimate or np.inf) / 0.5)
        assert (found.upper or np.inf) > 2 * (found.lower or 0)
    assert np.mean(hits) >= 0.88
    assert np.median(ratios) == pytest.approx(1.1, abs=0.3)


def test_equal_sizes_have_no_upper_bound() -> None:
    found = _quantity(np.array([[1000]] * 10)).beta
    assert (found.estimate, found.upper) == (None, None)


@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_sizes_of_label_dirichlet_are_implied_by_it(beta: float) -> None:
    rng = np.random.default_rng(3)
    found = [_quantity(_label_dirichlet(rng, beta)).implied_by_label for _ in range(15)]
    assert found.count(True) >= 14


def test_quantity_on_top_of_label_dirichlet_is_not_implied() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(12):
        q = rng.dirichlet(np.full(10, 0.5))
        mixes = rng.dirichlet(np.full(10, 0.5), size=10)
        table = np.stack([rng.multinomial(int(20_000 * size), mix) for size, mix in zip(q, mixes, strict=True)])
        found.append(_quantity(table).implied_by_label)
    assert found.count(False) >= 8


def test_sizes_that_all_classes_share_are_a_skew_of_their_own_however_small_beta_reads() -> None:
    rng = np.random.default_rng(9)
    q = rng.dirichlet(np.full(12, 0.5))
    shares = np.array([0.70, 0.74, 0.78, 0.82])[rng.integers(0, 4, 12)]  # label skew is slight
    table = np.round(60_000 * q[:, None] * np.stack([shares, 1 - shares], axis=1)).astype(np.int64)
    assert _quantity(table).implied_by_label is False


def test_equal_sizes_are_implied_by_any_label_skew_and_none_is_said_without() -> None:
    table = np.array([[100, 0], [0, 100]] * 3)
    assert _quantity(table).implied_by_label is True
    assert _quantity(np.full((4, 2), 100)).implied_by_label is None


def test_following_some_parties_of_a_huge_table_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    table = np.stack([rng.multinomial(5000, rng.dirichlet(np.full(200, 0.5))) for _ in range(5)], axis=1)
    names = tuple(map(str, range(200)))
    label = label_skew_of(table, names, tuple("abcde"))
    unequal = table * np.where(np.arange(200) < 5, 40, 1)[:, None]
    assert implied_by_label(table, label)
    assert not implied_by_label(unequal, label)
    monkeypatch.setattr("fedskew.profiles.size_model.CELLS", 1)
    assert implied_by_label(table, label)
    assert not implied_by_label(unequal, label)


def test_one_party_and_single_rows_have_reasons() -> None:
    assert _quantity(np.array([[5, 5]])).reason == "one_party"
    assert _quantity(np.array([[1], [0], [0]])).reason == "too_few_rows"


def test_order_of_parties_does_not_matter() -> None:
    table = np.array([[90, 3], [10, 40], [5, 5]])
    first, second = _quantity(table), _quantity(table[::-1])
    assert first.skew == second.skew
    assert first.interval == second.interval
    assert first.beta == second.beta


def test_sizes_drawn_a_few_at_a_time_are_those_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.array([[30, 20], [5, 5], [20, 20], [10, 10]])
    whole = _quantity(table)
    monkeypatch.setattr("fedskew.profiles.quantity.BLOCK_SIZES", 28)
    assert _quantity(table) == whole

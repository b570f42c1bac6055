"""Divergences between label mixes."""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from fedskew.profiles import divergence
from fedskew.profiles.divergence import beyond_chance, mean_hellinger, mean_jensen_shannon, to_the_others

TABLE = np.array([[10, 0, 5], [3, 8, 1], [0, 0, 7], [6, 6, 6]])


def _mixes() -> np.ndarray:
    return np.asarray(TABLE / TABLE.sum(axis=1, keepdims=True))


def test_mean_jensen_shannon_agrees_with_scipy_over_all_pairs() -> None:
    p = _mixes()
    pairs = [jensenshannon(p[i], p[j], base=2) ** 2 for i in range(4) for j in range(i)]
    assert float(mean_jensen_shannon(TABLE)) == pytest.approx(np.mean(pairs))


def test_mean_hellinger_agrees_with_a_loop_over_all_pairs() -> None:
    p = np.sqrt(_mixes())
    pairs = [((p[i] - p[j]) ** 2).sum() / 2 for i in range(4) for j in range(i)]
    assert float(mean_hellinger(TABLE)) == pytest.approx(np.mean(pairs))


def test_divergence_to_the_others_agrees_with_scipy() -> None:
    expected = [jensenshannon(row, TABLE.sum(axis=0) - row, base=2) ** 2 for row in TABLE]
    assert to_the_others(TABLE) == pytest.approx(expected)


def test_stacked_tables_give_what_single_tables_give() -> None:
    stack = np.stack([TABLE, TABLE[::-1] + 1])
    assert mean_jensen_shannon(stack) == pytest.approx([float(mean_jensen_shannon(table)) for table in stack])
    assert mean_hellinger(stack) == pytest.approx([float(mean_hellinger(table)) for table in stack])


def test_a_sample_of_pairs_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(2).multinomial(200, np.full(5, 0.2), size=120)
    every = float(mean_jensen_shannon(table))
    monkeypatch.setattr(divergence, "PAIR_CELLS", 15_000)
    assert float(mean_jensen_shannon(table)) == pytest.approx(every, rel=0.1)


def test_iid_parties_of_any_size_are_at_chance() -> None:
    rng = np.random.default_rng(4)
    sizes = [20] * 10 + [2000] * 2
    found = [beyond_chance(np.stack([rng.multinomial(n, np.full(10, 0.1)) for n in sizes])) for _ in range(30)]
    assert np.mean([js for js, _, _ in found if js is not None]) == pytest.approx(0.0, abs=0.02)
    assert np.mean([h for _, h, _ in found if h is not None]) == pytest.approx(0.0, abs=0.02)
    assert np.mean([each for _, _, each in found], axis=0) == pytest.approx(np.zeros(12), abs=0.04)

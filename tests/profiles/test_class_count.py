"""Recognition of #C=k."""

import numpy as np
import pytest

from fedskew.profiles.class_count import classes_per_party


def _class_count(rng: np.random.Generator, parties: int, classes: int, k: int, rows: int) -> np.ndarray:
    held = [
        [i % classes, *rng.choice([c for c in range(classes) if c != i % classes], k - 1, replace=False)]
        for i in range(parties)
    ]
    holders = np.maximum(np.bincount(np.ravel(held), minlength=classes), 1)
    table = np.zeros((parties, classes), dtype=np.int64)
    for i, own in enumerate(held):
        table[i, own] = rows // holders[own]
    return table


@pytest.mark.parametrize(
    ("parties", "classes", "k"), [(10, 10, 1), (10, 10, 3), (100, 10, 2), (10, 26, 3), (2, 2, 1), (10, 2, 1)]
)
def test_class_counts_are_recognised_also_with_stray_rows(parties: int, classes: int, k: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        table = _class_count(rng, parties, classes, k, 6000)
        assert classes_per_party(table).k == k
        stray = rng.multinomial(int(0.01 * table.sum()), np.full(table.size, 1 / table.size)).reshape(table.shape)
        assert classes_per_party(table + stray).k == k


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("classes", [2, 10, 26])
def test_label_dirichlet_is_not_taken_for_a_class_count(beta: float, classes: int) -> None:
    rng = np.random.default_rng(2)
    tables = [
        np.stack([rng.multinomial(6000, rng.dirichlet(np.full(10, beta))) for _ in range(classes)], axis=1)
        for _ in range(60)
    ]
    assert sum(classes_per_party(table).k is not None for table in tables) == 0


def test_equal_mixes_and_tiny_parties_are_no_pattern() -> None:
    assert classes_per_party(np.full((5, 4), 100)).k is None
    assert classes_per_party(np.eye(5, dtype=np.int64)).k is None
    assert classes_per_party(np.array([[5, 5]])).k is None


def test_a_rare_class_in_a_party_of_a_common_one_is_held_and_no_stray() -> None:
    table = np.array([[50_000, 300, 0, 0], [50_000, 0, 4000, 0], [0, 300, 0, 4000], [0, 0, 4000, 4000]])
    assert classes_per_party(table).k == 2

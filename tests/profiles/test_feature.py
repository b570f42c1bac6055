from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedskew.profiles.feature import feature_skew, unidentified
from fedskew.profiles.partitions import Partition, make_partition


def measured(partition: Partition) -> Any:
    return feature_skew(partition)


def classed(seed: int, labels: np.ndarray, party: np.ndarray, shift: float = 0.0) -> Partition:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((len(labels), 6)) + 2 * labels[:, None] + shift * party[:, None]
    return make_partition(x, labels, party)


def test_label_and_quantity_skew_alone_leave_the_index_at_zero() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 8000)
    by_label = np.where(rng.random(8000) < 0.9, labels, rng.integers(0, 4, 8000))
    by_size = rng.choice(4, 8000, p=[0.9, 0.06, 0.03, 0.01])
    for party in (by_label, by_size):
        found = measured(classed(1, labels, party))
        assert abs(found.skew) < 0.002
        assert found.p_value > 0.001


def test_false_alarms_come_at_the_rate_of_the_test() -> None:
    rng, alarms = np.random.default_rng(4), 0
    for seed in range(200):
        labels = rng.integers(0, 3, 300)
        alarms += measured(classed(seed, labels, rng.choice(4, 300, p=[0.7, 0.1, 0.1, 0.1]))).p_value < 0.05
    assert 2 <= alarms <= 20  # binomial(200, 0.05), outside with probability 0.002


def test_index_rises_with_the_shift_and_names_the_party() -> None:
    rng = np.random.default_rng(1)
    labels, party = rng.integers(0, 2, 2000), rng.integers(0, 4, 2000)
    skews = []
    for shift in (0.0, 0.2, 0.5, 2.0):
        x = rng.standard_normal((2000, 3)) + labels[:, None] + shift * (party == 2)[:, None]
        found = measured(make_partition(x, labels, party))
        skews.append(found.skew)
    assert skews == sorted(skews)
    assert found.severity == "strong"
    assert max(found.by_party, key=found.by_party.get) == "2"
    assert found.interval[0] < found.skew < found.interval[1]


def test_index_is_the_row_weighted_mean_of_the_parties() -> None:
    rng = np.random.default_rng(2)
    party = rng.integers(0, 5, 3000)
    found = measured(classed(3, rng.integers(0, 3, 3000), party, shift=0.3))
    assert np.dot(np.bincount(party), list(found.by_party.values())) / 3000 == pytest.approx(found.skew, rel=1e-6)


def test_order_of_rows_and_names_of_parties_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    x, labels, party = rng.standard_normal((400, 3)), rng.integers(0, 2, 400), rng.integers(0, 3, 400)
    order = rng.permutation(400)
    one = measured(make_partition(x, labels, party))
    other = measured(make_partition(x[order], labels[order], np.array(["c", "a", "b"])[party[order]]))
    assert one.skew == pytest.approx(other.skew, abs=1e-6)
    assert one.p_value == pytest.approx(other.p_value, abs=1e-5)


def test_sparse_and_dense_tables_give_the_same_index_where_columns_are_binary() -> None:
    rng = np.random.default_rng(6)
    party, labels = rng.integers(0, 3, 500), rng.integers(0, 2, 500)
    x = (rng.random((500, 12)) < 0.2 + 0.1 * party[:, None]).astype(np.float32)
    dense, sparse = (measured(make_partition(form, labels, party)) for form in (x, csr_array(x)))
    assert dense.skew == pytest.approx(sparse.skew, abs=1e-5)
    assert dense.by_feature[0].wasserstein == pytest.approx(sparse.by_feature[0].wasserstein, abs=1e-5)


def test_noise_on_images_is_found_and_label_skew_is_not() -> None:
    from sklearn.datasets import load_digits

    x, labels = load_digits(return_X_y=True)
    images = np.repeat(x.reshape(-1, 8, 8) / 16, 2, axis=0).astype(np.float32)
    labels = np.repeat(labels, 2)
    rng = np.random.default_rng(7)
    images += 0.02 * rng.standard_normal(images.shape).astype(np.float32)  # so that no image stands twice
    party = rng.integers(0, 5, len(labels))
    noise = rng.standard_normal(images.shape) * (0.3 * party / 4)[:, None, None]
    found = measured(make_partition(images + noise, labels, party))
    assert found.p_value < 1e-6
    assert found.by_feature == ()
    by_label = np.where(rng.random(len(labels)) < 0.7, labels % 5, party)
    assert abs(measured(make_partition(images, labels, by_label)).skew) < 0.004


def test_reasons_are_given_where_classes_are_not_shared_or_rows_too_few() -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((40, 2))
    assert measured(make_partition(x, np.arange(40) % 2, np.arange(40) % 2)).reason == "no_shared_class"
    assert measured(make_partition(x, np.arange(40) % 20, np.arange(40))).reason == "too_few_rows"
    assert measured(make_partition(x, np.zeros(40), np.zeros(40))).reason == "no_shared_class"


def test_two_parties_sharing_one_class_in_ten_rows_each_are_always_compared() -> None:
    labels = np.concatenate([np.zeros(20, int), np.arange(1, 400)])
    party = np.concatenate([np.arange(20) % 2, np.arange(2, 401)])
    x = np.random.default_rng(9).standard_normal((len(labels), 2))
    found = measured(make_partition(x, labels, party))
    assert found.reason is None
    assert found.skew is not None


@pytest.mark.parametrize("kind", ["constant", "missing", "one column", "one row each"])
def test_corners_are_defined(kind: str) -> None:
    x = np.random.default_rng(10).standard_normal((60, 3))
    if kind == "constant":
        x[:] = 3.0
    if kind == "missing":
        x[:, 1] = np.nan
    if kind == "one column":
        x = x[:, :1]
    party = np.arange(60) if kind == "one row each" else np.arange(60) % 3
    found = measured(make_partition(x, np.arange(60) // 3 % 2, party))
    assert (found.skew is None) == (found.reason is not None)
    assert found.skew is None or np.isfinite(found.skew)


def test_unidentified_agrees_with_the_rows_of_shared_classes() -> None:
    x = np.zeros((4, 1))
    assert unidentified(make_partition(x, [0, 0, 0, 0], [0, 0, 1, 1])) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist.npz", "fashion_mnist.npz"])
def test_gaussian_noise_on_real_images_is_found_at_all_three_definitions(name: str, data_file) -> None:
    with np.load(data_file(name)) as held:
        images, labels = held["X_train"][:20_000] / np.float32(255), held["y_train"][:20_000].astype(int)
    rng = np.random.default_rng(11)
    party, step = rng.integers(0, 10, 20_000), np.arange(10)
    assert abs(measured(make_partition(images, labels, party)).skew) < 0.002
    for spread in (np.sqrt(0.01 * (step + 1) / 10), np.sqrt(0.1 * (step + 1) / 10), 0.1 * step / 9):
        noise = rng.standard_normal(images.shape, dtype=np.float32) * spread.astype(np.float32)[party][:, None, None]
        found = measured(make_partition(images + noise, labels, party))
        assert found.p_value < 0.001
        assert found.severity != "none"

import numpy as np
from scipy.sparse import csr_array

from fedskew.profiles.rowhash import row_hashes, sampled


def test_equal_rows_and_only_those_hash_alike() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (5000, 6)).astype(np.float32)
    found = np.unique(row_hashes(x), return_inverse=True)[1]
    exact = np.unique(x, axis=0, return_inverse=True)[1]
    assert len(np.unique(found)) == len(np.unique(exact))
    assert len(np.unique(found * 10_000 + exact.ravel())) == len(np.unique(exact))


def test_sparse_rows_hash_as_dense_ones() -> None:
    x = np.random.default_rng(1).integers(0, 2, (50, 9)).astype(np.float32)
    assert np.array_equal(row_hashes(x), row_hashes(csr_array(x)))


def test_bytes_hash_as_floats_and_signed_zeros_and_missing_values_alike() -> None:
    x = np.random.default_rng(2).integers(0, 255, (20, 1, 3, 3)).astype(np.uint8)
    assert np.array_equal(row_hashes(x), row_hashes(x.astype(np.float32)))
    other = np.array([[0x7FC00001]], np.uint32).view(np.float32)
    assert row_hashes(np.array([[0.0]], np.float32)) == row_hashes(np.array([[-0.0]], np.float32))
    assert row_hashes(np.array([[np.nan]], np.float32)) == row_hashes(other)


def test_label_enters_the_hash() -> None:
    x = np.ones((2, 2), np.float32)
    first, second = row_hashes(x, np.array([0, 1]))
    assert first != second


def test_sample_is_even_and_of_about_the_asked_size() -> None:
    x = np.random.default_rng(3).standard_normal((20_000, 2)).astype(np.float32)
    kept = sampled(row_hashes(x), 5000)
    assert 4800 < kept.sum() < 5200
    assert abs(x[kept].mean()) < 0.04

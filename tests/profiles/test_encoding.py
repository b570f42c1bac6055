"""Scaling of columns whose values are large beside their spread."""

import numpy as np

from fedskew.profiles import make_partition, profile
from fedskew.profiles.encoding import encode, scaling


def test_times_that_lie_close_together_are_scaled_too() -> None:
    rng = np.random.default_rng(0)
    hour = 1_700_000_000_000 + rng.uniform(0, 3_600_000, 2000)  # milliseconds since 1970
    part = make_partition(np.column_stack([hour, np.full(2000, 1e12)]), rng.integers(0, 2, 2000), np.arange(2000) % 2)
    scaled = encode(part.features, scaling(part)).astype(np.float64)
    np.testing.assert_allclose(scaled[:, 0].std(), 1, rtol=1e-3)
    assert abs(scaled[:, 0].mean()) < 0.1
    assert not scaled[:, 1].any()


def test_a_feature_index_does_not_hang_on_an_offset() -> None:
    rng = np.random.default_rng(1)
    party = np.arange(3000) % 3
    x = np.round(rng.uniform(0, 600, 3000) + 200 * party) * 128  # a multiple of what float32 holds at 1.7e9
    y = rng.integers(0, 2, 3000)
    near, far = (profile(make_partition((x + offset)[:, None], y, party)).feature for offset in (0, 2**34))
    assert far.skew is not None
    assert near.skew is not None
    np.testing.assert_allclose(far.skew, near.skew, rtol=1e-2)
    assert far.by_feature[0].mean_share is not None

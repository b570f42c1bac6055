"""A look-alike has the parties, sizes, label mix and feature index of the profile, and only rows of the proxy."""

import numpy as np
import pytest

from fedskew.profiles import FedskewError, Holdout, make_partition, profile, simulate
from fedskew.profiles.lookalike import look_alike


def table(rows, classes, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    x = rng.normal(size=(rows, 5)) + labels[:, None] + shift
    return make_partition(x, labels, ["all"] * rows)


def test_sizes_and_label_mix_are_those_of_the_profile():
    silos = simulate(table(1200, 4, 0), "label_dirichlet", alpha=0.3, num_partitions=6)
    alike = look_alike(profile(silos), table(8000, 6, 1))
    mine = np.sort(silos.counts, axis=1)
    assert alike.party_names == silos.party_names
    assert np.array_equal(np.sort(alike.counts, axis=1), mine)
    assert profile(alike).label.skew == pytest.approx(profile(silos).label.skew, abs=0.01)


def test_a_small_proxy_scales_all_silos_alike():
    silos = simulate(table(4000, 4, 0), "quantity_dirichlet", quantity_beta=0.5, num_partitions=5)
    alike = look_alike(profile(silos), table(800, 4, 1))
    assert alike.rows <= 800
    share = alike.sizes / alike.sizes.sum()
    assert np.allclose(share, silos.sizes / silos.sizes.sum(), atol=0.01)
    assert any(f.code == "look_alike" and "scaled" in f.text for f in alike.findings)


def test_test_rows_of_the_proxy_are_kept_in_the_new_codes():
    silos = simulate(table(600, 2, 0), "iid", num_partitions=3)
    proxy = table(900, 4, 1).select(np.arange(900) % 900 >= 1)  # class 0 is one row short, so it plays no part
    held = table(80, 4, 2)
    proxy = proxy.with_test(Holdout(held.features, held.labels))
    alike = look_alike(profile(silos), proxy)
    assert alike.test is not None
    played = [proxy.class_names.index(name) for name in alike.class_names]
    rows = [held.features[held.labels == code] for code in played]
    for new, wanted in enumerate(rows):
        np.testing.assert_array_equal(alike.test.features[alike.test.labels == new], wanted)
    assert len(alike.test.labels) == sum(map(len, rows))


def test_test_rows_of_other_classes_alone_are_none():
    silos = simulate(table(600, 2, 0), "iid", num_partitions=3)
    proxy = table(900, 4, 1)
    chosen = look_alike(profile(silos), proxy).class_names
    other = next(code for code, name in enumerate(proxy.class_names) if name not in chosen)
    proxy = proxy.with_test(Holdout(np.zeros((4, 5), np.float32), np.full(4, other)))
    assert look_alike(profile(silos), proxy).test is None


def test_feature_skew_comes_back_near_the_profiles_index():
    silos = simulate(table(3000, 3, 0), "iid+feature_noise", noise=1.0, num_partitions=5)
    wanted = profile(silos).feature
    alike = profile(look_alike(profile(silos), table(3000, 3, 1)))
    assert wanted.severity != "none"
    assert alike.feature.severity != "none"
    assert alike.feature.skew == pytest.approx(wanted.skew, rel=0.6)


def test_every_row_is_used_at_most_once():
    silos = simulate(table(600, 3, 2), "iid", num_partitions=4)
    assert profile(silos).feature.severity == "none"
    proxy = table(900, 3, 1)
    rows = [row.tobytes() for row in look_alike(profile(silos), proxy).features]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= {row.tobytes() for row in proxy.features}


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "a", "b")])
def test_a_class_without_rows_needs_no_class_of_the_proxy(names):
    labels = [names.index(name) for name in "aabbbb"]
    silos = make_partition(np.zeros((6, 1)), labels, list("xxxyyy"), class_names=names)
    assert look_alike(profile(silos), table(40, 2, 0)).counts.tolist() == [[1, 2], [3, 0]]


def test_a_proxy_with_too_few_classes_is_refused():
    silos = simulate(table(600, 3, 0), "iid", num_partitions=4)
    with pytest.raises(FedskewError, match="as many classes"):
        look_alike(profile(silos), table(600, 2, 1))

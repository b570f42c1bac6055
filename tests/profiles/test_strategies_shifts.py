"""Feature skew, covariate shift, concept shift and natural parties."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Column, Holdout, Partition, make_partition
from fedskew.profiles.simulate import simulate
from fedskew.profiles.strategies import fcube, noise_scales


def table(rows: int = 4_000, **more: Any) -> Partition:
    """One numeric column of spread 5, one 0/1 column, one categorical, one constant, one with a hole."""
    rng = np.random.default_rng(1)
    features = np.stack(
        [
            rng.normal(10, 5, rows),
            rng.integers(0, 2, rows),
            np.arange(rows) % 2,
            1 - np.arange(rows) % 2,
            np.full(rows, 3.0),
            np.where(np.arange(rows) % 4 == 0, np.nan, rng.normal(0, 2, rows)),
        ],
        axis=1,
    )
    columns = (
        Column("x", "numeric", 0, 1),
        Column("binary", "numeric", 1, 2),
        Column("colour", "categorical", 2, 4, ("red", "blue")),
        Column("constant", "numeric", 4, 5),
        Column("holes", "numeric", 5, 6),
    )
    labels = rng.integers(0, 3, rows)
    return make_partition(features, labels, np.zeros(rows, int), party_names=("all",), columns=columns, **more)


def added(noisy: Partition, clean: Partition) -> NDArray[np.float64]:
    assert np.array_equal(noisy.labels, clean.labels)
    return np.asarray(noisy.features, np.float64) - np.asarray(clean.features, np.float64)


@pytest.mark.parametrize(
    ("law", "schedule", "expected"),
    [
        ("variance", "auto", lambda i, n, s: np.sqrt(s**2 * (i + 1) / n)),
        ("paper", "auto", lambda i, n, s: np.sqrt(s * (i + 1) / n)),
        ("std", "auto", lambda i, n, s: s * (i + 1) / n),
        ("code", "auto", lambda i, n, s: s * i / (n - 1)),
        ("variance", "i/N", lambda i, n, s: np.sqrt(s**2 * i / n)),
        ("code", "(i+1)/N", lambda i, n, s: s * (i + 1) / n),
    ],
)
def test_noise_has_the_spread_its_law_says_in_units_of_the_column(law: str, schedule: str, expected: Any) -> None:
    source = table(20_000)
    clean = simulate(source, "iid", num_partitions=5)
    noisy = simulate(source, "feature_noise", num_partitions=5, noise=0.3, noise_law=law, noise_schedule=schedule)
    difference = added(noisy, clean)
    spread = np.nanstd(source.features[:, [0, 1, 5]], axis=0)
    spread[1] = 1.0  # a column of 0 and 1 is not standardised, so its unit is 1
    for party in range(5):
        rows = noisy.rows_of(party)
        std = float(expected(party, 5, 0.3))
        seen = np.nanstd(difference[rows][:, [0, 1, 5]], axis=0)
        np.testing.assert_allclose(seen, std * spread, rtol=0.05, atol=1e-6)  # 4,000 rows: 1.1 % standard error
        if std:
            first = difference[rows, 0] / (std * spread[0])
            assert stats.kstest(first, "norm").pvalue > 1e-3


def test_categorical_and_constant_columns_and_holes_stay_as_they_are() -> None:
    source = table()
    clean, noisy = (simulate(source, name, num_partitions=4) for name in ("iid", "feature_noise"))
    difference = added(noisy, clean)
    assert (difference[:, 2:5] == 0).all()
    np.testing.assert_array_equal(np.isnan(noisy.features), np.isnan(clean.features))


def images(rows: int, side: int = 28) -> Partition:
    pixels = np.random.default_rng(0).integers(0, 256, (rows, side, side)).astype(np.uint8)
    test = Holdout(pixels[:50, None], np.arange(50) % 2)
    return make_partition(pixels, np.arange(rows) % 2, np.zeros(rows, int), party_names=("all",), test=test)


def test_pixels_become_numbers_from_0_to_1_before_noise() -> None:
    source = images(400)
    clean, noisy = (simulate(source, name, num_partitions=2) for name in ("iid", "feature_noise"))
    difference = noisy.features - clean.features.astype(np.float64) / 255
    for party, std in enumerate((0.1 * np.sqrt(0.5), 0.1)):
        assert difference[noisy.rows_of(party)].std() == pytest.approx(std, rel=0.01)
    assert noisy.features.dtype == np.float32


@pytest.mark.parametrize("parties", [2, 5, 10, 26])
def test_noise_by_space_lies_on_one_cell_a_party_and_the_last_party_is_clean(parties: int) -> None:
    source = images(parties * 40)
    clean = simulate(source, "iid", num_partitions=parties)
    noisy = simulate(source, "feature_noise", num_partitions=parties, noise=0.1, noise_type="space")
    difference = noisy.features - clean.features.astype(np.float64) / 255
    touched = np.stack([np.abs(difference[noisy.rows_of(p)]).max(axis=(0, 1)) > 1e-6 for p in range(parties)])
    assert not touched[-1].any()
    assert touched[:-1].sum(axis=0).max() == 1  # cells do not overlap
    side = int(np.ceil(np.sqrt(parties - 1)))
    assert all(abs(cell.sum() - (28 / side) ** 2) <= 2 * 28 / side + 1 for cell in touched[:-1])
    assert difference[noisy.rows_of(0)][..., touched[0]].std() == pytest.approx(0.1, rel=0.05)
    with pytest.raises(FedskewError, match="no images"):
        simulate(table(), "feature_noise", noise_type="space")


def test_the_test_table_is_clean_or_has_its_partys_noise_or_comes_in_a_copy_for_each_party() -> None:
    source = images(100)
    assert source.test is not None
    pixels = source.test.features / np.float32(255)
    found = {how: simulate(source, "gau", num_partitions=5, noise_test=how).test for how in ("clean", "own", "all")}
    clean, own, every = found["clean"], found["own"], found["all"]
    assert clean is not None and own is not None and every is not None  # noqa: PT018  (narrows three at once)
    np.testing.assert_array_equal(clean.features, pixels)
    assert own.party is not None and every.party is not None  # noqa: PT018
    assert np.bincount(own.party).tolist() == [10] * 5
    assert every.features.shape == (250, 1, 28, 28)
    assert every.party.tolist() == np.repeat(np.arange(5), 50).tolist()
    assert every.labels.tolist() == np.tile(source.test.labels, 5).tolist()
    scales = 0.1 * np.sqrt(np.arange(1, 6) / 5)
    for party, std in enumerate(scales):
        assert (every.features[every.party == party] - pixels).std() == pytest.approx(std, rel=0.02)
        assert (own.features - pixels)[own.party == party].std() == pytest.approx(std, rel=0.05)


def test_the_last_party_of_one_has_no_division_by_zero() -> None:
    law = {"noise": 0.1, "noise_law": "code", "noise_schedule": "auto", "noise_type": "level"}
    assert noise_scales(1, law).tolist() == [0.0]


def test_sparse_features_are_not_made_dense_behind_the_users_back() -> None:
    from scipy.sparse import csr_array

    source = make_partition(
        csr_array(np.eye(8, dtype=np.float32)), np.arange(8) % 2, np.zeros(8, int), party_names=("all",)
    )
    with pytest.raises(FedskewError, match="sparse"):
        simulate(source, "feature_noise", num_partitions=2)
    assert simulate(source, "label_count", k=1, num_partitions=2).counts.tolist() in (
        [[4, 0], [0, 4]],
        [[0, 4], [4, 0]],
    )


def test_fcube_is_exactly_balanced_and_each_party_holds_two_opposite_octants() -> None:
    cube = fcube(4_000, 1_000)
    assert cube.counts.tolist() == [[500, 500]] * 4
    signs = np.sign(cube.features)
    for party in range(4):
        octants = {tuple(row) for row in signs[cube.rows_of(party)].tolist()}
        assert len(octants) == 2
        one, other = octants
        assert tuple(-x for x in one) == other
    np.testing.assert_array_equal(cube.labels == 0, cube.features[:, 0] > 0)
    assert cube.test is not None
    assert stats.kstest(cube.test.features.ravel(), "uniform", args=(-1, 2)).pvalue > 1e-3
    np.testing.assert_array_equal(cube.test.labels == 0, cube.test.features[:, 0] > 0)
    # The strategy finds the parties of the generator again, and `homo` spreads them.
    again = simulate(cube, "fcube")
    assert again.features.tobytes() == cube.features.tobytes()
    assert again.test is not None
    assert again.test.party is not None


@pytest.mark.parametrize("rows", [8, 9, 4_001, 1_003])
def test_fcube_of_any_size_is_even_within_one(rows: int) -> None:
    counts = fcube(rows, 0).counts
    assert np.ptp(counts.sum(axis=1)) <= 1
    assert np.ptp(counts, axis=1).max() <= 1
    assert fcube(rows, 0).features.tobytes() == fcube(rows, 5).features.tobytes()


@pytest.mark.parametrize(("arguments", "message"), [((7, 10), "rows from 8"), ((8, -1), "test_rows from 0")])
def test_fcube_of_impossible_size_is_refused(arguments: tuple[int, int], message: str) -> None:
    with pytest.raises(FedskewError, match=message):
        fcube(*arguments)
    with pytest.raises(FedskewError, match="exactly 3 numeric features"):
        simulate(table(), "fcube")


def test_quantiles_of_a_feature_are_ordered_equal_blocks() -> None:
    found = simulate(table(1_001), "covariate_quantile", num_partitions=4, feature="x")
    assert np.ptp(found.sizes) <= 1
    values = [found.features[found.rows_of(p), 0] for p in range(4)]
    assert all(a.max() <= b.min() for a, b in pairwise(values))


def test_quantiles_within_a_class_leave_the_label_mix_equal() -> None:
    found = simulate(table(1_001), "covariate_quantile", num_partitions=4, within_class=True)
    assert np.ptp(found.counts, axis=0).max() <= 1
    for k in range(3):
        values = [found.features[found.rows_of(p), 0][found.labels[found.rows_of(p)] == k] for p in range(4)]
        assert all(a.max() <= b.min() for a, b in pairwise(values))


def test_overlap_goes_from_a_sharp_cut_to_none() -> None:
    def gap(overlap: float) -> float:
        found = simulate(table(), "covariate_quantile", num_partitions=2, overlap=overlap)
        return float(found.features[found.rows_of(1), 0].mean() - found.features[found.rows_of(0), 0].mean())

    full = gap(0.0)
    assert gap(0.5) == pytest.approx(full / 2, abs=0.1 * full)
    assert abs(gap(1.0)) < 0.1 * full


def test_any_column_and_the_brightness_of_images_can_be_split_by() -> None:
    for feature in ("colour", "constant", "holes"):
        assert np.ptp(simulate(table(1_000), "covariate_quantile", num_partitions=3, feature=feature).sizes) <= 1
    bright = simulate(images(100), "covariate_quantile", num_partitions=2)
    level = bright.features.mean(axis=(1, 2, 3))
    assert level[bright.rows_of(0)].max() <= level[bright.rows_of(1)].min()
    with pytest.raises(FedskewError, match="did you mean 'colour'"):
        simulate(table(100), "covariate_quantile", feature="color")
    with pytest.raises(FedskewError, match="brightness"):
        simulate(images(100), "covariate_quantile", feature="x")


def test_label_noise_flips_the_share_it_says_to_every_other_class_alike() -> None:
    source = table(40_000)
    clean, noisy = (simulate(source, name, num_partitions=4, seed=3) for name in ("iid", "label_noise"))
    assert noisy.features.tobytes() == clean.features.tobytes()
    for party, chance in enumerate((0.1, 0.2, 0.3, 0.4)):
        rows = noisy.rows_of(party)
        step = (noisy.labels[rows] - clean.labels[rows]) % 3
        seen = np.bincount(step, minlength=3)
        assert stats.chisquare(seen, 10_000 * np.array([1 - chance, chance / 2, chance / 2])).pvalue > 1e-3
    assert noisy.counts.sum() == 40_000
    assert not np.array_equal(noisy.counts, clean.counts)  # counted anew


def test_permuted_labels_change_every_chosen_class_in_the_asked_share_of_parties() -> None:
    source = table(4_000)
    clean = simulate(source, "iid", num_partitions=8, seed=5)
    shifted = simulate(source, "label_permutation", num_partitions=8, seed=5, shifted_parties=0.5)
    maps = []
    for party in range(8):
        rows = clean.rows_of(party)
        pairs = {(int(a), int(b)) for a, b in zip(clean.labels[rows], shifted.labels[rows], strict=True)}
        assert len(pairs) == 3  # a map of classes
        maps.append(sorted(pairs))
    identity = [(0, 0), (1, 1), (2, 2)]
    assert sum(mapping == identity for mapping in maps) == 4
    assert all(a != b for mapping in maps if mapping != identity for a, b in mapping)
    two = simulate(source, "label_permutation", num_partitions=8, seed=5, permuted_classes=2)
    assert 0.2 < (two.labels != clean.labels).mean() < 0.5  # two of three classes in half of the parties


@pytest.mark.parametrize("name", ["label_noise", "label_permutation"])
def test_concept_shift_needs_classes(name: str) -> None:
    regression = make_partition(np.eye(4), [0, 1, 0, 1], [0] * 4, target=np.arange(4.0))
    with pytest.raises(FedskewError, match="continuous target"):
        simulate(regression, name, num_partitions=2)
    with pytest.raises(FedskewError, match="two classes or more"):
        simulate((np.eye(4), [0] * 4), name, num_partitions=2)
    with pytest.raises(FedskewError, match="permuted_classes is 5; the table has 2 classes"):
        simulate((np.eye(4), [0, 1, 0, 1]), "label_permutation", num_partitions=2, permuted_classes=5)


def writers(rows: int, ids: int) -> Partition:
    names = np.array([f"writer {i}" for i in range(ids)])
    return make_partition(np.arange(rows)[:, None], np.arange(rows) % 2, names[np.arange(rows) % ids])


def test_natural_parties_are_kept_or_grouped_whole() -> None:
    source = writers(700, 7)
    kept = simulate(source, "natural")
    assert kept.party_names == source.party_names
    assert kept.features.tobytes() == source.features.tobytes()
    grouped = simulate(source, "natural", num_partitions=3)
    assert grouped.party_names == ("0", "1", "2")
    assert sorted(grouped.sizes.tolist()) == [200, 200, 300]
    of = {int(x): int(p) for x, p in zip(grouped.features[:, 0], grouped.party, strict=True)}
    assert all(len({of[i] for i in range(first, 700, 7)}) == 1 for first in range(7))
    assert simulate(source, "natural", group_size=3).party_names == ("0", "1", "2")
    assert simulate(source, "natural+label_noise").party_names == source.party_names


@pytest.mark.parametrize(("parameters", "message"), [
    ({"num_partitions": 8}, "allowed are 1 to 7"),
    ({"num_partitions": 2, "group_size": 2}, "not both"),
])  # fmt: skip
def test_impossible_groups_are_refused(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(FedskewError, match=message):
        simulate(writers(70, 7), "natural", **parameters)
    with pytest.raises(FedskewError, match="names its parties"):
        simulate((np.eye(4), [0, 1, 0, 1]), "natural")

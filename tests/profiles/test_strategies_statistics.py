"""The law each strategy claims, against scipy's distributions and loops written down independently here."""

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.simulate import party_rows, simulate
from fedskew.profiles.strategies.holders import deal_classes
from fedskew.profiles.strategies.sharing import log_dirichlet, shares_of, top_up

if TYPE_CHECKING:
    from collections.abc import Callable

DRAWS = 2_000
LEAST_P = 1e-3  # seeds are fixed: a correct law passes with these seeds or a bug was found


def counts_of(labels: NDArray[np.int64], name: str, seed: int, **parameters: object) -> NDArray[np.int64]:
    found = party_rows(labels, name, seed=seed, **parameters)
    return np.array([np.bincount(labels[rows], minlength=labels.max() + 1) for rows in found.values()])


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 0.5, 1.0, 50.0])
def test_shares_have_beta_marginals_at_any_alpha(alpha: float) -> None:
    parties = 6
    shares = shares_of(log_dirichlet(np.random.default_rng(3), alpha, (DRAWS, parties)))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    for party in (0, parties - 1):
        seen = shares[:, party]
        law = stats.beta(alpha, (parties - 1) * alpha)
        if alpha >= 0.1:  # below, nearly all mass lies under the smallest number of float64
            assert stats.kstest(seen, law.cdf).pvalue > LEAST_P
        for at in (1e-6, 0.5, 1 - 1e-6):
            assert abs((seen <= at).mean() - law.cdf(at)) < 4.5 * np.sqrt(0.25 / DRAWS)


def test_shares_never_divide_by_zero() -> None:
    shares = shares_of(log_dirichlet(np.random.default_rng(0), 1e-6, (50, 1_000)))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    some = np.arange(1_000) % 2 == 0
    narrowed = shares_of(log_dirichlet(np.random.default_rng(0), 1e-9, (50, 1_000)), some)
    np.testing.assert_allclose(narrowed[:, some].sum(axis=1), 1.0)
    assert (narrowed[:, ~some] == 0).all()


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_label_dirichlet_shares_of_a_class_follow_the_beta_law(alpha: float) -> None:
    labels = np.repeat([0, 1], [4_000, 1_000])
    jitter = np.random.default_rng(0).random(DRAWS)  # a count c stands for a share anywhere in [c, c + 1) / n
    first = [
        counts_of(labels, "label_dirichlet", seed, num_partitions=4, alpha=alpha, min_partition_size=0)[0, 0]
        for seed in range(DRAWS)
    ]
    assert stats.kstest((np.array(first) + jitter) / 4_001, stats.beta(alpha, 3 * alpha).cdf).pvalue > LEAST_P


def test_quantity_sizes_follow_a_beta_law_shifted_by_the_floor() -> None:
    n, parties, floor, beta = 5_000, 5, 10, 0.5
    labels = np.zeros(n)
    sizes = np.array(
        [
            len(party_rows(labels, "quantity_dirichlet", seed=seed, num_partitions=parties, quantity_beta=beta,
                           min_partition_size=floor)["0"])
            for seed in range(DRAWS)
        ]
    )  # fmt: skip
    assert sizes.min() >= floor
    shares = (sizes - floor + np.random.default_rng(0).random(DRAWS)) / (n - parties * floor + 1)
    assert stats.kstest(shares, stats.beta(beta, (parties - 1) * beta).cdf).pvalue > LEAST_P


def test_hsu_counts_of_the_first_party_are_beta_binomial() -> None:
    # 20 rows from 4 classes of 20 rows: no class can be used up by the first party.
    labels = np.repeat(np.arange(4), 20)
    seen = [counts_of(labels, "dirichlet", seed, num_partitions=4, alpha=0.5)[0, 2] for seed in range(DRAWS)]
    expected = DRAWS * stats.betabinom(20, 0.5, 1.5).pmf(np.arange(21))
    assert stats.chisquare(np.bincount(seen, minlength=21), expected).pvalue > LEAST_P


def test_hsu_blocks_equal_drawing_row_by_row_without_replacement() -> None:
    """The source's loop: sample by sample, used-up classes set to 0, renormalised; last party, all four cells."""
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(4), [4, 8, 12, 16])
    naive = []
    for _ in range(DRAWS // 2):
        left = np.array([4, 8, 12, 16])
        mixes = rng.dirichlet(np.full(4, 0.6), size=4)
        for mix in mixes:
            counts = np.zeros(4, dtype=int)
            for _ in range(10):
                chances = np.where(left > 0, mix, 0.0)
                k = rng.choice(4, p=chances / chances.sum())
                counts[k] += 1
                left[k] -= 1
        naive.append(counts)
    ours = [counts_of(labels, "hsu", seed, num_partitions=4, alpha=0.6)[3] for seed in range(DRAWS // 2)]
    for k in range(4):
        table = np.array([np.bincount(np.array(d)[:, k], minlength=11) for d in (naive, ours)])
        table = table[:, table.sum(axis=0) >= 20]
        assert stats.chi2_contingency(table).pvalue > LEAST_P


def naive_niid(rng: np.random.Generator, sizes: list[int], parties: int, beta: float) -> NDArray[np.int64]:
    """NIID-Bench's inner loop over the classes with its cap, without the redraws for the minimum size."""
    n, held = sum(sizes), np.zeros(parties, dtype=int)
    counts = np.zeros((parties, len(sizes)), dtype=np.int64)
    for k, size in enumerate(sizes):
        p = rng.dirichlet(np.full(parties, beta))
        p = np.array([share * (held[j] < n / parties) for j, share in enumerate(p)])
        cuts = (np.cumsum(p / p.sum()) * size).astype(int)[:-1]
        counts[:, k] = np.diff(np.concatenate([[0], cuts, [size]]))
        held = held + counts[:, k]
    return counts


@pytest.mark.parametrize("beta", [0.5, 5.0])
def test_the_capped_variant_matches_an_independent_loop(beta: float) -> None:
    sizes = [300] * 10
    labels = np.repeat(np.arange(10), sizes)
    rng = np.random.default_rng(11)
    draws = 600
    theirs = [naive_niid(rng, sizes, 5, beta) for _ in range(draws)]
    ours = [
        counts_of(labels, "label_dirichlet", seed, num_partitions=5, alpha=beta, balance=True, min_partition_size=0)
        for seed in range(draws)
    ]
    figures: dict[str, Callable[[NDArray[np.int64]], float]] = {
        "largest size": lambda c: c.sum(axis=1).max(),
        "size of the first party": lambda c: c.sum(axis=1)[0],
        "first party's share of the first class": lambda c: c[0, 0],
        "last class: largest share": lambda c: c[:, -1].max(),
        "cells without rows": lambda c: (c == 0).sum(),
    }
    for figure in figures.values():
        assert stats.ks_2samp([figure(c) for c in theirs], [figure(c) for c in ours]).pvalue > LEAST_P


def test_the_cap_closes_parties_and_is_milder_in_size() -> None:
    labels = np.repeat(np.arange(10), 600)

    def spread(balance: bool) -> float:
        return float(np.mean([
            counts_of(labels, "label_dirichlet", seed, num_partitions=10, alpha=0.5, balance=balance).sum(axis=1).std()
            for seed in range(100)
        ]))  # fmt: skip

    assert spread(balance=True) < 0.8 * spread(balance=False)
    for seed in range(50):
        counts = counts_of(
            labels, "label_dirichlet", seed, num_partitions=10, alpha=0.5, balance=True, min_partition_size=0
        )
        before = np.cumsum(counts, axis=1) - counts
        assert (counts[before >= 600] == 0).all()


def test_iid_divides_equally_within_one_and_without_regard_to_the_label() -> None:
    labels = np.repeat([0, 1], [300, 703])
    first = []
    for seed in range(DRAWS):
        counts = counts_of(labels, "iid", seed, num_partitions=10)
        assert set(counts.sum(axis=1)) == {100, 101}
        first.append(counts[9, 0])  # 100 rows
    law = stats.hypergeom(1_003, 300, 100)
    edges = [0, *range(22, 39), 101]
    seen, _ = np.histogram(first, bins=edges)
    expected = np.diff(law.cdf(np.array(edges) - 1)) * DRAWS
    assert stats.chisquare(seen, expected).pvalue > LEAST_P


def test_stratified_divides_classes_and_sizes_within_one() -> None:
    labels = np.repeat(np.arange(7), [3, 10, 11, 25, 1, 99, 52])
    for seed in range(50):
        counts = counts_of(labels, "iid_stratified", seed, num_partitions=6)
        assert np.ptp(counts, axis=0).max() <= 1
        assert np.ptp(counts.sum(axis=1)) <= 1


def test_label_count_gives_exactly_k_classes_and_equal_splits() -> None:
    labels = np.repeat(np.arange(10), 101)
    for seed in range(100):
        for k in (1, 2, 3, 10):
            for first in ("random", "i mod K", "deterministic"):
                counts = counts_of(labels, "label_count", seed, num_partitions=20, k=k, first=first)
                assert ((counts > 0).sum(axis=1) == k).all()
                assert (counts.sum(axis=0) == 101).all()
                for column in counts.T:
                    assert np.ptp(column[column > 0]) <= 1
                if first != "random":
                    assert (counts[np.arange(20), np.arange(20) % 10] > 0).all()


def test_one_class_each_is_a_bijection_when_parties_equal_classes() -> None:
    counts = counts_of(np.repeat(np.arange(10), 5), "noniid-#label1", 0, num_partitions=10)
    assert sorted(counts.argmax(axis=1)) == list(range(10))
    assert (counts.max(axis=1) == 5).all()


def test_label_count_draws_every_subset_of_classes_equally_often() -> None:
    labels = np.repeat(np.arange(4), 50)
    pairs = {tuple(pair): 0 for pair in map(list, combinations(range(4), 2))}
    for seed in range(DRAWS):
        first = counts_of(labels, "label_count", seed, num_partitions=12, k=2)[0]
        pairs[tuple(np.flatnonzero(first).tolist())] += 1
    assert stats.chisquare(list(pairs.values())).pvalue > LEAST_P


def test_dealt_classes_meet_both_margins_and_favour_no_party() -> None:
    holders = np.array([6, 1, 3, 2, 6])
    rng = np.random.default_rng(2)
    total = np.zeros((6, 5))
    for _ in range(DRAWS):
        holds = deal_classes(holders, 6, 3, rng)
        assert (holds.sum(axis=0) == holders).all()
        assert (holds.sum(axis=1) == 3).all()
        total += holds
    expected = holders / 6
    assert np.abs(total / DRAWS - expected).max() < 5 * np.sqrt(0.25 / DRAWS)


@pytest.mark.parametrize(("parties", "k", "message"), [
    (4, 2, "num_partitions from 5 or num_classes_per_partition from 3 to 10"),
    (20, 11, "allowed are 1 to 10"),
])  # fmt: skip
def test_a_class_without_owner_is_refused_with_the_feasible_range(parties: int, k: int, message: str) -> None:
    with pytest.raises(FedskewError, match=message):
        party_rows(np.arange(2_000) % 10, "label_count", num_partitions=parties, k=k)


def test_a_rare_class_gets_no_more_holders_than_rows() -> None:
    labels = np.repeat(np.arange(3), [2, 500, 500])
    for seed in range(50):
        counts = counts_of(labels, "label_count", seed, num_partitions=30, k=1)
        assert (counts.sum(axis=1) > 0).all()
        assert ((counts > 0).sum(axis=1) == 1).all()
        assert 1 <= (counts[:, 0] > 0).sum() <= 2
    with pytest.raises(FedskewError, match="2 rows but 10 holders"):
        party_rows(labels, "label_count", num_partitions=30, k=1, first="i mod K")


def test_shards_are_equal_and_each_party_has_two() -> None:
    labels = np.repeat(np.arange(10), 100)
    for seed in range(20):
        counts = counts_of(labels, "shards", seed, num_partitions=25)
        assert (counts.sum(axis=1) == 40).all()
        assert ((counts > 0).sum(axis=1) <= 2).all()  # 20 rows a shard, 5 shards a class: none straddles


def test_quantity_with_shards_skews_the_number_of_shards() -> None:
    sizes = [
        counts_of(np.repeat(np.arange(10), 100), "shards+quantity_dirichlet", seed, num_partitions=10).sum(axis=1)
        for seed in range(30)
    ]
    assert all((size % 50 == 0).all() and size.min() >= 50 for size in sizes)  # 20 shards of 50 rows, one at least
    assert np.mean([size.max() for size in sizes]) > 200


def test_quantity_with_hsu_sets_the_sizes() -> None:
    labels = np.repeat(np.arange(5), 200)
    both = counts_of(labels, "hsu+quantity_dirichlet", 3, num_partitions=6, quantity_beta=0.4)
    alone = counts_of(labels, "quantity_dirichlet", 3, num_partitions=6, quantity_beta=0.4)
    assert both.sum(axis=1).tolist() == alone.sum(axis=1).tolist()


def test_quantity_with_label_dirichlet_keeps_the_mean_share_of_each_party() -> None:
    labels = np.repeat(np.arange(20), 50)
    alone = counts_of(labels, "quantity_dirichlet", 3, num_partitions=3, quantity_beta=1.0).sum(axis=1) / 1_000
    many = [counts_of(labels, "label_dirichlet+quantity_dirichlet", 3, num_partitions=3, quantity_beta=1.0, alpha=20.0)]
    assert np.abs(many[0].sum(axis=1) / 1_000 - alone).max() < 0.05


@pytest.mark.parametrize("percent", [0, 30, 100])
def test_percent_noniid_splits_that_part_by_label(percent: int) -> None:
    labels = np.repeat(np.arange(10), 100)
    counts = counts_of(labels, "percent_noniid", 1, num_partitions=10, percent_noniid=percent)
    assert (counts.sum(axis=1) == 100).all()
    # Party i holds about 10 * (100 - percent) / 100 rows of each class, and the sorted part about class i.
    own = np.trace(counts) / 1_000
    assert abs(own - (0.1 + 0.9 * percent / 100)) < 0.06


def test_mixed_gives_two_classes_a_party_and_two_parties_a_class() -> None:
    labels = np.repeat(np.arange(10), 100)
    first = []
    for seed in range(500):
        counts = counts_of(labels, "mixed", seed, num_partitions=10, beta=0.5)
        assert ((counts > 0).sum(axis=1) == 2).all()
        assert ((counts > 0).sum(axis=0) == 2).all()
        first.append(counts[:, 0][counts[:, 0] > 0][0])
    shares = (np.array(first) - 1 + np.random.default_rng(0).random(500)) / 99
    assert stats.kstest(shares, stats.beta(0.5, 0.5).cdf).pvalue > LEAST_P


def test_topping_up_changes_only_what_it_must() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        counts = rng.integers(0, 9, (6, 4)) * (rng.random((6, 4)) < 0.4)
        floor = int(counts.sum() // 6)
        topped = top_up(counts, rng.random((6, 4)), floor, rng)
        assert topped.min() >= 0
        assert topped.sum(axis=0).tolist() == counts.sum(axis=0).tolist()
        sizes, before = topped.sum(axis=1), counts.sum(axis=1)
        assert (sizes >= floor).all()
        assert (sizes[before < floor] == floor).all()
        assert (sizes[before >= floor] <= before[before >= floor]).all()


def test_a_party_that_is_topped_up_keeps_the_class_it_leans_to() -> None:
    counts = np.array([[0, 0], [50, 50], [9, 0]])
    wishes = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    topped = top_up(counts, wishes, 10, np.random.default_rng(0))
    assert topped.tolist() == [[0, 10], [49, 40], [10, 0]]


def test_class_lists_split_evenly_and_name_parties_as_given() -> None:
    labels = ["cat"] * 10 + ["dog"] * 11
    found = simulate((np.zeros((21, 1)), labels), "class_lists", class_lists={"x": ["cat", "dog"], "a": ["dog"]})
    assert found.party_names == ("a", "x")
    assert found.counts.tolist() in ([[0, 5], [10, 6]], [[0, 6], [10, 5]])
    text = simulate((np.zeros((21, 1)), labels), "class_lists", class_lists='[["cat"], ["dog"]]')
    assert text.counts.tolist() == [[10, 0], [0, 11]]


@pytest.mark.parametrize(("lists", "message"), [
    ([["cat"]], "class 'dog' has 11 rows and 0 parties"),
    ([["cat", "dgo"]], "did you mean 'dog'"),
    ([["cat"], []], "must be a list of class names"),
    ([], "is empty"),
    ("{", "class_lists is '{'; it must be a list or mapping"),
    ({" a": ["cat"]}, "outer spaces"),
    (None, "class_lists is missing"),
])  # fmt: skip
def test_class_lists_that_do_not_cover_the_table_are_refused(lists: object, message: str) -> None:
    with pytest.raises(FedskewError, match=message):
        simulate((np.zeros((21, 1)), ["cat"] * 10 + ["dog"] * 11), "class_lists", class_lists=lists)


def test_a_count_matrix_is_met_exactly_or_in_proportion() -> None:
    table = (np.zeros((30, 1)), np.repeat([0, 1], [10, 20]))
    assert simulate(table, "count_matrix", matrix=[[1, 20], [9, 0], [0, 0]]).counts.tolist() == [
        [1, 20],
        [9, 0],
        [0, 0],
    ]
    shares = simulate(table, "count_matrix", matrix=[[1, 1], [1, 3]], proportional=True)
    assert shares.counts.tolist() == [[5, 5], [5, 15]]
    ten = simulate((np.zeros((10, 1)), np.zeros(10, int)), "count_matrix", matrix=[[1]] * 10, proportional=True)
    assert ten.sizes.tolist() == [1] * 10  # 0.1 added up ten times is less than 1
    with pytest.raises(FedskewError, match="gives class '0' 2 rows, but the table has 10"):
        simulate(table, "count_matrix", matrix=[[1, 1], [1, 3]])
    for bad in ([[1]], [[1, -1]], [[1.5, 1]], [3, 4]):
        with pytest.raises(FedskewError, match="must be 2 whole numbers"):
            simulate(table, "count_matrix", matrix=bad)
    with pytest.raises(FedskewError, match="to no party"):
        simulate(table, "count_matrix", matrix=[[0, 1]], proportional=True)

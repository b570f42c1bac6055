"""Rows in several places against a loop over pairs of parties, and what very many parties share."""

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedskew.profiles import duplicates, make_partition, profile
from fedskew.profiles.duplicates import Copies, copied_rows
from fedskew.profiles.partitions import Finding, Holdout, Partition


def found(partition: Partition) -> dict[str, Finding]:
    return {finding.code: finding for finding in profile(partition).hygiene}


def planted(shared: int, parties: int, own: int = 40) -> Partition:
    """Parties of their own rows, and the same ``shared`` rows in each."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((shared, 3))
    x = np.vstack([np.vstack([common, rng.standard_normal((own, 3))]) for _ in range(parties)])
    return make_partition(x, np.zeros(len(x), int), np.repeat(np.arange(parties), shared + own))


@pytest.mark.parametrize("block", [1, 7, 2_000_000])
def test_products_and_lesser_counts_are_those_of_a_loop(monkeypatch, block):
    monkeypatch.setattr(duplicates, "BLOCK", block)
    rng = np.random.default_rng(1)
    dense = rng.integers(0, 4, (40, 7)) * (rng.random((40, 7)) < 0.4)
    products, least = duplicates._pairs(csr_array(dense.astype(float)))
    told = {(int(i), int(j)): (p, m) for i, j, p, m in zip(*products.coords, products.data, least, strict=True)}
    for i in range(7):
        for j in range(i + 1, 7):
            one, other = dense[:, i], dense[:, j]
            assert told.pop((i, j), (0, 0)) == (one @ other, np.minimum(one, other).sum())
    assert not told


def test_pairs_are_those_of_a_loop_over_parties():
    rng = np.random.default_rng(1)
    common = rng.standard_normal((100, 3))
    blocks = [np.vstack([common[rng.permutation(100)[:50]], rng.standard_normal((50, 3))]) for _ in range(6)]
    part = make_partition(np.vstack(blocks), np.zeros(600, int), np.repeat(np.arange(6), 100))
    rows = [Counter(map(bytes, part.features[part.party == p])) for p in range(6)]
    wanted = {(p, q): (rows[p] & rows[q]).total() for p in range(6) for q in range(p + 1, 6)}
    shared = copied_rows(part)
    assert {(one.first, one.second): one.rows for one in shared.pairs} == {k: v for k, v in wanted.items() if v}
    total = sum(rows, Counter())
    several = {row for row in total if sum(row in one for one in rows) > 1}
    assert (shared.in_silos, shared.kinds) == (sum(total[row] for row in several), len(several))
    assert shared.copies == sum(total[row] - max(one[row] for one in rows) for row in several)


def test_one_row_in_very_many_silos_hides_nothing(monkeypatch):
    """With too many pairs to look at, test rows in silos are still found, and so is the row."""
    part = planted(1, 60)
    test = Holdout(part.features[part.party == 7][:30], np.zeros(30, np.int64))
    part = make_partition(part.features, part.labels, part.party, test=test)
    fully = found(part)
    monkeypatch.setattr(duplicates, "MOST_PAIRS", 100)
    short = found(part)
    assert short["test_leakage"].count == fully["test_leakage"].count == 30
    assert "60 rows, 1 different one, stand in two silos or more, some in 60" in short["duplicate_rows"].text
    assert short["duplicate_rows"].severity == "mild"


def test_what_all_silos_share_is_counted_once_a_row_not_once_a_pair():
    finding = found(planted(10, 30))["duplicate_rows"]
    assert finding.count == 290  # 29 copies of each of ten; 4,350 if the pairs were added up
    assert finding.text.startswith("290 rows are copies of rows of another silo")
    assert len(finding.parties) == 30


def test_rows_that_repeat_within_silos_too_are_not_told_where_pairs_are_too_many(monkeypatch):
    monkeypatch.setattr(duplicates, "MOST_PAIRS", 100)
    rng = np.random.default_rng(2)
    part = make_partition(rng.integers(0, 2, (3000, 3)).astype(float), np.zeros(3000, int), np.arange(3000) % 60)
    assert copied_rows(part).widest == 0
    assert found(part)["duplicate_rows"].severity == "none"


def test_a_test_row_in_several_silos_is_one_test_row():
    part = planted(10, 5)
    test = Holdout(part.features[:10], np.zeros(10, np.int64))
    finding = found(make_partition(part.features, part.labels, part.party, test=test))["test_leakage"]
    assert finding.count == 10
    assert len(finding.parties) == 5


def test_many_silos_that_share_the_same_rows_make_a_pair_each():
    """Every two of 150 silos share 25 rows: 11,175 pairs."""
    shared = copied_rows(planted(25, 150, own=5))
    assert len(shared.pairs) == 150 * 149 // 2
    assert all(one.rows == 25 for one in shared.pairs)
    assert shared.pairs[0] == Copies(0, 1, 25)

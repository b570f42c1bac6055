"""Holding out and capping rows: nobody loses all rows, nothing overlaps, shares are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedskew.engine.splits import cap_rows, hold_out, prepare
from fedskew.profiles import FedskewError, Holdout, make_partition


def table(counts, seed=0):
    """A partition with the given party x class counts; the only feature numbers the rows."""
    counts = np.asarray(counts)
    labels = np.concatenate([np.repeat(np.arange(counts.shape[1]), row) for row in counts])
    party = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    names = tuple(f"p{i:02}" for i in range(len(counts)))
    rows = np.arange(len(labels), dtype=np.float32)[:, None]
    classes = tuple(f"c{i}" for i in range(counts.shape[1]))
    return make_partition(rows, labels, party, class_names=classes, party_names=names)


count_tables = st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=2, max_size=5)


@given(count_tables)
def test_training_and_test_rows_cover_the_table_once(counts):
    if max(max(row) for row in counts) < 4:
        return
    whole = table(counts)
    split = hold_out(whole)
    assert split.test is not None
    rows = np.concatenate([split.features[:, 0], split.test.features[:, 0]])
    assert sorted(rows.tolist()) == whole.features[:, 0].tolist()


@given(count_tables)
def test_every_cell_keeps_a_training_row_and_every_party_its_share(counts):
    if max(max(row) for row in counts) < 4:
        return
    whole = table(counts)
    split = hold_out(whole)
    assert split.test is not None
    assert ((split.counts > 0) == (whole.counts > 0)).all()
    assert split.test.party is not None
    held = np.bincount(split.test.party, minlength=whole.parties)
    assert (held <= whole.sizes * 0.25 + 1).all()
    assert (held >= whole.sizes * 0.25 - 1 - (whole.counts > 0).sum(axis=1)).all()


def test_the_split_depends_on_the_party_and_not_on_its_neighbours():
    alone = hold_out(table([[40, 20, 10]]))
    among = hold_out(table([[40, 20, 10], [5, 5, 5]]))
    assert alone.test is not None
    assert among.test is not None
    mine = among.test.features[among.test.party == 0]
    assert alone.test.features.tolist() == mine.tolist()


def test_a_table_of_single_rows_cannot_be_held_out():
    with pytest.raises(FedskewError, match="give a test table"):
        hold_out(table([[1, 1, 0], [0, 1, 1]]))


def test_a_given_test_table_is_kept():
    test = Holdout(np.ones((2, 1), np.float32), np.array([0, 1]))
    whole = table([[4, 4, 0], [0, 4, 4]]).with_test(test)
    assert hold_out(whole) is whole


def test_capping_keeps_the_shares_of_all_cells():
    whole = table([[400, 200, 0], [100, 0, 300]])
    capped = cap_rows(whole, 100)
    assert capped.counts.tolist() == [[40, 20, 0], [10, 0, 30]]


def test_capping_never_empties_a_party():
    capped = cap_rows(table([[1000, 0, 0], [1, 0, 0], [0, 2, 0]]), 10)
    assert (capped.sizes > 0).all()


def test_scaling_never_looks_at_the_test_rows():
    whole = table([[40, 40, 40], [40, 40, 40]])
    far = Holdout(np.full((5, 1), 1e9, np.float32), np.zeros(5, np.int64))
    data = prepare(whole.with_test(far))
    assert data.x.mean() == pytest.approx(0, abs=1e-6)
    assert data.x.std() == pytest.approx(1, abs=1e-5)
    assert data.test_x.min() > 1e6


def test_shares_are_each_party_class_shares():
    data = prepare(table([[40, 40, 0], [0, 0, 80]]))
    assert data.shares.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]

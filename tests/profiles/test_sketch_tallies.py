"""What a scan adds up equals a loop over the values, in any batches, on any number of threads, with fewer bins."""

from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedskew.profiles.errors import EnvironmentFaultError
from fedskew.profiles.histogram import MOST_BINS, bin_numbers, bits_between
from fedskew.profiles.sketching import adding, batches, blocks, budget
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.blocks import Groups, Room
from fedskew.profiles.sketching.budget import Budget
from fedskew.profiles.sketching.file import decoded, encoded
from fedskew.profiles.sketching.merging import merge
from fedskew.profiles.sketching.scanning import scan_file
from fedskew.profiles.sketching.tallies import NumericTally, settle

SHAPES = ("normal", "constant", "positive", "tiny", "huge", "integers", "binary", "holes", "empty", "infinite")


def values(shape: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    normal = rng.standard_normal(rows)
    value = {
        "constant": np.full(rows, 3.0),
        "positive": 45 + 0.01 * normal,
        "tiny": 1e-30 * normal,
        "huge": 1e37 * normal,
        "integers": np.round(100 * normal),
        "binary": (normal > 0).astype(float),
        "holes": np.where(normal > 1, np.nan, normal),
        "empty": np.full(rows, np.nan),
        "infinite": np.where(normal > 1, np.inf, np.where(normal < -1, -np.inf, normal)),
    }.get(shape, normal)
    return np.asarray(value, np.float32)


def added(parts: list[tuple[np.ndarray, np.ndarray]], most: int = 2**30) -> NumericTally:
    """A tally of (values, cells), part after part."""
    limits = Budget(most)
    tally, room = NumericTally(limits), Room()
    for value, cell in parts:
        groups = Groups(cell)
        limits.hold(int(cell.max()) + 1, 1)
        tally.add(value, groups, room)
        settle([tally], groups)
    return tally


def assert_is_the_loop(tally: NumericTally, value: np.ndarray, cell: np.ndarray, most: int = MOST_BINS) -> None:
    seen = np.isfinite(value)
    found = tally.given_up_cells()
    assert set(found) == set(cell[seen].tolist())
    if not seen.any():
        return
    bits = bits_between(float(value[seen].min()), float(value[seen].max()), most)
    assert tally.bits == bits
    for code, one in found.items():
        own = value[seen & (cell == code)]
        counts = Counter(bin_numbers(own, bits).tolist())
        assert one.n == len(own)
        assert dict(zip(one.bins, one.counts, strict=True)) == counts
        assert all(a < b for a, b in pairwise(one.bins))
        wide = own.astype(np.longdouble)
        apart = wide - wide.mean()
        size = float(np.abs(wide).max())
        assert one.mean == pytest.approx(float(wide.mean()), rel=1e-12, abs=1e-15 * size)
        for power, got in ((2, one.m2), (3, one.m3), (4, one.m4)):
            # a mean is known to half of its last bit, and all deviations are wrong by as much
            scale = float((np.abs(apart) ** power).sum())
            shift = power * 2.0**-52 * size * float((np.abs(apart) ** (power - 1)).sum())
            assert got == pytest.approx(float((apart**power).sum()), rel=0, abs=1e-12 * scale + shift + 1e-300)


@pytest.mark.parametrize("block", [7, 100, 10**6])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_tally_is_a_loop_over_values(monkeypatch, shape, block):
    monkeypatch.setattr(blocks, "BLOCK", block)
    rng = np.random.default_rng(1)
    value = np.concatenate([values(shape, 400, rng), values(shape, 300, rng)])
    cell = np.concatenate([rng.integers(0, 9, 400), rng.integers(3, 40, 300)])
    cuts = [0, 1, 150, 400, 700]
    parts = [(value[a:b], cell[a:b]) for a, b in pairwise(cuts)]
    assert_is_the_loop(added(parts), value, cell)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
    st.sampled_from([2**30, 4 * 600 * 12]),
)
def test_columns_that_change_their_nature_are_a_loop_over_values_too(shapes, seed, most):
    rng = np.random.default_rng(seed)
    parts = [(values(shape, int(rng.integers(1, 90)), rng),) for shape in shapes]
    both = [(value, rng.integers(0, 10, len(value))) for (value,) in parts]
    value, cell = (np.concatenate(side) for side in zip(*both, strict=True))
    bins = MOST_BINS if most == 2**30 else 512
    limits = Budget(most, cells=10, columns=1)
    assert limits.bins == bins
    tally, room = NumericTally(limits), Room()
    for one, cells in both:
        groups = Groups(cells)
        tally.add(one, groups, room)
        settle([tally], groups)
    assert_is_the_loop(tally, value, cell, bins)


def test_a_cell_of_more_rows_than_a_block_has_room(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 10)
    rng = np.random.default_rng(0)
    value, cell = values("normal", 500, rng), np.repeat([0, 1, 2], [3, 490, 7])
    order = rng.permutation(500)
    assert_is_the_loop(added([(value[order], cell[order])]), value[order], cell[order])


def file(tmp_path, rows: int = 3000):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"site": rng.integers(0, 5, rows), "y": rng.integers(0, 3, rows)}
        | {shape: values(shape, rows, rng) for shape in SHAPES}
    )
    path = tmp_path / "all.parquet"
    frame.write_parquet(path, row_group_size=500)
    return path


@pytest.mark.parametrize("threads", [1, 3, 16])
def test_the_number_of_threads_changes_no_byte(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(batches, "ROWS", 700)
    path = file(tmp_path)
    usual = encoded(scan_file(path, Wanted("y", "site")))
    monkeypatch.setattr(adding, "THREADS", threads)
    assert encoded(scan_file(path, Wanted("y", "site"))) == usual


def test_histograms_that_would_be_over_the_budget_get_fewer_bins_and_that_is_told(tmp_path):
    path = file(tmp_path)
    told: list[str] = []
    whole = scan_file(path, Wanted("y", "site"), tell=told.append)
    assert told == []
    cells, columns = 15, len(SHAPES)
    for bins in (1024, 512):
        few = scan_file(path, Wanted("y", "site"), tell=told.append, budget=4 * bins * cells * columns)
        assert f"get {bins:,} bins at most" in told[-1]
        assert decoded(encoded(few)) == few
        for one, other in zip(few, whole, strict=True):
            heads = {head.name: head.bits for head in one.columns}
            assert all(heads[head.name] <= head.bits for head in other.columns)
            assert heads["normal"] < next(head.bits for head in other.columns if head.name == "normal")
            # merged with a sketch of no rows that is as coarse, the fine one is the coarse one
            nothing = type(one)(party=one.party, columns=one.columns)
            assert merge(other, nothing).classes == one.classes
    with pytest.raises(EnvironmentFaultError, match="need more than"):
        scan_file(path, Wanted("y", "site"), budget=4 * 512 * cells * columns - 1)


def test_histograms_of_text_files_get_fewer_bins_while_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "ROWS", 200)
    path = file(tmp_path).with_suffix(".csv")
    frame = pl.read_parquet(tmp_path / "all.parquet").sort("site")  # so that cells come one after the other
    frame.write_csv(path)
    most = 4 * 1024 * 15 * len(SHAPES) * 5 // 4
    told: list[str] = []
    found = scan_file(path, Wanted("y", "site"), tell=told.append, budget=most)
    assert [text for text in told if "1,024 bins" in text]
    frame.write_parquet(tmp_path / "sorted.parquet")
    planned = scan_file(tmp_path / "sorted.parquet", Wanted("y", "site"), budget=4 * 1024 * 15 * len(SHAPES))
    for one, other in zip(found, planned, strict=True):
        assert [(head.name, head.bits) for head in one.columns] == [(head.name, head.bits) for head in other.columns]
        assert one.classes == other.classes


def test_the_planned_tables_are_the_tables(tmp_path, monkeypatch):
    """What is planned before a scan is what the histograms take at its end, to the byte."""
    made: list[Budget] = []
    init = Budget.__init__

    def spied(self, *args, **named) -> None:
        init(self, *args, **named)
        made.append(self)

    monkeypatch.setattr(budget.Budget, "__init__", spied)
    taken: list[int] = []
    given_up = NumericTally.given_up_cells

    def watched(self):
        taken.append(self.table.nbytes)
        return given_up(self)

    monkeypatch.setattr(NumericTally, "given_up_cells", watched)
    scan_file(file(tmp_path), Wanted("y", "site"))
    assert made[0].cells == 15
    wide = [held for held in taken if held > 4 * 15]
    assert wide == [4 * 15 * MOST_BINS] * len(wide)
    assert len(wide) == len(SHAPES) - 3  # "constant"; "tiny", which is all in the bin of 0; "empty"

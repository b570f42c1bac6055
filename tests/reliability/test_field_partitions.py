"""What users of comparable software ran into when partitioning, tried on fedskew; names hold the report's ID."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedskew.profiles import (
    FedskewError,
    label_skew,
    make_partition,
    partition_source,
    party_rows,
    profile,
    read_table,
    simulate,
    step_counts,
)

RNG = np.random.default_rng(0)
COVERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("iid", {}), ("label_dirichlet", {"alpha": 0.1}), ("label_dirichlet_hsu", {"alpha": 0.1}),
    ("label_count", {"num_classes_per_partition": 3}),
    ("shards", {}), ("quantity_dirichlet", {}), ("percent_noniid", {}),
)  # fmt: skip


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where the work in the block takes more processor time."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def labels(rows: int, classes: int = 10) -> Any:
    return np.random.default_rng(1).integers(0, classes, rows)


def test_P1_a_balanced_dirichlet_of_strong_skew_ends_at_once() -> None:
    with within(2):
        held = party_rows(labels(50_000), "label_dirichlet_hsu", alpha=0.1, num_partitions=100)
    assert {len(rows) for rows in held.values()} == {500}


def test_P2_a_dirichlet_with_unequal_sizes_ends_at_once() -> None:
    with within(2):
        held = party_rows(
            labels(50_000), "label_dirichlet_hsu+quantity", alpha=0.1, quantity_beta=0.5, num_partitions=100
        )
    assert sum(map(len, held.values())) == 50_000


@pytest.mark.parametrize(("rows", "parties", "least"), [(60_000, 1000, 40), (70_000, 100, 160)])
def test_P3_P4_a_minimum_that_looped_for_ever_elsewhere_is_met_at_once(rows: int, parties: int, least: int) -> None:
    with within(2):
        held = party_rows(labels(rows), "label_dirichlet", alpha=0.1, num_partitions=parties, min_partition_size=least)
    assert min(map(len, held.values())) >= least
    assert sum(map(len, held.values())) == rows


def test_P3_a_minimum_that_cannot_be_met_is_answered_with_the_feasible_range() -> None:
    with within(1), pytest.raises(FedskewError, match="60"):
        party_rows(labels(60_000), "label_dirichlet", alpha=0.1, num_partitions=1000, min_partition_size=61)


def test_P4_no_minimum_is_derived_from_a_batch_size() -> None:
    held = party_rows(labels(300), "label_dirichlet", alpha=0.05, num_partitions=40)
    assert min(map(len, held.values())) < 10


@pytest.mark.parametrize("alpha", [0.1, 100])
def test_P7_two_halves_that_are_exactly_the_whole_have_no_nan(alpha: float) -> None:
    held = party_rows(labels(2_000), "label_dirichlet_hsu", alpha=alpha, num_partitions=2)
    assert [len(rows) for rows in held.values()] == [1_000, 1_000]


@pytest.mark.parametrize(("strategy", "parameters"), COVERS)
def test_P10_O4_every_row_is_used_exactly_once(strategy: str, parameters: dict[str, Any]) -> None:
    held = party_rows(labels(2_000), strategy, num_partitions=4, **parameters)
    assert sorted(np.concatenate(list(held.values())).tolist()) == list(range(2_000))


def test_P14_natural_ids_of_many_rows_are_one_sort() -> None:
    ids = np.array([f"writer {i}" for i in range(3_500)])[RNG.integers(0, 3_500, 800_000)]
    with within(4):
        found = make_partition(np.zeros((800_000, 1), np.float32), np.zeros(800_000, np.int64), ids, class_names=("0",))
    assert found.parties == 3_500


@pytest.mark.parametrize(
    "kinds",
    [["cat", "dog"], ["1", "10", "2"], [True, False], [0, 1], [0.0, 1.0], [-1, 1], [np.int64(2**40), np.int64(7)]],
    ids=repr,
)
def test_P15_the_type_of_the_labels_changes_no_row(kinds: list[Any]) -> None:
    codes = labels(600, len(kinds))
    held = party_rows(np.array(kinds)[codes], "label_dirichlet", alpha=0.5, num_partitions=5)
    assert sorted(np.concatenate(list(held.values())).tolist()) == list(range(600))
    assert max(map(len, held.values())) < 600
    named = make_partition(np.zeros((600, 1)), np.array(kinds)[codes], np.arange(600) % 2)
    assert set(named.class_names) == {str(kind) for kind in np.array(kinds).tolist()}
    assert sorted(named.counts.sum(axis=0).tolist()) == sorted(np.bincount(codes).tolist())


@pytest.mark.parametrize("target", ["normal", "constant", "holes"])
def test_P16_a_continuous_target_is_profiled_by_its_quantiles(target: str) -> None:
    values = np.random.default_rng(2).normal(size=200)
    values = np.full(200, 3.5) if target == "constant" else values
    values[::10] = np.nan if target == "holes" else values[::10]
    frame = pl.DataFrame({"y": values, "x": values + 1, "p": ["a", "b"] * 100})
    found = read_table(frame, label="y", party="p", task="regression")
    assert found.target is not None
    assert found.rows == (180 if target == "holes" else 200)
    assert found.classes == (1 if target == "constant" else 5)
    said = [f for f in found.findings if f.code == "missing_labels"]
    assert [f.count for f in said] == ([20] if target == "holes" else [])
    measured = profile(found)
    assert measured.task == "regression"
    assert measured.label.skew is None or measured.label.severity == "none"


@pytest.mark.parametrize(
    "name",
    ["homo", "noniid-labeldir", "noniid-#label2", "iid-diff-quantity", "noniid-#label1", "noniid-#label3"],
)
def test_P17_every_strategy_of_niid_bench_has_its_name(name: str) -> None:
    found = simulate((RNG.normal(size=(400, 3)), labels(400)), name, num_partitions=10)
    assert (found.parties, found.rows) == (10, 400)


def test_P17_P18_noise_by_party_is_written_into_the_silo_files_of_a_csv(tmp_path: Path) -> None:
    frame = pl.DataFrame({f"x{i}": RNG.normal(size=500) for i in range(10)}).with_columns(y=pl.Series(labels(500)))
    frame.write_csv(tmp_path / "t.csv")
    partition_source(
        tmp_path / "t.csv", "homo", tmp_path / "i.json", write_silos=tmp_path / "silos",
        parameters={"num_partitions": "5", "noise": "0.1"}, reading={"label": "y"},
    )  # fmt: skip
    files = sorted((tmp_path / "silos").iterdir())
    assert [path.stem for path in files] == ["0", "1", "2", "3", "4"]
    clean = {tuple(row) for row in frame.select(pl.exclude("y")).cast(pl.Float32).rows()}
    assert all(
        tuple(row) not in clean for row in pl.read_parquet(files[4]).select(pl.exclude("y")).cast(pl.Float32).rows()
    )


def test_P21_the_pathological_split_gives_equal_shares_and_leaves_nothing_over() -> None:
    held = party_rows(labels(6_000), "label_count", num_partitions=20, num_classes_per_partition=2)
    y = labels(6_000)
    assert all(len(np.unique(y[rows])) == 2 for rows in held.values())
    assert sum(map(len, held.values())) == 6_000
    for kind in range(10):
        shares = [int((y[rows] == kind).sum()) for rows in held.values() if (y[rows] == kind).any()]
        assert max(shares) - min(shares) <= 1


def test_P22_O2_a_local_file_needs_no_network_and_holes_in_the_ids_are_counted(tmp_path: Path) -> None:
    ids = ["a", None, "b", "b", "a", "b"] * 20
    pl.DataFrame({"x": np.arange(120) % 7, "y": ["u", "v"] * 60, "who": ids}).write_parquet(tmp_path / "t.parquet")
    partition_source(
        tmp_path / "t.parquet", "natural", tmp_path / "i.json", parameters={"column": "who"}, reading={"label": "y"}
    )
    found = read_table(tmp_path / "i.json")
    assert found.sizes.tolist() == [40, 60]
    assert [f.count for f in found.findings if f.code == "missing_party"] == [20]


def test_P23_the_cap_of_niid_bench_makes_the_skew_milder_and_is_recognised() -> None:
    table = (np.zeros((6_000, 1)), labels(6_000))
    free = simulate(table, "label_dirichlet", alpha=0.1, num_partitions=10, seed=3)
    capped = simulate(table, "label_dirichlet", alpha=0.1, num_partitions=10, seed=3, cap=True)
    assert np.ptp(capped.sizes) < np.ptp(free.sizes)
    assert label_skew(capped).capped
    assert not label_skew(free).capped


def test_P24_a_party_of_nine_rows_has_a_batch() -> None:
    assert step_counts([9, 1, 0, 64, 65], local_epochs=1, batch_size=64).tolist() == [1, 1, 0, 1, 2]


@pytest.mark.parametrize("hole", [float("nan"), None])
def test_O1_rows_without_a_label_are_counted_and_all_others_delivered(hole: float | None) -> None:
    y = [hole if i % 7 == 0 else float(i % 3) for i in range(2_000)]
    frame = pl.DataFrame({"x": np.arange(2_000) % 11, "y": y, "p": np.arange(2_000) % 4})
    found = read_table(frame, label="y", party="p")
    assert found.rows == 1_714
    assert [f.count for f in found.findings if f.code == "missing_labels"] == [286]


def test_O5_a_minimum_that_another_package_gave_up_on_is_met() -> None:
    with within(1):
        held = party_rows(labels(2_000), "label_dirichlet", alpha=0.1, num_partitions=100, min_partition_size=10)
    assert min(map(len, held.values())) >= 10


def test_O14_a_class_that_nobody_could_own_is_refused_with_the_feasible_range() -> None:
    with pytest.raises(FedskewError, match="5"):
        party_rows(np.arange(100) % 10, "label_count", num_partitions=4, num_classes_per_partition=2)

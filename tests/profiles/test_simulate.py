"""From a name to a Partition: time, arguments, and the round trip to the profile."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Partition, make_partition
from fedskew.profiles.simulate import party_rows, simulate
from fedskew.profiles.strategies import STRATEGIES, fcube
from fedskew.profiles.strategies.describe import describe_strategies, strategies_markdown


def blobs(rows: int = 2_000, classes: int = 10, width: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % classes
    return (rng.normal(size=(rows, width)) + rng.normal(size=(classes, width))[labels]).astype(np.float32), labels


ROUND_TRIPS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("homo", {}, ("none",)),
    ("iid_stratified", {}, ("none",)),
    ("noniid-labeldir", {"alpha": 0.5}, ("label_dirichlet",)),
    ("dirichlet", {"alpha": 0.3}, ("label_dirichlet",)),
    ("noniid-#label2", {}, ("label_count",)),
    ("noniid-#label1", {}, ("label_count",)),
    ("iid-diff-quantity", {}, ("quantity",)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters", "kinds"), ROUND_TRIPS, ids=[name for name, _, _ in ROUND_TRIPS])
def test_the_profile_of_a_simulated_partition_names_its_strategy(
    name: str, parameters: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    from fedskew.profiles.summary import profile

    found = profile(simulate(blobs(), name, num_partitions=10, seed=1, **parameters))
    assert found.prevailing.kind in kinds
    if name == "noniid-labeldir":
        assert found.label.beta.lower is not None
        assert found.label.beta.upper is not None
        assert found.label.beta.lower <= 0.5 <= found.label.beta.upper
    if name.startswith("noniid-#label"):
        assert found.label.classes_per_party.k == int(name[-1])
    if name == "iid-diff-quantity":
        assert found.quantity.beta.lower is not None
        assert found.quantity.beta.upper is not None
        assert found.quantity.beta.lower <= 0.5 <= found.quantity.beta.upper


@pytest.mark.slow
def test_the_profile_finds_hsus_concentration_until_classes_are_used_up() -> None:
    from fedskew.profiles.label import label_skew

    for seed in range(4):
        whole = simulate(blobs(20_000), "hsu", alpha=0.3, num_partitions=100, seed=seed)
        early = whole.party < 10  # the last parties take what is left, whatever their mix
        alpha = label_skew(make_partition(whole.features[early], whole.labels[early], whole.party[early])).alpha
        assert alpha.lower is not None
        assert alpha.upper is not None
        assert alpha.lower <= 0.3 * 10 <= alpha.upper  # Dir(0.3) for each of ten classes


@pytest.mark.slow
def test_the_profile_of_fcube_and_of_noise_names_feature_skew_where_it_is_measured() -> None:
    from fedskew.profiles.summary import profile

    for partition in (fcube(4_000), simulate(blobs(), "homo", noise=2.0, num_partitions=5)):
        found = profile(partition)
        if found.feature.skew is None:
            pytest.skip(f"feature skew is not measured: {found.feature.reason}")
        assert found.prevailing.kind == "feature"


@pytest.mark.parametrize(
    ("rows", "parties", "limit"), [(50_000, 100, 0.5), pytest.param(5_000_000, 10_000, 20.0, marks=pytest.mark.slow)]
)
def test_label_dirichlet_is_fast_however_skewed(rows: int, parties: int, limit: float) -> None:
    labels = np.random.default_rng(0).integers(0, 10, rows)
    party_rows(labels[:100], "label_dirichlet", num_partitions=2)  # imports
    start = time.process_time()
    found = party_rows(labels, "label_dirichlet", alpha=0.1, num_partitions=parties)
    assert time.process_time() - start < limit
    assert len(found) == parties


def test_natural_ids_of_a_large_table_are_one_sort() -> None:
    rows = 800_000
    ids = np.array([f"writer_{i:04d}" for i in range(3_500)])[np.random.default_rng(0).integers(0, 3_500, rows)]
    features, labels = np.zeros((rows, 1), np.float32), np.zeros(rows, np.int64)
    start = time.process_time()
    source = make_partition(features, labels, ids, class_names=("0",))
    found = simulate(source, "natural", num_partitions=100)
    assert time.process_time() - start < 2
    assert found.parties == 100


def test_what_is_no_table_is_refused() -> None:
    for wrong in ([1, 2, 3], None, "data.csv", (np.eye(2),)):
        with pytest.raises(FedskewError, match="needs a Partition or"):
            simulate(wrong, "iid")
    with pytest.raises(FedskewError, match="changes the data"):
        party_rows([0, 1], "homo", noise=0.1, num_partitions=1)


def test_help_names_every_strategy_parameter_and_alias() -> None:
    text = describe_strategies()
    for strategy in STRATEGIES:
        assert strategy.source in text
        assert all(alias in text for alias in strategy.aliases)
        assert all(parameter.help in text for parameter in strategy.parameters)
    assert max(map(len, text.splitlines())) < 300


def test_one_party_holds_everything() -> None:
    for name in ("iid", "label_dirichlet", "dirichlet", "quantity", "shards", "percent_noniid", "feature_noise"):
        found = simulate((np.eye(6), [0, 0, 1, 1, 2, 2]), name, num_partitions=1)
        assert isinstance(found, Partition)
        assert found.sizes.tolist() == [6]


def test_two_halves_of_exactly_the_whole_work_at_any_concentration() -> None:
    for alpha in (0.1, 100):
        found = simulate((np.zeros((1_000, 1)), np.arange(1_000) % 10), "dirichlet", alpha=alpha, num_partitions=2)
        assert found.sizes.tolist() == [500, 500]


def test_the_page_on_partitions_lists_what_the_tuple_holds() -> None:
    page = Path(__file__).parents[2] / "docs" / "partitions.md"
    written = page.read_text(encoding="utf-8")
    assert strategies_markdown() in written, "run python docs/partitions.py"
    for strategy in STRATEGIES:
        assert f"| `{strategy.name}` | {strategy.summary} |" in written
        assert all(f"| `{parameter.name}` |" in written for parameter in strategy.parameters)
        assert all(f"`{alias}" in written for alias in strategy.aliases)

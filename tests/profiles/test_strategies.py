"""Laws that hold for every strategy: a cover, bounded work, same seed same bytes, label type irrelevant."""

import re
import time
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Partition, make_partition
from fedskew.profiles.simulate import assign, party_rows, resolve, simulate
from fedskew.profiles.strategies import STRATEGIES, fcube

LABEL_ONLY = [
    ("iid", {}),
    ("iid_stratified", {}),
    ("label_dirichlet", {"alpha": 0.1}),
    ("label_dirichlet", {"alpha": 0.3, "balance": True}),
    ("label_dirichlet_hsu", {"alpha": 0.1}),
    ("label_dirichlet_hsu", {"alpha": 0.5, "prior": "pooled"}),
    ("label_count", {"num_classes_per_partition": 2}),
    ("label_count", {"num_classes_per_partition": 2, "first": "i mod K"}),
    ("label_count", {"num_classes_per_partition": 2, "first": "deterministic"}),
    ("shards", {}),
    ("percent_noniid", {"percent_noniid": 70}),
    ("mixed", {"alpha": 0.2}),
    ("quantity_dirichlet", {"quantity_beta": 0.1}),
    ("shards+quantity_dirichlet", {"quantity_beta": 0.2}),
    ("label_dirichlet+quantity_dirichlet", {"alpha": 0.3, "quantity_beta": 0.2}),
    ("label_dirichlet_hsu+quantity_dirichlet", {"alpha": 0.3, "quantity_beta": 0.2}),
    ("label_count+quantity_dirichlet", {"quantity_beta": 0.2}),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(LABEL_ONLY)]


def is_feasible(name: str, parameters: dict[str, Any], sizes: np.ndarray, parties: int) -> bool:
    """Whether a partition exists, by conditions written down independently of the code."""
    rows, classes = int(sizes.sum()), int((sizes > 0).sum())
    if name.startswith("shards"):
        return 2 * parties <= rows
    if name.startswith(("label_count", "mixed")):
        seats = int(np.minimum(sizes, parties).sum())
        return classes <= 2 * parties <= seats and classes >= 2 and parties <= rows
    return parties <= rows


@pytest.mark.parametrize(("name", "parameters"), LABEL_ONLY, ids=IDS)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=120),
    parties=st.integers(1, 12),
    seed=st.integers(0, 2**63 - 1),
)
def test_each_row_goes_to_exactly_one_party_and_no_party_is_empty(
    name: str, parameters: dict[str, Any], labels: list[int], parties: int, seed: int
) -> None:
    sizes = np.bincount(labels)
    found = None
    try:
        found = party_rows(labels, name, seed=seed, num_partitions=parties, **parameters)
    except FedskewError:
        fixed_holders = parameters.get("first", "random") != "random"
    if found is None:
        assert fixed_holders or not is_feasible(name, parameters, sizes, parties)
        return
    assert list(found) == [str(i) for i in range(parties)]
    assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(len(labels)))
    assert min(len(rows) for rows in found.values()) >= 1


@pytest.mark.parametrize(("name", "parameters"), LABEL_ONLY, ids=IDS)
def test_same_seed_gives_same_bytes_and_another_seed_does_not(name: str, parameters: dict[str, Any]) -> None:
    labels = np.arange(600) % 6
    first, again, other = (
        simulate((np.arange(600.0)[:, None], labels), name, seed=seed, num_partitions=4, **parameters)
        for seed in (7, 7, 8)
    )
    assert first.features.tobytes() == again.features.tobytes()
    assert first.party.tobytes() == again.party.tobytes()
    assert first.features.tobytes() != other.features.tobytes()


@pytest.mark.parametrize(("name", "parameters"), LABEL_ONLY, ids=IDS)
def test_the_type_of_the_labels_is_irrelevant(name: str, parameters: dict[str, Any]) -> None:
    codes = np.arange(300) % 2
    spellings: list[Any] = [
        codes,
        codes.astype(bool),
        codes.astype(np.float64),
        [("cat", "dog")[code] for code in codes],
        [("1", "10")[code] for code in codes],
        [("<b>", "é\u202e\n")[code] for code in codes],
    ]
    expected = party_rows(codes, name, num_partitions=4, **parameters)
    for labels in spellings:
        found = party_rows(labels, name, num_partitions=4, **parameters)
        assert {party: rows.tolist() for party, rows in found.items()} == {
            party: rows.tolist() for party, rows in expected.items()
        }


@pytest.mark.parametrize(("name", "parameters"), LABEL_ONLY, ids=IDS)
def test_the_order_of_rows_does_not_change_the_distribution(name: str, parameters: dict[str, Any]) -> None:
    from scipy.stats import ks_2samp

    ascending = np.repeat(np.arange(4), 20)
    mixed = np.random.default_rng(0).permutation(ascending)
    draws = {0: [], 1: []}  # type: dict[int, list[float]]
    for seed in range(250):
        for kind, labels in enumerate((ascending, mixed)):
            rows = party_rows(labels, name, seed=2 * seed + kind, num_partitions=4, **parameters)
            counts = np.bincount(labels[rows["0"]], minlength=4)
            draws[kind].append(float(counts[0] + 0.01 * counts[1] + 0.0001 * len(rows["0"])))
    assert ks_2samp(draws[0], draws[1]).pvalue > 1e-4


def test_order_of_rows_within_a_class_is_random_for_the_first_party() -> None:
    rows = np.concatenate([party_rows(np.zeros(10), "iid", seed=seed, num_partitions=2)["0"] for seed in range(400)])
    expected = 400 * 5 / 10
    assert np.abs(np.bincount(rows, minlength=10) - expected).max() < 5 * np.sqrt(400 * 0.25)


def test_parties_without_rows_appear_only_where_asked() -> None:
    labels = np.arange(60) % 3
    asked = [
        min(map(len, party_rows(labels, name, seed=s, num_partitions=20, min_partition_size=0, **more).values()))
        for s in range(5)
        for name, more in (("label_dirichlet", {"alpha": 0.05}), ("quantity_dirichlet", {"quantity_beta": 0.05}))
    ]
    assert max(asked) == 0
    assert party_rows([0], "label_dirichlet", num_partitions=3, min_partition_size=0, alpha=0.1)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_every_numeric_parameter_refuses_what_is_no_number_or_out_of_range(strategy: Any) -> None:
    table = fcube(400)
    for parameter in strategy.parameters:
        if parameter.kind not in {"float", "int"}:
            continue
        below, above = parameter.lower - 1, parameter.upper * 2 + 1
        for bad in (float("nan"), "nan", "abc", float("inf"), [1], True, below, above, "1e999"):
            start = time.perf_counter()
            with pytest.raises(
                FedskewError, match=f"{parameter.name} is .* it must be a (whole )?number from"
            ) as error:
                simulate(table, strategy.name, **cast("Any", {parameter.name: bad}))
            assert time.perf_counter() - start < 1
            assert "\n" not in str(error.value)


def test_every_choice_names_its_choices() -> None:
    for strategy in STRATEGIES:
        for parameter in strategy.parameters:
            if parameter.kind == "choice":
                with pytest.raises(FedskewError, match=re.escape(f"one of '{parameter.choices[0]}'")):
                    parameter.parse("no such thing")


def test_names_and_aliases_are_unique_and_every_strategy_names_its_source() -> None:
    names = [name.lower().replace("_", "-") for s in STRATEGIES for name in (s.name, *s.aliases)]
    assert len(names) == len(set(names))
    for strategy in STRATEGIES:
        assert strategy.source
        assert strategy.summary
        assert sum(f is not None for f in (strategy.assign, strategy.quantity, strategy.transform)) == 1
        for parameter in strategy.parameters:
            assert parameter.default is None or parameter.parse(parameter.default) == parameter.default
            assert parameter.help


@pytest.mark.parametrize(
    ("alias", "canonical", "implied"),
    [
        ("homo", "iid", {}),
        ("noniid-labeldir", "label_dirichlet", {"balance": False, "min_partition_size": 1}),
        ("noniid-labeldir-code", "label_dirichlet", {"balance": True, "min_partition_size": 10}),
        ("noniid-#label2", "label_count", {"num_classes_per_partition": 2}),
        ("noniid-#label10", "label_count", {"num_classes_per_partition": 10}),
        ("#C=3", "label_count", {"num_classes_per_partition": 3}),
        ("iid-diff-quantity", "quantity_dirichlet", {"quantity_beta": 0.5}),
        ("dirichlet", "label_dirichlet_hsu", {"alpha": 0.1}),
        ("quantity_skew", "quantity_dirichlet", {"quantity_beta": 0.5, "min_partition_size": 10}),
        ("real", "natural", {"num_partitions": None}),
        ("PathologicalPartitioner", "label_count", {}),
        ("Label-Dirichlet", "label_dirichlet", {"alpha": 0.5}),
    ],
)
def test_the_spellings_of_other_packages_are_understood(alias: str, canonical: str, implied: dict[str, Any]) -> None:
    plan = resolve(alias, {})
    assert plan.name == canonical
    assert implied.items() <= plan.values.items()


@pytest.mark.parametrize(
    ("strategy", "given_as", "canonical", "value"),
    [
        ("noniid-labeldir", "beta", "alpha", 0.3),
        ("iid-diff-quantity", "beta", "quantity_beta", 0.3),
        ("iid-diff-quantity", "quantity-min-samples", "min_partition_size", 4),
        ("label_dirichlet", "self_balancing", "balance", True),
        ("label_dirichlet", "n_parties", "num_partitions", 7),
        ("label_count", "classes-per-party", "num_classes_per_partition", 3),
        ("shards", "num_clients", "num_partitions", 7),
    ],
)
def test_parameters_have_the_names_of_other_packages_too(
    strategy: str, given_as: str, canonical: str, value: Any
) -> None:
    assert resolve(strategy, {given_as: value}).values[canonical] == value
    assert resolve(strategy, {given_as: str(value)}).values[canonical] == value


def test_a_number_in_the_name_may_be_said_again() -> None:
    assert resolve("noniid-#label2", {"k": "2"}).values["num_classes_per_partition"] == 2


def test_noise_and_quantity_options_add_the_strategy_they_belong_to() -> None:
    assert resolve("homo", {"noise": "0.1"}).name == "iid+feature_noise"
    assert resolve("dirichlet", {"quantity_beta": 0.5}).name == "label_dirichlet_hsu+quantity_dirichlet"


@pytest.mark.parametrize(
    ("strategy", "parameters", "message"),
    [
        ("label_dirichlt", {}, "did you mean 'label_dirichlet'"),
        ("label_dirichlet", {"alhpa": 1}, "did you mean 'alpha'"),
        ("fcube", {"alpha": 1}, "it has none"),
        ("label_dirichlet", {"alpha": 1, "beta": 1}, "same parameter"),
        ("label_dirichlet+quantity_dirichlet", {"beta": 1}, "ambiguous"),
        ("label_dirichlet+shards", {}, "cannot be combined"),
        ("mixed+quantity_dirichlet", {}, "these can: "),
        ("feature_noise+feature_noise", {}, "twice"),
        ("", {}, "there is no strategy ''"),
        ("noniid-#label2", {"k": "1"}, "noniid-#label2 says num_classes_per_partition 2, but k is 1; give one"),
        ("#C=3+feature_noise", {"classes-per-party": 2}, "says num_classes_per_partition 3, but classes_per_party is"),
    ],
)
def test_what_cannot_be_resolved_is_refused_in_one_line(
    strategy: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(FedskewError, match=message) as error:
        resolve(strategy, parameters)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", [-1, 1.5, "7", None, True, 2**63])
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(FedskewError, match="seed is"):
        simulate(fcube(8, 0), "iid", seed=seed, num_partitions=2)


def test_impossible_minima_are_answered_at_once_with_the_feasible_range() -> None:
    labels = np.arange(60_000) % 10
    start = time.perf_counter()
    with pytest.raises(FedskewError, match="num_partitions up to 1500 or min_partition_size up to 6"):
        party_rows(labels, "label_dirichlet", alpha=0.1, num_partitions=10_000, min_partition_size=40)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("rows", "parties", "floor"), [(60_000, 1_000, 40), (70_000, 100, 160), (2_000, 100, 10), (2_000, 100, 20)]
)
def test_minima_that_made_others_loop_for_ever_are_met_by_construction(rows: int, parties: int, floor: int) -> None:
    for name in ("label_dirichlet", "quantity_dirichlet"):
        start = time.perf_counter()
        found = party_rows(np.arange(rows) % 10, name, alpha=0.1, num_partitions=parties, min_partition_size=floor)
        assert time.perf_counter() - start < 5  # a loop would never end; the bound only tells it from slowness
        assert min(map(len, found.values())) >= floor
        assert sum(map(len, found.values())) == rows


def test_labels_that_are_missing_are_a_class_and_no_row_is_lost() -> None:
    labels = np.where(np.arange(2000) % 7 == 0, np.nan, np.arange(2000) % 10)
    found = party_rows(labels, "label_dirichlet", alpha=1, num_partitions=5)
    assert sum(map(len, found.values())) == 2000


def test_the_table_is_not_changed() -> None:
    table = fcube(400, 100)
    before = (table.features.copy(), table.labels.copy(), table.party.copy())
    for strategy in ("label_dirichlet+feature_noise", "label_noise", "label_permutation"):
        simulate(table, strategy, num_partitions=3)
    assert all(
        np.array_equal(old, new) for old, new in zip(before, (table.features, table.labels, table.party), strict=True)
    )


def test_columns_target_and_test_table_come_along() -> None:
    target = np.linspace(0, 1, 12)
    table = make_partition(
        np.arange(12.0)[:, None], np.repeat([0, 1], 6), ["all"] * 12, target=target, test=fcube(8, 4).test
    )
    found = simulate(table, "iid", num_partitions=3)
    assert isinstance(found, Partition)
    assert found.target is not None
    np.testing.assert_array_equal(found.target, target[found.features[:, 0].astype(int)])
    assert found.columns == table.columns
    assert found.test is not None
    assert found.test.party is None  # its codes meant the parties before


def test_a_transform_leaves_the_assignment_of_rows_as_it_is() -> None:
    table = fcube(400)
    alone = assign(table, resolve("label_dirichlet", {}), 5)[0]
    together = assign(table, resolve("label_dirichlet+feature_noise+label_noise", {}), 5)[0]
    np.testing.assert_array_equal(alone, together)

"""Parameter counts against torch and the published table; bytes as counted by hand."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from fedskew.advisor.price import (
    COSTS,
    KNOWN_MODELS,
    TITLES,
    cost,
    counted_compute,
    parameter_count,
    price,
    round_as_printed,
    traffic,
)
from fedskew.engine.algorithms import ALGORITHMS
from fedskew.profiles.errors import FedskewError

PUBLISHED = [
    ("cnn", 784, 10, (1, 28, 28), 44_426),
    ("cnn", 3072, 10, (3, 32, 32), 62_006),
    ("mlp", 123, 2, None, 4_650),
    ("mlp", 54, 2, None, 2_442),
    ("mlp", 47_236, 2, None, 1_512_266),
    ("linear", 3, 2, None, 8),
    ("vgg9", 3072, 10, (3, 32, 32), 3_491_530),
    ("resnet18", 3072, 10, (3, 32, 32), 11_173_962),
    ("resnet50", 3072, 10, (3, 32, 32), 23_520_842),
]
PRINTED = {"MNIST": 44_426, "CIFAR-10": 62_006, "adult": 4_650, "rcv1": 1_512_266}


@pytest.mark.parametrize(("model", "features", "classes", "shape", "expected"), PUBLISHED)
def test_parameter_count_is_the_published_one(
    model: str, features: int, classes: int, shape: tuple[int, int, int] | None, expected: int
) -> None:
    assert expected == parameter_count(model, features, classes, shape)


@pytest.mark.slow  # loads torch
def test_parameter_count_agrees_with_torch_layers() -> None:
    from torch import nn

    cnn = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5), nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 7)
    )
    assert sum(p.numel() for p in cnn.parameters()) == parameter_count("cnn", 3072, 7, (3, 32, 32))
    mlp = nn.Sequential(nn.Linear(54, 128), nn.Linear(128, 64), nn.Linear(64, 7))
    assert sum(p.numel() for p in mlp.parameters()) == parameter_count("wide_mlp", 54, 7)


@pytest.mark.slow  # loads torch
def test_parameter_count_agrees_with_the_engine() -> None:
    models = pytest.importorskip("fedskew.engine.models")
    shapes = {"mlp": (20,), "linear": (20,), "wide_mlp": (784,), "cnn": (3, 32, 32), "vgg9": (3, 32, 32)}
    for name, shape in shapes.items():
        if name not in models.MODELS:
            continue
        net = models.build(models.ModelSpec(name, shape, 5))
        features = 1
        for size in shape:
            features *= size
        images = shape if len(shape) == 3 else None
        assert sum(p.numel() for p in net.parameters()) == parameter_count(name, features, 5, images), name


@pytest.mark.parametrize("spelling", ["simple-cnn", "CNN", "VGG-9", "resnet18-gn", "ResNet-50"])
def test_other_spellings_are_understood(spelling: str) -> None:
    assert parameter_count(spelling, 3072, 10, (3, 32, 32))


def test_the_models_that_are_offered_are_those_of_the_engine() -> None:
    from fedskew.engine.models import MODELS

    assert set(KNOWN_MODELS) == set(MODELS)
    with pytest.raises(FedskewError, match="'mlp_niid', 'wide_mlp'"):
        parameter_count("foo", 3, 2)


@pytest.mark.parametrize(("model", "shape"), [("cnn", (1, 8, 8)), ("cnn", (3, 32, 15)), ("vgg9", (1, 7, 7))])
def test_a_network_too_large_for_the_images_has_no_price_as_it_has_no_training(
    model: str, shape: tuple[int, int, int]
) -> None:
    from fedskew.engine.models import build
    from fedskew.engine.plans import ModelSpec

    with pytest.raises(FedskewError, match="needs images of"):
        parameter_count(model, 64, 10, shape)
    with pytest.raises(FedskewError, match="needs images of"):
        build(ModelSpec(model, shape, 10))


def test_number_of_parameters_is_taken_as_given() -> None:
    assert parameter_count("1200000", 3, 2) == 1_200_000


def test_foreign_model_has_no_known_size() -> None:
    assert parameter_count("mynets:build", 3, 2) is None
    found = price("scaffold", "mynets:build", None, parties=10, batch_size=64, tuning_runs=1)
    assert found.bytes_per_party_round is None
    assert found.client_state.startswith("a control variate")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("mpl", "did you mean 'mlp'"),
        ("cnn", "needs images"),
        ("0", "unknown model"),
        ("mlp_bn", "unknown model"),
        ("vgg9_bn", "unknown model"),
    ],
)
def test_impossible_model_is_named(model: str, said: str) -> None:
    with pytest.raises(FedskewError, match=said):
        parameter_count(model, 20, 2)


@pytest.mark.parametrize(
    ("dataset", "printed"), [("MNIST", 1.95), ("CIFAR-10", 2.73), ("adult", 0.20), ("rcv1", 66.54)]
)
def test_published_communication_is_eleven_model_copies(dataset: str, printed: float) -> None:
    parameters = PRINTED[dataset]
    assert printed == round(11 * 4 * parameters / 1e6, 2) == round(round_as_printed("fedavg", parameters), 2)


def test_every_published_communication_figure_is_reproduced(paper_file: Callable[[str], Path]) -> None:
    with paper_file("cost.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "communication_size"]
    assert len(rows) == 16
    for row in rows:
        ours = round_as_printed(row["algorithm"].lower(), PRINTED[row["dataset"]])
        assert float(row["value"]) == round(ours, 2), row


def test_a_party_carries_eight_bytes_a_parameter_and_scaffold_twice() -> None:
    found = {name: traffic(name, 1000) for name in COSTS}
    assert found.pop("scaffold") == 16_000
    assert set(found.values()) == {8_000}


def test_every_algorithm_that_keeps_something_says_what() -> None:
    for algorithm in ALGORITHMS:
        assert bool(cost(algorithm.name).state) == bool(algorithm.client_state or algorithm.shared), algorithm.name


def test_wsm_costs_what_its_base_costs() -> None:
    assert cost("scaffold+wsm") == cost("scaffold")


def test_unknown_algorithm_is_named() -> None:
    with pytest.raises(FedskewError, match="did you mean 'fedavg'"):
        cost("fedavgg")


def test_fedavg_is_the_measure_of_compute_and_none_is_cheaper() -> None:
    assert counted_compute("fedavg", 64) == 1
    assert all(counted_compute(name, 64) >= 1 for name in COSTS)
    assert counted_compute("fedprox", 8) > counted_compute("fedprox", 64)


def test_price_adds_up() -> None:
    found = price("scaffold", "mlp", 4_650, parties=10, batch_size=64, tuning_runs=1)
    assert found.bytes_per_party_round == 2 * 8 * 4_650
    assert found.round_bytes == 10 * 2 * 8 * 4_650
    assert found.client_state_bytes == 4 * 4_650


def test_every_algorithm_has_a_title() -> None:
    assert set(TITLES) == set(COSTS)

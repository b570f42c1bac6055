"""The networks: their sizes are those of the sources and of the price list, and each of them learns."""

import itertools

import numpy as np
import pytest
import torch

from fedskew.advisor.price import parameter_count
from fedskew.engine import find_algorithm
from fedskew.engine.blocks import Data
from fedskew.engine.looped import Looped
from fedskew.engine.models import MODELS, Factory, build, find_model, seeded
from fedskew.engine.plans import ModelSpec
from fedskew.engine.settings import Settings
from fedskew.engine.stacked import Stacked
from fedskew.engine.training import Federation, begin
from fedskew.profiles import FedskewError
from fedskew.profiles.keyed import generator

TABLES = ("linear", "mlp", "mlp_niid", "wide_mlp")
IMAGES = tuple(name for name in MODELS if name not in TABLES)


def size(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "outputs", "expected"),
    [
        ("cnn", (1, 28, 28), 10, 44_426),
        ("cnn", (3, 32, 32), 10, 62_006),
        ("mlp", (123,), 2, 4_650),
        ("mlp", (54,), 2, 2_442),
        ("mlp", (47_236,), 2, 1_512_266),
        ("linear", (3,), 2, 8),
        ("vgg9", (3, 32, 32), 10, 3_491_530),
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("resnet20", (3, 32, 32), 10, 272_474),  # the paper's 269,722 without convolutions and norms at two shortcuts
        ("resnet20_bn", (3, 32, 32), 10, 272_474),
        ("resnet50", (3, 32, 32), 10, 23_520_842),
        ("resnet50_bn", (3, 32, 32), 10, 23_520_842),
    ],
)
def test_networks_have_the_sources_number_of_parameters(
    name: str, shape: tuple[int, ...], outputs: int, expected: int
) -> None:
    assert expected == size(build(ModelSpec(name, shape, outputs)))


@pytest.mark.parametrize("name", MODELS)
def test_the_price_lists_formulas_count_what_the_networks_hold(name: str) -> None:
    shapes: list[tuple[int, int, int]] = [(1, 28, 28), (3, 32, 32), (2, 40, 24)]
    for shape, outputs in zip(shapes, (10, 2, 26), strict=True):
        expected = parameter_count(name, int(np.prod(shape)), outputs, shape)
        assert expected == size(build(ModelSpec(name, shape, outputs)))


def test_batch_norm_adds_the_sources_buffers_and_group_norm_none() -> None:
    counts = {}
    for name in ("resnet50_bn", "resnet18_bn", "resnet18", "resnet50"):
        network = build(ModelSpec(name, (3, 32, 32), 10))
        counts[name] = sum(b.numel() for b in network.buffers())
    assert counts == {"resnet50_bn": 53_173, "resnet18_bn": 9_620, "resnet18": 0, "resnet50": 0}


def test_every_group_norm_has_two_groups_and_every_shortcut_convolution_a_norm() -> None:
    network = build(ModelSpec("resnet18", (3, 32, 32), 10))
    norms = [part for part in network.modules() if isinstance(part, torch.nn.GroupNorm)]
    kernels = [part for part in network.modules() if isinstance(part, torch.nn.Conv2d)]
    assert {norm.num_groups for norm in norms} == {2}
    assert len(norms) == len(kernels) == 20
    assert sum(kernel.kernel_size == (1, 1) for kernel in kernels) == 3


@pytest.mark.parametrize("name", IMAGES)
def test_networks_answer_one_number_a_class_and_row_whatever_the_shape(name: str) -> None:
    for shape in ((1, 28, 28), (3, 20, 36)):
        network = build(ModelSpec(name, shape, 4)).eval()
        with torch.no_grad():
            assert network(torch.zeros(2, *shape)).shape == (2, 4)


@pytest.mark.parametrize("name", IMAGES)
def test_networks_for_images_refuse_tables_in_one_line(name: str) -> None:
    with pytest.raises(FedskewError, match="needs images"):
        build(ModelSpec(name, (123,), 2))


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("simple-cnn", "cnn"), ("VGG-9", "vgg9"), ("resnet18-gn", "resnet18"), ("ResNet-50-BN", "resnet50_bn")],
)
def test_the_price_lists_spellings_are_understood(spelling: str, name: str) -> None:
    assert find_model(spelling) is MODELS[name]
    assert parameter_count(spelling, 3072, 10, (3, 32, 32)) == parameter_count(name, 3072, 10, (3, 32, 32))


def test_niid_benchs_start_of_the_mlp_is_normal_with_constant_biases() -> None:
    network = seeded(ModelSpec("mlp_niid", (2000,), 10), 3)
    weights = next(iter(network.parameters())).detach()
    assert float(weights.std()) == pytest.approx(0.1, rel=0.02)
    assert all(bool((p == 0.1).all()) for p in network.parameters() if p.ndim == 1)


def pictures(shape: tuple[int, ...], rows: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with a bright bar whose place is the class."""
    rng = generator("pictures")
    y = np.arange(rows) % classes
    x = rng.normal(0, 0.3, (rows, *shape)).astype(np.float32)
    height = shape[1] // classes
    for row, label in enumerate(y):
        x[row, :, label * height : (label + 1) * height] += 1
    return torch.from_numpy(x), torch.from_numpy(y)


FEW = {
    "linear": (0.1, 4),
    "mlp": (0.1, 25),
    "mlp_niid": (0.1, 25),
    "wide_mlp": (0.03, 4),
    "cnn": (0.1, 20),
    "vgg9": (0.03, 12),
    "resnet18": (0.001, 4),
    "resnet18_bn": (0.01, 4),
    "resnet20": (0.01, 4),
    "resnet20_bn": (0.01, 4),
    "resnet50": (0.0001, 4),
    "resnet50_bn": (0.01, 4),
}
"""Learning rate and rounds."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_network_learns_in_a_few_steps(name: str) -> None:
    """Loss of the global model on its training rows, two parties, a few rounds of one epoch.

    A BatchNorm network is asked with the statistics of the batch: its running ones need hundreds of steps.
    """
    shape, classes = (3, 16, 16) if name in ("cnn", "vgg9") else (3, 8, 8), 2
    x, y = pictures(shape, 16 if "50" in name else 32, classes)
    silos = Federation(Data(x, y), np.asarray([0, len(x) // 2, len(x)]), ("a", "b"), np.full((2, classes), 0.5))
    lr, rounds = FEW[name]
    how = Settings(rounds=rounds, local_epochs=1, batch_size=8, lr=lr)
    run = begin(find_algorithm("fedavg"), {}, how, [0], federation=silos, model=ModelSpec(name, shape, classes))
    losses = []
    for state in itertools.chain([run.state], run.rounds()):
        logits = run.network.outputs(state.weights, state.buffers, x)[0].T
        if isinstance(run.network, Looped) and run.network.norms:
            with torch.no_grad():
                logits = run.network.module.train()(x)
        losses.append(float(torch.nn.functional.cross_entropy(logits, y)))
    assert losses[-1] < 0.8 * losses[0], (name, losses)


def textbook_cnn(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    """The paper's CNN as a textbook writes it: ReLU before pooling, nothing said of the memory format."""
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs)),
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_the_cnns_order_of_layers_and_memory_format_change_no_number(channels: int) -> None:
    x, y = pictures((channels, 16, 16), 12, 2)
    silos = Federation(Data(x.double(), y), np.asarray([0, 5, 12]), ("a", "b"), np.full((2, 2), 0.5))
    how = Settings(rounds=3, local_epochs=2, batch_size=4, lr=0.1, dtype="float64")
    runs = []
    for name in ("cnn", f"{__name__}:textbook_cnn"):
        run = begin(
            find_algorithm("fedavg"),
            {},
            how,
            [0],
            federation=silos,
            model=ModelSpec(name, (channels, 16, 16), 2),
        )
        for _ in run.rounds():
            pass
        assert isinstance(run.network, Looped)
        runs.append(run)
    ours, theirs = runs
    assert isinstance(ours.network, Looped)
    assert isinstance(theirs.network, Looped)
    assert (ours.network.channels_last, theirs.network.channels_last) == (True, False)
    torch.testing.assert_close(ours.state.weights, theirs.state.weights, rtol=0, atol=1e-12)


def test_a_network_of_linear_layers_is_stacked_and_any_other_looped() -> None:
    for name in MODELS:
        shape = (1, 16, 16)
        data = Data(torch.zeros(2, *shape), torch.zeros(2).long())
        silos, model = Federation(data, np.asarray([0, 2]), ("a",), np.ones((1, 2))), ModelSpec(name, shape, 2)
        run = begin(find_algorithm("fedavg"), {}, Settings(rounds=0), [0], federation=silos, model=model)
        assert isinstance(run.network, Stacked) == (name in TABLES)


class Half(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / 2


class Skipping(torch.nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = super().forward(x)
        return found + x.flatten(1)[:, :1]


class Doubled(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


def layers(first: torch.nn.Module) -> tuple[torch.nn.Module, ...]:
    return torch.nn.Flatten(), first, torch.nn.ReLU(), torch.nn.Linear(6, 3)


def subclass(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(*layers(Half(8, 6)))


def skipping(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    return Skipping(*layers(torch.nn.Linear(8, 6)))


def hooked(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    found = torch.nn.Sequential(*layers(torch.nn.Linear(8, 6)))
    found[1].register_forward_hook(lambda part, inputs, output: output / 2)
    return found


def parametrized(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    found = torch.nn.Sequential(*layers(torch.nn.Linear(8, 6)))
    torch.nn.utils.parametrize.register_parametrization(found[1], "weight", Doubled())
    return found


def replaced(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    found = torch.nn.Sequential(*layers(torch.nn.Linear(8, 6)))
    found[2].forward = torch.tanh
    return found


def late_flatten(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(10, 3))


@pytest.mark.parametrize("factory", [subclass, skipping, hooked, parametrized, replaced, late_flatten])
def test_a_network_that_only_looks_like_linear_layers_is_run_as_it_is(factory: Factory) -> None:
    shape = (1, 2, 4)
    data = Data(torch.randn(5, *shape, dtype=torch.float64), torch.arange(5) % 3)
    silos = Federation(data, np.asarray([0, 5]), ("a",), np.ones((1, 3)))
    how, model = Settings(rounds=1, dtype="float64"), ModelSpec(f"{__name__}:{factory.__name__}", shape, 3)
    run = begin(find_algorithm("moon"), {}, how, [0], federation=silos, model=model)
    assert isinstance(run.network, Looped)
    with torch.no_grad():
        expected = seeded(model, 0).double().eval()(data.x)
    torch.testing.assert_close(run.network.outputs(run.state.weights, run.state.buffers, data.x)[0].T, expected)
    next(run.rounds())

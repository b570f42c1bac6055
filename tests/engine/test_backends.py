"""The parts of the two backends: hand-written gradients, the optimizer's fast twin, schedules, devices, memory."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedskew.engine import find_algorithm
from fedskew.engine.algorithms import ALGORITHMS
from fedskew.engine.algorithms.base import Local
from fedskew.engine.blocks import Data, Optimizer, block_size, fused_sgd, plain_sgd
from fedskew.engine.devices import find_device
from fedskew.engine.plans import ModelSpec
from fedskew.engine.schedule import CHUNK, Lane, chunks
from fedskew.engine.settings import Settings
from fedskew.engine.stacked import Stacked
from fedskew.engine.training import Federation, advance, begin
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.keyed import generator


def optimizer(**changes):
    return replace(Optimizer(lr=0.05, momentum=0.9, weight_decay=1e-3, epochs=1, batch=4), **changes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_fast_optimizer_is_torch_optim_sgd_and_so_is_the_plain_one(dtype: torch.dtype, momentum: float) -> None:
    """Five steps on (3, 48) numbers."""
    if not hasattr(torch, "_fused_sgd_"):
        pytest.skip("this torch has no fused step; the plain one is used")
    rng, how = torch.Generator().manual_seed(0), optimizer(momentum=momentum)
    start = torch.randn(3, 48, generator=rng, dtype=dtype)
    weights = torch.nn.Parameter(start.clone())
    book = torch.optim.SGD([weights], lr=how.lr, momentum=momentum, weight_decay=how.weight_decay, foreach=False)
    found = [(start.clone(), torch.zeros_like(start), step) for step in (fused_sgd, plain_sgd)]
    for _ in range(5):
        gradient = torch.randn(3, 48, generator=rng, dtype=dtype)
        weights.grad = gradient.clone()
        book.step()
        for w, velocity, step in found:
            step(w, gradient.clone(), velocity, how)
    for w, _, _ in found:
        torch.testing.assert_close(w, weights.detach(), rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-14)


def test_the_fast_optimizers_bits_do_not_depend_on_where_a_row_lies() -> None:
    rng, how = torch.Generator().manual_seed(0), optimizer()
    w, g, v = torch.randn(3, 7, 48, generator=rng)
    alone = [(w[i : i + 1].clone(), g[i : i + 1].clone(), v[i : i + 1].clone()) for i in range(7)]
    fused_sgd(w, g, v, how)
    for i, (one, gradient, velocity) in enumerate(alone):
        fused_sgd(one, gradient, velocity, how)
        assert torch.equal(one[0], w[i])


def relu_everywhere(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    """Two layers without a ReLU between, and one after the last."""
    nn = torch.nn
    layers = (nn.Linear(math.prod(shape), 7), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, outputs), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *layers)


@pytest.mark.parametrize("target", ["classes", "numbers"])
@pytest.mark.parametrize("name", ["mlp", "linear", f"{__name__}:relu_everywhere"])
def test_gradients_by_hand_are_those_of_autograd(name: str, target: str) -> None:
    """One full-batch step of SGD without momentum, so the change of the weights is the gradient."""
    rng = generator("by hand")
    classes = target == "classes"
    x = torch.from_numpy(rng.normal(size=(9, 6)))
    y = torch.from_numpy(rng.integers(0, 3, 9) if classes else rng.normal(size=9))
    outputs = 3 if classes else 1
    silos = Federation(Data(x, y), np.asarray([0, 9]), ("a",), np.full((1, outputs), 1 / outputs))
    how = Settings(rounds=1, local_epochs=1, batch_size=9, lr=1.0, momentum=0.0, weight_decay=0.0, dtype="float64")
    run = begin(find_algorithm("fedavg"), {}, how, [4], federation=silos, model=ModelSpec(name, (6,), outputs))
    layout = run.network.layout
    leaves = [view[0].clone().requires_grad_() for view in layout.views(run.state.weights)]
    assert isinstance(run.network, Stacked)
    answers = run.network.forward([leaf.unsqueeze(0) for leaf in leaves], x.T.unsqueeze(0).clone())[0][0].T
    loss = torch.nn.functional.cross_entropy(answers, y) if classes else ((answers[:, 0] - y) ** 2).mean()
    book = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, leaves)])
    before = run.state.weights.clone()
    advance(run)
    found = (before - run.state.weights)[0, : layout.size]
    torch.testing.assert_close(found, book, rtol=0, atol=1e-14)
    assert float(book.abs().max()) > 1e-3


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a.steady], ids=lambda a: a.name)
def test_a_steady_step_does_not_look_at_the_weights(algorithm) -> None:
    rng = torch.Generator().manual_seed(0)
    first = algorithm.init(torch.randn(2, 16, generator=rng), algorithm.hyper)
    own, server = ({n: torch.randn(v.shape, generator=rng) for n, v in s.items()} for s in (first.own, first.server))
    start, here, there = torch.randn(3, 2, 16, generator=rng)
    steps = [algorithm.step(Local(w, start, own, server, 0.1), algorithm.hyper) for w in (here, there)]
    assert torch.equal(*steps)


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_schedule_is_every_lanes_epochs_in_batches(epochs: int) -> None:
    """Against lists: lanes of 70, 9, 5 and 0 rows, batches of 4; padding has weight 0."""
    lanes = [Lane(0, 3, i, f"p{i}", 100 * i, 100 * i + rows) for i, rows in enumerate((70, 9, 5, 0))]
    found = list(chunks(lanes, 2, epochs, 4, torch.float64))
    rows, weights = torch.cat([c.rows for c in found]), torch.cat([c.weights for c in found])
    lengths = np.concatenate([c.lengths for c in found])
    assert all(len(c.rows) <= CHUNK for c in found)
    assert rows.shape == weights.shape == (epochs * 18, 4, 16)
    for i, lane in enumerate(lanes):
        expected = []
        for epoch in range(epochs):
            order = generator("batches", 3, 2, lane.name, epoch).permutation(lane.rows) + lane.first
            expected += [order[k : k + 4].tolist() for k in range(0, lane.rows, 4)]
        assert [r[:n].tolist() for r, n in zip(rows[:, i], lengths[:, i], strict=True) if n] == expected
        for row, n in zip(weights[:, i], lengths[:, i], strict=True):
            assert row.tolist() == [1 / max(n, 1)] * n + [0.0] * (16 - n)


def test_a_block_holds_more_lanes_on_an_accelerator() -> None:
    how: Any = {"parameters": 4650, "activations": 58, "inputs": 123, "batch": 64}
    assert block_size(**how) == 45
    assert block_size(**how, device="cuda") == 1024
    assert block_size(10**8, 1, 1, 64, device="cuda") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_device_that_is_not_there_is_refused_in_one_line() -> None:
    silos = Federation(Data(torch.zeros(2, 3), torch.zeros(2).long()), np.asarray([0, 2]), ("a",), np.ones((1, 2)))
    with pytest.raises(EnvironmentFaultError, match="try device=cpu") as caught:
        begin(
            find_algorithm("fedavg"),
            {},
            Settings(device="cuda"),
            [0],
            federation=silos,
            model=ModelSpec("mlp", (3,), 2),
        )
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_device_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(FedskewError, match="unknown device 'tpu'") as caught:
        find_device("tpu")
    assert caught.value.exit_code == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "moon", "fedadam"])
def test_an_accelerator_gives_the_cpus_weights_in_float64(name: str, model: str) -> None:
    shape = (1, 16, 16)
    x = torch.from_numpy(generator("cuda").normal(size=(30, *shape)))
    silos = Federation(Data(x, torch.arange(30) % 2), np.asarray([0, 10, 30]), ("a", "b"), np.full((2, 2), 0.5))
    found = []
    for device in ("cpu", "cuda"):
        how = Settings(rounds=2, local_epochs=2, batch_size=8, dtype="float64", device=device)
        run = begin(find_algorithm(name), {}, how, (0, 1), federation=silos, model=ModelSpec(model, shape, 2))
        for _ in run.rounds():
            pass
        found.append(run.state.weights.cpu())
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)

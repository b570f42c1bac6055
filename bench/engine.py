"""How fast the engine is: lane-steps a second against a plain per-party loop, in one run.

    python bench/engine.py [--rounds R] [CASE...]

For each case it times, interleaved, medians of CPU seconds: (a) a plain loop, in-memory tensors and torch.optim.SGD,
(b) the same with a DataLoader, (c) the engine with one worker; and a 512 x 512 x 512 float32 product as the yardstick.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from torch import nn

from fedskew.engine import find_algorithm
from fedskew.engine.blocks import Data
from fedskew.engine.models import build
from fedskew.engine.plans import ModelSpec
from fedskew.engine.settings import Settings
from fedskew.engine.training import Federation, advance, begin

CASES = {
    # name: model, shape, classes, parties, seeds, rows a party (None: Dirichlet(0.5) shares of 6,400)
    "a9a": ("mlp", (123,), 2, 10, 8, 640),
    "a9a_ragged": ("mlp", (123,), 2, 10, 8, None),
    "letter": ("mlp", (16,), 26, 10, 8, 640),
    "mnist_cnn": ("cnn", (1, 28, 28), 10, 4, 1, 320),
    "cifar_cnn": ("cnn", (3, 32, 32), 10, 4, 1, 320),
}


def federation(shape, classes, parties, rows, rng):
    sizes = np.full(parties, rows) if rows else (rng.dirichlet([0.5] * parties) * 640 * parties).astype(int) + 1
    n = int(sizes.sum())
    x = torch.from_numpy(rng.normal(size=(n, *shape)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, classes, n))
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return Federation(Data(x, y), bounds, tuple(map(str, range(parties))), np.full((parties, classes), 1 / classes))


def plain(fed, spec, seeds, *, loader):
    """One local epoch of every party and seed, one after the other; returns the number of steps."""
    steps, loss = 0, nn.CrossEntropyLoss()
    for _ in range(seeds):
        for first, last in zip(fed.bounds, fed.bounds[1:], strict=False):
            module = build(spec)
            optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)
            x, y = fed.data.x[first:last], fed.data.y[first:last]
            if loader:
                batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 64, shuffle=True)
            else:
                order = torch.randperm(len(x))
                batches = ((x[order[i : i + 64]], y[order[i : i + 64]]) for i in range(0, len(x), 64))
            for a, b in batches:
                optimizer.zero_grad()
                loss(module(a), b).backward()
                optimizer.step()
                steps += 1
    return steps


def stacked(run):
    advance(run)
    return len(run.seeds) * int(np.ceil(np.diff(run.federation.bounds) / 64).sum())


def timed(work):
    start = time.process_time()
    steps = work()
    return (time.process_time() - start) / steps


def product():
    a = torch.randn(512, 512)
    start = time.process_time()
    for _ in range(20):
        a = torch.mm(a, a).mul_(1e-3)
    return 20 * 2 * 512**3 / (time.process_time() - start) / 1e9


def flops(spec):
    """Forward and backward of one step of 64 rows, without the gradient of the input."""
    module, total, first = build(spec), 0, True
    counts = []

    def count(layer, inputs, output):
        nonlocal first
        outputs = output.numel() / (output.shape[1] if isinstance(layer, nn.Conv2d) else 1)
        size = layer.weight.numel() * (outputs if isinstance(layer, nn.Conv2d) else len(output) if False else 1)
        if isinstance(layer, nn.Linear):
            size = layer.weight.numel() * output.shape[0]
        counts.append(2 * size * (2 if first else 3))
        first = False

    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer.register_forward_hook(count)
    module(torch.zeros(64, *spec.shape))
    total = sum(counts)
    return total


def measure(name, rounds):
    model, shape, classes, parties, seeds, rows = CASES[name]
    spec = ModelSpec(model, shape, classes)
    fed = federation(shape, classes, parties, rows, np.random.default_rng(0))
    runs = {
        alg: begin(
            find_algorithm(alg),
            {},
            Settings(rounds=10**6, local_epochs=1),
            range(seeds),
            federation=fed,
            model=spec,
        )
        for alg in ("fedavg", "fedprox", "scaffold", "fednova")
    }
    times: dict[str, list[float]] = {}
    works = {
        "plain": lambda: plain(fed, spec, max(1, seeds // 4), loader=False),
        "loader": lambda: plain(fed, spec, max(1, seeds // 4), loader=True),
        **{alg: (lambda run=run: stacked(run)) for alg, run in runs.items()},
    }
    for work in works.values():
        work()
    peaks = []
    for _ in range(rounds):
        peaks.append(product())
        for key, work in works.items():
            times.setdefault(key, []).append(timed(work))
    micro = {key: 1e6 * statistics.median(values) for key, values in times.items()}
    peak, work = statistics.median(peaks), flops(spec)
    fedavg = micro["fedavg"]
    print(
        f"{name:12} plain {micro['plain']:7.0f} us  loader {micro['loader']:7.0f} us  engine {fedavg:7.1f} us a lane-step"
        f"  = {micro['plain'] / fedavg:5.1f} x plain, {micro['loader'] / fedavg:5.1f} x loader, "
        f"{100 * work / fedavg / 1e3 / peak:4.1f} % of {peak:.0f} GFLOP/s; "
        + ", ".join(f"{alg} {micro[alg] / fedavg:.2f} x fedavg" for alg in runs if alg != "fedavg")
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    for case in chosen.cases:
        measure(case, chosen.rounds)

"""How fast the engine is: lane-steps a second against a plain per-party loop, in one run.

    python bench/engine.py [--rounds R] [--workers] [--memory] [CASE...]

For each case it times, interleaved, medians of CPU seconds of one thread: (a) a plain loop with in-memory tensors and
torch.optim.SGD, (b) the same with a DataLoader, (c) the engine; and a 512 x 512 x 512 float32 product as the yardstick.
The plain loops run the network as a textbook writes it (the CNN: ReLU before pooling, no memory format named); "tuned"
is the plain loop over the engine's own network. ``--workers`` times whole trials by the clock, on one process and on
two, beside the plain loop on one thread and on two. ``--memory`` gives the peak of 1,000 parties with the CNN, 10 % of
them a round. With other work on the machine only the ratios mean something, and those by the clock nothing.

2026-11-30, 2 cores of an AMD EPYC (family 25, AVX2), torch 2.13, other processes stopped for a9a, a9a_ragged, resnet18
and --workers, few others for the rest; medians of 5 rounds (2 for resnet18):
    case            plain   tuned   loader (times the engine's CPU time a lane-step)   share of the 512^3 product
    a9a             12.5    12.2    18.9      (15.0, 14.0, 21.9 in another run)        19 to 23 %
    a9a_ragged      12.3    12.2    19.8                                               17 to 20 %
    a9a_100         12.8    12.9    22.3                                               17 %
    letter          22.1    21.0    28.2                                               13 %
    letter_ragged   19.6    17.8    28.5                                               10 %
    letter_100      19.8    17.0    31.5                                               14 %
    mnist_cnn        1.20    1.08    1.31                                              16 %
    cifar_cnn        1.16    1.24    1.19                                              24 %
    resnet18         0.96    0.97    0.96                                              68 %
    a local step against FedAvg's, a9a / a9a_ragged / a9a_100 / letter / letter_ragged / letter_100 / mnist_cnn:
    FedProx 1.05 1.13 1.07 1.05 1.00 0.97 1.00, SCAFFOLD 1.03 1.12 1.09 1.05 0.92 0.97 0.96,
    FedNova 0.99 1.00 1.02 1.10 0.84 0.96 0.96, FedAvgM 1.10 1.14 0.94 1.04 0.89 0.97 0.97,
    FedAdam 1.01 1.06 1.03 0.99 0.91 1.00 0.96, WSM 1.01 1.09 1.06 1.10 0.93 1.11 0.97,
    FedDyn 1.24 1.12 1.19 1.09 1.01 1.24 0.85, MOON 1.89 1.58 2.01 2.00 2.20 2.04 1.88
    --workers, by the clock: two workers 1.79 (a9a), 1.83 (letter), 1.95 (mnist_cnn) times one; against the best plain
    loop one worker 12.5, 17.6, 0.89 and two 22.4, 32.1, 1.75
    --memory: FedAvg 435, 465, 474 MB after 1, 20, 60 rounds, SCAFFOLD 591, 724, 724 (999 of 1,000 parties seen)
The 28 % of the product once aimed at for a9a is not reached: its layers are (64, 123) x (123, 32) and smaller, and
between the products the engine reads and writes activations, masks and weights once each; fusing those needs a compiled
kernel.
"""

import argparse
import resource
import statistics
import time

import numpy as np
import torch
from torch import nn

from fedskew.engine import find_algorithm
from fedskew.engine.blocks import Data
from fedskew.engine.models import build
from fedskew.engine.plans import ModelSpec, Trial
from fedskew.engine.pool import Workers
from fedskew.engine.settings import Settings
from fedskew.engine.splits import Prepared
from fedskew.engine.training import Federation, advance, begin

CASES = {
    # name: model, shape, classes, parties, seeds, rows a party (None: Dirichlet(0.5) shares of 640 a party)
    "a9a": ("mlp", (123,), 2, 10, 8, 640),
    "a9a_ragged": ("mlp", (123,), 2, 10, 8, None),
    "a9a_100": ("mlp", (123,), 2, 100, 1, 640),
    "letter": ("mlp", (16,), 26, 10, 8, 640),
    "letter_ragged": ("mlp", (16,), 26, 10, 8, None),
    "letter_100": ("mlp", (16,), 26, 100, 1, 640),
    "mnist_cnn": ("cnn", (1, 28, 28), 10, 4, 1, 320),
    "cifar_cnn": ("cnn", (3, 32, 32), 10, 4, 1, 320),
    "resnet18": ("resnet18", (3, 32, 32), 10, 2, 1, 20),
}
BATCH = {"resnet18": 20}
EPOCHS = 4  # of the engine's rounds; the paper's are 10, which would flatter it: states are fetched once a round
ALGORITHMS = ("fedavg", "fedprox", "scaffold", "fednova", "fedavgm", "fedadam", "fedavg+wsm", "feddyn", "moon")


def textbook(spec):
    """The network as one would write it without thought of speed."""
    if spec.name != "cnn":
        return build(spec).to(memory_format=torch.contiguous_format)
    channels, height, width = spec.shape
    flat = 16 * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(flat, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, spec.outputs)),
    )


def federation(shape, classes, parties, rows, rng):
    sizes = np.full(parties, rows) if rows else (rng.dirichlet([0.5] * parties) * 640 * parties).astype(int) + 1
    n = int(sizes.sum())
    x = torch.from_numpy(rng.normal(size=(n, *shape)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, classes, n))
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return Federation(Data(x, y), bounds, tuple(map(str, range(parties))), np.full((parties, classes), 1 / classes))


def plain(fed, make, seeds, batch, *, loader=False):
    """One local epoch of every party and seed, one after the other; returns the number of steps."""
    steps, loss = 0, nn.CrossEntropyLoss()
    for _ in range(seeds):
        for first, last in zip(fed.bounds, fed.bounds[1:], strict=False):
            module = make()
            optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)
            x, y = fed.data.x[first:last], fed.data.y[first:last]
            if loader:
                batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch, shuffle=True)
            else:
                order = torch.randperm(len(x))
                batches = ((x[order[i : i + batch]], y[order[i : i + batch]]) for i in range(0, len(x), batch))
            for a, b in batches:
                optimizer.zero_grad()
                loss(module(a), b).backward()
                optimizer.step()
                steps += 1
    return steps


def engine(run):
    advance(run)
    batches = int(np.ceil(np.diff(run.federation.bounds) / run.settings.batch_size).sum())
    return len(run.seeds) * run.settings.local_epochs * batches


def timed(work, clock=time.process_time):
    start = clock()
    steps = work()
    return (clock() - start) / steps


def product():
    a = torch.randn(512, 512)
    start = time.process_time()
    for _ in range(20):
        a = torch.mm(a, a).mul_(1e-3)
    return 20 * 2 * 512**3 / (time.process_time() - start) / 1e9


def flops(spec, batch):
    """Forward and backward of one step, without the gradient of the input: 4 or 6 a weight, row and place."""
    module, counts = build(spec), []

    def count(layer, _, output):
        places = output[0, 0].numel() if isinstance(layer, nn.Conv2d) else 1
        counts.append(2 * layer.weight.numel() * places * batch * (3 if counts else 2))

    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer.register_forward_hook(count)
    module(torch.zeros(1, *spec.shape))
    return sum(counts)


def case(name):
    model, shape, classes, parties, seeds, rows = CASES[name]
    fed = federation(shape, classes, parties, rows, np.random.default_rng(0))
    return ModelSpec(model, shape, classes), fed, seeds, BATCH.get(name, 64)


def measure(name, rounds):
    spec, fed, seeds, batch = case(name)
    how = Settings(rounds=10**6, local_epochs=EPOCHS, batch_size=batch)
    runs = {
        alg: begin(find_algorithm(alg), {}, how, range(seeds), federation=fed, model=spec)
        for alg in (ALGORITHMS if name != "resnet18" else ALGORITHMS[:1])
    }
    few = max(1, seeds // 4)
    works = {
        "plain": lambda: plain(fed, lambda: textbook(spec), few, batch),
        "tuned": lambda: plain(fed, lambda: build(spec), few, batch),
        "loader": lambda: plain(fed, lambda: textbook(spec), few, batch, loader=True),
        **{alg: (lambda run=run: engine(run)) for alg, run in runs.items()},
    }
    times: dict[str, list[float]] = {key: [] for key in works}
    for work in works.values():
        work()
    peaks = []
    for _ in range(rounds):
        peaks.append(product())
        for key, work in works.items():
            times[key].append(timed(work))
    micro = {key: 1e6 * statistics.median(values) for key, values in times.items()}
    peak, fedavg = statistics.median(peaks), micro["fedavg"]
    print(
        f"{name:13} plain {micro['plain']:7.0f} us  tuned {micro['tuned']:7.0f} us  loader {micro['loader']:7.0f} us  "
        f"engine {fedavg:8.1f} us a lane-step = {micro['plain'] / fedavg:5.2f} x plain, "
        f"{micro['tuned'] / fedavg:5.2f} x tuned, {micro['loader'] / fedavg:5.2f} x loader, "
        f"{100 * flops(spec, batch) / fedavg / 1e3 / peak:4.1f} % of {peak:.0f} GFLOP/s\n"
        f"{'':13} against fedavg: "
        + ", ".join(
            f"{alg} {statistics.median(a / b for a, b in zip(times[alg], times['fedavg'], strict=True)):.2f}"
            for alg in runs
            if alg != "fedavg"
        ),
        flush=True,
    )


def workers(name, rounds):
    """Wall seconds of four trials by one process and by two, and of the plain loop on one thread and on two."""
    spec, fed, seeds, batch = case(name)
    x, y = fed.data.x.numpy(), fed.data.y.numpy()
    data = Prepared(x, y, fed.bounds, fed.names, fed.shares, x[:64], y[:64], None, spec.outputs)
    how = Settings(rounds=4 if spec.name == "cnn" else 30, local_epochs=1, batch_size=batch)
    trials = [Trial(find_algorithm("fedavg"), {}, how, tuple(range(k, k + seeds)), spec) for k in (0, 100, 200, 300)]
    steps = sum(how.rounds * seeds * int(np.ceil(np.diff(fed.bounds) / batch).sum()) for _ in trials)
    times: dict[str, list[float]] = {key: [] for key in ("one worker", "two workers", "one thread", "two threads")}
    with Workers({"main": data}, 2) as two, Workers({"main": data}, 1) as one:
        two.run(trials)
        for _ in range(rounds):
            for key, pool in (("one worker", one), ("two workers", two)):
                start = time.monotonic()
                pool.run(trials)
                times[key].append((time.monotonic() - start) / steps)
            for key, threads in (("one thread", 1), ("two threads", 2)):
                torch.set_num_threads(threads)
                times[key].append(timed(lambda: plain(fed, lambda: textbook(spec), 1, batch), time.monotonic))
                torch.set_num_threads(1)
    took = {key: statistics.median(values) for key, values in times.items()}
    best = min(took["one thread"], took["two threads"])
    print(
        f"{name:13} by the clock, us a step: "
        + ", ".join(f"{key} {1e6 * value:.0f}" for key, value in took.items())
        + f"; two workers {took['one worker'] / took['two workers']:.2f} x one; best plain loop against one worker "
        f"{best / took['one worker']:.2f} x, against two {best / took['two workers']:.2f} x",
        flush=True,
    )


def memory():
    """Peak memory of FedAvg and SCAFFOLD: 1,000 parties, the CNN, 10 % participation; after rounds 1, 20 and 60."""
    fed = federation((1, 28, 28), 10, 1000, 20, np.random.default_rng(0))
    spec, how = ModelSpec("cnn", (1, 28, 28), 10), Settings(rounds=60, local_epochs=1, participation=0.1)
    for alg in ("fedavg", "scaffold"):
        run = begin(find_algorithm(alg), {}, how, [0], federation=fed, model=spec)
        peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 for _ in run.rounds()]
        seen = {name: int(store.seen.sum()) for name, store in run.state.own.items()}
        print(
            f"{alg:13} peak MB after round 1: {peaks[0]}, 20: {peaks[19]}, 60: {peaks[-1]}; parties seen: {seen}",
            flush=True,
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", action="store_true")
    parser.add_argument("--memory", action="store_true")
    chosen = parser.parse_args()
    if chosen.memory:
        memory()
    else:
        for item in chosen.cases:
            (workers if chosen.workers else measure)(item, chosen.rounds)

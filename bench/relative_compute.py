"""Seconds of a round against FedAvg's, by algorithm, on our engine: beside the arithmetic that the price counts.

    OMP_NUM_THREADS=1 python bench/relative_compute.py

Ten parties of 640 random rows, batch 64, two local epochs; algorithms take turns, the least of 7 rounds counts, and
ratios are of the same run.

Measured in November 2026, on two shared cores under load: MLP on 20 features, FedProx 0.80, SCAFFOLD 0.93, FedNova
0.81; 128-64 MLP on 784 features, FedProx 1.22, SCAFFOLD 1.20, FedNova 1.09. FedNova's local work is FedAvg's, so such
a machine does not resolve differences under 20 %, and the price shows the counted figure.
"""

import time

import numpy as np
import torch

from fedskew.advisor.price import COSTS, relative_compute
from fedskew.engine.algorithms import ALGORITHMS
from fedskew.engine.blocks import Data
from fedskew.engine.plans import ModelSpec
from fedskew.engine.settings import Settings
from fedskew.engine.training import Federation, begin

PARTIES, ROWS, CLASSES, BATCH, REPEATS = 10, 640, 10, 64, 7


def seconds(model: str, features: int) -> dict[str, float]:
    """Least seconds of a round of each algorithm."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(PARTIES * ROWS, features)).astype(np.float32))
    data = Data(x, torch.from_numpy(rng.integers(0, CLASSES, PARTIES * ROWS)))
    shares = np.full((PARTIES, CLASSES), 1 / CLASSES)
    silos = Federation(data, np.arange(PARTIES + 1) * ROWS, tuple(map(str, range(PARTIES))), shares)
    settings = Settings(rounds=REPEATS + 1, local_epochs=2, batch_size=BATCH)
    spec = ModelSpec(model, (features,), CLASSES)
    rounds = {
        algorithm.name: begin(algorithm, {}, settings, [0], federation=silos, model=spec).rounds()
        for algorithm in ALGORITHMS
        if algorithm.name in COSTS
    }
    least = dict.fromkeys(rounds, float("inf"))
    for _ in range(REPEATS):
        for name, run in rounds.items():
            start = time.perf_counter()
            next(run)
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def main() -> None:
    """Print one line an algorithm and model."""
    torch.set_num_threads(1)
    for model, features in (("mlp", 20), ("wide_mlp", 784)):
        found = seconds(model, features)
        for name, value in found.items():
            ratio = value / found["fedavg"]
            counted = relative_compute(name, BATCH)
            print(f"{model:<9}{name:<11}{value * 1e3:8.1f} ms  {ratio:5.2f} x FedAvg, counted {counted:.2f}")


if __name__ == "__main__":
    main()

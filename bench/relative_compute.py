"""Seconds of a round against FedAvg's, by algorithm, on our engine: beside the arithmetic that the price counts.

    OMP_NUM_THREADS=1 python bench/relative_compute.py

Ten parties of 640 random rows, batch 64, two local epochs; algorithms take turns, the least of 7 rounds counts, and
ratios are of the same run.

2026-11-30, one core of an AMD EPYC, other processes stopped, MLP on 20 features / 128-64 MLP on 784: FedProx 1.09 /
1.35, SCAFFOLD 1.14 / 1.37, FedNova 1.07 / 1.07, FedAvgM 1.10 / 1.26, FedDyn 1.19 / 1.44, MOON 2.36 / 2.31. FedNova's
local work is FedAvg's, and so is FedAvgM's: differences under 0.1 (0.25 for the wide one) are noise. The price shows
the middle of the eight cases of bench/engine.py.
"""

import time

import numpy as np
import torch

from fedskew.advisor.price import COSTS, counted_compute
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
            counted = counted_compute(name, BATCH)
            print(f"{model:<9}{name:<11}{value * 1e3:8.1f} ms  {ratio:5.2f} x FedAvg, counted {counted:.2f}")


if __name__ == "__main__":
    main()

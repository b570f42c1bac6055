"""Learning curves of all candidates: three data sets, three partitions each; the pictures of docs/algorithms.md.

    python bench/curves.py [--only letter] [--pictures docs/pictures]

a9a, LetterRecognition and MNIST, 10 parties each: IID, label Dirichlet 0.5, quantity Dirichlet 0.5. At most 10,000
rows, the MLP (on MNIST's pixels too: the CNN's steps cost far more), 50 rounds of 5 local epochs, batch 64, the
local rate 0.01 with momentum 0.9 and every algorithm at its own defaults: nothing is tuned, so that a curve shows the
mechanism and not the tuning. 2 seeds; the line is their mean. FedBN is left out: in networks without BatchNorm it is
FedAvg bit for bit. One JSON line a setting goes to stdout and a picture to --pictures.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np

from fedskew import profile, read_table, simulate, validate
from fedskew.engine import ALGORITHMS
from fedskew.profiles.steps import fednova_weight_sum, step_ratio

DATA = Path(os.environ.get("FEDSKEW_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SETS = {"a9a": "adult_a9a.npz", "letter": "letterrecognition.npz", "mnist": "mnist.npz"}
SPLITS = {
    "IID": ("iid", {}),
    "label Dirichlet 0.5": ("label_dirichlet", {"alpha": 0.5}),
    "quantity Dirichlet 0.5": ("quantity_dirichlet", {"alpha": 0.5}),
}
ROUNDS, EPOCHS, SEEDS, ROWS = 50, 5, 2, 10_000


def curves(name, split):
    strategy, parameters = SPLITS[split]
    table = read_table(DATA / SETS[name], partitioned=False)
    silos = simulate(table, strategy, num_partitions=10, seed=1, **parameters)
    candidates = [a.name for a in ALGORITHMS if a.name != "fedbn"]
    budget = {"rounds": ROUNDS, "local_epochs": EPOCHS, "seeds": SEEDS, "max_rows": ROWS}
    found = validate(silos, candidates, **budget, model="mlp", tuning=False, references=False, jobs=1)
    sizes = np.asarray(profile(silos).counts).sum(1)
    sizes = sizes * min(1.0, ROWS / sizes.sum())
    return {
        "data": name,
        "split": split,
        "step_ratio": step_ratio(sizes.astype(int), EPOCHS, 64),
        "A_momentum": fednova_weight_sum(sizes.astype(int), EPOCHS, 64, 0.9),
        "status": {c.algorithm: c.status for c in found.candidates},
        "diverged_at": {c.algorithm: c.diverged_at for c in found.candidates if c.diverged_at},
        "final": {c.algorithm: c.accuracy.by_seed for c in found.candidates},
        "curves": {c.algorithm: c.accuracy.curve for c in found.candidates},
    }


def draw(name, lines, folder):
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    colors = [*plt.get_cmap("tab10").colors, (0.0, 0.0, 0.0)]
    figure, axes = plt.subplots(1, len(lines), figsize=(11, 3.6), sharey=True, layout="constrained")
    for panel, line in zip(np.atleast_1d(axes), lines, strict=True):
        for color, (algorithm, seeds) in zip(colors, line["curves"].items(), strict=False):
            length = min((len(seed) for seed in seeds), default=0)
            if length:
                mean = 100 * np.mean([seed[:length] for seed in seeds], axis=0)
                panel.plot(range(1, length + 1), mean, color=color, linewidth=1.2, label=algorithm)
        panel.set(title=f"{name}, {line['split']}", xlabel="round", xlim=(1, ROUNDS))
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", linewidth=0.4, alpha=0.5)
    np.atleast_1d(axes)[0].set_ylabel("test accuracy in %, mean of 2 seeds")
    figure.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside lower center", ncols=11, fontsize=7)
    mpl.rcParams["svg.hashsalt"] = "fedskew"
    figure.savefig(folder / f"curves-{name}.svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SETS)
    parser.add_argument("--pictures", type=Path)
    asked = parser.parse_args()
    for name in [asked.only] if asked.only else SETS:
        lines = []
        for split in SPLITS:
            lines.append(curves(name, split))
            print(json.dumps(lines[-1]), flush=True)
        if asked.pictures:
            draw(name, lines, asked.pictures)


if __name__ == "__main__":
    main()

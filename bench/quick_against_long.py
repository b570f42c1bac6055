"""Do quick verdicts foresee long runs? Four data sets, six candidates: preset quick beside 50 rounds of 5 local epochs.

    python bench/quick_against_long.py [NAME...]

LetterRecognition under label Dirichlet 0.1, a9a with one class a party, covtype by region, HAPT by subject. Both runs
are tuned, on 8,000 rows at most, 5 seeds; the long one has 50 rounds of 5 local epochs where quick has 30 of 2 to 6.
Prints one JSON line a run: verdict, scores, ranking and CPU seconds. The table stands in docs/validation.md.
"""

import argparse
import json
import os
import time
from pathlib import Path

from fedskew import profile, read_table, recommend, simulate, validate

DATA = Path(os.environ.get("FEDSKEW_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CANDIDATES = ["fedavg", "fedprox", "scaffold", "fednova", "fedavgm", "fedadam"]
BUDGETS = {"quick": {}, "long": {"rounds": 50, "local_epochs": 5}}


def dealt(name, strategy, **parameters):
    return simulate(read_table(DATA / name, partitioned=False), strategy, num_partitions=10, seed=1, **parameters)


SILOS = {
    "letter": lambda: dealt("letterrecognition.npz", "label_dirichlet", alpha=0.1),
    "a9a": lambda: dealt("adult_a9a.npz", "label_count", num_classes_per_partition=1),
    "covtype": lambda: read_table(DATA / "covtype.npz"),
    "hapt": lambda: read_table(DATA / "hapt_har.npz", features="F"),
}


def compared(name, budget, silos, recommended):
    began = time.process_time()
    found = validate(silos, CANDIDATES, recommended=recommended, jobs=1, references=False, **BUDGETS[budget])
    return {
        "silos": name,
        "budget": budget,
        "recommended": recommended,
        "verdict": found.verdict.kind,
        "winner": found.verdict.winner,
        "text": found.verdict.text,
        "accuracy": {c.algorithm: [c.accuracy.mean, c.accuracy.lower, c.accuracy.upper] for c in found.candidates},
        "by_seed": {c.algorithm: c.accuracy.by_seed for c in found.candidates},
        "hyperparameters": {c.algorithm: c.hyperparameters for c in found.candidates},
        "status": {c.algorithm: c.status for c in found.candidates},
        "leader": found.ranking.leader if found.ranking else None,
        "settled_at": found.ranking.settled_at if found.ranking else None,
        "cpu_seconds": time.process_time() - began,
        "rounds": found.settings["rounds"],
        "local_epochs": found.settings["local_epochs"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SILOS))
    for name in parser.parse_args().names:
        silos = SILOS[name]()
        recommended = recommend(profile(silos)).algorithm
        for budget in BUDGETS:
            print(json.dumps(compared(name, budget, silos, recommended)), flush=True)


if __name__ == "__main__":
    main()

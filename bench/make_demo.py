"""Write advisor/demo.npz: the UCI optical digits that scikit-learn ships, split into six silos with visible label skew.

Run once, by hand: python bench/make_demo.py. The split draws each digit's shares over the silos from Dir(0.4).
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

OUT = Path(__file__).resolve().parents[1] / "advisor" / "demo.npz"
SILOS = ("Ashford", "Brook", "Calder", "Dunmore", "Elm", "Fairway")

if __name__ == "__main__":
    digits = load_digits()
    rng = np.random.default_rng(7)
    party = np.empty(len(digits.target), dtype=np.int64)
    for digit in range(10):
        rows = rng.permutation(np.flatnonzero(digits.target == digit))
        cuts = (np.cumsum(rng.dirichlet([0.4] * len(SILOS)))[:-1] * len(rows)).astype(np.int64)
        for silo, part in enumerate(np.split(rows, cuts)):
            party[part] = silo
    images = (digits.images * 15.9375).astype(np.uint8)  # 0..16 to 0..255
    np.savez_compressed(OUT, x=images, y=digits.target.astype(np.uint8), party=np.asarray(SILOS)[party])
    counts = np.zeros((len(SILOS), 10), np.int64)
    np.add.at(counts, (party, digits.target), 1)
    print(OUT.stat().st_size, "bytes")
    print(counts)

"""How often the feature and concept tests fire where nothing is wrong, and how far their indices then are from 0.

Feature: rows of ten correlated Gaussian columns whose mean depends on the class, dealt out to parties regardless of the
features (IID, or with label or quantity skew). Concept: no shift, label, quantity and covariate shift (FCUBE; sin(x)
with parties shifted in x, which a linear model misfits). A right test fires in 1 % of draws at the 1 % level.

Measured 2026-11-30, two shared x86 cores, one thread, --first 50000 --rows 5e7: see docs/measures.md, section 5. In
all cells of 700 draws and more: 0.70 to 1.65 % at 1 %; mean index within 0.002 of 0. Concept: no alarm in 800 draws;
FCUBE always answers no_overlap.

Start it with OMP_NUM_THREADS=1: its matrices are small, and a BLAS of two threads took 6 to 20 times the CPU where
the cores were shared. On a shared core 25 of the 31 cells took 54 minutes and four more 18; the two largest (100 x 100
x 200 and 6000) were drawn 300 and 20 times, at 0.8 and 6 seconds a draw.

Usage: python bench/feature_calibration.py [--draws 2000] [--rows 1e6] [--first 50000] [--only feature|concept]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from fedskew.profiles.between import class_terms, index_from
from fedskew.profiles.concept import concept_skew
from fedskew.profiles.feature import unidentified
from fedskew.profiles.kernel import projection, sums_by_class
from fedskew.profiles.partitions import Partition, make_partition

Draw = Callable[[np.random.Generator], Partition]
SIZES = {"very unequal": [10_000, 100, 100, 100], "one large": [5_000, 20, 20, 20, 20]}


def table(rng: np.random.Generator, labels: np.ndarray, party: np.ndarray, parties: int, classes: int) -> Partition:
    """Rows whose features depend on the class only; a third of the columns heavy-tailed, one binary."""
    means = rng.standard_normal((classes, 10))
    mix = rng.standard_normal((10, 10)) / 3
    x = means[labels] + rng.standard_normal((len(labels), 10)) @ mix
    x[:, 7:9] = np.exp(x[:, 7:9])
    x[:, 9] = x[:, 9] > 0
    names = tuple(map(str, range(classes))), tuple(map(str, range(parties)))
    return make_partition(x, labels, party, class_names=names[0], party_names=names[1])


def dealt(sizes: list[int], classes: int) -> Draw:
    """Rows of balanced classes, the parties of given sizes."""
    party = np.repeat(np.arange(len(sizes)), sizes)
    return lambda rng: table(rng, rng.integers(0, classes, len(party)), party, len(sizes), classes)


def skewed(kind: str, parties: int, classes: int, rows: int) -> Draw:
    """Label skew (Dirichlet 0.5 per party) or quantity skew (Dirichlet 0.5 of the sizes)."""

    def draw(rng: np.random.Generator) -> Partition:
        if kind == "quantity":
            party = rng.choice(parties, size=parties * rows, p=rng.dirichlet([0.5] * parties))
            return table(rng, rng.integers(0, classes, len(party)), party, parties, classes)
        party = np.repeat(np.arange(parties), rows)
        mixes = rng.dirichlet([0.5] * classes, size=parties)
        labels = np.concatenate([rng.choice(classes, size=rows, p=mix) for mix in mixes])
        return table(rng, labels, party, parties, classes)

    return draw


def feature_line(name: str, draw: Draw, seeds: range) -> None:
    """Print the rate of alarms and the mean index of one cell."""
    p_values, skews, refused, covered, started = [], [], 0, 0, time.time()
    for seed in seeds:
        partition = draw(np.random.default_rng(seed))
        if unidentified(partition) is not None:
            refused += 1
            continue
        by = projection(partition)
        share = index_from((class_terms(sums) for sums in sums_by_class(partition, by)), partition.parties)
        if share is None:
            refused += 1
            continue
        p_values.append(share.p_value)
        skews.append(share.skew)
        covered += share.interval[0] <= 0 <= share.interval[1]
    if not p_values:
        print(f"feature  {name:32s} refused in all {refused} draws")
        return
    p = np.array(p_values)
    print(
        f"feature  {name:32s} {len(p):5d} draws  p<.01 {np.mean(p < 0.01):7.2%}  p<.05 {np.mean(p < 0.05):7.2%}  "
        f"mean {np.mean(skews):+.5f}  sd {np.std(skews):.5f}  interval covers 0 {covered / len(p):.1%}  "
        f"refused {refused}  {time.time() - started:.0f} s",
        flush=True,
    )


def concept_cells() -> dict[str, Draw]:
    """The situations in which no party labels differently."""

    def fcube(rng: np.random.Generator) -> Partition:
        x = rng.uniform(-1, 1, (4000, 3))
        signs = (x > 0).astype(int)
        return make_partition(x, signs[:, 0], (signs[:, 0] ^ signs[:, 1]) * 2 + (signs[:, 0] ^ signs[:, 2]))

    def sine(rng: np.random.Generator) -> Partition:
        party = np.arange(3000) % 5
        x = rng.standard_normal(3000) + 0.7 * party
        y = np.sin(2 * x) + 0.5 * rng.standard_normal(3000) > 0
        return make_partition(x[:, None], y.astype(int), party)

    return {
        "IID": dealt([400] * 5, 4),
        "label Dirichlet 0.5": skewed("label", 5, 4, 400),
        "quantity Dirichlet 0.5": skewed("quantity", 5, 4, 400),
        "covariate: FCUBE": fcube,
        "covariate: shifted sin(x)": sine,
    }


def main() -> None:
    """Print one line a cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--only", choices=["feature", "concept"])
    parser.add_argument("--first", type=int, default=0, help="the first seed: fresh ones judge, old ones made the test")
    parser.add_argument(
        "--rows", type=float, default=np.inf, help="rows drawn in one cell in all: large cells get fewer draws"
    )
    parser.add_argument("--concept-draws", type=int, default=200)
    options = parser.parse_args()

    def seeds(rows: int, classes: int) -> range:
        draws = int(np.clip(options.rows / (rows + 50 * classes), min(5, options.draws), options.draws))
        return range(options.first, options.first + draws)

    if options.only != "concept":
        for parties in (2, 10, 100):
            for classes in (2, 10, 100):
                for rows in (20, 200, 6000):
                    name = f"{parties} parties x {classes} classes x {rows}"
                    feature_line(name, dealt([rows] * parties, classes), seeds(parties * rows, classes))
        for name, sizes in SIZES.items():
            feature_line(name, dealt(sizes, 10), seeds(sum(sizes) // 20, 10))
        for kind in ("label", "quantity"):
            feature_line(f"{kind} skew, 10 x 10 x 500", skewed(kind, 10, 10, 500), seeds(5000, 10))
    if options.only != "feature":
        for name, draw in concept_cells().items():
            many = range(options.first, options.first + options.concept_draws)
            found = [concept_skew(draw(np.random.default_rng(seed)), sized=False) for seed in many]
            p = np.array([one.p_value for one in found if one.p_value is not None])
            rate = f"p<.01 {np.mean(p < 0.01):7.2%}  p<.05 {np.mean(p < 0.05):7.2%}" if len(p) else "always no_overlap"
            print(f"concept  {name:32s} {rate}  answered {len(p)} of {len(found)}", flush=True)


if __name__ == "__main__":
    main()

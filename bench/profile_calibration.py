"""Calibration of the label, quantity and Dirichlet measures: false alarms, recovery of beta, recognition of the cap.

Measured 2026-11-30, two shared x86 cores, one thread. --only alarms --first 1000, 2,000 draws: 0.3 to 1.4 % in 32 of 33
cells, mean within 0.004 of 0, the other answers too_few_rows; --only recovery --fits 60: all 96 cells within limits;
--only cap --fits 60: 93 to 100 % recognised; 63: 0 of 1,008 uncapped falsely.

Run: ``python bench/profile_calibration.py [--draws 2000] [--fits 100]``. The profile's other rows are in the benches of
their own measures.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.class_count import classes_per_party
from fedskew.profiles.dirichlet import beta_estimate
from fedskew.profiles.label import label_chance, label_index

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was drawn, what was found, whether it is within the stated limits."""

    what: str
    found: str
    within: bool


def false_alarms(sizes: Counts, classes: int, draws: int, seed: int) -> tuple[float, float, str | None]:
    """Share of IID tables with p < 0.01, mean index, and the reason where the index is null.

    Rows of equal class counts are dealt to the parties by numpy's multivariate hypergeometric.
    """
    rng = np.random.default_rng(seed)
    by_class = np.bincount(np.arange(int(sizes.sum())) % classes, minlength=classes)
    law = label_chance(dealt(rng, sizes, by_class))
    alarms, total, reason = 0, 0.0, None
    for _ in range(draws):
        found = label_index(dealt(rng, sizes, by_class), law)
        alarms += found.p_value is not None and found.p_value < 0.01
        total += found.skew or 0.0
        reason = reason or found.reason
    return alarms / draws, total / draws, reason


def dealt(rng: np.random.Generator, sizes: Counts, by_class: Counts) -> Counts:
    """Deal rows to parties at random; (P, K)."""
    left, table = by_class.copy(), np.zeros((len(sizes), len(by_class)), dtype=np.int64)
    for party, rows in enumerate(sizes):
        table[party] = rng.multivariate_hypergeometric(left, rows, method="marginals")
        left = left - table[party]
    return table


def label_dirichlet(
    rng: np.random.Generator, parties: int, classes: int, beta: float, *, rows: int, cut: bool = True, cap: bool = False
) -> Counts:
    """NIID-Bench's label Dirichlet, ``rows`` a class: cut at floor(cumsum(p) n), or drawn row by row."""
    table = np.zeros((parties, classes), dtype=np.int64)
    for k in range(classes):
        share = rng.dirichlet(np.full(parties, beta))
        while cap and not share[table.sum(axis=1) * parties < rows * classes].sum() > 0:
            share = rng.dirichlet(np.full(parties, beta))
        if cap:
            share = np.where(table.sum(axis=1) * parties < rows * classes, share, 0.0)
            share /= share.sum()
        if cut:
            ends = np.append((np.cumsum(share) * rows).astype(np.int64)[:-1], rows)
            table[:, k] = np.diff(ends, prepend=0)
        else:
            table[:, k] = rng.multinomial(rows, share)
    return table


def recovery(parties: int, classes: int, beta: float, *, rows: int, fits: int, cut: bool) -> tuple[float, float, float]:
    """Median of estimate / beta, share of intervals that cover beta, share without estimate."""
    rng = np.random.default_rng([parties, classes, int(10 * beta), rows, cut])
    ratio, covered = [], 0
    for _ in range(fits):
        table = label_dirichlet(rng, parties, classes, beta, rows=rows, cut=cut)
        found, _ = beta_estimate(table)
        ratio.append((found.estimate or np.inf) / beta)
        covered += (found.lower or 0.0) <= beta <= (found.upper or np.inf)
    return float(np.median(ratio)), covered / fits, float(np.isinf(ratio).mean())


def capped(parties: int, classes: int, beta: float, *, rows: int, fits: int, cap: bool) -> tuple[float, float]:
    """Share of tables in which the cap was recognised, and the median of estimate / beta in these."""
    rng = np.random.default_rng([parties, classes, int(10 * beta), rows, 7])
    ratios, seen = [], 0
    for _ in range(fits):
        table = label_dirichlet(rng, parties, classes, beta, rows=rows, cap=cap)
        if classes_per_party(table).k is not None:
            continue
        found, was = beta_estimate(table)
        if was:
            seen += 1
            ratios.append((found.estimate or np.inf) / beta)
    return seen / fits, float(np.median(ratios)) if ratios else float("nan")


def alarm_rows(draws: int, first: int) -> Iterator[Row]:
    """False alarms at the 1 % level over parties, classes, rows and very unequal sizes."""
    settings = [
        (np.full(parties, rows), classes)
        for parties in (2, 10, 100)
        for classes in (2, 10, 100)
        for rows in (20, 200, 6000)
    ]
    settings += [(np.array(s), k) for s in ([10000, 100, 100, 100], [5000, 20, 20, 20, 20]) for k in (2, 10, 100)]
    for seed, (sizes, classes) in enumerate(settings, first):
        rate, mean, reason = false_alarms(sizes, classes, draws, seed)
        sizes_text = f"{len(sizes)} x {sizes[0]}" if (sizes == sizes[0]).all() else str(sizes.tolist())
        within = reason == "too_few_rows" or (0.002 <= rate <= 0.02 and abs(mean) <= 0.005)
        yield Row(f"IID {sizes_text} rows, {classes} classes", f"{rate:.4f}  mean {mean:+.5f}  {reason or ''}", within)


def recovery_rows(fits: int) -> Iterator[Row]:
    """Recovery of beta where counts and cut shares can be told apart, and coverage where they cannot."""
    for rows in (600, 6000):
        for parties in (10, 50):
            for classes in (2, 10, 26):
                for beta in (0.1, 0.5, 1.0, 5.0):
                    for cut in (True, False):
                        ratio, cover, none = recovery(parties, classes, beta, rows=rows, fits=fits, cut=cut)
                        clear = (parties * beta + 1) / rows <= 0.05
                        slack = 3 * np.sqrt(0.05 * 0.95 / fits)  # sampling error of the coverage itself
                        good = abs(ratio - 1) < (0.3 if classes == 2 else 0.15) and cover > 0.90 - slack
                        what = f"beta {beta} {parties}x{classes}x{rows} {'cut' if cut else 'drawn'}"
                        text = (
                            f"median ratio {ratio:.2f}  cover {cover:.2f}  none {none:.2f}  {'clear' if clear else ''}"
                        )
                        yield Row(what, text, good if clear else cover > 0.90 - slack)


def cap_rows(fits: int) -> Iterator[Row]:
    """Recognition of NIID-Bench's size cap, and false recognition."""
    for cap in (True, False):
        for parties, classes in ((10, 10), (10, 26), (50, 10), (10, 100)):
            for beta in (0.1, 0.5, 1.0, 5.0):
                share, ratio = capped(parties, classes, beta, rows=6000, fits=fits, cap=cap)
                good = share >= 0.9 and abs(ratio - 1) < 0.2 if cap else share == 0.0
                what = f"{'capped' if cap else 'uncapped'} beta {beta} {parties}x{classes}"
                yield Row(what, f"recognised {share:.3f}  median ratio {ratio:.2f}", good)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed of the false alarms")
    parser.add_argument("--only", choices=("alarms", "recovery", "cap"))
    options = parser.parse_args()
    parts = {
        "alarms": lambda: alarm_rows(options.draws, options.first),
        "recovery": lambda: recovery_rows(options.fits),
        "cap": lambda: cap_rows(options.fits),
    }
    for name, rows in parts.items():
        if options.only in (None, name):
            start = time.perf_counter()
            for row in rows():
                print(f"{'ok  ' if row.within else 'MISS'} {row.what:<48} {row.found}", flush=True)
            print(f"{name}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

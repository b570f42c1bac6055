"""Profile the real silos of the data folder: the figures of docs/measures.md and a picture of each.

Columns that name the party, the label, or what was known only later are dropped; which, stands in ``SILOS``.

Usage: python bench/real_silos.py [--only hapt] [--pictures docs/pictures]
"""

import argparse
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedskew.profiles.partitions import Partition, make_partition
from fedskew.profiles.summary import profile
from fedskew.profiles.table import read_table

DATA = Path(os.environ.get("FEDSKEW_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
LATER = ("arr_delay", "dep_time", "dep_delay", "arr_time", "air_time")  # define the label, or are known after it
REPEATS = ("year", "hour", "minute", "time_hour", "flight", "tailnum", "__index_level_0__")


def precincts() -> Partition:
    """Minneapolis stops: what is left is who was stopped; place, ids and what came of the stop are dropped."""
    drop = ("rownames", "idNum", "date", "citationIssued", "personSearch", "vehicleSearch", "MDC", "lat", "long")
    return read_table(DATA / "mplsstops.parquet", label="problem", party="policePrecinct", drop=(*drop, "neighborhood"))


def flights(party: str) -> Partition:
    """Flights of 2013: late by more than 15 minutes or not."""
    return read_table(DATA / "nycflights13.parquet", label="label", party=party, drop=LATER + REPEATS)


def subjects(step: int = 1) -> Partition:
    """Windows of movement by subject; ``step`` 2 takes every other window, so that none overlap."""
    with np.load(DATA / "hapt_har.npz", allow_pickle=False) as held:
        features, labels, party, names = held["F"], held["y"], held["party"], held["classes"]
    return make_partition(features[::step], names[labels[::step]], party[::step])


def regions() -> Partition:
    """Forest cover by wilderness area, without the columns that are the area."""
    with np.load(DATA / "covtype.npz", allow_pickle=False) as held:
        features, labels, party = held["X"], held["y"], held["party"]
    return make_partition(np.delete(features, slice(10, 14), axis=1).astype(np.float32), labels, party)


SILOS: dict[str, Callable[[], Partition]] = {
    "mplsstops by precinct": precincts,
    "nycflights13 by carrier": lambda: flights("carrier"),
    "nycflights13 by origin": lambda: flights("origin"),
    "HAPT by subject": subjects,
    "HAPT by subject, every other window": lambda: subjects(2),
    "HAPT by subject, every fourth window": lambda: subjects(4),
    "covtype by region": regions,
}


def main() -> None:
    """Print one line a set, and write its picture where a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    for name, read in SILOS.items():
        if options.only not in name:
            continue
        partition = read()
        started = time.process_time(), time.perf_counter()
        found = profile(partition)
        used, passed = time.process_time() - started[0], time.perf_counter() - started[1]
        parts = [f"{name}: {found.parties} parties, {found.rows} rows, {found.classes} classes"]
        for kind in ("label", "quantity", "feature", "concept"):
            one = getattr(found, kind)
            parts.append(
                f"{kind} null ({one.reason})"
                if one.skew is None
                else f"{kind} {one.skew:.3f} {one.severity} p {one.p_value:.2g}"
            )
        kind = found.prevailing
        parts.append(f"{kind.kind} {'+'.join(kind.components)} ({kind.confidence:.2f}, else {kind.runner_up})")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        parts.append(f"{used:.1f} s CPU, {passed:.1f} s, peak {peak:.0f} MB")
        print("; ".join(parts), flush=True)
        print("   ", "; ".join(f"{one.code} {one.severity} {one.count}" for one in found.hygiene), flush=True)
        beta = found.label.beta
        print("    beta", beta.estimate, beta.lower, beta.upper, "capped", found.label.capped, flush=True)
        if options.pictures and "other" not in name and "fourth" not in name:
            from fedskew.profiles.drawing import svg

            options.pictures.mkdir(parents=True, exist_ok=True)
            stem = name.replace(" by ", "-by-").lower()
            (options.pictures / f"{stem}.svg").write_text(svg(found.plot(), "p") + "\n")


if __name__ == "__main__":
    main()

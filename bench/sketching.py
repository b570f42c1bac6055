"""How fast files are sketched, against a bare Polars scan of the same file in the same run, and in how much memory.

``python bench/sketching.py [ROWS] [csv|parquet] [TIMES]``: 20 float columns, 100 parties, 10 classes; 1,000,000 rows,
read once, if not given. The scan it is compared with reads the same columns batch by batch and adds up nothing but
their rows.

Measured 2026-11-30 on two cores shared with much other work (load 9 to 10: wall time says nothing, and even CPU seconds
are up to twice those of an idle machine), Python 3.11.7, numpy 2.4.6; the better of two or four readings each:

============  ===========  ===================  ===================  =====
file          rows         scan                 sketch               ratio
============  ===========  ===================  ===================  =====
Parquet         1,000,000  0.47 s CPU, 246 MB   2.20 s CPU, 322 MB   4.7
Parquet         5,000,000  1.29 s CPU, 312 MB   6.50 s CPU, 546 MB   5.0
CSV               500,000  1.01 s CPU, 236 MB   2.62 s CPU, 365 MB   2.6
============  ===========  ===================  ===================  =====

Of a sketch's CPU about 0.5 s is imports and 0.5 s the writing down of 20,000 cells, whatever the rows; adding up takes
0.8 to 1.0 s a million rows, a third of it the histograms. So the aim of three times a bare scan is met for CSV and
missed for Parquet, and memory grows with the rows until the bins of all cells are in use. Batches of 262,144 rows
would take 15 % less time and 40 MB more. Row hashes (``--hash-key``) cost another 1.8 s CPU a million rows; the file of
the million rows (29 MB) takes 1.0 s CPU to check and write, 1.6 s to read and check.

Not measured: an idle machine, 20 million rows and more, the second round with a plan.
"""

import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedskew.profiles.readers.base import Options
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.batches import iter_batches
from fedskew.profiles.sketching.scanning import scan_file

COLUMNS = [f"x{i}" for i in range(20)]
BLOCK = 250_000


def write(path: Path, rows: int) -> None:
    """Write the table in pieces, so that making it takes little memory."""
    import polars as pl

    rng = np.random.default_rng(0)
    parts = []
    for at in range(0, rows, BLOCK):
        n = min(BLOCK, rows - at)
        party = rng.integers(0, 100, n)
        values = rng.standard_normal((20, n), dtype=np.float32) + 0.01 * party.astype(np.float32)
        frame = pl.DataFrame(
            {"party": party.astype(np.int32), "y": rng.integers(0, 10, n).astype(np.int32)}
            | dict(zip(COLUMNS, values, strict=True))
        )
        part = path.with_suffix(f".{at}.parquet")
        frame.write_parquet(part, row_group_size=131_072)
        parts.append(part)
    together = pl.scan_parquet(parts)
    if path.suffix == ".csv":
        together.sink_csv(path, float_precision=5)
    else:
        together.sink_parquet(path, row_group_size=131_072)
    for part in parts:
        part.unlink()


def measure(what: str, path: str, times: str) -> None:
    """One reading in a process of its own: rows a second and peak memory; the file is read so many times."""
    start, cpu, rows = time.perf_counter(), time.process_time(), 0
    for _ in range(int(times)):
        if what == "scan":
            batches = iter_batches(Path(path), ["y", "party", *COLUMNS], ["y", "party"], Options(), tell=print)
            rows += sum(batch.height for batch in batches)
        else:
            rows += sum(one.rows for one in scan_file(Path(path), Wanted("y", "party")))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    speed = f"{rows:>12,d} rows  {seconds:7.2f} s  {rows / seconds / 1e6:6.2f} M rows/s"
    print(f"{what:7s} {speed}  {cpu:6.2f} s CPU  {peak:6.0f} MB")


def main() -> None:
    """Write the file, then read it, twice by each."""
    rows, ending = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, sys.argv[2] if len(sys.argv) > 2 else "parquet"
    times = sys.argv[3] if len(sys.argv) > 3 else "1"
    print(platform.machine(), platform.python_version(), "numpy", np.__version__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{ending}"
        write(path, rows)
        print(f"{path.suffix} of {path.stat().st_size / 1e6:,.0f} MB")
        for what in ("scan", "sketch", "scan", "sketch"):
            subprocess.run([sys.executable, __file__, "--one", what, str(path), times], check=True)  # noqa: S603 - ourselves


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(*sys.argv[2:])
    else:
        main()

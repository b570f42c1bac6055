"""How fast files are sketched, against a bare Polars scan of the same file in the same run, and in how much memory.

``python bench/sketching.py [ROWS] [csv|parquet] [TIMES]``: 20 float columns, 100 parties, 10 classes; 1,000,000 rows,
read once, if not given. The scan it is compared with reads the same columns batch by batch and adds up nothing but
their rows.

Measured 2026-11-30 on two idle cores of an AMD EPYC, Python 3.11.7, numpy 2.4.6, Polars 2.1.0; better of two readings:

============  ===========  ============================  ============================  ==========
file          rows         scan                          sketch                        ratio
============  ===========  ============================  ============================  ==========
Parquet         1,000,000   0.45 s,  0.45 s CPU, 247 MB   1.72 s,  2.09 s CPU, 354 MB  3.8
Parquet        20,000,000   3.44 s,  3.60 s CPU, 308 MB  11.75 s, 17.45 s CPU, 396 MB  3.4
Parquet x 5   100,000,000  14.22 s, 14.80 s CPU, 368 MB  55.75 s, 84.09 s CPU, 418 MB  3.9
CSV             4,000,000   5.07 s,  6.70 s CPU, 394 MB   7.71 s, 11.81 s CPU, 419 MB  1.5
============  ===========  ============================  ============================  ==========

"Parquet x 5" is the file of 20 million rows (1.5 GB) read five times in one process: 1.79 million rows a second.
The ratio is by the clock: a sketch uses both cores, a scan of Parquet one. Memory: 354 MB for 1 million rows, 396 and
417 MB for 20 million. 164 MB of it are the histograms, 2,048 bins of 1,000 cells and 20 columns, which the plan of a
scan counts before it begins; the rest is what Polars reads ahead, and Python.

Of the aims, 100 million rows of Parquet in 60 s and 600 MB are met. Missed: 0.67 million rows of CSV a second (0.52, a
bare scan 0.79), three times a bare scan of Parquet, and flat memory within 10 % (12 to 18 %). CSV took 8.40 s and 13.0
s CPU while the ten words for missing values were known to Polars from the start; now they are from the first value on
that is no number (``sketching/batches.py``, ``Way``). What would do it is a compiled kernel for counts and moments,
which takes no lock of Python's and one pass over the values instead of five.

Of a sketch's CPU 0.9 s is the writing down of 20,000 cells, whatever the rows. Adding up takes about 0.5 s a million
rows (0.85 s before), in nanoseconds a value: 8 counting, which waits for memory, 3 bin numbers, 3 their places, 9
moments, 4 putting the values in the order of cells, 2 copying them, 6 the cells of a batch. Batches of 524,288 rows
would take 8 % less time and 40 MB more. Two threads share the columns; counting holds Python's lock, so that more
threads would wait for each other.

The second round (plan, 1,000 cells): 3.7 s CPU a million rows where a tenth of them enters the kernel sums (7.8 s
before), 5.3 s where all do (6.7 s before), 544 MB. Row hashes (``--hash-key``) cost another 1.8 s CPU a million rows.
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

"""Five silos that never share a row: each sketches its own file twice, and a sixth party sees only the sketches.

Every step is a process of its own, as it would be on a machine of its own. What travels: the first sketches to the
coordinator, its plan back to the silos, the second sketches to the coordinator. The profile is that of the pooled
table, which no one ever saw.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SILOS = ("north", "south", "east", "west", "centre")


def write_silos(folder: Path) -> None:
    """Make five CSV files of patients that differ in age and in how many are sick."""
    rng = np.random.default_rng(0)
    for place, name in enumerate(SILOS):
        rows = 300 + 100 * place
        sick = rng.random(rows) < 0.2 + 0.12 * place
        age = rng.normal(50 + 3 * place + 8 * sick, 12).round(1)
        ward = rng.choice(["A", "B", "C"], rows, p=[0.5, 0.3, 0.2])
        lines = [f"{a},{w},{'yes' if s else 'no'}" for a, w, s in zip(age, ward, sick, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["age,ward,sick", *lines]) + "\n", encoding="utf-8")


def fedskew(*words: str | Path) -> str:
    """Run the command line in a process of its own; returns what it prints."""
    command = [sys.executable, "-m", "fedskew", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - ourselves


def profile_of_sketches(folder: Path) -> str:
    """Two rounds of sketches, then the profile, all in separate processes."""
    for name in SILOS:
        fedskew("sketch", folder / f"{name}.csv", "--label", "sick", "--out", folder / f"{name}.first.json")
    fedskew("plan", *(folder / f"{name}.first.json" for name in SILOS), "--out", folder / "plan.json")
    for name in SILOS:
        source, out = folder / f"{name}.csv", folder / f"{name}.second.json"
        fedskew("sketch", source, "--label", "sick", "--plan", folder / "plan.json", "--out", out)
    return fedskew("profile", *(folder / f"{name}.second.json" for name in SILOS), "--json", "-")


def profile_of_rows(folder: Path) -> str:
    """What someone would see who had all rows."""
    return fedskew("profile", *(folder / f"{name}.csv" for name in SILOS), "--label", "sick", "--json", "-")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write_silos(Path(place))
        print(profile_of_sketches(Path(place)))

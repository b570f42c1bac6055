"""Study files small enough to run in a test, and what a study leaves behind."""

import json
from pathlib import Path
from typing import Any


def study_toml(
    *,
    note: str = "",
    rows: int = 200,
    partition: str | list[str] = "homo",
    model: str | list[str] = "linear",
    **own: Any,
) -> str:
    """A study of FCUBE in four parties; ``own`` are its defaults. JSON's texts, numbers and lists are TOML's."""
    defaults = {"rounds": 2, "seeds": 1, "local_epochs": 1, "candidates": ["fedavg", "fedprox"], **own}
    blocks = {
        "": {"note": note},
        "[defaults]": defaults,
        "[data.FCUBE]": {"source": "generated:fcube", "rows": rows, "test_rows": 100},
        "[[grid]]": {"data": "FCUBE", "partition": partition, "parties": 4, "model": model},
    }
    lines = [
        line for head, keys in blocks.items() for line in (head, *(f"{k} = {json.dumps(v)}" for k, v in keys.items()))
    ]
    return "\n".join(lines) + "\n"


def results_of(out: Path) -> dict[str, bytes]:
    """The bytes of every finished setting, by the name of its file."""
    return {path.name: path.read_bytes() for path in (out / "settings").iterdir()}

"""What goes from the coordinator to the processes that train: tables as files they map, and trials they can import."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np

from fedskew.engine.plans import Trial
from fedskew.engine.splits import Prepared, arrays_of, with_arrays


@contextmanager
def without_main() -> Iterator[None]:
    """Keep spawned workers from importing the user's script again, which would start its whole work anew."""
    main = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        main.__spec__ = None
        if "__file__" in kept:
            del main.__file__
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)


def travels(trial: Trial) -> bool:
    """Whether another process can find the trial's functions: not those of a user's script or notebook."""
    named = [v for v in (getattr(trial.algorithm, field.name) for field in fields(trial.algorithm)) if callable(v)]
    here = any(v.__module__ == "__main__" or "<" in v.__qualname__ for v in named)
    return not here and not trial.model.name.startswith("__main__:")


def save(data: Prepared, folder: Path, name: str) -> None:
    """Write a table's arrays where another process of this machine can map them."""
    for array, values in arrays_of(data).items():
        path = folder / f"{name}-{array}.npy"
        if not path.exists():
            np.save(path, values, allow_pickle=False)


def load(folder: str, rest: Mapping[str, Prepared]) -> dict[str, Prepared]:
    """Map what :func:`save` wrote; ``rest`` holds what is not an array."""
    data = {}
    for name, empty in rest.items():
        files = {path.stem.removeprefix(f"{name}-"): path for path in sorted(Path(folder).glob(f"{name}-*.npy"))}
        # mode c: pages are shared by all workers, and torch wants arrays that could be written
        arrays = {array: np.load(path, mmap_mode="c", allow_pickle=False) for array, path in files.items()}
        data[name] = with_arrays(empty, arrays)
    return data

"""The silo's data. The one place to fill in is :func:`load_silo`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.advisor.flower.choice import CLASSES

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Silo:
    """One party's rows.

    Parameters
    ----------
    party : the party's name, unlike any other's; order of minibatches depends on it, so keep it from run to run
    x : (n, F) numbers, NaN where missing, or images (n, C, H, W); the same columns in the same order at every party
    y : (n,) codes 0 to K - 1 into CLASSES; where CLASSES is empty a continuous target, scaled alike at every party to a
        mean near 0 and a deviation near 1, as in the runs that the learning rate comes from
    test_x, test_y : rows that never train, to test the model on; may have no rows
    """

    party: str
    x: NDArray[Any]
    y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]


def load_silo(node_config: Config, run_config: Config) -> Silo:
    """Load the rows of the party that this code runs at.

    Parameters
    ----------
    node_config : what this party's SuperNode was started with; in a simulation ``partition-id``, 0, 1, ...
    run_config : [tool.flwr.app.config] of pyproject.toml and ``flwr run --run-config``
    """
    # ------------------------------------------------------------------------------------------------------------------
    # LOAD THE SILO'S DATA HERE. As it stands, it reads an npz file with x, y and, if you like, test_x and test_y:
    # in a deployment the one that the SuperNode was started with (--node-config 'data="/data/hospital-a.npz"'), in a
    # simulation the partition-id-th of the folder run_config["data"]. Put your query or file reader in its place; it
    # must return a Silo. Categories must be turned into the same 0/1 columns everywhere; scaling is done for you.
    if "data" in node_config:
        path = Path(str(node_config["data"]))
    else:
        path = _simulated(Path(str(run_config["data"])), int(node_config["partition-id"]))
    with np.load(path, allow_pickle=False) as file:
        x, y = file["x"], file["y"]
        test_x, test_y = (file["test_x"], file["test_y"]) if "test_x" in file else (x[:0], y[:0])
    silo = Silo(party=str(node_config.get("party", path.stem)), x=x, y=y, test_x=test_x, test_y=test_y)
    # ------------------------------------------------------------------------------------------------------------------
    check(silo)
    return silo


def check(silo: Silo) -> None:
    """Refuse rows that would train something else than meant.

    Raises
    ------
    ValueError
        Lengths or widths differ, or labels are no codes into CLASSES.
    """
    for x, y, which in ((silo.x, silo.y, "training"), (silo.test_x, silo.test_y, "test")):
        if x.ndim not in {2, 4} or len(x) != len(y) or x.shape[1:] != silo.x.shape[1:]:
            raise ValueError(f"{silo.party}: {which} x has shape {x.shape} and y {y.shape}; see the class Silo")
        if CLASSES and len(y) and (y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= len(CLASSES)):
            raise ValueError(f"{silo.party}: {which} labels must be codes 0 to {len(CLASSES) - 1}, see CLASSES")
        if not CLASSES and len(y) and not np.isfinite(y).all():
            raise ValueError(f"{silo.party}: a {which} target is missing or not finite")


def _simulated(folder: Path, place: int) -> Path:
    files = sorted(folder.glob("*.npz"))
    if place >= len(files):
        raise ValueError(
            f"{folder.absolute()} holds {len(files)} npz files, so there is none for simulated party {place}; give the "
            f"folder as an absolute path, --run-config 'data=\"/...\"', and num-supernodes={len(files)}"
        )
    return files[place]

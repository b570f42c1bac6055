"""What the server writes: status.json and weights.npz, whole after every round."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fedskew.advisor.flower.choice import ALGORITHM
from fedskew.advisor.flower.training import Network, state_of


class Journal:
    """The output folder of a run.

    ``status.json``: ``status`` (running, completed or failed), ``reason``, and one entry a round; ``weights.npz``: the
    global model, one array a parameter and buffer by the names of the network's ``state_dict``.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.facts: dict[str, Any] = {"algorithm": ALGORITHM.name, "status": "running", "reason": "", "rounds": []}
        self._write()

    def set(self, **facts: Any) -> None:
        """Note facts about the run."""
        self.facts.update(facts)
        self._write()

    def add(self, network: Network, model: tuple[Tensor, Tensor], **facts: Any) -> None:
        """Note a finished round, and write the model after it."""
        arrays = {name: v.numpy() for name, v in state_of(network, model[0][None], model[1][None]).items()}
        part = self.folder / "weights.part.npz"
        np.savez(part, allow_pickle=False, **arrays)
        part.replace(self.folder / "weights.npz")
        self.facts["rounds"].append({**facts, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        self._write()

    def _write(self) -> None:
        part = self.folder / "status.part.json"
        part.write_text(json.dumps(_plain(self.facts), indent=2, allow_nan=False) + "\n", encoding="utf-8")
        part.replace(self.folder / "status.json")


def _plain(value: Any) -> Any:
    """The value with null for numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""What a party keeps between rounds, in Flower's ``context.state``: the algorithm's own state, and layers not shared.

It lasts as long as the run: a new run starts from nothing at the server and at every party alike. If one party loses it
within a run (its disk, or a new SuperNode in its place), SCAFFOLD's c is no longer the mean of all c_i, FedDyn's h no
longer that of all g_i, MOON compares with the server's model for a round, and FedBN's layers start anew.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any

import torch
from flwr.app import ConfigRecord
from torch import Tensor

from fedskew.advisor.flower.choice import ALGORITHM
from fedskew.advisor.flower.records import packed, tensors_of
from fedskew.advisor.flower.settings import Settings
from fedskew.advisor.flower.training import Network
from fedskew.engine.algorithms.base import State

PERSONAL = "personal-"  # no algorithm names its own state so


class Memory:
    """The state of one party.

    ``fresh``: the algorithm's states before the first round. ``shared``: which numbers of the rows of weights and of
    buffers all parties share, or None for all.
    """

    def __init__(self, state: MutableMapping[str, Any], network: Network, settings: Settings) -> None:
        self.state, self.settings, self.network = state, settings, network
        self.fresh = ALGORITHM.init(network.weights, settings.hyper)
        self.shared = network.layout.shared(ALGORITHM.shared)
        kept = tensors_of(state["kept"]) if "kept" in state else {}
        self.own = {name: rows for name, rows in kept.items() if not name.startswith(PERSONAL)}
        self.layers = {name.removeprefix(PERSONAL): rows for name, rows in kept.items() if name.startswith(PERSONAL)}

    def recall(self, trained_before: int, party: str) -> State:
        """The algorithm's own state, (1, ...) by name.

        Parameters
        ----------
        trained_before : the last round, as the server knows, in which this party trained; -1 for none

        Raises
        ------
        RuntimeError
            The state is not that of this round, and the settings do not say to start anew.
        """
        if not self.fresh.own and self.shared is None:
            return {}
        found = int(self.state["kept-in"]["round"]) if "kept-in" in self.state else -1
        if found != trained_before:
            if self.settings.on_lost_state == "fail":
                raise RuntimeError(
                    f"{party} trained in round {trained_before + 1}, but its state is of round {found + 1} (0: none): "
                    f"it was lost. Start a new run, or let this party start anew with on-lost-state='restart'"
                )
            self.own, self.layers = {}, {}
        return {name: self.own.get(name, rows.reshape(1, -1)) for name, rows in self.fresh.own.items()}

    def personal(self, model: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What this party starts from, (1, D) and (1, B): the server's numbers, but its own where they are not shared.

        A party that has not trained yet takes the initial weights for its own.
        """
        weights, buffers = model["weights"].reshape(1, -1), model["buffers"].reshape(1, -1)
        if self.shared is None:
            return weights, buffers
        own = self.layers or {"weights": self.network.weights[None], "buffers": self.network.buffers[None]}
        return torch.where(self.shared[0], weights, own["weights"]), torch.where(
            self.shared[1], buffers, own["buffers"]
        )

    def keep(self, round_: int, weights: Tensor, buffers: Tensor, own: Mapping[str, Tensor]) -> None:
        """Keep the state after a round."""
        layers = {} if self.shared is None else {PERSONAL + "weights": weights, PERSONAL + "buffers": buffers}
        if own or layers:
            self.state["kept"] = packed({**own, **layers})
            self.state["kept-in"] = ConfigRecord({"round": round_})

    def without_personal(self, trained: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What is sent to the server: the trained rows, with the server's own numbers where they are not shared."""
        if self.shared is None:
            return dict(trained)
        masks = {"weights": self.shared[0], "buffers": self.shared[1]}
        return {name: torch.where(masks[name], trained[name], model[name]) for name in masks}

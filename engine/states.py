"""What a run carries from round to round: weights, buffers, and the states of parties and server."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(slots=True)
class PartyStore:
    """One kept vector a party, of which only the parties seen so far take memory.

    ``rows`` (S, P, width) lies in pages that the system fills with zeros when first touched; ``seen`` (S, P) says
    which parties have written; the others read ``default`` (S, width).
    """

    default: Tensor
    seen: NDArray[np.bool_]
    rows: Tensor

    @staticmethod
    def empty(default: Tensor, parties: int) -> "PartyStore":
        """A store in which no party has written."""
        seeds, width = default.shape
        pages = np.zeros((seeds, parties, width), torch.empty(0, dtype=default.dtype).numpy().dtype)
        return PartyStore(default, np.zeros((seeds, parties), np.bool_), torch.from_numpy(pages))

    def get(self, place: int, parties: NDArray[np.int64]) -> Tensor:
        """Rows (C, width) of some parties of one seed."""
        rows = self.rows[place][torch.from_numpy(parties)]
        known = torch.from_numpy(self.seen[place][parties]).unsqueeze(1)
        return torch.where(known, rows, self.default[place])

    def put(self, place: int, parties: NDArray[np.int64], rows: Tensor) -> None:
        """Write rows (C, width)."""
        self.rows[place][torch.from_numpy(parties)] = rows
        self.seen[place][parties] = True


@dataclass(slots=True)
class RunState:
    """Everything that the next round depends on.

    ``weights`` (S, D), ``buffers`` (S, B) float64, ``server`` by name (S, ·), ``own`` by name, ``diverged`` the round
    in which a seed (by place) became non-finite. ``round_`` rounds are done.
    """

    weights: Tensor
    buffers: Tensor
    server: dict[str, Tensor]
    own: dict[str, PartyStore]
    round_: int = 0
    diverged: dict[int, int] = field(default_factory=dict)

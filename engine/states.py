"""What a run carries from round to round: weights, buffers, and the states of parties and server."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(slots=True)
class PartyStore:
    """One kept vector a party, of which only the parties seen so far take memory.

    ``rows`` (S, P, width) lies in pages that the system fills with zeros when first touched; ``seen`` (S, P) says
    which parties have written; the others read ``default`` (S, width). Rows stay in the main memory, whatever the
    device that ``default`` is on and that they are handed out to.
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
        device = self.default.device
        rows = self.rows[place][torch.from_numpy(parties)].to(device)
        known = torch.from_numpy(self.seen[place][parties]).unsqueeze(1).to(device)
        return torch.where(known, rows, self.default[place])

    def put(self, place: int, parties: NDArray[np.int64], rows: Tensor) -> None:
        """Write rows (C, width)."""
        self.rows[place][torch.from_numpy(parties)] = rows.to(self.rows.device)
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

    def to(self, device: torch.device) -> "RunState":
        """The same state with all but the parties' rows on a device."""
        own = {name: replace(store, default=store.default.to(device)) for name, store in self.own.items()}
        server = {name: rows.to(device) for name, rows in self.server.items()}
        return replace(self, weights=self.weights.to(device), buffers=self.buffers.to(device), server=server, own=own)

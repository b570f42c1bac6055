"""Which rows every lane sees at every local step: drawn from (seed, round, party, epoch), alike for all candidates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedskew.profiles.keyed import generator

CHUNK = 64  # steps drawn at a time: bounds the memory of a schedule, changes no number


@dataclass(frozen=True, slots=True)
class Lane:
    """One party's local training in one round of one seed."""

    place: int  # index of the seed among the seeds that run together
    seed: int
    party: int
    name: str
    first: int  # its rows of the data: first to last, last not included
    last: int

    @property
    def rows(self) -> int:
        """Number of rows the party holds."""
        return self.last - self.first

    def steps(self, epochs: int, batch: int) -> int:
        """Local steps: epochs times batches, the last short batch kept."""
        return epochs * -(-self.rows // batch)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some steps of a block.

    ``rows`` (T, L, B) int64 row numbers, ``weights`` (T, L, B), 1 / batch length or 0, ``lengths`` (T, L) rows of each
    batch, 0 where a lane has no step left.
    """

    rows: Tensor
    weights: Tensor
    lengths: NDArray[np.int64]


def chunks(lanes: Sequence[Lane], round_: int, epochs: int, batch: int, dtype: torch.dtype) -> Iterator[Chunk]:
    """Yield the schedule of a block of lanes, longest first, in chunks of steps.

    Short batches are padded with rows of weight 0: always, so that a batch's bits never depend on its neighbours.
    """
    streams = [_Stream(lane, round_, epochs, batch) for lane in lanes]
    held = np.asarray([lane.rows for lane in lanes], np.int64)
    batches = -(-held // batch)
    total = int(batches.max(initial=0)) * epochs
    width = -(-batch // 16) * 16
    places = torch.arange(width)
    for start in range(0, total, CHUNK):
        at = np.arange(start, min(start + CHUNK, total))[:, None]
        rows = np.zeros((len(at), len(lanes), width), np.int64)
        for i, stream in enumerate(streams):
            stream.fill(rows[:, i, :batch])
        left = held - at % np.maximum(batches, 1) * batch
        lengths = np.where(at < batches * epochs, np.minimum(left, batch), 0)
        share = torch.from_numpy(1.0 / np.maximum(lengths, 1)).to(dtype).unsqueeze(2)
        weights = share * (places < torch.from_numpy(lengths).unsqueeze(2))
        yield Chunk(torch.from_numpy(rows), weights, lengths)


@dataclass(slots=True)
class _Stream:
    """One lane's batches, an epoch drawn when it is reached."""

    lane: Lane
    round_: int
    epochs: int
    batch: int
    epoch: int = -1
    order: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    at: int = 0  # batches already given of this epoch

    def fill(self, rows: NDArray[np.int64]) -> None:
        """Write the next len(rows) steps; what lies beyond the lane's last step stays 0."""
        done = 0
        while done < len(rows):
            if self.at == len(self.order):
                if self.epoch + 1 >= self.epochs or not self.lane.rows:
                    return
                self.epoch, self.at = self.epoch + 1, 0
                self.order = _epoch(self.lane, self.round_, self.epoch, self.batch)
            take = min(len(rows) - done, len(self.order) - self.at)
            rows[done : done + take] = self.order[self.at : self.at + take]
            done, self.at = done + take, self.at + take


def _epoch(lane: Lane, round_: int, epoch: int, batch: int) -> NDArray[np.int64]:
    """One shuffled pass over the lane's rows, (batches, batch), padded with its first row."""
    order = generator("batches", lane.seed, round_, lane.name, epoch).permutation(lane.rows) + lane.first
    padded = np.full(-(-lane.rows // batch) * batch, lane.first, np.int64)
    padded[: lane.rows] = order
    return padded.reshape(-1, batch)

"""A network with BatchNorm and dropout, for what only such networks show."""

import math

from torch import nn


def factory(shape: tuple[int, ...], outputs: int) -> nn.Module:
    hidden = nn.Linear(math.prod(shape), 12)
    return nn.Sequential(nn.Flatten(), hidden, nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, outputs))

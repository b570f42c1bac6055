"""Networks of fully connected layers: logistic regression, and the MLPs for tables and for small images."""

import math
from itertools import pairwise

from torch import nn


def linear(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Multinomial logistic regression, one linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))


def mlp(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The MLP of NIID-Bench's tabular rows: hidden layers of 32, 16 and 8 units, ReLU between; torch's own start."""
    return _layers((math.prod(shape), 32, 16, 8, outputs))


def mlp_niid(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The same MLP as NIID-Bench's code starts it: weights N(0, 0.1^2), biases 0.1."""
    network = mlp(shape, outputs)
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 0.1)
            nn.init.constant_(layer.bias, 0.1)
    return network


def wide_mlp(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """An MLP for flattened images: hidden layers of 128 and 64 units, ReLU between."""
    return _layers((math.prod(shape), 128, 64, outputs))


def _layers(sizes: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, units in pairwise(sizes[:-1]):
        layers += [nn.Linear(inputs, units), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))

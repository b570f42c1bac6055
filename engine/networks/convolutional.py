"""Networks of convolutions without shortcuts: the paper's CNN, and VGG-9."""

import math
from itertools import pairwise

import torch
from torch import nn

from fedskew.profiles.errors import FedskewError


def cnn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The CNN of NIID-Bench's image rows: 5x5 convolutions of 6 and 16 channels, layers of 120 and 84 units.

    44,426 parameters at 1x28x28 and 62,006 at 3x32x32 with ten classes. ReLU follows the pooling, which gives the same
    function and gradient as before it, for a quarter of the work.
    """
    channels, height, width = image_shape("cnn", shape, 16)
    inner = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    return laid_out(
        nn.Sequential(
            *(nn.Conv2d(channels, 6, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(16 * math.prod(inner), 120), nn.ReLU()),
            *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs)),
        )
    )


def vgg9(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """VGG-9: six 3x3 convolutions of 32 to 256 channels with a pooling after each two, layers of 512 and 512 units.

    3,491,530 parameters at 3x32x32 with ten classes. A little dropout, as in NIID-Bench: 5 % of the maps after the
    fourth convolution, 10 % of the units before the first and the last linear layer. Convolutions start at
    N(0, 2 / (9 channels out)), their biases at 0.
    """
    channels, height, width = image_shape("vgg9", shape, 8)
    layers: list[nn.Module] = []
    for i, (inputs, maps) in enumerate(pairwise((channels, 32, 64, 128, 128, 256, 256))):
        layer = nn.Conv2d(inputs, maps, 3, padding=1)
        nn.init.normal_(layer.weight, 0.0, math.sqrt(2 / (9 * maps)))
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]  # there is one
        layers += [layer, nn.MaxPool2d(2), nn.ReLU()] if i % 2 else [layer, nn.ReLU()]
        if i == 3:
            layers.append(nn.Dropout2d(0.05))
    flat = 256 * (height // 8) * (width // 8)
    layers += [nn.Flatten(), nn.Dropout(0.1), nn.Linear(flat, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return laid_out(nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(512, outputs)))


def image_shape(name: str, shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    """The (C, H, W) of a row.

    Raises
    ------
    FedskewError
        Rows are no images, or smaller than ``least`` pixels a side.
    """
    if len(shape) != 3 or min(shape[1:]) < least:
        raise FedskewError(
            f"the {name} needs images of {least} x {least} pixels or more, not rows of shape {shape}; try --model mlp"
        )
    return shape[0], shape[1], shape[2]


def laid_out(network: nn.Module) -> nn.Module:
    """The network with its kernels channels last, which tells the engine to lay its images out that way too."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    return network

"""Networks: plain torch modules, named, built from the shape of one row and the number of outputs."""

import importlib
import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

from fedskew.engine.plans import ModelSpec
from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.keyed import seed_of

Factory = Callable[[tuple[int, ...], int], nn.Module]


def linear(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Multinomial logistic regression, one linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))


def mlp(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The MLP of NIID-Bench's tabular rows: hidden layers of 32, 16 and 8 units, ReLU between."""
    layers: list[nn.Module] = [nn.Flatten()]
    sizes = (math.prod(shape), 32, 16, 8)
    for inputs, units in pairwise(sizes):
        layers += [nn.Linear(inputs, units), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def cnn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The CNN of NIID-Bench's image rows: 5x5 convolutions of 6 and 16 channels, layers of 120 and 84 units.

    44,426 parameters at 1x28x28 and 62,006 at 3x32x32 with ten classes. ReLU follows the pooling, which gives the same
    function and gradient as before it, for a quarter of the work.
    """
    if len(shape) != 3 or min(shape[1:]) < 16:
        raise FedskewError(
            f"the cnn needs images of 16 x 16 pixels or more, not rows of shape {shape}; try --model mlp"
        )
    channels, height, width = shape
    inner = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    network = nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * math.prod(inner), 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs)),
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    return network


def wide_mlp(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """An MLP for flattened images: hidden layers of 128 and 64 units, ReLU between."""
    inputs = math.prod(shape)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, outputs)
    )


MODELS: dict[str, Factory] = {"mlp": mlp, "linear": linear, "wide_mlp": wide_mlp, "cnn": cnn}


def build(spec: ModelSpec) -> nn.Module:
    """Build the network of a spec with whatever random numbers torch has now.

    Raises
    ------
    FedskewError
        No such model, or the user's factory cannot be imported or does not return a module.
    """
    if ":" in spec.name:
        return _user_module(spec)
    factory = MODELS.get(spec.name)
    if factory is None:
        raise FedskewError(f"unknown model {spec.name!r}: {choices(spec.name, MODELS)}; or give module:factory")
    return factory(spec.shape, spec.outputs)


def seeded(spec: ModelSpec, seed: int) -> nn.Module:
    """Build the network with the initial weights of one seed: every candidate starts from the same ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("weights", seed) >> 1)
        return build(spec)


def _user_module(spec: ModelSpec) -> nn.Module:
    where, _, name = spec.name.partition(":")
    try:
        factory = getattr(importlib.import_module(where), name)
    except (ImportError, AttributeError) as error:
        raise FedskewError(f"model {spec.name!r} cannot be imported: {error}; give module:factory") from error
    module = factory(spec.shape, spec.outputs)
    if not isinstance(module, nn.Module):
        raise FedskewError(f"model {spec.name!r} returned a {type(module).__name__}; it must return a torch.nn.Module")
    return module

"""Networks: plain torch modules, named, built from the shape of one row and the number of outputs."""

import importlib
from collections.abc import Callable

import torch
from torch import nn

from fedskew.engine.networks.convolutional import cnn, vgg9
from fedskew.engine.networks.dense import linear, mlp, mlp_niid, wide_mlp
from fedskew.engine.networks.residual import (
    resnet18,
    resnet18_bn,
    resnet20,
    resnet20_bn,
    resnet50,
    resnet50_bn,
)
from fedskew.engine.plans import ModelSpec
from fedskew.engine.pool_losses import short_of_memory
from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.keyed import seed_of

Factory = Callable[[tuple[int, ...], int], nn.Module]


MODELS: dict[str, Factory] = {
    "mlp": mlp,
    "mlp_niid": mlp_niid,
    "linear": linear,
    "wide_mlp": wide_mlp,
    "cnn": cnn,
    "vgg9": vgg9,
    "resnet18": resnet18,
    "resnet18_bn": resnet18_bn,
    "resnet20": resnet20,
    "resnet20_bn": resnet20_bn,
    "resnet50": resnet50,
    "resnet50_bn": resnet50_bn,
}


def find_model(name: str) -> Factory:
    """Find a network by its name or a spelling of it, such as ``simple-cnn``, ``VGG-9`` and ``resnet18-gn``.

    Raises
    ------
    FedskewError
        There is no such network.

    Examples
    --------
    >>> find_model("ResNet-18-GN").__name__
    'resnet18'
    """
    plain = name.strip().lower().replace("-", "").replace("_", "").removeprefix("simple").removesuffix("gn")
    for known, factory in MODELS.items():
        if known.replace("_", "") == plain:
            return factory
    raise FedskewError(f"unknown model {name!r}: {choices(name, MODELS)}; or give module:factory")


def build(spec: ModelSpec) -> nn.Module:
    """Build the network of a spec with whatever random numbers torch has now.

    Raises
    ------
    FedskewError
        No such model, or the user's factory cannot be imported or does not return a module.
    """
    if ":" in spec.name:
        return _user_module(spec)
    return find_model(spec.name)(spec.shape, spec.outputs)


def seeded(spec: ModelSpec, seed: int) -> nn.Module:
    """Build the network with the initial weights of one seed: every candidate starts from the same ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("weights", seed) >> 1)
        return build(spec)


def _user_module(spec: ModelSpec) -> nn.Module:
    where, _, name = spec.name.partition(":")
    try:
        factory = getattr(importlib.import_module(where), name)
    except Exception as error:  # importing runs the user's file, which may raise anything
        if short_of_memory(error):
            raise
        raise FedskewError(f"model {spec.name!r} cannot be imported: {error}; give module:factory") from error
    try:
        module = factory(spec.shape, spec.outputs)
    except Exception as error:
        if short_of_memory(error):
            raise  # the machine's fault, and no mistake in the network: tried again, and told so
        raise FedskewError(
            f"model {spec.name!r} cannot be built: calling it with ({spec.shape}, {spec.outputs}) raised "
            f"{type(error).__name__}: {error}; it takes the shape of a row and the number of outputs"
        ) from error
    if not isinstance(module, nn.Module):
        raise FedskewError(f"model {spec.name!r} returned a {type(module).__name__}; it must return a torch.nn.Module")
    return module

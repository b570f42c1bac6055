"""What an algorithm costs: bytes, arithmetic and state, from the model's size. No torch here.

Parameter counts are formulas over the layers. One model copy is 4 bytes x P; a party sends one up and gets one down in
a round: 8P, and SCAFFOLD twice that. The NIID-Bench table's "communication size" is 11 x 4P (ten uploads and one
broadcast: a whole round over ten parties), not what one party carries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import msgspec

from fedskew.engine.algorithms import ALGORITHMS
from fedskew.profiles.errors import FedskewError, choices

FLOAT = 4  # bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """What an algorithm adds to FedAvg.

    ``traffic``: model copies each way. ``passes``: extra forward passes a step. ``vectors``: extra passes over the
    weights a step. ``seconds``: time of a local step against FedAvg's on our engine, the middle of eight cases of
    ``bench/engine.py``, to 0.05. ``state``: what a party keeps between rounds, empty for nothing. ``copies``: that in
    model sizes. ``citation``: key of the source.
    """

    traffic: float = 1.0
    passes: float = 0.0
    vectors: float = 0.0
    seconds: float = 1.0
    state: str = ""
    copies: float = 0.0
    citation: str = "mcmahan2017fedavg"


_EXTRAS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "fedprox": {"vectors": 2, "seconds": 1.05, "citation": "li2020fedprox"},
        "scaffold": {
            "vectors": 2,
            "seconds": 1.05,
            "state": "a control variate, as large as the model",
            "citation": "karimireddy2020scaffold",
        },
        "fednova": {"citation": "wang2020fednova"},
        "fedavgm": {"citation": "hsu2019fedavgm"},
        "fedadam": {"citation": "reddi2021adaptive"},
        "fedyogi": {"citation": "reddi2021adaptive"},
        "fedadagrad": {"citation": "reddi2021adaptive"},
        "feddyn": {
            "vectors": 3,
            "seconds": 1.15,
            "state": "a gradient memory, as large as the model",
            "citation": "acar2021feddyn",
        },
        "moon": {"passes": 2, "seconds": 2.0, "state": "its last model", "citation": "li2021moon"},
        "fedbn": {"state": "its own BatchNorm layers (small)", "citation": "li2021fedbn"},
    }
)
COSTS: Mapping[str, Cost] = MappingProxyType(
    {a.name: Cost(a.traffic, copies=a.client_state, **_EXTRAS.get(a.name, {})) for a in ALGORITHMS}
)
"""Facts of the published algorithms, traffic and state from the engine's; ``NAME+wsm`` costs what NAME costs."""
TITLES: Mapping[str, str] = MappingProxyType({a.name: a.title for a in ALGORITHMS})
"""Names as the field writes them."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of an algorithm.

    ``bytes_per_party_round``: up and down together, None where the model's size is not known. ``relative_compute``:
    time of a local step against FedAvg's, measured on our engine, 1 is equal. ``counted_compute``: the same in
    arithmetic. ``client_state``: what a party keeps between rounds, in words.
    ``client_state_bytes``: the same in bytes. ``round_bytes``: all parties of one round. ``tuning_runs``: full runs
    to find its own hyperparameter. ``parameters``: of the model, P.
    """

    bytes_per_party_round: int | None
    relative_compute: float
    counted_compute: float
    client_state: str
    client_state_bytes: int | None
    round_bytes: int | None
    tuning_runs: int
    model: str
    parameters: int | None


def base_name(algorithm: str) -> str:
    """The algorithm without its modifier.

    Examples
    --------
    >>> base_name("fedavg+wsm")
    'fedavg'
    """
    return algorithm.removesuffix("+wsm")


def cost(algorithm: str) -> Cost:
    """The cost facts of an algorithm.

    Raises
    ------
    FedskewError
        There is no such algorithm.

    Examples
    --------
    >>> cost("scaffold").traffic, cost("fedavg+wsm").traffic
    (2.0, 1.0)
    """
    name = base_name(algorithm)
    if name not in COSTS:
        raise FedskewError(f"there is no algorithm called {algorithm!r}: {choices(name, COSTS)}")
    return COSTS[name]


def dense(*widths: int) -> int:
    """Weights and biases of fully connected layers.

    Examples
    --------
    The paper's MLP on adult:

    >>> dense(123, 32, 16, 8, 2)
    4650
    """
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))


def conv(inputs: int, outputs: int, side: int = 3, *, bias: bool = True) -> int:
    """Weights of a convolution with a square kernel."""
    return outputs * (inputs * side * side + bias)


def _cnn(shape: tuple[int, int, int], classes: int) -> int:
    """The paper's CNN: conv 5x5 to 6, pool, conv 5x5 to 16, pool, dense 120, 84."""
    channels, height, width = shape
    flat = 16 * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
    return conv(channels, 6, 5) + conv(6, 16, 5) + dense(flat, 120, 84, classes)


def _vgg9(shape: tuple[int, int, int], classes: int) -> int:
    channels, height, width = shape
    widths = (channels, 32, 64, 128, 128, 256, 256)
    body = sum(conv(a, b) for a, b in pairwise(widths))
    return body + dense(256 * (height // 8) * (width // 8), 512, 512, classes)


def _resnet(channels: int, classes: int, widths: tuple[int, ...], blocks: int) -> int:
    """3x3 stem, stages of blocks of two convolutions, a scale and a shift per channel of each norm."""
    inputs = widths[0]
    total = conv(channels, inputs, bias=False) + 2 * inputs
    for width in widths:
        for block in range(blocks):
            total += conv(inputs, width, bias=False) + conv(width, width, bias=False) + 4 * width
            if block == 0 and inputs != width:
                total += conv(inputs, width, 1, bias=False) + 2 * width
            inputs = width
    return total + dense(inputs, classes)


def _resnet18(shape: tuple[int, int, int], classes: int) -> int:
    return _resnet(shape[0], classes, (64, 128, 256, 512), 2)


def _resnet20(shape: tuple[int, int, int], classes: int) -> int:
    return _resnet(shape[0], classes, (16, 32, 64), 3)


def _resnet50(shape: tuple[int, int, int], classes: int) -> int:
    """3x3 stem, 3-4-6-3 bottlenecks, expansion 4."""
    total, inputs = conv(shape[0], 64, bias=False) + 2 * 64, 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            total += conv(inputs, width, 1, bias=False) + conv(width, width, bias=False) + 4 * width
            total += conv(width, 4 * width, 1, bias=False) + 8 * width
            if block == 0:
                total += conv(inputs, 4 * width, 1, bias=False) + 8 * width
            inputs = 4 * width
    return total + dense(2048, classes)


TABLE_MODELS = MappingProxyType({"linear": (), "mlp": (32, 16, 8), "mlpniid": (32, 16, 8), "widemlp": (128, 64)})
"""Hidden widths of the fully connected models."""
IMAGE_MODELS = MappingProxyType(
    {"cnn": _cnn, "vgg9": _vgg9, "resnet18": _resnet18, "resnet20": _resnet20, "resnet50": _resnet50}
)
SMALLEST = MappingProxyType({"cnn": 16, "vgg9": 8})
"""Pixels that a side of an image must have, so that something is left behind the last pooling."""
KNOWN_MODELS = (
    *("linear", "mlp", "mlp_niid", "wide_mlp", "cnn", "vgg9"),
    *("resnet18", "resnet18_bn", "resnet20", "resnet20_bn", "resnet50", "resnet50_bn"),
)
"""Names as the engine spells them; its own list needs torch."""


def _plain(model: str) -> str:
    """``simple-cnn``, ``VGG-9`` and ``resnet18-gn`` are spellings of the same models; either norm has the same size."""
    name = model.strip().lower().replace("-", "").replace("_", "").removeprefix("simple").removesuffix("gn")
    return name.removesuffix("bn") if name.startswith("resnet") else name


def parameter_count(
    model: str, features: int, classes: int, image_shape: tuple[int, int, int] | None = None
) -> int | None:
    """Number of trainable parameters, without building the model.

    Parameters
    ----------
    model : ``linear``, ``mlp`` (32-16-8), ``wide_mlp`` (128-64), ``cnn``, ``vgg9``, ``resnet18``, ``resnet20``,
        ``resnet50``; a number of parameters; or ``module:factory``, whose size is not known here
    features : encoded width F
    classes : K
    image_shape : (C, H, W) for image models

    Returns
    -------
    P, or None for ``module:factory``

    Raises
    ------
    FedskewError
        There is no such model, or an image model has no images.

    Examples
    --------
    The paper's CNN on MNIST and on CIFAR-10:

    >>> parameter_count("cnn", 784, 10, (1, 28, 28)), parameter_count("cnn", 3072, 10, (3, 32, 32))
    (44426, 62006)
    """
    name = _plain(model)
    if ":" in model:
        return None
    if name.isdecimal() and int(name) > 0:
        return int(name)
    if name in TABLE_MODELS:
        return dense(features, *TABLE_MODELS[name], classes)
    if name not in IMAGE_MODELS:
        raise FedskewError(
            f"unknown model {model!r}: {choices(model, KNOWN_MODELS)}, a number of parameters, or module:factory"
        )
    if image_shape is None:
        raise FedskewError(f"model {model!r} needs images, but these rows are a table; try 'mlp' or 'linear'")
    if min(image_shape[1:]) < SMALLEST.get(name, 1):
        size = SMALLEST[name]
        raise FedskewError(f"model {model!r} needs images of {size} x {size} pixels or more; try 'wide_mlp'")
    return IMAGE_MODELS[name](image_shape, classes)


def traffic(algorithm: str, parameters: int) -> int:
    """Bytes a party carries in a round, up and down together: 8P, times the algorithm's copies.

    Examples
    --------
    >>> traffic("fedavg", 44426), traffic("scaffold", 44426)
    (355408, 710816)
    """
    return round(cost(algorithm).traffic * 2 * FLOAT * parameters)


def round_as_printed(algorithm: str, parameters: int, parties: int = 10) -> float:
    """The paper's "communication size" of a round in MB (10^6 bytes): one upload a party and one broadcast.

    Examples
    --------
    >>> round(round_as_printed("fedavg", 44426), 2)
    1.95
    """
    return cost(algorithm).traffic * (parties + 1) * FLOAT * parameters / 1e6


def counted_compute(algorithm: str, batch_size: int) -> float:
    """Arithmetic of a local step against FedAvg's, counted, not timed.

    A step of a dense network costs about 6 B P operations (forward 2, backward 4, times rows B and weights P); an
    extra forward pass adds 2 B P, an extra pass over the weights 2 P.

    Examples
    --------
    >>> round(counted_compute("moon", 64), 2), round(counted_compute("fedprox", 64), 3)
    (1.67, 1.01)
    """
    extra = cost(algorithm)
    return 1 + extra.passes / 3 + extra.vectors / (3 * batch_size)


def price(
    algorithm: str, model: str, parameters: int | None, *, parties: int, batch_size: int, tuning_runs: int
) -> Price:
    """The price of an algorithm for a model of P parameters and ``parties`` of them in each round."""
    facts = cost(algorithm)
    each = None if parameters is None else traffic(algorithm, parameters)
    return Price(
        bytes_per_party_round=each,
        relative_compute=facts.seconds,
        counted_compute=round(counted_compute(algorithm, batch_size), 3),
        client_state=facts.state or "none",
        client_state_bytes=None if parameters is None else round(facts.copies * FLOAT * parameters),
        round_bytes=None if each is None else each * parties,
        tuning_runs=tuning_runs,
        model=model,
        parameters=parameters,
    )

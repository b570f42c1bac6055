"""MOON.

Li, He, Song, "Model-Contrastive Federated Learning", CVPR 2021, equation 3 and Algorithm 1 (arXiv 2103.16257).

    local loss + mu log(1 + exp((cos(z, z_previous) - cos(z, z_global)) / temperature))        a row of the batch
    w^(t+1) = sum_i (n_i / n) w_i

z is the input of the linear layer that is called last: now, under w^t, and under the party's own last model. A party
never seen has no such model; it compares with w^t, so that the term is constant and its gradient zero. mu = 0 is FedAvg
bit for bit. The paper's projection head is no part of it: it belongs to the network.

The paper's best mu are 5 (CIFAR-10) and 1 (CIFAR-100, Tiny-ImageNet), on representations of 256 numbers. NIID-Bench's
MLP has 8 before its last layer, where 1 does harm, so the default is the least that the paper tried, 0.1.
"""

from fedskew.engine.algorithms.base import (
    NOT_NEGATIVE,
    POSITIVE,
    Algorithm,
    Hyper,
    Next,
    Start,
    Tensor,
    Update,
    mean_of,
)

TINY = 1e-12  # a dead layer's representation is zero, and has no direction


def no_model(weights: Tensor, hyper: Hyper) -> Start:  # noqa: ARG001
    """No previous model: ``seen`` is 0."""
    return Start(own={"previous": weights * 0, "seen": weights[..., :1] * 0})


def direction(z: Tensor) -> Tensor:
    """Unit vectors over the features of (L, H, B)."""
    return z / (z * z).sum(-2).clamp_min(TINY).sqrt().unsqueeze(-2)


def contrast(z: Tensor, z_global: Tensor, z_previous: Tensor, hyper: Hyper) -> Tensor:
    """The term of every row, (L, B); the difference of cosines is one product, so equal anchors give exactly zero."""
    apart = direction(z_previous) - direction(z_global)
    away = (direction(z) * apart).sum(-2) / hyper["temperature"]
    return away.logaddexp(away.detach() * 0) * hyper["mu"]


def aggregate(update: Update, hyper: Hyper) -> Next:  # noqa: ARG001
    """Average by rows; every party keeps its last model."""
    own = {"previous": update.trained, "seen": update.own["seen"] * 0 + 1}
    return Next(mean_of(update.trained, update.share), own=own)


MOON = Algorithm(
    name="moon",
    title="MOON",
    source="Li et al. 2021, equation 3",
    link="https://arxiv.org/abs/2103.16257",
    hyper={"mu": 0.1, "temperature": 0.5},
    limits={"mu": NOT_NEGATIVE, "temperature": POSITIVE},
    grid=({"mu": 0.01}, {"mu": 0.1}, {"mu": 1.0}, {"mu": 5.0}),
    init=no_model,
    penalty=contrast,
    aggregate=aggregate,
    client_state=1,
)

"""The server optimizers: FedAvgM, FedAdam, FedYogi, FedAdagrad.

Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification", 2019,
section 4 (arXiv 1909.06335). Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2 (arXiv
2003.00295).

    Delta = w^t - sum_i (n_i / n) w_i                          the pseudo-gradient, summed in float64
    FedAvgM     v <- beta v + Delta,                           w <- w - server_lr v
    the others  m <- beta1 m + (1 - beta1) Delta,              w <- w - server_lr m / (sqrt(v) + tau),  v_0 = tau^2
    FedAdam     v <- beta2 v + (1 - beta2) Delta^2
    FedYogi     v <- v - (1 - beta2) Delta^2 sign(v - Delta^2)
    FedAdagrad  v <- v + Delta^2

FedAdam's ``form="torch"`` is ``torch.optim.Adam`` on Delta + server_weight_decay w: v_0 = 0 and both moments corrected
for their start; Federated Learning Baselines ran it with server_lr 0.001, beta2 0.999, tau 1e-8, server_weight_decay
1e-5.
FedAvgM's long-run step is 1 / (1 - beta) times a party's, so its grid reaches to smaller local rates.
"""

from collections.abc import Mapping

from fedskew.engine.algorithms.base import (
    BELOW_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    Algorithm,
    Hyper,
    Limit,
    Next,
    Start,
    State,
    Tensor,
    Update,
)

LIMITS: Mapping[str, Limit] = {"server_lr": POSITIVE, "beta1": BELOW_ONE, "beta2": BELOW_ONE, "tau": POSITIVE}
RATES = tuple({"server_lr": rate} for rate in (0.01, 0.03, 0.1, 0.3))


def pseudo_gradient(update: Update) -> Tensor:
    """Delta, (..., D) float64."""
    return ((update.start.double() - update.trained.double()) * update.share).sum(-2)


def move(update: Update, step: Tensor, server: State) -> Next:
    """w^(t+1) = w^t - step, cast back to the weights' type, and so are the states."""
    kind = update.trained.dtype
    weights = update.start.squeeze(-2).double() - step
    return Next(weights.to(kind), server={name: rows.to(kind) for name, rows in server.items()})


def no_velocity(weights: Tensor, hyper: Hyper) -> Start:  # noqa: ARG001
    """v = 0."""
    return Start(server={"v": weights * 0})


def momentum(update: Update, hyper: Hyper) -> Next:
    """FedAvgM's server."""
    v = update.server["v"].double() * hyper["server_momentum"] + pseudo_gradient(update)
    return move(update, v * hyper["server_lr"], {"v": v})


def moments(weights: Tensor, hyper: Hyper) -> Start:
    """m = 0, v = tau^2 (torch's form: 0), no round done."""
    first = 0.0 if hyper.get("form") == "torch" else float(hyper["tau"]) ** 2
    return Start(server={"m": weights * 0, "v": weights * 0 + first, "rounds": weights[..., :1] * 0})


def adaptive(update: Update, hyper: Hyper, delta: Tensor, v: Tensor) -> Next:
    """The step all three share, once v is known."""
    beta1, server, bias = float(hyper["beta1"]), update.server, (1.0, 1.0)
    m, rounds = server["m"].double() * beta1 + delta * (1 - beta1), server["rounds"].double() + 1
    if hyper.get("form") == "torch":
        bias = (1 - beta1**rounds, (1 - float(hyper["beta2"]) ** rounds) ** 0.5)
    step = m / bias[0] / (v.sqrt() / bias[1] + hyper["tau"]) * hyper["server_lr"]
    return move(update, step, {"m": m, "v": v, "rounds": rounds})


def adam(update: Update, hyper: Hyper) -> Next:
    """FedAdam's server."""
    beta2 = float(hyper["beta2"])
    delta = pseudo_gradient(update) + update.start.squeeze(-2).double() * hyper["server_weight_decay"]
    return adaptive(update, hyper, delta, update.server["v"].double() * beta2 + delta**2 * (1 - beta2))


def yogi(update: Update, hyper: Hyper) -> Next:
    """FedYogi's server."""
    delta, v = pseudo_gradient(update), update.server["v"].double()
    return adaptive(update, hyper, delta, v - delta**2 * (v - delta**2).sign() * (1 - float(hyper["beta2"])))


def adagrad(update: Update, hyper: Hyper) -> Next:
    """FedAdagrad's server."""
    delta = pseudo_gradient(update)
    return adaptive(update, hyper, delta, update.server["v"].double() + delta**2)


FEDAVGM = Algorithm(
    name="fedavgm",
    title="FedAvgM",
    source="Hsu et al. 2019, section 4",
    link="https://arxiv.org/abs/1909.06335",
    hyper={"server_lr": 1.0, "server_momentum": 0.9},
    limits={"server_lr": POSITIVE, "server_momentum": BELOW_ONE},
    grid=({}, {"lr": 0.001}, {"lr": 0.003}, {"lr": 0.03}),
    init=no_velocity,
    aggregate=momentum,
    server_state=1,
)
FEDADAM = Algorithm(
    name="fedadam",
    title="FedAdam",
    source="Reddi et al. 2021, Algorithm 2",
    link="https://arxiv.org/abs/2003.00295",
    hyper={"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3, "server_weight_decay": 0.0, "form": "reddi"},
    limits={**LIMITS, "server_weight_decay": NOT_NEGATIVE, "form": ("reddi", "torch")},
    grid=RATES,
    init=moments,
    aggregate=adam,
    server_state=2,
    linear=False,
)
FEDYOGI = Algorithm(
    name="fedyogi",
    title="FedYogi",
    source="Reddi et al. 2021, Algorithm 2",
    link="https://arxiv.org/abs/2003.00295",
    hyper={"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
    limits=LIMITS,
    grid=RATES,
    init=moments,
    aggregate=yogi,
    server_state=2,
    linear=False,
)
FEDADAGRAD = Algorithm(
    name="fedadagrad",
    title="FedAdagrad",
    source="Reddi et al. 2021, Algorithm 2",
    link="https://arxiv.org/abs/2003.00295",
    hyper={"server_lr": 0.1, "beta1": 0.0, "tau": 1e-3},
    limits=LIMITS,
    grid=RATES,
    init=moments,
    aggregate=adagrad,
    server_state=2,
    linear=False,
)

"""FedDyn.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama, "Federated Learning Based on Dynamic Regularization", ICLR
2021, Algorithm 1 (arXiv 2111.04263).

    local loss - <g_i, w> + (alpha / 2) ||w - w^t||^2, so alpha (w - w^t) - g_i joins the gradient, inside momentum
    g_i+ = g_i - alpha (w_i - w^t)                   stands for the party's gradient at w_i
    h <- h - (alpha / N) sum_(i in S) (w_i - w^t),   w^(t+1) = (1 / |S|) sum_(i in S) w_i - h / alpha

g_i and h start at zero, so h (the server's ``g``) is the mean of all g_i after any sampling. Parties weigh alike
whatever their rows, as in the paper, so what it approaches is the minimum of the parties' mean loss, not that of the
pooled rows. h adds up all past changes: where local training falls short of a minimum, a small alpha makes the server
overshoot.
"""

from fedskew.engine.algorithms.base import POSITIVE, Algorithm, Hyper, Local, Next, Start, Tensor, Update


def memory(weights: Tensor, hyper: Hyper) -> Start:  # noqa: ARG001
    """g_i = h = 0."""
    return Start(own={"g": weights * 0}, server={"g": weights * 0})


def regulariser(local: Local, hyper: Hyper) -> Tensor:
    """alpha (w - w^t) - g_i."""
    return (local.weights - local.start) * hyper["alpha"] - local.own["g"]


def aggregate(update: Update, hyper: Hyper) -> Next:
    """Move the memories, take the plain mean, and leave it by h / alpha."""
    alpha, kind = float(hyper["alpha"]), update.trained.dtype
    change = (update.trained.double() - update.start.double()) * -alpha
    h = update.server["g"].double() + change.sum(-2) / update.parties
    weights = update.trained.double().mean(-2) - h / alpha
    own = update.own["g"].double() + change
    return Next(weights.to(kind), own={"g": own.to(kind)}, server={"g": h.to(kind)})


FEDDYN = Algorithm(
    name="feddyn",
    title="FedDyn",
    source="Acar et al. 2021, Algorithm 1",
    link="https://arxiv.org/abs/2111.04263",
    hyper={"alpha": 0.01},
    limits={"alpha": POSITIVE},
    grid=({"alpha": 0.001}, {"alpha": 0.01}, {"alpha": 0.1}, {"alpha": 1.0}),
    init=memory,
    gradient=regulariser,
    aggregate=aggregate,
    client_state=1,
    server_state=1,
    uniform=True,
)

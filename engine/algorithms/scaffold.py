"""SCAFFOLD.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
ICML 2020, Algorithm 1, option II (arXiv 1910.06378).

    after each optimizer step   w <- w - lr (c - c_i)          (outside momentum)
    after K_i steps             c_i+ = c_i - c + (w^t - w_i) / (K_i lr)
    server                      w^(t+1) = sum_i (n_i / n) w_i,   c <- c + (1/N) sum_(i in S) (c_i+ - c_i)

c and every c_i start at zero, and c is divided by all N parties, so c is the mean of all c_i after any sampling.
``lineage="code-2021"`` is what NIID-Bench's code did when its tables were made: c and c_i start from the weights r of
a random network and the sum is divided by the cohort's size, so c - mean(c_i) = (N / |S| - 1) (mean(c_i) - r) for
ever. It explains old numbers and is good for nothing else.
"""

from fedskew.engine.algorithms.base import Algorithm, Hyper, Local, Next, Start, Tensor, Update, mean_of


def random_network(weights: Tensor) -> Tensor:
    """A network as random as w^0 and uncorrelated with it: w^0 with signs of no pattern."""
    place = (weights * 0 + 1).cumsum(-1)
    return weights * (place * 12.9898).sin().sign()


def controls(weights: Tensor, hyper: Hyper) -> Start:
    """c = c_i = 0 (in the old lineage: the weights of a random network)."""
    start = random_network(weights) if hyper["lineage"] == "code-2021" else weights * 0
    return Start(own={"c": start}, server={"c": start})


def correction(local: Local, hyper: Hyper) -> Tensor:  # noqa: ARG001
    """-lr (c - c_i)."""
    return (local.own["c"] - local.server["c"]) * local.lr


def aggregate(update: Update, hyper: Hyper) -> Next:
    """Average the weights by rows, and the changes of the control variates over all parties."""
    c, own = update.server["c"].unsqueeze(-2), update.own["c"]
    slope = (update.start - update.trained) / (update.steps * update.lr).to(own.dtype)
    change = slope - c
    share = 1 / (change.shape[-2] if hyper["lineage"] == "code-2021" else update.parties)
    server = update.server["c"] + (change.double().sum(-2) * share).to(own.dtype)
    return Next(mean_of(update.trained, update.share), own={"c": own + change}, server={"c": server})


SCAFFOLD = Algorithm(
    name="scaffold",
    title="SCAFFOLD",
    source="Karimireddy et al. 2020, Algorithm 1, option II",
    link="https://arxiv.org/abs/1910.06378",
    hyper={"lineage": "published"},
    limits={"lineage": ("published", "code-2021")},
    init=controls,
    step=correction,
    steady=True,
    aggregate=aggregate,
    traffic=2.0,
    client_state=1,
    server_state=1,
)

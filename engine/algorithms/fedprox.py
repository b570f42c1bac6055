"""FedProx.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020, Algorithm 2
(arXiv 1812.06127).

    local loss + (mu / 2) ||w - w^t||^2, so mu (w - w^t) joins the gradient, inside momentum
    w^(t+1) = sum_i (n_i / n) w_i

mu = 0 is FedAvg bit for bit. NIID-Bench tried mu in {0.001, 0.01, 0.1, 1}.
"""

from fedskew.engine.algorithms.base import NOT_NEGATIVE, Algorithm, Hyper, Local, Tensor


def proximal(local: Local, hyper: Hyper) -> Tensor:
    """mu (w - w^t)."""
    return (local.weights - local.start) * hyper["mu"]


FEDPROX = Algorithm(
    name="fedprox",
    title="FedProx",
    source="Li et al. 2020, Algorithm 2",
    link="https://arxiv.org/abs/1812.06127",
    hyper={"mu": 0.01},
    limits={"mu": NOT_NEGATIVE},
    grid=({"mu": 0.001}, {"mu": 0.01}, {"mu": 0.1}, {"mu": 1.0}),
    gradient=proximal,
)

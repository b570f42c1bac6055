"""FedNova.

Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
NeurIPS 2020, equation 4 and section 4 (arXiv 2007.07481).

    a_i = [K_i - rho (1 - rho^K_i) / (1 - rho)] / (1 - rho)      local momentum rho; K_i at rho = 0
    d_i = (w^t - w_i) / a_i,   tau = sum_i p_i a_i,   w^(t+1) = w^t - tau sum_i p_i d_i

``form="tau"`` takes a_i = K_i whatever the momentum (the pseudo-code literally). The weights p_i tau / a_i sum to
A = tau sum_i p_i / a_i, about N sum_i p_i^2, and not to 1: with very unequal sizes the server overshoots.
``lineage="code-2021"`` weighs parties by their batches instead of their rows, as NIID-Bench's code did until 2022-12.
"""

from fedskew.engine.algorithms.base import Algorithm, Hyper, Next, Tensor, Update


def effective_steps(steps: Tensor, momentum: float, form: str | float) -> Tensor:
    """a_i: the length of the sum of a party's gradients, in units of one plain step.

    Parameters
    ----------
    steps : (..., C, 1) float64
    momentum : rho, 0 to below 1
    form : ``momentum`` or ``tau``
    """
    if form == "tau" or momentum == 0:
        return steps
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


def aggregate(update: Update, hyper: Hyper) -> Next:
    """Average the normalised changes, then take tau steps along them."""
    share = update.steps / update.steps.sum(-2, keepdim=True) if hyper["lineage"] == "code-2021" else update.share
    a = effective_steps(update.steps, update.momentum, hyper["form"])
    tau = (share * a).sum(-2, keepdim=True)
    drift = (update.start.double() - update.trained.double()) * (share * tau / a)
    return Next((update.start.squeeze(-2).double() - drift.sum(-2)).to(update.trained.dtype))


FEDNOVA = Algorithm(
    name="fednova",
    title="FedNova",
    source="Wang et al. 2020, equation 4",
    link="https://arxiv.org/abs/2007.07481",
    hyper={"form": "momentum", "lineage": "published"},
    limits={"form": ("momentum", "tau"), "lineage": ("published", "code-2021")},
    aggregate=aggregate,
)

"""FedBN.

Li, Jiang, Zhang, Kamp, Dou, "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", ICLR 2021,
Algorithm 1 (arXiv 2102.07623).

    w^(t+1) = sum_i (n_i / n) w_i over all weights but those of BatchNorm layers

Scale, shift, running statistics and counter of every BatchNorm layer stay with the party; so there are as many models
as parties, and each is judged on its own party's rows. Without BatchNorm it is FedAvg bit for bit.
"""

from fedskew.engine.algorithms.base import Algorithm


def not_batch_norm(name: str, layer: str) -> bool:  # noqa: ARG001
    """Share what lies in any other layer (SyncBatchNorm is a BatchNorm too)."""
    return "BatchNorm" not in layer


FEDBN = Algorithm(
    name="fedbn",
    title="FedBN",
    source="Li et al. 2021, Algorithm 1",
    link="https://arxiv.org/abs/2102.07623",
    shared=not_batch_norm,
)

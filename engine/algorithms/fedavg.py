"""FedAvg.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, Algorithm 1 (arXiv 1602.05629).

    w^(t+1) = sum_i (n_i / n) w_i
"""

from fedskew.engine.algorithms.base import Algorithm

FEDAVG = Algorithm(
    name="fedavg",
    title="FedAvg",
    source="McMahan et al. 2017, Algorithm 1",
    link="https://arxiv.org/abs/1602.05629",
)

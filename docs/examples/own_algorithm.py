"""An algorithm of one's own: a value made of pure functions, held to the same laws as the shipped ones.

The coordinate-wise median of Yin et al. 2018, which a few broken parties cannot drag away.
"""

import numpy as np

import fedskew
from fedskew.engine.algorithms.base import Algorithm, Hyper, Next, Update
from fedskew.engine.conformance import check_algorithm


def median(update: Update, hyper: Hyper) -> Next:  # noqa: ARG001
    """The middle of the parties' weights, each weight by itself; the party axis is the last but one."""
    return Next(update.trained.double().quantile(0.5, dim=-2).to(update.trained.dtype))


MEDIAN = Algorithm(
    name="fedmedian",
    title="FedMedian",
    source="Yin, Chen, Ramchandran, Bartlett 2018, Option I",
    link="https://arxiv.org/abs/1803.01498",
    aggregate=median,
    linear=False,  # a median is not linear in the parties' weights
    uniform=True,  # and knows no rows
)

if __name__ == "__main__":
    broken = [law.law for law in check_algorithm(MEDIAN, networks=["mlp"]) if law.status == "broken"]
    print("broken laws:", ", ".join(broken) or "none")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    silos = fedskew.make_partition(rng.normal(size=(300, 4)) + y[:, None], y, np.repeat(np.arange(3), 100))
    result = fedskew.validate(silos, ["fedavg", MEDIAN], seeds=3, rounds=5, jobs=1, tuning=False)
    print(result.verdict.text)

"""WSM, the re-weighted softmax: a modifier of any algorithm, ``NAME+wsm``.

Legate, Caccia, Belilovsky, "Re-Weighted Softmax Cross-Entropy to Control Forgetting in Federated Learning", 2023
(arXiv 2304.05260).

    local loss = -log softmax(z + log share)_y,   share_c = the class's share of the party's rows

A class that the party lacks gets weight 0, so its logit gets no gradient; all else is the algorithm's, and models are
judged by their plain logits. With all classes held equally it is the algorithm itself. A party with one class learns
nothing: its loss is 0 whatever the weights.
"""

from dataclasses import replace

from fedskew.engine.algorithms.base import Algorithm, Hyper, Tensor
from fedskew.profiles.errors import FedskewError

SUFFIX = "+wsm"
ABSENT = -1e9  # finite: infinity minus infinity is no number


def log_share(shares: Tensor, hyper: Hyper) -> Tensor:  # noqa: ARG001
    """Log of the class shares (..., K); ABSENT for classes the party lacks."""
    return shares.log().clamp_min(ABSENT)


def with_wsm(algorithm: Algorithm) -> Algorithm:
    """The algorithm with re-weighted softmax in its local loss.

    Raises
    ------
    FedskewError
        The algorithm shifts its logits already.

    Examples
    --------
    >>> from fedskew.engine.algorithms.fedavg import FEDAVG
    >>> with_wsm(FEDAVG).name
    'fedavg+wsm'
    """
    if algorithm.logits is not None:
        raise FedskewError(f"{algorithm.name!r} shifts its logits already; wsm cannot be added to it")
    return replace(
        algorithm,
        name=algorithm.name + SUFFIX,
        title=f"{algorithm.title} + WSM",
        source=f"{algorithm.source}; Legate et al. 2023",
        logits=log_share,
    )

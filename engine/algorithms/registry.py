"""The one tuple of algorithms, and finding one by the name a user types."""

from fedskew.engine.algorithms.base import Algorithm
from fedskew.engine.algorithms.fedavg import FEDAVG
from fedskew.engine.algorithms.fedbn import FEDBN
from fedskew.engine.algorithms.feddyn import FEDDYN
from fedskew.engine.algorithms.fednova import FEDNOVA
from fedskew.engine.algorithms.fedopt import FEDADAGRAD, FEDADAM, FEDAVGM, FEDYOGI
from fedskew.engine.algorithms.fedprox import FEDPROX
from fedskew.engine.algorithms.moon import MOON
from fedskew.engine.algorithms.scaffold import SCAFFOLD
from fedskew.engine.algorithms.wsm import SUFFIX, with_wsm
from fedskew.profiles.errors import FedskewError, choices

ALGORITHMS: tuple[Algorithm, ...] = (
    *(FEDAVG, FEDPROX, SCAFFOLD, FEDNOVA, FEDAVGM, FEDADAM, FEDYOGI, FEDADAGRAD, FEDDYN, MOON, FEDBN),
)


def find_algorithm(name: str) -> Algorithm:
    """Find an algorithm by its id, in any case; ``NAME+wsm`` is NAME with re-weighted softmax.

    Raises
    ------
    FedskewError
        There is no such algorithm; the message names those that exist.

    Examples
    --------
    >>> find_algorithm("FedAvg").title, find_algorithm("scaffold+wsm").title
    ('FedAvg', 'SCAFFOLD + WSM')
    """
    wanted = name.strip().lower()
    base = wanted.removesuffix(SUFFIX)
    for algorithm in ALGORITHMS:
        if algorithm.name == base:
            return algorithm if base == wanted else with_wsm(algorithm)
    known = choices(base, [a.name for a in ALGORITHMS])
    raise FedskewError(f"unknown algorithm {name!r}: {known}; each also as NAME{SUFFIX}")

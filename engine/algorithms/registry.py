"""The one tuple of algorithms, and finding one by the name a user types."""

from fedskew.engine.algorithms.base import Algorithm
from fedskew.engine.algorithms.fedavg import FEDAVG
from fedskew.engine.algorithms.fednova import FEDNOVA
from fedskew.engine.algorithms.fedprox import FEDPROX
from fedskew.engine.algorithms.scaffold import SCAFFOLD
from fedskew.profiles.errors import FedskewError, choices

ALGORITHMS: tuple[Algorithm, ...] = (FEDAVG, FEDPROX, SCAFFOLD, FEDNOVA)


def find_algorithm(name: str) -> Algorithm:
    """Find an algorithm by its id, in any case.

    Raises
    ------
    FedskewError
        There is no such algorithm; the message names those that exist.

    Examples
    --------
    >>> find_algorithm("FedAvg").title
    'FedAvg'
    """
    wanted = name.strip().lower()
    for algorithm in ALGORITHMS:
        if algorithm.name == wanted:
            return algorithm
    raise FedskewError(f"unknown algorithm {name!r}: {choices(wanted, [a.name for a in ALGORITHMS])}")

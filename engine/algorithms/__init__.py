"""The federated algorithms, each a value in one small file; adding one is one file and its name in ALGORITHMS."""

from fedskew.engine.algorithms.base import Algorithm as Algorithm
from fedskew.engine.algorithms.registry import ALGORITHMS as ALGORITHMS
from fedskew.engine.algorithms.registry import find_algorithm as find_algorithm

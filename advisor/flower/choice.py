"""What was chosen; the export writes this file anew."""

from fedskew.engine.algorithms.base import Algorithm
from fedskew.engine.algorithms.fedavg import FEDAVG
from fedskew.engine.networks.dense import mlp

ALGORITHM: Algorithm = FEDAVG
NETWORK = mlp
CLASSES: tuple[str, ...] = ("0", "1")

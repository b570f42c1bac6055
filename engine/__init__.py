"""What training does: algorithms, models, the stacked loop, scores and the verdict; torch comes with training."""

from fedskew.engine.algorithms import ALGORITHMS as ALGORITHMS
from fedskew.engine.algorithms import Algorithm as Algorithm
from fedskew.engine.algorithms import find_algorithm as find_algorithm
from fedskew.engine.plans import Estimate as Estimate
from fedskew.engine.plans import Progress as Progress
from fedskew.engine.records import Validation as Validation
from fedskew.engine.validation import validate as validate

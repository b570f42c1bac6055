"""Every way to simulate a partition, as values in one tuple."""

from fedskew.profiles.strategies.base import Parameter as Parameter
from fedskew.profiles.strategies.base import Strategy as Strategy
from fedskew.profiles.strategies.concept import LABEL_NOISE, LABEL_PERMUTATION
from fedskew.profiles.strategies.covariate import COVARIATE_QUANTILE, FCUBE
from fedskew.profiles.strategies.covariate import fcube as fcube
from fedskew.profiles.strategies.explicit import CLASS_LISTS, COUNT_MATRIX, NATURAL
from fedskew.profiles.strategies.iid import IID, IID_STRATIFIED
from fedskew.profiles.strategies.label_count import LABEL_COUNT, MIXED
from fedskew.profiles.strategies.label_dirichlet import LABEL_DIRICHLET, LABEL_DIRICHLET_HSU
from fedskew.profiles.strategies.noise import FEATURE_NOISE
from fedskew.profiles.strategies.noise import noise_scales as noise_scales
from fedskew.profiles.strategies.percent import PERCENT_NONIID
from fedskew.profiles.strategies.quantity import QUANTITY_DIRICHLET
from fedskew.profiles.strategies.shards import SHARDS

STRATEGIES: tuple[Strategy, ...] = (
    IID,
    IID_STRATIFIED,
    LABEL_DIRICHLET,
    LABEL_DIRICHLET_HSU,
    LABEL_COUNT,
    SHARDS,
    PERCENT_NONIID,
    MIXED,
    CLASS_LISTS,
    COUNT_MATRIX,
    QUANTITY_DIRICHLET,
    NATURAL,
    FCUBE,
    COVARIATE_QUANTILE,
    FEATURE_NOISE,
    LABEL_NOISE,
    LABEL_PERMUTATION,
)
"""All strategies; the command line, the help and the tests follow from this tuple."""

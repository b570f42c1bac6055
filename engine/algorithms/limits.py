"""What a hyperparameter may be, and checking it where a user gives one."""

import math
from collections.abc import Mapping

from fedskew.engine.algorithms.base import BELOW_ONE, POSITIVE, Algorithm, Limit, Range
from fedskew.profiles.errors import FedskewError, choices

COMMON: Mapping[str, Limit] = {"lr": POSITIVE, "momentum": BELOW_ONE}
"""Hyperparameters of the local optimizer, which every algorithm has."""


def check_hyper(algorithm: Algorithm, changes: Mapping[str, float | str]) -> None:
    """Refuse what the algorithm would not heed, or could not train with.

    Parameters
    ----------
    algorithm : whose they are
    changes : hyperparameters by name

    Raises
    ------
    FedskewError
        An unknown name, a number for a text or a text for a number, or a value out of its limits.

    Examples
    --------
    >>> from fedskew.engine.algorithms.fedprox import FEDPROX
    >>> check_hyper(FEDPROX, {"mu": -5.0})
    Traceback (most recent call last):
        ...
    fedskew.profiles.errors.FedskewError: fedprox.mu is -5.0; it must be 0 or more
    """
    for name, value in changes.items():
        known = sorted({*algorithm.hyper, *COMMON})
        if name not in known:
            raise FedskewError(f"{algorithm.name} has no hyperparameter {name!r}; {choices(name, known)}")
        default = algorithm.hyper.get(name, 0.0)
        if isinstance(default, str) != isinstance(value, str):
            raise FedskewError(f"{algorithm.name}.{name} is {value!r}; it must be like {default!r}")
        _check(f"{algorithm.name}.{name}", value, algorithm.limits.get(name) or COMMON.get(name))


def _check(where: str, value: float | str, limit: Limit | None) -> None:
    if isinstance(value, str):
        if isinstance(limit, tuple) and value not in limit:
            raise FedskewError(f"{where} is {value!r}: {choices(value, limit)}")
        return
    if not math.isfinite(value):
        raise FedskewError(f"{where} is {value}; it must be a finite number")
    if isinstance(limit, Range) and not limit.holds(value):
        raise FedskewError(f"{where} is {value}; it must be {limit}")

"""What sizes, local epochs and batch size alone say about training: steps of each party, FedNova's weight sum."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedskew.profiles.errors import FedskewError


def cohort_size(parties: int, participation: float) -> int:
    """How many parties train in a round: max(1, floor(participation x parties)).

    Parameters
    ----------
    parties : those that hold rows, 1 or more
    participation : above 0 to 1

    Examples
    --------
    >>> cohort_size(100, 0.29), cohort_size(10, 0.35), cohort_size(10, 0.05)  # 0.29 x 100 is not 28
    (29, 3, 1)
    """
    return max(1, int(participation * parties + 1e-9))


def step_counts(sizes: ArrayLike, local_epochs: int, batch_size: int) -> NDArray[np.int64]:
    """Local steps of each party in a round: E * ceil(n / B), the last short batch kept.

    Parameters
    ----------
    sizes : (P,) int, rows of each party
    local_epochs, batch_size : E and B, 1 or more

    Returns
    -------
    (P,) int64; 0 for a party without rows

    Raises
    ------
    FedskewError
        A size is negative, or E or B is under 1.

    Examples
    --------
    >>> step_counts([64, 65, 0], local_epochs=10, batch_size=64).tolist()
    [10, 20, 0]
    """
    rows = np.asarray(sizes, dtype=np.int64)
    if local_epochs < 1 or batch_size < 1 or (rows < 0).any():
        raise FedskewError(
            f"sizes {rows.tolist()[:5]}, local epochs {local_epochs}, batch size {batch_size}: "
            "sizes must be 0 or more, the other two 1 or more"
        )
    return np.asarray(local_epochs * -(-rows // batch_size))


def step_ratio(sizes: ArrayLike, local_epochs: int, batch_size: int) -> float:
    """Most steps over fewest among parties with rows, 1 or more.

    Examples
    --------
    >>> step_ratio([640, 64], local_epochs=1, batch_size=64)
    10.0
    """
    steps = step_counts(sizes, local_epochs, batch_size)
    working = steps[steps > 0]
    return float(working.max() / working.min()) if len(working) else 1.0


def fednova_weight_sum(sizes: ArrayLike, local_epochs: int, batch_size: int, momentum: float = 0.0) -> float:
    """FedNova's sum of effective server weights, A = tau_eff * sum of p_i / a_i.

    a_i = (tau_i - rho (1 - rho^tau_i) / (1 - rho)) / (1 - rho), which is tau_i without momentum; tau_eff = sum of
    p_i a_i; p_i = n_i / n. 1 for equal steps; well above 2 the server overshoots.

    Parameters
    ----------
    sizes, local_epochs, batch_size : see :func:`step_counts`
    momentum : rho of the local optimizer, 0 to below 1

    Returns
    -------
    float, 1 or more

    Raises
    ------
    FedskewError
        As :func:`step_counts`, or momentum outside [0, 1), or no rows at all.

    References
    ----------
    Wang, Liu, Liang, Joshi, Poor 2020, Tackling the Objective Inconsistency Problem, eq. 10 and section 4.

    Examples
    --------
    >>> fednova_weight_sum([100, 100], local_epochs=10, batch_size=64)
    1.0
    >>> fednova_weight_sum([3, 1], local_epochs=1, batch_size=1)  # (3*3/4 + 1/4) * (3/4/3 + 1/4)
    1.25
    """
    if not 0 <= momentum < 1:
        raise FedskewError(f"momentum is {momentum}; it must be at least 0 and below 1")
    rows = np.asarray(sizes, dtype=np.float64)
    tau = step_counts(sizes, local_epochs, batch_size).astype(np.float64)
    if not rows.sum():
        raise FedskewError("no party has rows; FedNova's weights need at least one")
    share, tau = (rows / rows.sum())[rows > 0], tau[rows > 0]
    a = (tau - momentum * (1 - momentum**tau) / (1 - momentum)) / (1 - momentum)
    return float((share * a).sum() * (share / a).sum())

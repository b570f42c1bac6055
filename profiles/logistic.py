"""Multinomial logistic regression, cross-fitted: each row is predicted by a model that never saw it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
ITERATIONS = 40
PRIOR = 1 / 30  # weights of features of length 1 have a variance of 30: logits of about 5 are nothing unusual


def cross_fitted(features: NDArray[Any], codes: NDArray[np.int64], classes: int, fold: NDArray[np.int64]) -> Vector:
    """Log-probabilities of every class for every row, from a model fitted to the rows of the other folds.

    Parameters
    ----------
    features : (n, D) without a constant column
    codes : (n,) 0 to ``classes`` - 1
    fold : (n,) 0 to 1 or more

    Returns
    -------
    (n, classes) float64

    Examples
    --------
    >>> x = np.repeat([0.0, 1.0], 50)[:, None]
    >>> found = cross_fitted(x, np.repeat([0, 1], 50), 2, np.arange(100) % 2)
    >>> bool(np.exp(found[0, 0]) > 0.9)
    True
    """
    out = np.zeros((len(features), classes))
    for part in np.unique(fold):
        seen = fold != part
        weights, centre, basis = fitted(features[seen], codes[seen], classes)
        out[~seen] = log_softmax((features[~seen] - centre) @ basis @ weights[1:] + weights[0])
    return out


def fitted(
    features: NDArray[Any],
    codes: NDArray[np.int64],
    classes: int,
    given: NDArray[Any] | None = None,
    prior: float = PRIOR,
    least: float = 1e-6,
) -> tuple[Vector, Vector, Vector]:
    """Fit with a ridge on the weights of the features: weights (1 + R, classes), centre (D,), basis (D, R).

    L-BFGS on features turned and scaled so that the problem is nearly round: some twenty steps do. ``given``
    (n, classes) are logits that are known and added; ``prior`` is the inverse variance of weights believed in
    beforehand; directions with less than ``least`` of the largest variance are left out.
    """
    from scipy.optimize import minimize

    centre = features.mean(axis=0, dtype=np.float64)
    centred = features - centre
    values, vectors = np.linalg.eigh(centred.T @ centred / max(len(features), 1))
    kept = values > max(float(values.max(initial=0.0)) * least, 1e-12)
    stiff = prior / values[kept] / len(features)  # the ridge's own curvature; the data's is about 0.1
    basis = vectors[:, kept] / np.sqrt(values[kept] * (1 + stiff / 0.1))
    columns = np.vstack([np.ones((1, len(features))), (centred @ basis).T]).astype(np.float32)
    wide, number = columns.shape
    known = None if given is None else np.ascontiguousarray(given.T, dtype=np.float32)
    place = codes * number + np.arange(number)  # of each row's own class, classes standing in rows: sums run fast

    def loss(flat: Vector) -> tuple[float, Vector]:
        weights = flat.reshape(wide, classes)
        logits = weights.T.astype(np.float32) @ columns
        if known is not None:
            logits += known
        logits -= logits.max(axis=0)
        own = float(logits.ravel()[place].sum(dtype=np.float64))
        share = np.exp(logits, out=logits)
        whole = share.sum(axis=0)
        value = (float(np.log(whole).sum(dtype=np.float64)) - own) / number
        share /= whole
        share.ravel()[place] -= 1
        slope = columns @ share.T / number + bound * weights
        return value + float((bound / 2 * weights**2).sum()), slope.ravel().astype(np.float64)

    bound = np.zeros((wide, 1))  # the constant is free
    bound[1:, 0] = stiff / (1 + stiff / 0.1)
    start = np.zeros((wide, classes))
    if given is None:
        start[0] = np.log(np.bincount(codes, minlength=classes) / number + 1e-3)
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "ftol": 1e-7})
    return found.x.reshape(wide, classes), centre, basis


def log_softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Logarithms of probabilities from logits, along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

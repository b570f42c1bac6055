"""Scores of predictions; all shares between 0 and 1, None where a score is undefined."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def accuracy(truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> float | None:
    """Share of rows predicted rightly; None without rows.

    Examples
    --------
    >>> accuracy(np.array([0, 1, 1, 1]), np.array([1, 1, 1, 1]))
    0.75
    """
    return float((truth == predicted).mean()) if len(truth) else None


def balanced_accuracy(truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> float | None:
    """Mean recall over the classes that occur in ``truth``: 1 / K for a constant predictor.

    Examples
    --------
    >>> balanced_accuracy(np.array([0, 1, 1, 1]), np.array([1, 1, 1, 1]))
    0.5
    """
    if not len(truth):
        return None
    total = np.bincount(truth)
    hits = np.bincount(truth[truth == predicted], minlength=len(total))
    seen = total > 0
    return float((hits[seen] / total[seen]).mean())


def macro_f1(truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> float | None:
    """Mean over the classes of ``truth`` or ``predicted`` of 2 TP / (2 TP + FP + FN).

    Examples
    --------
    >>> round(macro_f1(np.array([0, 1, 1, 1]), np.array([1, 1, 1, 1])), 4)
    0.4286
    """
    if not len(truth):
        return None
    width = int(max(truth.max(), predicted.max())) + 1
    both = np.bincount(truth, minlength=width) + np.bincount(predicted, minlength=width)
    hits = np.bincount(truth[truth == predicted], minlength=width)
    seen = both > 0
    return float((2 * hits[seen] / both[seen]).mean())


def r_squared(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> float | None:
    """1 - squared error / squared error of the mean: 1 is perfect, 0 the constant predictor, below 0 worse than it.

    Examples
    --------
    >>> r_squared(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    0.0
    """
    spread = float(((truth - truth.mean()) ** 2).sum()) if len(truth) else 0.0
    return 1.0 - float(((truth - predicted) ** 2).sum()) / spread if spread > 0 else None


def by_row(truth: NDArray[Any], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each test row's contribution to the score, (S, n): right or wrong; else 1 - squared error / variance.

    Examples
    --------
    >>> by_row(np.array([0, 1]), np.array([[0.0, 0.0]])).tolist()
    [[1.0, 0.0]]
    """
    if truth.dtype.kind == "f":
        wanted = truth.astype(np.float64)
        return np.asarray(1.0 - (predicted - wanted) ** 2 / wanted.var())
    return np.asarray(predicted == truth, dtype=np.float64)


def by_party(hits: NDArray[np.float64], party: NDArray[np.int32], parties: int) -> list[float | None]:
    """Mean of ``hits`` (N,) over the rows of each party, (P,); None for a party without test rows.

    Examples
    --------
    >>> by_party(np.array([1.0, 0.0, 1.0]), np.array([0, 0, 2], np.int32), 3)
    [0.5, None, 1.0]
    """
    rows = np.bincount(party, minlength=parties)
    sums = np.bincount(party, weights=hits, minlength=parties)
    return [float(s / n) if n else None for s, n in zip(sums, rows, strict=True)]

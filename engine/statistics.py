"""Statistics over paired seeds: intervals and comparisons. Each candidate's own variance, never a pooled one."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean with the two parts of its variance: between seeds (of the mean over seeds) and between test rows."""

    mean: float
    seed_variance: float
    row_variance: float
    seeds: int
    rows: int

    @property
    def error(self) -> float:
        """Standard error."""
        return math.sqrt(self.seed_variance + self.row_variance)

    @property
    def freedom(self) -> float:
        """Degrees of freedom by Welch and Satterthwaite: S - 1 when seeds vary, more as rows dominate."""
        total = self.seed_variance + self.row_variance
        parts = 0.0
        if self.seeds > 1 and self.seed_variance > 0:
            parts += self.seed_variance**2 / (self.seeds - 1)
        if self.rows > 1 and self.row_variance > 0:
            parts += self.row_variance**2 / (self.rows - 1)
        return total**2 / parts if parts > 0 else max(self.seeds - 1, 1)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Two-sided t interval; infinitely wide from a single seed, whose variance nobody knows."""
        if self.seeds < 2:
            return -math.inf, math.inf
        half = t_quantile(0.5 + level / 2, self.freedom) * self.error
        return self.mean - half, self.mean + half

    def p_value(self) -> float:
        """Two-sided p against a mean of zero."""
        if self.seeds < 2:
            return 1.0
        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        from scipy.special import stdtr

        return float(2 * stdtr(self.freedom, -abs(self.mean) / self.error))


def t_quantile(share: float, freedom: float) -> float:
    """Quantile of Student's t.

    Examples
    --------
    >>> round(t_quantile(0.975, 4), 3)
    2.776
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def spread(values: NDArray[np.float64], by_row: NDArray[np.float64]) -> Spread:
    """Describe scores, or paired differences of scores, over seeds.

    Parameters
    ----------
    values : (S,) one score a seed
    by_row : (n,) each test row's contribution, averaged over seeds; its mean is the score

    Examples
    --------
    >>> found = spread(np.array([0.5, 0.7]), np.array([1.0, 1.0, 0.0, 0.4]))
    >>> round(found.seed_variance, 4), round(found.row_variance, 4)
    (0.01, 0.06)
    """
    seeds, rows = len(values), len(by_row)
    between = float(values.var(ddof=1)) / seeds if seeds > 1 else 0.0
    within = float(by_row.var(ddof=1)) / rows if rows > 1 else 0.0
    return Spread(float(values.mean()), between, within, seeds, rows)


def seeds_to_settle(found: Spread, gap: float, comparisons: int, most: int = 200) -> int | None:
    """How many seeds would make the corrected interval of a comparison narrower than ``gap``; None: none would.

    Parameters
    ----------
    found : the comparison as measured
    gap : half-width wanted, in the score's unit
    comparisons : how many comparisons share the 5 %
    most : give up beyond this
    """
    one = found.seed_variance * found.seeds
    for seeds in range(found.seeds + 1, most + 1):
        trial = Spread(found.mean, one / seeds, found.row_variance, seeds, found.rows)
        low, high = trial.interval(1 - 0.05 / comparisons)
        if (high - low) / 2 < gap:
            return seeds
    return None

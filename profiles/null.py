"""What chance alone gives: tables drawn with both margins fixed, and the tail of a statistic among them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.keyed import generator

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

DRAWS, LEAST_DRAWS = 9_999, 999  # so that p = (1 + exceedances) / 10,000, or / 1,000 where drawing is dear
WORK_NS = 0.5e9  # nanoseconds of drawing a table may cost, by the costs below (measured, one core)
CELL_NS, ROW_NS, EMPTY_NS = 200.0, 20.0, 4.0  # Patefield per cell; Boyett per row and per cell
SHUFFLE_NS = 60.0  # a row of a table too large for either
BLOCK_CELLS = 2_000_000
MOST_STEPPED = 5_000_000  # rows to which the methods of scipy are the faster ones
LARGE_CELL, MOST_DRAWN = 1e5, 10**9  # rows a cell, or in all, from which the law is taken from theory


@dataclass(frozen=True, slots=True)
class Chance:
    """A statistic under chance: ``mean``, and ``draws`` (D,) the values it took, ascending, or its ``spread``.

    ``spread``, a standard deviation, stands for draws where the statistic is a sum of so many terms that it is normal.
    """

    mean: float
    draws: Floats
    spread: float | None = None

    def p_value(self, observed: float) -> float:
        """Chance of a value as large as the observed one, above 0 and at most 1.

        From draws: (1 + number of draws at or above) / (1 + D). From a spread: the upper tail of the normal law.

        References
        ----------
        Davison and Hinkley 1997, Bootstrap Methods and their Application, eq. 4.11 (the count).

        Examples
        --------
        >>> Chance(5.0, np.arange(999.0)).p_value(990)
        0.01
        >>> round(Chance(5.0, np.zeros(0), 2.0).p_value(5 + 2 * 1.96), 3)
        0.025
        """
        slack = 1e-9 * max(1.0, abs(observed))  # equal tables must tie in spite of rounding
        if self.spread is None:
            above = len(self.draws) - int(np.searchsorted(self.draws, observed - slack))
            return (1 + above) / (1 + len(self.draws))
        from scipy.special import ndtr

        if self.spread <= slack:
            return 1.0 if observed <= self.mean + slack else 1e-300
        return max(1e-300, float(ndtr((self.mean - observed) / self.spread)))


def draws_for(rows: int, cells: int) -> int:
    """How many tables to draw: 9,999 where that is cheap, fewer for large tables, at least 999; from sizes only.

    Examples
    --------
    >>> draws_for(rows=200, cells=100), draws_for(rows=10**6, cells=10**7)
    (9999, 999)
    """
    cost = min(CELL_NS * cells, ROW_NS * rows + EMPTY_NS * cells)
    return int(np.clip(WORK_NS / max(cost, 1.0), LEAST_DRAWS, max(DRAWS, LEAST_DRAWS)))


def chance_tables(by_party: Counts, by_class: Counts, draws: int, key: str) -> Iterator[Counts]:
    """Draw tables uniformly among all assignments of the rows with these margins, in blocks (d, P, K).

    Parameters
    ----------
    by_party, by_class : (P,) and (K,) positive margins with the same sum
    draws : how many tables in all
    key : names the purpose, so that the same margins give the same tables

    References
    ----------
    Patefield 1981, Applied Statistics 30, algorithm AS 159; Boyett 1979, algorithm AS 144.
    """
    cells = len(by_party) * len(by_class)
    rng = generator("chance tables", key)
    if min(len(by_party), len(by_class)) == 1:  # the margins leave one table only
        yield np.broadcast_to(np.outer(by_party, by_class) // by_party.sum(), (draws, len(by_party), len(by_class)))
        return
    if cells > BLOCK_CELLS:
        for _ in range(draws):
            yield _dealt(by_party, by_class, rng)
        return
    if int(by_party.sum()) > MOST_STEPPED:
        block = max(1, BLOCK_CELLS // cells)
        yield from (_cell_by_cell(by_party, by_class, min(block, draws - at), rng) for at in range(0, draws, block))
        return
    boyett = ROW_NS * int(by_party.sum()) + EMPTY_NS * cells < CELL_NS * cells
    block = max(1, min(draws, BLOCK_CELLS // cells))
    for start in range(0, draws, block):
        yield _stepped(by_party, by_class, min(block, draws - start), rng, boyett=boyett)


def _stepped(by_party: Counts, by_class: Counts, draws: int, rng: np.random.Generator, *, boyett: bool) -> Counts:
    """Tables (d, P, K) by the methods of scipy's ``random_table``, ``boyett`` or else Patefield's."""
    compiled = _compiled()
    if compiled is not None:
        draw = compiled.rvs_rcont1 if boyett else compiled.rvs_rcont2
        tables = draw(by_party.astype(np.int64), by_class.astype(np.int64), int(by_party.sum()), draws, rng)
    else:
        from scipy.stats import random_table

        law = random_table(by_party, by_class)
        tables = law.rvs(draws, method="boyett" if boyett else "patefield", random_state=rng)
    return np.asarray(tables).astype(np.int64, copy=False).reshape(draws, len(by_party), len(by_class))


@cache
def _compiled() -> Any:
    """The compiled functions behind ``random_table``; None where this version of scipy keeps them elsewhere.

    They are loaded alone, since importing all of scipy.stats takes a second, a third of a small profile.
    """
    import scipy

    found = PathFinder.find_spec("rcont", [f"{folder}/stats/_rcont" for folder in scipy.__path__])
    if found is None or found.loader is None:
        return None
    try:
        module = module_from_spec(found)
        found.loader.exec_module(module)
    except ImportError:
        return None
    return module if hasattr(module, "rvs_rcont1") and hasattr(module, "rvs_rcont2") else None


def _dealt(by_party: Counts, by_class: Counts, rng: np.random.Generator) -> Counts:
    """One table (1, P, K): the shuffled labels are dealt party by party; many rows are drawn as counts instead."""
    parties, classes = len(by_party), len(by_class)
    if SHUFFLE_NS * int(by_party.sum()) > CELL_NS * parties * classes:
        left, table = by_class.copy(), np.empty((1, parties, classes), np.int64)
        for party, rows in enumerate(by_party):
            table[0, party] = rng.multivariate_hypergeometric(left, rows, method="marginals")
            left -= table[0, party]
        return table
    labels = np.repeat(np.arange(classes, dtype=np.int32), by_class)
    rng.shuffle(labels)
    first = np.repeat(np.arange(parties) * classes, by_party)
    return np.bincount(first + labels, minlength=parties * classes).reshape(1, parties, classes)


def _cell_by_cell(by_party: Counts, by_class: Counts, draws: int, rng: np.random.Generator) -> Counts:
    """Tables (d, P, K) drawn cell by cell, all at once: no slower for more rows."""
    left = np.tile(by_class, (draws, 1))
    tables = np.zeros((draws, len(by_party), len(by_class)), np.int64)
    for party, rows in enumerate(by_party[:-1].tolist()):
        need, others = np.full(draws, rows), left.sum(axis=1)
        for label in range(len(by_class) - 1):
            others -= left[:, label]
            tables[:, party, label] = _hypergeometric(left[:, label], others, need, rng)
            need -= tables[:, party, label]
        tables[:, party, -1] = need
        left -= tables[:, party]
    tables[:, -1] = left
    return tables


def _hypergeometric(good: Counts, bad: Counts, need: Counts, rng: np.random.Generator) -> Counts:
    """Hypergeometric numbers; normal ones of the same mean and variance where numpy has none, from 10**9 rows."""
    if max(int(good.max()), int(bad.max())) < MOST_DRAWN:
        return np.asarray(rng.hypergeometric(good, bad, need))
    rows = np.maximum(good + bad, 2).astype(np.float64)
    mean = need * (good / rows)
    variance = mean * (bad / rows) * (rows - need) / (rows - 1)
    drawn = np.rint(mean + np.sqrt(variance) * rng.standard_normal(len(good))).astype(np.int64)
    return np.asarray(np.clip(drawn, np.maximum(need - bad, 0), np.minimum(good, need)))


def chance_of(
    by_party: Counts, by_class: Counts, statistic: Callable[[Counts], Floats], key: str, draws: int | None = None
) -> Chance:
    """The law of a statistic of the table under fixed margins.

    Margins are sorted first, so the answer cannot depend on the order of parties or classes; the statistic must not
    either.

    Parameters
    ----------
    by_party, by_class : (P,) and (K,) margins; zeros are left out
    statistic : from (d, P, K) int64 tables to (d,) values
    key : see :func:`chance_tables`
    draws : how many; :func:`draws_for` where not given

    Examples
    --------
    >>> two = np.array([1, 1])
    >>> law = chance_of(two, two, lambda tables: tables[:, 0, 0].astype(float), "example")
    >>> sorted(set(law.draws.tolist())), round(law.mean, 1)
    ([0.0, 1.0], 0.5)
    """
    rows, columns = np.sort(by_party[by_party > 0])[::-1], np.sort(by_class[by_class > 0])[::-1]
    count = draws or draws_for(int(rows.sum()), len(rows) * len(columns))
    values = np.concatenate([statistic(tables) for tables in chance_tables(rows, columns, count, key)])
    return Chance(float(values.mean()), np.sort(values))


def counts_are_large(by_party: Counts, by_class: Counts) -> bool:
    """Whether every cell expects so many rows, or there are so many in all, that tables need not be drawn.

    Examples
    --------
    >>> counts_are_large(np.array([10**6, 10**6]), np.array([10**6, 10**6]))
    True
    """
    rows = int(by_party.sum())
    return rows > MOST_DRAWN or float(by_party.min()) * float(by_class.min()) >= LARGE_CELL * rows


def chance_of_large(by_party: Counts, by_class: Counts) -> Chance:
    """The law of the sum of n ln n over cells where counts are large: half a chi-squared above its least value.

    Its draws are evenly spaced quantiles. With so many rows a cell it differs from drawn tables by less than
    their own noise.

    References
    ----------
    Wilks 1938, https://doi.org/10.1214/aoms/1177732360: twice the rows times the information is chi-squared.
    """
    from scipy.special import gammaincinv

    freedom = (len(by_party) - 1) * (len(by_class) - 1)
    rows = int(by_party.sum())
    least = float(xlogx(np.sort(by_party)).sum() + xlogx(np.sort(by_class)).sum() - rows * np.log(rows))
    above = np.asarray(gammaincinv(freedom / 2, (np.arange(DRAWS) + 0.5) / DRAWS), np.float64)
    return Chance(least + freedom / 2, least + above)


def xlogx_table(largest: int) -> Floats:
    """The values n ln n for n = 0 to ``largest``, to be looked up: (largest + 1,) float64.

    Examples
    --------
    >>> xlogx_table(2).round(3).tolist()
    [0.0, 0.0, 1.386]
    """
    n = np.arange(largest + 1, dtype=np.float64)
    return n * np.log(np.maximum(n, 1.0))


def xlogx(values: NDArray[Any], table: Floats | None = None) -> Floats:
    """The value of n ln n with 0 ln 0 = 0, elementwise; from the look-up table where one is given."""
    if table is not None:
        return np.asarray(table[values])
    return np.asarray(values * np.log(np.where(values > 0, values, 1.0)))

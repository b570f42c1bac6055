"""Hypothesis strategies for partitions: what every function that takes one must survive. Needs hypothesis."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.partitions import Partition, make_partition

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

AWKWARD = (0.0, -0.0, 1.0, -1.0, 1e-38, 5e-324, 1e30, -3.4e38, 16_777_217.0, float("nan"), float("inf"), -float("inf"))
"""Values that arithmetic in float32 trips over; among them missing and infinite ones."""
NAMES = ("a", "b", "10", "9", "north", "Ünïcode", "nan", " ", "a/b", "=1+1", "<b>", "0.5", "true", "-", "a" * 300)
"""Names that a person may give; each means itself."""


def partitions(
    *,
    parties: tuple[int, int] = (1, 6),
    classes: tuple[int, int] = (1, 4),
    features: tuple[int, int] = (0, 4),
    most_rows: int = 12,
    awkward: bool = True,
    images: bool = False,
) -> "SearchStrategy[Partition]":
    """Partitions of all shapes: empty parties, parties of one row, one class, missing values, constant columns.

    Parameters
    ----------
    parties, classes, features : least and most; features are columns, of images they do not count
    most_rows : of one cell, a party and a class
    awkward : also draw missing, infinite, denormal and huge values, and columns that never vary
    images : features are (N, C, 8, 8) uint8 with one channel or three

    Returns
    -------
    Strategy of :class:`Partition`; every party and class has a name, not every one has a row.

    Raises
    ------
    EnvironmentFaultError
        hypothesis is not installed.
    FedskewError
        A range is empty.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(partitions(parties=(2, 3)))
    ... def every_row_is_counted(partition):
    ...     assert partition.counts.sum() == partition.rows >= 1
    >>> every_row_is_counted()
    """
    st = _strategies()
    for name, (least, most) in (("parties", parties), ("classes", classes), ("features", features)):
        if not (0 if name == "features" else 1) <= least <= most:
            raise FedskewError(f"{name} is {least} to {most}; give the least and the most, such as (1, 4)")

    def draw_one(draw: "DrawFn") -> Partition:
        shape = draw(st.integers(*parties)), draw(st.integers(*classes))
        cell = st.one_of(st.sampled_from([0, 0, 1, 2]), st.integers(0, most_rows))
        flat = draw(st.lists(cell, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
        if not any(flat):
            flat[draw(st.integers(0, len(flat) - 1))] = 1
        party, label = np.divmod(np.repeat(np.arange(len(flat)), flat), shape[1])
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        if images:
            values: NDArray[Any] = rng.integers(0, 256, (len(party), draw(st.sampled_from([1, 3])), 8, 8)).astype("u1")
        else:
            values = rng.normal(size=(len(party), draw(st.integers(*features)))).astype(np.float32)
            values = _made_awkward(draw, values) if awkward else values
        names = draw(st.permutations([*NAMES, *(f"silo {i}" for i in range(shape[0] - len(NAMES)))]))
        kinds = draw(st.permutations([*NAMES, *(f"class {i}" for i in range(shape[1] - len(NAMES)))]))
        order = rng.permutation(len(party))
        return make_partition(
            values[order], label[order], party[order], class_names=_first(kinds, shape[1]),
            party_names=_first(names, shape[0]),
        )  # fmt: skip

    found: SearchStrategy[Partition] = st.composite(draw_one)()
    return found


def count_tables(*, parties: int = 8, classes: int = 5, most: int = 40) -> "SearchStrategy[NDArray[np.int64]]":
    """Tables of rows by party and class, (P, K) int64 with at least one row; many cells are empty.

    Parameters
    ----------
    parties, classes : the most
    most : rows of one cell

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(count_tables())
    ... def some_row_exists(counts):
    ...     assert counts.ndim == 2 and counts.sum() >= 1
    >>> some_row_exists()
    """
    st = _strategies()

    def draw_one(draw: "DrawFn") -> NDArray[np.int64]:
        shape = draw(st.integers(1, parties)), draw(st.integers(1, classes))
        cell = st.one_of(st.just(0), st.integers(0, most))
        flat = draw(st.lists(cell, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
        if not any(flat):
            flat[0] = 1
        return np.array(flat, np.int64).reshape(shape)

    found: SearchStrategy[NDArray[np.int64]] = st.composite(draw_one)()
    return found


def _made_awkward(draw: "DrawFn", values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Put awkward values into some cells, and make some columns constant or missing altogether."""
    st = _strategies()
    rows, width = values.shape
    if not width:
        return values
    place = st.tuples(st.integers(0, rows - 1), st.integers(0, width - 1), st.sampled_from(AWKWARD))
    with np.errstate(all="ignore"):
        for row, column, value in draw(st.lists(place, max_size=6)):
            values[row, column] = value
        for column, value in draw(st.lists(st.tuples(st.integers(0, width - 1), st.sampled_from(AWKWARD)), max_size=2)):
            values[:, column] = value
    return values


def _first(names: list[str], count: int) -> tuple[str, ...]:
    """So many of the names, in the order that readers bring them into."""
    from fedskew.profiles.partitions import ordered_names

    return ordered_names(names[:count])


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ModuleNotFoundError:
        raise EnvironmentFaultError(
            "strategies for partitions need hypothesis, which is not installed; pip install 'fedskew[testing]'"
        ) from None
    return strategies

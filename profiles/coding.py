"""Label and party columns become codes and names; a continuous target becomes quantile bins."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.counting import many
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Finding, ordered_names
from fedskew.profiles.readers.base import MISSING_NAMES, MISSING_VALUES

if TYPE_CHECKING:
    import polars as pl

CONTINUOUS = 20  # a float label with more distinct values is a target
BINS = 5
MANY = 1_000  # distinct values from which "more than half the rows" means an id
CAP = 100_000  # names in all
ID_ROWS = 4  # under this many rows distinct labels prove nothing


@dataclass(frozen=True, slots=True)
class Coded:
    """Codes (N,) int64 into ``names``, -1 where missing; for a continuous target also its values and bin edges."""

    codes: NDArray[np.int64]
    names: tuple[str, ...]
    target: NDArray[np.float64] | None = None
    edges: NDArray[np.float64] | None = None


def code_names(series: "pl.Series", what: str, where: str, *, guard: bool = True) -> Coded:
    """Codes of the names in a column: texts as they stand, numbers as text ("1", "1.0"), booleans "true"/"false".

    Empty, null and NaN are missing. Where ``1`` and ``1.0`` both occur (a silo with holes) they are one name. With
    ``guard`` a column that names rows rather than groups of rows is refused.

    Raises
    ------
    FedskewError
        The column is nested, or an id.
    """
    import polars as pl

    values = plain(series, what, where)
    unique = values.drop_nulls().unique()
    texts = unique.cast(pl.String)
    if guard:
        _check_id(series.name, what, where, len(unique), len(values) - values.null_count())
    spelled = dict(zip(unique.to_list(), one_spelling(texts.to_list()), strict=True))
    names = ordered_names(spelled.values())
    place = {name: code for code, name in enumerate(names)}
    if not len(unique):
        return Coded(np.full(len(values), -1, np.int64), ())
    codes = values.replace_strict(
        unique, pl.Series([place[text] for text in spelled.values()]), default=-1, return_dtype=pl.Int64
    )
    return Coded(codes.fill_null(-1).to_numpy().astype(np.int64), names)


def code_exact(series: "pl.Series", names: tuple[str, ...]) -> Coded:
    """Codes of texts that are the names of files or folders: exact, so that a silo may be called ``nan``.

    Examples
    --------
    >>> import polars as pl
    >>> code_exact(pl.Series(["nan", "a", None]), ("a", "b", "nan"))
    Coded(codes=array([ 2,  0, -1]), names=('a', 'b', 'nan'), target=None, edges=None)
    """
    ordered = ordered_names(names)
    place = {name: code for code, name in enumerate(ordered)}
    return Coded(np.array([place.get(name, -1) for name in series.to_list()], np.int64), ordered)


def code_labels(series: "pl.Series", where: str, task: str | None, bins: int = BINS) -> Coded:
    """Codes of a label column, or of the quantile bins of a continuous target.

    A column of floats with more than 20 distinct values is continuous unless ``task`` is ``classification``.

    Raises
    ------
    FedskewError
        The labels are an id, or ``task`` is ``regression`` and they are not numbers.
    """
    values = plain(series, "label", where)
    numbers = _numbers(values)
    if task == "regression" and numbers is None:
        raise FedskewError(f"{where}: label column {series.name!r} is not numeric; regression needs numbers")
    continuous = task is None and numbers is not None and _float(values) and numbers.drop_nans().n_unique() > CONTINUOUS
    if numbers is None or not (task == "regression" or continuous):
        return code_names(values, "label", where)
    target = numeric_target(values, where)
    seen = target[~np.isnan(target)]
    if not len(seen):
        raise FedskewError(f"{where}: label column {series.name!r} holds no finite number")
    edges = np.unique(np.quantile(seen, np.arange(1, bins) / bins))
    edges = edges[edges < seen.max()]
    return bin_target(target, edges)


def numeric_target(series: "pl.Series", where: str) -> NDArray[np.float64]:
    """The column as float64, NaN where it is missing, infinite or no number."""
    import polars as pl

    target = plain(series, "label", where).cast(pl.Float64, strict=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(target), target, np.nan)


def bin_target(target: NDArray[np.float64], edges: NDArray[np.float64]) -> Coded:
    """Bins of a target: code b holds edges[b-1] < value <= edges[b].

    Examples
    --------
    >>> bin_target(np.array([1.0, 2.5, 9.0]), np.array([2.5])).names
    ('(-inf, 2.5]', '(2.5, inf)')
    >>> bin_target(np.array([1.0, 2.5, 9.0]), np.array([2.5])).codes.tolist()
    [0, 0, 1]
    """
    codes = np.searchsorted(edges, target, side="left").astype(np.int64)
    short = [f"{edge:.6g}" for edge in edges]
    texts = short if len(set(short)) == len(edges) else [repr(float(edge)) for edge in edges]
    ends = ["-inf", *texts, "inf"]
    names = tuple(f"({low}, {high}{')' if high == 'inf' else ']'}" for low, high in pairwise(ends))
    return Coded(np.where(np.isnan(target), -1, codes), names, target, edges)


def align(coded: Coded, names: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes of a test column in the names of the training one, and those names with the new ones appended.

    Examples
    --------
    >>> align(Coded(np.array([0, 1, -1]), ("b", "c")), ("a", "b"))
    (array([ 1,  2, -1]), ('a', 'b', 'c'))
    """
    known = set(names)
    twins = {name: twin(name, known) for name in coded.names}
    everything = names + tuple(name for name in coded.names if twins[name] not in known)
    place = {name: code for code, name in enumerate(everything)}
    lookup = np.array([*(place[twins[name]] for name in coded.names), -1], dtype=np.int64)
    return lookup[coded.codes], everything


def skipped(
    missing: NDArray[np.bool_], what: str, party: NDArray[Any], party_names: tuple[str, ...], where: str = ""
) -> list[Finding]:
    """A finding on rows left out because they have no label or no party; ``party`` holds codes, -1 unknown."""
    count = int(missing.sum())
    if not count:
        return []
    names = tuple(party_names[code] for code in np.unique(party[missing]) if code >= 0)
    code = "missing_labels" if what == "label" else "missing_party"
    text = f"{where}{count} of {len(missing)} rows have no {what} and were left out"
    severe = count > 0.05 * len(missing)
    return [Finding(code=code, severity="strong" if severe else "mild", text=text, parties=names, count=count)]


def doubtful_names(coded: Coded, what: str, column: str) -> list[Finding]:
    """A finding for each name that would mean "no value" in a feature column, such as ``NA``.

    Examples
    --------
    >>> doubtful_names(Coded(np.array([0, 1, 0]), ("NA", "a")), "label", "y")[0].text
    "label column 'y' holds 'NA' in 2 rows, taken as a class of that name; leave those cells empty if it means missing"
    """
    kind = "class" if what == "label" else "party"
    found = []
    for code, name in enumerate(coded.names):
        if name in MISSING_VALUES:  # MISSING_NAMES are no names here
            count = int((coded.codes == code).sum())
            text = (
                f"{what} column {column!r} holds {name!r} in {many(count, 'row')}, taken as a {kind} of that name; "
                "leave those cells empty if it means missing"
            )
            found.append(Finding(code="na_is_a_name", severity="mild", text=text, count=count))
    return found


def plain(series: "pl.Series", what: str, where: str) -> "pl.Series":
    """The column as text, integers, floats or booleans, null wherever it is missing."""
    import polars as pl

    kind = series.dtype
    if kind.is_nested() or kind in {pl.Binary, pl.Object}:
        raise FedskewError(f"{where}: {what} column {series.name!r} is of type {kind}; text or numbers are needed")
    if kind.is_float():
        return series.cast(pl.Float64).fill_nan(None)
    if kind.is_integer() or kind == pl.Boolean:
        return series
    texts = series.cast(pl.String).str.strip_chars()
    texts = texts.set(texts.is_in(list(MISSING_NAMES)), None)
    known = texts.drop_nulls().unique().to_list()
    if known and set(known) <= {"True", "False"}:  # as pandas writes what Parquet holds as booleans
        return texts == "True"
    return texts


def _numbers(values: "pl.Series") -> "pl.Series | None":
    import polars as pl

    if values.dtype == pl.Boolean:
        return None
    numbers = values.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == values.null_count() < len(values) else None


def _float(values: "pl.Series") -> bool:
    import polars as pl

    if values.dtype != pl.String:
        return values.dtype.is_float()
    return bool(values.str.contains(r"[.eE]|inf").any())


def twin(name: str, known: Collection[str]) -> str:
    """The name as it is known: a column with holes spells 1 as ``1.0``, one without as ``1``.

    Examples
    --------
    >>> twin("1.0", {"1"}), twin("2", {"2.0"}), twin("3", {"1"})
    ('1', '2.0', '3')
    """
    other = name[:-2] if name.endswith(".0") else f"{name}.0"
    return other if name not in known and other in known else name


def one_spelling(texts: list[str]) -> list[str]:
    """Names with ``1.0`` spelled ``1`` where both occur.

    Examples
    --------
    >>> one_spelling(["1.0", "2.0", "1"])
    ['1', '2.0', '1']
    """
    known = set(texts)
    return [text[:-2] if text.endswith(".0") and text[:-2] in known else text for text in texts]


def _check_id(name: str, what: str, where: str, distinct: int, rows: int) -> None:
    every = what == "label" and rows >= ID_ROWS and distinct == rows
    if not every and not (distinct > MANY and distinct > rows / 2) and distinct <= CAP:
        return
    count = "every value" if distinct == rows else f"{distinct} values in {rows} rows"
    advice = "a column of classes, or --task regression for a number" if what == "label" else "a column of silo names"
    detail = "is different" if distinct == rows else "are different"
    raise FedskewError(f"{where}: {what} column {name!r} looks like an id ({count} {detail}); give {advice}")

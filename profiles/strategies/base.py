"""What a partition strategy is: a frozen value with a name, a source, declared parameters and pure functions."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.counting import many
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Partition
from fedskew.profiles.strategies.sharing import cut

Values = Mapping[str, Any]
"""Checked parameter values by canonical name."""
Codes = NDArray[np.int32]
"""Party codes by row, (N,) int32."""
_NO_PRESETS: dict[str, Values] = {}
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter: its kind, default, allowed range, other spellings and a line of help.

    ``kind`` is float, int, bool, choice, text or json (a list or mapping, or its JSON text). A default of None means
    that the parameter may be left out and that None is then handed to the strategy.
    """

    name: str
    kind: Literal["float", "int", "bool", "choice", "text", "json"]
    default: Any
    help: str
    lower: float = -math.inf
    upper: float = math.inf
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The allowed values in words.

        Examples
        --------
        >>> Parameter("alpha", "float", 0.5, "concentration", 0.001, 1000).allowed
        'a number from 0.001 to 1000'
        """
        if self.kind in {"float", "int"}:
            noun = "a number" if self.kind == "float" else "a whole number"
            return f"{noun} from {self.lower:g} to {self.upper:.10g}"
        if self.kind == "choice":
            return "one of " + ", ".join(repr(choice) for choice in self.choices)
        return {"bool": "true or false", "text": "a text", "json": "a list or mapping, or its JSON text"}[self.kind]

    def parse(self, value: Any) -> Any:
        """Turn a Python value or a text from the command line into a checked value.

        Raises
        ------
        FedskewError
            The value is of another kind, not finite, or out of range.

        Examples
        --------
        >>> Parameter("alpha", "float", 0.5, "concentration", 0.001, 1000).parse("0.5")
        0.5
        """
        if value is None and self.default is None:
            return None
        read: dict[str, Callable[[Any], Any]] = {"float": _number, "int": _whole, "bool": _truth, "json": _structure}
        try:
            result = read.get(self.kind, str)(value)
        except (TypeError, ValueError, OverflowError):
            raise self._refusal(value) from None
        if self.kind in {"float", "int"} and not self.lower <= result <= self.upper:
            raise self._refusal(value)
        if self.kind == "choice" and result not in self.choices:
            raise self._refusal(value)
        return result

    def _refusal(self, value: Any) -> FedskewError:
        return FedskewError(f"{self.name} is {str(value)[:80]!r}; it must be {self.allowed} ({self.help})")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Skewed party sizes: shares that sum to 1, (N,) float64, and a floor in rows."""

    shares: NDArray[np.float64]
    floor: int

    def sizes(self, total: int, floor: int | None = None) -> NDArray[np.int64]:
        """Floor, then share: every party gets the floor, the rest is cut at floor(cumsum(shares) * rest).

        Examples
        --------
        >>> Quantity(np.array([0.75, 0.25]), 10).sizes(100).tolist()
        [70, 30]
        """
        least = self.floor if floor is None else floor
        return least + cut(total - least * len(self.shares), self.shares)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a strategy sees of a table, in the order of the source.

    Parameters
    ----------
    labels : (N,) int64 codes 0 to K - 1
    classes : K, those without rows included
    class_names : K texts
    party, party_names : the parties the table already has: (N,) int32 and their texts
    table : the table itself, for strategies that look at features
    quantity : skewed sizes, where the strategy is combined with a quantity strategy
    """

    labels: NDArray[np.int64]
    classes: int
    class_names: tuple[str, ...]
    party: Codes
    party_names: tuple[str, ...]
    table: Partition
    quantity: Quantity | None = None

    @property
    def class_sizes(self) -> NDArray[np.int64]:
        """Rows by class, (K,) int64."""
        return np.bincount(self.labels, minlength=self.classes)


AssignFn = Callable[[Rows, Values, np.random.Generator], Codes]
NamesFn = Callable[[Rows, Values], tuple[str, ...]]
QuantityFn = Callable[[int, Values, np.random.Generator], Quantity]
TransformFn = Callable[[Partition, Values, int], Partition]


def numbered(rows: Rows, values: Values) -> tuple[str, ...]:  # noqa: ARG001  (the signature of every NamesFn)
    """The names 0 to N - 1, as most strategies give them."""
    return tuple(str(i) for i in range(values["num_partitions"]))


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to split a table into parties, or to change what parties see.

    Exactly one of the three functions is set. ``assign`` maps rows to party codes; ``quantity`` gives skewed sizes,
    alone or to another strategy that ``takes_quantity``; ``transform`` changes features or labels by party after
    the rows have been assigned.

    Parameters
    ----------
    name : canonical name
    source : paper and section that define it
    parameters : declared parameters with defaults and ranges
    aliases : other names, each with the parameter values it implies
    pattern : a regular expression for numbered aliases; its one group is the value of ``pattern_parameter``
    names : party names, ``0`` to ``N - 1`` unless told otherwise
    """

    name: str
    summary: str
    source: str
    parameters: tuple[Parameter, ...]
    assign: AssignFn | None = None
    quantity: QuantityFn | None = None
    transform: TransformFn | None = None
    aliases: Mapping[str, Values] = field(default_factory=lambda: _NO_PRESETS)
    pattern: str = ""
    pattern_parameter: str = ""
    takes_quantity: bool = False
    needs_features: bool = False
    names: NamesFn = numbered


NUM_PARTITIONS = Parameter(
    "num_partitions", "int", 10, "number of parties", 1, 1_000_000,
    aliases=("n_parties", "parties", "num_clients", "n_clients", "num_users", "num_parties"),
)  # fmt: skip
MIN_PARTITION_SIZE = Parameter(
    "min_partition_size", "int", 1,
    "fewest rows a party may have; 0 allows parties without rows, 10 is NIID-Bench's floor",
    0, 1_000_000_000, aliases=("min_size", "min_require_size", "quantity_min_samples", "min_samples"),
)  # fmt: skip


def check_floor(rows: int, parties: int, floor: int, *, fixed: bool = False) -> None:
    """Refuse at once a minimum that no partition can meet, with the feasible range.

    ``fixed``: the floor is the strategy's own and no parameter changes it.

    Raises
    ------
    FedskewError
        ``parties * floor > rows``.

    Examples
    --------
    >>> check_floor(60_000, 1_000, 40)
    >>> check_floor(60_000, 10_000, 40)
    Traceback (most recent call last):
    ...
    fedskew.profiles.errors.FedskewError: 10,000 parties of at least 40 rows need 400,000 rows, but there are 60,000; \
allowed are num_partitions up to 1500 or min_partition_size up to 6
    """
    if parties * floor > rows:
        or_floor = "" if fixed else f" or min_partition_size up to {rows // parties}"
        raise FedskewError(
            f"{parties:,} parties of at least {many(floor, 'row')} need {many(parties * floor, 'row')}, but there are "
            f"{rows:,}; allowed are num_partitions up to {rows // floor}{or_floor}"
        )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, np.number)):
        raise TypeError
    result = float(value)
    if not math.isfinite(result):
        raise ValueError
    return result


def _whole(value: Any) -> int:
    if isinstance(value, str):
        return int(value)
    result = _number(value)
    if result != int(result):
        raise ValueError
    return int(result)


def _truth(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if str(value).lower() not in _TRUTHS:
        raise ValueError
    return _TRUTHS[str(value).lower()]


def _structure(value: Any) -> Any:
    result = json.loads(value) if isinstance(value, str) else value
    result = result.tolist() if isinstance(result, np.ndarray) else result
    if not isinstance(result, (list, tuple, dict)):
        raise TypeError
    return result

"""Simulated partitions: a table and the name of a strategy, or of several combined, give a Partition.

Names are combined with ``+``: ``label_dirichlet+feature_noise`` and ``quantity_dirichlet+feature_noise`` are the two
mixed skews of the NIID-Bench paper. One strategy may assign the rows, one may skew the sizes, and any number may
change what parties see.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError, check_whole, choices
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Partition, make_partition
from fedskew.profiles.strategies import STRATEGIES, Parameter, Strategy
from fedskew.profiles.strategies.base import Codes, Quantity, Rows, Values

_IID = STRATEGIES[0]
_BRINGS = {"noise": "feature_noise", "quantity_beta": "quantity_dirichlet"}  # --noise with any strategy, as NIID-Bench


@dataclass(frozen=True, slots=True)
class Plan:
    """A resolved strategy: canonical name, its parts, and the checked value of every parameter."""

    name: str
    assign: Strategy
    quantity: Strategy | None
    transforms: tuple[Strategy, ...]
    values: Values

    @property
    def simulated(self) -> bool:
        """Whether the strategy makes the parties; ``natural`` takes those the table has."""
        return self.assign.name != "natural"

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """All strategies that take part."""
        return (self.assign, *([self.quantity] if self.quantity else []), *self.transforms)


def simulate(table: Any, strategy: str, *, seed: int = 42, **parameters: Any) -> Partition:
    """Split a table into parties by a strategy; every row goes to exactly one party.

    Parameters
    ----------
    table : a Partition, whose parties only the strategy ``natural`` looks at, or ``(features, labels)``
    strategy : name or alias of a strategy, or several joined by ``+``
    seed : 0 or more; same table, strategy and seed give the same bytes
    parameters : by name or alias, see ``fedskew partition --list``

    Returns
    -------
    Partition
        Parties ``0`` to ``N - 1``, or the names the strategy gives.

    Raises
    ------
    FedskewError
        No such strategy or parameter, a value out of range, or a request the table cannot meet.

    Examples
    --------
    >>> labels = np.repeat([0, 1], 6)
    >>> simulate((np.zeros((12, 1)), labels), "iid_stratified", num_partitions=3).counts.tolist()
    [[2, 2], [2, 2], [2, 2]]
    """
    source = table if isinstance(table, Partition) else _unpartitioned(table)
    plan = resolve(strategy, parameters)
    codes, names = assign(source, plan, seed)
    return realise(source, plan, seed, codes, names)


def party_rows(labels: Any, strategy: str, *, seed: int = 42, **parameters: Any) -> dict[str, NDArray[np.int64]]:
    """Split labels alone: the row numbers of each party, the shape of NIID-Bench's ``net_dataidx_map``.

    Parameters
    ----------
    labels : (N,) anything
    strategy, seed, parameters : see :func:`simulate`; strategies that look at features need the whole table

    Examples
    --------
    >>> rows = party_rows(["a", "a", "b", "b"], "iid_stratified", num_partitions=2)
    >>> {party: len(held) for party, held in rows.items()}
    {'0': 2, '1': 2}
    """
    n = len(labels)
    source = _unpartitioned((np.zeros((n, 1), np.float32), labels))
    plan = resolve(strategy, parameters)
    if plan.transforms:
        raise FedskewError(f"{plan.transforms[0].name} changes the data, so row numbers alone do not describe it")
    codes, names = assign(source, plan, seed)
    return rows_by_party(codes, names)


def rows_by_party(codes: Codes, names: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
    """Row numbers by party, ascending; rows with a negative code belong to nobody.

    Examples
    --------
    >>> {name: rows.tolist() for name, rows in rows_by_party(np.int32([1, 0, 1]), ("a", "b")).items()}
    {'a': [1], 'b': [0, 2]}
    """
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(names) + 1))
    return {name: order[edges[i] : edges[i + 1]] for i, name in enumerate(names)}


def resolve(strategy: str, parameters: Mapping[str, Any]) -> Plan:
    """Find the strategies behind a name and check every parameter.

    Parameters given as texts, as on a command line, are parsed. ``noise`` and ``quantity_beta`` add the strategy they
    belong to, where no part of the name takes them.

    Raises
    ------
    FedskewError
        No such name or parameter, a value out of range or other than the number in the name, or parts that do not go
        together.

    Examples
    --------
    >>> resolve("noniid-#label2", {"noise": "0.1"}).name
    'label_count+feature_noise'
    """
    found = [_find(part) for part in str(strategy).split("+")]
    parts = [part for part, _ in found]
    given = {name.replace("-", "_"): value for name, value in parameters.items()}
    for name, bringer in _BRINGS.items():
        if name in given and not any(_takes(part, name) for part in parts):
            parts.append(next(s for s in STRATEGIES if s.name == bringer))
    parts.sort(key=lambda part: (part.assign is None, part.quantity is None))  # whoever assigns rows sets the defaults
    values = {p.name: p.default for part in reversed(parts) for p in part.parameters}
    numbered: dict[str, Any] = {}
    for part, presets in found:
        values |= presets
        numbered |= {name: value for name, value in presets.items() if name == part.pattern_parameter}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        parameter = _parameter(parts, name)
        if parameter.name in spelled:
            raise FedskewError(f"{spelled[parameter.name]} and {name} are the same parameter; give one of them")
        spelled[parameter.name] = name
        values[parameter.name] = parameter.parse(value)
        number = numbered.get(parameter.name, values[parameter.name])
        if number != values[parameter.name]:
            raise FedskewError(
                f"strategy {strategy} says {parameter.name} {number}, but {name} is {value}; give one of the two"
            )
    return _plan(parts, values)


def assign(
    source: Partition,
    plan: Plan,
    seed: int,
    *,
    party: Codes | None = None,
    party_names: tuple[str, ...] | None = None,
) -> tuple[Codes, tuple[str, ...]]:
    """Give each row of a table a party: (N,) int32 codes in the order of the table, and the names.

    ``party`` and ``party_names`` stand in for the parties of the table, which only ``natural`` looks at.
    """
    check_whole("seed", seed)
    n = source.rows
    quantity: Quantity | None = None
    if plan.quantity is not None and plan.quantity.quantity is not None:
        quantity = plan.quantity.quantity(n, plan.values, generator("partition", seed, plan.quantity.name))
    rows = Rows(
        labels=source.labels,
        classes=source.classes,
        class_names=source.class_names,
        party=source.party if party is None else party,
        party_names=source.party_names if party_names is None else party_names,
        table=source,
        quantity=quantity,
    )
    names = plan.assign.names(rows, plan.values)
    if plan.assign.assign is None:
        raise FedskewError(f"{plan.assign.name} assigns no rows")
    return plan.assign.assign(rows, plan.values, generator("partition", seed, plan.assign.name)), names


def realise(source: Partition, plan: Plan, seed: int, codes: Codes, names: tuple[str, ...]) -> Partition:
    """Make the Partition that assigned codes describe, and apply what the strategy changes in the data.

    Parameters
    ----------
    source : the table
    plan, seed : what :func:`resolve` gave, and the seed that :func:`assign` got
    codes : (N,) int32 party codes in the order of ``source``; rows with a negative code are left out
    names : party names
    """
    kept = slice(None) if len(codes) == 0 or codes.min() >= 0 else np.flatnonzero(codes >= 0)
    test = source.test
    same = names == source.party_names and np.array_equal(codes, source.party)
    if test is not None and test.party is not None and not same:
        test = replace(test, party=None)  # its codes are those of the parties before
    result = make_partition(
        source.features[kept],
        source.labels[kept],
        codes[kept],
        class_names=source.class_names,
        party_names=names,
        columns=source.columns,
        test=test,
        findings=source.findings,
        target=None if source.target is None else source.target[kept],
    )
    return transformed(result, plan, seed)


def transformed(partition: Partition, plan: Plan, seed: int) -> Partition:
    """Apply what the strategy changes in the features or labels of each party; many strategies change nothing."""
    for part in plan.transforms:
        if part.transform is not None:
            partition = part.transform(partition, plan.values, seed)
    return partition


def _find(name: str) -> tuple[Strategy, Values]:
    """The strategy behind a name or alias, and the parameter values the alias implies."""
    wanted = _plain(name)
    for strategy in STRATEGIES:
        if wanted == _plain(strategy.name):
            return strategy, {}
        for alias, presets in strategy.aliases.items():
            if wanted == _plain(alias):
                return strategy, presets
        match = re.fullmatch(strategy.pattern, wanted) if strategy.pattern else None
        if match:
            parameter = next(p for p in strategy.parameters if p.name == strategy.pattern_parameter)
            return strategy, {parameter.name: parameter.parse(match[1])}
    known = [s.name for s in STRATEGIES] + [alias for s in STRATEGIES for alias in s.aliases]
    raise FedskewError(f"there is no strategy {name.strip()!r}; {choices(name.strip(), known)}")


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _takes(strategy: Strategy, name: str) -> bool:
    return any(name == p.name or name in p.aliases for p in strategy.parameters)


def _parameter(parts: list[Strategy], name: str) -> Parameter:
    """The parameter a name stands for: canonical names first, then aliases, which must be unambiguous."""
    every = {p.name: p for part in reversed(parts) for p in part.parameters}
    if name in every:
        return every[name]
    also = [p for p in every.values() if name in p.aliases]
    if len(also) > 1:
        raise FedskewError(f"{name} is ambiguous here; say which: {', '.join(p.name for p in also)}")
    if not also:
        known = [*every, *(alias for p in every.values() for alias in p.aliases)]
        what = "+".join(part.name for part in parts)
        raise FedskewError(
            f"strategy {what} has no parameter {name!r}; {choices(name, known) if known else 'it has none'}"
        )
    return also[0]


def _plan(parts: list[Strategy], values: dict[str, Any]) -> Plan:
    assigns = [part for part in parts if part.assign is not None]
    quantities = [part for part in parts if part.quantity is not None]
    transforms = [part for part in parts if part.transform is not None]
    for several in (assigns, quantities):
        if len(several) > 1:
            names = " and ".join(part.name for part in several)
            raise FedskewError(f"{names} cannot be combined: each of them decides which rows a party gets; use one")
    if len({part.name for part in transforms}) < len(transforms):
        raise FedskewError(f"{transforms[0].name} stands twice in the name of the strategy; once is enough")
    if assigns and quantities and not assigns[0].takes_quantity:
        able = ", ".join(s.name for s in STRATEGIES if s.takes_quantity)
        raise FedskewError(f"{assigns[0].name} cannot be combined with {quantities[0].name}; these can: {able}")
    name = "+".join(part.name for part in [*assigns, *quantities, *transforms])
    lead = assigns[0] if assigns else _IID
    return Plan(name, lead, quantities[0] if quantities else None, tuple(transforms), values)


def _unpartitioned(table: Any) -> Partition:
    if not isinstance(table, tuple) or len(table) != 2:
        raise FedskewError(
            f"simulate needs a Partition or (features, labels), not {type(table).__name__}; "
            "read files with read_table(source, partitioned=False)"
        )
    features, labels = table
    return make_partition(features, labels, np.zeros(len(labels), np.int32), party_names=("all",))

"""All strategies in words, made from the tuple: for the command line and for the page in the documentation."""

from collections.abc import Iterable, Iterator

from fedskew.profiles.strategies import STRATEGIES
from fedskew.profiles.strategies.base import Parameter, Strategy


def describe_strategies() -> str:
    """All strategies with their aliases, sources and parameters, as text for ``--list``.

    Examples
    --------
    >>> describe_strategies().splitlines()[0]
    'iid (homo, homogeneous, IidPartitioner): rows at random, sizes equal within 1'
    """
    lines = []
    for strategy in STRATEGIES:
        aliases = f" ({', '.join(_aliases(strategy))})" if strategy.aliases else ""
        lines += [f"{strategy.name}{aliases}: {strategy.summary}", f"    source: {strategy.source}"]
        for p in strategy.parameters:
            others = f" (also {', '.join(p.aliases)})" if p.aliases else ""
            default = f", default {_default(p)}" if _default(p) else ""
            lines.append(f"    {p.name}{others}: {p.help}; {p.allowed}{default}")
    return "\n".join(lines)


def strategies_markdown() -> str:
    """All strategies and all parameters as two tables, the part of ``docs/partitions.md`` that follows the code.

    Examples
    --------
    >>> strategies_markdown().splitlines()[2].split(" | ")[:2]
    ['| `iid`', 'rows at random, sizes equal within 1']
    """
    lines = ["| strategy | what it does | also called | parameters | source |", "|---|---|---|---|---|"]
    for strategy in STRATEGIES:
        names = _code([p.name for p in strategy.parameters])
        cells = (f"`{strategy.name}`", strategy.summary, _code(_aliases(strategy)), names, strategy.source)
        lines.append(_row(cells))
    lines += ["", "| parameter | of | meaning | allowed | default | also called |", "|---|---|---|---|---|---|"]
    lines += [_row(cells) for cells in _parameters()]
    return "\n".join(lines) + "\n"


def _parameters() -> Iterator[tuple[str, ...]]:
    """One row a parameter; strategies whose parameter is the same in everything share a row."""
    users: dict[tuple[str, ...], list[str]] = {}
    for strategy in STRATEGIES:
        for p in strategy.parameters:
            key = (p.name, p.help, p.allowed, _default(p), _code(p.aliases))
            users.setdefault(key, []).append(strategy.name)
    for (name, meaning, allowed, default, aliases), names in sorted(users.items()):
        yield f"`{name}`", ", ".join(names), meaning, allowed, default, aliases


def _default(parameter: Parameter) -> str:
    if parameter.default is None:
        return ""
    return str(parameter.default).lower() if parameter.kind == "bool" else str(parameter.default)


def _aliases(strategy: Strategy) -> list[str]:
    """Other names with what they imply, such as ``noniid-labeldir-code [balance=True]``."""
    implied = {alias: ", ".join(f"{k}={v}" for k, v in values.items()) for alias, values in strategy.aliases.items()}
    return [f"{alias} [{what}]" if what else alias for alias, what in implied.items()]


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

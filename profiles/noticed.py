"""What reading noticed about columns, gathered by kind and told in one finding each."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from fedskew.profiles.partitions import Finding


@dataclass(slots=True)
class Noticed:
    """What encoding noticed, gathered by column and told in one finding a kind."""

    rows: int
    unused: dict[str, str] = field(default_factory=dict)
    strays: dict[str, str] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    kept_leaks: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    non_finite: dict[str, int] = field(default_factory=dict)
    rest: dict[str, int] = field(default_factory=dict)

    def findings(self, where: str = "") -> Iterator[Finding]:
        """One finding a kind; ``where`` begins each text."""
        for name, reason in self.unused.items():
            yield Finding(
                code="unused_column", severity="mild", text=f"{where}column {name!r} is not used: {reason}", count=1
            )
        for name, reason in self.strays.items():
            text = f"{where}column {name!r} is read as text: {reason}"
            yield Finding(code="mixed_types", severity="strong", text=text, count=1)
        if self.leaks:
            text = (
                f"{where}not used, since constant within every party and different between parties: {some(self.leaks)}"
            )
            yield Finding(code="names_the_party", severity="mild", text=text, count=len(self.leaks))
        if self.kept_leaks:
            text = f"{where}used as you asked, but constant within every party and so names it: {some(self.kept_leaks)}"
            yield Finding(code="names_the_party", severity="strong", text=text, count=len(self.kept_leaks))
        if self.missing:
            count = sum(self.missing.values())
            rule = "numbers become the mean of their column, categories all zero"
            text = f"{where}{count} missing values ({rule}) in {counted(self.missing)}"
            severe = max(self.missing.values()) > self.rows / 2
            yield Finding(code="missing_values", severity="strong" if severe else "mild", text=text, count=count)
        if self.non_finite:
            text = f"{where}infinite or too large numbers count as missing: {counted(self.non_finite)}"
            yield Finding(code="non_finite", severity="mild", text=text, count=sum(self.non_finite.values()))
        if self.rest:
            text = f"{where}values of categories that have no feature of their own (all zero): {counted(self.rest)}"
            yield Finding(code="rare_categories", severity="mild", text=text, count=sum(self.rest.values()))


def schema_mismatch(held: Mapping[str, Collection[str]]) -> tuple[Finding, ...]:
    """A finding on the columns that some silos lack; ``held`` are the columns of each silo that has rows.

    Examples
    --------
    >>> schema_mismatch({"north": {"age", "dose"}, "south": {"age"}})[0].text
    "1 column is not in every silo and counts as missing where it is not: 'dose' (lacking in 'south')"
    >>> schema_mismatch({"north": {"age"}, "south": {"age"}})
    ()
    """
    counts = Counter(name for columns in held.values() for name in columns)
    partial = sorted(name for name, count in counts.items() if count < len(held))
    if not partial:
        return ()
    lacking = tuple(silo for silo, columns in held.items() if not set(columns) >= set(partial))
    what = ("column is", "counts", "it is") if len(partial) == 1 else ("columns are", "count", "they are")
    text = (
        f"{len(partial)} {what[0]} not in every silo and {what[1]} as missing where {what[2]} not: {some(partial)} "
        f"(lacking in {some(list(lacking))})"
    )
    return (Finding(code="schema_mismatch", severity="strong", text=text, parties=lacking, count=len(partial)),)


def some(names: list[str]) -> str:
    """The first five names, and how many more there are.

    Examples
    --------
    >>> some(["a", "b"]), some(list("abcdefg"))
    ("'a', 'b'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(repr(name) for name in names[:5]) + more


def counted(counts: dict[str, int]) -> str:
    """The five largest counts with their names.

    Examples
    --------
    >>> counted({"a": 1, "b": 3})
    "'b' (3), 'a' (1)"
    """
    worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = f" and {len(worst) - 5} more columns" if len(worst) > 5 else ""
    return ", ".join(f"{name!r} ({count})" for name, count in worst[:5]) + more

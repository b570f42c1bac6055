"""How good advice is: regret on a table of results, of the tree, of constants, and of the second opinion.

Regret of a choice in a setting: the best mean accuracy of any algorithm there, minus the choice's, in points.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import fmean

from fedskew.advisor.evidence import EvidenceRow
from fedskew.advisor.likeness import place_of
from fedskew.advisor.own_evidence import STATED
from fedskew.advisor.second_opinion import opinions
from fedskew.advisor.situation import Facts
from fedskew.advisor.tree import LEAVES, walk

Results = Mapping[str, EvidenceRow]
"""One setting: its row by algorithm."""
Policy = Callable[[Results], tuple[str, ...]]
"""From a setting to the names chosen; the regret of several names is the mean of theirs."""


def settings(rows: tuple[EvidenceRow, ...], source: str, *, skewed: bool = True) -> tuple[dict[str, EvidenceRow], ...]:
    """The settings of one source; rows without trust are left out.

    Parameters
    ----------
    rows : evidence
    source : whose
    skewed : the settings with skew, else those without
    """
    found: dict[tuple[object, ...], dict[str, EvidenceRow]] = defaultdict(dict)
    for row in rows:
        if row.source == source and bool(row.kinds) == skewed and row.trust > 0:
            found[row.setting][row.algorithm] = row
    return tuple(found.values())


def facts_of(row: EvidenceRow) -> Facts:
    """What the tree would look at in an evidence row, taken from the name of its partition."""
    kinds = tuple(sorted(row.kinds))
    kind = "none" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"
    each = next((int(part[2:]) for part in row.param.split("+") if part.startswith("k=")), None)
    return Facts(kind, kinds, row.modality, each)


def leaf_of(results: Results) -> str:
    """The leaf that a setting reaches."""
    return walk(facts_of(next(iter(results.values()))))[0]


def regret(results: Results, names: tuple[str, ...]) -> float:
    """Points lost to the best of a setting, averaged over the names.

    Examples
    --------
    >>> from fedskew.advisor.evidence import shipped
    >>> quantity = [s for s in settings(shipped(), "niid_bench") if s["fedavg"].skew == "quantity"]
    >>> adult = next(s for s in quantity if s["fedavg"].dataset == "adult")
    >>> round(regret(adult, ("fedavg",)), 1)  # FedProx 84.8, FedAvg 82.2
    2.6
    """
    best = max(row.mean for row in results.values())
    return fmean(best - results[name].mean for name in names)


def always(name: str) -> Policy:
    """A constant."""
    return lambda _: (name,)


def tree(results: Results) -> tuple[str, ...]:
    """The tree as we walk it: remark and our order of ties included; the next name where a table lacks the first."""
    leaf = LEAVES[leaf_of(results)]
    return (next(name for name in (leaf.algorithm, *leaf.alternatives) if name in results),)


def tree_named(results: Results) -> tuple[str, ...]:
    """All names of the paper's leaf, no remark."""
    leaf = LEAVES[leaf_of(results)]
    return leaf.named or (leaf.algorithm,)


def tree_remark(results: Results) -> tuple[str, ...]:
    """All names of the paper's leaf, but FedProx alone for one class a party."""
    return ("fedprox",) if leaf_of(results) == "label_count_1" else tree_named(results)


def tree_fedprox(results: Results) -> tuple[str, ...]:
    """The tree with FedProx wherever two are named."""
    names = tree_named(results)
    return ("fedprox",) if len(names) > 1 else names


def by_hindsight(pick: Callable[..., str]) -> Policy:
    """The better (``pick=min``) or worse (``max``) of the names of the paper's leaf: needs the answer, so no policy."""
    return lambda results: (pick(tree_named(results), key=lambda name: regret(results, (name,))),)


def opinion_without(rows: tuple[EvidenceRow, ...]) -> Policy:
    """The second opinion of all evidence but that on the setting's own data set; constants as stated, not fitted."""

    def policy(results: Results) -> tuple[str, ...]:
        row = next(iter(results.values()))
        rest = tuple(other for other in rows if other.dataset != row.dataset)
        found = opinions(place_of(row), rest, STATED)
        return (next(opinion.algorithm for opinion in found if opinion.algorithm in results),)

    return policy


def same_shape_without(table: tuple[Results, ...]) -> Policy:
    """The best algorithm of each leaf on the table's other data sets: a rule of the tree's shape, learnt."""

    def policy(results: Results) -> tuple[str, ...]:
        row, place = next(iter(results.values())), leaf_of(results)
        others = [one for one in table if next(iter(one.values())).dataset != row.dataset]
        rest = [one for one in others if leaf_of(one) == place] or others
        return (min(results, key=lambda name: fmean(regret(one, (name,)) for one in rest)),)

    return policy


def constant_without(table: tuple[Results, ...]) -> Policy:
    """The best constant on the table's other data sets."""

    def policy(results: Results) -> tuple[str, ...]:
        dataset = next(iter(results.values())).dataset
        rest = [one for one in table if next(iter(one.values())).dataset != dataset]
        return (min(results, key=lambda name: fmean(regret(one, (name,)) for one in rest)),)

    return policy


def policies(rows: tuple[EvidenceRow, ...], table: tuple[Results, ...]) -> dict[str, Policy]:
    """Everything worth comparing on a table, by the name to print.

    Parameters
    ----------
    rows : evidence for the second opinion
    table : settings to be judged on
    """
    names = sorted(set.intersection(*(set(results) for results in table)))
    return {
        "tree, as walked here": tree,
        "second opinion, leave one data set out": opinion_without(rows),
        "rule of the tree's shape, leave one data set out": same_shape_without(table),
        "best constant, leave one data set out": constant_without(table),
        **{f"always {name}": always(name) for name in names},
    }

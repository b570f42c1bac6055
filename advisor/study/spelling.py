"""How a study's settings are spelled: partitions as in the evidence base, and what else tells two settings apart."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from fedskew.advisor.study.grid import Grid, Setting
from fedskew.profiles.simulate import Plan

KINDS: Mapping[str, tuple[str, str, str]] = {
    "label_dirichlet": ("label_dirichlet", "beta", "alpha"),
    "label_dirichlet_hsu": ("label_dirichlet", "hsu", "alpha"),
    "label_count": ("label_count", "k", "num_classes_per_partition"),
    "shards": ("label_count", "shards", "num_shards_per_partition"),
    "percent_noniid": ("label_dirichlet", "percent", "percent"),
    "mixed": ("label_count", "mixed", ""),
    "class_lists": ("label_count", "lists", ""),
    "count_matrix": ("natural", "matrix", ""),
    "natural": ("natural", "", ""),
    "quantity_dirichlet": ("quantity", "qbeta", "quantity_beta"),
    "fcube": ("feature", "fcube", ""),
    "covariate_quantile": ("feature", "quantile", ""),
    "feature_noise": ("feature", "noise", "noise"),
    "label_noise": ("concept", "label_noise", ""),
    "label_permutation": ("concept", "permuted", ""),
}
"""How the evidence base spells a strategy: kind of skew, and parameter; a strategy that is not here adds no skew."""
FIELDS: Mapping[str, Callable[[Setting], object]] = {
    "model": lambda one: one.model,
    "rows": lambda one: one.table.rows,
    "lr": lambda one: one.lr,
    "momentum": lambda one: one.momentum,
    "weight_decay": lambda one: one.weight_decay,
    "partition_seed": lambda one: one.partition_seed,
    "seeds": lambda one: one.seeds,
    "seed": lambda one: one.seed,
    "tuning": lambda one: one.tuning,
    "references": lambda one: one.references,
}
"""Fields that no heading and no column names by itself."""
_NAMES = {"seed": "training_seed"}  # an evidence row's "seed" is the partition's
_WORDS = {"model": "{}", "rows": "at most {} rows", "seeds": "{} seeds"}
DEFAULTS = Grid(data="", partition="")
LONGEST = 24  # characters of a value that is written out


def skew_of(plan: Plan) -> tuple[str, str]:
    """Kind of skew and parameters of a strategy, as the evidence base spells them.

    Examples
    --------
    >>> from fedskew.profiles.simulate import resolve
    >>> skew_of(resolve("noniid-labeldir+noise", {"alpha": 0.5, "noise": 0.1}))
    ('label_dirichlet+feature', 'beta=0.5+noise=0.1')
    >>> skew_of(resolve("homo", {}))
    ('none', '')
    """
    spelled = [KINDS[part.name] for part in plan.parts if part.name in KINDS]
    texts = [f"{name}={plan.values[key]:g}" if key in plan.values else name for _, name, key in spelled]
    kinds = list(dict.fromkeys(kind for kind, _, _ in spelled))
    return "+".join(kinds) or "none", "+".join(text for text in texts if text)


def details_of(plan: Plan) -> tuple[str, ...]:
    """What :func:`skew_of` leaves out: other strategies, and parameters that are not at their default.

    Examples
    --------
    >>> from fedskew.profiles.simulate import resolve
    >>> details_of(resolve("noniid-labeldir-code", {"alpha": 0.5}))
    ('balance=true', 'min_partition_size=10')
    """
    spelled = {KINDS[part.name][2] for part in plan.parts if part.name in KINDS} | {"num_partitions"}
    usual = {p.name: p.default for part in reversed(plan.parts) for p in part.parameters}
    others = [part.name for part in plan.parts if part.name not in KINDS and part.name != "iid"]
    changed = {name: value for name, value in plan.values.items() if name not in spelled and value != usual.get(name)}
    return (*others, *(f"{name}={_short(value)}" for name, value in changed.items()))


def variant_of(setting: Setting, model: str) -> str:
    """What tells settings of one partition apart in the evidence base: training, seeds, and details of the partition.

    Parameters
    ----------
    setting : of a study; what is at the grid's default is left out
    model : what ``auto`` stands for
    """
    whole = ("model", "partition_seed", "seeds")  # the first two stand at the head, the third is a column
    odd = [name for name in FIELDS if name not in whole and FIELDS[name](setting) != getattr(DEFAULTS, name)]
    head = f"{model} E={setting.local_epochs} B={setting.batch_size} seed={setting.partition_seed}"
    return " ".join(
        [head, *(f"{_NAMES.get(n, n)}={_short(FIELDS[n](setting))}" for n in odd), *details_of(setting.plan)]
    )


def varying(settings: Iterable[Setting]) -> tuple[str, ...]:
    """The fields of which one data set has several values, in the order of :data:`FIELDS`.

    A field that differs only from one data set to the next needs no telling: the data set's name tells it.
    """
    seen: dict[tuple[str, str], set[object]] = defaultdict(set)
    for one in settings:
        for name, value in FIELDS.items():
            seen[name, one.data].add(value(one))
    wide = {name for (name, _), values in seen.items() if len(values) > 1}
    return tuple(name for name in FIELDS if name in wide)


def ambiguous(settings: Iterable[Setting]) -> frozenset[tuple[str, str, str]]:
    """Data set, kind of skew and parameters of partitions that differ in nothing but their details."""
    seen: dict[tuple[str, str, str], set[tuple[str, ...]]] = defaultdict(set)
    for one in settings:
        seen[one.data, *skew_of(one.plan)].add(details_of(one.plan))
    return frozenset(place for place, details in seen.items() if len(details) > 1)


def told(setting: Setting, names: Iterable[str]) -> list[str]:
    """Fields of a setting as headings and tables name them, one text each."""
    values = {name: _short(FIELDS[name](setting)) for name in names}
    return [_WORDS[name].format(value) if name in _WORDS else f"{name}={value}" for name, value in values.items()]


def _short(value: Any) -> str:
    """A value in few characters; long ones by a hash, so that different values stay different."""
    if isinstance(value, float):
        return f"{value:.10g}"
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return text if len(text) <= LONGEST else "#" + sha256(text.encode()).hexdigest()[:8]

"""From a situation to an algorithm: the tree first, then what the user cannot or will not do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from fedskew.advisor.price import TITLES, cost, parameter_count, traffic
from fedskew.advisor.situation import Situation
from fedskew.advisor.tree import LEAVES, Leaf, Step, walk
from fedskew.engine.plans import default_model
from fedskew.profiles.records import ClassesPerParty, Prevailing
from fedskew.profiles.severity import THRESHOLDS

if TYPE_CHECKING:
    from fedskew.profiles.partitions import Modality

CHEAPEST = "fedavg"


@dataclass(frozen=True, slots=True)
class Decision:
    """The algorithm, what else is worth a look, and how it came about."""

    algorithm: str
    alternatives: tuple[str, ...]
    path: tuple[Step, ...]
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class Constraint:
    """A question asked after the leaf: None where it does not arise, else the answer and the names that remain."""

    question: str
    apply: Callable[[Situation, tuple[str, ...]], tuple[str, tuple[str, ...]] | None]


def model_size(situation: Situation) -> tuple[str, int | None]:
    """The model's name and its number of parameters, None where that is not known."""
    profile = situation.profile
    model = situation.model or default_model(profile.image_shape or (profile.features,))
    outputs = 1 if profile.task == "regression" else profile.classes
    return model, parameter_count(model, profile.features, outputs, profile.image_shape)


def personal(situation: Situation, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """FedBN where one model per party is wanted, features differ, and there is BatchNorm to keep at home."""
    if situation.goal != "personal":
        return None
    if "feature" in situation.components and situation.has_batchnorm:
        return "one per party, so fedbn keeps BatchNorm at home", ("fedbn", *names)
    return "one per party, but nothing here beats a global model that each party fine-tunes", names


def stateless(situation: Situation, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Algorithms whose clients remember something are out where clients cannot."""
    if not situation.stateless_clients:
        return None
    out = [name for name in names if cost(name).state]
    left = tuple(name for name in names if name not in out) or (CHEAPEST,)
    return f"no, so {' and '.join(out)} is out" if out else "no, and nothing named needs it", left


def bandwidth(situation: Situation, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Algorithms that do not fit are out; if none fits, the cheapest in traffic, then in compute, stays."""
    size = model_size(situation)[1]
    if situation.bandwidth is None or size is None:
        return None
    fits = tuple(name for name in names if traffic(name, size) <= situation.bandwidth)
    if fits:
        out = [name for name in names if name not in fits]
        return f"no, so {' and '.join(out)} is out" if out else "yes", fits
    cheapest = min(names, key=lambda name: (traffic(name, size), cost(name).seconds))
    return "no, nothing fits; the cheapest stands", (cheapest,)


CONSTRAINTS = (
    Constraint("One global model, or one per party?", personal),
    Constraint("Can clients keep state between rounds?", stateless),
    Constraint("Does the traffic fit the bandwidth of a party?", bandwidth),
)


def decide(situation: Situation) -> Decision:
    """Walk the tree, then apply the constraints in order.

    Parameters
    ----------
    situation : what is known

    Returns
    -------
    the decision; its path holds the questions of the tree, then those of the constraints that arose
    """
    place, path = walk(situation.facts)
    leaf = LEAVES[place]
    names = (leaf.algorithm, *leaf.alternatives)
    for constraint in CONSTRAINTS:
        result = constraint.apply(situation, names)
        if result is not None:
            path += (Step(question=constraint.question, answer=result[0]),)
            names = result[1]
    return Decision(names[0], names[1:], path, leaf)


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input that, changed alone to ``value``, changes the answer to ``algorithm``."""

    input: str
    value: str
    algorithm: str
    text: str


@dataclass(frozen=True, slots=True)
class Variation:
    """The same situation with one input changed."""

    input: str
    value: str
    text: str
    situation: Situation


def with_components(situation: Situation, components: tuple[str, ...], k: int | None = None) -> Situation:
    """The situation with other kinds of skew in it; the kind that prevails follows from them.

    Parameters
    ----------
    situation : to change
    components : kinds that are more than chance; ``concept`` among them counts as strong
    k : classes a party, for ``label_count``
    """
    kind = components[0] if len(components) == 1 else "mixed" if components else "none"
    old = situation.profile
    profile = msgspec.structs.replace(
        old,
        prevailing=Prevailing(kind=kind, components=components, confidence=1.0, runner_up=None),
        label=msgspec.structs.replace(old.label, classes_per_party=ClassesPerParty(k=k)) if k else old.label,
        concept=msgspec.structs.replace(old.concept, severity="strong" if "concept" in components else "none"),
    )
    return replace(situation, profile=profile)


def variations(situation: Situation) -> tuple[Variation, ...]:
    """Every single input that the tree or a constraint looks at, changed in every way that it tells apart."""
    return (*_skew_variations(situation), *_option_variations(situation))


def _skew_variations(situation: Situation) -> tuple[Variation, ...]:
    now, found = situation.components, []
    label, others = situation.label_kind, tuple(kind for kind in now if kind != situation.label_kind)
    k = situation.profile.label.classes_per_party.k
    shapes = (("label_dirichlet", None), ("label_count", 1), ("label_count", 2))
    for kind, classes in shapes:
        if kind == label and (kind == "label_dirichlet" or (k == 1) == (classes == 1)):
            continue
        value = kind if classes is None else f"{kind}, {'one class' if classes == 1 else 'two or more classes'} a party"
        shape = {
            None: "by unequal shares of the classes",
            1: "with one class a party",
            2: "with a few whole classes a party",
        }
        changed = with_components(situation, (kind, *others), classes)
        found.append(Variation("label skew", value, f"labels were skewed {shape[classes]}", changed))
    if label:
        text = f"label skew fell to chance (index under {THRESHOLDS['label'].mild:g})"
        found.append(Variation("label skew", "none", text, with_components(situation, others)))
    for kind in ("quantity", "feature", "concept"):
        floor = THRESHOLDS[kind].strong if kind == "concept" else THRESHOLDS[kind].mild
        if kind in now:
            rest = tuple(other for other in now if other != kind)
            text = f"{kind} skew fell to chance (index under {THRESHOLDS[kind].mild:g})"
            found.append(Variation(f"{kind} skew", "none", text, with_components(situation, rest)))
        else:
            text = f"{kind} skew came on top (index {floor:g} or more)"
            found.append(Variation(f"{kind} skew", "present", text, with_components(situation, (*now, kind))))
    return tuple(found)


def _option_variations(situation: Situation) -> tuple[Variation, ...]:
    other: Modality = "tabular" if situation.modality == "image" else "image"
    size = model_size(situation)[1]
    retold = replace(situation, modality=other)
    free = not situation.stateless_clients
    state = "clients could not keep state" if free else "clients could keep state"
    goal = replace(situation, goal="global" if situation.goal == "personal" else "personal")
    norm = replace(situation, has_batchnorm=not situation.has_batchnorm)
    found = [
        Variation("modality", other, f"the rows were {'images' if other == 'image' else 'a table'}", retold),
        Variation("stateless_clients", str(free).lower(), state, replace(situation, stateless_clients=free)),
        Variation("goal", goal.goal, f"a {goal.goal} model were wanted", goal),
        Variation(
            "has_batchnorm",
            str(norm.has_batchnorm).lower(),
            f"the model {'had' if norm.has_batchnorm else 'had no'} BatchNorm",
            norm,
        ),
    ]
    if situation.bandwidth is not None:
        found.append(Variation("bandwidth", "none", "bandwidth had no limit", replace(situation, bandwidth=None)))
    elif size is not None:
        limit = traffic(decide(situation).algorithm, size) - 1
        text = f"a party could carry less than {limit + 1:,} bytes a round"
        found.append(Variation("bandwidth", str(limit), text, replace(situation, bandwidth=limit)))
    return tuple(found)


def what_would_change(situation: Situation) -> tuple[Change, ...]:
    """Re-walk tree and constraints with each input changed alone; keep the changes that flip the algorithm.

    Parameters
    ----------
    situation : what is known
    """
    now = decide(situation).algorithm
    found = []
    for variation in variations(situation):
        then = decide(variation.situation).algorithm
        if then != now:
            text = f"If {variation.text}: {TITLES[then]} instead of {TITLES[now]}."
            found.append(Change(input=variation.input, value=variation.value, algorithm=then, text=text))
    return tuple(found)

"""The decision tree of the NIID-Bench paper as data, and the one small function that walks it.

Sources: Li, Diao, Chen, He 2022 (key ``li2022niid``), the decision tree, its remarks, and the section on mixed skews.
What is our own says so in its ``origin``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fedskew.advisor.situation import Facts
from fedskew.profiles.severity import SIGNIFICANCE, THRESHOLDS


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question on the way and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Question:
    """An inner node: ``answer`` reads the facts, ``ways`` says where each answer leads, ``origin`` who asks."""

    text: str
    answer: Callable[[Facts], str]
    ways: dict[str, str]
    origin: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """An answer of the tree.

    Parameters
    ----------
    algorithm : the one to take first
    alternatives : named by the same leaf, or next best there
    named : what the source itself names here, before any remark or order of ours; empty where it names nothing
    remark : what a person must know about this leaf
    evidence : the figures behind it
    origin : who says so
    citations : keys into :data:`fedskew.advisor.citations.CITATIONS`
    """

    algorithm: str
    alternatives: tuple[str, ...]
    named: tuple[str, ...]
    remark: str
    evidence: str
    origin: str
    citations: tuple[str, ...] = ("li2022niid",)


PAPER = "NIID-Bench, decision tree"
REMARK = "NIID-Bench, remark on the decision tree"
MIXED = "NIID-Bench, section on mixed skews (two mixtures on CIFAR-10)"
OURS = "fedskew"
MIXTURE = "one to one with the components of the profile"


def _thresholds() -> str:
    floors = ", ".join(f"{kind} {floor.mild:g}" for kind, floor in THRESHOLDS.items())
    return f"fedskew: a skew counts from index {floors}, at p < {SIGNIFICANCE:g} where it has a test"


def _classes_each(facts: Facts) -> str:
    return "1" if facts.classes_each == 1 else "2 or more"


def _concept(facts: Facts) -> str:
    return "yes" if facts.strong_concept else "no"


def _has(kind: str) -> Callable[[Facts], str]:
    return lambda facts: "yes" if kind in facts.components else "no"


def _label_kind(facts: Facts) -> str:
    return facts.label_kind or "no label skew"


ROOT = "skew"
MODALITY = "Are the rows images or a table?"
QUESTIONS: dict[str, Question] = {
    ROOT: Question(
        "Which skew prevails beyond chance?",
        lambda facts: facts.kind,
        {
            "none": "none",
            "concept": "concept",
            "label_count": "classes_each",
            "label_dirichlet": "modality",
            "feature": "feature",
            "quantity": "quantity",
            "mixed": "mixed_concept",
        },
        f"{PAPER}; {_thresholds()}",
    ),
    "classes_each": Question(
        "How many classes does a party hold?",
        _classes_each,
        {"1": "label_count_1", "2 or more": "label_count"},
        REMARK,
    ),
    "modality": Question(
        MODALITY,
        lambda facts: facts.modality,
        {"image": "label_dirichlet_image", "tabular": "label_dirichlet_tabular"},
        PAPER,
    ),
    "mixed_concept": Question(
        "Do parties strongly disagree about the label of the same row (concept shift)?",
        _concept,
        {"yes": "concept", "no": "mixed_quantity"},
        f"{OURS}: strong from index {THRESHOLDS['concept'].strong:g}",
    ),
    "mixed_quantity": Question(
        "Is quantity skew part of the mixture?",
        _has("quantity"),
        {"yes": "mixed_quantity_label", "no": "mixed_label"},
        MIXED,
    ),
    "mixed_quantity_label": Question(
        "Which label skew goes with it?",
        _label_kind,
        {
            "label_count": "classes_each",
            "label_dirichlet": "mixed_quantity_modality",
            "no label skew": "mixed_quantity_feature",
        },
        MIXTURE,
    ),
    "mixed_quantity_modality": Question(
        MODALITY,
        lambda facts: facts.modality,
        {"image": "mixed_quantity_label_image", "tabular": "label_dirichlet_tabular"},
        f"{OURS}: the algorithm that both leaves name, else the one of quantity skew",
    ),
    "mixed_label": Question(
        "Which label skew is part of the mixture?",
        _label_kind,
        {"label_count": "classes_each", "label_dirichlet": "mixed_modality", "no label skew": "feature"},
        MIXTURE,
    ),
    "mixed_modality": Question(
        MODALITY,
        lambda facts: facts.modality,
        {"image": "mixed_label_feature", "tabular": "label_dirichlet_tabular"},
        MIXED,
    ),
}

LEAVES: dict[str, Leaf] = {
    "none": Leaf(
        "fedavg",
        (),
        (),
        "The paper's tree starts from a skew; without one FedAvg is our own leaf, because it is the cheapest.",
        "nine published results: mean regret FedAvg 0.43, FedProx 0.54, FedNova 0.57, SCAFFOLD 1.94 points",
        OURS,
    ),
    "concept": Leaf(
        "fedavg",
        (),
        (),
        "No leaf: parties label like rows differently, and one global model cannot serve both. FedAvg is named only "
        "because something must stand here; ask for personal models or settle the labels first.",
        "no table compares the algorithms under concept shift",
        OURS,
    ),
    "label_count_1": Leaf(
        "fedprox",
        ("fedavg",),
        ("fedprox", "fedavg"),
        "With one class a party expect near chance from all four algorithms; FedProx loses least.",
        "seven published results: mean regret FedProx 0.87, FedAvg 7.13, FedNova 9.64, SCAFFOLD 18.67 points; "
        "those of rcv1 and SVHN are constant predictors and say nothing",
        REMARK,
    ),
    "label_count": Leaf(
        "fedavg",
        ("fedprox",),
        ("fedprox", "fedavg"),
        "The paper names FedProx and FedAvg alike; FedAvg comes first here because it needs no tuning.",
        "eight published results: mean regret FedAvg 0.35, FedProx 0.65, FedNova 3.44, SCAFFOLD 8.29 points",
        f"{PAPER} (both names); {OURS} (the order)",
    ),
    "label_dirichlet_image": Leaf(
        "scaffold",
        ("fedavg", "fedprox"),
        ("scaffold",),
        "SCAFFOLD leads by about a point, for twice the traffic and a state at each party.",
        "four published results: mean regret SCAFFOLD 0.02, FedProx 0.65, FedAvg 0.70, FedNova 0.87 points",
        PAPER,
    ),
    "label_dirichlet_tabular": Leaf(
        "fedprox",
        ("fedavg",),
        ("fedprox",),
        "Three published results with standard deviations of up to 27 points stand behind this leaf: no proof.",
        "three published results: mean regret FedProx 2.10, SCAFFOLD 6.50, FedAvg 8.07, FedNova 17.2 points",
        PAPER,
    ),
    "feature": Leaf(
        "scaffold",
        ("fedavg", "fedprox"),
        ("scaffold",),
        "The gain over FedAvg is 0.2 points on average and 1.2 at most, for twice the traffic.",
        "six published results: mean regret SCAFFOLD 0.02, FedProx 0.20, FedAvg 0.23, FedNova 0.35 points",
        PAPER,
    ),
    "quantity": Leaf(
        "fedavg",
        ("fedprox",),
        ("fedprox", "fedavg"),
        "The paper names FedProx and FedAvg alike; FedAvg comes first here because it needs no tuning.",
        "seven published results: mean regret FedAvg 0.44, FedProx 0.61, SCAFFOLD 23.41, FedNova 33.76 points",
        f"{PAPER} (both names); {OURS} (the order)",
    ),
    "mixed_label_feature": Leaf(
        "scaffold",
        ("fedavg", "fedprox"),
        ("scaffold",),
        "Both skews alone lead to SCAFFOLD, and so does the paper's one mixture of them.",
        "one published result (CIFAR-10): SCAFFOLD 67.8, FedAvg 66.1, FedNova 65.9, FedProx 64.8",
        MIXED,
    ),
    "mixed_quantity_feature": Leaf(
        "fedavg",
        ("fedprox",),
        ("fedprox", "fedavg"),
        "Quantity skew decides: SCAFFOLD's gain under feature skew does not survive it.",
        "one published result (CIFAR-10): FedProx 69.2, FedAvg 69.1, SCAFFOLD 62.2, FedNova 10.0",
        MIXED,
    ),
    "mixed_quantity_label_image": Leaf(
        "fedavg",
        ("fedprox",),
        (),
        "No published result has this mixture. Quantity skew decides: SCAFFOLD is unstable where steps differ much.",
        "seven published results on quantity: mean regret FedAvg 0.44, FedProx 0.61, SCAFFOLD 23.41 points",
        OURS,
    ),
}


def walk(facts: Facts) -> tuple[str, tuple[Step, ...]]:
    """Walk the tree from its root.

    Parameters
    ----------
    facts : what is known

    Returns
    -------
    id of the leaf, a key of :data:`LEAVES`; every question asked on the way with its answer
    """
    place, steps = ROOT, []
    while place in QUESTIONS:
        question = QUESTIONS[place]
        answer = question.answer(facts)
        steps.append(Step(question=question.text, answer=answer))
        place = question.ways[answer]
    return place, tuple(steps)


def graph() -> str:
    """The tree as text, one line an edge: for documents and pictures.

    Examples
    --------
    >>> print(graph().splitlines()[0])
    skew = none -> none: fedavg
    """
    lines = []
    for name, question in QUESTIONS.items():
        for answer, place in question.ways.items():
            end = f"{place}: {LEAVES[place].algorithm}" if place in LEAVES else place
            lines.append(f"{name} = {answer} -> {end}")
    return "\n".join(lines)

"""From a profile to a recommendation: what, why, how sure, at what cost, and what would change it."""

from typing import TYPE_CHECKING, Literal

import msgspec

from fedskew.advisor.case import Case, Check
from fedskew.advisor.checks import CITED, run_checks
from fedskew.advisor.citations import Citation, cited
from fedskew.advisor.data_checks import void_reason
from fedskew.advisor.decision import Change, Decision, decide, model_size, what_would_change
from fedskew.advisor.evidence import CITATION, EvidenceRow, shipped
from fedskew.advisor.hyperparameters import Hyperparameters, hyperparameters, tuning_runs
from fedskew.advisor.price import TITLES, Price, cost, price
from fedskew.advisor.second_opinion import SecondOpinion, second_opinion
from fedskew.advisor.situation import Situation
from fedskew.advisor.tree import Step
from fedskew.profiles.errors import check_type
from fedskew.profiles.partitions import Modality
from fedskew.profiles.records import Profile
from fedskew.profiles.steps import cohort_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "fedskew-recommendation/1"


class Recommendation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do about the skew.

    Parameters
    ----------
    algorithm : id of the algorithm to start with
    alternatives : ids named beside it, next best first
    sentence : the answer for a person; where ``void`` is set, that comes first
    void : why no advice holds until the data are settled, or None
    why : remark and figures behind the leaf, and who says so
    path : every question on the way with its answer
    hyperparameters : where to start and what to try
    checks : what weakens or prices the advice, gravest first
    second_opinion : what the nearest published settings say
    price : bytes, arithmetic, state
    what_would_change : single inputs that flip the algorithm
    citations : the works that were used
    profile : what it was made from
    """

    algorithm: str
    alternatives: tuple[str, ...]
    sentence: str
    void: str | None
    why: tuple[str, ...]
    path: tuple[Step, ...]
    hyperparameters: Hyperparameters
    checks: tuple[Check, ...]
    second_opinion: SecondOpinion
    price: Price
    what_would_change: tuple[Change, ...]
    citations: tuple[Citation, ...]
    profile: Profile
    schema: str = SCHEMA

    def to_json(self) -> str:
        """The recommendation as one JSON document with the stable keys, indented by two."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def plot(self) -> "Figure":
        """One matplotlib Figure: the path through the tree, and what the evidence expects."""
        from fedskew.advisor.plots import overview

        return overview(self)

    def _repr_html_(self) -> str:
        from fedskew.profiles.drawing import card

        return card(self.sentence, self.plot(), repr(self))

    @staticmethod
    def from_json(text: str | bytes) -> "Recommendation":
        """Read what :meth:`to_json` wrote; strict: unknown keys and wrong types are errors.

        Raises
        ------
        msgspec.ValidationError
            The text is not a recommendation of this version.
        """
        return msgspec.json.decode(text, type=Recommendation)


def recommend(
    profile: Profile,
    *,
    modality: Modality | None = None,
    participation: float = 1.0,
    stateless_clients: bool = False,
    bandwidth: float | None = None,
    has_batchnorm: bool = False,
    goal: Literal["global", "personal"] = "global",
    model: str | None = None,
    local_epochs: int = 10,
    batch_size: int = 64,
    evidence: tuple[EvidenceRow, ...] | None = None,
) -> Recommendation:
    """Recommend a federated algorithm for a profile, with checks, a second opinion and a price.

    Parameters
    ----------
    profile : from :func:`fedskew.profiles.profile`
    modality : ``tabular`` or ``image``; None takes the profile's
    participation : share of the parties in a round, above 0 to 1
    stateless_clients : clients cannot keep anything between rounds
    bandwidth : bytes a party may carry in a round, up and down together; None for no limit
    has_batchnorm : the model holds BatchNorm layers
    goal : one ``global`` model, or a ``personal`` one for each party
    model : a model's name, a number of parameters, or ``module:factory``; None takes the paper's for such rows
    local_epochs, batch_size : of the local training
    evidence : rows to take instead of the shipped ones, such as ``shipped() + read_evidence(path)``

    Raises
    ------
    FedskewError
        A constraint is out of range, or there is no such model.

    References
    ----------
    Li, Diao, Chen, He, "Federated Learning on Non-IID Data Silos: An Experimental Study", ICDE 2022, decision tree.
    """
    check_type("what a recommendation is made for", profile, Profile, "measure the silos first with profile(silos)")
    situation = Situation(
        profile=profile,
        modality=modality or profile.modality,
        participation=participation,
        stateless_clients=stateless_clients,
        bandwidth=bandwidth,
        has_batchnorm=has_batchnorm,
        goal=goal,
        model=model,
        local_epochs=local_epochs,
        batch_size=batch_size,
    )
    return _recommend(situation, shipped() if evidence is None else evidence)


def _recommend(situation: Situation, rows: tuple[EvidenceRow, ...]) -> Recommendation:
    decision = decide(situation)
    opinion = second_opinion(situation, decision.algorithm, rows)
    void = void_reason(situation)
    checks = run_checks(Case(situation, decision))
    return Recommendation(
        algorithm=decision.algorithm,
        alternatives=decision.alternatives,
        sentence=_sentence(situation, decision, opinion, void),
        void=void,
        why=(decision.leaf.remark, f"Figures: {decision.leaf.evidence}.", f"Who says so: {decision.leaf.origin}."),
        path=decision.path,
        hyperparameters=hyperparameters(
            decision.algorithm, local_epochs=situation.local_epochs, batch_size=situation.batch_size
        ),
        checks=checks,
        second_opinion=opinion,
        price=_price(situation, decision.algorithm),
        what_would_change=what_would_change(situation),
        citations=_citations(decision, checks, opinion),
        profile=situation.profile,
    )


KIND_TITLES = {
    "label_count": "whole classes missing at parties",
    "label_dirichlet": "unequal shares of classes",
    "feature": "features that differ between parties",
    "quantity": "unequal party sizes",
    "concept": "labels that mean different things",
}


def _sentence(situation: Situation, decision: Decision, opinion: SecondOpinion, void: str | None) -> str:
    found = " and ".join(KIND_TITLES[kind] for kind in situation.components)
    rows = "images" if situation.modality == "image" else "a table"
    why = f"the data ({rows}) show {found}" if found else f"the data ({rows}) show no skew beyond chance"
    advice = f"Start with {TITLES[decision.algorithm]}: {why}. {opinion.text}"
    return f"No advice holds yet: {void}. Without that it would be: {advice}" if void else advice


def _price(situation: Situation, algorithm: str) -> Price:
    name, size = model_size(situation)
    active = cohort_size(sum(1 for rows in situation.sizes if rows), situation.participation)
    runs = tuning_runs(algorithm)
    return price(algorithm, name, size, parties=active, batch_size=situation.batch_size, tuning_runs=runs)


def _citations(decision: Decision, checks: tuple[Check, ...], opinion: SecondOpinion) -> tuple[Citation, ...]:
    keys = list(decision.leaf.citations)
    keys += [cost(name).citation for name in (decision.algorithm, *decision.alternatives)]
    keys += [key for check in checks if check.severity != "none" for key in CITED.get(check.code, ())]
    shown = next((found for found in opinion.candidates if found.algorithm == opinion.algorithm), None)
    if shown is not None:
        keys += [CITATION[near.source] for near in shown.nearest if near.source in CITATION]
    return cited(keys)

"""Checks of the data: what the profile itself says against trusting the advice."""

from statistics import median
from typing import TYPE_CHECKING

from fedskew.advisor.case import Case, Check
from fedskew.advisor.situation import Situation

if TYPE_CHECKING:
    from fedskew.profiles.partitions import Severity

VOIDING = ("test_leakage", "classes_only_in_test", "label_set_mismatch", "names_the_party", "no_features", "one_class")
"""Hygiene codes that, when strong, make any advice void."""


def void_reason(situation: Situation) -> str | None:
    """Why any advice would be void, or None.

    One party with rows, one class, or a strong hygiene finding whose code is one of :data:`VOIDING`.
    """
    if sum(1 for size in situation.sizes if size) < 2:
        return "only one party holds rows, so there is nothing to federate"
    if situation.profile.classes < 2 and situation.profile.task == "classification":
        return "there is only one class, so there is nothing to learn"
    for finding in situation.profile.hygiene:
        if finding.severity == "strong" and finding.code in VOIDING:
            return finding.text.rstrip(".")
    return None


def hygiene(case: Case) -> Check | None:
    """Findings about the data come before any advice."""
    findings, reason = case.situation.profile.hygiene, void_reason(case.situation)
    if reason:
        text = f"Any advice is void until this is settled: {reason}."
        return Check(code="hygiene", severity="strong", text=text, evidence="hygiene findings of the profile")
    if not findings:
        return None
    worst = max(findings, key=lambda finding: ("none", "mild", "strong").index(finding.severity))
    more = f" ({len(findings)} findings in all)" if len(findings) > 1 else ""
    text = f"About the data: {worst.text.rstrip('.')}{more}."
    severity: Severity = "none" if worst.severity == "none" else "mild"
    return Check(code="hygiene", severity=severity, text=text, evidence="hygiene findings of the profile")


def task(case: Case) -> Check | None:
    """The paper knows classification only."""
    if case.situation.profile.task != "regression":
        return None
    text = "The target is continuous; the paper's guidance is for classification, so take this as a guess and validate."
    return Check(code="regression", severity="strong", text=text, evidence="all tables in the evidence base classify")


def confidence(case: Case) -> Check | None:
    """A second kind of skew nearly prevails."""
    prevailing = case.situation.profile.prevailing
    if prevailing.runner_up is None:
        return None
    close = prevailing.confidence < 0.8
    text = (
        f"The profile reads {prevailing.kind} (confidence {prevailing.confidence:.2f}); next is {prevailing.runner_up}."
    )
    severity: Severity = "mild" if close else "none"
    return Check(code="prevailing_skew", severity=severity, text=text, evidence="severities of the profile")


def mixed(case: Case) -> Check | None:
    """Few published numbers have several skews at once."""
    if case.situation.kind != "mixed":
        return None
    kinds = " + ".join(case.situation.components)
    text = f"Several skews at once ({kinds}): accuracy suffers more than from each alone, and little is published."
    evidence = "NIID-Bench: two mixtures, one data set, no standard deviations"
    return Check(code="mixed_skew", severity="mild", text=text, evidence=evidence)


def concept(case: Case) -> Check | None:
    """Parties that label alike rows differently cannot share a model."""
    shift = case.situation.profile.concept
    if shift.skew is None:
        return None
    text = {
        "none": "No sign that parties label the same rows differently.",
        "mild": "Parties label some like rows differently; a global model will be wrong for some of them.",
        "strong": "Parties label like rows differently: one global model cannot serve both.",
    }[shift.severity]
    return Check(code="concept_shift", severity=shift.severity, text=text, evidence=f"concept index {shift.skew:.3f}")


def one_class(case: Case) -> Check | None:
    """Parties with a single class."""
    if case.situation.profile.classes < 2 or not case.sizes:
        return None
    alone, parties = case.situation.one_class_parties, len(case.sizes)
    severity: Severity = "none" if not alone else "strong" if 2 * alone >= parties else "mild"
    text = f"{alone} of {parties} parties {'holds' if alone == 1 else 'hold'} a single class"
    if alone:
        text += ": expect near-chance accuracy where they are many, and no learning at all there from WSM."
    else:
        text += "."
    evidence = "NIID-Bench, #C=1: 10 to 41 % on images; WSM's loss is 0 where only one class is present"
    return Check(code="one_class_parties", severity=severity, text=text, evidence=evidence)


def little_data(case: Case) -> Check | None:
    """Parties below one batch learn little and are hard to measure."""
    sizes = case.sizes
    if not sizes:
        return None
    batch = case.situation.batch_size
    small = sum(1 for size in sizes if size < batch)
    severity: Severity = "strong" if median(sizes) < batch else "mild" if small else "none"
    text = f"{small} of {len(sizes)} parties {'holds' if small == 1 else 'hold'} less than one batch of {batch} rows"
    text += ": differences between algorithms drown in noise." if severity == "strong" else "."
    return Check(code="little_data", severity=severity, text=text, evidence=f"median party: {median(sizes):g} rows")


def local_epochs(case: Case) -> Check | None:
    """Long local training drifts apart under label skew."""
    label = case.situation.profile.label
    if label.severity == "none":
        return None
    epochs = case.situation.local_epochs
    many = epochs >= 10
    text = f"{epochs} local epochs under label skew" + (
        " let parties drift apart: try 1 to 5 as well." if many else " are moderate."
    )
    severity: Severity = "none" if not many else "mild" if label.severity == "mild" or epochs <= 20 else "strong"
    evidence = "NIID-Bench: the best number of local epochs depends on the skew; thresholds 10 and 20 are stated"
    return Check(code="local_epochs", severity=severity, text=text, evidence=evidence)


def personalisation(case: Case) -> Check | None:
    """One global model, or one per party?"""
    situation = case.situation
    if situation.kind == "none":
        return None
    evidence = (
        "PFLlib, Dir(0.1): personal models 20 to 50 points ahead on a party's own rows; FedBN: +1 to +8 on feature skew"
    )
    if situation.goal == "personal":
        text = "The tree is about one global model; judge personal models on each party's own test rows."
        return Check(code="personalisation", severity="mild", text=text, evidence=evidence)
    profile = situation.profile
    strong = "strong" in (profile.label.severity, profile.feature.severity, profile.concept.severity)
    text = "Ask whether each party may have its own model" if strong else "A global model should serve all parties"
    text += ": on its own rows it may be far better." if strong else "."
    return Check(code="personalisation", severity="mild" if strong else "none", text=text, evidence=evidence)

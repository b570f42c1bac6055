"""The checks: small rules that say where the advice is weak, costly or void.

A check is one function from the case to a :class:`Check`, or to None where it does not apply. Severity ``none`` means
"looked at, and fine here". Those on the data alone are in ``data_checks``; those on algorithms and cost are here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from fedskew.advisor.case import Case, Check, CheckFn
from fedskew.advisor.data_checks import (
    concept,
    confidence,
    hygiene,
    little_data,
    local_epochs,
    mixed,
    one_class,
    personalisation,
    task,
)
from fedskew.advisor.decision import model_size
from fedskew.advisor.hyperparameters import tuning_runs
from fedskew.advisor.price import COSTS, TITLES, cost, traffic
from fedskew.profiles.steps import fednova_weight_sum, step_ratio

if TYPE_CHECKING:
    from fedskew.profiles.partitions import Severity

MOMENTUM = 0.9  # of the local optimizer: NIID-Bench's scripts


def partial_participation(case: Case) -> Check | None:
    """SCAFFOLD with stale controls: contested evidence, both sides said."""
    share = case.situation.participation
    if share == 1 or "scaffold" not in case.named:
        return None
    text = (
        f"With {100 * share:.3g} % of the parties a round, SCAFFOLD works with old control variates, and a party seen "
        "for the first time brings none. The evidence is contested: validate it before you build on it."
    )
    evidence = (
        "contested: NIID-Bench's 10.0 % at 10 of 100 parties came from code with a random start and a wrong divisor; "
        "SCAFFOLD-PyTorch has 76.6 against FedAvg's 64.4 at 10 of 100, but 62.6 against 70.0 at 2 of 10"
    )
    return Check(
        code="scaffold_participation", severity="strong" if share <= 0.2 else "mild", text=text, evidence=evidence
    )


def state(case: Case) -> Check | None:
    """What stateless clients rule out."""
    if not case.situation.stateless_clients:
        return None
    out = ", ".join(TITLES[name] for name, facts in COSTS.items() if facts.state)
    text = f"Clients that keep nothing between rounds rule out {out}."
    return Check(code="stateless_clients", severity="mild", text=text, evidence="the algorithms' own definitions")


def fednova(case: Case) -> Check | None:
    """FedNova's server weights sum to A and not to 1; a large A overshoots."""
    sizes = case.sizes
    if len(sizes) < 2:
        return None
    total = fednova_weight_sum(sizes, case.situation.local_epochs, case.situation.batch_size, MOMENTUM)
    severity: Severity = "strong" if total > 3 else "mild" if total > 2 else "none"
    text = {
        "none": f"Step counts are even enough for FedNova: its server weights sum to {total:.2f}.",
        "mild": f"FedNova's server weights sum to {total:.2f} instead of 1: leave it out, or expect overshooting.",
        "strong": f"FedNova's server weights sum to {total:.2f} instead of 1: expect it to collapse.",
    }[severity]
    evidence = (
        "A = tau_eff sum p_i / a_i from sizes alone; in a small model A up to 1.9 was harmless, 3.8 halved accuracy"
    )
    return Check(code="fednova_steps", severity=severity, text=text, evidence=evidence)


def unequal_steps(case: Case) -> Check | None:
    """SCAFFOLD drifts where one party takes many more steps than another."""
    if len(case.sizes) < 2 or "scaffold" not in case.named:
        return None
    ratio = step_ratio(case.sizes, case.situation.local_epochs, case.situation.batch_size)
    severity: Severity = "strong" if ratio > 20 else "mild" if ratio > 5 else "none"
    text = f"Local steps differ by a factor of {ratio:.1f} between parties"
    text += (
        "; SCAFFOLD's correction grows with them: cap the local steps."
        if severity != "none"
        else ": no danger to SCAFFOLD."
    )
    evidence = "NIID-Bench, quantity skew: SCAFFOLD 23.4 points behind; thresholds 5 and 20 are stated, not fitted"
    return Check(code="scaffold_steps", severity=severity, text=text, evidence=evidence)


def slow_start(case: Case) -> Check | None:
    """SCAFFOLD needs rounds before its control variates help."""
    if case.situation.participation < 1 or "scaffold" not in case.named:
        return None
    text = (
        "SCAFFOLD starts slowly: a short validation may put it far behind FedAvg where a long one does not. Judge it "
        "with as many rounds as you can afford in the end, fifty or more."
    )
    evidence = (
        "our study: an MLP after 30 short rounds is 5 to 27 points behind FedAvg by kind of skew; 50 of 5 epochs "
        "closed the gap on LetterRecognition (label Dirichlet 0.1) and HAPT by subject, not on a9a with one class a "
        "party; the CNN after 10 rounds of 10 epochs is 1 and 3 points ahead (label Dirichlet 0.5 on images)"
    )
    return Check(code="slow_start", severity="mild", text=text, evidence=evidence)


def batchnorm(case: Case) -> Check | None:
    """Averaged batch statistics fit no party."""
    if not case.situation.has_batchnorm:
        return None
    skewed = case.situation.label_kind or "feature" in case.situation.components
    text = "Batch statistics differ between parties and their average fits none; use GroupNorm."
    if not skewed:
        text = "BatchNorm is harmless while parties look alike; GroupNorm is the safe choice."
    evidence = "Hsieh et al. 2020; Federated Learning Baselines: BatchNorm with FedAvgM does not converge"
    return Check(code="batchnorm", severity="strong" if skewed else "none", text=text, evidence=evidence)


def double_traffic(case: Case) -> Check | None:
    """Twice the bytes for the same number of rounds."""
    factor = cost(case.decision.algorithm).traffic
    if factor == 1:
        return None
    text = f"{TITLES[case.decision.algorithm]} moves {factor:g} times FedAvg's bytes; compare at equal bytes too."
    return Check(code="traffic", severity="mild", text=text, evidence="model and control variate, each up and down")


def limited_bandwidth(case: Case) -> Check | None:
    """Whether the recommended algorithm fits."""
    limit, size = case.situation.bandwidth, model_size(case.situation)[1]
    if limit is None or size is None:
        return None
    need = traffic(case.decision.algorithm, size)
    fits = need <= limit
    text = f"A party carries {need:,} bytes a round; the limit is {limit:,.0f}"
    text += "." if fits else ": nothing here fits. Take a smaller model or compress the updates."
    return Check(
        code="bandwidth", severity="none" if fits else "strong", text=text, evidence="8 bytes a parameter, up and down"
    )


def tuning(case: Case) -> Check | None:
    """FedProx was the best of four settings picked on the test set."""
    if "fedprox" not in case.named:
        return None
    runs = tuning_runs("fedprox")
    text = f"FedProx needs its mu: {runs} settings to try, so {runs} runs; at mu = 0 it is FedAvg."
    evidence = "NIID-Bench shows the best of four mu, chosen on the test set, against one setting of the others"
    severity: Severity = "mild" if case.decision.algorithm == "fedprox" else "none"
    return Check(code="fedprox_tuning", severity=severity, text=text, evidence=evidence)


def server_optimizer(case: Case) -> Check | None:
    """With few parties a round and strong label skew the server's optimizer matters most."""
    share = case.situation.participation
    if share == 1:
        return None
    worth = share <= 0.2 and case.situation.profile.label.severity == "strong"
    text = "Server momentum or an adaptive server (FedAvgM, FedAdam) is not called for here."
    if worth:
        text = (
            "Few parties a round and strong label skew: try FedAvgM and FedAdam, which may matter more than the leaf."
        )
    evidence = (
        "Federated Learning Baselines, Hsu 0.1, 10 of 450 parties: FedAvg 72.8, FedAvgM 83.5, FedAdam 85.0; "
        "NVFlare, alpha 0.1: +2.8 for server momentum; FLamby: adaptive servers lose on segmentation"
    )
    return Check(code="server_optimizer", severity="mild" if worth else "none", text=text, evidence=evidence)


CHECKS: tuple[CheckFn, ...] = (
    hygiene,
    task,
    confidence,
    mixed,
    concept,
    one_class,
    little_data,
    batchnorm,
    partial_participation,
    state,
    fednova,
    unequal_steps,
    slow_start,
    server_optimizer,
    limited_bandwidth,
    double_traffic,
    tuning,
    local_epochs,
    personalisation,
)
"""All checks, in the order in which they are shown among equals."""
CITED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "batchnorm": ("hsieh2020quagmire", "legate2026baselines"),
        "mixed_skew": ("li2022niid",),
        "scaffold_participation": ("li2022niid", "karhoutam2023scaffold"),
        "fednova_steps": ("wang2020fednova",),
        "scaffold_steps": ("li2022niid",),
        "one_class_parties": ("li2022niid", "legate2023wsm"),
        "server_optimizer": ("legate2026baselines", "hsu2019fedavgm", "reddi2021adaptive", "terrail2022flamby"),
        "fedprox_tuning": ("li2022niid", "li2020fedprox"),
        "local_epochs": ("li2022niid",),
        "personalisation": ("li2021fedbn",),
    }
)
"""The works behind a check, by its code."""
_ORDER = {"strong": 0, "mild": 1, "none": 2}


def run_checks(case: Case) -> tuple[Check, ...]:
    """Every check that applies, the gravest first."""
    found = [check for rule in CHECKS if (check := rule(case)) is not None]
    return tuple(sorted(found, key=lambda check: _ORDER[check.severity]))

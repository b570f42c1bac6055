"""Each check on a profile that triggers it, one that does not, and one where it does not apply."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedskew.advisor.case import Case, Check, CheckFn
from fedskew.advisor.checks import (
    CHECKS,
    CITED,
    batchnorm,
    double_traffic,
    fednova,
    limited_bandwidth,
    partial_participation,
    run_checks,
    server_optimizer,
    slow_start,
    state,
    tuning,
    unequal_steps,
)
from fedskew.advisor.citations import CITATIONS
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
    void_reason,
)
from fedskew.advisor.decision import decide
from fedskew.advisor.situation import Situation
from fedskew.profiles.partitions import Finding
from fedskew.profiles.records import Profile

Builder = Callable[..., Profile]
Given = tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]
LEAK = Finding(code="test_leakage", severity="strong", text="90 of 100 test rows also stand in training silos")
MILD = Finding(code="constant_columns", severity="mild", text="1 column is constant")
UNEQUAL = [[20000, 20000]] + [[32, 32]] * 9
MIDDLING = [[3000, 3000]] + [[250, 250]] * 9
ONE_CLASS = np.eye(10, dtype=int) * 500
TINY = [[20, 20]] * 10
DIR, COUNT = ("label_dirichlet",), ("label_count",)
IMAGE = {"modality": "image"}


def case_of(build: Builder, given: Given) -> Case:
    components, profile, options = given
    found = build(*components, **profile)
    situation = Situation(found, found.modality, **options)
    return Case(situation, decide(situation))


def run(rule: CheckFn, build: Builder, given: Given) -> Check | None:
    return rule(case_of(build, given))


# rule, severity where it triggers, the case that triggers it, one that does not, one where it does not apply
TABLE: list[tuple[CheckFn, str, Given, Given, Given]] = [
    (hygiene, "strong", (DIR, {"hygiene": (LEAK,)}, {}), (DIR, {"hygiene": (MILD,)}, {}), (DIR, {}, {})),
    (
        confidence,
        "mild",
        (DIR, {"confidence": 0.55, "runner_up": "mixed"}, {}),
        (DIR, {"confidence": 0.99, "runner_up": "mixed"}, {}),
        (DIR, {}, {}),
    ),
    (concept, "strong", (("concept",), {}, {}), (DIR, {}, {}), (DIR, {"concept_skew": None}, {})),
    (one_class, "strong", (COUNT, {"counts": ONE_CLASS, "k": 1}, {}), (DIR, {}, {}), (DIR, {"classes": 1}, {})),
    (little_data, "strong", (DIR, {"counts": TINY}, {}), (DIR, {}, {}), (DIR, {"counts": np.zeros((3, 2), int)}, {})),
    (batchnorm, "strong", (DIR, {}, {"has_batchnorm": True}), ((), {}, {"has_batchnorm": True}), (DIR, {}, {})),
    (
        fednova,
        "strong",
        (("quantity",), {"counts": UNEQUAL}, {}),
        (DIR, {}, {}),
        (DIR, {"counts": [[50, 50]]}, {}),
    ),
    (
        unequal_steps,
        "strong",
        (DIR, {"counts": UNEQUAL, **IMAGE}, {}),
        (DIR, IMAGE, {}),
        (DIR, {"counts": UNEQUAL}, {}),  # FedProx on a table: SCAFFOLD is not named
    ),
    (
        server_optimizer,
        "mild",
        (DIR, {}, {"participation": 0.1}),
        (("quantity",), {}, {"participation": 0.1}),
        (DIR, {}, {}),
    ),
    (
        limited_bandwidth,
        "strong",
        (DIR, {}, {"bandwidth": 100.0}),
        (DIR, {}, {"bandwidth": 1e9}),
        (DIR, {}, {"bandwidth": 1e9, "model": "net:build"}),
    ),
    (tuning, "mild", (DIR, {}, {}), (DIR, IMAGE, {}), ((), {}, {})),
    (local_epochs, "strong", (DIR, {}, {"local_epochs": 50}), (DIR, {}, {"local_epochs": 2}), (("feature",), {}, {})),
    (personalisation, "mild", (DIR, {}, {}), (("quantity",), {}, {}), ((), {}, {})),
]
# rules that say nothing where they are not triggered
SILENT: list[tuple[CheckFn, str, Given, Given]] = [
    (task, "strong", (DIR, {"task": "regression"}, {}), (DIR, {}, {})),
    (mixed, "mild", (("label_dirichlet", "feature"), {}, {}), (DIR, {}, {})),
    (state, "mild", (DIR, {}, {"stateless_clients": True}), (DIR, {}, {})),
    (double_traffic, "mild", (DIR, IMAGE, {}), (DIR, {}, {})),
    (slow_start, "mild", (DIR, IMAGE, {}), (DIR, {}, {})),
    (slow_start, "mild", (DIR, IMAGE, {}), (DIR, IMAGE, {"participation": 0.1})),
    (partial_participation, "strong", (DIR, IMAGE, {"participation": 0.1}), (DIR, {}, {"participation": 0.1})),
]


@pytest.fixture
def build(profile_of: Builder) -> Builder:
    def with_concept(*components: str, concept_skew: float | None = 0.0, **options: Any) -> Profile:
        import msgspec

        found = profile_of(*components, **options)
        if concept_skew is not None:
            return found
        return msgspec.structs.replace(found, concept=msgspec.structs.replace(found.concept, skew=None))

    return with_concept


@pytest.mark.parametrize(("rule", "severity", "yes", "no", "outside"), TABLE)
def test_check_triggers_stays_calm_or_does_not_apply(
    build: Builder, rule: CheckFn, severity: str, yes: Given, no: Given, outside: Given
) -> None:
    found, calm = run(rule, build, yes), run(rule, build, no)
    assert found is not None
    assert found.severity == severity
    assert calm is not None
    assert calm.severity == ("mild" if rule is hygiene else "none")
    assert run(rule, build, outside) is None


@pytest.mark.parametrize(("rule", "severity", "yes", "outside"), SILENT)
def test_check_triggers_or_does_not_apply(
    build: Builder, rule: CheckFn, severity: str, yes: Given, outside: Given
) -> None:
    found = run(rule, build, yes)
    assert found is not None
    assert found.severity == severity
    assert run(rule, build, outside) is None


def test_every_check_is_tested_here() -> None:
    assert {row[0] for row in TABLE} | {row[0] for row in SILENT} == set(CHECKS)


def test_every_check_speaks_in_sentences_with_evidence(build: Builder) -> None:
    cases = [given for row in TABLE for given in row[2:]] + [given for row in SILENT for given in row[2:]]
    for given in cases:
        for check in run_checks(case_of(build, given)):
            assert check.text[0].isupper() or check.text[0].isdigit(), check
            assert check.text.endswith("."), check
            assert check.evidence, check


def test_codes_are_unique_within_a_run(build: Builder) -> None:
    given: Given = (
        ("label_dirichlet", "feature"),
        {**IMAGE, "hygiene": (LEAK,), "runner_up": "feature"},
        {"participation": 0.1, "bandwidth": 1e7, "has_batchnorm": True},
    )
    codes = [check.code for check in run_checks(case_of(build, given))]
    assert len(codes) == len(set(codes))
    assert codes[0] == "hygiene"


def test_works_behind_checks_exist() -> None:
    assert {key for keys in CITED.values() for key in keys} <= set(CITATIONS)


def test_gravest_check_comes_first(build: Builder) -> None:
    found = run_checks(case_of(build, (DIR, IMAGE, {"participation": 0.1})))
    ranks = [("strong", "mild", "none").index(check.severity) for check in found]
    assert ranks == sorted(ranks)


def test_middling_quantity_skew_warns_of_fednova_by_its_sum(build: Builder) -> None:
    found = run(fednova, build, (("quantity",), {"counts": MIDDLING}, {}))
    assert found is not None
    # momentum 0.9, E 10, B 64: 940 steps at the large party, 80 at each of nine
    share = np.array([6000] + [500] * 9) / 10500
    tau = np.array([940.0] + [80.0] * 9)
    a = (tau - 0.9 * (1 - 0.9**tau) / 0.1) / 0.1
    expected = float((share * a).sum() * (share / a).sum())
    assert f"{expected:.2f}" in found.text
    assert found.severity == ("strong" if expected > 3 else "mild" if expected > 2 else "none")
    assert expected > 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"counts": [[50, 50]]}, "only one party"),
        ({"counts": [[50, 50], [0, 0]]}, "only one party"),
        ({"classes": 1}, "only one class"),
        ({"hygiene": (LEAK,)}, "90 of 100 test rows"),
        (
            {
                "hygiene": (
                    Finding(code="classes_only_in_test", severity="strong", text="2 classes occur in the test only"),
                )
            },
            "2 classes",
        ),
        ({"hygiene": (Finding(code="names_the_party", severity="strong", text="x names the party"),)}, "x names"),
    ],
)
def test_advice_is_void_where_the_data_cannot_bear_it(build: Builder, options: dict[str, Any], said: str) -> None:
    found = build("label_dirichlet", **options)
    assert said in (void_reason(Situation(found, "tabular")) or "")


def test_mild_findings_void_nothing(build: Builder) -> None:
    leak = Finding(code="test_leakage", severity="mild", text="1 of 1000 test rows also stands in a training silo")
    assert void_reason(Situation(build("label_dirichlet", hygiene=(leak, MILD)), "tabular")) is None

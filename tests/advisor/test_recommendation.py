"""The whole recommendation: stable keys, constraints, and answers that flip exactly where it says they do."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest

from fedskew.advisor import Recommendation, recommend
from fedskew.advisor.decision import decide, variations, what_would_change
from fedskew.advisor.price import COSTS, traffic
from fedskew.advisor.situation import Situation
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.partitions import Finding
from fedskew.profiles.records import Profile

Builder = Callable[..., Profile]
KEYS = {
    "algorithm",
    "alternatives",
    "path",
    "hyperparameters",
    "checks",
    "second_opinion",
    "price",
    "profile",
    "sentence",
    "why",
    "what_would_change",
    "citations",
    "void",
}
MIXTURES: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    ((), {}),
    (("label_count",), {"k": 1}),
    (("label_count",), {"k": 3}),
    (("label_dirichlet",), {}),
    (("feature",), {}),
    (("quantity",), {}),
    (("concept",), {}),
    (("label_dirichlet", "feature"), {}),
    (("label_dirichlet", "quantity"), {}),
    (("label_count", "quantity"), {"k": 1}),
    (("feature", "quantity"), {}),
    (("label_dirichlet", "feature", "quantity"), {}),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stateless_clients": True},
    {"goal": "personal"},
    {"has_batchnorm": True},
    {"goal": "personal", "has_batchnorm": True},
    {"bandwidth": 400_000.0},
    {"bandwidth": 10.0},
    {"participation": 0.1, "local_epochs": 1, "batch_size": 16},
]


def situations(build: Builder) -> Iterator[tuple[Situation, dict[str, Any]]]:
    for (components, profile), modality, options in product(MIXTURES, ("image", "tabular"), OPTIONS):
        found = build(*components, modality=modality, **profile)
        yield Situation(found, found.modality, **options), options


def options_of(situation: Situation) -> dict[str, Any]:
    return {f.name: getattr(situation, f.name) for f in fields(situation) if f.name != "profile"}


def test_json_has_the_stable_keys(profile_of: Builder) -> None:
    found = json.loads(recommend(profile_of("label_dirichlet", modality="image")).to_json())
    assert set(found) >= KEYS
    assert set(found["path"][0]) == {"question", "answer"}
    assert all(set(check) == {"code", "severity", "text", "evidence"} for check in found["checks"])
    assert set(found["second_opinion"]["expected_gain"]) == {"mean", "lower", "upper"}
    assert {"algorithm", "expected_gain", "settings"} <= set(found["second_opinion"])
    assert {"bytes_per_party_round", "relative_compute", "client_state"} <= set(found["price"])
    assert found["profile"]["prevailing"]["kind"] == "label_dirichlet"
    assert "NaN" not in json.dumps(found)


def test_json_reads_back_equal_and_strictly(profile_of: Builder) -> None:
    found = recommend(profile_of("label_dirichlet", "feature", modality="image"), participation=0.1, bandwidth=1e6)
    assert Recommendation.from_json(found.to_json()) == found
    with pytest.raises(msgspec.ValidationError):
        Recommendation.from_json(found.to_json().replace('"algorithm"', '"algorythm"', 1))


def test_sentence_names_the_algorithm_and_the_skew(profile_of: Builder) -> None:
    found = recommend(profile_of("quantity"))
    assert found.sentence.startswith("Start with FedAvg: the data (a table) show unequal party sizes.")


@pytest.mark.parametrize(("components", "options", "algorithm"), [
    ((), {}, "fedavg"),
    (("label_count",), {"k": 1}, "fedprox"),
    (("label_count",), {"k": 2}, "fedavg"),
    (("label_dirichlet",), {"modality": "image"}, "scaffold"),
    (("label_dirichlet",), {"modality": "tabular"}, "fedprox"),
    (("feature",), {}, "scaffold"),
    (("quantity",), {}, "fedavg"),
    (("concept",), {}, "fedavg"),
])  # fmt: skip
def test_each_skew_gets_its_algorithm(
    profile_of: Builder, components: tuple[str, ...], options: dict[str, Any], algorithm: str
) -> None:
    assert recommend(profile_of(*components, **options)).algorithm == algorithm


def test_stateless_clients_are_never_given_an_algorithm_that_remembers(profile_of: Builder) -> None:
    for situation, options in situations(profile_of):
        if options.get("stateless_clients"):
            decision = decide(situation)
            assert not any(COSTS[name].state for name in (decision.algorithm, *decision.alternatives))


def test_where_nothing_fits_the_cheapest_in_compute_of_equal_traffic_stands(profile_of: Builder) -> None:
    one_class = profile_of("label_count", k=1)
    assert (recommend(one_class).algorithm, recommend(one_class, bandwidth=100.0).algorithm) == ("fedprox", "fedavg")


def test_bandwidth_is_kept_wherever_anything_named_fits(profile_of: Builder) -> None:
    image = profile_of("label_dirichlet", modality="image")  # the paper's CNN, 44,426 parameters
    single = traffic("fedavg", 44_426)
    assert recommend(image, bandwidth=2 * single).algorithm == "scaffold"
    assert recommend(image, bandwidth=2 * single - 1).algorithm == "fedavg"
    tight = recommend(image, bandwidth=single - 1)
    assert tight.algorithm == "fedavg"
    assert any(check.code == "bandwidth" and check.severity == "strong" for check in tight.checks)


def test_personal_goal_takes_fedbn_only_with_batchnorm_and_feature_skew(profile_of: Builder) -> None:
    assert recommend(profile_of("feature"), goal="personal", has_batchnorm=True).algorithm == "fedbn"
    assert recommend(profile_of("feature"), goal="personal").algorithm == "scaffold"
    assert recommend(profile_of("quantity"), goal="personal", has_batchnorm=True).algorithm == "fedavg"


def test_constraints_that_arise_are_part_of_the_path(profile_of: Builder) -> None:
    found = recommend(profile_of("feature"), stateless_clients=True)
    assert found.path[-1].question == "Can clients keep state between rounds?"
    assert found.path[-1].answer == "no, so scaffold is out"
    assert len(recommend(profile_of("feature")).path) == 1


def test_answer_flips_exactly_where_it_says_so(profile_of: Builder) -> None:
    """Every variation, listed or not, is put through recommend() as an input of its own."""
    flips = 0
    for situation, _ in situations(profile_of):
        listed = {(change.input, change.value): change.algorithm for change in what_would_change(situation)}
        now = decide(situation).algorithm
        for variation in variations(situation):
            changed = variation.situation
            then = decide(Situation(changed.profile, **options_of(changed))).algorithm
            assert then == listed.get((variation.input, variation.value), now), (situation.components, variation)
        flips += len(listed)
    assert flips > 100


def test_listed_option_flips_recommend_itself(profile_of: Builder) -> None:
    image = profile_of("label_dirichlet", modality="image")
    found = {change.input: change for change in recommend(image).what_would_change}
    assert recommend(image, modality="tabular").algorithm == found["modality"].algorithm == "fedprox"
    assert recommend(image, stateless_clients=True).algorithm == found["stateless_clients"].algorithm == "fedavg"
    limit = float(found["bandwidth"].value)
    assert recommend(image, bandwidth=limit).algorithm == found["bandwidth"].algorithm == "fedavg"
    assert recommend(image, bandwidth=limit + 1).algorithm == "scaffold"
    assert "goal" not in found
    assert recommend(image, goal="personal").algorithm == "scaffold"
    assert (
        found["quantity skew"].algorithm
        == recommend(profile_of("label_dirichlet", "quantity", modality="image")).algorithm
    )


def test_listed_skew_flips_the_advice_of_the_profile_that_has_it(profile_of: Builder) -> None:
    tables: dict[tuple[str, str], tuple[tuple[str, ...], dict[str, Any]]] = {
        ("label skew", "label_count, one class a party"): (("label_count", "feature"), {"k": 1}),
        ("label skew", "label_count, two or more classes a party"): (("label_count", "feature"), {"k": 2}),
        ("label skew", "label_dirichlet"): (("label_dirichlet", "feature"), {}),
        ("feature skew", "none"): ((), {}),
        ("quantity skew", "present"): (("feature", "quantity"), {}),
        ("concept skew", "present"): (("feature", "concept"), {}),
    }
    feature = profile_of("feature")
    listed = {(c.input, c.value): c.algorithm for c in recommend(feature).what_would_change}
    for key, (components, options) in tables.items():
        there = recommend(profile_of(*components, **options)).algorithm
        assert listed.get(key, "scaffold") == there, key
    assert {key for key in listed if key[0].endswith("skew")} <= set(tables)


def test_inputs_not_listed_never_flip_the_answer(profile_of: Builder) -> None:
    for situation, _ in situations(profile_of):
        now = decide(situation).algorithm
        for other in ({"participation": 0.01}, {"local_epochs": 1}, {"batch_size": 1}):
            assert decide(replace(situation, **other)).algorithm == now


@pytest.mark.parametrize(
    "options",
    [
        {"counts": [[50, 50]]},
        {"hygiene": (Finding(code="test_leakage", severity="strong", text="90 of 100 test rows stand in silos"),)},
        {"hygiene": (Finding(code="label_set_mismatch", severity="strong", text="party 'b' calls yes 'ja'"),)},
    ],
)
def test_void_advice_says_so_first(profile_of: Builder, options: dict[str, Any]) -> None:
    found = recommend(profile_of("label_dirichlet", **options))
    assert found.void
    assert found.sentence.startswith("No advice holds yet: ")
    assert found.checks[0].severity == "strong"


def test_sound_data_are_not_void(profile_of: Builder) -> None:
    found = recommend(profile_of("label_dirichlet"))
    assert found.void is None
    assert found.sentence.startswith("Start with")


def test_citations_hold_exactly_the_works_used(profile_of: Builder) -> None:
    keys = {work.key for work in recommend(profile_of("label_dirichlet", modality="image")).citations}
    assert {"li2022niid", "karimireddy2020scaffold", "mcmahan2017fedavg", "li2020fedprox"} <= keys
    assert not keys & {"wang2020fednova", "acar2021feddyn", "hsieh2020quagmire"}
    norm = recommend(profile_of("label_dirichlet", modality="image"), has_batchnorm=True)
    assert "hsieh2020quagmire" in {work.key for work in norm.citations}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"participation": 0.0}, "participation is 0"),
        ({"participation": 1.5}, "participation is 1.5"),
        ({"bandwidth": -1.0}, "bandwidth is -1"),
        ({"bandwidth": float("nan")}, "bandwidth is nan"),
        ({"goal": "persnal"}, "did you mean 'personal'"),
        ({"modality": "picture"}, "unknown modality"),
        ({"local_epochs": 0}, "local epochs is 0"),
        ({"batch_size": 0}, "batch size is 0"),
        ({"model": "cnn"}, "needs images"),
    ],
)
def test_impossible_constraint_is_named_in_one_line(profile_of: Builder, options: dict[str, Any], said: str) -> None:
    with pytest.raises(FedskewError, match=said) as caught:
        recommend(profile_of("label_dirichlet"), **options)
    assert "\n" not in str(caught.value)


def test_degenerate_profiles_still_get_an_answer(profile_of: Builder) -> None:
    for options in (
        {"counts": [[5]]},
        {"counts": [[0, 0], [0, 0]]},
        {"classes": 1},
        {"counts": np.eye(200, dtype=int)},
    ):
        found = recommend(profile_of(**options))
        assert found.algorithm == "fedavg"
        assert Recommendation.from_json(found.to_json()) == found


def test_recommend_imports_neither_torch_nor_pandas() -> None:
    heavy = {"torch", "pandas", "polars", "scipy.stats", "matplotlib"}
    code = f"import sys, fedskew.advisor; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

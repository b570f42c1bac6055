"""The second opinion against hand computation, and its honesty with few neighbours."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fedskew.advisor.decision import model_size
from fedskew.advisor.evidence import EvidenceRow, published
from fedskew.advisor.likeness import Place, likeness, place_of, place_of_situation
from fedskew.advisor.own_evidence import STATED, Constants
from fedskew.advisor.price import traffic
from fedskew.advisor.second_opinion import (
    CAP,
    PRIOR_SD,
    Gain,
    Opinion,
    SecondOpinion,
    differences,
    opinions,
    second_opinion,
    shortlist,
)
from fedskew.advisor.situation import Situation
from fedskew.profiles.records import Profile

HERE = Place(frozenset({"label_dirichlet"}), "image", 10, 10, 1.0, 0.32, 0.15, 0.0)


def row(algorithm: str, mean: float, **changes: Any) -> EvidenceRow:
    base = EvidenceRow(
        source="mine",
        code="",
        dataset="A",
        variant="",
        modality="image",
        skew="label_dirichlet",
        param="beta=0.5",
        classes=10,
        parties=10,
        participation=1.0,
        label_skew=0.32,
        quantity_skew=0.15,
        feature_skew=0.0,
        majority=10.0,
        algorithm=algorithm,
        mean=mean,
    )
    return replace(base, **changes)


def pairs(algorithm: str, gains: dict[str, float], **changes: Any) -> tuple[EvidenceRow, ...]:
    found: list[EvidenceRow] = []
    for dataset, gain in gains.items():
        found += [
            row("fedavg", 60.0, dataset=dataset, **changes),
            row(algorithm, 60.0 + gain, dataset=dataset, **changes),
        ]
    return tuple(found)


def opinion_on(algorithm: str, rows: tuple[EvidenceRow, ...], place: Place = HERE) -> Opinion:
    return next(found for found in opinions(place, rows, STATED) if found.algorithm == algorithm)


def test_likeness_is_symmetric_and_one_for_itself() -> None:
    places = {place_of(r) for r in published()}
    for a in list(places)[:30]:
        for b in list(places)[:30]:
            assert likeness(a, b) == pytest.approx(likeness(b, a), rel=1e-12)
            assert 0 <= likeness(a, b) <= 1
    assert likeness(HERE, HERE) == 1


def test_likeness_falls_with_each_difference() -> None:
    for other in (
        replace(HERE, modality="tabular"),
        replace(HERE, classes=100),
        replace(HERE, parties=100),
        replace(HERE, participation=0.1),
        replace(HERE, label=0.7),
        replace(HERE, label=None),
        replace(HERE, kinds=frozenset({"label_count"})),
        replace(HERE, kinds=frozenset({"label_dirichlet", "quantity"})),
        replace(HERE, kinds=frozenset({"natural"})),
    ):
        assert 0 < likeness(HERE, other) < 1
    assert likeness(HERE, replace(HERE, kinds=frozenset({"quantity"}))) == 0


def test_likeness_by_hand() -> None:
    other = replace(HERE, label=0.52, modality="tabular")
    assert likeness(HERE, other) == pytest.approx(math.exp(-0.5) * 0.3)


def test_gain_by_hand_on_three_equal_data_sets() -> None:
    gain = opinion_on("fedprox", pairs("fedprox", {"A": 1.0, "B": 2.0, "C": 3.0})).expected_gain
    overall = 6 / (3 + 1)  # pulled to 0 by one pseudo data set
    mean = (6 + overall) / (3 + 1)
    spread = ((1 - mean) ** 2 + (2 - mean) ** 2 + (3 - mean) ** 2 + PRIOR_SD**2) / 4
    half = 2.446911851 * math.sqrt(spread * (1 + 1 / 4))  # t, 97.5 %, 3 + 3 degrees of freedom
    assert gain.mean == pytest.approx(mean, abs=0.005)
    assert gain.lower == pytest.approx(mean - half, abs=0.01)
    assert gain.upper == pytest.approx(mean + half, abs=0.01)


def test_many_settings_of_one_data_set_count_as_one() -> None:
    once = pairs("fedprox", {"A": 8.0, "B": 0.0})
    often = once
    for i in range(20):
        often += pairs("fedprox", {"A": 8.0}, variant=str(i))
    assert opinion_on("fedprox", often).expected_gain == opinion_on("fedprox", once).expected_gain


def test_few_neighbours_mean_a_wide_interval_near_nothing() -> None:
    few = opinion_on("fedprox", pairs("fedprox", {"A": 4.0})).expected_gain
    many = opinion_on("fedprox", pairs("fedprox", {str(i): 4.0 for i in range(12)})).expected_gain
    assert few.mean < many.mean <= 4.0
    assert few.upper - few.lower > many.upper - many.lower


def test_distrusted_rows_weigh_less() -> None:
    good, bad = pairs("fedprox", {"A": 4.0}), pairs("fedprox", {"B": -4.0})
    doubted = tuple(replace(r, trust=0.1) for r in bad)
    assert (
        opinion_on("fedprox", good + doubted).expected_gain.mean > opinion_on("fedprox", good + bad).expected_gain.mean
    )
    broken = tuple(replace(r, trust=0.0) for r in bad)
    assert opinion_on("fedprox", good + broken).expected_gain == opinion_on("fedprox", good).expected_gain


def test_constant_predictors_are_failures_and_not_ranks() -> None:
    both = (row("fedavg", 6.7), row("fedprox", 10.0))
    assert "fedprox" not in differences(both)
    one = (row("fedavg", 6.7), row("fedprox", 25.0))
    assert differences(one)["fedprox"][0].points == 15.0  # from the constant predictor's 10, not from 6.7


def test_one_collapse_is_capped() -> None:
    assert differences((row("fedavg", 90.0), row("fednova", 10.0)))["fednova"][0].points == -CAP


def test_published_collapse_under_quantity_skew_is_expected_again() -> None:
    place = Place(frozenset({"quantity"}), "tabular", 2, 10, 1.0, 0.0, 0.63, 0.0)
    found = {opinion.algorithm: opinion.expected_gain.mean for opinion in opinions(place, published(), STATED)}
    assert found["fednova"] < -4
    assert found["scaffold"] < -4
    assert abs(found["fedprox"]) < 1


def test_no_neighbours_is_said(profile_of: Callable[..., Profile]) -> None:
    situation = Situation(profile_of("concept"), "tabular")
    found = second_opinion(situation, "fedavg", pairs("fedprox", {"A": 5.0, "B": 5.0}), STATED)
    assert found.verdict == "no_evidence"
    assert found.algorithm == "fedavg"
    assert "Too little is published" in found.text


def test_clear_evidence_is_called_better_and_contradicts(profile_of: Callable[..., Profile]) -> None:
    situation = Situation(profile_of("label_dirichlet", modality="image"), "image")
    found = second_opinion(situation, "fedavg", pairs("fedprox", {str(i): 10.0 for i in range(10)}), STATED)
    assert (found.verdict, found.algorithm, found.agrees) == ("better", "fedprox", False)
    assert "it would not choose FedAvg" in found.text
    assert found.settings == 10


def test_small_gains_are_no_measurable_difference(profile_of: Callable[..., Profile]) -> None:
    situation = Situation(profile_of("label_dirichlet", modality="image"), "image")
    found = second_opinion(situation, "scaffold", pairs("fedprox", {str(i): 0.2 for i in range(10)}), STATED)
    assert found.verdict == "no_measurable_difference"
    assert "SCAFFOLD must show its worth: validate, or take FedAvg, which is cheaper" in found.text


def test_uncertain_gains_cannot_tell(profile_of: Callable[..., Profile]) -> None:
    situation = Situation(profile_of("label_dirichlet", modality="image"), "image")
    found = second_opinion(situation, "fedprox", pairs("fedprox", {"A": 9.0, "B": -3.0, "C": 2.0}), STATED)
    assert (found.verdict, found.agrees) == ("cannot_tell", True)


def test_an_algorithm_known_from_one_data_set_is_not_chosen(profile_of: Callable[..., Profile]) -> None:
    situation = Situation(profile_of("label_dirichlet", modality="image"), "image")
    rows = pairs("fedavgm", {"A": 15.0}) + pairs("fedprox", {"B": 1.0, "C": 1.0})
    assert second_opinion(situation, "fedavg", rows, STATED).algorithm == "fedprox"


def test_constraints_bind_the_second_opinion_too(profile_of: Callable[..., Profile]) -> None:
    situation = Situation(profile_of("label_dirichlet", modality="image"), "image", stateless_clients=True)
    rows = pairs("scaffold", {str(i): 10.0 for i in range(9)})
    assert [opinion.algorithm for opinion in second_opinion(situation, "fedavg", rows, STATED).candidates] == ["fedavg"]


def test_bandwidth_binds_the_second_opinion_too(profile_of: Callable[..., Profile]) -> None:
    situation = Situation(profile_of("label_dirichlet", modality="image"), "image")
    size = model_size(situation)[1]
    assert size is not None
    rows = pairs("scaffold", {str(i): 10.0 for i in range(9)}) + pairs("fedprox", {"p": 1.0, "q": 1.0})
    wide, once = traffic("scaffold", size), traffic("fedavg", size)
    for limit, expected in ((wide, {"fedavg", "fedprox", "scaffold"}), (wide - 1, {"fedavg", "fedprox"}),
                            (once, {"fedavg", "fedprox"}), (1, {"fedavg", "fedprox"})):  # fmt: skip
        found = second_opinion(replace(situation, bandwidth=limit), "fedavg", rows, STATED)
        assert {one.algorithm for one in found.candidates} == expected, limit


@pytest.mark.parametrize("gain", [10.0, 0.1])
def test_evidence_without_the_recommended_algorithm_does_not_agree(
    profile_of: Callable[..., Profile], gain: float
) -> None:
    situation = Situation(profile_of("label_dirichlet", modality="image"), "image")
    found = second_opinion(situation, "fedprox", pairs("scaffold", {str(i): gain for i in range(10)}), STATED)
    assert not found.agrees
    assert "has nothing on FedProx" in found.text


def test_place_of_a_situation_is_read_from_the_profile(profile_of: Callable[..., Profile]) -> None:
    place = place_of_situation(Situation(profile_of("label_dirichlet", modality="image"), "image", participation=0.5))
    assert place.weight_sum == pytest.approx(1.0)  # equal sizes, equal steps
    known = replace(place, weight_sum=None)
    assert known == Place(frozenset({"label_dirichlet"}), "image", 10, 10, 0.5, 0.32, 0.0, 0.0, 1.0)


def test_steps_of_a_situation_follow_from_its_sizes(profile_of: Callable[..., Profile]) -> None:
    counts = [[640, 0], [0, 64], [32, 32]]  # at B = 64: 10, 1 and 1 steps an epoch
    profile = profile_of("quantity", counts=counts, classes=2, parties=3)
    place = place_of_situation(Situation(profile, "tabular", local_epochs=1, batch_size=64))
    p = [640 / 768, 64 / 768, 64 / 768]
    a = [(10 - 0.9 * (1 - 0.9**10) / 0.1) / 0.1, 1.0, 1.0]  # FedNova's normaliser at momentum 0.9
    expected = sum(q * b for q, b in zip(p, a, strict=True)) * sum(q / b for q, b in zip(p, a, strict=True))
    assert place.step_ratio == 10
    assert place.weight_sum == pytest.approx(expected)


def test_steps_count_where_both_settings_state_them() -> None:
    stated = replace(HERE, step_ratio=1.0, weight_sum=1.0)
    assert likeness(HERE, stated) == 1
    assert likeness(stated, replace(stated, step_ratio=10.0)) == pytest.approx(math.exp(-0.5 * (1 / 0.5) ** 2))
    assert likeness(stated, replace(stated, weight_sum=10**0.3)) == pytest.approx(math.exp(-0.5))


def test_published_rows_weigh_less_beside_our_own() -> None:
    own, theirs = pairs("fedprox", {"A": 4.0}), pairs("fedprox", {"B": -4.0}, source="niid_bench")
    quarter = Constants(published=0.25)
    mean = (4.0 - 0.25 * 4.0) / (1.25 + 1)  # weights 1 and a quarter, pulled to 0 by one data set
    expected = (4.0 - 0.25 * 4.0 + mean) / (1.25 + 1)
    found = {o.algorithm: o.expected_gain.mean for o in opinions(HERE, own + theirs, quarter)}
    assert found["fedprox"] == pytest.approx(expected, abs=0.005)
    alone = {o.algorithm: o.expected_gain for o in opinions(HERE, theirs, quarter)}
    assert alone["fedprox"] == {o.algorithm: o.expected_gain for o in opinions(HERE, theirs, Constants(1.0))}["fedprox"]


def test_intervals_hold_most_fedprox_results_of_unseen_data_sets() -> None:
    inside = total = 0
    for item in differences(published())["fedprox"]:
        if item.row.source != "niid_bench" or not item.row.kinds:
            continue
        rest = tuple(r for r in published() if r.dataset != item.row.dataset)
        gain = opinion_on("fedprox", rest, place_of(item.row)).expected_gain
        inside += gain.lower <= item.points <= gain.upper
        total += 1
    assert total >= 30
    assert inside / total >= 0.85  # nominal 0.95; measured 31 of 33


def test_studies_that_differ_in_seeds_alone_are_two_settings() -> None:
    rows = [
        *pairs("fedadam", {"A": 2.0}, seeds=3),
        *(replace(r, mean=r.mean + 9) for r in pairs("fedadam", {"A": 4.0}, seeds=5)),
    ]
    assert sorted(item.points for item in differences(tuple(rows))["fedadam"]) == [2.0, 4.0]


def test_a_shortlist_is_the_advice_fedavg_and_the_first_five_without_repetition() -> None:
    zero = Gain(mean=0.0, lower=0.0, upper=0.0)
    names = ("moon", "fedadam", "fedyogi", "fedavg", "scaffold", "fednova", "fedprox")
    found = SecondOpinion(
        algorithm="moon",
        expected_gain=zero,
        settings=1,
        verdict="cannot_tell",
        agrees=False,
        text="",
        candidates=tuple(Opinion(algorithm=name, expected_gain=zero, settings=1, datasets=2) for name in names),
    )
    assert shortlist(found, "fedprox") == ("fedprox", "fedavg", "moon", "fedadam", "fedyogi", "scaffold")
    assert shortlist(found, "moon") == ("moon", "fedavg", "fedadam", "fedyogi", "scaffold")

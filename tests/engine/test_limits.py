"""What a hyperparameter may be: one contract over all algorithms, and every refusal in words."""

import math

import pytest

from fedskew.engine.algorithms import ALGORITHMS, Algorithm
from fedskew.engine.algorithms.base import BELOW_ONE, POSITIVE, Range
from fedskew.engine.algorithms.limits import COMMON, check_hyper
from fedskew.engine.settings import Settings, changed_settings
from fedskew.profiles import FedskewError

FEDPROX, FEDNOVA = (next(a for a in ALGORITHMS if a.name == name) for name in ("fedprox", "fednova"))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
def test_every_hyperparameter_has_limits_that_its_default_and_its_grid_keep(algorithm: Algorithm) -> None:
    assert set(algorithm.limits) >= set(algorithm.hyper)
    for name, default in algorithm.hyper.items():
        limit = algorithm.limits[name]
        assert default in limit if isinstance(limit, tuple) else limit.holds(float(default)), name
    for entry in ({}, *algorithm.grid):
        check_hyper(algorithm, {**algorithm.hyper, **entry})


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
def test_no_number_of_any_algorithm_may_be_infinite_or_no_number(algorithm: Algorithm) -> None:
    for name in (*COMMON, *(name for name, value in algorithm.hyper.items() if not isinstance(value, str))):
        for value in (math.inf, -math.inf, math.nan):
            with pytest.raises(FedskewError, match="finite"):
                check_hyper(algorithm, {name: value})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mu": -5.0}, "fedprox.mu is -5.0; it must be 0 or more"),
        ({"lr": 0.0}, "fedprox.lr is 0.0; it must be above 0"),
        ({"momentum": 1.0}, "fedprox.momentum is 1.0; it must be 0 or more and below 1"),
        ({"mu": "much"}, "must be like 0.01"),
        ({"nu": 1.0}, "no hyperparameter 'nu'; there are: 'lr', 'momentum', 'mu'"),
    ],
)
def test_what_is_out_of_limits_is_named(change: dict[str, float | str], words: str) -> None:
    with pytest.raises(FedskewError, match=words):
        check_hyper(FEDPROX, change)


def test_an_unknown_form_is_refused_and_not_run_as_another() -> None:
    with pytest.raises(FedskewError, match=r"fednova.form is 'taw': did you mean 'tau'"):
        check_hyper(FEDNOVA, {"form": "taw"})
    check_hyper(FEDNOVA, {"form": "tau"})


def test_an_own_algorithm_without_limits_takes_any_finite_number() -> None:
    mine = Algorithm(name="mine", title="Mine", source="", link="", hyper={"warmth": 1.0})
    check_hyper(mine, {"warmth": -3.0})
    with pytest.raises(FedskewError, match="finite"):
        check_hyper(mine, {"warmth": math.inf})


def test_ranges_are_what_their_words_say() -> None:
    assert [Range(above=True).holds(x) for x in (-1, 0, 1)] == [False, False, True]
    assert [Range(low=1, below=2).holds(x) for x in (0.5, 1, 1.5, 2)] == [False, True, True, False]
    assert [str(one) for one in (POSITIVE, BELOW_ONE)] == ["above 0", "0 or more and below 1"]


@pytest.mark.parametrize("name", ["lr", "weight_decay"])
def test_an_infinite_rate_is_no_setting(name: str) -> None:
    with pytest.raises(FedskewError, match="out of range"):
        changed_settings(Settings(), {name: math.inf})

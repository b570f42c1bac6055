"""The five verdicts, in their order, each from hand-made comparisons."""

import itertools

import pytest

from fedskew.engine.records import Verdict
from fedskew.engine.statistics import Spread
from fedskew.engine.verdict import Entry, decide


def gap(mean: float, error: float, seeds: int = 10) -> Spread:
    return Spread(mean, error**2, 0.0, seeds, 1000)


def entry(name: str, status: str = "ok", mean: float | None = 0.8, *, eliminated: bool = False) -> Entry:
    return Entry(name, name.upper(), status, mean, eliminated)


def test_an_eliminated_candidate_leaves_nothing_open():
    surely = {"b": gap(-0.02, 0.002), "c": gap(-0.02, 0.01, seeds=5)}  # few seeds: its interval reaches the margin
    kept = decide([entry("a"), entry("b"), entry("c")], "a", surely)
    assert (kept.kind, "C against" in kept.text) == ("cannot_tell", True)
    gone = decide([entry("a"), entry("b"), entry("c", eliminated=True)], "a", surely)
    assert (gone.kind, gone.winner, gone.difference) == ("confirmed", "a", -0.02)
    assert "the nearest, B," in gone.text


def test_where_all_others_were_eliminated_the_recommended_one_is_confirmed():
    found = decide([entry("a"), entry("b", eliminated=True)], "a", {"b": gap(-0.02, 0.01, seeds=5)})
    assert (found.kind, found.winner) == ("confirmed", "a")
    assert "the nearest, B," in found.text


def test_an_eliminated_candidate_is_still_a_comparison():
    near = {"b": gap(-0.01, 0.006, seeds=10)}  # t = 2.5 against the margin: settled alone, not among eleven
    assert decide([entry("a"), entry("b")], "a", near).kind == "confirmed"
    many = {**near, **{f"x{i}": gap(-0.2, 0.001, seeds=5) for i in range(9)}}
    others = [entry(name, eliminated=name != "b") for name in many]
    assert decide([entry("a"), *others], "a", many).kind == "cannot_tell"


def test_all_failed_comes_first():
    found = decide([entry("a", "failed"), entry("b", "diverged", None)], "a", {"b": gap(0.5, 0.001)})
    assert (found.kind, found.winner) == ("all_failed", None)
    assert "1 diverged" in found.text


def test_another_that_is_surely_better_overturns():
    found = decide([entry("a"), entry("b"), entry("c")], "a", {"b": gap(0.02, 0.002), "c": gap(0.03, 0.002)})
    assert (found.kind, found.winner) == ("overturned", "c")
    assert found.difference == 0.03
    assert found.lower is not None
    assert found.lower > 0


def test_a_sure_difference_below_the_margin_does_not_overturn():
    found = decide([entry("a"), entry("b")], "a", {"b": gap(0.003, 0.0002)})
    assert found.kind == "no_difference"


def test_the_recommended_one_failing_alone_is_overturned():
    found = decide([entry("a", "diverged", None), entry("b", mean=0.7), entry("c", mean=0.9)], "a", {})
    assert (found.kind, found.winner) == ("overturned", "c")


def test_of_a_rival_below_the_best_constant_nobody_says_that_it_works():
    entries = [entry("a", "failed", 0.95), entry("b", mean=0.4)]
    assert "works" not in decide(entries, "a", {"b": gap(-0.55, 0.001)}, constant=0.95).text
    assert "B works here" in decide(entries, "a", {"b": gap(-0.55, 0.001)}, constant=0.3).text


def test_no_difference_names_the_cheapest():
    found = decide([entry("cheap"), entry("a")], "a", {"cheap": gap(0.0, 0.0005)})
    assert (found.kind, found.winner) == ("no_difference", "cheap")


def test_a_difference_that_rounds_to_zero_has_no_minus():
    assert "+0.0 points (-6.8 to +6.8)" in decide([entry("a"), entry("b")], "a", {"b": gap(-0.0001, 0.03)}).text


def test_confirmed_when_no_upper_bound_reaches_the_margin():
    found = decide([entry("a"), entry("b")], "a", {"b": gap(-0.05, 0.005)})
    assert (found.kind, found.winner) == ("confirmed", "a")


def test_cannot_tell_says_how_many_seeds_would_settle_it():
    found = decide([entry("a"), entry("b")], "a", {"b": gap(0.01, 0.01)})
    assert (found.kind, found.winner) == ("cannot_tell", None)
    assert found.settle is not None
    assert found.settle.endswith("seeds")


@pytest.mark.parametrize("mean", [-0.02, -0.004, 0.0, 0.004, 0.0049, 0.006, 0.02])
@pytest.mark.parametrize("variance", [0.004**2, 0.008**2, 0.03**2])  # of one seed
def test_the_seeds_that_would_settle_it_do_and_one_less_does_not(mean, variance):
    def at(seeds: int) -> Verdict:
        return decide([entry("a"), entry("b")], "a", {"b": Spread(mean, variance / seeds, 1e-8, seeds, 10_000)})

    told = at(3)
    if told.kind != "cannot_tell":
        return
    assert told.settle is not None
    if told.settle.endswith(" seeds"):
        needed = int(told.settle.split()[0])
        assert at(needed).kind != "cannot_tell"
        assert at(needed - 1).kind == "cannot_tell"
    else:
        assert at(200).kind == "cannot_tell"


@pytest.mark.parametrize(
    ("near", "wild"),
    [((0.004, 0.004), (-0.02, 0.03)), ((0.012, 0.02), (-0.02, 0.06)), ((0.006, 0.02), (0.02, 0.04))],
)
def test_the_seeds_that_would_settle_it_are_enough_for_every_rival(near, wild):
    """Mean and deviation of one seed; told of five seeds, and true of so many with the same means and deviations."""

    def at(seeds: int) -> Verdict:
        paired = {name: gap(mean, sd / seeds**0.5, seeds) for name, (mean, sd) in (("b", near), ("c", wild))}
        return decide([entry("a"), entry("b"), entry("c")], "a", paired)

    told = at(5).settle
    assert told is not None
    needed = int(told.split()[0])
    assert at(needed).kind != "cannot_tell"
    assert at(needed - 1).kind == "cannot_tell"


def test_of_one_seed_no_number_of_seeds_is_promised():
    found = decide([entry("a"), entry("b")], "a", {"b": Spread(0.01, 0.0, 1e-6, 1, 1000)})
    assert found.kind == "cannot_tell"
    assert found.settle is not None
    assert found.settle.startswith("two seeds or more")


def test_a_failed_rival_takes_no_part():
    found = decide([entry("a"), entry("b", "failed")], "a", {"b": gap(0.3, 0.001)})
    assert found.kind == "confirmed"


@pytest.mark.parametrize(
    ("mean", "error"), list(itertools.product([-0.1, -0.006, 0.0, 0.004, 0.006, 0.1], [0.0, 0.001, 0.01, 0.1]))
)
def test_exactly_one_verdict_and_it_obeys_its_definition(mean, error):
    found = decide([entry("a"), entry("b")], "a", {"b": gap(mean, error)})
    low, high = gap(mean, error).interval(0.95)
    if low > 0 and mean > 0.005:
        assert found.kind == "overturned"
    elif low >= -0.005 and high <= 0.005:
        assert found.kind == "no_difference"
    elif high < 0.005:
        assert found.kind == "confirmed"
    else:
        assert found.kind == "cannot_tell"

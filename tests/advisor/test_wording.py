"""Sentences about counts: one of a thing is no several, and nothing is below a zero."""

import msgspec
import pytest

from fedskew.advisor import recommend
from fedskew.advisor.data_checks import little_data, one_class
from fedskew.advisor.delivery import watching
from fedskew.advisor.second_opinion import Gain, _text
from fedskew.advisor.terminal_training import _against
from fedskew.advisor.wording import how_trained, run_length, sureness
from fedskew.engine import Estimate
from fedskew.engine.records import Comparison

from .made_records import hand_made_validation, hostile_or_plain  # noqa: TID252
from .test_checks import case_of  # noqa: TID252


def trained(**settings):
    made = hand_made_validation(hostile_or_plain(), "")
    return msgspec.structs.replace(made, settings={**made.settings, **settings})


def test_one_seed_one_round_and_one_epoch():
    found = trained(seeds=1, rounds=1, local_epochs=1)
    assert run_length(found) == "1 paired seed, 1 round of 1 local epoch"
    assert "1 paired seed, " in how_trained(found)


def test_what_an_old_record_does_not_say_breaks_no_sentence():
    assert run_length(trained(seeds=None, rounds=30)).startswith("None paired seeds, 30 rounds of ")


def sparse_opinion():
    """An opinion on the recommended algorithm that rests on one setting, with a gain that rounds to zero."""
    advice = recommend(hostile_or_plain())
    gain = Gain(mean=-0.04, lower=-3.0, upper=2.9)
    one = next(item for item in advice.second_opinion.candidates if item.algorithm != "fedavg")
    one = msgspec.structs.replace(one, expected_gain=gain, settings=1, datasets=1, own=1)
    opinion = msgspec.structs.replace(advice.second_opinion, candidates=(one,))
    return msgspec.structs.replace(advice, second_opinion=opinion), one


def test_one_setting_on_one_data_set():
    advice, one = sparse_opinion()
    assert "+0.0 points against FedAvg (-3.0 to +2.9), 1 setting on 1 data set." in sureness(advice)[1]
    text = _text("cannot_tell", one, "fedavg", agrees=False, known=True)
    assert "+0.0 points" in text
    assert "from 1 setting on 1 data set like yours, 1 of them a short run of our own" in text


def test_a_difference_that_rounds_to_zero_has_no_minus():
    found = hand_made_validation(hostile_or_plain(), "")
    candidate = found.candidates[0]
    nothing = Comparison(algorithm=candidate.algorithm, difference=-0.0001, lower=-0.0004, upper=0.0, p_value=1.0)
    assert _against(candidate, nothing, found.recommended) == "+0.0 (+0.0 to +0.0)"


ONE_SMALL, ONE_ALONE = [[200, 200]] * 4 + [[5, 5]], [[50, 50]] * 4 + [[50, 0]]


@pytest.mark.parametrize(
    ("check", "counts", "text"),
    [
        (little_data, ONE_SMALL, "1 of 5 parties holds less than one batch"),
        (little_data, ONE_SMALL[3:] + ONE_SMALL[4:], "2 of 3 parties hold less than one batch"),
        (one_class, ONE_ALONE, "1 of 5 parties holds a single class"),
    ],
)
def test_one_of_several_parties_holds(check, counts, text, profile_of):
    found = check(case_of(profile_of, (("label_dirichlet",), {"counts": counts}, {})))
    assert found is not None
    assert found.text.startswith(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "about 1 second,"), (60.4, "about 60 seconds,"), (600, "about 10 minutes,")]
)
def test_one_second_is_no_seconds(seconds, text, capsys):
    with watching(None, quiet=False) as watchers:
        announce = watchers["announce"]
        assert announce is not None
        announce(Estimate(lane_steps=9, seconds=seconds, bytes=0))
    assert text in capsys.readouterr().out

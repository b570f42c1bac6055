"""The terminal: the answer first, in the order of the page, in any width, without colour, and deaf to names."""

import io
import os
import subprocess
import sys

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from fedskew.advisor import Advice, recommend
from fedskew.advisor.terminal import show
from fedskew.advisor.wording import standing_out
from fedskew.engine.records import Ranking

from .made_records import PAYLOADS, hand_made_validation, hostile_or_plain  # noqa: TID252


def full(name="", parties=4):
    found = hostile_or_plain(name, parties=parties)
    return Advice(profile=found, recommendation=recommend(found), validation=hand_made_validation(found, name))


def printed(record, width=80, **how):
    stream = io.StringIO()
    show(Console(file=stream, width=width, highlight=False, **how), record)
    return stream.getvalue()


def test_the_answer_stands_first_in_the_order_of_the_page():
    lines = printed(full()).splitlines()
    starts = ["Verdict", "Advice", "Price", "How sure", "Skew", "skew ", "Why", "algorithm", "Checks"]
    places = [next(i for i, line in enumerate(lines) if line.startswith(start)) for start in starts]
    assert places[0] == 0
    assert places == sorted(places)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", ["", "a hospital with a very long name indeed "])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width, name):
    text = printed(full(name), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for number in ("0.300", "0.100", "0.020", "85.0", "80.0"):  # the skews and the two best scores
        assert f"{number} " in text


def test_a_narrow_terminal_keeps_every_note():
    text = " ".join(printed(full(), 40).split())
    assert "FedAdam: diverged at round 2." in text
    assert "FedNova: constant predictor." in text


@pytest.mark.parametrize("payload", [*PAYLOADS, "[red]x[/red]", "[/]", "\x1b]52;c;AAAA\x07"])
def test_no_name_sends_a_control_character_or_becomes_markup(payload):
    text = printed(full(payload), 200)
    assert all(c.isprintable() or c == "\n" for c in text)
    if payload.startswith("["):
        assert f"{payload}p00000" in text


def test_a_pipe_gets_no_escape_and_no_colour_means_no_colour():
    assert "\x1b" not in printed(full())
    coloured = printed(full(), force_terminal=True, color_system="truecolor", no_color=False)
    plain = printed(full(), force_terminal=True, color_system="truecolor", no_color=True)
    assert "\x1b[1;36m" in coloured
    assert "\x1b[1;36m" not in plain


def test_the_silos_that_stand_out_are_named():
    found = hostile_or_plain("ward ")
    largest = max(found.quantity.sizes, key=lambda name: found.quantity.sizes[name])
    label, feature, quantity = standing_out(found)
    assert label.endswith("ward p00000, ward p00001, ward p00002.")
    assert feature.endswith("ward p00003, ward p00002, ward p00001.")
    assert largest in quantity


def test_a_ranking_that_had_not_settled_is_said_beside_the_verdict():
    ran = hand_made_validation(hostile_or_plain())
    unsettled = Ranking(leader="scaffold", settled_at=4, stable=False, crossed=True, rising=("scaffold",))
    text = " ".join(printed(msgspec.structs.replace(ran, ranking=unsettled)).split())
    assert "Short runs mislead: SCAFFOLD leads only since round 4; still rising: SCAFFOLD." in text


def test_an_ascii_terminal_gets_escapes_instead_of_a_crash(tmp_path):
    (tmp_path / "a.json").write_text(recommend(hostile_or_plain("ü")).to_json())
    code = (
        "import sys; from fedskew.advisor.delivery import console; from fedskew.advisor.terminal import show;"
        "from fedskew.advisor import read_report;"
        "show(console(None), read_report(open(sys.argv[1], 'rb').read()).recommendation)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.json"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\\xfcp00000" in done.stdout

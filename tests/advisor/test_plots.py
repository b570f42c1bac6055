"""The pictures: safe with any name, legible with many, the same bytes every time, and their findings true."""

import re
import warnings
from typing import Any

import matplotlib as mpl
import msgspec
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from fedskew.advisor import plots as advised
from fedskew.advisor import recommend
from fedskew.advisor.plots import branches
from fedskew.advisor.tree import Step
from fedskew.engine import party_plots
from fedskew.engine import plots as validated
from fedskew.engine.reading import settled_round
from fedskew.profiles import drawing, feature_plots
from fedskew.profiles import plots as profiled

from .made_records import PAYLOADS, hand_made_validation, hostile_or_plain  # noqa: TID252


def all_figures(name="", **shape):
    found = hostile_or_plain(name, **shape)
    advice, ran = recommend(found), hand_made_validation(found, name)
    drawn = [profiled.skew_gauges, profiled.party_class_map, profiled.party_sizes]
    drawn += [feature_plots.feature_by_party, feature_plots.feature_by_column]
    made = {f.__name__: f(found) for f in drawn}
    made |= {f.__name__: f(advice) for f in (advised.decision_tree, advised.expected_gains)}
    shown = [validated.leaderboard, validated.learning_curves]
    shown += [party_plots.party_spread, party_plots.cost_against_accuracy]
    return made | {f.__name__: f(ran) for f in shown}


def texts(figure):
    """All texts with their boxes in inches, as laid out."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            yield text.get_text(), text.get_window_extent(renderer)


def test_every_picture_states_its_finding():
    for name, figure in all_figures().items():
        label = figure.get_label()
        assert label.endswith("."), name
        assert re.search(r"\d|FedAvg|SCAFFOLD|FedProx", label), name


@pytest.mark.parametrize("shape", [(4, 3), (60, 25), (61, 26), (2, 1)], ids=str)
def test_no_text_leaves_its_picture_and_no_two_names_overlap(shape):
    parties, classes = shape
    figures = all_figures("a hospital with a long name ", parties=parties, classes=classes, columns=40)
    for name, figure in figures.items():
        width, height = figure.bbox.width, figure.bbox.height
        boxes = list(texts(figure))
        for text, box in boxes:
            assert box.x0 > -2, (name, text)
            assert box.x1 < width + 2, (name, text)
            assert box.y0 > -2, (name, text)
            assert box.y1 < height + 2, (name, text)
        named = [(text, box) for text, box in boxes if text.startswith("a hospital")]
        for i, (text, box) in enumerate(named):
            for other, rival in named[:i]:
                apart = (
                    box.y1 <= rival.y0 + 2 or rival.y1 <= box.y0 + 2 or box.x1 <= rival.x0 + 2 or rival.x1 <= box.x0 + 2
                )
                assert apart, (name, text, other)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_any_name_can_be_drawn_and_stays_text(payload):
    found = hostile_or_plain(payload)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = drawing.svg(feature_plots.feature_by_party(found), "p")
    assert "<script" not in made
    assert "\x00" not in made
    assert "\x1b" not in made
    assert made.count("<svg") == 1


def test_the_same_picture_gives_the_same_bytes():
    first, second = ({name: drawing.svg(f, "p") for name, f in all_figures().items()} for _ in range(2))
    assert first == second


def test_two_pictures_on_a_page_share_no_id():
    figure = validated.learning_curves(hand_made_validation(hostile_or_plain()))
    ids = [set(re.findall(r' id="([^"]+)"', drawing.svg(figure, prefix))) for prefix in ("a", "b")]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_every_reference_in_a_picture_finds_its_id():
    for figure in all_figures().values():
        made = drawing.svg(figure, "p")
        wanted = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', made))
        assert {a or b for a, b in wanted} <= set(re.findall(r' id="([^"]+)"', made))


def test_a_themed_picture_holds_no_fixed_colour_of_the_palette():
    for name, figure in all_figures().items():
        made = drawing.svg(figure, "p", themed=True)
        assert "var(--ink)" in made, name
        assert not [colour for colour in drawing.THEME if f":{colour}" in made], name


def test_drawing_leaves_the_users_settings_alone():
    before = dict(mpl.rcParams)
    drawing.svg(profiled.overview(hostile_or_plain()), "p")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("record", ["profile", "recommendation", "validation"])
def test_each_record_plots_itself_and_shows_itself_in_a_notebook(record):
    found = hostile_or_plain("<b>$x$")
    made: dict[str, Any] = {
        "profile": found,
        "recommendation": recommend(found),
        "validation": hand_made_validation(found, "<b>"),
    }
    figure, html = made[record].plot(), made[record]._repr_html_()
    assert figure.get_label()
    assert html.count("<svg") == 1
    assert "<b>$x$" not in html
    assert html.startswith("<div><p><b>")


def test_the_map_finding_counts_empty_cells_and_parties_of_one_class():
    found = hostile_or_plain(parties=3, classes=3)
    table = ((5, 0, 0), (1, 2, 3), (0, 4, 4))
    text = profiled.map_finding(msgspec.structs.replace(found, counts=table))
    assert "3 of 9 cells are empty" in text
    assert "1 party holds a single class" in text


def test_many_parties_become_one_image_and_rare_classes_one_column():
    figure = profiled.party_class_map(hostile_or_plain(parties=200, classes=40))
    image = np.asarray(figure.axes[0].images[0].get_array())
    assert image.shape == (200, 25)
    assert np.allclose(image.sum(axis=1), 1)
    assert "16 others" in [text for text, _ in texts(figure)]


def test_the_lead_is_settled_where_it_last_changed_hands():
    ran = hand_made_validation(hostile_or_plain())
    curves = {"fedavg": (0.5, 0.6, 0.7, 0.7), "scaffold": (0.4, 0.7, 0.65, 0.8)}  # leads: fedavg, scaffold, fedavg, s.
    chosen = tuple(
        msgspec.structs.replace(one, accuracy=msgspec.structs.replace(one.accuracy, curve=(curves[one.algorithm],)))
        for one in ran.candidates
        if one.algorithm in curves
    )
    assert settled_round(msgspec.structs.replace(ran, candidates=chosen)) == 4
    assert settled_round(msgspec.structs.replace(ran, candidates=chosen[:1])) is None


def test_the_lit_path_ends_at_the_recommended_algorithm():
    advice = recommend(hostile_or_plain())
    lit = [line for line in branches(advice.path) if line.lit]
    assert lit[0].text == advice.path[0].question
    assert lit[-1].result.lower() == advice.algorithm


def test_a_path_that_the_tree_does_not_know_is_shown_as_it_is():
    steps = (Step(question="Is it raining?", answer="yes"),)
    assert [(line.text, line.lit) for line in branches(steps)] == [("Is it raining? yes", True)]

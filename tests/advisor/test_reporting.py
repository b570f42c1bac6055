"""The report: complete, the same bytes every time, and deaf to hostile names."""

import csv
import hashlib
import io
import json
import subprocess
import sys
import time
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest
from rich.console import Console

import fedskew
from fedskew.advisor import Advice, recommend
from fedskew.advisor.formats import guarded, latex_escaped
from fedskew.advisor.reporting import Report, read_report, report
from fedskew.advisor.terminal import show
from fedskew.engine.records import Reference
from fedskew.profiles import FedskewError, make_partition

from .made_records import PAYLOADS, full_report, hand_made_validation, hostile_or_plain  # noqa: TID252

DRAWN = {"svg", "g", "defs", "path", "use", "rect", "clippath", "text", "tspan", "image"}
HOW_DRAWN = {"xmlns", "viewbox", "role", "aria-label", "style", "id", "d", "x", "y", "width", "height", "transform"}
HOW_DRAWN |= {"clip-path", "href"}


class Skeleton(HTMLParser):
    """Tags with the names of their attributes: what a name must never change. Pictures may differ in geometry only."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.drawing = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        names = tuple(name for name, _ in attrs)
        self.drawing |= tag == "svg"
        if self.drawing:
            assert tag in DRAWN
            assert set(names) <= HOW_DRAWN
        if not self.drawing or tag == "svg":
            self.tags.append((tag, names))
        self.links += [value for name, value in attrs if name in {"href", "src", "action", "data"} and value]

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag):
        self.drawing &= tag != "svg"


@pytest.fixture(scope="module")
def plain():
    return Skeleton(full_report("").to_html())


@pytest.mark.slow
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_hostile_name_in_every_slot_changes_no_tag(payload, plain):
    page = Skeleton(full_report(payload).to_html())
    assert page.tags == plain.tags
    assert all(link.startswith(("#", "data:", "https://arxiv.org/", "https://doi.org/")) for link in page.links)


def test_all_hostile_names_together_change_no_tag(plain):
    page = Skeleton(full_report("".join(PAYLOADS)).to_html())
    assert page.tags == plain.tags
    assert all(link.startswith(("#", "data:", "https://arxiv.org/", "https://doi.org/")) for link in page.links)


def test_forty_payloads_are_tried():
    assert len(PAYLOADS) >= 40


def test_the_page_holds_no_script_and_a_strict_policy():
    page = full_report("<script>").to_html()
    assert "<script" not in page
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert page.index("Cannot tell") < page.index("In short") < page.index("How skewed the silos are")


def test_a_validation_in_which_all_diverged_is_shown():
    found = hostile_or_plain()
    made = hand_made_validation(found)
    lost = next(one for one in made.candidates if one.status == "diverged")
    names = (one.algorithm for one in made.candidates)
    everyone = tuple(msgspec.structs.replace(lost, algorithm=name) for name in names)
    parties = dict.fromkeys(found.party_names)
    line = Reference(accuracy=lost.accuracy, balanced_accuracy=lost.balanced_accuracy, by_party=parties)
    lines = msgspec.structs.replace(made.references, centralised=line, local_only=line)
    lost_all = msgspec.structs.replace(made, candidates=everyone, references=lines)
    advice = recommend(found)
    assert "diverged at round 2" in report(advice, lost_all).to_html()
    stream = io.StringIO()
    show(Console(file=stream, width=120), Advice(profile=found, recommendation=advice, validation=lost_all))
    assert stream.getvalue().count("diverged at round 2") == len(everyone)


def test_a_link_in_a_record_that_leads_elsewhere_is_shown_as_text():
    found = recommend(hostile_or_plain())
    evil = msgspec.structs.replace(found.citations[0], link="javascript:alert(1)")
    page = report(msgspec.structs.replace(found, citations=(evil,))).to_html()
    assert "javascript:alert(1)" in page
    assert 'href="javascript' not in page


def test_the_same_records_give_the_same_bytes_in_another_process(tmp_path):
    made = full_report("ü<b>")
    (tmp_path / "r.json").write_text(made.to_json())
    code = (
        "import sys, hashlib; from fedskew.advisor.reporting import read_report;"
        "page = read_report(open(sys.argv[1], 'rb').read()).to_html();"
        "print(hashlib.sha256(page.encode()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "r.json"],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {hashlib.sha256(made.to_html().encode()).hexdigest() + "\n"}


@pytest.mark.parametrize(("parties", "classes", "most"), [(1000, 10, 400_000), (500, 200, 2_000_000)])
def test_many_parties_and_classes_stay_within_the_budget(parties, classes, most):
    made = full_report("hospital ", parties=parties, classes=classes)
    start = time.process_time()
    page = made.to_html()
    assert time.process_time() - start <= 5
    assert len(page.encode()) <= most
    assert f"hospital p{parties - 1:05d}" in page


def test_a_table_beyond_any_page_says_what_it_left_out():
    found = hostile_or_plain(parties=10_000, classes=10)
    page = report(found).to_html()
    assert len(page.encode()) <= 2_000_000
    assert "of 10,000 rows; the JSON and CSV files hold all of them" in page


def test_every_picture_names_a_table_that_is_on_the_page():
    page = full_report("n").to_html()
    links = {link for link in Skeleton(page).links if link.startswith("#t-")}
    assert links
    assert all(f'id="{link[1:]}"' in page for link in links)


def test_each_kind_of_record_alone_makes_a_page():
    found = hostile_or_plain()
    assert "Mixed skew" in report(found).to_html()
    assert recommend(found).sentence.split(":")[0] in report(recommend(found)).to_html()
    assert "Cannot tell" in report(hand_made_validation(found)).to_html()


def test_nothing_to_show_is_an_error():
    with pytest.raises(FedskewError, match="needs a profile"):
        report()
    with pytest.raises(FedskewError, match="cannot show a str"):
        report("text")  # type: ignore[arg-type]


def test_json_is_read_back_to_the_same_report():
    made = full_report("x")
    again = read_report(made.to_json())
    assert again.to_json() == made.to_json()
    assert again.to_html() == made.to_html()


def test_each_written_record_is_read_by_its_schema():
    found = hostile_or_plain()
    assert read_report(found.to_json()) == Report(profile=found)
    advice = recommend(found)
    assert read_report(advice.to_json()) == Report(recommendation=advice)
    assert json.loads(read_report(advice.to_json()).to_json())["profile"]["parties"] == 4


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other/1"}', '{"profile": 3}', '{"a": 1}'])
def test_foreign_json_is_refused_in_one_line(text):
    with pytest.raises(FedskewError) as caught:
        read_report(text)
    assert "\n" not in str(caught.value)


def test_csv_keeps_numbers_raw_and_disarms_formulas():
    rows = list(csv.reader(io.StringIO(full_report("=cmd|'/c calc'!A0 ").to_csv("parties"))))
    assert len(rows) == 5
    assert rows[1][0].startswith("'=cmd")
    assert float(rows[1][2]) == 0.5
    shifts = list(csv.reader(io.StringIO(full_report().to_csv("columns"))))
    assert [row[2] for row in shifts[1:]] == ["-0.01", "-0.01"]


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe(first):
    assert guarded(first + "1") == "'" + first + "1"


@pytest.mark.parametrize("number", [-1.5, -3, 0, 2.0])
def test_a_number_stays_a_number(number):
    assert guarded(number) is number


def test_an_unknown_table_is_named_with_those_that_exist():
    with pytest.raises(FedskewError, match="did you mean 'parties'"):
        full_report().to_csv("partys")


def test_latex_bolds_the_best_and_prints_the_spread_over_seeds():
    text = full_report().to_latex()
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[4].startswith(r"SCAFFOLD & $\mathbf{85.0} \pm 1.0$")  # seeds 84, 85, 86: standard deviation 1
    assert text.count(r"\mathbf{85.0}") == 3  # accuracy, balanced accuracy, macro-F1
    assert "FedAdam & -- & -- & --" in text


def test_latex_escapes_every_special_character():
    assert latex_escaped(r"\&%$#_{}~^") == (r"\textbackslash{}\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}")


def test_markdown_keeps_one_row_a_line_whatever_the_names():
    text = full_report("a|b\n`<i>` ").to_markdown()
    assert "<i>" not in text.replace(r"\<i\>", "")
    table = [line for line in text.splitlines() if line.startswith("| a")]
    widths = {len(line.replace(r"\|", "").split("|")) for line in table if "p0000" in line and line.count("|") > 8}
    assert widths
    assert len({len(line.replace(r"\|", "").split("|")) for line in table if "p00003" in line}) <= 3


def test_a_real_run_makes_a_page():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(120, 3))
    toy = make_partition(x, np.where(x[:, 0] > 0, "yes", "no"), np.repeat(["a", "b", "c"], 40))
    found = fedskew.profile(toy)
    ran = fedskew.validate(toy, ["fedavg", "scaffold"], rounds=2, seeds=2, model="linear", jobs=1)
    made = report(found, recommend(found), ran)
    assert ran.verdict.text in made.to_markdown().replace("\\", "")
    assert made.to_html().count("<svg") >= 8
    assert "accuracy" in made.tables()

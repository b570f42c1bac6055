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

import fedskew
from fedskew.advisor import recommend
from fedskew.advisor.formats import guarded, latex_escaped
from fedskew.advisor.reporting import Report, read_report, report
from fedskew.engine.records import Candidate, PartyScore, Reference, References, Score, Validation, Verdict
from fedskew.profiles import FedskewError, make_partition
from fedskew.profiles.partitions import Finding
from fedskew.profiles.records import (
    ClassesPerParty,
    ConceptSkew,
    Deviant,
    EntropyBits,
    Estimate,
    FeatureShift,
    FeatureSkew,
    LabelSkew,
    Prevailing,
    Profile,
    QuantitySkew,
)

PAYLOADS = [
    "<script>document.title='PWNED'</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "</text><script>alert(1)</script>",
    "</svg><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</details></section></main><h1>Mine</h1>",
    "</table><table><tr><td>",
    "<!--",
    "--><script>alert(1)</script><!--",
    "<![CDATA[<script>alert(1)</script>]]>",
    "]]><script>alert(1)</script>",
    "<iframe src=https://example.org></iframe>",
    "<object data=https://example.org></object>",
    "<link rel=stylesheet href=https://example.org/x.css>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    "<base href=https://example.org>",
    "<form action=https://example.org><input name=a autofocus onfocus=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<style>@import url(https://example.org)</style>",
    "x' onmouseover='alert(1)",
    'x" onmouseover="alert(1)',
    "x` onmouseover=`alert(1)",
    "{{ 7 * 7 }}",
    "{% for x in range(9) %}x{% endfor %}",
    "{{ ''.__class__.__mro__ }}",
    "$$",
    "$x^2$",
    r"$\frac{1}{0}$",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "url(#p0-0)",
    "\x00<script>alert(1)</script>",
    "\x1b]52;c;AAAA\x07",
    "\u202e<tpircs>",
    "\ud800<script>",
    "_nothing",
    "東京<b>大学</b>",
]


def hostile_or_plain(name: str = "", parties: int = 4, classes: int = 3, columns: int = 2) -> Profile:
    """A profile whose every name slot holds ``name`` with a number behind it."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 30, (parties, classes))
    names = tuple(f"{name}p{i:05d}" for i in range(parties))
    sizes = dict(zip(names, counts.sum(axis=1).tolist(), strict=True))
    each = dict.fromkeys(names, 0.5)
    return Profile(
        parties=parties,
        rows=int(counts.sum()),
        classes=classes,
        features=columns,
        party_names=names,
        class_names=tuple(f"{name}c{i}" for i in range(classes)),
        modality="tabular",
        task="classification",
        label=LabelSkew(
            skew=0.3,
            p_value=0.0001,
            severity="strong",
            interval=(0.28, 0.32),
            entropy_bits=EntropyBits(pooled=1.5, by_party=dict(each)),
            beta=Estimate(estimate=0.5, lower=0.3, upper=None, reading="counts"),
            alpha=Estimate(reason="needs_rows"),
            classes_per_party=ClassesPerParty(),
            capped=False,
            missing_classes=dict.fromkeys(names, 1),
            effective_classes=dict(each),
            divergence=dict(each),
            most_deviant=tuple(Deviant(party=party, divergence=0.5) for party in names[:5]),
        ),
        quantity=QuantitySkew(
            skew=0.1,
            gini=0.2,
            severity="mild",
            p_value=0.3,
            effective_parties=3.5,
            max_min_ratio=2.0,
            beta=Estimate(),
            largest_share=0.3,
            sizes=sizes,
            interval=(0.08, 0.12),
        ),
        feature=FeatureSkew(
            skew=0.02,
            p_value=0.001,
            severity="mild",
            by_feature=tuple(
                FeatureShift(name=f"{name}x{i}", mean_share=0.1 / (i + 1), spread_share=-0.01, wasserstein=None)
                for i in range(columns)
            ),
            by_party={party: 0.01 * i for i, party in enumerate(names)},
        ),
        concept=ConceptSkew(skew=None, p_value=None, severity="none", reason="no_overlap"),
        prevailing=Prevailing(
            kind="mixed", components=("label_dirichlet", "feature"), confidence=0.9, runner_up="label_dirichlet"
        ),
        hygiene=(Finding(code="missing_values", severity="mild", text=f"{name} is odd", parties=(names[0],), count=3),),
        counts=tuple(tuple(row) for row in counts.tolist()),
    )


def score(mean: float, seeds: int = 3, rounds: int = 4) -> Score:
    by_seed = tuple(mean + 0.01 * (i - 1) for i in range(seeds))
    curve = tuple(tuple(value - 0.1 + 0.1 * r / rounds for r in range(1, rounds + 1)) for value in by_seed)
    return Score(mean=mean, lower=mean - 0.02, upper=mean + 0.02, by_seed=by_seed, curve=curve)


def hand_made_validation(profile: Profile, name: str = "") -> Validation:
    """Five candidates, one of them diverged and one failed, with hostile texts where texts may stand."""
    parties = {party: 0.5 + 0.4 * (i % 7) / 7 for i, party in enumerate(profile.party_names)}
    means = {"fedavg": 0.80, "scaffold": 0.85, "fednova": 0.2, "fedadam": None, f"{name}mine": 0.79}
    candidates = tuple(
        Candidate(
            algorithm=algorithm,
            status="diverged" if mean is None else "failed" if mean < 0.3 else "ok",
            hyperparameters={f"{name}lr": 0.1, "form": name},
            accuracy=Score(mean=None, lower=None, upper=None) if mean is None else score(mean),
            balanced_accuracy=Score(mean=mean, lower=None, upper=None),
            macro_f1=mean,
            lift=None if mean is None else mean - 0.3,
            worst_party=None if mean is None else PartyScore(party=profile.party_names[0], accuracy=0.5),
            spread=0.1,
            by_party={} if mean is None else parties,
            loss=1.0,
            seconds=1.5,
            bytes_per_party=1_000_000 * (1 + (algorithm == "scaffold")),
            best_round=3,
            trend="rising",
            diverged_at=2 if mean is None else None,
        )
        for algorithm, mean in means.items()
    )
    line = Reference(accuracy=score(0.3), balanced_accuracy=score(0.3), by_party=parties)
    return Validation(
        candidates=candidates,
        references=References(majority=line, centralised=line),
        recommended="fedavg",
        comparisons=(),
        verdict=Verdict(
            kind="cannot_tell", winner=None, difference=0.05, lower=-0.01, upper=0.1, text=f"Cannot tell. {name}"
        ),
        settings={"seeds": 3, "rounds": 4, "local_epochs": 2, f"{name}model": name or "mlp", "train_rows": 100},
    )


def full_report(name: str = "", **shape: int) -> Report:
    found = hostile_or_plain(name, **shape)
    return report(recommend(found), hand_made_validation(found, name))


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
        f"print(hashlib.sha256(read_report(open({str(tmp_path / 'r.json')!r}, 'rb').read()).to_html().encode()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
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

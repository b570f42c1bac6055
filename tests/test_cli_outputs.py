"""No command writes over what it reads, and a file that is given to the wrong command is named for what it is."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedskew.advisor.arguments import training_options
from fedskew.cli import _explain, app


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Two silos, their table, and one file of each kind that fedskew writes of them."""
    place: Path = tmp_path_factory.mktemp("made")
    (place / "silos").mkdir()
    rows = [f"{i % 7},{i % 5},{'yn'[i % 3 == 0]}" for i in range(60)]
    for name, part in (("north", rows[:30]), ("south", rows[30:])):
        (place / "silos" / f"{name}.csv").write_text("\n".join(["age,dose,sick", *part]) + "\n")
    table = [f"{row},{'ab'[i % 2]}" for i, row in enumerate(rows)]
    (place / "table.csv").write_text("\n".join(["age,dose,sick,site", *table]) + "\n")
    run("sketch", place / "silos", "--label", "sick", "--out", place / "sketch.json")
    run("plan", place / "sketch.json", "--out", place / "plan.json")
    run("profile", place / "silos", "--label", "sick", "--json", place / "profile.json", "--quiet")
    run("recommend", place / "profile.json", "--json", place / "advice.json", "--quiet")
    run("partition", place / "table.csv", "--label", "sick", "--drop", "site", "--out", place / "index.json")
    return place


OVERWRITES = {
    "sketch": ("sketch", "silos/north.csv", "--label", "sick", "--out", "silos/north.csv"),
    "sketch of a folder": ("sketch", "silos", "--label", "sick", "--out", "silos/north.csv"),
    "sketch and its plan": ("sketch", "silos", "--label", "sick", "--plan", "plan.json", "--out", "plan.json"),
    "profile": ("profile", "silos", "--label", "sick", "--json", "silos/north.csv"),
    "profile of sketches": ("profile", "sketch.json", "--html", "sketch.json"),
    "profile and its test": ("profile", "silos", "--label", "sick", "--test", "table.csv", "--html", "table.csv"),
    "data of an index": ("profile", "index.json", "--json", "table.csv"),
    "recommend": ("recommend", "profile.json", "--json", "profile.json"),
    "advise": ("advise", "silos", "--label", "sick", "--no-validate", "--json", "silos/south.csv"),
    "look-alike": ("validate", "--like", "profile.json", "--on", "table.csv", "--label", "sick", "--json", "table.csv"),
    "partition": ("partition", "index.json", "--out", "index.json"),
    "summary": ("partition", "table.csv", "--label", "sick", "--out", "i.json", "--json", "table.csv"),
    "plan": ("plan", "sketch.json", "--out", "sketch.json"),
    "report": ("report", "advice.json", "--html", "advice.json"),
}


@pytest.mark.parametrize("words", OVERWRITES.values(), ids=OVERWRITES.keys())
def test_an_output_never_takes_the_place_of_an_input(words, made, refused, monkeypatch):
    monkeypatch.chdir(made)
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    assert "would be overwritten" in refused(*words)
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before


def test_json_and_page_cannot_be_one_file(made, refused, tmp_path):
    words = ("profile", made / "silos", "--label", "sick", "--json", tmp_path / "x", "--html", tmp_path / "x")
    assert refused(*words).startswith("--html and --json are both")


WRONG = {
    "report of a sketch": (("report", "sketch.json"), "sketch.json: is a sketch file; fedskew profile"),
    "report of a plan": (("report", "plan.json"), "plan.json: is a plan for sketches; fedskew sketch takes it"),
    "report of a table": (("report", "table.csv"), "table.csv: no report can be read"),
    "recommend of a plan": (("recommend", "plan.json"), "plan.json: is a plan for sketches"),
    "profile of a profile": (("profile", "profile.json"), "profile.json: is a profile and holds no rows"),
    "recommend of two": (
        ("recommend", "profile.json", "profile.json", "--label", "sick", "--party", "site"),
        "profile.json: is a profile and holds no rows; fedskew recommend and report take one alone, fedskew validate t",
    ),
    "plan of a table": (("plan", "silos/north.csv", "--out", "q.json"), "silos/north.csv: is no sketch file"),
    "validate of sketches": (("validate", "sketch.json"), "sketches hold no rows to train on; give the rows"),
    "validate of many": (("validate", "sketch.json", "sketch.json"), "sketches hold no rows to train on"),
    "partition of a sketch": (("partition", "sketch.json", "--out", "q.json"), "sketch.json: is a sketch file"),
    "profile of advice": (("profile", "advice.json"), "advice.json: is a recommendation"),
}


@pytest.mark.parametrize(("words", "hint"), WRONG.values(), ids=WRONG.keys())
def test_a_file_of_the_wrong_kind_is_named_with_the_command_that_takes_it(words, hint, made, refused, monkeypatch):
    monkeypatch.chdir(made)
    assert refused(*words).startswith(hint)


@pytest.mark.parametrize("option", [("--drop", "age"), ("--features", "dose")])
def test_a_column_that_the_plan_asks_for_cannot_be_left_out(option, made, refused, tmp_path):
    words = ("--label", "sick", "--plan", made / "plan.json", "--out", tmp_path / "s.json", *option)
    line = refused("sketch", made / "silos" / "north.csv", *words)
    assert f"the plan asks for column 'age', and {option[0]} leaves it out" in line
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(("command", "takes"), [("profile", True), ("validate", False), ("partition", False)])
def test_help_offers_sketches_where_they_are_taken(command, takes):
    assert ("sketch" in run(command, "--help")) == takes


def test_a_profile_takes_no_options_about_data(made, refused):
    assert "leave out --drop" in refused("recommend", made / "profile.json", "--drop", "age")


@pytest.mark.parametrize("command", ["profile", "recommend"])
def test_a_sketch_takes_no_options_about_data(command, made, refused):
    line = refused(command, made / "sketch.json", "--drop", "age")
    assert line == f"{made / 'sketch.json'} is a sketch, in which label and columns are settled; leave out --drop"


def test_a_run_folder_never_lies_among_the_data(made, refused):
    for place in ("", "run", "run/of/today"):
        line = refused("validate", made / "silos", "--label", "sick", "--run", made / "silos" / place)
        assert line.endswith(f"lies in {made / 'silos'}, which is read as data; choose another folder")
    assert sorted(path.name for path in (made / "silos").iterdir()) == ["north.csv", "south.csv"]


def test_the_list_of_strategies_is_no_json(refused):
    assert "leave out --json" in refused("partition", "--list", "--json", "-")


def test_a_table_of_columns_holds_no_images(made, refused, tmp_path):
    for words in (("profile", made / "silos"), ("sketch", made / "silos", "--out", tmp_path / "s.json")):
        line = refused(*words, "--label", "sick", "--modality", "image")
        assert "--modality is 'image', but this is a table" in line


@pytest.mark.parametrize("option", ["--rounds", "--local-epochs", "--batch-size", "--max-rows", "--seeds", "--jobs"])
def test_a_count_of_zero_is_refused_by_name(option, made, refused):
    line = refused("validate", made / "silos", "--label", "sick", option, "0")
    assert line == f"{option} is 0; it must be 1 or more"


@pytest.mark.parametrize("option", [("--label", "foo"), ("--party", "bar"), ("--drop", "x"), ("--test", "t.csv")])
def test_the_demo_brings_its_own_data(option, refused):
    assert refused("advise", "--demo", *option) == f"--demo brings its own data; leave out {option[0]}"


NONE = dict.fromkeys(("rounds", "seeds", "local_epochs", "batch_size", "lr", "participation", "model", "max_rows"))
NONE |= dict.fromkeys(("jobs", "seed", "preset", "algorithms", "run", "set_", "source", "label"))
NONE |= {"no_references": False, "no_tuning": False, "force_resume": False, "demo": True}


@pytest.mark.parametrize(
    ("given", "algorithms", "rounds"),
    [
        ({}, 4, 20),
        ({"algorithms": "all"}, None, None),
        ({"preset": "standard"}, 4, None),
        ({"rounds": 3}, 4, 3),
        ({"algorithms": "fedavg"}, 1, None),
    ],
)
def test_what_the_demo_is_told_wins_over_what_it_would_do(given, algorithms, rounds):
    found = training_options({**NONE, **given})
    assert (found["algorithms"] and len(found["algorithms"]), found.get("rounds")) == (algorithms, rounds)


def test_rows_without_a_party_are_not_counted_as_sketched(tmp_path):
    rows = [f"{i % 7},{'yn'[i % 2]},{'' if i % 5 == 0 else 'ab'[i % 3 == 0]}" for i in range(50)]
    (tmp_path / "t.csv").write_text("\n".join(["age,sick,site", *rows]) + "\n")
    words = ("--label", "sick", "--party", "site", "--out", tmp_path / "s.json")
    assert "sketches of 2 parties, 40 rows (" in run("sketch", tmp_path / "t.csv", *words)


def test_one_party_is_no_parties(made, tmp_path):
    told = run("sketch", made / "silos" / "north.csv", "--label", "sick", "--out", tmp_path / "s.json")
    assert told.startswith("sketches of 1 party, 30 rows (")


@pytest.mark.parametrize("words", [(), ("export",)])
def test_a_command_without_arguments_shows_its_help(words, capsys):
    with pytest.raises(Exception) as error:
        app([*words], standalone_mode=False)
    assert _explain(error.value) == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("Usage: ")
    assert "Commands:" in shown


def test_a_feature_that_an_index_leaves_out_is_refused(made, refused):
    line = refused("profile", made / "index.json", "--features", "age,site")
    assert line.startswith(f"column 'site' is both in --features and in what {made / 'index.json'} leaves out; take it")


def test_a_drop_is_added_to_the_one_an_index_records(made, tmp_path):
    run("profile", made / "index.json", "--drop", "age", "--json", tmp_path / "p.json", "--quiet")
    measured = json.loads((tmp_path / "p.json").read_text())["feature"]["by_feature"]
    assert [feature["name"] for feature in measured] == ["dose"]

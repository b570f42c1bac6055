"""The commands `sketch` and `plan`, and sketch files as SOURCE."""

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fedskew.cli import app
from fedskew.profiles.sketching.file import read_sketches

EXAMPLE = Path(__file__).resolve().parents[1] / "docs" / "examples" / "silos.py"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("silos_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path):
    example().write_silos(tmp_path)
    return tmp_path


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], standalone_mode=False)


def assert_alike(one: Any, other: Any, path: str = "") -> None:
    assert type(one) is type(other), path
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            assert_alike(one[key], other[key], f"{path}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for place, pair in enumerate(zip(one, other, strict=True)):
            assert_alike(*pair, path=f"{path}/{place}")
    elif isinstance(one, float):
        assert math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9), path
    else:
        assert one == other, path


@pytest.mark.slow
def test_five_silos_and_one_that_sees_only_sketches_print_the_profile_of_the_pooled_table(tmp_path):
    silos = example()
    silos.write_silos(tmp_path)
    sums, rows = json.loads(silos.profile_of_sketches(tmp_path)), json.loads(silos.profile_of_rows(tmp_path))
    for key in ("label", "quantity", "feature", "counts", "party_names", "class_names", "modality", "measures"):
        assert_alike(rows[key], sums[key], key)
    assert sums["feature"]["skew"] is not None
    assert sums["concept"]["reason"] == "needs_rows"
    assert sums["prevailing"]["components"] == [c for c in rows["prevailing"]["components"] if c != "concept"]


def test_a_column_that_silos_lack_counts_as_missing_there_in_sketches_and_in_rows_alike(folder, tmp_path):
    short = folder / "north.csv"
    short.write_text(
        "\n".join(line.rsplit(",", 2)[0] + "," + line.rsplit(",", 1)[1] for line in short.read_text().split())
    )
    files, plan = sorted(folder.glob("*.csv")), tmp_path / "plan.json"
    rows = json.loads(run("profile", *files, "--label", "sick", "--json", "-").stdout)
    assert run("sketch", *files, "--label", "sick", "--out", tmp_path / "first.json").exception is None
    assert run("plan", tmp_path / "first.json", "--out", plan).exception is None
    done = run("sketch", *files, "--label", "sick", "--plan", plan, "--out", tmp_path / "second.json")
    assert done.exception is None
    sums = json.loads(run("profile", tmp_path / "second.json", "--json", "-").stdout)
    for key in ("label", "quantity", "feature"):
        assert_alike(rows[key], sums[key], key)
    first = json.loads(run("profile", tmp_path / "first.json", "--json", "-").stdout)
    told = [[f for f in found["hygiene"] if f["code"] == "schema_mismatch"] for found in (rows, first, sums)]
    assert told[0] == told[1] == told[2]
    assert told[0][0]["parties"] == ["north"]
    skewed = [f["parties"] for f in sums["hygiene"] if f["code"] == "missingness_skew"]
    assert skewed == [["north"]]


@pytest.mark.parametrize("north", ["x,age,dose,date,", "x,age,dose,", "x,age,", "x,date,", ""])
def test_rows_and_both_rounds_tell_alike_what_a_silo_lacks_and_what_is_blank(north, tmp_path):
    for name, header in (("south", "x,age,dose,date,"), ("west", "x,age,dose,date,"), ("north", north)):
        cells = {"x": "{0}.5", "age": "{1}", "dose": "" if name == "north" else "{2}", "date": "2020-01-0{3}"}
        line = "".join(cells[column] + "," for column in header.split(",")[:-1])
        lines = [f"{line.format(i * i, i * 37 % 11, i * 5 % 13, 1 + i % 9)}{i % 2}" for i in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"{header}sick", *lines]) + "\n")
    files, plan = sorted(tmp_path.glob("*.csv")), tmp_path / "plan.json"
    sources = {"rows": files, "first": [], "second": []}
    for out, words in (("first", []), ("second", ["--plan", plan])):
        for file in files:
            sources[out].append(tmp_path / f"{file.stem}.{out}.json")
            done = run("sketch", file, "--label", "sick", *words, "--out", sources[out][-1])
            assert done.exception is None
        if out == "first":
            assert run("plan", *sources["first"], "--out", plan).exception is None
    told = {}
    for name, source in sources.items():
        found = run("profile", *source, *(["--label", "sick"] if name == "rows" else []), "--json", "-").stdout
        hygiene = json.loads(found)["hygiene"]
        told[name] = [f for f in hygiene if f["code"] in {"schema_mismatch", "unused_column", "missing_values"}]
    assert told["rows"] == told["first"] == told["second"]
    assert ("schema_mismatch" in {f["code"] for f in told["rows"]}) == (north != "x,age,dose,date,")


def test_one_file_may_hold_all_silos_and_is_a_source_of_profile_recommend_and_advise(folder, tmp_path):
    out = tmp_path / "all.sketch"
    done = run("sketch", *sorted(folder.glob("*.csv")), "--label", "sick", "--out", out)
    assert done.exception is None
    assert "5 parties" in done.stdout
    assert [sketch.party for sketch in read_sketches(out)] == ["centre", "east", "north", "south", "west"]
    found = json.loads(run("profile", out, "--json", "-").stdout)
    assert found["feature"]["reason"] == "needs_plan"
    assert json.loads(run("recommend", out, "--json", "-").stdout)["profile"]["parties"] == 5
    assert json.loads(run("advise", out, "--no-validate", "--json", "-").stdout)["validation"] is None
    assert "hold no rows to train on" in str(run("advise", out).exception)


def test_a_folder_of_sketches_is_a_source(folder, tmp_path):
    (tmp_path / "sketches").mkdir()
    for name in ("north", "south"):
        run("sketch", folder / f"{name}.csv", "--label", "sick", "--out", tmp_path / "sketches" / f"{name}.json")
    found = json.loads(run("profile", tmp_path / "sketches", "--json", "-").stdout)
    assert found["party_names"] == ["north", "south"]


def test_epsilon_needs_a_plan_and_is_spent_once(folder, tmp_path):
    pytest.importorskip("opendp")
    source, out, plan = folder / "north.csv", tmp_path / "noisy.json", tmp_path / "plan.json"
    asked = ("sketch", source, "--label", "sick", "--out", out, "--epsilon", 1)
    assert "--epsilon needs --plan" in str(run(*asked).exception)
    assert run("plan", "--classes", "yes,no", "--out", plan).exception is None
    assert run(*asked, "--plan", plan).exception is None
    first = out.read_bytes()
    assert "have spent epsilon already" in str(run(*asked, "--plan", plan).exception)
    assert out.read_bytes() == first
    assert run(*asked, "--plan", plan, "--spend-again").exception is None
    assert out.read_bytes() != first


def test_a_shared_key_finds_the_rows_that_two_silos_hold(tmp_path):
    rng = np.random.default_rng(0)
    values, key, plan = rng.standard_normal((700, 2)).round(3), tmp_path / "rows.key", tmp_path / "plan.json"
    lines = [f"{a},{b},{'yes' if a > b else 'no'}" for a, b in values.tolist()]
    north, south = (tmp_path / f"{name}.csv" for name in ("north", "south"))
    for path, part in ((north, lines[:400]), (south, lines[300:])):
        path.write_text("\n".join(["a,b,sick", *part]) + "\n", encoding="utf-8")
    key.write_text("8c4e0a5d1f7b4b6e9a3d\n", encoding="utf-8")
    for name in ("north", "south"):
        run("sketch", tmp_path / f"{name}.csv", "--label", "sick", "--out", tmp_path / f"{name}.1")
    assert run("plan", tmp_path / "north.1", tmp_path / "south.1", "--out", plan).exception is None
    asked = ("sketch", north, "--label", "sick", "--out", tmp_path / "north.2", "--hash-key", key)
    assert "--hash-key needs --plan" in str(run(*asked).exception)
    for option in (("--min-count", 5), ("--epsilon", 1)):
        assert "do not go together" in str(run(*asked, "--plan", plan, *option).exception)
    for name in ("north", "south"):
        out = tmp_path / f"{name}.2"
        done = run(
            "sketch", tmp_path / f"{name}.csv", "--label", "sick", "--out", out, "--hash-key", key, "--plan", plan
        )
        assert done.exception is None
        assert key.read_bytes().strip() not in out.read_bytes()
    sums = json.loads(run("profile", tmp_path / "north.2", tmp_path / "south.2", "--json", "-").stdout)
    (found,) = [finding for finding in sums["hygiene"] if finding["code"] == "duplicate_rows"]
    rows = json.loads(run("profile", north, south, "--label", "sick", "--json", "-").stdout)
    (wanted,) = [finding for finding in rows["hygiene"] if finding["code"] == "duplicate_rows"]
    assert found == wanted
    assert found["count"] == 100


def test_mistakes_are_told_in_one_line(folder, tmp_path):
    out = tmp_path / "o.json"
    north = folder / "north.csv"
    run("sketch", north, "--label", "sick", "--out", out)
    (folder / "north.json").write_bytes(out.read_bytes())
    for words, match in (
        (("sketch", "--label", "sick", "--out", out), "no SOURCE given"),
        (("sketch", north, "--out", out), "say which column is the label"),
        (("sketch", north, north, "--label", "sick", "--out", out), "two files hold the party"),
        (("profile", out, north, "--label", "sick"), "give sketches or rows, not both"),
        (("profile", folder, "--label", "sick"), "give sketches or rows, not both"),  # a sketch lies there
        (("plan", north, "--out", tmp_path / "p.json"), "north.csv: is no sketch file; give the sketch files"),
        (("plan", "--out", tmp_path / "p.json"), "give the sketch files"),
        (("plan", "--classes", "one", "--out", tmp_path / "p.json"), "two classes and more"),
        (("profile", out, out), "two sketches are of the party"),
        (("sketch", north, "--label", "sick", "--out", tmp_path / "n.json", "--plan", out), "is not a plan"),
    ):
        error = str(run(*words).exception)
        assert match in error
        assert "\n" not in error

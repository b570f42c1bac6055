"""The command line on real files: contract of the JSON, exit codes, one line for every mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedskew.profiles import Profile

PROFILE_KEYS = {"schema", "parties", "rows", "classes", "party_names", "class_names", "modality", "prevailing"}
PROFILE_KEYS |= {"label", "quantity", "feature", "concept", "hygiene"}
ADVICE_KEYS = {"algorithm", "alternatives", "path", "hyperparameters", "checks", "second_opinion", "price", "profile"}
VALIDATION_KEYS = {"candidates", "references", "recommended", "verdict", "settings"}
CANDIDATE_KEYS = {"algorithm", "status", "hyperparameters", "accuracy", "balanced_accuracy", "macro_f1", "lift"}
CANDIDATE_KEYS |= {"worst_party", "seconds", "bytes_per_party", "diverged_at"}


def fedskew(*words, cwd=None, **env):
    command = [sys.executable, "-m", "fedskew", *map(str, words)]
    variables = {**os.environ, "COLUMNS": "120", **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, env=variables, check=False)


def one_line(done, code=2):
    """The message of a refused command; fails unless it is one line, the exit code and nothing else."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("fedskew: ")
    return lines[0]


@pytest.fixture
def stops(tmp_path):
    """A small table of police stops: three precincts with different shares of the two problems."""
    rng = np.random.default_rng(3)
    precinct = np.repeat(["north", "south", "west"], [80, 120, 100])
    share = {"north": 0.2, "south": 0.8, "west": 0.5}
    problem = np.where(rng.random(300) < [share[p] for p in precinct], "traffic", "suspicious")
    hour = rng.normal(12, 4, 300) + 5 * (problem == "traffic")
    gender = rng.choice(["F", "M"], 300)
    frame = pl.DataFrame({"problem": problem, "precinct": precinct, "hour": hour, "gender": gender})
    path = tmp_path / "stops.csv"
    frame.write_csv(path)
    return path


QUICK = ("--rounds", 2, "--seeds", 2, "--jobs", 1, "--model", "linear")


def test_advise_prints_one_json_document_with_the_stable_keys(stops):
    done = fedskew("advise", stops, "--label", "problem", "--party", "precinct", "--json", "-", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"profile", "recommendation", "validation"}
    assert set(found["profile"]) >= PROFILE_KEYS
    assert set(found["recommendation"]) >= ADVICE_KEYS
    assert set(found["validation"]) >= VALIDATION_KEYS
    assert all(set(c) >= CANDIDATE_KEYS for c in found["validation"]["candidates"])
    assert found["profile"]["party_names"] == ["north", "south", "west"]
    assert found["validation"]["recommended"] == found["recommendation"]["algorithm"]
    assert {"kind", "winner", "difference", "lower", "upper", "text"} <= set(found["validation"]["verdict"])
    assert set(found["validation"]["references"]) == {"centralised", "local_only", "majority"}
    assert "Verdict" in done.stderr


def test_a_folder_of_silo_files_gives_the_same_answers_as_the_table(stops, tmp_path):
    folder = tmp_path / "silos"
    folder.mkdir()
    for (name,), rows in pl.read_csv(stops).group_by("precinct"):
        rows.drop("precinct").write_csv(folder / f"{name}.csv")
    options = (
        "--label",
        "problem",
        "--json",
        "-",
        "--quiet",
        *QUICK,
        "--no-references",
        "--algorithms",
        "fedavg,scaffold",
    )
    table = fedskew("advise", stops, "--party", "precinct", *options)
    silos = fedskew("advise", folder, *options)
    files = fedskew("advise", *sorted(folder.iterdir()), *options)
    assert table.stderr == silos.stderr == files.stderr == ""

    def timeless(done):
        found = json.loads(done.stdout)
        for candidate in found["validation"]["candidates"]:
            del candidate["seconds"], candidate["at_equal_seconds"]
        return found

    assert timeless(table) == timeless(silos) == timeless(files)


def test_a_shortlist_is_of_the_advice_on_these_data(stops):
    options = ("--label", "problem", "--party", "precinct", "--json", "-", "--quiet", "--algorithms", "shortlist")
    cut = ("--no-references", "--no-tuning")
    whole = json.loads(fedskew("advise", stops, *options, *QUICK, *cut).stdout)
    advice = whole["recommendation"]
    names = {advice["algorithm"], "fedavg", *(c["algorithm"] for c in advice["second_opinion"]["candidates"][:5])}
    assert {c["algorithm"] for c in whole["validation"]["candidates"]} == names
    asked = json.loads(fedskew("validate", stops, *options, *QUICK, *cut, "--recommended", "moon").stdout)
    assert {c["algorithm"] for c in asked["candidates"]} == names | {"moon"}
    assert asked["recommended"] == "moon"


def test_recommend_takes_a_profile_that_profile_wrote(stops, tmp_path):
    path = tmp_path / "profile.json"
    assert fedskew("profile", stops, "--label", "problem", "--party", "precinct", "--json", path).returncode == 0
    assert Profile.from_json(path.read_bytes()).parties == 3
    direct = fedskew("recommend", stops, "--label", "problem", "--party", "precinct", "--json", "-", "--quiet")
    again = fedskew("recommend", path, "--json", "-", "--quiet")
    assert again.returncode == 0, again.stderr
    assert again.stdout == direct.stdout


def test_validate_keeps_to_the_candidates_and_hyperparameters_it_was_given(stops):
    options = ("--algorithms", "fedavg,fedprox", "--recommended", "fedprox", "--set", "fedprox.mu=0.5")
    done = fedskew(
        "validate", stops, "--label", "problem", "--party", "precinct", "--json", "-", "--quiet", *QUICK, *options
    )
    found = json.loads(done.stdout)
    assert [c["algorithm"] for c in found["candidates"]] == ["fedavg", "fedprox"]
    assert found["candidates"][1]["hyperparameters"]["mu"] == 0.5
    assert found["recommended"] == "fedprox"
    assert found["settings"]["rounds"] == 2


def test_tables_are_printed_without_colour_when_piped(stops):
    done = fedskew("profile", stops, "--label", "problem", "--party", "precinct")
    assert done.returncode == 0
    assert "label skew" in done.stdout.lower()
    assert "\x1b" not in done.stdout


def test_names_with_control_characters_never_reach_the_terminal(tmp_path):
    names = np.repeat(["\x1b]52;c;aGk=\x07", "[red]b[/]"], 20)
    pl.DataFrame({"y": ["u", "v"] * 20, "who": names, "x": np.arange(40) % 7}).write_parquet(tmp_path / "t.parquet")
    done = fedskew("profile", tmp_path / "t.parquet", "--label", "y", "--party", "who")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr


def test_no_candidate_that_succeeds_is_exit_code_1(stops):
    done = fedskew(
        "validate", stops, "--label", "problem", "--party", "precinct", "--lr", "1e38", "--json", "-", "--quiet", *QUICK
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"]["kind"] == "all_failed"


MISTAKES = {
    "missing file": (("profile", "nowhere.csv", "--label", "y", "--party", "p"), "nowhere.csv"),
    "missing label column": (
        ("profile", "{stops}", "--label", "problm", "--party", "precinct"),
        "did you mean 'problem'",
    ),
    "missing party column": (
        ("profile", "{stops}", "--label", "problem", "--party", "precint"),
        "did you mean 'precinct'",
    ),
    "no label given": (("profile", "{stops}", "--party", "precinct"), "label"),
    "no source": (("profile",), "no SOURCE"),
    "unknown algorithm": (
        ("validate", "{stops}", "--label", "problem", "--party", "precinct", "--algorithms", "fedprx"),
        "did you mean 'fedprox'",
    ),
    "misspelt shortlist": (
        ("advise", "{stops}", "--label", "problem", "--party", "precinct", "--algorithms", "shortlst"),
        "or shortlist, or all",
    ),
    "no algorithm": (
        ("validate", "{stops}", "--label", "problem", "--party", "precinct", "--algorithms", ","),
        "--algorithms names none",
    ),
    "unknown preset": (
        ("validate", "{stops}", "--label", "problem", "--party", "precinct", "--preset", "fast"),
        "quick",
    ),
    "unknown option": (("profile", "{stops}", "--lable", "problem"), "--lable"),
    "bad set": (("validate", "{stops}", "--label", "problem", "--party", "precinct", "--set", "mu=1"), "ALG.KEY=VALUE"),
    "bad participation": (
        ("recommend", "{stops}", "--label", "problem", "--party", "precinct", "--participation", "2"),
        "participation",
    ),
    "zero seeds": (("validate", "{stops}", "--label", "problem", "--party", "precinct", "--seeds", "0"), "--seeds"),
    "demo and source": (("advise", "{stops}", "--demo"), "not both"),
}


@pytest.mark.parametrize(("words", "hint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_one_line_and_exit_code_2(words, hint, stops):
    done = fedskew(*[str(stops) if word == "{stops}" else word for word in words])
    assert hint in one_line(done)


FILES = {
    "empty file": ("t.csv", b"", "empty"),
    "header only": ("t.csv", b"y,p,x\n", "row"),
    "ragged row": ("t.csv", b"y,p,x\nu,a,1\nv,b\nu,a,2\n", "line 3"),
    "one party": ("t.csv", b"y,p,x\nu,a,1\nv,a,2\n", "one party"),
    "label is an id": (
        "t.csv",
        b"y,p,x\n" + b"".join(b"n%d,%s,1\n" % (i, b"ab"[i % 2 : i % 2 + 1]) for i in range(40)),
        "id",
    ),
}


@pytest.mark.parametrize(("name", "content", "hint"), FILES.values(), ids=FILES.keys())
def test_a_bad_file_gets_one_line_and_exit_code_2(name, content, hint, tmp_path):
    (tmp_path / name).write_bytes(content)
    line = one_line(fedskew("profile", tmp_path / name, "--label", "y", "--party", "p"))
    assert hint in line
    assert name in line or hint == "id"


def test_a_silo_file_whose_columns_differ_is_told_and_one_without_the_label_is_named(tmp_path):
    for name, header in (("a", "y,x,z"), ("b", "y,x,z"), ("c", "y,x,w")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\nu,1,2\nv,2,3\n")
    done = fedskew("profile", tmp_path, "--label", "y", "--json", "-")
    assert done.returncode == 0, done.stderr
    (told,) = (f for f in json.loads(done.stdout)["hygiene"] if f["code"] == "schema_mismatch")
    assert "'w', 'z' (lacking in 'a', 'b', 'c')" in told["text"]
    (tmp_path / "c.csv").write_text("yy,x,z\nu,1,2\nv,2,3\n")
    line = one_line(fedskew("profile", tmp_path, "--label", "y"))
    assert "c.csv: has no column 'y'" in line


def test_an_npz_of_objects_is_refused_without_being_unpickled(tmp_path):
    marker = tmp_path / "marker"

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(marker),))

    np.savez(tmp_path / "t.npz", x=np.array([Bomb()], dtype=object), y=np.zeros(1), party=np.zeros(1))
    one_line(fedskew("profile", tmp_path / "t.npz"))
    assert not marker.exists()


def test_text_features_in_an_npz_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.array([["a", "b"]] * 4), y=np.array([0, 1] * 2), party=np.array([0, 0, 1, 1]))
    assert "t.npz" in one_line(fedskew("profile", tmp_path / "t.npz"))


def test_an_output_folder_that_does_not_exist_is_exit_code_3(stops, tmp_path):
    done = fedskew(
        "profile", stops, "--label", "problem", "--party", "precinct", "--quiet", "--json", tmp_path / "no" / "a.json"
    )
    assert "does not exist" in one_line(done, 3)


def test_an_interrupted_write_leaves_no_half_file(stops, tmp_path):
    target = tmp_path / "a.json"
    target.write_text("old")
    fedskew("profile", stops, "--label", "problem", "--party", "precinct", "--quiet", "--json", target)
    assert json.loads(target.read_text())["rows"] == 300
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "stops.csv"]


@pytest.mark.slow
def test_the_demo_runs_and_ends_in_a_verdict():
    """The README's line, asked for JSON; so slow that the test of the README's commands leaves it to this one."""
    done = fedskew("advise", "--demo", "--json", "-", "--quiet")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["profile"]["prevailing"]["kind"] == "label_dirichlet"
    assert found["validation"]["verdict"]["kind"] in {"confirmed", "overturned", "no_difference", "cannot_tell"}


@pytest.mark.slow
def test_real_stops_as_a_table_and_as_five_silos_give_the_same_profile(data_file, tmp_path):
    path = data_file("mplsstops.parquet")
    for (precinct,), rows in pl.read_parquet(path).group_by("policePrecinct"):
        rows.drop("policePrecinct").write_csv(tmp_path / f"{precinct}.csv")
    table = fedskew("profile", path, "--label", "problem", "--party", "policePrecinct", "--json", "-", "--quiet")
    silos = fedskew("profile", tmp_path, "--label", "problem", "--json", "-", "--quiet")
    assert table.returncode == silos.returncode == 0, table.stderr + silos.stderr
    assert json.loads(table.stdout) == json.loads(silos.stdout)


@pytest.mark.parametrize(("typed", "offered"), [("fedskew pro", "profile"), ("fedskew validate --pre", "--preset")])
def test_the_shell_completes_commands_and_options(typed, offered):
    script = Path(sys.executable).with_name("fedskew")
    asked = {"_FEDSKEW_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run([script], capture_output=True, text=True, env={**os.environ, **asked}, check=False)
    assert done.stdout.split() == [offered]

"""--html on the commands, what a run folder keeps, and the report command."""

import json
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fedskew import FedskewError, make_partition, read_report, validate
from fedskew.advisor.delivery import begin, read_answer
from fedskew.profiles.errors import EnvironmentFaultError


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fedskew", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def silos(tmp_path_factory):
    path = tmp_path_factory.mktemp("silos") / "t.csv"
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    rows = [f"{v:.3f},{'yes' if v > 0 else 'no'},{'abc'[i % 3]}" for i, v in enumerate(x)]
    path.write_text("\n".join(["x,y,party", *rows]) + "\n")
    return path


def test_a_page_from_the_written_json_equals_the_page_written_at_once(silos, tmp_path):
    first, second, record = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "r.json"
    done = run(
        *("recommend", silos, "--label", "y", "--party", "party", "--json", record, "--html", first, "--quiet"),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run("report", record, "--html", second)
    assert done.returncode == 0, done.stderr
    assert first.read_bytes() == second.read_bytes()
    assert "<!doctype html>" in first.read_text()


def test_a_foreign_file_is_refused_in_one_line(silos, tmp_path):
    done = run("report", silos, "--html", tmp_path / "a.html")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "a.html").exists()


def test_a_page_that_cannot_be_written_is_the_machines_fault(silos, tmp_path):
    done = run("profile", silos, "--label", "y", "--party", "party", "--html", tmp_path / "no" / "a.html", "--quiet")
    assert done.returncode == 3
    assert "a.html" in done.stderr
    assert len(done.stderr.splitlines()) == 1


QUICK = ["--algorithms", "fedavg,scaffold", "--rounds", "1", "--seeds", "2", "--model", "linear", "--jobs", "1"]
QUICK += ["--no-tuning", "--no-references"]


@pytest.fixture(scope="module")
def finished(silos, tmp_path_factory):
    """A folder with a finished run of validate, its page and its JSON."""
    out = tmp_path_factory.mktemp("finished")
    places = ("--run", out / "run", "--html", out / "page.html", "--json", out / "found.json", "--quiet")
    done = run("validate", silos, "--label", "y", "--party", "party", *QUICK, *places)
    assert done.returncode == 0, done.stderr
    return out


def test_a_finished_run_folder_makes_the_page_that_the_command_made(finished, tmp_path):
    done = run("report", finished / "run", "--html", tmp_path / "again.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "again.html").read_bytes() == (finished / "page.html").read_bytes()


def test_the_page_of_validate_shows_the_profile_and_the_advice_it_made_itself(finished):
    page = (finished / "page.html").read_text()
    headings = ["In short", "How skewed the silos are", "Why this algorithm", "Does it hold on these data"]
    places = [page.index(f">{heading}</h2>") for heading in headings]
    assert places == sorted(places)
    kept = read_report((finished / "run" / "answer.json").read_bytes())
    assert kept.profile is not None
    assert kept.recommendation is not None
    assert kept.validation is not None


def test_the_json_of_validate_stays_a_validation(finished):
    found = json.loads((finished / "found.json").read_text())
    assert found["schema"] == "fedskew-validation/1"
    assert {"candidates", "references", "recommended", "verdict", "settings"} <= set(found)
    assert "profile" not in found


def test_without_a_page_to_write_report_prints_the_answer(finished):
    for place in (finished / "run", finished / "found.json"):
        done = run("report", place)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Verdict")


def test_an_unfinished_run_folder_names_the_command_that_finishes_it(finished, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    (tmp_path / "run" / "answer.json").unlink()
    done = run("report", tmp_path / "run", "--html", tmp_path / "a.html")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "not finished" in done.stderr
    assert "fedskew validate" in done.stderr
    assert f"--run {finished / 'run'}" in done.stderr
    assert not (tmp_path / "a.html").exists()


def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path):
    done = run("report", tmp_path, "--html", tmp_path / "a.html")
    assert done.returncode == 2
    assert "no run folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def trained(folder, labels, monkeypatch, command, **options):
    """Train a toy into a folder as the command line would."""
    monkeypatch.setattr(sys, "argv", ["fedskew", *command.split()])
    toy = make_partition(labels[:, None] + np.linspace(0, 0.1, 80)[:, None], labels, np.repeat(["a", "b"], 40))
    settings: Any = {"rounds": 1, "seeds": 1, "jobs": 1, "tuning": False, "references": False, "model": "linear"}
    return validate(toy, ["fedavg"], run=folder, begun=lambda: begin(folder), **{**settings, **options})


def test_a_refused_command_leaves_answer_and_command_of_the_run_before(tmp_path, monkeypatch):
    labels = np.tile([0, 1], 40)
    trained(tmp_path, labels, monkeypatch, "validate first.csv")
    (tmp_path / "answer.json").write_text("{}")
    with pytest.raises(FedskewError, match="holds another run"):
        trained(tmp_path, labels, monkeypatch, "validate second.csv", rounds=2)
    with pytest.raises(FedskewError, match="other rows"):
        trained(tmp_path, 1 - labels, monkeypatch, "validate third.csv", force_resume=True)
    hyper = {"fedavg": {"foo": 1.0}}
    with pytest.raises(FedskewError, match="no hyperparameter"):
        trained(tmp_path, labels, monkeypatch, "validate fourth.csv", force_resume=True, hyper=hyper)
    assert read_answer(tmp_path) == b"{}"
    assert (tmp_path / "command.txt").read_text() == "fedskew validate first.csv\n"


def test_a_run_that_goes_on_keeps_its_answer_and_one_taken_over_by_force_does_not(tmp_path, monkeypatch):
    labels = np.tile([0, 1], 40)
    trained(tmp_path, labels, monkeypatch, "validate first.csv")
    (tmp_path / "answer.json").write_text("{}")
    trained(tmp_path, labels, monkeypatch, "validate again.csv")
    assert read_answer(tmp_path) == b"{}"
    trained(tmp_path, labels, monkeypatch, "validate forced.csv", rounds=2, force_resume=True)
    with pytest.raises(FedskewError, match=r"not finished .* finish it with: fedskew validate forced\.csv"):
        read_answer(tmp_path)


def test_a_command_that_trains_nothing_does_not_take_the_place_of_one_that_did(tmp_path, monkeypatch):
    trained(tmp_path, np.tile([0, 1], 40), monkeypatch, "validate first.csv")
    with pytest.raises(FedskewError, match="holds a validation, and this command makes none"):
        begin(tmp_path, trains=False)


def test_a_run_folder_that_is_a_file_is_the_machines_fault(silos):
    with pytest.raises(EnvironmentFaultError, match="cannot make the run folder"):
        begin(silos)

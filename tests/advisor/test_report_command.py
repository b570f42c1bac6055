"""--html on the commands, what a run folder keeps, and the report command."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from fedskew import FedskewError, read_report
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


def test_a_command_refused_by_the_run_folder_does_not_replace_the_one_that_began_it(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["fedskew", "validate", "a b.csv", "--run", "run"])
    begin(folder)
    (folder / "run.sqlite").touch()
    monkeypatch.setattr(sys, "argv", ["fedskew", "validate", "c.csv", "--run", "run"])
    begin(folder)
    with pytest.raises(FedskewError, match=r"finish it with: fedskew validate 'a b\.csv' --run run"):
        read_answer(folder)


def test_an_answer_about_to_be_replaced_by_force_is_taken_away(tmp_path):
    (tmp_path / "run.sqlite").touch()
    (tmp_path / "answer.json").write_text("{}")
    begin(tmp_path)
    assert read_answer(tmp_path) == b"{}"
    begin(tmp_path, force=True)
    with pytest.raises(FedskewError, match="not finished"):
        read_answer(tmp_path)


def test_a_run_folder_that_is_a_file_is_the_machines_fault(silos):
    with pytest.raises(EnvironmentFaultError, match="cannot make the run folder"):
        begin(silos)

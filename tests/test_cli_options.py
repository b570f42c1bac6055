"""No option is silently ignored, given twice, or taken for what it is not; and a pipe that closes is no failure."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import fedskew
from fedskew.advisor.arguments import TRAINING_ONLY, refuse_training
from fedskew.cli import app

LABEL = ("--label", "sick")
BOTH = ("--features", "age,dose", "--drop", "dose")
GIVEN = (*LABEL, "--party", "site")
SHORT = (
    "--rounds",
    "9",
    "--lr",
    "0.1",
    "--seeds",
    "1",
    "--no-tuning",
    "--no-references",
    "--jobs",
    "1",
    "--algorithms",
    "fedavg",
)


@pytest.fixture
def table(tmp_path):
    rows = [f"{i % 7},{i % 5},{'yn'[i % 7 > 3]},{'ab'[i % 2]}" for i in range(120)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["age,dose,sick,site", *rows]) + "\n")
    return path


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    "option",
    [
        ("--preset", "standard"),
        ("--algorithms", "moon"),
        ("--rounds", "7"),
        ("--lr", "0.3"),
        ("--jobs", "2"),
        ("--set", "fedprox.mu=1"),
        ("--no-tuning",),
        ("--force-resume",),
        ("--backend", "ray"),
    ],
    ids=lambda option: option[0],
)
def test_options_about_training_are_refused_where_nothing_is_trained(table, refused, option):
    told = refused("advise", table, *GIVEN, "--no-validate", *option)
    assert told == f"--no-validate trains nothing; leave out {option[0]}"


def test_what_is_refused_is_every_option_of_the_command_that_the_recommendation_does_not_heed():
    import inspect

    from fedskew import cli

    heeded = {"source", "demo", "no_validate", "label", "party", "drop", "features", "test", "task", "modality"}
    heeded |= {"delimiter", "encoding", "on_bad_row", "participation", "stateless_clients", "bandwidth", "goal", "run"}
    heeded |= {"has_batchnorm", "local_epochs", "batch_size", "model", "json_", "html", "seed", "quiet"}
    parameters = inspect.signature(cli.advise).parameters
    assert set(TRAINING_ONLY) == set(parameters) - heeded
    refuse_training({name: parameters[name].default for name in TRAINING_ONLY})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("profile", "{}", *GIVEN, "--html", "-"), "--html -: only --json can go to stdout; give a path"),
        (("profile", "{}", *GIVEN, "--json", ""), "--json is empty; give a path"),
        (("sketch", "{}", *GIVEN, "--out", "-"), "--out -: only --json can go to stdout; give a path"),
        (("profile", "{}", *GIVEN, "--features", ""), "--features names no column"),
        (("profile", "{}", *GIVEN, "--features", ","), "--features names no column"),
        (("profile", "{}", *GIVEN, "--drop", ""), "--drop names no column"),
        (("profile", "{}", *GIVEN, *BOTH), "column 'dose' is both in --features and in --drop; take it out of one"),
        (("sketch", "{}", *GIVEN, "--out", "s.json", *BOTH), "column 'dose' is both in --features and in --drop"),
        (("partition", "{}", *LABEL, "--out", "i.json", *BOTH), "column 'dose' is both in --features and in --drop"),
        (("sketch", "{}", *GIVEN, "--out", "s.json", "--drop", ","), "--drop names no column"),
        (("validate", "{}", *GIVEN, "--set", "fedavg.lr=1", "--set", "fedavg.lr=2"), "--set fedavg.lr is given twice"),
        (("validate", "{}", *GIVEN, "--set", "fedavg.lr=nan"), "fedavg.lr is nan; it must be a finite number"),
        (("validate", "{}", *GIVEN, "--seed", "-1"), "seed is -1; it must be a whole number from 0 on"),
        (("partition", "{}", "--out", "i.json", "--alpha", "1", "--set", "alpha=2", *LABEL), "alpha is given twice"),
        (("sketch", "{}", *GIVEN, "--out", "s.json", "--spend-again"), "--spend-again draws noise anew"),
        (("study", "paper-tabular", "--dry-run", "--data", "/nope"), "--data /nope: there is no such folder"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(table, refused, words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(*[str(table) if word == "{}" else word for word in words]).startswith(told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv"]


def test_the_data_are_no_secret_of_the_silos(table, refused, tmp_path):
    run("sketch", table, *GIVEN, "--out", tmp_path / "1.json")
    run("plan", tmp_path / "1.json", "--out", tmp_path / "plan.json")
    words = ("--out", tmp_path / "2.json", "--plan", tmp_path / "plan.json", "--hash-key", table)
    assert "is the data; give a file that holds" in refused("sketch", table, *GIVEN, *words)


def test_a_plan_of_classes_alone_is_for_noise(table, refused, tmp_path):
    run("plan", "--classes", "y,n", "--out", tmp_path / "plan.json")
    told = refused("sketch", table, *GIVEN, "--out", tmp_path / "s.json", "--plan", tmp_path / "plan.json")
    assert "names classes only, which is for --epsilon" in told


def test_an_archive_does_not_take_its_label_for_its_features(tmp_path, refused):
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.arange(4) % 2, party=np.arange(4) // 2)
    told = refused("profile", tmp_path / "a.npz", "--features", "y")
    assert "'y' is the label and cannot be the features too" in told


def test_what_names_its_labels_itself_is_sketched_without_label(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)).round(3), rng.integers(0, 2, 60)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    lines = [f"{label} " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(row)) for row, label in zip(x, y, strict=True)]
    (tmp_path / "b.svm").write_text("\n".join(lines) + "\n")
    for name in ("a.npz", "b.svm"):
        told = run("sketch", tmp_path / name, "--out", tmp_path / f"{name}.json")
        assert told.startswith("sketches of 1 party, 60 rows"), told


def test_excels_mark_and_packed_files_are_told_for_what_they_are(tmp_path, refused):
    (tmp_path / "excel.csv").write_bytes(b"sep=;\r\nage;sick\r\n1;y\r\n")
    assert "line 1 is Excel's mark 'sep=;'" in refused("profile", tmp_path / "excel.csv", "--label", "sick")
    (tmp_path / "t.csv.gz").write_bytes(b"\x1f\x8b\x08")
    assert "is packed; unpack it first" in refused("profile", tmp_path / "t.csv.gz", "--label", "sick")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def net():\n    return None\n", "cannot be built: calling it with ((2,), 2) raised TypeError"),
        ("def net(shape, outputs):\n    raise ValueError('boom')\n", "raised ValueError: boom"),
        ("net = 3\n", "raised TypeError: 'int' object is not callable"),
        ("1 / 0\n", "cannot be imported: division by zero"),
    ],
)
def test_a_mistake_in_a_users_own_network_is_told_as_theirs(table, refused, tmp_path, monkeypatch, body, told):
    name = f"homemade_{abs(hash(body))}"
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    assert told in refused("validate", table, *GIVEN, *SHORT, "--model", f"{name}:net")


def test_the_run_folder_of_a_validation_is_enough_for_an_export(table, tmp_path):
    run("validate", table, *GIVEN, *SHORT, "--recommended", "fedavg", "--run", tmp_path / "run", "--quiet")
    run("export", "flower", tmp_path / "run", "--out", tmp_path / "app")
    assert '"y",' in (tmp_path / "app" / "federation" / "choice.py").read_text()
    found = fedskew.read_report(tmp_path / "run")
    assert found.validation is not None
    assert found.data is not None
    assert found.recommendation is None
    assert list(found.validation.to_frame().columns[:4]) == ["status", "accuracy", "lower", "upper"]


def test_a_reader_that_goes_away_is_no_failure(table):
    command = [sys.executable, "-m", "fedskew", "profile", str(table), *GIVEN]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_version_is_told():
    assert run("--version") == f"fedskew {fedskew.__version__}\n"


@pytest.mark.parametrize(
    ("call", "given", "told"),
    [
        (fedskew.profile, "t.csv", "a str; make silos of it with read_table"),
        (fedskew.profile, ["t.csv"], "a str; make silos of it with read_table"),
        (fedskew.recommend, "t.csv", "a str; measure the silos first with profile"),
        (fedskew.validate, "t.csv", "a str; make silos of it with read_table"),
    ],
)
def test_what_is_of_the_wrong_type_is_told_with_how_to_come_by_the_right_one(call, given, told):
    with pytest.raises(fedskew.FedskewError, match=told):
        call(given)


def test_a_report_is_read_from_a_path_too(table, tmp_path):
    run("profile", table, *GIVEN, "--json", tmp_path / "p.json", "--quiet")
    found = fedskew.read_report(tmp_path / "p.json")
    assert found.data is not None
    assert found.data.rows == 120
    with pytest.raises(fedskew.FedskewError, match="no report can be read from it"):
        fedskew.read_report(json.dumps([1]))

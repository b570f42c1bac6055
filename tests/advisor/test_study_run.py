"""A study end to end on made-up data: numbers, outputs, interruption, and what goes wrong."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedskew.advisor.evidence import read_evidence
from fedskew.advisor.study import session
from fedskew.advisor.study import workers as study_workers
from fedskew.advisor.study.data import partition_of, prepared_table
from fedskew.advisor.study.grid import Study
from fedskew.advisor.study.output import write_outputs
from fedskew.advisor.study.plan import forecast
from fedskew.advisor.study.reading import read_study
from fedskew.advisor.study.rows import settings_tried
from fedskew.advisor.study.run import read_result, result_path, run_setting
from fedskew.advisor.study.session import Standing, finished_results, run_study
from fedskew.advisor.study.workers import Crew
from fedskew.engine import validate
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError

Ran = tuple[Study, Path, Standing, list[str]]
"""A study, its folder, where it stands, and what was told meanwhile."""
TOML = """
title = "Made up"
note = "Only a test."
paper = true

[defaults]
rounds = {rounds}
local_epochs = 1
batch_size = 16
seeds = 2
candidates = ["fedavg", "fedprox mu=0.01|1", "scaffold"]

[data.blobs]
source = "blobs.npz"

[data.FCUBE]
source = "generated:fcube"
rows = 200
test_rows = 100

[data.gone]
source = "gone.npz"

[[grid]]
data = ["blobs", "FCUBE", "gone"]
partition = ["homo", "label_dirichlet alpha=0.3"]
parties = 4
model = "{model}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of three clouds of points and parties of its own."""
    made = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(7)
    labels = np.repeat([0, 1, 2], 120)
    points = rng.normal(0, 1, (360, 4)) + 2 * np.eye(4)[labels]
    np.savez(made / "blobs.npz", x=points, y=labels, party=np.array(list("abc"))[rng.integers(0, 3, 360)])
    return made


def made(folder: Path, rounds: int = 3, model: str = "linear", text: str = TOML) -> Study:
    path = folder / f"study-{rounds}-{model}-{len(text)}.toml"
    path.write_text(text.format(rounds=rounds, model=model))
    return read_study(path, folder)


def contents(out: Path) -> dict[str, bytes]:
    """Every file that must be the same bytes; the clock and the machine stand in the others."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    kept = [p for p in files if p.relative_to(out).parts[0] not in ("timings", "lock", "environment.json")]
    return {str(path.relative_to(out)): path.read_bytes() for path in kept}


@pytest.fixture(scope="module")
def finished(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    study, out = made(folder), tmp_path_factory.mktemp("out")
    told: list[str] = []
    return study, out, run_study(study, out, jobs=1, tell=told.append, curves=True), told


def test_a_study_ends_with_a_file_a_setting_and_all_outputs(finished: Ran) -> None:
    study, out, standing, told = finished
    assert (standing.finished, standing.missing, standing.failed, standing.skipped) == (4, 0, {}, ("gone",))
    assert {p.name for p in (out / "settings").iterdir()} == {f"{s.key}.json" for s in study.settings}
    assert {p.name for p in (out / "timings").iterdir()} == {f"{s.key}.json" for s in study.settings}
    assert not list((out / "runs").iterdir())
    wanted = {"evidence.parquet", "evidence.csv", "evidence-base.csv", "leaderboard.md", "table.md", "table.tex"}
    assert set(standing.files) == wanted | {f"curves/{s.key}.svg" for s in study.settings}
    assert all((out / name).is_file() for name in standing.files)
    assert "data set gone is skipped" in told[0]
    assert sum(line.startswith("[") for line in told) == 4
    for name in ("leaderboard.md", "table.md", "table.tex"):
        text = (out / name).read_text()
        assert "Only a test." in text
        assert "Data sets that were not there: gone." in text


def test_numbers_are_those_of_validate_on_the_same_partition(finished: Ran) -> None:
    study, out, _, _ = finished
    setting = study.settings[1]
    found = read_result(result_path(out, setting)).validation
    partition = partition_of(setting, study.places[setting.data])
    same = validate(
        partition, ["fedavg", "fedprox", "scaffold"], preset="paper", rounds=3, local_epochs=1, batch_size=16, seeds=2,
        model="linear", tuning=False, references=False, jobs=1, recommended="fedavg", hyper={"fedprox": {"mu": 1}},
    )  # fmt: skip
    ours = {one.algorithm: one.accuracy for one in found.candidates}
    for theirs in same.candidates:
        name = "fedprox mu=1" if theirs.algorithm == "fedprox" else theirs.algorithm
        assert ours[name] == theirs.accuracy, name
    assert found.settings["train_rows"] == same.settings["train_rows"]


def test_rows_carry_the_result_the_profile_and_the_curves(finished: Ran) -> None:
    study, out, _, _ = finished
    frame = pl.read_parquet(out / "evidence.parquet")
    assert frame.height == 4 * 4
    for row in frame.iter_rows(named=True):
        setting = next(s for s in study.settings if s.key == row["key"])
        result = read_result(result_path(out, setting))
        one = next(c for c in result.validation.candidates if c.algorithm == row["candidate"])
        assert row["accuracy"] == one.accuracy.mean == pytest.approx(np.mean(row["accuracy_by_seed"]))
        assert [line[-1] for line in row["curve"]] == row["accuracy_by_seed"]
        assert [line[-1] for line in row["balanced_curve"]] == row["balanced_accuracy_by_seed"]
        assert {len(line) for line in row["curve"]} == {3}
        assert row["label_skew"] == result.profile.label.skew
        assert (row["difference"] is None) == (row["candidate"] == "fedavg")
    gaps = frame.filter(pl.col("candidate") == "scaffold").sort("key")
    base = frame.filter(pl.col("candidate") == "fedavg").sort("key")
    expected = gaps["accuracy"] - base["accuracy"]
    assert gaps["difference"].to_list() == pytest.approx(expected.to_list())
    flat = pl.read_csv(out / "evidence.csv")
    assert flat["accuracy"].to_list() == frame["accuracy"].to_list()
    assert flat["accuracy_by_seed"][0] == ";".join(map(str, frame["accuracy_by_seed"][0].to_list()))


def test_the_evidence_base_takes_the_rows_the_best_of_a_grid_flagged(
    finished: Ran,
) -> None:
    _, out, _, _ = finished
    rows = read_evidence(out / "evidence-base.csv")
    assert [row.algorithm for row in rows] == ["fedavg", "fedprox", "scaffold"] * 4
    prox = [row for row in rows if row.algorithm == "fedprox"]
    assert {(row.flag, row.tuned) for row in prox} == {("best_of_2_on_test", 2)}
    frame = pl.read_parquet(out / "evidence.parquet").filter(pl.col("algorithm") == "fedprox")
    best = frame.group_by("key", maintain_order=True).agg(pl.col("accuracy").max())["accuracy"]
    assert [row.mean for row in prox] == pytest.approx([100 * value for value in best.to_list()], abs=1e-7)


def test_running_again_changes_no_byte_and_trains_nothing(finished: Ran) -> None:
    study, out, first, _ = finished
    before = contents(out)
    told: list[str] = []
    assert run_study(study, out, jobs=1, tell=told.append, curves=True) == first
    assert contents(out) == before
    assert not any(line.startswith("[") for line in told)


def test_every_change_of_version_is_told_going_back_too(finished: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    study, out, _, _ = finished
    before = (out / "environment.json").read_bytes()
    now = json.loads(before)[-1]
    told: list[str] = []
    for version in ("new", now["torch"], now["torch"]):
        monkeypatch.setattr(session, "environment", lambda version=version: {**now, "torch": version})
        run_study(study, out, jobs=1, tell=told.append, curves=True)
    (out / "environment.json").write_bytes(before)
    assert [line.split(";")[0] for line in told if "changed" in line] == ["changed since the last run: torch"] * 2


def test_rows_of_an_unfinished_study_say_so(finished: Ran, tmp_path: Path) -> None:
    study, out, _, _ = finished
    write_outputs(study, finished_results(study, out)[1:], tmp_path)
    for frame in (pl.read_parquet(tmp_path / "evidence.parquet"), pl.read_csv(tmp_path / "evidence.csv")):
        notes = frame["note"].unique().to_list()
        assert len(notes) == 1
        assert notes[0].startswith("INCOMPLETE: 1 of 4 settings are not finished.")
        assert "Only a test." in notes[0]


@pytest.mark.slow
def test_two_workers_give_the_same_bytes_as_one(folder: Path, tmp_path: Path, finished: Ran) -> None:
    study, out, _, _ = finished
    run_study(study, tmp_path / "two", jobs=2, curves=True)
    assert contents(tmp_path / "two") == contents(out)


def test_an_axis_that_varies_alone_gets_a_table_and_a_picture(folder: Path, tmp_path: Path) -> None:
    text = TOML.replace('"blobs", "FCUBE", "gone"', '"blobs"').replace('"homo", ', "")
    study = made(folder, 2, "linear", text + "local_epochs = [1, 3]\n")
    standing = run_study(study, tmp_path, jobs=1, curves=True)
    lines = (tmp_path / "effects.md").read_text().splitlines()
    assert "## local epochs: blobs, label_dirichlet alpha=0.3 (4 parties, 1 a round, B=16, T=2)" in lines
    row = next(line for line in lines if line.startswith("| 3 |")).split("|")[2:-1]
    found = read_result(result_path(tmp_path, study.settings[1])).validation.candidates
    assert float(row[0].split("±")[0]) == round(100 * float(found[0].accuracy.mean or 0), 1)
    assert "effects/1-local_epochs.svg" in standing.files
    assert (tmp_path / "effects/1-local_epochs.svg").read_text().startswith("<svg")


def test_tuning_tries_as_many_settings_for_each_and_keeps_what_is_fixed(folder: Path, tmp_path: Path) -> None:
    text = TOML.replace("seeds = 2", "seeds = 1\ntuning = true\nreferences = true")
    setting = made(folder, 4, "linear", text).settings[0]
    for name in ("settings", "timings", "runs"):
        (tmp_path / name).mkdir()
    run_setting(setting, folder / "blobs.npz", tmp_path)
    found = read_result(result_path(tmp_path, setting)).validation
    assert len({len(one.tuning) for one in found.candidates}) == 1
    tried = {one.algorithm: settings_tried(one) for one in found.candidates}
    assert tried["fedprox mu=1"] == 4  # its mu is fixed: the rates are all there is to try
    assert tried["fedavg"] > 4
    fixed = {one.algorithm: one.hyperparameters.get("mu") for one in found.candidates}
    assert (fixed["fedprox mu=0.01"], fixed["fedprox mu=1"]) == (0.01, 1.0)
    assert found.references.centralised is not None
    assert found.references.local_only is not None


PROGRAM = """
import sys
from pathlib import Path
from fedskew.advisor.study.reading import read_study
from fedskew.advisor.study.rows import settings_tried
from fedskew.advisor.study.session import run_study
run_study(read_study(sys.argv[1], Path(sys.argv[2])), Path(sys.argv[3]), jobs=1)
"""


@pytest.mark.kills
@pytest.mark.slow
def test_a_study_killed_in_the_middle_of_a_setting_resumes_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    text = TOML.replace('"FCUBE", "gone"', '"gone"').replace('"homo", ', "")
    study, out = made(folder, 40, "wide_mlp", text), tmp_path / "cut"
    run_study(study, tmp_path / "whole", jobs=1)
    path = folder / f"study-40-wide_mlp-{len(text)}.toml"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), str(folder), str(out)])
    _until(lambda: any(_parts(base) for base in (out / "runs").glob("*/*.sqlite")) or (out / "table.md").exists())
    process.send_signal(signal.SIGKILL)
    process.wait()
    cut = contents(out)
    assert "table.md" not in cut, "the study was faster than the kill"
    _until(lambda: not _alive(out))
    run_study(study, out, jobs=1)
    assert contents(out) == contents(tmp_path / "whole")


def _parts(base: Path) -> int:
    """How many parts of trials a run folder has committed."""
    with closing(sqlite3.connect(f"file:{base}?mode=ro", uri=True)) as held:
        try:
            return int(held.execute("SELECT count(*) FROM parts").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # its tables are not made yet


def _alive(out: Path) -> bool:
    """Whether a worker still holds the lock of a run folder."""
    import fcntl

    for path in (out / "runs").glob("*/lock"):
        handle = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
    return False


def _until(what: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_setting_that_cannot_run_is_named_and_costs_the_others_nothing(folder: Path, tmp_path: Path) -> None:
    text = TOML.replace('"label_dirichlet alpha=0.3"', '"shards num_partitions=999"')
    standing = run_study(made(folder, 2, "linear", text), tmp_path, jobs=1)
    assert (standing.finished, standing.missing) == (2, 2)
    assert set(standing.failed) == {"blobs, shards num_partitions=999", "FCUBE, shards num_partitions=999"}
    assert all("999 parties" in reason for reason in standing.failed.values())
    assert "INCOMPLETE: 2 of 4 settings are not finished." in (tmp_path / "table.md").read_text()


@pytest.mark.kills
def test_a_worker_that_dies_again_and_again_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_workers, "PROGRAM", "import sys; sys.stdin.readline()")
    study = made(folder)
    with Crew(2) as crew:
        done = crew.run(study.settings, study.places, tmp_path, lambda _: None)
    assert len(done) == 4
    assert all("died 2 times" in str(one.error) for one in done)


def test_two_processes_cannot_run_in_one_folder(folder: Path, tmp_path: Path) -> None:
    import fcntl

    handle = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(EnvironmentFaultError, match="another process runs a study here"):
            run_study(made(folder), tmp_path)
    finally:
        os.close(handle)


def test_a_damaged_result_is_named(folder: Path, tmp_path: Path) -> None:
    study = made(folder)
    path = result_path(tmp_path, study.settings[0])
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(FedskewError, match=r"is no result of this version .*delete it"):
        read_result(path)


def test_the_forecast_counts_steps_by_hand_and_finished_settings_cost_nothing(folder: Path, finished: Ran) -> None:
    study, out, _, _ = finished
    found = forecast(study, None, jobs=2)
    # FCUBE, homo: 200 rows over 4 parties, ceil(50 / 16) = 4 steps an epoch; 3 rounds, 2 seeds, 4 candidates
    cube = next(one for one in found.settings if one.title.startswith("FCUBE, homo"))
    assert cube.lane_steps == 4 * 4 * 3 * 2 * 4
    assert found.seconds > 0
    assert found.bytes >= 2 * max(one.bytes for one in found.settings) * 0.9
    done = forecast(study, out)
    assert {one.state for one in done.settings} == {"finished"}
    assert done.seconds == 0
    assert json.loads(found.to_json())["settings"][0]["key"] == study.settings[0].key


def test_rows_are_capped_after_the_test_rows_are_held_out_and_both_are_stratified(folder: Path) -> None:
    text = TOML.replace('source = "blobs.npz"', 'source = "blobs.npz"\nrows = 90\ntest_rows = 30')
    study = made(folder, 3, "linear", text)
    table = prepared_table(study.settings[0].table, folder / "blobs.npz", 0)
    assert table.test is not None
    assert len(table.test.labels) == 30
    assert abs(table.rows - 90) <= 9  # a row a party and class
    homo, dirichlet = (partition_of(s, folder / "blobs.npz") for s in study.settings[:2])
    assert homo.rows == dirichlet.rows == table.rows
    assert homo.test is not None
    assert dirichlet.test is not None
    np.testing.assert_array_equal(homo.test.features, dirichlet.test.features)


def test_every_takes_so_manyth_rows_of_each_party_in_the_order_of_the_file(tmp_path: Path) -> None:
    rows = np.arange(24.0)
    np.savez(tmp_path / "w.npz", x=np.stack([rows, rows % 5], 1), y=np.arange(24) % 2, party=np.repeat([1, 2], 12))
    text = '[data.w]\nsource="w.npz"\nevery=3\n[[grid]]\ndata="w"\npartition="natural"\n'
    path = tmp_path / "w.toml"
    path.write_text(text)
    setting = read_study(path).settings[0]
    table = prepared_table(setting.table, tmp_path / "w.npz", 0)
    assert table.test is not None
    seen = sorted([*table.features[:, 0].tolist(), *table.test.features[:, 0].tolist()])
    assert seen == [0, 3, 6, 9, 12, 15, 18, 21]
    assert table.test.party is not None
    assert set(np.unique(table.test.party)) <= {0, 1}


def test_parties_of_an_archive_can_be_left_unread(folder: Path) -> None:
    text = TOML.replace('source = "blobs.npz"', 'source = "blobs.npz"\nfeatures = "x"\nparties = false')
    table = prepared_table(made(folder, 3, "linear", text).settings[0].table, folder / "blobs.npz", 0)
    assert (table.party_names, table.features.shape[1]) == (("all",), 4)


def test_a_sparse_archive_keeps_its_most_frequent_columns(tmp_path: Path) -> None:
    from scipy.sparse import csr_array

    train = csr_array(np.array([[1.0, 0, 2, 0], [0, 0, 3, 4], [1, 0, 0, 5], [2, 0, 1, 0]], np.float32))
    test = csr_array(np.array([[0, 7.0, 0, 1], [1, 0, 2, 0]], np.float32))
    parts = {f"{s}_{n}": getattr(m, n) for s, m in (("tr", train), ("te", test)) for n in ("data", "indices", "indptr")}
    np.savez(tmp_path / "s.npz", **parts, y_train=[0, 1, 0, 1], y_test=[1, 0], classes=["no", "yes"])
    path = tmp_path / "s.toml"
    path.write_text('[data.s]\nsource="s.npz"\ncolumns=2\n[[grid]]\ndata="s"\npartition="homo"\nparties=2\n')
    table = prepared_table(read_study(path).settings[0].table, tmp_path / "s.npz", 0)
    assert table.class_names == ("no", "yes")
    np.testing.assert_array_equal(table.features, train.toarray()[:, [0, 2]])  # three entries each, column 3 has two
    assert table.test is not None
    np.testing.assert_array_equal(table.test.features, test.toarray()[:, [0, 2]])

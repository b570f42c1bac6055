"""``fedskew partition`` from the command line: three kinds of source, one advice from index and silos, mistakes."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fedskew.cli import _explain, app
from fedskew.profiles.index_file import read_index


def run(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Exit code and message as ``main`` gives them; fails unless the message is one line."""
    with pytest.raises(Exception) as error:
        app([str(word) for word in words], standalone_mode=False)
    code = _explain(error.value)
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("fedskew: ")
    return code, line


def same_profile_and_advice(tmp_path: Path, index: Path, silos: Path, *options: object) -> dict[str, Any]:
    """What index and silos say, byte by byte; the profile of the index."""
    written = {}
    for name, source, more in (("index", index, ()), ("silos", silos, options)):
        for command in (("profile",), ("advise", "--no-validate")):
            out = tmp_path / f"{name}-{command[0]}.json"
            run(command[0], source, *more, *command[1:], "--json", out, "--quiet")
            written[name, command[0]] = out.read_bytes()
    assert written["index", "profile"] == written["silos", "profile"]
    assert written["index", "advise"] == written["silos", "advise"]
    found: dict[str, Any] = json.loads(written["index", "profile"])
    assert json.loads(written["index", "advise"])["profile"] == found
    return found


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    kind = rng.choice(["stroke", "sepsis", "trauma"], 400)
    frame = pl.DataFrame(
        {
            "kind": kind,
            "age": rng.integers(20, 90, 400) + 10 * (kind == "stroke"),
            "dose": [None if i % 9 == 0 else float(v) for i, v in enumerate(rng.normal(size=400))],
            "ward": rng.choice(["A 1", "B 2", "C 3"], 400),
            "smoker": rng.integers(0, 2, 400),
        }
    )
    path = tmp_path / "patients.csv"
    frame.write_csv(path)
    return path


@pytest.mark.parametrize(("strategy", "kind"), [
    (("label_dirichlet", "--alpha", "0.3"), "label_dirichlet"),
    (("noniid-#label1",), "label_count"),
    (("iid",), "none"),
    (("covariate_quantile", "--set", "feature=smoker", "--num-partitions", 2), "feature"),
])  # fmt: skip
def test_index_and_silos_of_a_csv_give_identical_profiles_and_advice(
    strategy: tuple[str, ...], kind: str, csv: Path, tmp_path: Path
) -> None:
    index, silos = tmp_path / "i.json", tmp_path / "silos"
    name, *given = strategy
    parties = () if "--num-partitions" in given else ("--num-partitions", 4)
    where = ("--out", index, "--write-silos", silos, "--quiet")
    run("partition", csv, "--label", "kind", "--strategy", name, *given, *parties, *where)
    found = same_profile_and_advice(tmp_path, index, silos, "--label", "kind")
    assert found["rows"] == 400
    assert found["prevailing"]["kind"] == kind


def test_index_and_silos_of_a_folder_of_images_give_identical_profiles_and_advice(tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'fedskew[images]'")
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 256, (3, 12, 12))
    for i in range(240):
        path = tmp_path / "images" / f"digit {i % 3}" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(digits[i % 3] + rng.normal(0, 40, (12, 12)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(path)
    index, silos = tmp_path / "i.json", tmp_path / "silos"
    where = ("--out", index, "--write-silos", silos, "--quiet")
    run("partition", tmp_path / "images", "--strategy", "hsu", "--alpha", 0.3, "--num-partitions", 4, *where)
    found = same_profile_and_advice(tmp_path, index, silos)
    assert (found["modality"], found["rows"]) == ("image", 240)
    assert found["class_names"] == ["digit 0", "digit 1", "digit 2"]
    assert found["prevailing"]["kind"] == "label_dirichlet"
    folders = tmp_path / "folders"  # the same partition as party/class/*.png
    files = sorted(path for path in (tmp_path / "images").rglob("*.png"))
    for party, rows in read_index(index).parties.items():
        for row in rows:
            target = folders / party / files[row].parent.name / files[row].name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(files[row].read_bytes())
    run("profile", folders, "--json", tmp_path / "folders.json", "--quiet")
    assert json.loads((tmp_path / "folders.json").read_text())["label"] == found["label"]


@pytest.mark.slow
def test_index_and_silos_of_mnist_give_identical_profiles_and_advice(data_file: Any, tmp_path: Path) -> None:
    index, silos = tmp_path / "i.json", tmp_path / "silos"
    where = ("--out", index, "--write-silos", silos, "--quiet")
    run("partition", data_file("mnist.npz"), "--strategy", "noniid-labeldir", "--alpha", 0.5, *where)
    test = tmp_path / "silos-test.npz"
    assert len(list(silos.glob("*.npz"))) == 10
    found = same_profile_and_advice(tmp_path, index, silos, "--test", test)
    assert (found["modality"], found["rows"], found["parties"]) == ("image", 60_000, 10)
    assert found["prevailing"]["kind"] == "label_dirichlet"
    beta = found["label"]["beta"]
    assert beta["lower"] <= 0.5 <= beta["upper"]


@pytest.mark.parametrize(("words", "code", "message"), [
    (("--strategy", "label_dirichelt"), 2, "there is no strategy 'label_dirichelt'; did you mean 'label_dirichlet'?"),
    (("--alpha", "nan"), 2, "alpha is 'nan'; it must be a number from 1e-06 to 1000000"),
    (("--alpha", "0"), 2, "alpha is '0.0'; it must be"),
    (("--num-partitions", "0"), 2, "num_partitions is '0'; it must be a whole number from 1"),
    (("--set", "colour=red"), 2, "has no parameter 'colour'"),
    (("--set", "alpha"), 2, "not of the form KEY=VALUE"),
    (("--seed", "-1"), 2, "seed is -1; it must be a whole number from 0"),
    (("--strategy", "noniid-#label4"), 2, "the table has 3 classes"),
    (("--strategy", "noniid-#label2", "--classes-per-party", "1"), 2,
     "noniid-#label2 says num_classes_per_partition 2, but num_classes_per_partition is 1; give one of the two"),
    (("--strategy", "noniid-#label2", "--set", "k=1"), 2, "says num_classes_per_partition 2, but k is 1"),
    (("--strategy", "iid+shards"), 2, "cannot be combined"),
    (("--strategy", "natural"), 2, "--party"),
    (("--num-partitions", "100", "--min-partition-size", "40"), 2,
     "100 parties of at least 40 rows need 4,000 rows, but there are 400; allowed are num_partitions up to 10 or min_"),
    (("--label", "kin"), 2, "did you mean 'kind'?"),
])  # fmt: skip
def test_a_mistake_gets_one_line_and_its_exit_code(
    words: tuple[str, ...], code: int, message: str, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = () if "--label" in words else ("--label", "kind")
    found, line = refused(capsys, "partition", csv, *label, "--out", tmp_path / "i.json", *words)
    assert message in line
    assert found == code
    assert sorted(path.name for path in tmp_path.iterdir()) == ["patients.csv"]


def test_more_rows_than_there_are_is_answered_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", x=rng.normal(size=(60_000, 2)), y=rng.integers(0, 10, 60_000))
    words = ("partition", tmp_path / "t.npz", "--alpha", 0.1, "--min-partition-size", 40, "--out", tmp_path / "i.json")
    start = time.process_time()
    code, line = refused(capsys, *words, "--num-partitions", 10_000)
    assert time.process_time() - start < 1
    assert code == 2
    assert "allowed are num_partitions up to 1500 or min_partition_size up to 6" in line
    run(*words, "--num-partitions", 1_000, "--quiet")
    sizes = [len(rows) for rows in read_index(tmp_path / "i.json").parties.values()]
    assert (min(sizes), sum(sizes), len(sizes)) == (40, 60_000, 1_000)


def test_a_missing_source_and_an_unwritable_place_are_told_apart(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, line = refused(capsys, "partition", tmp_path / "imgs", "--out", tmp_path / "i.json")
    assert (code, "no such file or folder" in line) == (2, True)
    code, line = refused(capsys, "partition", csv, "--label", "kind", "--out", tmp_path / "no" / "i.json")
    assert (code, "does not exist; create it or choose another place" in line) == (3, True)
    code, line = refused(capsys, "partition", csv, "--label", "kind", "--out", tmp_path / "i.txt")
    assert (code, "ends in .json or .npz" in line) == (2, True)
    (tmp_path / "i.json").mkdir()
    code, line = refused(capsys, "partition", csv, "--label", "kind", "--out", tmp_path / "i.json")
    assert (code, "is a folder" in line) == (3, True)
    full = ("--out", tmp_path / "j.json", "--write-silos", tmp_path)
    code, line = refused(capsys, "partition", csv, "--label", "kind", *full)
    assert (code, "not empty" in line) == (2, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_place_without_permission_is_exit_code_3(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    code, line = refused(capsys, "partition", csv, "--label", "kind", "--out", tmp_path / "locked" / "i.json")
    assert (code, "no permission" in line) == (3, True)

"""The files of the paper's data sets from the command line: partition, profile, validate."""

import gzip
import json
import pickle
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat
from typer.testing import CliRunner

from fedskew.cli import app

DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test draws the same, whichever tests ran before it in this process."""
    monkeypatch.setattr(sys.modules[__name__], "DRAW", np.random.default_rng(0))


N = 120
LABELS = np.arange(N) % 3


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def pixels(*shape: int) -> NDArray[np.uint8]:
    return DRAW.integers(0, 256, (N, *shape)).astype(np.uint8)


def svmlight(folder: Path) -> Path:
    rows = (f"{label - 1} {label + 1}:1 {DRAW.integers(5, 40)}:0.5\n" for label in LABELS)
    (folder / "a9a").write_text("".join(rows))
    return folder / "a9a"


def sparse(folder: Path) -> Path:
    rows = (f"{label} {label + 1}:1 {DRAW.integers(5, 900)}:0.5\n" for label in LABELS)
    (folder / "rcv1_train.binary").write_text("".join(rows))
    return folder / "rcv1_train.binary"


def idx(folder: Path) -> Path:
    for what, array in (("images-idx3", pixels(28, 28)), ("labels-idx1", LABELS.astype(np.uint8))):
        head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
        (folder / f"train-{what}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))
    return folder


def cifar(folder: Path) -> Path:
    batch = {b"data": pixels(3072), b"labels": LABELS.tolist()}
    (folder / "data_batch_1").write_bytes(pickle.dumps(batch, 2))
    return folder


def svhn(folder: Path) -> Path:
    savemat(folder / "train_32x32.mat", {"X": pixels(32, 32, 3).transpose(1, 2, 3, 0), "y": LABELS[:, None] + 8})
    return folder / "train_32x32.mat"


def leaf(folder: Path) -> Path:
    labels = LABELS[: N // 4]
    rows = [np.hstack([np.eye(3)[labels], DRAW.random((len(labels), 6))]).tolist() for _ in range(4)]
    data = {f"u{i}": {"x": x, "y": labels.tolist()} for i, x in enumerate(rows)}
    (folder / "train").mkdir()
    (folder / "train" / "all.json").write_text(json.dumps({"users": list(data), "user_data": data}))
    return folder


@pytest.mark.parametrize("make", [svmlight, sparse, idx, cifar, svhn, leaf])
def test_each_format_is_partitioned_and_its_index_profiled(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    source = make(tmp_path)
    index = tmp_path / "i.json"
    run("partition", source, "--strategy", "label_dirichlet", "--alpha", "0.5", "--num-partitions", 3, "--out", index)
    found = json.loads(run("profile", index, "--json", "-"))
    assert (found["parties"], found["rows"], found["classes"]) == (3, N, 3)
    assert found["modality"] == ("image" if make in {idx, cifar, svhn} else "tabular")


@pytest.mark.slow
@pytest.mark.parametrize("make", [svmlight, sparse, leaf])
def test_validation_learns_what_is_in_them(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    source = make(tmp_path)
    index, out = tmp_path / "i.json", tmp_path / "v.json"
    run("partition", source, "--strategy", "iid", "--num-partitions", 3, "--out", index)
    more = (
        "--rounds",
        20,
        "--seeds",
        2,
        "--jobs",
        1,
        "--lr",
        0.1,
        "--batch-size",
        8,
        "--no-tuning",
        "--no-references",
        "--recommended",
        "fedavg",
    )
    run("validate", index, "--algorithms", "fedavg,fedprox", *more, "--json", out, "--quiet")
    found = json.loads(out.read_text())
    assert [candidate["status"] for candidate in found["candidates"]] == ["ok", "ok"]
    assert min(candidate["accuracy"]["mean"] for candidate in found["candidates"]) > 0.9  # one feature is the class

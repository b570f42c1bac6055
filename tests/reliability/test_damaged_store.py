"""Fault 8: a run store that was cut, changed in one bit or emptied is refused or read as it was; never misread."""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedskew.engine.plans import Part
from fedskew.engine.snapshots import read_blob, write_blob
from fedskew.engine.store import RunStore
from fedskew.profiles import EnvironmentFaultError, FedskewError

KEY = {"data": "a" * 64, "rounds": "30"}
FLIPS = int(os.environ.get("FEDSKEW_FLIPS", "300"))  # the promise names 2,000: FEDSKEW_FLIPS=2000
CUTS = 60


def filled(folder: Path) -> None:
    store = RunStore(folder, KEY)
    rng = np.random.default_rng(0)
    for trial in ("a" * 32, "b" * 32):
        for first in (0, 1):
            name = f"{trial}-{first + 1}.safetensors" if first == 0 or trial[0] == "b" else ""
            sha = write_blob(folder / "blobs" / name, rng.bytes(300)) if name else ""
            predicted = None if name else rng.normal(size=(2, 40))
            store.commit(
                trial, Part(first, first + 1, rng.random((3, 2, 1)), name, sha, predicted, np.zeros(2, int), 9, 0.5)
            )
    store.close()


def read(folder: Path) -> list[tuple[object, ...]]:
    """Everything a resumed run would use, the states read and checked."""
    store = RunStore(folder, KEY)
    try:
        found: list[tuple[object, ...]] = []
        for trial in ("a" * 32, "b" * 32):
            for part in store.parts(trial):
                state = read_blob(folder / "blobs" / part.state, part.sha256) if part.state else b""
                predicted = b"" if part.predicted is None else part.predicted.tobytes()
                found.append((trial, part.first, part.last, part.curves.tobytes(), state, predicted, part.seconds))
        return found
    finally:
        store.close()


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[bytes], list[tuple[object, ...]] | None]:
    """A function from the bytes of a store to what is read from it; None where it is refused in one line."""
    filled(tmp_path / "whole")

    def attempt(content: bytes) -> list[tuple[object, ...]] | None:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "run")
        path = tmp_path / "run" / "run.sqlite"
        path.write_bytes(content)
        try:
            return read(tmp_path / "run")
        except FedskewError as fault:
            said = str(fault)
        assert "\n" not in said
        assert "new --run" in said or "new run folder" in said or "kept" in said, said
        return None

    return attempt


def test_a_flipped_bit_anywhere_in_the_store_is_refused_or_changes_nothing(
    tmp_path: Path, damaged: Callable[[bytes], list[tuple[object, ...]] | None]
) -> None:
    whole = (tmp_path / "whole" / "run.sqlite").read_bytes()
    expected = damaged(whole)
    rng, refused = random.Random(20261130), 0
    for _ in range(FLIPS):
        place, bit = rng.randrange(len(whole)), rng.randrange(8)
        found = damaged(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        assert found in (None, expected), f"byte {place}, bit {bit}"
        refused += found is None
    assert refused > FLIPS / 50  # else nothing was hit


def test_every_live_value_of_a_part_is_guarded(
    tmp_path: Path, damaged: Callable[[bytes], list[tuple[object, ...]] | None]
) -> None:
    whole = tmp_path / "whole" / "run.sqlite"
    copy = tmp_path / "copy.sqlite"
    changes = {
        "trial": "'c' || substr(trial, 2)", "first": "first + 5", "last": "last + 1", "curves": "zeroblob(48)",
        "seeds": "1", "seconds": "seconds + 1", "state": "'x'", "sha256": "'x'", "predicted": "zeroblob(640)",
        "diverged": "'[1, 0]'", "parameters": "8", "digest": "'x'",
    }  # fmt: skip
    for column, value in changes.items():
        shutil.copy(whole, copy)
        with sqlite3.connect(copy) as db:
            changed = db.execute(f"UPDATE parts SET {column} = {value} WHERE first = 1").rowcount
        db.close()
        assert changed == 2
        assert damaged(copy.read_bytes()) is None, column


def test_a_part_that_was_lost_from_the_middle_is_noticed(
    tmp_path: Path, damaged: Callable[[bytes], list[tuple[object, ...]] | None]
) -> None:
    with sqlite3.connect(tmp_path / "whole" / "run.sqlite") as db:
        db.execute("DELETE FROM parts WHERE first = 0")
    db.close()
    assert damaged((tmp_path / "whole" / "run.sqlite").read_bytes()) is None


def test_a_store_cut_at_any_length_is_refused_and_kept(
    tmp_path: Path, damaged: Callable[[bytes], list[tuple[object, ...]] | None]
) -> None:
    whole = (tmp_path / "whole" / "run.sqlite").read_bytes()
    rng = random.Random(7)
    for length in [0, 1, 15, 16, 99, 100, 4096, *(rng.randrange(len(whole)) for _ in range(CUTS))]:
        assert damaged(whole[:length]) is None, length
        assert (tmp_path / "run" / "run.sqlite").read_bytes()[:length] == whole[:length]


def test_a_run_key_that_is_no_key_is_damage(tmp_path: Path) -> None:
    filled(tmp_path)
    for text in ("no json", "[1, 2]", "7", "null"):
        with sqlite3.connect(tmp_path / "run.sqlite") as db:
            db.execute("UPDATE meta SET value = ? WHERE key = 'run key'", (text,))
        db.close()
        with pytest.raises(EnvironmentFaultError, match="damaged"):
            RunStore(tmp_path, KEY)


def test_a_state_that_no_part_names_is_swept_away_and_the_others_stay(tmp_path: Path) -> None:
    filled(tmp_path)
    before = {path.name for path in (tmp_path / "blobs").iterdir()}
    (tmp_path / "blobs" / "left-by-a-kill.safetensors").write_bytes(b"x")
    (tmp_path / "blobs" / ".half.part").write_bytes(b"x")
    RunStore(tmp_path, KEY).close()
    assert {path.name for path in (tmp_path / "blobs").iterdir()} == before
    assert len(read(tmp_path)) == 4

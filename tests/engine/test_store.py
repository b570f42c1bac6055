"""The run store: what was committed survives, what is damaged or foreign is refused."""

import contextlib
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedskew.engine.plans import Part
from fedskew.engine.snapshots import pack, read_blob, unpack, write_blob
from fedskew.engine.states import PartyStore, RunState
from fedskew.engine.store import RunStore
from fedskew.profiles import EnvironmentFaultError, FedskewError

KEY = {"data": "a" * 64, "rounds": "30"}


def part(first=0, last=2, state="", predicted=None):
    curves = np.arange(3 * 2 * (last - first), dtype=np.float64).reshape(3, 2, last - first)
    curves[0, 0, 0] = np.nan
    return Part(first, last, curves, state, "", predicted, np.array([0, 4]), 7, 0.5)


def test_parts_come_back_bit_for_bit(tmp_path):
    store = RunStore(tmp_path / "run", KEY)
    whole = part(2, 3, predicted=np.array([[1.0, 2.0], [0.0, 3.0]]))
    store.commit("t", part())
    store.commit("t", whole)
    store.close()
    again = RunStore(tmp_path / "run", KEY)
    found = again.parts("t")
    again.close()
    assert [(p.first, p.last) for p in found] == [(0, 2), (2, 3)]
    assert found[0].curves.tobytes() == part().curves.tobytes()
    assert found[1].predicted is not None
    assert found[1].predicted.tolist() == [[1.0, 2.0], [0.0, 3.0]]
    assert found[1].diverged.tolist() == [0, 4]


def test_a_changed_key_is_refused_with_the_differences_and_can_be_forced(tmp_path):
    RunStore(tmp_path, KEY).close()
    with pytest.raises(FedskewError, match="rounds was 30, is 50") as caught:
        RunStore(tmp_path, {**KEY, "rounds": "50"})
    assert caught.value.exit_code == 2
    assert "data" not in str(caught.value).split("another run:")[1].split(".")[0]
    RunStore(tmp_path, {**KEY, "rounds": "50"}, force=True).close()
    forced = RunStore(tmp_path, {**KEY, "rounds": "50"})
    assert "rounds was 30, is 50" in (forced.recall("forced resumes") or "")
    forced.close()


LONG = ", ".join(f"algorithm{i} [('mu', 0.1)]" for i in range(9))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            "fedavg [], fedprox [], fednova [], moon []",
            "moon [], fednova [], fedyogi [], fedavg []",
            "fedprox [], is f",
        ),
        (LONG, LONG + ", last []", "without it, is last []"),
        (LONG, LONG.replace("algorithm7", "another7"), "algorithm7 [('mu', is another7 [('mu'."),
        ("a" * 64, "b" * 64, "a" * 20 + "…, is " + "b" * 20 + "…"),
        ("a" * 64, "a" * 60 + "b" * 4, "…" + "a" * 14 + ", is …" + "a" * 10 + "bbbb"),
        (str((*range(20),)), str((*range(22),)), "…17, 18, 19), is …17, 18, 19, 20, 21)"),
        ("(0, 1)", "(0, 1, 2)", "(0, 1), is (0, 1, 2)"),
        ("a" * 40 + ", bb, cc", "a" * 40 + ", cc, bb", "…" + "a" * 8 + ", bb, cc, is …" + "a" * 8 + ", cc, bb"),
    ],
)
def test_the_differences_are_shown_where_they_are(tmp_path, before, after, told):
    RunStore(tmp_path, {**KEY, "candidates": before}).close()
    with pytest.raises(FedskewError, match="candidates was") as caught:
        RunStore(tmp_path, {**KEY, "candidates": after})
    assert told in str(caught.value)


def test_other_rows_cannot_be_forced_and_only_an_accepted_run_begins(tmp_path):
    begun = []
    RunStore(tmp_path, KEY).close()
    with pytest.raises(FedskewError, match=r"a run on other rows: data was .*cannot be forced"):
        RunStore(tmp_path, {**KEY, "data": "b" * 64}, force=True, begun=lambda: begun.append("other rows"))
    RunStore(tmp_path, KEY, begun=lambda: begun.append("the same run")).close()
    assert begun == []
    RunStore(tmp_path, {**KEY, "rounds": "50"}, force=True, begun=lambda: begun.append("forced")).close()
    RunStore(tmp_path / "new", KEY, begun=lambda: begun.append("new")).close()
    assert begun == ["forced", "new"]


def test_a_second_coordinator_is_told_who_holds_the_run(tmp_path):
    first = RunStore(tmp_path, KEY)
    code = (
        "from pathlib import Path; from fedskew.engine.store import RunStore; import sys\n"
        "try: RunStore(Path(sys.argv[1]), {})\n"
        "except Exception as e: print(e.exit_code, e)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    first.close()
    assert done.stdout.startswith("3 ")
    assert f"process {os.getpid()}" in done.stdout


@pytest.mark.kills
def test_the_lock_of_a_dead_coordinator_is_free(tmp_path):
    code = "from pathlib import Path; from fedskew.engine.store import RunStore; import os, sys, signal\n"
    code += f"RunStore(Path(sys.argv[1]), {KEY!r}); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    RunStore(tmp_path, KEY).close()


def test_a_damaged_or_foreign_store_is_refused_and_kept(tmp_path):
    RunStore(tmp_path, KEY).close()
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(EnvironmentFaultError, match="cannot be used"):
        RunStore(tmp_path, KEY)
    assert path.read_bytes().startswith(b"not a database")


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    RunStore(tmp_path, KEY).close()
    with sqlite3.connect(tmp_path / "run.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(EnvironmentFaultError, match="version 99"):
        RunStore(tmp_path, KEY)


def test_a_run_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnvironmentFaultError, match="cannot make"):
        RunStore(tmp_path / "file", KEY)


def state(seed=0, seeds=2, parties=5):
    rng = np.random.default_rng(seed)
    own = PartyStore.empty(torch.from_numpy(rng.normal(size=(seeds, 4)).astype(np.float32)), parties)
    own.put(1, np.array([0, 3]), torch.ones(2, 4))
    weights = torch.from_numpy(rng.normal(size=(seeds, 16)).astype(np.float32))
    return RunState(weights, torch.zeros(seeds, 0, dtype=torch.float64), {"c": weights * 2}, {"c": own}, 7, {1: 3})


def test_a_state_comes_back_bit_for_bit():
    before = state()
    after = unpack(pack(before))
    assert after.round_ == 7
    assert after.diverged == {1: 3}
    assert after.weights.numpy().tobytes() == before.weights.numpy().tobytes()
    assert after.server["c"].numpy().tobytes() == before.server["c"].numpy().tobytes()
    everyone = np.arange(5)
    for place in (0, 1):
        assert torch.equal(after.own["c"].get(place, everyone), before.own["c"].get(place, everyone))
    assert pack(after) == pack(before)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_raises_nothing_but_our_own_error(place, change):
    content = pack(state())
    place %= len(content)
    mutant = content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]
    with contextlib.suppress(EnvironmentFaultError):  # it may even decode: the hash, checked before, is what protects
        unpack(mutant)


def test_the_hash_is_checked_on_reading(tmp_path):
    good = write_blob(tmp_path / "b", b"content")
    assert read_blob(tmp_path / "b", good) == b"content"
    (tmp_path / "b").write_bytes(b"Content")
    with pytest.raises(EnvironmentFaultError, match="damaged"):
        read_blob(tmp_path / "b", good)
    with pytest.raises(EnvironmentFaultError, match="cannot read"):
        read_blob(tmp_path / "gone", good)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    path = tmp_path / "b"
    write_blob(path, b"old")

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif call == "replace":
        monkeypatch.setattr("pathlib.Path.replace", fail)
    else:
        monkeypatch.setattr("pathlib.Path.open", fail)
    with pytest.raises(EnvironmentFaultError, match="No space left"):
        write_blob(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_obsolete_states_are_removed(tmp_path):
    store = RunStore(tmp_path, KEY)
    for first, name in ((0, "t-1"), (1, "t-2")):
        write_blob(tmp_path / "blobs" / name, b"x")
        store.commit("t", part(first, first + 1, state=name))
    store.close()
    assert [p.name for p in (tmp_path / "blobs").iterdir()] == ["t-2"]

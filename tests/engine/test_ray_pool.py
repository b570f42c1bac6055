"""What the Ray backend does on this side of the pipe, and what its workers do: no Ray is needed here."""

import importlib.util
import math
import multiprocessing
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedskew.advisor.arguments import training_options
from fedskew.engine import ray_task, validate
from fedskew.engine.algorithms import find_algorithm
from fedskew.engine.backends import check_backend
from fedskew.engine.plans import ModelSpec, Part, Trial
from fedskew.engine.ray_courier import _serve, gpus
from fedskew.engine.ray_pool import RayWorkers
from fedskew.engine.ray_task import check_versions, run_task
from fedskew.engine.settings import Settings
from fedskew.engine.splits import Prepared, arrays_of, prepare
from fedskew.engine.store import RunStore
from fedskew.engine.trials import run_trial
from fedskew.engine.versions import versions
from fedskew.profiles import EnvironmentFaultError, FedskewError, make_partition


def prepared() -> Prepared:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    return prepare(make_partition(rng.normal(size=(120, 4)) + y[:, None], y, np.repeat(np.arange(6), 20)))


def trial(name: str = "scaffold", device: str = "cpu") -> Trial:
    how = Settings(rounds=4, local_epochs=1, lr=0.1, participation=0.5, device=device)
    return Trial(find_algorithm(name), {}, how, (0, 1), ModelSpec("mlp", (4,), 3))


class Pipe:
    """A courier that answers what it was told to, and remembers what it was asked."""

    def __init__(self, *words: Any) -> None:
        self.words = list(words)
        self.asked: list[Any] = []

    def send(self, word: Any) -> None:
        self.asked.append(word)

    def recv(self) -> Any:
        if not self.words:
            raise EOFError
        word = self.words.pop(0)
        return word(self.asked) if callable(word) else word

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def workers(pipe: Any, store: RunStore | None = None, address: str | None = "auto") -> Iterator[RayWorkers]:
    """The coordinator's side alone: entering it would start a courier."""
    found = RayWorkers({"main": prepared()}, None, store, address)
    found._pipe = pipe
    try:
        yield found
    finally:
        found._stop(kill=False)
        found._folder.cleanup()


def honest(asked: list[Any]) -> Any:
    """Run the part asked for last."""
    number, what, state, seconds = asked[-1]
    return ("part", number, *run_task(what, prepared(), state, seconds, versions()))


@pytest.mark.parametrize(
    ("backend", "address", "told"),
    [
        ("spark", None, "unknown backend 'spark'"),
        ("rya", None, "did you mean 'ray'"),
        ("local", "auto", "belongs to --backend ray"),
        ("ray", "ray://10.0.0.5:10001", "neither 'auto' nor HOST:PORT"),
        ("ray", "10.0.0.5", "neither 'auto' nor HOST:PORT"),
    ],
)
def test_a_wrong_backend_or_address_is_told_before_any_work(backend: str, address: str | None, told: str) -> None:
    with pytest.raises(FedskewError, match=told) as caught:
        check_backend(backend, address)
    assert caught.value.exit_code == 2


def test_without_ray_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFaultError, match=r"pip install 'fedskew\[ray\]'") as caught:
        validate(make_partition(np.zeros((4, 1)), [0, 1, 0, 1], ["a", "a", "b", "b"]), ["fedavg"], backend="ray")
    assert caught.value.exit_code == 3


def test_the_command_line_hands_backend_and_address_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    names = ("rounds", "seeds", "local_epochs", "batch_size", "lr", "participation", "model", "max_rows", "jobs")
    blank: dict[str, Any] = dict.fromkeys((*names, "seed", "preset", "run", "set_"))
    blank |= {"algorithms": "all", "no_references": False, "no_tuning": False, "force_resume": False}
    told = training_options({**blank, "backend": "ray", "address": "10.0.0.5:6379"})
    assert (told["backend"], told["address"]) == ("ray", "10.0.0.5:6379")
    with pytest.raises(FedskewError, match="belongs to --backend ray"):
        training_options({**blank, "backend": "local", "address": "auto"})


def test_a_task_on_read_only_tables_gives_the_bits_of_a_plain_run_and_changes_no_table() -> None:
    data = prepared()
    before = {name: values.copy() for name, values in arrays_of(data).items()}
    for values in arrays_of(data).values():
        values.flags.writeable = False
    state: bytes | None = None
    parts: list[Part] = []
    while not parts or parts[-1].predicted is None:
        part, state = run_task(trial(), data, state, 0.0, versions())
        parts.append(part)
    expected = run_trial(trial(), prepared())
    assert [(part.first, part.last) for part in parts] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert state is None
    np.testing.assert_array_equal(np.concatenate([part.curves for part in parts], axis=2)[0], expected.score)
    np.testing.assert_array_equal(parts[-1].predicted, expected.predicted)
    for name, values in arrays_of(data).items():
        np.testing.assert_array_equal(values, before[name])


def test_a_worker_of_other_versions_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**versions(), "torch": "9.9.9", "code": "another"}
    monkeypatch.setattr(ray_task, "_mine", lambda: other)
    with pytest.raises(EnvironmentFaultError, match=r"code differs; torch is 9\.9\.9 there and"):
        run_task(trial(), prepared(), None, math.inf, versions())
    check_versions(versions(), versions())


def test_a_worker_finds_modules_where_the_asking_process_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lentmodel.py").write_text(
        "import torch\ndef make(shape, n):\n    return torch.nn.Linear(shape[0], n)\n"
    )
    monkeypatch.setattr("sys.path", [*sys.path])
    own = replace(trial("fedavg"), model=ModelSpec("lentmodel:make", (4,), 3))
    with pytest.raises(FedskewError, match="cannot be imported"):
        run_task(own, prepared(), None, math.inf, versions())
    assert run_task(own, prepared(), None, math.inf, versions(), [str(tmp_path)])[0].predicted is not None


def test_a_gpu_is_asked_for_only_by_trials_that_use_one() -> None:
    assert gpus(trial(), 0.0) == 0
    assert gpus(trial(device="cuda:1"), 2.0) == 1
    with pytest.raises(EnvironmentFaultError, match="the Ray cluster has none"):
        gpus(trial(device="cuda"), 0.0)


def test_a_task_sees_the_gpu_that_ray_gave_it_as_the_only_one() -> None:
    assert ray_task._placed(trial(device="cuda:3")).settings.device == "cuda"
    assert ray_task._placed(trial()) == trial()


def test_parts_are_committed_as_they_come_and_the_next_starts_from_the_state_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("fedskew.engine.ray_pool.SECONDS", 0.0)
    store = RunStore(tmp_path, {})
    pipe = Pipe(honest, honest, ("died", 0, "killed"), honest, honest)
    told: list[tuple[int, int, float]] = []
    with workers(pipe, store) as crew:
        (found,) = crew.run([trial()], lambda *word: told.append(word))
    expected = run_trial(trial(), prepared())
    np.testing.assert_array_equal(found.score, expected.score)
    np.testing.assert_array_equal(found.predicted, expected.predicted)
    assert [rounds for _, rounds, _ in told] == [1, 2, 3, 4]
    assert [part.last for part in store.parts(trial().key)] == [1, 2, 3, 4]
    assert len(pipe.asked) == 5, "the part that was lost is asked for again"
    assert pipe.asked[2][2] == pipe.asked[3][2] is not None
    assert not list((tmp_path / "blobs").iterdir()), "a finished trial needs no state"
    store.close()


def test_a_part_that_kills_its_worker_again_and_again_is_an_error_and_no_hang(tmp_path) -> None:
    store = RunStore(tmp_path, {})
    told = r"died 3 times while training scaffold \(out of memory\)"
    pipe = Pipe(*[("died", 0, "out of memory")] * 3)
    with workers(pipe, store) as crew, pytest.raises(EnvironmentFaultError, match=told):
        crew.run([trial()])
    store.close()


def test_a_part_without_memory_is_tried_again_and_costs_no_other_trial(tmp_path) -> None:
    store, lost = RunStore(tmp_path, {}), trial("fedavg")
    memory = ("error", 0, MemoryError())
    pipe = Pipe(memory, ("died", 0, "out of memory"), memory, honest)
    with workers(pipe, store) as crew, pytest.raises(EnvironmentFaultError, match=r"3 times while training fedavg"):
        crew.run([lost, trial()])
    assert not store.parts(lost.key)
    assert store.parts(trial().key)[-1].predicted is not None
    store.close()


def test_a_lost_cluster_says_that_what_was_committed_is_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("fedskew.engine.ray_pool.SECONDS", 0.0)
    store = RunStore(tmp_path, {})
    told = r"at 10\.0\.0\.5:6379 is lost.*kept: run the same command again"
    with workers(Pipe(honest), store, "10.0.0.5:6379") as crew, pytest.raises(EnvironmentFaultError, match=told):
        crew.run([trial()])
    assert [part.last for part in store.parts(trial().key)] == [1]
    store.close()


def test_without_a_run_folder_nothing_is_promised_to_be_kept() -> None:
    with (
        workers(Pipe(), None, None) as crew,
        pytest.raises(EnvironmentFaultError, match=r"started here is lost.*nothing"),
    ):
        crew.run([trial()])


def test_what_a_worker_raised_is_raised_here() -> None:
    pipe = Pipe(("error", 0, FedskewError("my own mistake")))
    with workers(pipe) as crew, pytest.raises(FedskewError, match="my own mistake"):
        crew.run([trial()])


def test_no_more_parts_are_asked_for_than_jobs_allow() -> None:
    most: list[int] = []
    running: list[Any] = []

    def answer(asked: list[Any]) -> Any:
        running[:] = asked[len(most) :]
        most.append(len(running))
        number, what, state, seconds = running[0]
        return ("part", number, *run_task(what, prepared(), state, seconds, versions()))

    with workers(Pipe(("ready", 64), *[answer] * 5)) as crew:
        crew._wanted = 2
        crew._met()
        crew.run([trial(name) for name in ("fedavg", "scaffold", "fedprox", "fednova", "feddyn")])
    assert crew.jobs == 2
    assert most == [2, 2, 2, 2, 1]


class Promise:
    def __init__(self, state: bytes) -> None:
        self.state = state


class InstantRay:
    """As much of Ray as the courier asks for; a task is done at once and gives its state back."""

    def remote(self, *words: Any) -> Any:
        return self if callable(words[0]) else Promise(words[2])

    def options(self, **_: Any) -> Any:
        return self

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return refs, []

    def get(self, ref: Any) -> tuple[str, bytes]:
        return "a part", ref.state

    exceptions = SimpleNamespace(RayTaskError=RuntimeError, RayError=RuntimeError, OutOfMemoryError=RuntimeError)


@pytest.mark.timeout(60)
def test_large_states_that_cross_in_the_pipe_hold_nobody_up() -> None:
    here, there = multiprocessing.Pipe()
    serving = threading.Thread(target=_serve, args=(InstantRay(), there, {"main": None}), daemon=True)
    serving.start()
    for number in range(4):  # none is read before all are written
        here.send((number, trial(), bytes(3_000_000), 1.0))
    assert [here.recv()[:3] for _ in range(4)] == [("part", number, "a part") for number in range(4)]
    here.close()
    serving.join(10)
    assert not serving.is_alive(), "it ends with the coordinator"
    there.close()


@pytest.mark.parametrize(
    ("reason", "address", "told"),
    [
        ("InvalidAuthToken: token is missing", "10.0.0.5:6379", "RAY_AUTH_MODE=token"),
        ("Failed to connect", "10.0.0.5:6379", "`ray status` show it"),
        ("no port", None, "try --backend local"),
        ("nothing answers", "10.0.0.5:6379", "`ray status` show it"),
    ],
)
def test_a_cluster_that_cannot_be_had_says_what_to_try(reason: str, address: str | None, told: str) -> None:
    pipe = Pipe() if reason == "nothing answers" else Pipe(("cannot", reason))
    with workers(pipe, None, address) as crew, pytest.raises(EnvironmentFaultError, match=told) as caught:
        crew._met()
    assert reason in str(caught.value)


def test_a_function_of_the_users_script_is_refused_with_what_to_do() -> None:
    there = Trial(find_algorithm("fedavg"), {}, Settings(), (0,), ModelSpec("__main__:make", (4,), 3))
    with workers(Pipe()) as crew, pytest.raises(FedskewError, match="put them in a module"):
        crew.run([there])


def test_a_trial_that_is_already_finished_asks_for_nothing(tmp_path) -> None:
    store = RunStore(tmp_path, {})
    part, _ = run_task(trial(), prepared(), None, math.inf, versions())
    assert isinstance(part, Part)
    store.commit(trial().key, part)
    pipe = Pipe()
    with workers(pipe, store) as crew:
        (found,) = crew.run([trial()])
    assert pipe.asked == []
    np.testing.assert_array_equal(found.score, part.curves[0])
    store.close()

"""The exported Flower app: its files, its numbers against the engine's, its refusals. Flower itself: tests/flower."""

import ast
import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedskew.advisor import read_report, recommend
from fedskew.advisor.export import app_files, carried, export_answer, export_flower
from fedskew.advisor.exported import Choice, choose
from fedskew.advisor.reporting import Report
from fedskew.engine.algorithms import ALGORITHMS, find_algorithm
from fedskew.engine.algorithms.base import Update
from fedskew.profiles.errors import FedskewError

from .made_records import PAYLOADS, full_report  # noqa: TID252

FLOWER = Path(__file__).resolve().parents[1] / "flower"
if str(FLOWER) not in sys.path:
    sys.path.insert(0, str(FLOWER))
oracle = import_module("flower_oracle")

IDS = [a.name for a in ALGORITHMS] + ["fedavg+wsm", "scaffold+wsm"]
TOLERANCE = 1e-10  # the promise; float64 sums in another order differ by about 1e-15
CASES: list[tuple[str, str, dict[str, Any]]] = [(name, "wide_mlp", {}) for name in IDS] + [
    *((name, "norm_net:factory", {}) for name in ("fedavg", "fedbn", "scaffold", "moon", "fednova")),
    *((name, "mlp", {"participation": 0.5}) for name in ("fedavg", "scaffold", "feddyn", "moon", "fedadam")),
]


@pytest.fixture(scope="module")
def silo_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "silos"
    oracle.write_silos(oracle.silos(), folder)
    return folder


def config_of(app: Path, silos: Path, **changes: Any) -> dict[str, Any]:
    """The config as Flower hands it to the app: nested tables flattened with dots, then the changes."""
    read = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    own = {f"algorithm.{name}": value for name, value in read.pop("algorithm", {}).items()}
    return {**read, **own, "data": str(silos), "output": str(app / "output"), **changes}


class Running:
    """An exported app, loaded beside a double of Flower and taken out again."""

    def __init__(self, app: Path, config: dict[str, Any]) -> None:
        self.app, self.config = app, config
        self.paths = [str(app), str(FLOWER / "double")]

    def __enter__(self):
        sys.path[:0] = self.paths
        self.client = import_module("federation.client_app").app
        self.server = import_module("federation.server_app").app
        self.grid = import_module("flwr.serverapp").Grid(self.client, oracle.PARTIES, self.config)
        return self

    def __exit__(self, *_: object) -> None:
        del sys.path[: len(self.paths)]
        for name in [m for m in sys.modules if m.split(".")[0] in {"federation", "flwr"}]:
            del sys.modules[name]

    def run(self) -> dict[str, Any]:
        context = import_module("flwr.app").Context({}, self.config)
        self.server.function(self.grid, context)
        return self.status()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.app / "output" / "status.json").read_text())
        return found


def exported(tmp_path: Path, silos: Path, what: Choice, **changes: Any) -> Running:
    export_flower(what, tmp_path / "app")
    return Running(tmp_path / "app", config_of(tmp_path / "app", silos, **changes))


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(("name", "model", "changes"), CASES, ids=str)
def test_the_app_gives_the_engines_weights_and_test_loss(name, model, changes, tmp_path, silo_files):
    what = oracle.choice(name, model, **changes)
    wanted, losses = oracle.reference(what)
    with exported(tmp_path, silo_files, what) as app:
        status = app.run()
    assert status["status"] == "completed"
    assert len(status["rounds"]) == oracle.ROUNDS
    found = np.load(tmp_path / "app" / "output" / "weights.npz")
    assert oracle.apart(found, wanted) < TOLERANCE
    assert status["rounds"][-1]["loss"] == pytest.approx(losses[-1], rel=1e-9)


def test_every_algorithm_but_fedbn_ends_elsewhere_than_fedavg_so_that_equality_means_something():
    plain, _ = oracle.reference(oracle.choice("fedavg"))
    for name in IDS:
        if name not in {"fedavg", "fedbn"}:  # without BatchNorm FedBN is FedAvg
            assert oracle.apart(oracle.reference(oracle.choice(name))[0], plain) > 1e-5, name


@pytest.mark.parametrize("name", [a.name for a in ALGORITHMS])
def test_a_partys_state_and_the_servers_step_do_not_need_each_other(name):
    import torch

    algorithm = find_algorithm(name)
    rng = torch.Generator().manual_seed(3)

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    start, trained, steps = drawn(1, 6), drawn(3, 6), torch.tensor([[2.0], [5.0], [9.0]], dtype=torch.float64)
    share = torch.tensor([[0.2], [0.3], [0.5]], dtype=torch.float64)
    fresh = algorithm.init(start[0], algorithm.hyper)
    server = {n: drawn(*rows.shape).abs() for n, rows in fresh.server.items()}
    own = {n: drawn(3, rows.shape[-1]) for n, rows in fresh.own.items()}
    whole = algorithm.aggregate(Update(start, trained, share, steps, own, server, 3, 0.1, 0.9), algorithm.hyper)
    zeros = {n: rows * 0 for n, rows in own.items()}
    blind = algorithm.aggregate(Update(start, trained, share, steps, zeros, server, 3, 0.1, 0.9), algorithm.hyper)
    assert torch.equal(whole.weights, blind.weights)
    assert all(torch.equal(whole.server[n], blind.server[n]) for n in whole.server)
    sent = server if algorithm.traffic > 1 else fresh.server  # what a party knows of the server's state
    for i in range(3):
        one, mine = slice(i, i + 1), {n: rows[i : i + 1] for n, rows in own.items()}
        alone = algorithm.aggregate(
            Update(start, trained[one], share[one] * 0 + 1, steps[one], mine, sent, 1, 0.1, 0.9), algorithm.hyper
        )
        for n in whole.own:
            torch.testing.assert_close(alone.own[n], whole.own[n][one], rtol=1e-14, atol=1e-14)


def test_columns_are_scaled_as_the_engine_scales_them(tmp_path, silo_files):
    from fedskew.profiles import make_partition
    from fedskew.profiles.encoding import encode, scaling

    rng = np.random.default_rng(1)
    x = rng.normal(5, 3, (90, 5)).astype(np.float32)
    x[:, 1], x[:, 2], x[::7, 3] = rng.integers(0, 2, 90), 4.0, np.nan
    table = make_partition(x, rng.integers(0, 2, 90), np.repeat(["a", "b", "c"], [20, 30, 40]))
    wanted = encode(table.features, scaling(table))
    with exported(tmp_path, silo_files, oracle.choice("fedavg")):
        app = import_module("federation.scaling")
        how = app.merge([app.moments(table.features[table.rows_of(p)]) for p in range(3)])
        found = app.apply(table.features, how)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert set(np.unique(found[:, 1])) == {0.0, 1.0}
    assert not found[:, 2].any()


# ---------------------------------------------------------------- failures are loud


def broken(status: dict[str, Any]) -> str:
    assert status["status"] == "failed"
    return str(status["reason"])


def test_one_party_with_weights_that_are_no_numbers_ends_the_run_by_name(tmp_path, silo_files):
    what = oracle.choice("fedavg")
    with exported(tmp_path, silo_files, what) as app:
        records = import_module("federation.records")
        poisoned = list(app.grid.contexts)[2]

        def tamper(node: int, kind: str, reply: Any) -> Any:
            if node == poisoned and kind == "train":
                model = records.tensors_of(reply.content["model"])
                model["weights"][0, 3] = float("nan")
                reply.content["model"] = records.packed(model)
            return reply

        app.grid.tamper = tamper
        name = sorted(f.stem for f in silo_files.iterdir())[2]
        with pytest.raises(RuntimeError, match=f"^{name} sent weights that are not finite in round 1"):
            app.run()
        assert "not finite" in broken(app.status())
    assert not (tmp_path / "app" / "output" / "weights.npz").exists()


def test_a_party_whose_own_training_diverges_says_so_and_ends_the_run(tmp_path, silo_files):
    with exported(tmp_path, silo_files, oracle.choice("fedavg"), lr=1e200) as app:
        with pytest.raises(RuntimeError, match="weights are not finite after round 1; try a smaller lr"):
            app.run()
        assert "failed to train" in broken(app.status())


def test_one_party_that_does_not_answer_in_time_ends_the_run_by_name(tmp_path, silo_files):
    with exported(tmp_path, silo_files, oracle.choice("fedavg")) as app:
        slow = list(app.grid.contexts)[1]
        app.grid.tamper = lambda node, kind, reply: None if (node, kind) == (slow, "train") else reply
        name = sorted(f.stem for f in silo_files.iterdir())[1]
        with pytest.raises(RuntimeError, match=rf"no reply to train within 3600\.0 seconds from {name}$"):
            app.run()
        assert name in broken(app.status())


def test_too_few_parties_end_the_run_before_its_first_round(tmp_path, silo_files):
    with exported(tmp_path, silo_files, oracle.choice("fedavg"), **{"join-seconds": 0.01}) as app:
        del app.grid.contexts[next(iter(app.grid.contexts))]
        with pytest.raises(RuntimeError, match="3 of 4 parties joined"):
            app.run()


def test_two_parties_of_one_name_end_the_run(tmp_path, silo_files):
    with exported(tmp_path, silo_files, oracle.choice("fedavg")) as app:
        for context in list(app.grid.contexts.values())[:2]:
            context.node_config["party"] = "same"
        with pytest.raises(RuntimeError, match="party names must differ"):
            app.run()


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "moon"])
def test_state_that_a_party_lost_ends_the_run_or_starts_anew_as_asked(name, tmp_path, silo_files):
    def lose(app: Running) -> None:
        victim = next(iter(app.grid.contexts))

        def tamper(node: int, kind: str, reply: Any) -> Any:
            if node == victim and kind == "train":
                app.grid.contexts[victim].state.clear()
            return reply

        app.grid.tamper = tamper

    with exported(tmp_path, silo_files, oracle.choice(name)) as app:
        lose(app)
        with pytest.raises(RuntimeError, match="its state is of round 0"):
            app.run()
    (tmp_path / "again").mkdir()
    with exported(tmp_path / "again", silo_files, oracle.choice(name), **{"on-lost-state": "restart"}) as app:
        lose(app)
        assert app.run()["status"] == "completed"


def test_a_config_out_of_range_is_refused_before_anything_starts(tmp_path, silo_files):
    for name, value in {"lr": 0.0, "participation": 1.5, "dtype": "int8", "on-lost-state": "hope"}.items():
        folder = tmp_path / name
        folder.mkdir()
        with (
            exported(folder, silo_files, oracle.choice("fedavg"), **{name: value}) as app,
            pytest.raises(ValueError, match=f"^{name} is "),
        ):
            app.run()


def test_labels_that_are_no_codes_are_refused_at_the_party(tmp_path, silo_files):
    with exported(tmp_path, silo_files, oracle.choice("fedavg")):
        data = import_module("federation.data")
        empty = np.zeros((0, 3))
        silo = data.Silo("a", np.zeros((2, 3)), np.array([0, 10]), empty, empty[:, 0].astype(int))
        with pytest.raises(ValueError, match="codes 0 to 9"):
            data.check(silo)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("model", ["mlp", "cnn", "resnet18_bn"])
def test_the_app_is_complete_and_imports_nothing_but_itself_flower_numpy_and_torch(name, model):
    texts = app_files(oracle.choice(name, model))
    assert {"pyproject.toml", "README.md", "federation/server_app.py", "federation/client_app.py"} <= set(texts)
    inside = {Path(path).stem for path in texts if path.startswith("federation/")}
    for path, text in texts.items():
        if not path.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text, path)):
            if isinstance(node, ast.Import):
                roots = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module is not None
                roots = {node.module.split(".")[0]}
                if node.module.startswith("federation."):
                    assert node.module.split(".")[1] in inside, (path, node.module)
                if node.module == "federation":
                    assert {alias.name for alias in node.names} <= inside, path
            else:
                continue
            assert roots <= {"federation", "flwr", "numpy", "torch"} | sys.stdlib_module_names, (path, roots)


def test_the_app_passes_a_linter_with_default_rules_and_is_formatted(tmp_path):
    export_flower(oracle.choice("scaffold+wsm", "resnet18"), tmp_path / "app")
    ruff = [sys.executable, "-m", "ruff"]
    rules = ["--isolated", "--line-length=120", "--no-cache"]
    for command in (["check", "--select=E,F,W,B,UP,D1", "--ignore=D105,D107"], ["format", "--check"]):
        done = subprocess.run(
            [*ruff, *command, *rules, str(tmp_path / "app")], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_one_place_to_fill_in_and_the_readme_names_both_commands():
    texts = app_files(oracle.choice("fedavg"))
    assert sum(text.count("LOAD THE SILO'S DATA HERE") for text in texts.values()) == 1
    assert 'flwr run . local --stream --federation-config "num-supernodes=4"' in texts["README.md"]
    assert "flower-supernode" in texts["README.md"]


def test_the_pyproject_is_what_flower_wants_and_has_no_federations_table():
    read = tomllib.loads(app_files(oracle.choice("fedprox"))["pyproject.toml"])
    assert {"name", "version", "license", "requires-python", "dependencies"} <= set(read["project"])
    flower = read["tool"]["flwr"]
    assert flower["app"]["components"] == {
        "serverapp": "federation.server_app:app",
        "clientapp": "federation.client_app:app",
    }
    assert "federations" not in flower
    assert flower["app"]["config"]["algorithm"] == {"mu": 0.1}
    assert all(isinstance(v, bool | int | float | str | dict) for v in flower["app"]["config"].values())


@pytest.mark.parametrize("name", [*PAYLOADS, 'a"""b', "\\", "😀", "x\n[tool]", "'''"])
def test_names_stay_names_whatever_stands_in_them(name):
    base = oracle.choice("fedavg")
    what = Choice(
        algorithm=base.algorithm, hyper={}, parties=2, model="mlp", classes=(name, "b"), why=f"Because {name} holds."
    )
    texts = app_files(what)
    assigned = {
        node.targets[0].id: node.value
        for node in ast.parse(texts["federation/choice.py"]).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert ast.literal_eval(assigned["CLASSES"]) == (name, "b")
    assert tomllib.loads(texts["pyproject.toml"])["tool"]["flwr"]["app"]["config"]["parties"] == 2
    for text in texts.values():
        text.encode()
    assert "<script>" not in texts["README.md"]


def test_a_users_own_network_travels_along_or_is_named_as_missing():
    texts = app_files(oracle.choice("fedavg", "norm_net:factory"))
    assert texts["federation/norm_net_model.py"] == (FLOWER / "norm_net.py").read_text()
    far = app_files(oracle.choice("fedavg", "some.where:net"))
    assert "from some.where import net as NETWORK" in far["federation/choice.py"]
    assert "must be installed" in far["README.md"]
    with pytest.raises(FedskewError, match="module:factory"):
        app_files(oracle.choice("fedavg", "os;evil:net"))


def test_carried_text_loses_its_doctests_and_its_checkers_notes():
    text = 'def f():\n    """One.\n\n    Examples\n    --------\n    >>> f()\n    """\n    return 1  # noqa: E1\n'
    assert carried(text) == 'def f():\n    """One.\n    """\n    return 1\n'


def test_a_folder_with_files_in_it_is_left_alone(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "mine").write_text("x")
    with pytest.raises(FedskewError, match="not empty"):
        export_flower(oracle.choice("fedavg"), tmp_path / "app")
    assert [p.name for p in (tmp_path / "app").iterdir()] == ["mine"]


# ---------------------------------------------------------------- what is exported


def test_a_recommendation_is_exported_with_its_start_and_network(profile_of):
    advice = recommend(profile_of("label_count", k=2, parties=6, modality="image"), local_epochs=3)
    what = choose(read_report(advice.to_json()))
    assert (what.algorithm.name, what.parties, what.model, what.local_epochs) == (advice.algorithm, 6, "cnn", 3)
    assert what.classes == advice.profile.class_names
    assert what.why == advice.sentence


def test_another_algorithm_can_be_asked_for_and_brings_its_own_start(profile_of):
    advice = recommend(profile_of("label_count", k=2))
    what = choose(Report(recommendation=advice), "fedadam+wsm")
    assert what.algorithm.name == "fedadam+wsm"
    assert what.hyper == find_algorithm("fedadam").hyper
    assert what.weight_decay == 1e-5  # of the local SGD; the server's has a name of its own
    with pytest.raises(FedskewError, match="unknown algorithm"):
        choose(Report(recommendation=advice), "fedsgd")


def judged(kind: str, winner: str | None, recommended: str = "fedavg") -> Report:
    """A whole report with a verdict."""
    found = full_report()
    assert found.validation is not None
    verdict = msgspec.structs.replace(found.validation.verdict, kind=kind, winner=winner)
    tuned = [
        msgspec.structs.replace(c, hyperparameters={"lr": 0.07, "momentum": 0.5, "lineage": "published"})
        if c.algorithm == "scaffold"
        else c
        for c in found.validation.candidates
    ]
    validation = msgspec.structs.replace(
        found.validation, verdict=verdict, candidates=tuple(tuned), recommended=recommended
    )
    return Report(profile=found.data, recommendation=found.recommendation, validation=validation)


def test_the_verdicts_winner_is_exported_with_its_tuned_hyperparameters():
    what = choose(judged("overturned", "scaffold"))
    assert (what.algorithm.name, what.lr, what.momentum) == ("scaffold", 0.07, 0.5)
    assert dict(what.hyper) == {"lineage": "published"}
    assert (what.rounds, what.local_epochs, what.model) == (4, 2, "mlp")


def test_without_a_winner_the_recommended_one_is_exported():
    assert choose(judged("cannot_tell", None, "fednova")).algorithm.name == "fednova"


def test_where_all_failed_nothing_is_exported_unless_asked_for():
    with pytest.raises(FedskewError, match=r"no candidate succeeded.*--algorithm NAME"):
        choose(judged("all_failed", None))
    assert choose(judged("all_failed", None), "fedprox").algorithm.name == "fedprox"


def test_advice_that_does_not_hold_is_not_exported_unless_asked_for(profile_of):
    advice = msgspec.structs.replace(recommend(profile_of("quantity")), void="labels are missing")
    with pytest.raises(FedskewError, match=r"labels are missing.*--algorithm NAME"):
        choose(Report(recommendation=advice))
    assert choose(Report(recommendation=advice), "fedavg").algorithm.name == "fedavg"


def test_a_document_that_does_not_say_enough_is_refused_in_one_line(profile_of):
    whole = judged("confirmed", None)
    assert whole.validation is not None
    with pytest.raises(FedskewError, match="does not name the classes"):
        choose(Report(validation=whole.validation))
    with pytest.raises(FedskewError, match="neither a recommendation nor a validation"):
        choose(Report(profile=profile_of("quantity")))
    nameless = msgspec.structs.replace(whole.validation, settings={"rounds": 4})
    with pytest.raises(FedskewError, match="does not name its model"):
        choose(Report(profile=whole.data, validation=nameless))
    wrong = msgspec.structs.replace(whole.validation, settings={"rounds": "many", "model": "mlp"})
    with pytest.raises(FedskewError, match="settings"):
        choose(Report(profile=whole.data, validation=wrong))


def test_a_continuous_target_is_exported_without_classes(profile_of):
    what = choose(Report(recommendation=recommend(profile_of("quantity", task="regression"))))
    assert what.classes == ()
    assert "CLASSES: tuple[str, ...] = ()" in app_files(what)["federation/choice.py"]


# ---------------------------------------------------------------- the command


def command(*arguments: object) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "fedskew", "export", "flower", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_command_exports_a_finished_run_folder(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "answer.json").write_text(judged("overturned", "scaffold").to_json())
    done = command(run, "--out", tmp_path / "app")
    assert (done.returncode, done.stderr) == (0, "")
    assert "SCAFFOLD for 4 parties" in done.stdout
    assert (tmp_path / "app" / "federation" / "scaffold.py").is_file()
    with pytest.raises(FedskewError, match="not empty"):
        export_answer(run, tmp_path / "app")
    export_answer(run, tmp_path / "other", "feddyn+wsm")
    assert (tmp_path / "other" / "federation" / "wsm.py").is_file()


def test_the_command_refuses_in_one_line_what_it_cannot_export(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.json").write_text("[1]")
    done = command(tmp_path / "x.json", "--out", tmp_path / "app")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    for source in (tmp_path / "empty", tmp_path / "x.json", tmp_path / "none.json"):
        with pytest.raises(FedskewError):
            export_answer(source, tmp_path / "app")
    assert not (tmp_path / "app").exists()

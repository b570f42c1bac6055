"""A run folder goes on with the user's own code only where that code is what began the run."""

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedskew.engine import validate
from fedskew.engine.algorithms import ALGORITHMS, find_algorithm
from fedskew.engine.algorithms.base import Hyper, Next, Update, weighted_mean
from fedskew.engine.fingerprints import own_code
from fedskew.engine.plans import ModelSpec, Trial
from fedskew.engine.settings import Settings
from fedskew.profiles import FedskewError, make_partition

FAST: Any = {"tuning": False, "rounds": 2, "seeds": 1, "jobs": 1, "model": "linear", "references": False}


def learns(update: Update, hyper: Hyper) -> Next:
    return weighted_mean(update, hyper)


def stays(update: Update, hyper: Hyper) -> Next:
    return Next(update.start.squeeze(-2))


def toy():
    labels = np.tile([0, 1], 40)
    return make_partition(labels[:, None] + np.linspace(0, 0.1, 80)[:, None], labels, np.repeat(["a", "b"], 40))


def mine(aggregate):
    return replace(find_algorithm("fedavg"), name="mine", title="Mine", aggregate=aggregate)


def test_what_the_package_ships_has_no_code_of_the_users():
    for algorithm in ALGORITHMS:
        assert own_code(algorithm, "mlp") == ""
    assert own_code(replace(find_algorithm("fedprox"), name="fedprox mu=1"), "cnn") == ""


def test_another_function_constant_or_closure_is_other_code():
    def scaled(by):
        return lambda update, hyper: Next(update.start.squeeze(-2) * by)

    found = [
        own_code(mine(one), "mlp") for one in (learns, stays, scaled(0.5), scaled(0.25), partial(learns, hyper={}))
    ]
    assert len(set(found)) == len(found)
    assert own_code(mine(scaled(0.5)), "mlp") == found[2]


PROCESS = """
from dataclasses import replace
from fedskew.engine.algorithms import find_algorithm
from fedskew.engine.fingerprints import own_code
from fedskew.engine.plans import ModelSpec, Trial
from fedskew.engine.settings import Settings
class Odd: pass
def made(odd, by):
    def again(update, hyper):
        return again if hyper in {"a", "b", "c", "d"} or odd else by(update)
    return again
mine = replace(find_algorithm("fedavg"), name="mine", aggregate=made(Odd(), lambda update: {1: update}))
print(own_code(mine, "mlp"))
"""


def test_the_hash_is_the_same_in_every_process_whatever_the_code_holds():
    found = {
        subprocess.run(
            [sys.executable, "-c", PROCESS],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == 32


def test_a_run_with_changed_code_under_the_same_name_is_refused(tmp_path):
    validate(toy(), ["fedavg", mine(learns)], run=tmp_path, **FAST)
    with pytest.raises(FedskewError, match="own code was"):
        validate(toy(), ["fedavg", mine(stays)], run=tmp_path, **FAST)


def test_by_force_the_changed_algorithm_is_trained_anew(tmp_path):
    validate(toy(), ["fedavg", mine(learns)], run=tmp_path, **FAST)
    forced = validate(toy(), ["fedavg", mine(stays)], run=tmp_path, force_resume=True, **FAST)
    fresh = validate(toy(), ["fedavg", mine(stays)], **FAST)
    assert [c.accuracy for c in forced.candidates] == [c.accuracy for c in fresh.candidates]


def test_a_changed_model_factory_is_other_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "homemade.py").write_text("def net(shape, outputs): return 1\n")
    before = own_code(find_algorithm("fedavg"), "homemade:net")
    (tmp_path / "homemade.py").write_text("def net(shape, outputs): return 22\n")
    assert before
    assert own_code(find_algorithm("fedavg"), "homemade:net") != before
    assert own_code(find_algorithm("fedavg"), "nowhere_at_all:net") == ""
    assert "homemade" not in sys.modules


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("from apart_layers import body", "apart_layers.py"),
        ("def net(shape, outputs):\n    import apart_kit.inner as inner", "apart_kit/inner.py"),
        ("from apart_kit import near", "apart_kit/deep.py"),
    ],
)
def test_a_changed_module_that_a_factory_imports_is_other_code(tmp_path, monkeypatch, text, imported):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "apart_net.py").write_text(f"import math, numpy, fedskew.engine\n{text}\n")
    (tmp_path / "apart_kit").mkdir()
    (tmp_path / "apart_kit" / "near.py").write_text("from .deep import DEEP\n")
    for name in ("apart_layers.py", "apart_kit/__init__.py", "apart_kit/inner.py", "apart_kit/deep.py"):
        (tmp_path / name).write_text("WIDTH = 1\n")
    before = own_code(find_algorithm("fedavg"), "apart_net:net")
    assert own_code(find_algorithm("fedavg"), "apart_net:net") == before
    (tmp_path / imported).write_text("WIDTH = 2\n")
    assert own_code(find_algorithm("fedavg"), "apart_net:net") != before
    assert not {name for name in sys.modules if name.startswith("apart_")}


def test_a_changed_helper_of_a_function_is_other_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "far_rule.py").write_text("import far_help\ndef rule(u, h): return far_help.rule(u, h)\n")
    (tmp_path / "far_help.py").write_text("def rule(u, h): return 1\n")
    for name in ("far_rule", "far_help"):  # as they were
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    rule = importlib.import_module("far_rule").rule
    before = own_code(mine(rule), "mlp")
    (tmp_path / "far_help.py").write_text("def rule(u, h): return 22\n")
    assert own_code(mine(rule), "mlp") != before


def test_a_changed_name_of_a_session_is_other_code():
    def typed(text):
        names: dict[str, Any] = {}
        exec(text + "\ndef rule(u, h): return help(u) * RATE", names)
        return own_code(mine(names["rule"]), "mlp")

    texts = [f"RATE = {rate}\ndef help(u): return {back}" for rate in (1, 2) for back in (3, 4)]
    assert len({typed(text) for text in texts}) == 4
    assert typed(texts[0]) == typed(texts[0])


def test_a_run_with_a_changed_trait_under_the_same_name_is_refused(tmp_path):
    one = mine(learns)
    validate(toy(), ["fedavg", one], run=tmp_path, **FAST)
    with pytest.raises(FedskewError, match=r"traits was mine\.steady=False, is mine\.steady=True\."):
        validate(toy(), ["fedavg", replace(one, steady=True)], run=tmp_path, **FAST)
    found = [Trial(a, {}, Settings(), (0,), ModelSpec("mlp", (2,), 2)).key for a in (one, replace(one, steady=True))]
    assert found[0] != found[1]

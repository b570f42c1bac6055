"""What the engine makes of the demo's silos, and silo files of the same rows: the oracle of exported apps."""

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedskew.advisor import demo_partition
from fedskew.advisor.exported import Choice
from fedskew.engine.algorithms import find_algorithm
from fedskew.engine.plans import ModelSpec, Trial
from fedskew.engine.settings import Settings
from fedskew.engine.splits import Prepared, hold_out, prepare
from fedskew.engine.training import Run
from fedskew.engine.trials import run_part, started
from fedskew.profiles import make_partition
from fedskew.profiles.partitions import Partition

PARTIES, ROUNDS, SEED = 4, 3, 5
SETTINGS = Settings(rounds=ROUNDS, local_epochs=2, batch_size=32, lr=0.03, dtype="float64")
HYPER: Mapping[str, Mapping[str, float | str]] = {
    "fedprox": {"mu": 0.1},
    "feddyn": {"alpha": 0.1},
    "moon": {"mu": 1.0},
    "fedavgm": {"server_momentum": 0.5},
    "fedadam": {"server_lr": 0.03},
    "fedyogi": {"server_lr": 0.03},
    "fedadagrad": {"server_lr": 0.03},
}
"""Settings under which the algorithm's own terms show."""


def silos() -> Partition:
    """The first four silos of the demo, cut short to unlike sizes, so that local steps differ."""
    demo = demo_partition()
    keep = np.concatenate([np.arange(demo.rows)[demo.rows_of(p)][: (160, 50, 120, 70)[p]] for p in range(PARTIES)])
    return make_partition(
        demo.features[keep],
        demo.labels[keep],
        demo.party[keep],
        class_names=demo.class_names,
        party_names=demo.party_names[:PARTIES],
    )


def write_silos(table: Partition, folder: Path) -> None:
    """Write one npz file a silo, features as they came."""
    split = hold_out(table)
    assert split.test is not None
    assert split.test.party is not None
    folder.mkdir(parents=True)
    for place, name in enumerate(split.party_names):
        mine, tested = split.rows_of(place), split.test.party == place
        arrays = {"x": split.features[mine], "y": split.labels[mine]}
        test = {"test_x": split.test.features[tested], "test_y": split.test.labels[tested]}
        np.savez(folder / f"{name}.npz", **arrays, **test)


def choice(name: str, model: str = "wide_mlp", **changes: Any) -> Choice:
    """What is exported for an algorithm, with the settings of the engine's run."""
    algorithm = find_algorithm(name)
    how = Settings(**{**{f: getattr(SETTINGS, f) for f in Settings.__struct_fields__}, **changes})
    return Choice(
        algorithm=algorithm,
        hyper={**algorithm.hyper, **HYPER.get(name.removesuffix("+wsm"), {})},
        parties=PARTIES,
        model=model,
        classes=silos().class_names,
        why="A test.",
        rounds=how.rounds,
        local_epochs=how.local_epochs,
        batch_size=how.batch_size,
        lr=how.lr,
        momentum=how.momentum,
        weight_decay=how.weight_decay,
        participation=how.participation,
        seed=SEED,
        dtype=how.dtype,
    )


def engine_run(what: Choice, data: Prepared) -> tuple[Run, list[float]]:
    """The engine's run of a choice, and the test loss after its last round."""
    if str(Path(__file__).parent) not in sys.path:
        sys.path.insert(0, str(Path(__file__).parent))  # for norm_net
    fields = {f: getattr(what, f) for f in Settings.__struct_fields__ if hasattr(what, f)}
    spec = ModelSpec(what.model, data.x.shape[1:], data.classes)
    trial = Trial(what.algorithm, dict(what.hyper), Settings(**fields), (SEED,), spec)
    part, state = run_part(trial, data)
    run = started(trial, data)
    run.state = state
    return run, part.curves[2, 0].tolist()


def engine_weights(run: Run) -> dict[str, np.ndarray[Any, Any]]:
    """The engine's final global model by the names of the network's state_dict."""
    layout = run.network.layout
    views = zip(layout.names, layout.views(run.state.weights), strict=True)
    kept = zip(layout.buffer_names, layout.buffer_views(run.state.buffers), strict=True)
    return {name: view[0].numpy() for name, view in [*views, *kept]}


def apart(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """Largest difference of two models, relative to the largest weight; names must be the same."""
    assert set(found) == set(wanted)
    scale = max(float(np.abs(v).max()) for v in wanted.values())
    return max(float(np.abs(np.asarray(found[n], float) - wanted[n]).max()) for n in wanted) / scale


@cache
def _reference(name: str, model: str, participation: float) -> tuple[dict[str, np.ndarray[Any, Any]], list[float]]:
    torch.set_num_threads(1)
    run, losses = engine_run(choice(name, model, participation=participation), prepare(silos()))
    return engine_weights(run), losses


def reference(what: Choice) -> tuple[dict[str, np.ndarray[Any, Any]], list[float]]:
    """The engine's final weights and its test losses, of a choice made by :func:`choice`."""
    return _reference(what.algorithm.name, what.model, what.participation)

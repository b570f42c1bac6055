"""The three commands of Federated Learning Baselines, as options of ours: what they parse to, and that they run.

CIFAR-10, 450 parties, share .023 of them a round, 4,000 rounds, one local epoch, batches of 20, no local momentum,
weight decay 1e-5, ResNet-18 with GroupNorm; FedAvg with client rate .03, FedAvgM with .003, server momentum .9 and
server rate 1, FedAdam in torch's form with .1, server rate .001, betas .9 and .999, eps 1e-8, L2 of 1e-5.
"""

import numpy as np
import pytest

from fedskew.advisor import arguments
from fedskew.engine import find_algorithm, validation
from fedskew.engine.blocks import Data
from fedskew.engine.plans import ModelSpec
from fedskew.engine.settings import Settings, changed_settings
from fedskew.engine.training import Federation, begin, cohort
from fedskew.profiles import FedskewError, make_partition
from fedskew.profiles.keyed import generator

COMMON = {
    "rounds": 4000,
    "local_epochs": 1,
    "batch_size": 20,
    "participation": 0.023,
    "model": "resnet18",
    "algorithms": "fedavg,fedavgm,fedadam",
}
SET = [
    "training.momentum=0",
    "training.weight_decay=1e-5",
    "training.transforms=crop,flip,normalise",
    "fedavg.lr=0.03",
    "fedavgm.lr=0.003",
    "fedavgm.server_lr=1",
    "fedavgm.server_momentum=0.9",
    "fedadam.lr=0.1",
    "fedadam.form=torch",
    "fedadam.server_lr=0.001",
    "fedadam.beta1=0.9",
    "fedadam.beta2=0.999",
    "fedadam.tau=1e-8",
    "fedadam.server_weight_decay=1e-5",
]


def parsed(sets=SET, **changes):
    """What the command line hands to validate()."""
    blank = dict.fromkeys(
        ("seeds", "lr", "max_rows", "jobs", "seed", "preset", "run", "set_", "rounds", "local_epochs", "batch_size")
    )
    flags = {"no_references": True, "no_tuning": True, "force_resume": False}
    return arguments.training_options({**blank, **flags, **COMMON, "set_": sets, **changes})


def images(parties=9, rows=3):
    rng, n = generator("second source"), parties * rows
    party = np.repeat([f"client {i:03}" for i in range(parties)], rows)
    return make_partition(rng.random((n, 3, 8, 8)).astype(np.float32), np.arange(n) % 2, party)


def trials_of(monkeypatch, partition, **options):
    """The trials that validate() would run."""
    seen = []

    def stop(trials, data, session):
        seen.extend(trials)
        raise KeyboardInterrupt

    monkeypatch.setattr("fedskew.engine.session.train", stop)
    with pytest.raises(KeyboardInterrupt):
        validation.validate(partition, **{**options, "run": None})
    return {trial.name: trial for trial in seen}


def test_the_three_commands_parse_to_the_sources_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = trials_of(monkeypatch, images(), **parsed())
    how = trials["fedavg"].settings
    assert {trial.settings for trial in trials.values()} == {how}
    assert (how.rounds, how.local_epochs, how.batch_size, how.participation) == (4000, 1, 20, 0.023)
    assert (how.momentum, how.weight_decay) == (0.0, 1e-5)
    assert how.transforms == ("crop", "flip", "normalise")
    assert {trial.model.name for trial in trials.values()} == {"resnet18"}
    assert {name: trial.hyper for name, trial in trials.items()} == {
        "fedavg": {"lr": 0.03},
        "fedavgm": {"lr": 0.003, "server_lr": 1.0, "server_momentum": 0.9},
        "fedadam": {
            "lr": 0.1,
            "form": "torch",
            "server_lr": 0.001,
            "beta1": 0.9,
            "beta2": 0.999,
            "tau": 1e-8,
            "server_weight_decay": 1e-5,
        },
    }


def test_a_share_of_023_of_450_parties_is_ten_of_them() -> None:
    import torch

    silos = Federation(
        Data(torch.zeros(450, 1), torch.zeros(450).long()),
        np.arange(451),
        tuple(map(str, range(450))),
        np.ones((450, 1)),
    )
    assert len(cohort(silos, Settings(participation=0.023), 0, 0)) == 10


@pytest.mark.slow
def test_the_three_commands_run_on_small_images() -> None:
    """Two rounds of their set-up on four clients, two of them a round, with three images each; two classes."""
    options = parsed(rounds=2, participation=0.5, seeds=1, jobs=1)
    found = validation.validate(images(4), **{**options, "run": None})
    assert [c.algorithm for c in found.candidates] == ["fedavg", "fedavgm", "fedadam"]
    assert all(c.status in ("ok", "failed") for c in found.candidates)
    assert all(len(curve) == 2 and np.isfinite(curve).all() for c in found.candidates for curve in c.accuracy.curve)


def test_fedadams_first_server_step_is_the_server_rate_for_every_number_that_moved() -> None:
    """Bias-corrected Adam's first step is lr g / (|g| + eps), so +-0.001 wherever |g| is far above 1e-8.

    With a weight decay of 1e-5 g is hardly ever 0.
    """
    import torch

    rng, hyper = generator("adam"), parsed()["hyper"]["fedadam"]
    x, y = torch.from_numpy(rng.normal(size=(40, 6))), torch.arange(40) % 2
    silos = Federation(Data(x, y), np.asarray([0, 20, 40]), ("a", "b"), np.full((2, 2), 0.5))
    how = Settings(rounds=1, local_epochs=1, batch_size=20, momentum=0.0, dtype="float64")
    run = begin(find_algorithm("fedadam"), hyper, how, [0], federation=silos, model=ModelSpec("mlp", (6,), 2))
    before = run.state.weights.clone()
    moved = (next(run.rounds()).weights - before)[0, : run.network.layout.size]
    large = moved.abs() > 0.00099
    assert float(large.double().mean()) > 0.8
    assert float(moved.abs().max()) < 0.001 + 1e-9


def test_settings_that_do_not_exist_are_refused_with_those_that_do() -> None:
    with pytest.raises(FedskewError, match="did you mean 'momentum'"):
        changed_settings(Settings(), {"momentun": 0.9})
    with pytest.raises(FedskewError, match="out of range"):
        changed_settings(Settings(), {"momentum": 1.5})


def test_a_whole_number_typed_after_set_counts_as_one() -> None:
    assert changed_settings(Settings(), arguments.hyper_options(["training.rounds=7"])["training"]).rounds == 7
    with pytest.raises(FedskewError, match="out of range"):
        changed_settings(Settings(), {"rounds": 7.5})


def test_a_comma_within_a_transforms_argument_is_kept() -> None:
    found = changed_settings(Settings(), {"transforms": "crop, normalise:0.5,0.4,0.3/1,1,1, flip"})
    assert found.transforms == ("crop", "normalise:0.5,0.4,0.3/1,1,1", "flip")

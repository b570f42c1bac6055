"""The engine against the plain loop, and what its results may not depend on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.engine.oracle import PlainRun

from fedskew.engine import training
from fedskew.engine.algorithms import ALGORITHMS, find_algorithm
from fedskew.engine.algorithms.base import Algorithm
from fedskew.engine.law_cases import NETWORKS, distance, federation, settings
from fedskew.engine.stacked import Stacked
from fedskew.engine.training import begin, cohort
from fedskew.profiles.errors import FedskewError

NAMES = [a.name for a in ALGORITHMS]
BOTH = [*NAMES, *(f"{name}+wsm" for name in NAMES)]
SIZES = (11, 4, 0, 15)  # batches of 4: three, one and four steps; one party without rows
LINEAR = [a.name for a in ALGORITHMS if a.linear]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def cast(silos, how):
    """The federation with its rows in the type that is trained in."""
    return replace(silos, data=replace(silos.data, x=silos.data.x.to(getattr(torch, how.dtype))))


def compare(name, network, *, hyper=None, rounds=3, epochs=2, sizes=SIZES, seed=5, **changes) -> float:
    """Relative distance of the engine's weights from the plain loop's, after some rounds."""
    how = settings(rounds=rounds, local_epochs=epochs, batch_size=4, weight_decay=1e-3, **changes)
    silos = cast(federation(NETWORKS[network].shape, sizes), how)
    plain = PlainRun(name, silos, how, NETWORKS[network], seed, **(hyper or {}))
    run = begin(find_algorithm(name), hyper or {}, how, [seed], federation=silos, model=NETWORKS[network])
    for round_, _ in enumerate(run.rounds()):
        plain.round(round_, cohort(silos, how, seed, round_))
    layout = run.network.layout
    buffers = torch.cat([b.reshape(-1).double() for b in plain.buffers]) if plain.buffers else torch.zeros(0)
    if name.startswith("fedbn"):
        ours, theirs = run.state.own[training.PERSONAL].rows[0], plain.mine
        pairs = [(ours[p, : layout.size], plain.flat(theirs[p])) for p in silos.active]
    else:
        pairs = [(run.state.weights[0, : layout.size], plain.flat()), (run.state.buffers[0], buffers.double())]
    return max(distance(found, expected) for found, expected in pairs if expected.numel())


@pytest.mark.parametrize("network", ["mlp", "cnn", "batch_norm"])
@pytest.mark.parametrize("name", NAMES)
def test_the_engine_equals_the_plain_loop_in_float64(name: str, network: str) -> None:
    if name == "fedbn" and network != "batch_norm":
        pytest.skip("without BatchNorm it is FedAvg, which is compared")
    assert compare(name, network) < 1e-10


@pytest.mark.parametrize("name", [f"{name}+wsm" for name in NAMES if name != "fedbn"])
def test_with_reweighted_softmax_too(name: str) -> None:
    assert compare(name, "mlp") < 1e-10


@pytest.mark.parametrize("network", ["frozen", "scalar", "group_norm"])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "moon", "feddyn"])
def test_other_networks_too(name: str, network: str) -> None:
    assert compare(name, network, rounds=2) < 1e-10


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "moon", "fednova", "fedadam", "fedbn"])
def test_partial_participation_too(name: str) -> None:
    network = "batch_norm" if name == "fedbn" else "mlp"
    assert compare(name, network, rounds=5, epochs=1, participation=0.67, sizes=(11, 4, 0, 15, 7, 6)) < 1e-10


@pytest.mark.parametrize(
    ("name", "hyper"),
    [
        ("fednova", {"form": "tau"}),
        ("fednova", {"lineage": "code-2021"}),
        ("fedprox", {"mu": 1.0}),
        ("moon", {"mu": 5.0, "temperature": 0.2}),
        ("fedavgm", {"server_lr": 0.3, "server_momentum": 0.5}),
        (
            "fedadam",
            {
                "form": "torch",
                "server_lr": 0.01,
                "beta1": 0.8,
                "beta2": 0.999,
                "tau": 1e-3,
                "server_weight_decay": 1e-2,
            },
        ),
        ("fedyogi", {"server_lr": 0.01, "beta2": 0.9, "tau": 1e-2}),
        ("fedadagrad", {"server_lr": 0.01, "tau": 1e-2}),
        ("feddyn", {"alpha": 0.5}),
    ],
)
def test_every_hyperparameter_means_what_the_plain_loop_means(name: str, hyper: dict[str, float | str]) -> None:
    assert compare(name, "mlp", hyper=hyper) < 1e-10


@pytest.mark.parametrize("name", LINEAR)
def test_in_float32_linear_server_rules_stay_within_a_millionth(name: str) -> None:
    network = "batch_norm" if name == "fedbn" else "mlp"
    hyper = {"alpha": 1.0} if name == "feddyn" else {}
    assert compare(name, network, hyper=hyper, rounds=2, lr=0.01, dtype="float32") < 1e-6


def finished(name, *, seeds=(1, 2, 3), network="mlp", sizes=SIZES, hyper=None, **changes):
    how = settings(batch_size=4, **changes)
    silos = cast(federation(NETWORKS[network].shape, sizes), how)
    run = begin(find_algorithm(name), hyper or {}, how, seeds, federation=silos, model=NETWORKS[network])
    for _ in run.rounds():
        pass
    return run


@pytest.mark.parametrize("name", BOTH)
def test_results_are_bitwise_the_same_for_any_block_size_and_order_of_lanes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = finished(name, dtype="float32").state
    turned = training._train

    def backwards(run, lanes):
        weights, buffers = turned(run, lanes[::-1])
        return weights.flip(0), buffers.flip(0)

    for lanes in (1, 2, 5):
        monkeypatch.setattr(Stacked, "lanes", lanes)
        assert torch.equal(finished(name, dtype="float32").state.weights, expected.weights)
    monkeypatch.setattr(training, "_train", backwards)
    assert torch.equal(finished(name, dtype="float32").state.weights, expected.weights)


@pytest.mark.parametrize("name", BOTH)
def test_results_are_bitwise_the_same_whichever_seeds_run_together(name: str) -> None:
    together = finished(name, dtype="float32", participation=0.67).state.weights
    alone = finished(name, seeds=(2,), dtype="float32", participation=0.67).state.weights
    assert torch.equal(together[1], alone[0])


def test_weights_are_rows_and_not_batches() -> None:
    how = settings(rounds=1, batch_size=32, lr=0.1)
    silos = federation((5,), (31, 32, 33))
    run = begin(find_algorithm("fedavg"), {}, how, [0], federation=silos, model=NETWORKS["mlp"])
    alone = []
    for party in range(3):
        sizes = tuple(size if p == party else 0 for p, size in enumerate((31, 32, 33)))
        one = begin(find_algorithm("fedavg"), {}, how, [0], federation=federation((5,), sizes), model=NETWORKS["mlp"])
        alone.append(next(one.rounds()).weights[0])
    expected = (31 * alone[0] + 32 * alone[1] + 33 * alone[2]) / 96
    assert distance(next(run.rounds()).weights[0], expected) < 1e-14


def test_parties_of_no_one_and_two_rows_train_and_count() -> None:
    for network in NETWORKS:
        run = finished("scaffold", sizes=(0, 1, 2, 5), seeds=(0,), network=network)
        assert torch.isfinite(run.state.weights).all()
        assert list(run.federation.active) == [1, 2, 3]


def test_a_batch_of_one_row_takes_batchnorms_running_statistics_and_leaves_them() -> None:
    run = finished("fedavg", sizes=(1,), seeds=(0,), network="batch_norm", rounds=1)
    fresh = finished("fedavg", sizes=(1,), seeds=(0,), network="batch_norm", rounds=0)
    assert torch.equal(run.state.buffers, fresh.state.buffers)
    assert not torch.equal(run.state.weights, fresh.state.weights)


def test_a_seed_that_is_no_number_any_more_is_told_with_its_round_and_the_others_go_on() -> None:
    calm = finished("fedavg", rounds=4)
    how = settings(rounds=4, batch_size=4)
    silos = federation((5,), SIZES)
    run = begin(find_algorithm("fedavg"), {}, how, (1, 2, 3), federation=silos, model=NETWORKS["mlp"])
    for round_, state in enumerate(run.rounds()):
        if round_ == 1:
            state.weights[1] = np.inf
    assert run.state.diverged == {1: 3}
    assert torch.equal(run.state.weights[[0, 2]], calm.state.weights[[0, 2]])


def test_a_rate_that_is_far_too_large_diverges() -> None:
    run = finished("feddyn", hyper={"lr": 1e3, "alpha": 1e-3}, rounds=20, dtype="float32")
    assert set(run.state.diverged) == {0, 1, 2}
    assert all(1 <= round_ <= 20 for round_ in run.state.diverged.values())


def test_the_old_lineage_of_scaffold_keeps_a_constant_push() -> None:
    """c - mean(c_i) = (N / |S| - 1) (mean(c_i) - r), r the random start; three parties of which two take part."""
    run = finished(
        "scaffold", hyper={"lineage": "code-2021"}, rounds=5, participation=0.67, seeds=(0,), sizes=(11, 4, 15)
    )
    store = run.state.own["c"]
    r, mean, c = store.default[0], store.get(0, run.federation.active).mean(0), run.state.server["c"][0]
    assert float(r.norm()) > 0.1
    assert distance(c - mean, (3 / 2 - 1) * (mean - r)) < 1e-10
    published = finished("scaffold", rounds=5, participation=0.67, seeds=(0,), sizes=(11, 4, 15))
    assert distance(run.state.weights, published.state.weights) > 1e-3


def test_at_full_participation_the_old_lineage_of_scaffold_is_harmless() -> None:
    old = finished("scaffold", hyper={"lineage": "code-2021"}, rounds=3)
    assert distance(old.state.weights, finished("scaffold", rounds=3).state.weights) < 1e-10


def test_the_old_lineage_of_fednova_weighs_by_batches() -> None:
    old = finished("fednova", hyper={"lineage": "code-2021"}, sizes=(5, 8, 0, 4), seeds=(0,))
    assert distance(old.state.weights, finished("fednova", sizes=(5, 8, 0, 4), seeds=(0,)).state.weights) > 1e-4
    even = finished("fednova", hyper={"lineage": "code-2021"}, sizes=(8, 16, 0, 4), seeds=(0,))
    assert distance(even.state.weights, finished("fednova", sizes=(8, 16, 0, 4), seeds=(0,)).state.weights) < 1e-12


def test_states_of_parties_never_seen_take_no_memory() -> None:
    how = settings(rounds=1, participation=0.01)
    silos = federation((5,), (3,) * 400)
    run = begin(find_algorithm("scaffold"), {}, how, (0,), federation=silos, model=NETWORKS["mlp"])
    next(run.rounds())
    assert int(run.state.own["c"].seen.sum()) == 4
    assert int(run.state.own["c"].rows.any(dim=2).sum()) == 4


def dropout(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(shape[0], 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, outputs))


def no_linear(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(1, outputs, shape[1]), torch.nn.Flatten())


def test_dropout_is_keyed_by_seed_round_and_party(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "dropout", replace(NETWORKS["mlp"], name=f"{__name__}:dropout"))
    before = torch.random.get_rng_state()
    together, alone = finished("fedavg", network="dropout"), finished("fedavg", network="dropout", seeds=(2,))
    assert torch.equal(together.state.weights[1], alone.state.weights[0])
    assert torch.equal(torch.random.get_rng_state(), before)


def droppy(shape: tuple[int, ...], outputs: int) -> torch.nn.Module:
    class Droppy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.drop = torch.nn.Linear(shape[0], 8), torch.nn.AlphaDropout(0.5)
            self.norm, self.head = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, outputs)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = torch.nn.functional.dropout(self.norm(self.body(x)), training=self.training)
            found: torch.Tensor = self.head(self.drop(h).relu())
            return found

    return Droppy()


@pytest.mark.parametrize("factory", [dropout, droppy])
def test_moons_fixed_networks_drop_nothing_out(monkeypatch: pytest.MonkeyPatch, factory) -> None:
    monkeypatch.setitem(NETWORKS, "dropout", replace(NETWORKS["mlp"], name=f"{__name__}:{factory.__name__}"))
    for rounds, mu in ((1, 1.0), (3, 0.0)):
        found = finished("moon", network="dropout", rounds=rounds, hyper={"mu": mu})
        assert torch.equal(found.state.weights, finished("fedavg", network="dropout", rounds=rounds).state.weights)
    pulled = finished("moon", network="dropout", rounds=3, hyper={"mu": 1.0})
    assert not torch.equal(pulled.state.weights, finished("fedavg", network="dropout", rounds=3).state.weights)


def layered(*names: str):
    class Layered(torch.nn.Module):
        body: torch.nn.Linear
        head: torch.nn.Linear

        def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
            super().__init__()
            made = {"body": torch.nn.Linear(shape[0], 8), "head": torch.nn.Linear(8, outputs)}
            for name in names:
                setattr(self, name, made[name])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(self.body(x).relu())
            return found

    return Layered


body_first, head_first = layered("body", "head"), layered("head", "body")


def test_moon_compares_what_the_layer_reads_that_is_called_last_whatever_the_order_of_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for name in ("body_first", "head_first"):
        monkeypatch.setitem(NETWORKS, name, replace(NETWORKS["mlp"], name=f"{__name__}:{name}"))
        run = finished("moon", network=name, rounds=3, hyper={"mu": 5.0})
        views = run.network.layout.views(run.state.weights)
        found.append(dict(zip(run.network.layout.names, views, strict=True)))
    for name, values in found[0].items():
        torch.testing.assert_close(found[1][name], values, rtol=0, atol=1e-12)


def test_moon_says_that_it_needs_a_linear_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "bare", replace(NETWORKS["cnn"], name=f"{__name__}:no_linear"))
    with pytest.raises(FedskewError, match="last linear layer"):
        finished("moon", network="bare")
    finished("scaffold", network="bare")


def test_moon_has_no_effect_on_a_network_of_one_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "linear", replace(NETWORKS["mlp"], name="linear"))
    found, plain = finished("moon", network="linear", rounds=3), finished("fedavg", network="linear", rounds=3)
    assert torch.equal(found.state.weights, plain.state.weights)


def test_a_users_own_algorithm_needs_no_registration() -> None:
    def half(update, hyper):
        after = find_algorithm("fedavg").aggregate(update, hyper)
        return replace(after, weights=(after.weights + update.start.squeeze(-2)) / 2)

    mine = Algorithm(name="half", title="Half", source="mine", link="", aggregate=half)
    how, silos = settings(rounds=1), federation((5,), SIZES)
    runs = [begin(a, {}, how, [0], federation=silos, model=NETWORKS["mlp"]) for a in (mine, find_algorithm("fedavg"))]
    first = runs[0].state.weights.clone()
    found, whole = (next(run.rounds()).weights for run in runs)
    assert distance(found - first, (whole - first) / 2) < 1e-12

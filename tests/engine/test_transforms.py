"""The batch transform hook: each transform by hand, draws keyed, the same in both backends and for all candidates."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedskew.engine import find_algorithm
from fedskew.engine.blocks import Data
from fedskew.engine.looped import Looped
from fedskew.engine.models import build
from fedskew.engine.plans import ModelSpec, Trial
from fedskew.engine.schedule import Lane
from fedskew.engine.settings import Settings
from fedskew.engine.splits import Prepared
from fedskew.engine.training import Federation, begin
from fedskew.engine.transforms import Transforms, crop, flip, noise, normalise, read_transforms
from fedskew.engine.trials import run_trial
from fedskew.profiles import FedskewError
from fedskew.profiles.keyed import generator

IMAGE = (3, 8, 10)
ALL = ("crop", "flip", "normalise", "noise:0.1")


def rows(count=5, shape=IMAGE):
    return torch.from_numpy(generator("images", count).normal(0.5, 0.2, (count, *shape)))


def rng(seed=1):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("padding", "mode"), [("", "constant"), ("zero", "constant"), ("reflect", "reflect")])
def test_crop_cuts_a_window_of_the_padded_picture_at_the_place_drawn(padding: str, mode: str) -> None:
    """By numpy, row by row; the draws are 0 to 8 down, then 0 to 8 to the right, for all rows."""
    x = rows()
    down, right = torch.randint(0, 9, (2, 5, 1), generator=rng()).squeeze(2).tolist()
    for found, row, top, left in zip(crop(x, rng(), padding), x.numpy(), down, right, strict=True):
        padded = np.pad(row, ((0, 0), (4, 4), (4, 4)), mode=mode)  # type: ignore[call-overload]
        assert found.numpy().tolist() == padded[:, top : top + 8, left : left + 10].tolist()


def test_crop_reaches_all_81_places_and_no_other() -> None:
    x = torch.arange(1.0, 1 + 16 * 16).view(1, 1, 16, 16).expand(4000, 1, 16, 16)
    centres = crop(x, rng())[:, 0, 8, 8].unique()
    assert len(centres) == 81


def test_flip_mirrors_about_half_of_the_rows_and_leaves_the_others() -> None:
    x = rows(2000, (1, 2, 3))
    found = flip(x, rng())
    turned = (found == x.flip(3)).flatten(1).all(1)
    kept = (found == x).flatten(1).all(1)
    assert bool((turned ^ kept).all())
    assert 900 < int(turned.sum()) < 1100


def test_normalise_takes_cifar_10s_numbers_channel_by_channel() -> None:
    x = rows()
    expected = np.stack(
        [
            (x[:, 0].numpy() - 0.4914) / 0.2023,
            (x[:, 1].numpy() - 0.4822) / 0.1994,
            (x[:, 2].numpy() - 0.4465) / 0.2010,
        ],
        axis=1,
    )
    np.testing.assert_allclose(normalise(x).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(normalise(x, "0.5/0.25").numpy(), (x.numpy() - 0.5) / 0.25, rtol=1e-12)


def test_noise_has_the_deviation_asked_for_and_mean_zero() -> None:
    drawn = noise(torch.zeros(200, 3, 8, 8), rng(), 0.3)
    assert float(drawn.std()) == pytest.approx(0.3, rel=0.02)
    assert float(drawn.mean()) == pytest.approx(0, abs=0.01)


def test_party_noise_grows_with_the_partys_number() -> None:
    """Variance S^2 i/N for i = 1 ... N; here S = 0.4, N = 4."""
    how = read_transforms(("party-noise:0.4",), IMAGE, 4)
    x = torch.zeros(300, *IMAGE)
    found = [float(how.train(x, Lane(0, 0, party, f"p{party}", 0, 300), 0, 0).var()) for party in range(4)]
    assert found == pytest.approx([0.04, 0.08, 0.12, 0.16], rel=0.03)


def lane(**changes):
    return replace(Lane(0, 1, 2, "bank", 0, 5), **changes)


def test_draws_depend_on_seed_round_party_and_step_and_on_nothing_else() -> None:
    how, x = Transforms((("crop", ""), ("noise", "0.1")), 3), rows()
    first = how.train(x, lane(), 3, 7)
    assert torch.equal(first, how.train(x, lane(place=5, party=0, first=9, last=14), 3, 7))
    others = [(lane(seed=2), 3, 7), (lane(name="shop"), 3, 7), (lane(), 4, 7), (lane(), 3, 8)]
    assert not any(torch.equal(first, how.train(x, *key)) for key in others)


def test_transforms_draw_from_no_shared_state() -> None:
    before = torch.random.get_rng_state()
    Transforms((("crop", ""), ("flip", ""), ("noise", "0.1")), 3).train(rows(), lane(), 0, 0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_only_normalise_applies_to_images_that_are_judged() -> None:
    x = rows()
    assert torch.equal(read_transforms(ALL, IMAGE, 2).test(x), normalise(x))


@pytest.mark.parametrize(
    ("texts", "shape", "match"),
    [
        (("cropp",), IMAGE, "did you mean 'crop'"),
        (("crop",), (5,), "needs images"),
        (("normalise",), (4, 8, 8), "4 channels"),
        (("normalise:0.5",), IMAGE, "means/deviations"),
        (("normalise:0.5,0.5/1,1",), IMAGE, "one a channel"),
        (("normalise:0/0",), IMAGE, "above 0"),
        (("noise",), IMAGE, "standard deviation"),
        (("noise:-1",), IMAGE, "0 or more"),
        (("crop:mirror",), IMAGE, "'zero' or 'reflect'"),
        (("crop:reflect",), (1, 4, 8), "larger images"),
        (("flip:0.5",), IMAGE, "no argument"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(texts: tuple[str, ...], shape: tuple[int, ...], match: str) -> None:
    with pytest.raises(FedskewError, match=match) as caught:
        read_transforms(texts, shape, 2)
    assert "\n" not in str(caught.value)


def silos() -> Federation:
    x, y = rows(19), torch.arange(19) % 2
    return Federation(Data(x, y), np.asarray([0, 11, 14, 19]), ("a", "b", "c"), np.full((3, 2), 0.5))


def trained(algorithm="fedavg", *, transforms=ALL, looped=False, seeds=(0, 1), dtype="float64"):
    """Two rounds of two epochs, batches of four with short last ones; the network is of linear layers."""
    how = Settings(rounds=2, local_epochs=2, batch_size=4, lr=0.1, dtype=dtype, transforms=transforms)
    model = ModelSpec("wide_mlp", IMAGE, 2)
    run = begin(find_algorithm(algorithm), {}, how, seeds, federation=silos(), model=model)
    if looped:
        run.network = Looped(run.network.layout, build(model).to(run.state.weights.dtype), ({},) * len(seeds))
    for _ in run.rounds():
        pass
    return run.state.weights


def test_both_backends_see_the_same_pictures() -> None:
    torch.testing.assert_close(trained(looped=True), trained(), rtol=0, atol=1e-12)


def test_bits_do_not_depend_on_the_seeds_that_run_beside() -> None:
    assert torch.equal(trained(dtype="float32")[1], trained(seeds=(1,), dtype="float32")[0])


def test_all_candidates_see_the_same_pictures() -> None:
    """At mu = 0 FedProx is FedAvg bit for bit, which holds only if their draws are the same."""
    how = Settings(rounds=1, local_epochs=1, batch_size=4, transforms=ALL)
    model, found = ModelSpec("wide_mlp", IMAGE, 2), []
    for name, hyper in (("fedavg", {}), ("fedprox", {"mu": 0.0})):
        run = begin(find_algorithm(name), hyper, how, [0], federation=silos(), model=model)
        found.append(next(run.rounds()).weights)
    assert torch.equal(*found)


def test_transforms_change_the_result_and_none_is_the_default() -> None:
    assert Settings().transforms == ()
    plain = trained(transforms=())
    for name in ALL:
        assert not torch.equal(trained(transforms=(name,)), plain), name


def test_normalise_alone_equals_training_and_testing_on_normalised_images() -> None:
    x, test = rows(19), rows(6)
    data = Prepared(
        x=x.numpy(),
        y=np.arange(19) % 2,
        bounds=np.asarray([0, 11, 14, 19]),
        names=("a", "b", "c"),
        shares=np.full((3, 2), 0.5),
        test_x=test.numpy(),
        test_y=np.arange(6) % 2,
        test_party=None,
        classes=2,
    )
    done = replace(data, x=normalise(x).numpy(), test_x=normalise(test).numpy())
    outcomes = []
    for table, transforms in ((data, ("normalise",)), (done, ())):
        how = Settings(rounds=2, local_epochs=1, batch_size=4, dtype="float64", transforms=transforms)
        trial = Trial(find_algorithm("fedavg"), {}, how, (0,), ModelSpec("wide_mlp", IMAGE, 2))
        outcomes.append(run_trial(trial, table))
    np.testing.assert_allclose(outcomes[0].loss, outcomes[1].loss, rtol=1e-12)

"""Golden values by hand: two parties, one weight, and the arithmetic in each docstring.

Party A has one row and the loss (w - 4)^2, party B three rows and (w - 8)^2, so their weights are 1/4 and 3/4. From
w^0 = 0, with lr 1/4, a plain step is w - (1/4) 2 (w - b) = (w + b) / 2; two steps a round unless it says otherwise.
"""

from math import exp, log1p, sqrt

import pytest
import torch
from tests.engine.oracle import quadratic, statistics

from fedskew.engine.algorithms import ALGORITHMS, Algorithm, find_algorithm
from fedskew.engine.algorithms.fednova import effective_steps
from fedskew.engine.algorithms.wsm import ABSENT, with_wsm
from fedskew.engine.blocks import output_gradient
from fedskew.profiles.errors import FedskewError

ORDER = (
    *("fedavg", "fedprox", "scaffold", "fednova", "fedavgm", "fedadam", "fedyogi", "fedadagrad"),
    *("feddyn", "moon", "fedbn"),
)


def weights(name, hyper=None, **options):
    return quadratic(find_algorithm(name), hyper, **options)[0]


def test_fedavg() -> None:
    """A: 0, 2, 3. B: 0, 4, 6. 3/4 + 18/4 = 5.25. Then A: 4.625, 4.3125; B: 6.625, 7.3125; mean 6.5625."""
    assert weights("fedavg") == [5.25, 6.5625]


def test_fedavg_with_local_momentum() -> None:
    """Velocity halves and adds the gradient 2 (w - b). A: v -8, w 2; v -4 - 4, w 4. B: v -16, w 4; v -8 - 8, w 8.

    4/4 + 24/4 = 7.
    """
    assert weights("fedavg", rounds=1, momentum=0.5) == [7.0]


def test_fedprox() -> None:
    """mu 2 adds 2 (w - w^t): a step is w - (w - b)/2 - (w - w^t)/2 = (b + w^t) / 2, reached at once.

    Round 1: A 2, B 4, mean 3.5. Round 2: A 3.75, B 5.75, mean 5.25.
    """
    assert weights("fedprox", {"mu": 2.0}) == [3.5, 5.25]


def test_scaffold() -> None:
    """Round 1 is FedAvg's: 5.25, and c_A = (0 - 3) / (2/4) = -6, c_B = -12, c = -9.

    Round 2 adds -(c - c_i)/4 a step: +0.75 to A, -0.75 to B. A: 4.625 + 0.75 = 5.375; 4.6875 + 0.75 = 5.4375.
    B: 6.625 - 0.75 = 5.875; 6.9375 - 0.75 = 6.1875. Mean 1.359375 + 4.640625 = 6.
    c_A = -6 + 9 + (5.25 - 5.4375) 2 = 2.625; c_B = -12 + 9 + (5.25 - 6.1875) 2 = -4.875; c = -1.125.
    """
    found, state = quadratic(find_algorithm("scaffold"))
    assert found == [5.25, 6.0]
    assert float(state.server["c"][0, 0]) == -1.125
    assert state.own["c"].rows[0, :, 0].tolist() == [2.625, -4.875]


def test_scaffolds_correction_stays_outside_momentum() -> None:
    """Round 1 as FedAvg with momentum: A 4, B 8, mean 7; c_A = -8, c_B = -16, c = -12: +1 to A, -1 to B a step.

    A: g 6, v 6, w 7 - 1.5 + 1 = 6.5; g 5, v 8, w 6.5 - 2 + 1 = 5.5. B: g -2, v -2, w 7 + 0.5 - 1 = 6.5; g -3, v -4,
    w 6.5 + 1 - 1 = 6.5. Mean 1.375 + 4.875 = 6.25.
    """
    assert weights("scaffold", momentum=0.5) == [7.0, 6.25]


def test_fednova_with_unequal_steps() -> None:
    """A takes 2 steps: 0, 2, 3. B takes 6: 4, 6, 7, 7.5, 7.75, 7.875. tau = 2/4 + 18/4 = 5.

    d_A = -3/2, d_B = -7.875/6 = -1.3125; w = 5 (1.5/4 + 3 x 1.3125/4) = 5 x 1.359375 = 6.796875.
    """
    assert weights("fednova", rounds=1, batch=1) == [6.796875]


def test_fednova_counts_steps_with_momentum() -> None:
    """At rho = 1/2 two steps weigh 1 + 1.5 = 2.5, six weigh 1 + 1.5 + 1.75 + 1.875 + 1.9375 + 1.96875 = 10.03125."""
    steps = torch.tensor([[2.0], [6.0]], dtype=torch.float64)
    assert effective_steps(steps, 0.5, "momentum").squeeze().tolist() == [2.5, 10.03125]
    assert effective_steps(steps, 0.5, "tau").squeeze().tolist() == [2.0, 6.0]


def test_fedavgm() -> None:
    """Delta = -5.25, v = -5.25, w = 5.25. Then Delta = 5.25 - 6.5625 = -1.3125, v = -2.625 - 1.3125, w = 9.1875."""
    assert weights("fedavgm", {"server_momentum": 0.5}) == [5.25, 9.1875]


def test_fedadam_as_reddi_wrote_it() -> None:
    """tau = 5.25, v_0 = tau^2 = Delta^2, so v stays; m = -5.25/2; w = 2.625 / 10.5 = 0.25.

    From 0.25: A 2.125, 3.0625; B 4.125, 6.0625; mean 5.3125; Delta -5.0625. m = (-2.625 - 5.0625)/2 = -3.84375;
    v = 0.75 x 27.5625 + 0.25 x 25.62890625 = 27.0791015625.
    """
    found = weights("fedadam", {"server_lr": 1.0, "beta1": 0.5, "beta2": 0.75, "tau": 5.25})
    assert found == pytest.approx([0.25, 0.25 + 3.84375 / (sqrt(27.0791015625) + 5.25)], rel=1e-14)


def test_fedadam_as_torch_has_it() -> None:
    """The first step is corrected to Delta / (|Delta| + tau): w = 5.25 / (5.25 + 1.75) = 0.75.

    From 0.75: A 2.375, 3.1875; B 4.375, 6.1875; mean 5.4375; Delta -4.6875. m = (-2.625 - 4.6875)/2 = -3.65625, over
    1 - 1/4: -4.875. v = 0.75 x 6.890625 + 0.25 x 21.97265625 = 10.6611328125, over 1 - 0.5625.
    """
    found = weights("fedadam", {"form": "torch", "server_lr": 1.0, "beta1": 0.5, "beta2": 0.75, "tau": 1.75})
    assert found == pytest.approx([0.75, 0.75 + 4.875 / (sqrt(10.6611328125 / 0.4375) + 1.75)], rel=1e-14)


def test_fedyogi() -> None:
    """tau = 3.5, v_0 = 12.25 < Delta^2 = 27.5625: v = 12.25 + 6.890625 = 4.375^2; w = 2.625 / 7.875 = 1/3.

    From 1/3: A 37/12, B 73/12, mean 16/3, Delta -5; m = (-2.625 - 5)/2; v = 19.140625 + 25/4 = 25.390625.
    With tau = 7, v_0 = 49 > Delta^2, so v falls to 49 - 6.890625 = 42.109375.
    """
    hyper = {"server_lr": 1.0, "beta1": 0.5, "beta2": 0.75, "tau": 3.5}
    expected = [1 / 3, 1 / 3 + 3.8125 / (sqrt(25.390625) + 3.5)]
    assert weights("fedyogi", hyper) == pytest.approx(expected, rel=1e-14)
    falls = weights("fedyogi", {**hyper, "tau": 7.0}, rounds=1)
    assert falls == pytest.approx([2.625 / (sqrt(42.109375) + 7)], rel=1e-14)


def test_fedadagrad() -> None:
    """tau = 7: v = 49 + 27.5625 = 8.75^2; w = 5.25 / 15.75 = 1/3. From 1/3 Delta is -5 (see FedYogi): v = 101.5625."""
    found = weights("fedadagrad", {"server_lr": 1.0, "tau": 7.0})
    assert found == pytest.approx([1 / 3, 1 / 3 + 5 / (sqrt(101.5625) + 7)], rel=1e-14)


def test_feddyn() -> None:
    """alpha 2. Round 1 as FedProx with mu 2: A 2, B 4; h = -(2/2)(2 + 4) = -6; w = 3 + 6/2 = 6; g_A -4, g_B -8.

    Round 2: a step is (b + 6)/2 + g/4. A: 5 - 1 = 4, B: 7 - 2 = 5. h = -6 - (-2 - 1) = -3; w = 4.5 + 3/2 = 6: the
    minimum of the parties' mean loss, (4 + 8)/2. g_A = -4 + 4 = 0, g_B = -8 + 2 = -6, and their mean is h.
    """
    found, state = quadratic(find_algorithm("feddyn"), {"alpha": 2.0})
    assert found == [6.0, 6.0]
    assert float(state.server["g"][0, 0]) == -3.0
    assert state.own["g"].rows[0, :, 0].tolist() == [0.0, -6.0]


def test_moon() -> None:
    """z = z_global = (1, 0), z_previous = (0, 1), temperature 1/2, mu 2: 2 log(1 + exp((0 - 1) 2)).

    Its gradient: 2 / (1 + e^2) times 2 (z_previous - z_global without their part along z) = (0, 4 / (1 + e^2)).
    A representation of one number has no direction to change, so on the quadratics it is FedAvg.
    """
    z = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64, requires_grad=True)
    previous = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    hyper = {"mu": 2.0, "temperature": 0.5}
    penalty = find_algorithm("moon").penalty
    assert penalty is not None
    loss = penalty(z, z.detach(), previous, hyper)
    loss.sum().backward()
    assert loss.item() == pytest.approx(2 * log1p(exp(-2)), rel=1e-14)
    assert z.grad is not None
    assert z.grad.flatten().tolist() == pytest.approx([0.0, 4 / (1 + exp(2))], rel=1e-14)
    assert weights("moon") == [5.25, 6.5625]


def test_fedbn_keeps_statistics_at_home_and_fedavg_averages_them() -> None:
    """One batch a round moves a running mean from 0 by a tenth of the batch's: A (mean 1) 0.1, B (mean 5) 0.5.

    Equal rows: FedAvg's is 0.3; FedBN's server keeps 0. Without BatchNorm FedBN is FedAvg.
    """
    assert statistics(find_algorithm("fedavg"))[0] == pytest.approx([0.3] * 5)
    server, a, b = statistics(find_algorithm("fedbn"))
    assert server == [0.0] * 5
    assert a == pytest.approx([0.1] * 5)
    assert b == pytest.approx([0.5] * 5)
    assert weights("fedbn") == [5.25, 6.5625]


def test_wsm() -> None:
    """Equal logits, shares 3/4, 1/4, 0: the softmax is the shares, minus one hot of class 0: -1/4, 1/4, 0.

    A continuous target has no classes, so on the quadratics it is the algorithm itself.
    """
    shift = with_wsm(find_algorithm("fedavg")).logits
    assert shift is not None
    moved = shift(torch.tensor([[0.75, 0.25, 0.0]], dtype=torch.float64), {})
    assert moved[0, 2] == ABSENT
    logits, ones = torch.zeros(1, 3, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    found = output_gradient(logits, torch.tensor([[0]]), ones, moved)
    assert found.flatten().tolist() == pytest.approx([-0.25, 0.25, 0.0], rel=1e-14)
    assert weights("scaffold+wsm") == weights("scaffold")


def test_registry_has_all_candidates_in_order() -> None:
    assert tuple(a.name for a in ALGORITHMS) == ORDER


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
def test_every_algorithm_offers_four_settings_of_its_own_hyperparameters(algorithm: Algorithm) -> None:
    assert len(algorithm.grid) == 4
    assert {key for change in algorithm.grid for key in change} <= {*algorithm.hyper, "lr"}
    assert algorithm.link.startswith("https://arxiv.org/abs/")


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
def test_wsm_modifies_any_algorithm_and_nothing_but_its_logits(algorithm: Algorithm) -> None:
    found = find_algorithm(f" {algorithm.name.upper()}+WSM ")
    assert (found.name, found.title) == (f"{algorithm.name}+wsm", f"{algorithm.title} + WSM")
    same = [key for key in Algorithm.__slots__ if key not in {"name", "title", "source", "logits"}]
    assert [getattr(found, key) for key in same] == [getattr(algorithm, key) for key in same]


def test_unknown_names_are_told_with_what_exists() -> None:
    for name in ("fedprocks", "fedprox+wsn", "fedavg+wsm+wsm", "+wsm", ""):
        with pytest.raises(FedskewError, match=r"[Tt]here are: 'fedavg'"):
            find_algorithm(name)
    with pytest.raises(FedskewError, match="already"):
        with_wsm(find_algorithm("fedavg+wsm"))

"""Laws of what an algorithm does to the loss, and of server optimizers against torch's. No network, no training."""

from dataclasses import replace
from typing import Any

from fedskew.engine.algorithms.base import Algorithm, Hyper, Tensor
from fedskew.engine.law_cases import distance
from fedskew.engine.law_server import cold


def _representations() -> tuple[Tensor, Tensor, Tensor]:
    """z now, under w^t and under the party's last model: (2 lanes, 5 features, 4 rows)."""
    import torch

    rng = torch.Generator().manual_seed(3)
    z, z_global, z_previous = torch.randn(3, 2, 5, 4, generator=rng, dtype=torch.float64)
    return z, z_global, z_previous


def penalty_grows(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """The penalty is not zero, doubles with mu, and is less at the global representation than at the previous one."""
    assert algorithm.penalty is not None
    z, z_global, z_previous = _representations()
    hyper = {**algorithm.hyper, "mu": 1.0}
    once = algorithm.penalty(z, z_global, z_previous, hyper)
    twice = algorithm.penalty(z, z_global, z_previous, {**hyper, "mu": 2.0})
    near = algorithm.penalty(z_global, z_global, z_previous, hyper)
    far = algorithm.penalty(z_previous, z_global, z_previous, hyper)
    if once.shape != (2, 4) or not bool((once != 0).all() and (near < far).all()):
        return 1.0
    return distance(twice, 2 * once)


def penalty_rests(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Its gradient is exactly zero where the previous model is w^t, and finite where a representation is zero."""
    import torch

    assert algorithm.penalty is not None
    z, z_global, z_previous = _representations()
    z = z.requires_grad_()
    (still,) = torch.autograd.grad(algorithm.penalty(z, z_global, z_global, algorithm.hyper).sum(), z)
    dead = (z.detach() * 0).requires_grad_()
    (grad,) = torch.autograd.grad(algorithm.penalty(dead, z_global, z_previous, algorithm.hyper).sum(), dead)
    return float(still.abs().max()) + (0.0 if bool(torch.isfinite(grad).all()) else 1.0)


def absent_class_rests(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """The logits of a class that the party lacks get no gradient; a party with one class has none at all."""
    import torch

    from fedskew.engine.blocks import output_gradient

    assert algorithm.logits is not None
    shares = torch.tensor([[0.75, 0.25, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    target = torch.tensor([[0, 1, 0, 0], [1, 1, 1, 1]])
    shift = algorithm.logits(shares, algorithm.hyper)
    if not bool(torch.isfinite(shift.float()).all()):
        return float("inf")
    grad = output_gradient(logits, target, torch.full((2, 4), 0.25, dtype=torch.float64), shift)
    weighed = logits[0].exp() * shares[0].unsqueeze(1)
    book = weighed / weighed.sum(0) - torch.nn.functional.one_hot(target[0], 3).T
    return float(grad[0, 2].abs().max() + grad[1].abs().max()) + distance(grad[0], book * 0.25)


def like_torch(algorithm: Algorithm, network: str) -> float:  # noqa: ARG001
    """Four rounds of the server are four steps of torch's optimizer on w^t minus the weighted mean."""
    import torch

    kind, options, hyper = _twin(algorithm)
    update = cold(algorithm, hyper=hyper)
    full: Hyper = {**algorithm.hyper, **hyper}
    weights = torch.nn.Parameter(update.start[0, 0].clone())
    optimizer = kind([weights], lr=float(full["server_lr"]), **options)
    errors = []
    for round_ in range(4):
        change = (update.trained - update.start).roll(round_, -1) * (0.5 + round_)
        update = replace(update, trained=update.start + change)
        weights.grad = -(change[0] * update.share[0]).sum(0)
        optimizer.step()
        after = algorithm.aggregate(update, full)
        errors.append(distance(after.weights[0], weights.detach()))
        update = replace(update, start=after.weights.unsqueeze(1), server={**update.server, **after.server})
        update = replace(update, trained=update.start + change)
    return max(errors)


def _twin(algorithm: Algorithm) -> tuple[Any, dict[str, Any], dict[str, float | str]]:
    """The torch optimizer that an algorithm's hyperparameters name, its options, and what to set for the likeness."""
    import torch

    own = algorithm.hyper
    if "server_momentum" in own:
        return torch.optim.SGD, {"momentum": own["server_momentum"]}, {}
    if "form" in own:
        decay = 0.01
        options = {"betas": (own["beta1"], own["beta2"]), "eps": own["tau"], "weight_decay": decay}
        return torch.optim.Adam, options, {"form": "torch", "server_weight_decay": decay}
    tau = float(own["tau"])
    return torch.optim.Adagrad, {"initial_accumulator_value": tau**2, "eps": tau}, {"beta1": 0.0}

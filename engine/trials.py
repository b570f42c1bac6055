"""A trial: one algorithm with its hyperparameters, all seeds at once, from initial weights to predictions."""

import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedskew.engine.blocks import Data
from fedskew.engine.plans import Outcome, Trial
from fedskew.engine.scores import balanced_accuracy, r_squared
from fedskew.engine.splits import Prepared
from fedskew.engine.training import Federation, Run, begin, personal

Watch = Callable[[int, float], None]
"""Told after every round: rounds done, and the mean score over seeds."""


def run_trial(trial: Trial, data: Prepared, watch: Watch | None = None) -> Outcome:
    """Train and score after every round.

    Every seed's numbers depend on the trial and the data alone, never on what runs beside it.
    """
    began = time.monotonic()
    dtype = getattr(torch, trial.settings.dtype)
    federation = _federation(data, dtype, pooled=trial.role == "centralised")
    test_x, truth = torch.from_numpy(data.test_x).to(dtype), data.test_y
    run = begin(trial.algorithm, trial.hyper, trial.settings, trial.seeds, federation=federation, model=trial.model)
    shape = (len(trial.seeds), trial.settings.rounds)
    curves = np.full((3, *shape), np.nan)
    predicted = np.zeros((shape[0], len(truth)))
    for round_, state in enumerate(run.rounds()):
        last = round_ + 1 == trial.settings.rounds
        if run.shared is None or last:
            predicted, losses = _predict(run, test_x, data)
            for place in range(shape[0]):
                if place not in state.diverged:
                    curves[:, place, round_] = (*_scores(truth, predicted[place]), losses[place])
        if watch is not None:
            now = curves[0, :, round_]
            watch(round_ + 1, float(np.nanmean(now)) if np.isfinite(now).any() else 0.0)
    diverged = np.asarray([run.state.diverged.get(place, 0) for place in range(shape[0])])
    score, balanced, loss = curves
    seconds = time.monotonic() - began
    return Outcome(score, balanced, loss, predicted, diverged, run.network.layout.size, seconds)


def _federation(data: Prepared, dtype: torch.dtype, *, pooled: bool) -> Federation:
    arrays = Data(torch.from_numpy(data.x).to(dtype), torch.from_numpy(data.y))
    if not pooled:
        return Federation(arrays, data.bounds, data.names, data.shares)
    whole = (data.shares * np.diff(data.bounds)[:, None]).sum(axis=0, keepdims=True) / max(1, len(data.y))
    return Federation(arrays, data.bounds[[0, -1]], ("all",), whole)


def _scores(truth: NDArray[np.int64] | NDArray[np.float32], predicted: NDArray[np.float64]) -> tuple[float, float]:
    if truth.dtype.kind == "f":
        score = r_squared(truth.astype(np.float64), predicted)
        return (np.nan, np.nan) if score is None else (score, score)
    classes = predicted.astype(np.int64)
    return float((truth == classes).mean()), balanced_accuracy(truth.astype(np.int64), classes) or 0.0


def _predict(run: Run, x: Tensor, data: Prepared) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Predictions (S, n) and mean losses (S,): by the global model, or each party's rows by the party's own."""
    if run.shared is None:
        outputs = run.network.outputs(run.state.weights, run.state.buffers, x)
        return _read(outputs, data.test_y)
    if data.test_party is None:  # whose rows they are is not known: the mean over the parties' models is the vote
        votes = sum(
            torch.softmax(run.network.outputs(*personal(run, int(party)), x), 1) for party in run.federation.active
        )
        return _read(torch.log(votes / len(run.federation.active)), data.test_y)  # type: ignore[arg-type]
    predicted, losses = np.zeros((len(run.seeds), len(x))), np.zeros(len(run.seeds))
    for party in np.unique(data.test_party):
        mine = np.flatnonzero(data.test_party == party)
        outputs = run.network.outputs(*personal(run, int(party)), x[torch.from_numpy(mine)])
        predicted[:, mine], part = _read(outputs, data.test_y[mine])
        losses += part * len(mine) / len(x)
    return predicted, losses


def _read(
    outputs: Tensor, truth: NDArray[np.int64] | NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    target = torch.from_numpy(truth)
    if target.dtype.is_floating_point:
        error = (outputs[:, 0] - target).square().mean(1)
        return outputs[:, 0].double().numpy(), error.double().numpy()
    hit = torch.log_softmax(outputs, 1).gather(1, target.expand(len(outputs), 1, -1))
    return outputs.argmax(1).double().numpy(), -hit.mean((1, 2)).double().numpy()

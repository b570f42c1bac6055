"""A trial: one algorithm with its hyperparameters, all seeds at once, from initial weights to predictions."""

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedskew.engine.blocks import Data
from fedskew.engine.plans import Outcome, Part, Trial, joined
from fedskew.engine.scores import balanced_accuracy, r_squared
from fedskew.engine.sparse import Sparse, table_of
from fedskew.engine.splits import Prepared
from fedskew.engine.states import RunState
from fedskew.engine.training import Federation, Run, begin, personal

Watch = Callable[[int, float], None]
"""Told after every round: rounds done, and the mean score over seeds."""


def run_part(
    trial: Trial,
    data: Prepared,
    *,
    state: RunState | None = None,
    seconds: float = math.inf,
    watch: Watch | None = None,
) -> tuple[Part, RunState]:
    """Train for some rounds and score after each.

    Every seed's numbers depend on the trial and the data alone: never on what runs beside it, nor on where a run was
    cut into parts.

    Parameters
    ----------
    trial, data : what to train, and on what
    state : where the last part ended; None: from the initial weights
    seconds : stop after the round in which this much time has passed
    watch : told after every round

    Returns
    -------
    part : its ``state`` and ``sha256`` are empty; ``predicted`` is set if the last round is done
    state : after its last round
    """
    began = time.monotonic()
    dtype = getattr(torch, trial.settings.dtype)
    run = started(trial, data)
    device, truth = run.state.weights.device, data.test_y
    test_x = table_of(data.test_x, dtype).to(device)
    if not isinstance(test_x, Sparse):
        test_x = run.transforms.test(test_x)
    if state is not None:
        run.state = state.to(device)
    first, places = run.state.round_, range(len(trial.seeds))
    curves: list[NDArray[np.float64]] = []
    predicted = np.zeros((len(places), len(truth)))
    for now in run.rounds():
        line = np.full((3, len(places)), np.nan)
        # Parties that train alone make a line whose way nobody looks at, as dear to score as the parties are many.
        if trial.role != "local_only" or now.round_ == trial.settings.rounds:
            predicted, losses = _predict(run, test_x, data)
            for place in places:
                if place not in now.diverged:
                    line[:, place] = (*_scores(truth, predicted[place]), losses[place])
        curves.append(line)
        if watch is not None:
            watch(now.round_, float(np.nanmean(line[0])) if np.isfinite(line[0]).any() else 0.0)
        if time.monotonic() - began > seconds:
            break
    finished = run.state.round_ >= trial.settings.rounds
    part = Part(
        first=first,
        last=run.state.round_,
        curves=np.stack(curves, 2) if curves else np.zeros((3, len(places), 0)),
        state="",
        sha256="",
        predicted=predicted if finished else None,
        diverged=np.asarray([run.state.diverged.get(place, 0) for place in places]),
        parameters=run.network.layout.size,
        seconds=time.monotonic() - began,
    )
    return part, run.state


def started(trial: Trial, data: Prepared) -> Run:
    """Set a trial up before its first round."""
    dtype = getattr(torch, trial.settings.dtype)
    federation = _federation(data, dtype, pooled=trial.role == "centralised")
    return begin(trial.algorithm, trial.hyper, trial.settings, trial.seeds, federation=federation, model=trial.model)


def run_trial(trial: Trial, data: Prepared, watch: Watch | None = None) -> Outcome:
    """Train a trial from its first round to its last."""
    return joined([run_part(trial, data, watch=watch)[0]])


def _federation(data: Prepared, dtype: torch.dtype, *, pooled: bool) -> Federation:
    arrays = Data(table_of(data.x, dtype), torch.from_numpy(data.y))
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


def _predict(run: Run, x: Tensor | Sparse, data: Prepared) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Predictions (S, n) and mean losses (S,): by the global model, or each party's rows by the party's own."""
    if run.shared is None:
        outputs = run.network.outputs(run.state.weights, run.state.buffers, x)
        return _read(outputs, data.test_y)
    if data.test_party is None:  # whose rows they are is not known: the mean over the parties' models is the vote
        regression = run.federation.data.regression
        every = (run.network.outputs(*personal(run, int(party)), x) for party in run.federation.active)
        votes = sum(outputs if regression else torch.softmax(outputs, 1) for outputs in every)
        mean = votes / len(run.federation.active)
        return _read(mean if regression else torch.log(mean), data.test_y)  # type: ignore[arg-type]
    predicted, losses = np.zeros((len(run.seeds), len(x))), np.zeros(len(run.seeds))
    for party in np.unique(data.test_party):
        mine = np.flatnonzero(data.test_party == party)
        outputs = run.network.outputs(
            *personal(run, int(party)), x[torch.from_numpy(mine).to(run.state.weights.device)]
        )
        predicted[:, mine], part = _read(outputs, data.test_y[mine])
        losses += part * len(mine) / len(x)
    return predicted, losses


def _read(
    outputs: Tensor, truth: NDArray[np.int64] | NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    target, outputs = torch.from_numpy(truth), outputs.cpu()
    if target.dtype.is_floating_point:
        error = (outputs[:, 0] - target).square().mean(1)
        return outputs[:, 0].double().numpy(), error.double().numpy()
    hit = torch.log_softmax(outputs, 1).gather(1, target.expand(len(outputs), 1, -1))
    return outputs.argmax(1).double().numpy(), -hit.mean((1, 2)).double().numpy()

"""Before a run starts: how long it will take and how much memory it needs. An estimate changes no number of the run."""

import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import torch

from fedskew.engine.plans import Estimate, Trial
from fedskew.engine.splits import Prepared, arrays_of
from fedskew.engine.training import advance
from fedskew.engine.trials import started
from fedskew.engine.tuning import RUNGS, SEEDS
from fedskew.profiles.steps import cohort_size

PROCESS = 450_000_000  # bytes a worker takes with torch loaded, before any data: measured on Linux, torch 2.13
PENALTY = 2.0  # cost of a step with an extra loss (MOON): measured by bench/engine.py


def lane_steps(trial: Trial, data: Prepared) -> int:
    """Local steps of a whole trial over all seeds, from sizes, epochs, batch, rounds and participation alone."""
    how, sizes = trial.settings, np.diff(data.bounds)
    if trial.role == "centralised":
        sizes = np.asarray([sizes.sum()])
    batches = np.ceil(sizes[sizes > 0] / how.batch_size)
    cohort = cohort_size(len(batches), how.participation) if len(batches) else 0
    return int(batches.sum() * how.local_epochs * how.rounds * len(trial.seeds) * cohort / max(1, len(batches)))


def estimate(trials: Sequence[Trial], data: Prepared, jobs: int, *, tuning: bool) -> Estimate:
    """Time one short round of the first trial and scale it up.

    Parameters
    ----------
    trials : all that will run
    data : what they run on
    jobs : worker processes
    tuning : whether every candidate is tuned first

    Returns
    -------
    Estimate : good to about a factor of two
    """
    share = SEEDS * sum(count / part for rungs in RUNGS for part, count in rungs) if tuning else 0.0
    parts = []
    for trial in trials:
        more = share / len(trial.seeds) if trial.role != "local_only" else 0.0
        parts.append((int(lane_steps(trial, data) * (1 + more)), PENALTY if trial.algorithm.penalty else 1.0))
    first = trials[0]
    one_round = msgspec.structs.replace(first.settings, rounds=1, local_epochs=1)
    short = replace(first, settings=one_round)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        began = time.monotonic()
        run = started(short, data)
        advance(run)
        spent = time.monotonic() - began
    finally:
        torch.set_num_threads(threads)
    per_step = spent / max(1, lane_steps(short, data))
    rows = run.state.weights.numel() * 4 * max(1, len(run.federation.active))
    kept = max(t.algorithm.client_state for t in trials)
    held = sum(values.nbytes for values in arrays_of(data).values())
    needed = held + jobs * (PROCESS + rows * (2 + kept))
    work = sum(steps * cost for steps, cost in parts)
    return Estimate(seconds=work * per_step / jobs, bytes=int(needed), lane_steps=sum(steps for steps, _ in parts))

"""What a worker of a Ray cluster does: one part of a trial. It gets values and returns values, and sees no folder."""

import socket
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import msgspec
import torch

from fedskew.engine.plans import Part, Trial
from fedskew.engine.snapshots import pack, unpack
from fedskew.engine.splits import Prepared
from fedskew.engine.trials import run_part
from fedskew.engine.versions import versions
from fedskew.profiles.errors import EnvironmentFaultError


def run_task(
    trial: Trial,
    data: Prepared,
    state: bytes | None,
    seconds: float,
    wanted: Mapping[str, str],
    path: Sequence[str] = (),
) -> tuple[Part, bytes | None]:
    """Run the next part of a trial with one torch thread.

    Parameters
    ----------
    trial, data : what to train, and on what; the arrays may be read-only
    state : where the last part ended; None: from the initial weights
    seconds : the part ends after the round in which this much time has passed
    wanted : versions of the process that asks
    path : where that process finds modules; those of a user's model may lie in the same place here

    Returns
    -------
    part : its ``state`` and ``sha256`` are empty
    state : after its last round; None once the trial is finished

    Raises
    ------
    EnvironmentFaultError
        This worker runs other versions, whose results could not stand beside the others.
    """
    check_versions(wanted, _mine())
    sys.path += [place for place in path if place not in sys.path]
    torch.set_num_threads(1)  # the bits depend on it
    with warnings.catch_warnings():
        # Ray's arrays are shared by all workers of a machine and read-only; the engine writes to no table
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ", category=UserWarning)
        before = None if state is None else unpack(state)
        part, after = run_part(_placed(trial), data, state=before, seconds=seconds)
    return part, None if part.predicted is not None else pack(after)


def check_versions(wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Refuse to train beside processes of other versions.

    Raises
    ------
    EnvironmentFaultError
        Any differs: all that do are named.
    """
    other = [
        "fedskew's own code differs" if name == "code" else f"{name} is {found.get(name)} there and {wanted[name]} here"
        for name in sorted(wanted)
        if wanted[name] != found.get(name)
    ]
    if other:
        raise EnvironmentFaultError(
            f"the Ray worker on {socket.gethostname()} would give other bits: {'; '.join(other)}. "
            f"Install the same versions on all machines"
        )


@cache
def _mine() -> dict[str, str]:
    return versions()


def _placed(trial: Trial) -> Trial:
    """The trial on the one GPU that Ray gave to this task, which has number 0 here whatever it is elsewhere."""
    if not trial.settings.device.lower().startswith("cuda"):
        return trial
    return replace(trial, settings=msgspec.structs.replace(trial.settings, device="cuda"))

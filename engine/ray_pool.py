"""Trials on a Ray cluster: Ray's workers run the parts, this process alone commits them. The bits are the same."""

import math
import multiprocessing
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fedskew.engine.backends import ClusterLostError
from fedskew.engine.plans import Part, Trial
from fedskew.engine.pool import Tell, Workers, finished
from fedskew.engine.pool_losses import MEMORY, RETRIES, Losses, short_of_memory
from fedskew.engine.pool_travel import save, travels, without_main
from fedskew.engine.snapshots import read_blob, write_blob
from fedskew.engine.splits import Prepared, without_arrays
from fedskew.engine.store import RunStore
from fedskew.profiles.errors import FedskewError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

SECONDS = 5.0  # a part ends after the round in which this much time has passed; its state crosses the network
LEAVING = 20.0  # seconds that a cluster started here gets to end


class RayWorkers(Workers):
    """Ray's workers; a context, so that a cluster started here ends with it. One that was joined goes on.

    Parameters
    ----------
    data : prepared tables by name; each lies in the object store once a machine
    jobs : how many parts at a time; None, with an address: as many as the cluster has CPUs
    store : where parts are committed and resumed from; None keeps nothing
    address : of a running cluster, ``auto`` or ``HOST:PORT``; None starts one here
    """

    def __init__(
        self, data: Mapping[str, Prepared], jobs: int | None, store: RunStore | None, address: str | None
    ) -> None:
        super().__init__(data, jobs or 1, store)
        self._wanted, self._address = jobs, address
        self._pipe: Connection | None = None
        self._courier: SpawnProcess | None = None
        self._limit = 1

    def __enter__(self) -> Self:
        """Start the process that talks to Ray, and wait until it has a cluster."""
        for name, data in self._data.items():
            save(data, Path(self._folder.name), name)
        rest = {name: without_arrays(data) for name, data in self._data.items()}
        self._pipe, far = multiprocessing.get_context("spawn").Pipe()
        from fedskew.engine.ray_courier import carry

        self._courier = multiprocessing.get_context("spawn").Process(
            target=carry, args=(far, self._folder.name, rest, self._wanted, self._address), name="fedskew-ray"
        )
        try:
            with without_main():
                self._courier.start()
            far.close()  # so that the pipe ends when the courier does
            self._met()
        except BaseException:
            self._stop(kill=True)
            self._folder.cleanup()
            raise
        return self

    def _met(self) -> None:
        try:
            word, value = self._heard()
        except ClusterLostError:  # where nobody answers, Ray may end the courier without a word
            word, value = "cannot", "nothing answers"
        if word == "cannot":
            raise ClusterLostError(_cannot(value, self._address))
        self._jobs = min(self._wanted or value, max(1, value))
        # the next parts wait at the cluster, so that no CPU idles while one is committed here
        self._limit = self._wanted if self._address is not None and self._wanted else 2 * max(1, value)

    def _train(self, trials: Sequence[Trial], done: list[list[Part]], tell: Tell | None, most: int = RETRIES) -> None:
        """Keep as many parts running as the cluster takes; trials that have begun go first, so that few stay open.

        Raises
        ------
        FedskewError
            A function or model is known in this process only.
        EnvironmentFaultError
            The cluster is lost; or workers died again and again while training the same part, all else being done.
        """
        _check_travel(trials)
        queue = deque(i for i, parts in enumerate(done) if not finished(parts))
        losses, busy = Losses(trials, most), 0
        while queue or busy:
            while queue and busy < self._limit:
                i = queue.popleft()
                seconds = math.inf if self._store is None else SECONDS
                self._say((i, trials[i], self._state(done[i]), seconds))
                busy += 1
            word, i, *rest = self._heard()
            busy -= 1
            if word == "error" and not short_of_memory(rest[0]):
                raise rest[0]
            if word == "part":
                losses.survived(i)
                self._keep(trials[i], done[i], self._written(trials[i], *rest))
                _told(tell, i, done[i][-1])
            else:
                losses.count(i, MEMORY if word == "error" else rest[0])
            if not finished(done[i]) and not losses.given_up(i):
                queue.appendleft(i)
        losses.check("Ray workers", kept=self._store is not None, apart=False)

    def _state(self, parts: Sequence[Part]) -> bytes | None:
        blobs = self._blobs()
        return read_blob(blobs / parts[-1].state, parts[-1].sha256) if parts and blobs is not None else None

    def _written(self, trial: Trial, part: Part, state: bytes | None) -> Part:
        blobs = self._blobs()
        if state is None or blobs is None:
            return part
        name = f"{trial.key}-{part.last}.safetensors"
        return replace(part, state=name, sha256=write_blob(blobs / name, state))

    def _say(self, word: tuple[Any, ...]) -> None:
        assert self._pipe is not None
        try:
            self._pipe.send(word)
        except OSError as error:
            raise self._lost() from error

    def _heard(self) -> tuple[Any, ...]:
        assert self._pipe is not None
        try:
            word: tuple[Any, ...] = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        return word

    def _lost(self) -> ClusterLostError:
        where = "started here" if self._address is None else f"at {self._address}"
        kept = (
            "what was committed is kept: run the same command again" if self._store is not None else "nothing was kept"
        )
        return ClusterLostError(f"the Ray cluster {where} is lost (its head, or this machine's part of it); {kept}")

    def _stop(self, *, kill: bool) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._courier is not None and self._courier.pid is not None:
            if kill:
                self._courier.terminate()
            self._courier.join(LEAVING)
            self._courier.kill()
            self._courier.join()
        self._pipe = self._courier = None


def _check_travel(trials: Sequence[Trial]) -> None:
    stuck = next((trial for trial in trials if not travels(trial)), None)
    if stuck is not None:
        raise FedskewError(
            f"{stuck.name} with model {stuck.model.name!r} uses functions of this script or notebook, which other "
            f"machines cannot import; put them in a module that is installed there, or use --backend local"
        )


def _cannot(text: str, address: str | None) -> str:
    reason = text if len(text) <= 300 else text[:300] + "…"
    if address is None:
        return f"Ray cannot be started here: {reason}; try --backend local"
    token = "token" in text.lower() or "RAY_AUTH" in text
    hint = (
        "its token (~/.ray/auth_token of the head) must be here too, and RAY_AUTH_MODE=token be set"
        if token
        else "does `ray status` show it, and has this machine joined it (`ray start --address=HOST:PORT`)?"
    )
    return f"no Ray cluster can be joined at {address}: {reason}; {hint}"


def _told(tell: Tell | None, i: int, part: Part) -> None:
    if tell is not None and part.curves.shape[2]:
        score = part.curves[0, :, -1]
        tell(i, part.last, float(np.nanmean(score)) if np.isfinite(score).any() else 0.0)

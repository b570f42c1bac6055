"""The process between the coordinator and a Ray cluster.

Ray's library ends the process that uses it when the cluster's head is gone, changes signal handlers and environment
variables, and prints. So it lives in a process of its own; the coordinator sees a pipe, and at worst its end.
"""

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedskew.engine.plans import Trial
from fedskew.engine.pool_travel import load
from fedskew.engine.ray_task import run_task
from fedskew.engine.splits import Prepared
from fedskew.engine.versions import versions
from fedskew.profiles.errors import EnvironmentFaultError

HEAD_TIMEOUT = 20  # seconds without the head after which Ray gives up, and with it this process
SOCKET_ROOM = 30  # bytes of folder that leave room for Ray's socket names: Unix allows 107 in all
POLL = 0.02  # seconds between looks at what came


def carry(pipe: Connection, folder: str, rest: Mapping[str, Prepared], jobs: int | None, address: str | None) -> None:
    """Join or start a cluster, then take parts from the pipe and put their results into it, until it is closed.

    Words taken: (number, trial, state, seconds). Words put: ("ready", CPUs); ("cannot", text); ("part", number, part,
    state); ("died", number, text); ("error", number, exception).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides what an interrupt means
    _silence(Path(folder) / "ray.log")
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(HEAD_TIMEOUT))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # what Ray will do anyway, without a warning
    with contextlib.suppress(EOFError, ConnectionError):  # the coordinator is gone: nobody waits for the rest
        ray: Any = import_module("ray")
        try:
            _join(ray, folder, jobs, address)
        except Exception as error:  # noqa: BLE001 - Ray raises RuntimeError, ConnectionError, ValueError and its own
            pipe.send(("cannot", " ".join(str(error).split())))
            return
        try:
            pipe.send(("ready", int(ray.cluster_resources().get("CPU", 0))))
            _serve(ray, pipe, {name: ray.put(data) for name, data in load(folder, rest).items()})
        finally:
            ray.shutdown()  # ends a cluster that was started here, and only leaves one that was joined


def _join(ray: Any, folder: str, jobs: int | None, address: str | None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is not None:
        ray.init(address=address, **quiet)
        return
    if len(folder) <= SOCKET_ROOM:  # Ray's own folder would stay behind, and may belong to another user
        quiet["_temp_dir"] = folder
    ray.init(address="local", num_cpus=jobs, include_dashboard=False, **quiet)


def _serve(ray: Any, pipe: Connection, tables: Mapping[str, Any]) -> None:
    mine, path = versions(), [str(Path(place or ".").resolve()) for place in sys.path]
    # dead workers are counted by the coordinator: Ray itself would retry those out of memory without end
    remote = ray.remote(run_task).options(max_retries=0, num_cpus=1)
    waiting: dict[Any, int] = {}
    inbox: queue.Queue[Any] = queue.Queue()
    # read all the time: if both sides wrote a large state and neither read, both would wait for ever
    threading.Thread(target=_listen, args=(pipe, inbox), daemon=True).start()
    while True:
        with contextlib.suppress(queue.Empty):
            while (word := inbox.get(block=not waiting)) is not None:
                number, trial, state, seconds = word
                try:
                    share = gpus(trial, ray.cluster_resources().get("GPU", 0.0))
                except EnvironmentFaultError as error:
                    pipe.send(("error", number, error))
                    continue
                task = remote.options(num_gpus=share) if share else remote
                waiting[task.remote(trial, tables[trial.data], state, seconds, mine, path)] = number
            return
        ready, _ = ray.wait(list(waiting), timeout=POLL)
        for ref in ready:
            pipe.send(_word(ray, ref, waiting.pop(ref)))


def _listen(pipe: Connection, inbox: "queue.Queue[Any]") -> None:
    """Take everything from the pipe; None once the coordinator is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            inbox.put(pipe.recv())
    inbox.put(None)


def gpus(trial: Trial, there: float) -> int:
    """How many GPUs a part of the trial needs.

    Raises
    ------
    EnvironmentFaultError
        It needs one and the cluster has none; Ray would wait for ever.
    """
    if not trial.settings.device.lower().startswith("cuda"):
        return 0
    if there < 1:
        raise EnvironmentFaultError(
            f"device {trial.settings.device!r} needs a GPU and the Ray cluster has none; try device=cpu"
        )
    return 1


def _word(ray: Any, ref: Any, number: int) -> tuple[Any, ...]:
    try:
        part, state = ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        return ("error", number, _cause(error))
    except ray.exceptions.RayError as error:  # the worker or its machine is gone, or ran out of memory
        memory = "out of memory" if isinstance(error, ray.exceptions.OutOfMemoryError) else ""
        return ("died", number, memory or " ".join(str(error).split())[:200])
    return ("part", number, part, state)


def _cause(error: Any) -> Exception:
    """What the worker raised, as it was raised where it can travel."""
    cause = error.cause
    if isinstance(cause, Exception) and type(cause).__module__.split(".")[0] in {"builtins", "fedskew"}:
        missing = getattr(cause, "name", None) if isinstance(cause, ModuleNotFoundError) else None
        if missing:
            return EnvironmentFaultError(f"a Ray worker has no module {missing!r}; install it on all machines")
        return cause
    text = str(error).strip().splitlines()[-1]
    return EnvironmentFaultError(f"a Ray worker failed: {text}")


def _silence(log: Path) -> None:
    """Send what Ray prints, also from its own threads, to a file that goes with the folder."""
    with contextlib.suppress(OSError):
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.close(handle)

"""Where trials run: processes of this machine, or a Ray cluster. No number of a result depends on it."""

import importlib.util
import re

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError, choices

BACKENDS = ("local", "ray")


class ClusterLostError(EnvironmentFaultError):
    """The place where trials run is gone or was never there: no other trial can run there either."""


def check_backend(backend: str, address: str | None) -> None:
    """Tell what is wrong with the place where trials are to run, before any work starts.

    Parameters
    ----------
    backend : ``local`` or ``ray``
    address : of a running Ray cluster, ``auto`` or ``HOST:PORT``; None starts one on this machine

    Raises
    ------
    FedskewError
        There is no such backend, the address is malformed, or belongs to no backend.
    EnvironmentFaultError
        Ray is not installed.

    Examples
    --------
    >>> check_backend("local", None)
    >>> check_backend("local", "auto")
    Traceback (most recent call last):
    ...
    fedskew.profiles.errors.FedskewError: --address auto belongs to --backend ray; with --backend local there is none
    """
    if backend not in BACKENDS:
        raise FedskewError(f"unknown backend {backend!r}: {choices(backend, BACKENDS)}")
    if backend == "local":
        if address is not None:
            raise FedskewError(f"--address {address} belongs to --backend ray; with --backend local there is none")
        return
    if address is not None and address != "auto" and not re.fullmatch(r"[^/\s]+:\d{1,5}", address):
        raise FedskewError(
            f"--address {address!r} is neither 'auto' nor HOST:PORT of a Ray head, such as 10.0.0.5:6379"
        )
    if importlib.util.find_spec("ray") is None:
        raise EnvironmentFaultError("--backend ray needs Ray, which is not installed: pip install 'fedskew[ray]'")

"""Where to compute: the CPU, or a CUDA device where there is one."""

import torch

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError


def find_device(name: str) -> torch.device:
    """The device of a name: ``cpu``, ``cuda`` or ``cuda:1``.

    Raises
    ------
    FedskewError
        There is no such kind of device.
    EnvironmentFaultError
        This machine, or this build of torch, does not have it.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    """
    kind, _, number = name.strip().lower().partition(":")
    if kind == "cpu" and not number:
        return torch.device("cpu")
    if kind != "cuda" or (number and not number.isdecimal()):
        raise FedskewError(f"unknown device {name!r}; there are 'cpu' (the default), 'cuda' and 'cuda:NUMBER'")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= count:
        seen = f"it sees {count} CUDA devices" if torch.version.cuda else "it is built without CUDA"
        raise EnvironmentFaultError(f"device {name!r} is not there: torch {torch.__version__}, {seen}; try device=cpu")
    return torch.device(kind, int(number or 0))

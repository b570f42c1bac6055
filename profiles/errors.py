"""The errors a user can meet; every one carries the exit code of the command line."""

import difflib
from collections.abc import Iterable
from numbers import Integral
from typing import ClassVar


class FedskewError(ValueError):
    """Bad input or usage: one sentence that says what, where, what is allowed and what to try.

    Examples
    --------
    >>> raise FedskewError("alpha is -1; it must be a positive number")
    Traceback (most recent call last):
    ...
    fedskew.profiles.errors.FedskewError: alpha is -1; it must be a positive number
    """

    exit_code: ClassVar[int] = 2


class EnvironmentFaultError(FedskewError):
    """The machine, not the input, is at fault: disk, memory, permission, a missing package."""

    exit_code: ClassVar[int] = 3


EXTRAS = {"PIL": "images", "opendp": "dp", "pyarrow": "arrow", "ray": "ray", "hypothesis": "testing"}
"""Packages that an extra brings; every other one is needed by fedskew itself."""


def missing_package(error: ModuleNotFoundError) -> EnvironmentFaultError:
    """Tell a missing package in one line, with the command that installs it.

    Examples
    --------
    >>> str(missing_package(ModuleNotFoundError(name="torch.nn")))
    'the package torch is not installed, and this needs it; try: pip install torch'
    >>> str(missing_package(ModuleNotFoundError(name="opendp")))
    "the package opendp is not installed, and this needs it; try: pip install 'fedskew[dp]'"
    """
    package = (error.name or str(error)).partition(".")[0]
    command = f"'fedskew[{EXTRAS[package]}]'" if package in EXTRAS else package
    return EnvironmentFaultError(
        f"the package {package} is not installed, and this needs it; try: pip install {command}"
    )


SILOS = "make silos of it with read_table(source, label=..., party=...) or make_partition(features, labels, party)"


def check_type(what: str, value: object, kind: type | tuple[type, ...], how: str) -> None:
    """Refuse a value of another type, with how to come by the right one.

    Examples
    --------
    >>> check_type("silos", "t.csv", bytes, "read the file first")
    Traceback (most recent call last):
        ...
    fedskew.profiles.errors.FedskewError: silos is a str; read the file first
    """
    if not isinstance(value, kind):
        raise FedskewError(f"{what} is a {type(value).__name__}; {how}")


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Refuse what is no whole number from ``least`` to 2**63 - 1.

    Examples
    --------
    >>> check_whole("seeds", 2.5, 1)
    Traceback (most recent call last):
        ...
    fedskew.profiles.errors.FedskewError: seeds is 2.5; it must be a whole number from 1 on
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 2**63:
        raise FedskewError(f"{name} is {value!r}; it must be a whole number from {least} on")


def choices(name: str, allowed: Iterable[str]) -> str:
    """Name the values that exist, the nearest one first.

    Parameters
    ----------
    name : the value that does not exist
    allowed : the values that do

    Examples
    --------
    >>> choices("lable", ["label", "age"])
    "did you mean 'label'? There are: 'label', 'age'"
    """
    known = list(allowed)
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1, cutoff=0.6)
    hint = next((f"did you mean {k!r}? " for k in known if near and k.lower() == near[0]), "")
    shown = ", ".join(repr(k) for k in known[:20])
    more = f" and {len(known) - 20} more" if len(known) > 20 else ""
    return f"{hint}{'There' if hint else 'there'} are: {shown}{more}"

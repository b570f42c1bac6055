"""Trials that cost workers their lives: who is to blame, who is tried again and how, and what to say in the end.

A trial that cannot be trained here is never recorded as an algorithm's failure: that is the machine's, and the same
bytes must come out on one with more memory. The others are brought to their ends, so that the same command goes on
with this one alone.
"""

import signal
from collections.abc import Mapping, Sequence

from fedskew.engine.plans import Trial
from fedskew.profiles.errors import EnvironmentFaultError

RETRIES = 2  # of one part of a trial; the last of them runs with nothing beside it
MEMORY = "out of memory"


class Losses:
    """Deaths in a row by trial.

    Parameters
    ----------
    trials : what is to be trained
    most : retries of one part
    """

    def __init__(self, trials: Sequence[Trial], most: int = RETRIES) -> None:
        self._trials, self._most = trials, most
        self._deaths = [0] * len(trials)
        self._reasons = [""] * len(trials)
        self._alone: set[int] = set()

    def count(self, i: int, reason: str) -> None:
        """Note that a worker died, or found no memory, while it ran a part of trial ``i``."""
        self._deaths[i] += 1
        self._reasons[i] = reason
        if self._deaths[i] >= self._most:
            self._alone.add(i)

    def survived(self, i: int) -> None:
        """Note that a part of trial ``i`` came back: its next one has all retries again."""
        self._deaths[i] = 0

    def alone(self, i: int) -> bool:
        """Whether the trial must have nothing beside it: what is short may be memory for both."""
        return i in self._alone

    def given_up(self, i: int) -> bool:
        """Whether the trial has had all its retries."""
        return self._deaths[i] > self._most

    def check(self, who: str, *, kept: bool, apart: bool = True) -> None:
        """Tell of the trials that were given up.

        Parameters
        ----------
        who : what died
        kept : whether what was finished is kept
        apart : whether the last try had nothing beside it

        Raises
        ------
        EnvironmentFaultError
            There are any.
        """
        lost = [i for i in range(len(self._trials)) if self.given_up(i)]
        if not lost:
            return
        names = ", ".join(dict.fromkeys(self._trials[i].name for i in lost))
        reasons = "; ".join(dict.fromkeys(self._reasons[i] for i in lost))
        beside = ", at last with nothing beside it" if apart else ""
        rest = "all else is finished and kept: the same command tries it again" if kept else "nothing was kept"
        raise EnvironmentFaultError(
            f"{who} died {self._most + 1} times while training {names} ({reasons}){beside}; {rest}. "
            f"It needs more memory, --max-rows with a smaller number, or a smaller --model"
        )


def short_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short: torch raises a RuntimeError.

    Examples
    --------
    >>> short_of_memory(MemoryError()), short_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    (True, True)
    >>> short_of_memory(RuntimeError("shapes differ"))
    False
    """
    text = str(error).lower()
    torch = isinstance(error, RuntimeError) and (MEMORY in text or "allocate memory" in text)
    return isinstance(error, MemoryError) or torch


def ended(code: int) -> str:
    """How a process ended, for a person.

    Examples
    --------
    >>> ended(-9), ended(1)
    ('killed by signal 9, probably out of memory', 'exit code 1')
    """
    if code >= 0:
        return f"exit code {code}"
    return f"killed by signal {-code}" + (f", probably {MEMORY}" if -code == signal.SIGKILL else "")


def blamed(running: Mapping[int, int], codes: Mapping[int, int | None]) -> dict[int, str]:
    """Whose worker died, and how.

    Parameters
    ----------
    running : trial by the process that runs it
    codes : exit code by process; the pool itself ends the survivors with SIGTERM

    Returns
    -------
    dict : reason by trial; every one that ran where it cannot be told

    Examples
    --------
    >>> blamed({11: 0, 12: 1}, {11: -15, 12: -9})
    {1: 'killed by signal 9, probably out of memory'}
    >>> blamed({11: 0, 12: 1}, {11: -15, 12: -15})
    {0: 'killed', 1: 'killed'}
    """
    dead = {pid: code for pid, code in codes.items() if code not in (None, 0, -signal.SIGTERM)}
    found = {i: ended(code) for pid, i in running.items() if (code := dead.get(pid)) is not None}
    return found or dict.fromkeys(running.values(), "killed")

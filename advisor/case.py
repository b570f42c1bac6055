"""What a check is, and what it may look at."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fedskew.advisor.decision import Decision
from fedskew.advisor.situation import Situation
from fedskew.profiles.partitions import Severity


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finding about the advice: ``text`` is a sentence, ``evidence`` says what it rests on."""

    code: str
    severity: Severity
    text: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Case:
    """What a check may look at."""

    situation: Situation
    decision: Decision

    @property
    def named(self) -> tuple[str, ...]:
        """The recommended algorithm and its alternatives."""
        return (self.decision.algorithm, *self.decision.alternatives)

    @property
    def sizes(self) -> list[int]:
        """Rows of the parties that hold any."""
        return [size for size in self.situation.sizes if size]


CheckFn = Callable[[Case], Check | None]
"""From the case to a check, or to None where it does not apply."""

"""What a study would do, before it does it: every setting with its steps, and an estimate of time and memory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedskew.advisor.study.grid import Study
from fedskew.advisor.study.run import estimate_setting, result_path
from fedskew.profiles.errors import FedskewError


@dataclass(frozen=True, slots=True)
class Planned:
    """One setting: local steps of all its lanes, seconds in one process, bytes.

    ``state``: finished, to do, or why it cannot run.
    """

    key: str
    title: str
    candidates: int
    seeds: int
    lane_steps: int
    seconds: float
    bytes: int
    state: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """The whole: ``seconds`` of wall time for what is left, ``bytes`` of memory over all processes."""

    name: str
    note: str
    jobs: int
    settings: tuple[Planned, ...]
    skipped: tuple[str, ...]
    seconds: float
    bytes: int

    def to_json(self) -> str:
        """One JSON document, indented by two."""
        whole = {"schema": "fedskew-study-plan/1", **msgspec.to_builtins(self)}
        return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()

    def to_text(self) -> str:
        """A line a setting, then the sum."""
        lines = [self.note] if self.note else []
        lines += [f"skipped, not here: {name}" for name in self.skipped]
        lines += [
            f"{one.title}: {one.candidates} candidates x {one.seeds} seeds, {one.lane_steps:,} local steps, "
            f"{_span(one.seconds)}, {one.bytes / 1e9:.1f} GB ({one.state})"
            for one in self.settings
        ]
        left = sum(one.state == "to do" for one in self.settings)
        total = sum(one.lane_steps for one in self.settings if one.state == "to do")
        lines.append(
            f"{left} of {len(self.settings)} settings to do, {total:,} local steps: about {_span(self.seconds)} "
            f"in {self.jobs} processes, {self.bytes / 1e9:.1f} GB (good to a factor of two)"
        )
        return "\n".join(lines)


def forecast(
    study: Study, out: Path | None, *, jobs: int | None = None, tell: Callable[[str], None] = lambda _: None
) -> Forecast:
    """Estimate every setting by timing one short round of it.

    Parameters
    ----------
    study : from ``read_study``
    out : folder of an earlier run, whose finished settings cost nothing; or None
    jobs : worker processes; None: one a core
    tell : told which setting is looked at
    """
    from fedskew.engine.pool import cores

    workers = jobs or cores()
    found = []
    for setting in study.settings:
        tell(setting.title)
        steps, seconds, memory = 0, 0.0, 0
        state = "finished" if out is not None and result_path(out, setting).exists() else "to do"
        try:
            what = estimate_setting(setting, study.places[setting.data])
            steps, seconds, memory = what.lane_steps, what.seconds, what.bytes
        except FedskewError as error:
            state = f"cannot run: {error}"
        plan = (setting.key, setting.title, len(setting.candidates), setting.seeds, steps, seconds, memory, state)
        found.append(Planned(*plan))
    todo = [one for one in found if one.state == "to do"]
    spent = max([sum(one.seconds for one in todo) / workers, *(one.seconds for one in todo)], default=0.0)
    memory = sum(sorted((one.bytes for one in todo), reverse=True)[:workers])
    return Forecast(study.name, study.note, workers, tuple(found), tuple(study.skipped), spent, memory)


def _span(seconds: float) -> str:
    """Time as a person says it.

    Examples
    --------
    >>> _span(20), _span(600), _span(36000)
    ('20 s', '10 min', '10.0 h')
    """
    if seconds < 90:
        return f"{max(1, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

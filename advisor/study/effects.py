"""What one axis of the grid does, the others held: settings that differ in nothing else, side by side."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fedskew.advisor.study.rows import best, deviation, grouped, usable
from fedskew.advisor.study.run import Result
from fedskew.advisor.study.spelling import told, varying
from fedskew.engine.records import Candidate

AXES = ("local_epochs", "batch_size", "parties", "participation", "model", "rounds", "lr", "partition_seed")


@dataclass(frozen=True, slots=True)
class Effect:
    """One axis in one place of the grid.

    ``where``: what is held, in words. ``values``: of the axis. ``lines``: by candidate, for each value accuracy and its
    standard deviation in percent, None where there is none. ``marks``: the same, † or ‡ where a candidate is not ok.
    """

    axis: str
    where: str
    values: tuple[str, ...]
    lines: dict[str, tuple[tuple[float, float] | None, ...]]
    marks: dict[str, tuple[str, ...]]


def effects(results: Sequence[Result]) -> list[Effect]:
    """Every set of settings that differ in one axis alone; what else varies in the study is told of each."""
    found: list[Effect] = []
    wide = varying(result.setting for result in results)
    for axis in AXES:
        groups: dict[bytes, list[Result]] = defaultdict(list)
        for result in results:
            rest = msgspec.structs.replace(result.setting, **{axis: "" if axis == "model" else 0})
            groups[msgspec.json.encode(rest)].append(result)
        found += [_effect(axis, members, wide) for members in groups.values() if len(members) > 1]
    return found


def effects_markdown(found: Sequence[Effect]) -> str:
    """One table a set; † constant predictor, ‡ diverged."""
    text: list[str] = []
    for one in found:
        name = one.axis.replace("_", " ")
        text += [f"## {name}: {one.where}", ""]
        text += [f"| {name} | " + " | ".join(one.lines) + " |", "|---|" + "---:|" * len(one.lines)]
        for i, value in enumerate(one.values):
            cells = [_cell(line[i], one.marks[candidate][i]) for candidate, line in one.lines.items()]
            text.append(f"| {value} | " + " | ".join(cells) + " |")
        text.append("")
    return "\n".join(text)


def _effect(axis: str, members: Sequence[Result], wide: Sequence[str]) -> Effect:
    setting = members[0].setting
    others = {
        "parties": f"{members[0].profile.parties} parties",
        "participation": f"{setting.participation:g} a round",
        "local_epochs": f"E={setting.local_epochs}",
        "batch_size": f"B={setting.batch_size}",
        "rounds": f"T={setting.rounds}",
    }
    kept = [text for name, text in others.items() if name != axis]
    held = ", ".join([*kept, *told(setting, [name for name in wide if name != axis])])
    groups = [grouped(result.validation.candidates) for result in members]
    names = list(groups[0])
    chosen = {name: [best(group[name]) for group in groups] for name in names}
    return Effect(
        axis=axis,
        where=f"{setting.data}, {setting.partition} ({held})",
        values=tuple(str(getattr(result.setting, axis)) for result in members),
        lines={n: tuple(_score(r, c) for r, c in zip(members, chosen[n], strict=True)) for n in names},
        marks={n: tuple({"failed": " †", "diverged": " ‡"}.get(c.status, "") for c in chosen[n]) for n in names},
    )


def _score(result: Result, one: Candidate) -> tuple[float, float] | None:
    mean = usable(one.accuracy, result.validation.references.majority.accuracy.mean)
    return None if mean is None else (100 * mean, 100 * (deviation(one.accuracy) or 0.0))


def _cell(score: tuple[float, float] | None, mark: str) -> str:
    return "-" if score is None else f"{score[0]:.1f} ± {score[1]:.1f}{mark}"

"""From the results of a study to the rows that ship: what the profile measured, and scores by share of the rounds."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from fedskew.advisor.own_evidence import COLUMNS, SAME_DATA, SCORES, SHARES, OwnRow
from fedskew.advisor.price import COSTS, base_name
from fedskew.profiles.errors import FedskewError

if TYPE_CHECKING:
    from fedskew.advisor.study.run import Result


def own_rows(results: Iterable["Result"]) -> tuple[OwnRow, ...]:
    """The results of a study, in the order of their settings' names; what is no classification is left out."""
    from fedskew.advisor.study.rows import rows_of

    found = []
    for result in sorted(results, key=lambda one: one.setting.key):
        if result.validation.settings["metric"] != "accuracy":
            continue
        profile = result.profile
        kinds = {name.partition("_")[0] for name in profile.prevailing.components}  # label_count is a kind of "label"
        severities = {getattr(profile, kind).severity for kind in kinds}
        measured = {
            "setting": result.setting.key,
            "kind": profile.prevailing.kind,
            "components": "+".join(profile.prevailing.components),
            "severity": next((grade for grade in ("strong", "mild") if grade in severities), "none"),
            "classes_each": profile.label.classes_per_party.k,
            "strong_concept": int(profile.concept.severity == "strong"),
        }
        found += [
            compact({**row, **measured}) for row in rows_of("evidence", result) if base_name(row["candidate"]) in COSTS
        ]
    return tuple(found)


def joined(rows: Sequence[OwnRow], more: Iterable[OwnRow]) -> tuple[OwnRow, ...]:
    """Rows with those of further candidates beside them, which another study ran in the same settings.

    Settings are the same where FedAvg's rows are, to the digit: same rows, seeds and tuning.

    Raises
    ------
    FedskewError
        FedAvg's row in some setting of the other study is none of ours.
    """
    known = {replace(row, setting=""): row.setting for row in rows if row.algorithm == "fedavg"}
    theirs: dict[str, list[OwnRow]] = defaultdict(list)
    for row in more:
        theirs[row.setting].append(row)
    found, held = list(rows), {(row.setting, row.algorithm) for row in rows}
    for key, candidates in theirs.items():
        base = next((replace(row, setting="") for row in candidates if row.algorithm == "fedavg"), None)
        if base not in known:
            raise FedskewError(f"{key}: FedAvg's row is in no setting of the first study; run both with one version")
        here = [replace(row, setting=known[base]) for row in candidates]
        found += [row for row in here if (row.setting, row.algorithm) not in held]
    return tuple(sorted(found, key=lambda row: row.setting))  # stable: candidates keep their order


def compact(row: Mapping[str, Any]) -> OwnRow:
    """One row of :func:`fedskew.advisor.study.rows.rows_of`, with what the profile measured beside it, made short."""
    values = {name: row[name] for name in COLUMNS if name in row and name not in SCORES}
    values["dataset"], values["table"] = SAME_DATA.get(row["data"], row["data"]), row["data"]
    values["constant"] = row["constant_seeds"] / row["seeds"]
    for name in ("label_skew", "feature_skew", "quantity_skew"):
        values[name] = None if row[name] is None else _short(max(0.0, row[name]))
    for name in ("step_ratio", "weight_sum"):
        values[name] = _short(row[name])
    for metric, long, curves, floor in (
        ("accuracy", "accuracy", "curve", "majority"),
        ("balanced", "balanced_accuracy", "balanced_curve", "majority_balanced"),
    ):
        constant = row[floor]
        values[floor] = _percent(constant)
        ends = [constant if one is None else one for one in row[f"{long}_by_seed"]]
        values[metric] = _percent(constant if row["status"] == "failed" else fmean(ends))
        whole = None not in row[f"{long}_by_seed"] and len(ends) > 1
        values[f"{metric}_sd"] = _percent(stdev(ends)) if whole else None
        for share in SHARES:
            values[f"{metric}_{share}"] = _percent(at_share(row[curves], row["rounds"], share, constant))
    return OwnRow(**values)


def at_share(curves: Sequence[Sequence[float]], rounds: int, share: int, constant: float) -> float:
    """Mean over seeds after a share of the rounds, rounded up; a seed that had diverged counts ``constant``.

    Examples
    --------
    >>> at_share([[0.1, 0.2, 0.3], [0.5]], rounds=4, share=50, constant=0.0)
    0.1
    """
    last = math.ceil(rounds * share / 100)
    return fmean(line[last - 1] if len(line) >= last else constant for line in curves)


def _percent(value: float) -> float:
    return round(100 * value, 3)


def _short(value: float) -> float:
    return float(f"{value:.4g}")

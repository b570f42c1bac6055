"""What the federation runs with: [tool.flwr.app.config] of pyproject.toml, read once and checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedskew.engine.algorithms.base import Hyper

PREFIX = "algorithm."  # mu of FedProx is written algorithm.mu


@dataclass(frozen=True, slots=True)
class Settings:
    """One field for each key of the config, dashes for underscores; ``hyper`` holds the algorithm's own.

    ``parties``: how many there are; all must join before the first round. ``participation``: share of them that trains
    in a round, 1 for all. ``seed``: of initial weights, cohorts and minibatches. ``momentum``, ``weight_decay``: of the
    local SGD. ``scale``: standardise features by the moments of all parties together.
    ``data``: folder of one npz file a party, for simulation. ``output``: folder for status and weights.
    ``evaluate_every``: rounds between tests of the model by all parties, 0 for never. ``join_seconds``,
    ``round_seconds``: how long the server waits for all to join and to answer before it fails. ``on_lost_state``: fail
    or restart.
    """

    parties: int
    rounds: int
    participation: float
    seed: int
    local_epochs: int
    batch_size: int
    lr: float
    momentum: float
    weight_decay: float
    dtype: str
    scale: bool
    data: str
    output: str
    evaluate_every: int
    join_seconds: float
    round_seconds: float
    on_lost_state: str
    hyper: Hyper


def read_settings(config: Mapping[str, bool | float | str]) -> Settings:
    """Read and check the config of a run.

    Raises
    ------
    ValueError
        A key is missing or its value is not allowed.
    """
    values = {name.replace("-", "_"): value for name, value in config.items() if not name.startswith(PREFIX)}
    values["hyper"] = {  # type: ignore[assignment]
        name.removeprefix(PREFIX): value if isinstance(value, str) else float(value)
        for name, value in config.items()
        if name.startswith(PREFIX)
    }
    missing = sorted(set(Settings.__dataclass_fields__) - set(values))
    if missing:
        raise ValueError(f"the config lacks {', '.join(missing)}; see [tool.flwr.app.config] in pyproject.toml")
    found = Settings(**{name: values[name] for name in Settings.__dataclass_fields__})  # type: ignore[arg-type]
    _check(found)
    return found


def _check(found: Settings) -> None:
    """Refuse what would train nothing, or something else than meant.

    Raises
    ------
    ValueError
        A value is not allowed.
    """
    rules = {
        "parties": (found.parties >= 1, "1 or more"),
        "rounds": (found.rounds >= 1, "1 or more"),
        "participation": (0 < found.participation <= 1, "above 0 and at most 1"),
        "local-epochs": (found.local_epochs >= 1, "1 or more"),
        "batch-size": (found.batch_size >= 1, "1 or more"),
        "lr": (found.lr > 0, "above 0"),
        "momentum": (0 <= found.momentum < 1, "0 to below 1"),
        "weight-decay": (found.weight_decay >= 0, "0 or more"),
        "dtype": (found.dtype in {"float32", "float64"}, "float32 or float64"),
        "evaluate-every": (found.evaluate_every >= 0, "0 or more"),
        "join-seconds": (found.join_seconds > 0, "above 0"),
        "round-seconds": (found.round_seconds > 0, "above 0"),
        "on-lost-state": (found.on_lost_state in {"fail", "restart"}, "fail or restart"),
    }
    for name, (fine, allowed) in rules.items():
        if not fine:
            raise ValueError(f"{name} is {getattr(found, name.replace('-', '_'))!r}; it must be {allowed}")

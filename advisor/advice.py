"""advise(): profile, recommend and validate in one call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from fedskew.advisor.recommendation import Recommendation, recommend
from fedskew.advisor.second_opinion import shortlist
from fedskew.engine import Progress, Validation, validate
from fedskew.profiles import FedskewError, Partition, Profile, profile
from fedskew.profiles.sketching.record import Sketch

RECOMMEND_OPTIONS = ("participation", "model", "local_epochs", "batch_size")
"""Options that both the recommendation and the validation take."""


def candidates_of(algorithms: Any, advice: Recommendation) -> Any:
    """The candidates to validate: as given, or those of the shortlist where that is asked for."""
    return shortlist(advice.second_opinion, advice.algorithm) if algorithms == "shortlist" else algorithms


class Advice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The three answers: how skewed, which algorithm, and whether that holds here (None if not validated)."""

    profile: Profile
    recommendation: Recommendation
    validation: Validation | None

    def to_json(self) -> str:
        """One JSON document with the three records, indented by two."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def advise(
    partition: Partition | Sequence[Sketch],
    *,
    validated: bool = True,
    constraints: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    **training: Any,
) -> Advice:
    """Profile the silos, recommend an algorithm, and check the advice in short paired runs.

    Parameters
    ----------
    partition : the silos; or their sketches, which can be profiled but not trained on
    validated : False stops after the recommendation
    constraints : options of :func:`recommend`
    progress : told how far the training has come
    training : options of :func:`fedskew.engine.validate`; ``algorithms="shortlist"`` takes the candidates of
        :func:`fedskew.advisor.second_opinion.shortlist`

    Raises
    ------
    FedskewError
        As :func:`recommend` and :func:`fedskew.engine.validate` do.

    Examples
    --------
    >>> import numpy as np
    >>> from fedskew import make_partition
    >>> x = np.arange(200.0).reshape(100, 2) % 7
    >>> toy = make_partition(x, (x[:, 0] > 3).astype(int), np.repeat(["a", "b"], 50))
    >>> advise(toy, validated=False).recommendation.algorithm
    'fedavg'
    """
    found = profile(partition)
    shared = {name: training[name] for name in RECOMMEND_OPTIONS if training.get(name) is not None}
    advice = recommend(found, **{**shared, **(constraints or {})})
    validation = None
    if validated:
        if not isinstance(partition, Partition):
            raise FedskewError("sketches hold no rows to train on; give validated=False, or the rows themselves")
        training["algorithms"] = candidates_of(training.get("algorithms"), advice)
        validation = validate(partition, recommended=advice.algorithm, progress=progress, **training)
    return Advice(profile=found, recommendation=advice, validation=validation)

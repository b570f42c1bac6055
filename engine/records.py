"""The records of a validation: the stable JSON keys. No arithmetic, no torch."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SCHEMA = "fedskew-validation/1"


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frozen, named fields only; a number that is not finite is written as null."""


class Score(_Record, frozen=True):
    """A score over seeds: mean with its 95 % interval, and each seed's value; 0 to 1 (R squared: up to 1).

    ``curve``: for each seed one value a round; it ends where a seed diverged.
    """

    mean: float | None
    lower: float | None
    upper: float | None
    by_seed: tuple[float | None, ...] = ()
    curve: tuple[tuple[float, ...], ...] = ()


class Tried(_Record, frozen=True):
    """One setting that tuning tried, for how many rounds, its worst seed's score on held-back rows (null: diverged)."""

    hyperparameters: dict[str, float | str]
    rounds: int
    score: float | None


class Candidate(_Record, frozen=True):
    """One algorithm's result.

    ``status``: ``ok``; ``failed``, a constant predictor; ``diverged``, weights that are no numbers any more.
    ``lift``: accuracy minus the majority class's. ``worst_party``: the party with the lowest accuracy. ``spread``:
    standard deviation over parties. ``bytes_per_party``: down and up over the whole run. ``trend``: rising, flat or
    falling accuracy over the last third of the rounds. ``rounds_to_target``, ``bytes_to_target``: until 95 % of the
    best candidate's final accuracy. ``at_equal_bytes``, ``at_equal_seconds``: accuracy when all have spent what the
    cheapest spends on its whole run. ``eliminated_after``: how many seeds it got, where it was surely worse than the
    recommended one before all were run.
    """

    algorithm: str
    status: str
    hyperparameters: dict[str, float | str]
    accuracy: Score
    balanced_accuracy: Score
    macro_f1: float | None
    lift: float | None
    worst_party: "PartyScore | None"
    spread: float | None
    by_party: dict[str, float | None]
    loss: float | None
    seconds: float
    bytes_per_party: int
    best_round: int | None
    trend: str | None
    diverged_at: int | None = None
    constant_seeds: int = 0
    eliminated_after: int | None = None
    tuning: tuple[Tried, ...] = ()
    rounds_to_target: int | None = None
    bytes_to_target: int | None = None
    at_equal_bytes: float | None = None
    at_equal_seconds: float | None = None


class PartyScore(_Record, frozen=True):
    """A party and its accuracy."""

    party: str
    accuracy: float


class Reference(_Record, frozen=True):
    """A reference line: centralised, local only or the majority class; ``by_party`` on each party's own test rows."""

    accuracy: Score
    balanced_accuracy: Score
    by_party: dict[str, float | None] = {}


class References(_Record, frozen=True):
    """The three reference lines; centralised and local only are null where they were not asked for."""

    majority: Reference
    centralised: Reference | None = None
    local_only: Reference | None = None


class Comparison(_Record, frozen=True):
    """A candidate minus the recommended one, paired over seeds, with an interval corrected for all comparisons.

    ``lower`` and ``upper`` are null where a single seed bounds nothing.
    """

    algorithm: str
    difference: float
    lower: float | None
    upper: float | None
    p_value: float


class Ranking(_Record, frozen=True):
    """Whether runs as short as these can name the leader.

    ``settled_at``: round from which the final leader was never again behind by more than the margin; ``stable``: that
    was before the last third; ``crossed``: another led before; ``rising``: candidates whose curves still rise.
    """

    leader: str | None
    settled_at: int | None
    stable: bool
    crossed: bool
    rising: tuple[str, ...]


class Verdict(_Record, frozen=True):
    """The one verdict.

    ``kind``: all_failed, overturned, no_difference, confirmed or cannot_tell. ``difference`` with ``lower`` and
    ``upper``: winner minus recommended (overturned), else the candidate nearest to overturning it. ``settle``: what
    would settle it. ``text``: the sentence a person reads.
    """

    kind: str
    winner: str | None
    difference: float | None
    lower: float | None
    upper: float | None
    text: str
    settle: str | None = None


GAP = {"difference": "difference", "lower": "difference_lower", "upper": "difference_upper"}
LAST = ("loss", "bytes_per_party", "seconds")


class Validation(_Record, frozen=True):
    """What the short paired runs found."""

    candidates: tuple[Candidate, ...]
    references: References
    recommended: str
    comparisons: tuple[Comparison, ...]
    verdict: Verdict
    settings: dict[str, int | float | str | bool | tuple[str, ...] | None]
    ranking: Ranking | None = None
    schema: str = SCHEMA

    def to_json(self) -> str:
        """The validation as one JSON document with the stable keys, indented by two."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_frame(self) -> "pd.DataFrame":
        """One row a candidate: status, score with its 95 % interval, what stands beside it, and the gap to the advice.

        Returns
        -------
        pandas.DataFrame indexed by algorithm; NaN where a number is not known, as the gap of the recommended one
        """
        import pandas as pd

        gaps = {gap.algorithm: gap for gap in self.comparisons}
        rows = [
            (
                *(one.status, one.accuracy.mean, one.accuracy.lower, one.accuracy.upper, one.balanced_accuracy.mean),
                *(None if one.algorithm not in gaps else getattr(gaps[one.algorithm], name) for name in GAP),
                *(one.loss, one.bytes_per_party, one.seconds),
            )
            for one in self.candidates
        ]
        names = ("status", "accuracy", "lower", "upper", "balanced_accuracy", *GAP.values(), *LAST)
        frame = pd.DataFrame(rows, columns=list(names), index=pd.Index([c.algorithm for c in self.candidates]))
        frame.index.name = "algorithm"
        return frame.astype({name: float for name in names if name not in ("status", "bytes_per_party")})

    def plot(self) -> "Figure":
        """One matplotlib Figure: leaderboard, learning curves, parties, and cost against the score."""
        from fedskew.engine.plots import overview

        return overview(self)

    def _repr_html_(self) -> str:
        from fedskew.profiles.drawing import card

        return card(self.verdict.text, self.plot(), repr(self))

    @staticmethod
    def from_json(text: str | bytes) -> "Validation":
        """Read what :meth:`to_json` wrote; unknown keys and wrong types are errors.

        Raises
        ------
        msgspec.ValidationError
            The text is not a validation of this version.
        """
        return msgspec.json.decode(text, type=Validation)

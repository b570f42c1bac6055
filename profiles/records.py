"""The records a profile is made of: the stable JSON keys, their units and ranges. No arithmetic here."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from fedskew.profiles.partitions import Finding, Modality, Severity

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SCHEMA = "fedskew-profile/1"
Rows = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
"""A number of rows: more than any silo has, and sums over many silos still fit into 64 bits."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Frozen, named fields only; a number that is not finite is written as null."""


class Estimate(_Record, frozen=True, kw_only=True):
    """A fitted parameter with its 95 % interval.

    ``estimate``, ``lower``, ``upper`` are positive; a bound that is not finite is None. ``reading`` says which
    reading of the table fits better: ``counts`` (Dirichlet-multinomial) or ``shares`` (rounded shares of a
    generator). ``reason`` says why there is no estimate.
    """

    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    reading: str | None = None
    reason: str | None = None


class EntropyBits(_Record, frozen=True, kw_only=True):
    """Label entropy in bits, 0 to log2 K: of all rows together, and of each party (None for a party without rows)."""

    pooled: float
    by_party: dict[str, float | None]


class ClassesPerParty(_Record, frozen=True, kw_only=True):
    """Recognised #C=k: ``k`` classes a party (None: no such partition), ``share`` of parties that fit, 0 to 1."""

    k: int | None = None
    share: float | None = None


class Deviant(_Record, frozen=True, kw_only=True):
    """A party far from the pooled label mix: chance-corrected Jensen-Shannon divergence (bits) to all the others."""

    party: str
    divergence: float


class LabelSkew(_Record, frozen=True, kw_only=True):
    """Label skew. ``skew``: 0 is chance, 1 full dependence on the party; ``interval`` its 95 % interval.

    ``jensen_shannon``, ``hellinger``: means over pairs of parties, 0 chance, 1 no class shared. ``missing_classes``:
    classes of the pool that a party lacks. ``effective_classes``: 2 ** entropy, 1 to K. ``divergence``: bits beyond
    chance from a party to all the others. ``capped``: the generator's size cap was recognised.
    """

    skew: float | None
    p_value: float | None
    severity: Severity
    interval: tuple[float, float] | None
    entropy_bits: EntropyBits
    beta: Estimate
    alpha: Estimate
    classes_per_party: ClassesPerParty
    capped: bool | None
    reason: str | None = None
    jensen_shannon: float | None = None
    hellinger: float | None = None
    missing_classes: dict[str, int] = {}
    effective_classes: dict[str, float | None] = {}
    divergence: dict[str, float | None] = {}
    most_deviant: tuple[Deviant, ...] = ()


class QuantitySkew(_Record, frozen=True, kw_only=True):
    """Quantity skew. ``skew``: 0 is chance, 1 is one party holding all; ``gini`` raw, 0 to (N - 1) / N."""

    skew: float | None
    gini: float
    severity: Severity
    p_value: float | None
    effective_parties: float
    max_min_ratio: float | None
    beta: Estimate
    largest_share: float
    sizes: dict[str, int]
    implied_by_label: bool | None = None
    interval: tuple[float, float] | None = None
    reason: str | None = None


class FeatureShift(_Record, frozen=True, kw_only=True):
    """One column's shift between parties within classes.

    ``mean_share`` and ``spread_share``: chance-corrected share of the variance of the value (of its squared deviation)
    that lies between parties, 0 chance to 1; for a categorical column ``mean_share`` is its association with the party.
    ``wasserstein``: mean 1-Wasserstein distance of a party to the pool, in pooled standard deviations; null for
    categorical columns; ``wasserstein_chance``: what parties of these sizes would show if they did not differ.
    """

    name: str
    mean_share: float | None
    spread_share: float | None
    wasserstein: float | None
    wasserstein_chance: float | None = None


class FeatureSkew(_Record, frozen=True, kw_only=True):
    """Feature skew given the label. ``skew``: chance-corrected share of kernel variance between parties, 0 to 1."""

    skew: float | None
    p_value: float | None
    severity: Severity
    reason: str | None = None
    interval: tuple[float, float] | None = None
    by_feature: tuple[FeatureShift, ...] = ()
    by_party: dict[str, float | None] = {}


class ConceptSkew(_Record, frozen=True, kw_only=True):
    """Concept shift, P(label | x). ``skew``: share of the pooled model's remaining log loss that parties explain."""

    skew: float | None
    p_value: float | None
    severity: Severity
    reason: str | None = None


class Prevailing(_Record, frozen=True, kw_only=True):
    """The prevailing skew.

    ``kind``: none, label_count, label_dirichlet, feature, quantity, concept or mixed. ``components``: all kinds whose
    severity is not ``none``. ``confidence``: 0 to 1. ``runner_up``: what would stand if the weakest call flipped.
    """

    kind: str
    components: tuple[str, ...]
    confidence: float
    runner_up: str | None


class Profile(_Record, frozen=True, kw_only=True):
    """What the data look like: every skew beyond chance, and which one prevails.

    ``features``: encoded width F (pixels for images). ``counts``: rows by party and class, in the order of the names.
    ``measures``: the further measures of ``fedskew.profiles.measures``.
    """

    parties: int
    rows: int
    classes: int
    features: int
    party_names: tuple[str, ...]
    class_names: tuple[str, ...]
    modality: Modality
    task: str
    label: LabelSkew
    quantity: QuantitySkew
    feature: FeatureSkew
    concept: ConceptSkew
    prevailing: Prevailing
    hygiene: tuple[Finding, ...]
    counts: tuple[tuple[Rows, ...], ...]
    image_shape: tuple[int, int, int] | None = None
    measures: dict[str, float | None] = {}
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        """Refuse a written profile that contradicts itself: all who read it rely on names and counts that fit."""
        fits = len(self.party_names) == self.parties == len(self.counts) and len(self.class_names) == self.classes
        if not fits or any(len(row) != self.classes for row in self.counts):
            raise ValueError("its names and counts do not fit its numbers of parties and classes")

    def to_json(self) -> str:
        """The profile as one JSON document with the stable keys, indented by two."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_frame(self) -> "pd.DataFrame":
        """One row a party: rows, label entropy (bits), effective and missing classes, divergence (bits).

        Returns
        -------
        pandas.DataFrame indexed by party name; NaN where a party has no rows
        """
        import pandas as pd

        label, names = self.label, list(self.party_names)
        columns = {
            "rows": [self.quantity.sizes[name] for name in names],
            "entropy_bits": [label.entropy_bits.by_party[name] for name in names],
            "effective_classes": [label.effective_classes[name] for name in names],
            "missing_classes": [label.missing_classes[name] for name in names],
            "divergence": [label.divergence[name] for name in names],
        }
        frame = pd.DataFrame(columns, index=pd.Index(names, name="party"))
        return frame.astype({"entropy_bits": float, "effective_classes": float, "divergence": float})

    def plot(self) -> "Figure":
        """One matplotlib Figure: the four skews, the map of parties and classes with sizes, and the features."""
        from fedskew.profiles.plots import overview

        return overview(self)

    def _repr_html_(self) -> str:
        from fedskew.profiles.drawing import card
        from fedskew.profiles.plots import gauges_finding

        return card(gauges_finding(self), self.plot(), repr(self))

    @staticmethod
    def from_json(text: str | bytes) -> "Profile":
        """Read what :meth:`to_json` wrote; strict: unknown keys and wrong types are errors.

        Raises
        ------
        msgspec.ValidationError
            The text is not a profile of this version.
        """
        return msgspec.json.decode(text, type=Profile)

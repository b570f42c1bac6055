"""What the advisor knows when it decides: the profile and the constraints, checked once."""

from dataclasses import dataclass
from typing import Literal

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.partitions import Modality
from fedskew.profiles.records import Profile

Goal = Literal["global", "personal"]
LABEL_KINDS = ("label_count", "label_dirichlet")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the tree looks at.

    Parameters
    ----------
    kind : the prevailing skew
    components : every kind of skew that is more than chance
    modality : of the features
    classes_each : k where every party holds k whole classes, else None
    strong_concept : parties strongly disagree about labels
    """

    kind: str
    components: tuple[str, ...]
    modality: str
    classes_each: int | None = None
    strong_concept: bool = False

    @property
    def label_kind(self) -> str | None:
        """``label_count``, ``label_dirichlet``, or None without label skew."""
        return next((kind for kind in LABEL_KINDS if kind in self.components), None)


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs of one recommendation.

    Parameters
    ----------
    profile : what the data look like
    modality : of the features; decides one branch of the tree
    participation : share of the parties that take part in a round, above 0 to 1
    stateless_clients : clients cannot keep anything between rounds
    bandwidth : bytes a party may send and receive in a round, or None for no limit
    has_batchnorm : the model holds BatchNorm layers
    goal : one ``global`` model for all, or a ``personal`` one for each party
    model : see :func:`fedskew.advisor.price.parameter_count`
    local_epochs, batch_size : of the local training
    """

    profile: Profile
    modality: Modality
    participation: float = 1.0
    stateless_clients: bool = False
    bandwidth: float | None = None
    has_batchnorm: bool = False
    goal: Goal = "global"
    model: str | None = None
    local_epochs: int = 10
    batch_size: int = 64

    def __post_init__(self) -> None:
        if self.modality not in ("tabular", "image"):
            raise FedskewError(
                f"unknown modality {self.modality!r}: {choices(str(self.modality), ['tabular', 'image'])}"
            )
        if not 0 < self.participation <= 1:
            raise FedskewError(f"participation is {self.participation}; it is a share, above 0 and at most 1")
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise FedskewError(
                f"bandwidth is {self.bandwidth}; it must be a positive number of bytes per party and round"
            )
        if self.goal not in ("global", "personal"):
            raise FedskewError(f"unknown goal {self.goal!r}: {choices(str(self.goal), ['global', 'personal'])}")
        for name, value in (("local epochs", self.local_epochs), ("batch size", self.batch_size)):
            if value < 1:
                raise FedskewError(f"{name} is {value}; it must be a whole number of at least 1")

    @property
    def kind(self) -> str:
        """The prevailing skew."""
        return self.profile.prevailing.kind

    @property
    def components(self) -> tuple[str, ...]:
        """Every kind of skew that is more than chance."""
        return self.profile.prevailing.components or (() if self.kind in ("none", "mixed") else (self.kind,))

    @property
    def label_kind(self) -> str | None:
        """``label_count``, ``label_dirichlet``, or None without label skew."""
        return self.facts.label_kind

    @property
    def facts(self) -> Facts:
        """What the tree looks at."""
        profile, components = self.profile, self.components
        strong = "concept" in components and profile.concept.severity == "strong"
        return Facts(self.kind, components, self.modality, profile.label.classes_per_party.k, strong)

    @property
    def one_class_parties(self) -> int:
        """How many parties hold rows of a single class, where there are several classes."""
        if self.profile.classes < 2:
            return 0
        return sum(1 for row in self.profile.counts if sum(1 for cell in row if cell) == 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each party, those without rows included."""
        return tuple(sum(row) for row in self.profile.counts)

"""What a federated algorithm is: a value made of a few pure functions.

The engine never asks which algorithm it runs. The functions use tensor operators and methods only (so this folder
imports no torch and its facts are cheap to read), reduce over the party axis (-2) only, and accept leading axes.

Letters: S seeds, P parties, C parties of a cohort, D weights, K classes. Signs: the server's weights before the round
are w^t (``start``), a party's weights after its local steps are w_i (``trained``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Tensor = Any
"""A torch tensor; ``Any`` keeps torch out of the light imports."""
State = Mapping[str, Tensor]
Hyper = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Local:
    """What a party knows at one local step; every tensor is (..., D), lanes leading.

    ``weights`` now, ``start`` w^t, ``own`` the party's kept state, ``server`` the state sent along, ``lr`` the local
    rate.
    """

    weights: Tensor
    start: Tensor
    own: State
    server: State
    lr: float


@dataclass(frozen=True, slots=True)
class Update:
    """What comes back to the server after a round.

    ``start`` (..., 1, D); ``trained`` (..., C, D); ``share`` (..., C, 1) float64, n_i over the cohort's n, sums to 1;
    ``steps`` (..., C, 1) float64 local steps K_i; ``own`` (..., C, ·) each party's state as it was sent out;
    ``server`` (..., ·); ``parties`` N, all parties that hold rows; ``lr`` and ``momentum`` of the local optimizer.
    """

    start: Tensor
    trained: Tensor
    share: Tensor
    steps: Tensor
    own: State
    server: State
    parties: int
    lr: float
    momentum: float


@dataclass(frozen=True, slots=True)
class Start:
    """State before the first round: of a party never seen (``own``), of the ``server``; each (..., ·)."""

    own: State = field(default_factory=dict)
    server: State = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Next:
    """What :attr:`Algorithm.aggregate` returns: w^(t+1) (..., D) and the new states, ``own`` (..., C, ·)."""

    weights: Tensor
    own: State = field(default_factory=dict)
    server: State = field(default_factory=dict)


InitFn = Callable[[Tensor, Hyper], Start]
TermFn = Callable[[Local, Hyper], Tensor]
LogitsFn = Callable[[Tensor, Hyper], Tensor]
PenaltyFn = Callable[[Tensor, Tensor, Tensor, Hyper], Tensor]
AggregateFn = Callable[[Update, Hyper], Next]
SharedFn = Callable[[str, str], bool]


def no_state(weights: Tensor, hyper: Hyper) -> Start:  # noqa: ARG001
    """Keep nothing between rounds."""
    return Start()


def mean_of(values: Tensor, share: Tensor) -> Tensor:
    """Average over parties with float64 sums, in the type of the values.

    Parameters
    ----------
    values : (..., C, D)
    share : (..., C, 1) float64, sums to 1

    Returns
    -------
    (..., D) of the values' dtype
    """
    return (values.double() * share).sum(-2).to(values.dtype)


def weighted_mean(update: Update, hyper: Hyper) -> Next:  # noqa: ARG001
    """FedAvg's server: w^(t+1) = sum_i (n_i / n) w_i, summed in float64."""
    return Next(mean_of(update.trained, update.share))


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers that a hyperparameter may be: from ``low`` on (with ``above``: above it), and less than ``below``."""

    low: float = 0.0
    above: bool = False
    below: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a number is in the range."""
        high = self.below is None or value < self.below
        return high and (value > self.low if self.above else value >= self.low)

    def __str__(self) -> str:
        """The range in words: ``above 0``, ``0 or more and below 1``."""
        low = f"above {self.low:g}" if self.above else f"{self.low:g} or more"
        return low if self.below is None else f"{low} and below {self.below:g}"


Limit = Range | tuple[str, ...]
"""A range of numbers, or the texts that are known."""
POSITIVE, NOT_NEGATIVE, BELOW_ONE = Range(above=True), Range(), Range(below=1.0)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A federated algorithm as a value.

    Parameters
    ----------
    name : lower-case id, as typed on the command line
    title : the name as the field writes it
    source : paper with equation or algorithm number
    link : arXiv or DOI address of the source
    hyper : default hyperparameters
    limits : what they may be, by name; one that is not named may be any finite number, or any text
    grid : settings worth trying, each a change to ``hyper``; every algorithm offers the same number
    init : state before the first round
    gradient : added to the loss gradient, so it passes through momentum; None adds nothing
    step : added to the weights after each optimizer step, so it does not; None adds nothing
    steady : ``step`` does not look at the weights, so it is the same all round and computed once
    logits : class shift of the logits from the party's class shares (..., K); None adds nothing
    penalty : loss per row (L, B) from representations (L, H, B): now, under w^t, and under the party's own state
        ``previous``, or w^t again while its own state ``seen`` (..., 1) is 0
    aggregate : the server's step
    shared : which weights are averaged, from (parameter name, layer type); None: all. The others stay with the party
    traffic : copies of the model each way per party and round
    client_state : vectors of the model's size that a party must keep between rounds
    server_state : the same for the server
    linear : the server's step is linear in the parties' weights, so float32 stays close to float64
    uniform : parties weigh alike whatever their rows
    """

    name: str
    title: str
    source: str
    link: str
    hyper: Hyper = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    grid: tuple[Hyper, ...] = field(default=({}, {"lr": 0.003}, {"lr": 0.03}, {"lr": 0.1}))
    init: InitFn = no_state
    gradient: TermFn | None = None
    step: TermFn | None = None
    steady: bool = False
    logits: LogitsFn | None = None
    penalty: PenaltyFn | None = None
    aggregate: AggregateFn = weighted_mean
    shared: SharedFn | None = None
    traffic: float = 1.0
    client_state: int = 0
    server_state: int = 0
    linear: bool = True
    uniform: bool = False

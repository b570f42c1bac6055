"""The laws that every algorithm keeps, as one contract: :func:`check_algorithm` runs them on any value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedskew.engine import law_loss as loss
from fedskew.engine import law_server as server
from fedskew.engine import law_training as training
from fedskew.engine.algorithms.base import Algorithm
from fedskew.engine.law_cases import NETWORKS
from fedskew.profiles.errors import FedskewError, choices

EXACT = 1e-10  # float64, relative
EVERY = tuple(NETWORKS)


@dataclass(frozen=True, slots=True)
class Law:
    """A law of algorithms.

    Parameters
    ----------
    name : what holds, in one sentence
    condition : under which it holds
    traits : which algorithms it is about, in words
    applies : the same as a function
    error : how far an algorithm is from it on a network, 0 or more
    tolerance : largest error at which it holds; 0 asks for equal bits
    networks : on which of NETWORKS it can be run; empty: it needs none
    """

    name: str
    condition: str
    traits: str
    applies: Callable[[Algorithm], bool]
    error: Callable[[Algorithm, str], float]
    tolerance: float = EXACT
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LawResult:
    """What came of one law on one network ("" where it needs none).

    ``status``: ``holds``, ``broken`` or ``not applicable``. ``error``: None where there is none. ``text``: why.
    """

    law: str
    network: str
    status: str
    error: float | None
    text: str


def always(algorithm: Algorithm) -> bool:  # noqa: ARG001
    """Every algorithm."""
    return True


def by_rows(algorithm: Algorithm) -> bool:
    """Parties weigh by their rows."""
    return not algorithm.uniform


def linear_by_rows(algorithm: Algorithm) -> bool:
    """The server's step is linear in the parties' weights, and they weigh by rows."""
    return algorithm.linear and not algorithm.uniform


def linear(algorithm: Algorithm) -> bool:
    """The server's step is linear in the parties' weights."""
    return algorithm.linear


def remembers(algorithm: Algorithm) -> bool:
    """Parties keep a state."""
    return algorithm.client_state > 0


def memories(algorithm: Algorithm) -> bool:
    """Parties and server keep a memory."""
    return algorithm.client_state > 0 and algorithm.server_state > 0


def corrects(algorithm: Algorithm) -> bool:
    """Parties and server keep a control variate, named c."""
    first = server.cold(algorithm)
    return "c" in first.own and "c" in first.server


def steady(algorithm: Algorithm) -> bool:
    """A term after the optimizer step is declared steady."""
    return algorithm.step is not None and algorithm.steady


def waits(algorithm: Algorithm) -> bool:
    """A correction by control variates, or a penalty, needs what earlier rounds left."""
    return corrects(algorithm) or algorithm.penalty is not None


def pulls(algorithm: Algorithm) -> bool:
    """A pull to w^t joins the gradient."""
    return algorithm.gradient is not None and bool({"mu", "alpha"} & set(algorithm.hyper))


def strength(algorithm: Algorithm) -> bool:
    """Has a strength mu."""
    return "mu" in algorithm.hyper


def penalises(algorithm: Algorithm) -> bool:
    """Has a penalty on representations."""
    return algorithm.penalty is not None


def shifts(algorithm: Algorithm) -> bool:
    """Shifts the logits."""
    return algorithm.logits is not None


def twin(algorithm: Algorithm) -> bool:
    """Has torch's momentum, Adam (``form``) or Adagrad (tau, no beta2) at the server."""
    own = set(algorithm.hyper)
    return "server_lr" in own and ("server_momentum" in own or "form" in own or "beta2" not in own)


def shares_all(algorithm: Algorithm) -> bool:
    """All weights are shared."""
    return algorithm.shared is None


def keeps(algorithm: Algorithm) -> bool:
    """Some layers stay with the party."""
    return algorithm.shared is not None


def _law(
    name: str, condition: str, applies: Callable[[Algorithm], bool], error: Callable[[Algorithm, str], float],
    tolerance: float = EXACT, networks: tuple[str, ...] = (),
) -> Law:  # fmt: skip
    words = (applies.__doc__ or "").strip().rstrip(".").lower()
    return Law(name, condition, words, applies, error, tolerance, networks)


LAWS: tuple[Law, ...] = (
    _law("types and shapes come back as they went in", "float32 and float64", always, server.kinds_kept, 0),
    _law("no function writes into its inputs", "any state", always, server.inputs_unchanged, 0),
    _law("seeds aggregated together equal each alone", "any state", always, server.seeds_apart),
    _law("the order of the update's parties is irrelevant", "any state", always, server.order_of_parties),
    _law("without change the server rests", "first round", always, server.rest_stays),
    _law("a party listed twice weighs like twice the rows", "any state, unequal steps", by_rows, server.party_twice),
    _law("with equal steps the server is FedAvg's", "server momentum 0, rate 1", linear_by_rows, server.plain_mean),
    _law("float32 is float64 rounded at the end", "any state", linear, server.rounded_once, 0),
    _law("memories start at zero", "party never seen", remembers, server.zero_at_first, 0),
    _law("a constant gradient g gives c_i = g", "no momentum, unequal steps", corrects, server.constant_gradient),
    _law("the correction is K lr (c_i - c)", "no gradient, momentum 0.9", corrects, server.outside_momentum),
    _law("a steady term does not see the weights", "any state", steady, server.steady_term, 0),
    _law("the common optimum is at rest", "memories are the gradients there", memories, server.optimum_stays),
    _law("the pull is mu (w - w^t)", "zero memories", pulls, server.pull_is_linear),
    _law("the penalty grows with mu, towards the previous model", "any rows", penalises, loss.penalty_grows),
    _law("the penalty rests where previous is global", "any rows", penalises, loss.penalty_rests, 0),
    _law("an absent class gets no gradient", "class shares 3/4, 1/4, 0", shifts, loss.absent_class_rests),
    _law("the server is torch.optim on pseudo-gradients", "four rounds", twin, loss.like_torch),
    _law("mu = 0 is FedAvg bit for bit", "two rounds", strength, training.no_strength, 0, EVERY),
    _law("the first round is FedAvg's bit for bit", "one round", waits, training.first_round, 0, EVERY),
    _law(
        "the server's memory is the mean of all parties'", "four rounds, two thirds take part", memories,
        training.mean_of_memories, EXACT, EVERY,
    ),
    _law("a round moves every tensor and nothing else", "one round", always, training.everything_moves, 0, EVERY),
    _law("resumed equals uninterrupted bit for bit", "three rounds, partial", always, training.resumed, 0, EVERY),
    _law("seeds beside it change no bit", "two rounds", always, training.seeds_beside, 0, EVERY),
    _law("the order of parties is irrelevant", "all take part", always, training.order_of_parties, EXACT, EVERY),
    _law("stacked equals one by one", "two rounds", always, training.lane_by_lane, EXACT, ("mlp",)),
    _law("a frozen layer stays frozen", "two seeds", always, training.frozen_stays, EXACT, ("frozen",)),
    _law(
        "statistics of the inputs are FedAvg's bit for bit", "three rounds", shares_all, training.input_statistics, 0,
        ("batch_norm",),
    ),
    _law(
        "statistics are averaged by rows, counters take the largest", "one round", shares_all,
        training.buffers_by_rows, EXACT, ("batch_norm",),
    ),
    _law("equal classes make the shift void", "two rounds", shifts, training.equal_classes, EXACT, ("mlp", "cnn")),
    _law(
        "what is not shared stays at home; else FedAvg bit for bit", "two rounds", keeps, training.kept_at_home, 0,
        ("batch_norm", "mlp"),
    ),
)  # fmt: skip
"""All laws, the cheap ones first."""


def check_algorithm(algorithm: Algorithm, networks: Sequence[str] | None = None) -> tuple[LawResult, ...]:
    """Run every law on an algorithm, your own or ours, in float64 on one thread.

    Parameters
    ----------
    algorithm : the value to check
    networks : names among NETWORKS on which whole runs are tried; None: all; empty: only laws that need no training

    Returns
    -------
    One result for each law and network it can be run on. A function that raises breaks the law, with its message.

    Raises
    ------
    FedskewError
        There is no such network.

    Examples
    --------
    >>> from fedskew.engine.algorithms import find_algorithm
    >>> found = check_algorithm(find_algorithm("fedprox"), networks=["mlp"])
    >>> {result.status for result in found} == {"holds", "not applicable"}
    True
    """
    import torch

    wanted = EVERY if networks is None else tuple(networks)
    for name in wanted:
        if name not in NETWORKS:
            raise FedskewError(f"unknown network {name!r}: {choices(name, NETWORKS)}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the bits depend on it
    try:
        return tuple(
            _check(law, algorithm, network)
            for law in LAWS
            for network in ([n for n in law.networks if n in wanted] if law.networks else [""])
        )
    finally:
        torch.set_num_threads(threads)


def _check(law: Law, algorithm: Algorithm, network: str) -> LawResult:
    if not law.applies(algorithm):
        text = f"it is about algorithms of which this is true: {law.traits}"
        return LawResult(law.name, network, "not applicable", None, text)
    try:
        error = law.error(algorithm, network)
    except Exception as fault:  # noqa: BLE001  # a user's function may raise anything
        return LawResult(law.name, network, "broken", None, f"{type(fault).__name__}: {fault}")
    status = "holds" if error <= law.tolerance else "broken"
    text = f"{law.condition}: error {error:.1e}, at most {law.tolerance:.1e}"
    return LawResult(law.name, network, status, error, text)

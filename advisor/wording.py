"""Sentences that the terminal and the page share, so that both say the same. No rich and no matplotlib here."""

from fedskew.advisor.price import Price, base_name
from fedskew.advisor.recommendation import KIND_TITLES, Recommendation
from fedskew.engine.reading import algorithm_title, readable_bytes
from fedskew.engine.records import Candidate, Validation
from fedskew.profiles.counting import many, signed
from fedskew.profiles.naming import shorten
from fedskew.profiles.records import Estimate, Profile

KINDS = {
    "none": "no skew beyond chance",
    "label_count": "label skew: whole classes missing at parties",
    "label_dirichlet": "label skew: unequal shares of the classes",
    "feature": "feature skew: the same class looks different from party to party",
    "quantity": "quantity skew: unequal party sizes",
    "concept": "concept shift: the same features mean different labels",
    "mixed": "mixed skew",
}
NOT_SEEN = {"too_few_rows", "needs_plan", "needs_rows"}
"""Reasons for which skew may be there all the same."""
OPINIONS = {
    "no_evidence": "no evidence",
    "no_measurable_difference": "no difference",
    "better": "a gain expected",
    "cannot_tell": "cannot tell",
}
"""What the published evidence expects of the advice, in a word."""


def about(profile: Profile) -> str:
    """What a profile is about, in a line."""
    return ", ".join(
        (
            many(profile.parties, "party", "parties"),
            many(profile.rows, "row"),
            many(profile.classes, "class", "classes"),
            many(profile.features, "feature"),
            profile.modality,
        )
    )


def prevailing_sentence(profile: Profile) -> str:
    """The skew that prevails, and how sure that is."""
    kind = profile.prevailing
    skews = [profile.label.skew, profile.feature.skew, profile.quantity.skew, profile.concept.skew]
    if all(skew is None for skew in skews):
        return "Skew cannot be measured here."
    told = [KIND_TITLES.get(name, name) for name in kind.components]
    parts = f": {', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else ""
    unseen = kind.kind == "none" and {profile.label.reason, profile.feature.reason} & NOT_SEEN
    what = "no skew in what can be measured" if unseen else KINDS.get(kind.kind, kind.kind)
    return f"{what.capitalize()}{parts} ({percent_sure(kind.confidence)} sure)."


def percent_sure(confidence: float) -> str:
    """A confidence as a person may state it: never a round 100 %.

    Examples
    --------
    >>> percent_sure(0.83), percent_sure(1.0)
    ('83 %', 'over 99 %')
    """
    return "over 99 %" if confidence > 0.99 else f"{100 * confidence:.0f} %"


def standing_out(profile: Profile, most: int = 3) -> tuple[str, ...]:
    """Which silos stand out, a sentence a kind of skew that is there; none where there is none."""
    lines = []
    label, feature, sizes = profile.label, profile.feature, profile.quantity.sizes
    if label.severity != "none" and label.most_deviant:
        names = [found.party for found in label.most_deviant[:most]]
        lines.append(f"Parties farthest from the common label mix: {_named(names)}.")
    if feature.severity != "none":
        shifts = {name: value for name, value in feature.by_party.items() if value is not None}
        names = sorted(shifts, key=lambda name: (-shifts[name], name))[:most]
        lines += [f"Parties whose features lie farthest off: {_named(names)}."] if names else []
    if profile.quantity.severity != "none" and profile.rows:
        largest = max(sizes, key=lambda name: sizes[name])
        lines.append(
            f"Largest party: {_named([largest])}, with {100 * sizes[largest] / profile.rows:.0f} % of the rows."
        )
    return tuple(lines)


def _named(names: list[str]) -> str:
    return ", ".join(shorten(name, 40) for name in names)


def reading_of(found: Estimate) -> str:
    """What an estimate of a Dirichlet says, or why there is none."""
    if found.estimate is None:
        return (found.reason or "").replace("_", " ")
    upper = "∞" if found.upper is None else _two_digits(found.upper)
    lower = "0" if found.lower is None else _two_digits(found.lower)
    return f"Dirichlet β {_two_digits(found.estimate)} ({lower} to {upper})"


def _two_digits(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"


def price_value(price: Price) -> str:
    """Traffic of a party in a round."""
    return "unknown size" if price.bytes_per_party_round is None else readable_bytes(price.bytes_per_party_round)


def price_remark(price: Price) -> str:
    """What the traffic is for, and what else the algorithm costs."""
    model = price.model if price.parameters is None else f"{price.model}, {price.parameters:,} parameters"
    keeps = "nothing" if price.client_state == "none" else price.client_state
    runs = f"; {price.tuning_runs} runs to tune" if price.tuning_runs > 1 else ""
    return f"{model}; {price.relative_compute:g} times FedAvg's compute; between rounds parties keep {keeps}{runs}"


def sureness(advice: Recommendation) -> tuple[str, str]:
    """How sure the advice is, in a word and in sentences: the evidence on the algorithm, and on the skew itself."""
    opinion = advice.second_opinion
    word = OPINIONS.get(opinion.verdict, opinion.verdict.replace("_", " "))
    known = [one for one in opinion.candidates if one.settings and one.algorithm != "fedavg"]
    mine = next((one for one in known if one.algorithm == base_name(advice.algorithm)), known[0] if known else None)
    told = "No published setting is near this one."
    if mine is not None:
        gain = mine.expected_gain
        source = "Published results and our own short runs" if mine.own else "Published results"
        told = (
            f"{source}: {algorithm_title(mine.algorithm)} {signed(gain.mean)} points against FedAvg "
            f"({signed(gain.lower)} to {signed(gain.upper)}), {many(mine.settings, 'setting')} on "
            f"{many(mine.datasets, 'data set')}."
        )
    return word, f"{told} The skew itself is read with {percent_sure(advice.profile.prevailing.confidence)} confidence."


def run_length(found: Validation) -> str:
    """Paired seeds, rounds and local epochs of a validation; ``None`` for what an older record does not say."""
    counts = (("seeds", "paired seed"), ("rounds", "round"), ("local_epochs", "local epoch"))
    told = [(found.settings.get(name), noun) for name, noun in counts]
    seeds, rounds, epochs = (many(n, noun) if isinstance(n, int) else f"{n} {noun}s" for n, noun in told)
    return f"{seeds}, {rounds} of {epochs}"


def how_trained(found: Validation) -> str:
    """What was run, in a sentence; what an older record does not say is left out."""
    used = found.settings
    parts = [many(len(found.candidates), "candidate"), run_length(found)]
    parts += [f"model {used['model']}"] if used.get("model") else []
    rows, tested = used.get("train_rows"), used.get("test_rows")
    if isinstance(rows, int) and isinstance(tested, int):
        parts.append(f"{many(rows, 'row')} to train and {tested:,} to test")
    return ", ".join(parts) + "."


def candidate_note(one: Candidate) -> str:
    """What must be known about a candidate's score; empty where there is nothing."""
    parts = []
    if one.status == "diverged":
        parts.append(f"diverged at round {one.diverged_at}")
    elif one.status != "ok":
        parts.append("constant predictor")
    if one.eliminated_after is not None:
        parts.append(f"surely worse after {one.eliminated_after} seeds")
    if one.status == "ok" and one.trend in {"rising", "falling"}:
        parts.append(f"still {one.trend}")
    return ", ".join(parts)

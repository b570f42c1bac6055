"""The part of the page about the recommendation: the answer with its price, the tree, checks, and what was cited."""

from fedskew.advisor import plots
from fedskew.advisor.citations import Citation, bibtex, cited
from fedskew.advisor.page import Column, Item, Picture, Section, Table
from fedskew.advisor.recommendation import Recommendation
from fedskew.advisor.wording import price_remark, price_value, sureness
from fedskew.engine.reading import algorithm_title
from fedskew.profiles.records import Profile


def advice_facts(advice: Recommendation) -> tuple[tuple[str, str, str], ...]:
    """Term, value and remark: the algorithm, its price, and how sure that is."""
    others = ", ".join(algorithm_title(name) for name in advice.alternatives)
    word, sentence = sureness(advice)
    return (
        ("Recommended algorithm", algorithm_title(advice.algorithm), f"next best: {others}" if others else ""),
        ("Price per party and round", price_value(advice.price), price_remark(advice.price)),
        ("How sure beforehand", word, sentence),
    )


def advice_sections(advice: Recommendation) -> tuple[Section, ...]:
    """Why this algorithm, and what would change that."""
    pictures = [Picture(plots.decision_tree(advice), "path")]
    if advice.second_opinion.candidates:
        pictures.append(Picture(plots.expected_gains(advice), "opinion"))
    changes = tuple(Item(change.text) for change in advice.what_would_change)
    text = (advice.sentence, *advice.why)
    sections = [Section("why", "Why this algorithm", text=text, pictures=tuple(pictures))]
    if changes:
        sections.append(Section("change", "What would change the answer", items=changes))
    return tuple(sections)


def check_items(advice: Recommendation) -> tuple[Item, ...]:
    """The checks, gravest first; those that were looked at and fine are kept, last."""
    return tuple(Item(check.text, check.severity, check.evidence) for check in advice.checks)


def advice_tables(advice: Recommendation) -> tuple[Table, ...]:
    """The path, the second opinion, and the hyperparameters."""
    gains = [
        (
            algorithm_title(one.algorithm),
            one.expected_gain.mean,
            one.expected_gain.lower,
            one.expected_gain.upper,
            one.settings,
            one.datasets,
        )
        for one in advice.second_opinion.candidates
    ]
    columns = (
        Column("algorithm"),
        Column("gain, points", "number"),
        Column("lower", "number"),
        Column("upper", "number"),
        Column("settings", "count"),
        Column("data sets", "count"),
    )
    start = advice.hyperparameters
    names = list(dict.fromkeys((*start.start, *start.grid)))
    grid = [(name, start.start.get(name), ", ".join(f"{v:g}" for v in start.grid.get(name, ()))) for name in names]
    return (
        Table(
            "path",
            "The path through the tree",
            (Column("question"), Column("answer")),
            [(step.question, step.answer) for step in advice.path],
        ),
        Table("opinion", "Expected gain over FedAvg from published settings", columns, gains),
        Table(
            "start",
            f"Hyperparameters of {algorithm_title(advice.algorithm)} to start from",
            (Column("name"), Column("start", "number"), Column("worth trying")),
            grid,
            f"Origin: {start.origin}.",
        ),
    )


ALLOWED = ("https://arxiv.org/", "https://doi.org/")
"""Where links may lead; any other address is shown as text."""
_ACCENTS = {r"{\"u}": "ü", r"{\v{c}}": "č", r"{\'y}": "ý", "{": "", "}": ""}


def _cited(work: Citation) -> Item:
    """A work as a reader knows it: BibTeX's braces and accents resolved, the address once."""
    linked = work.link.startswith(ALLOWED)
    text = work.plain().removesuffix(work.link).rstrip() if linked else work.plain()
    for written, meant in _ACCENTS.items():
        text = text.replace(written, meant)
    return Item(text, link=work.link if linked else "")


def method_section(profile: Profile | None, advice: Recommendation | None, *, validated: bool) -> Section:
    """How it was done, and the works behind what was used."""
    text = []
    if profile is not None:
        text.append(
            "Every skew index is corrected for chance: (found - expected by chance) / (most possible - expected by "
            "chance). Label skew is mutual information of label and party, quantity skew a Gini, feature skew the "
            "share of kernel variance between parties within classes, concept shift what parties gain by recalibrating "
            "a pooled model."
        )
    if advice is not None:
        text.append(
            "The recommendation walks the decision tree of the NIID-Bench paper; checks and a second opinion from "
            "published results say how far it can be trusted."
        )
    if validated:
        text.append(
            "All candidates share rows, test rows, seeds, first weights, cohorts and minibatch order. Differences to "
            "the recommended algorithm are paired over seeds; intervals are corrected for the number of candidates."
        )
    works = advice.citations if advice is not None else cited(["li2022niid"])
    items = tuple(_cited(work) for work in works)
    return Section("methods", "Methods and citations", text=tuple(text), items=items, code=(("BibTeX", bibtex(works)),))

"""Which sections stand on the page and in which order: the verdict first, the settings last."""

from dataclasses import replace

from fedskew.advisor import page_advice as advised
from fedskew.advisor import page_profile as profiled
from fedskew.advisor import page_validation as validated
from fedskew.advisor.page import Column, Page, Section, Table
from fedskew.advisor.recommendation import Recommendation
from fedskew.advisor.wording import about, prevailing_sentence
from fedskew.engine.records import Validation
from fedskew.profiles.records import Profile

GRAVEST = ("strong", "mild", "none")


def compose(
    profile: Profile | None,
    advice: Recommendation | None,
    found: Validation | None,
    reproduction: tuple[tuple[str, str], ...],
) -> Page:
    """The page of up to three records.

    Parameters
    ----------
    profile, advice, found : what there is; at least one
    reproduction : names and values of settings, versions and hashes
    """
    facts = (advised.advice_facts(advice) if advice is not None else ()) + (
        (validated.verdict_fact(found),) if found is not None else ()
    )
    sections = [Section("answer", "In short", facts=facts)] if facts else []
    sections += profiled.profile_sections(profile) if profile is not None else ()
    sections += advised.advice_sections(advice) if advice is not None else ()
    sections += validated.validation_sections(found) if found is not None else ()
    items = advised.check_items(advice) if advice is not None else ()
    items += profiled.hygiene_items(profile) if profile is not None else ()
    items = tuple(sorted(items, key=lambda item: GRAVEST.index(item.mark)))
    sections += [Section("checks", "Checks and data hygiene", items=items)] if items else []
    sections += [
        advised.method_section(profile, advice, validated=found is not None),
        Section("numbers", "All numbers"),
        Section("reproduce", "To reproduce", tables=(_reproduction(reproduction),)),
    ]
    headline = _headline(profile, advice, found)
    sections = [
        replace(part, text=tuple(line for line in part.text if line not in {"", headline})) for part in sections
    ]
    told = {table.key for section in sections for table in section.tables}
    tables = tuple(table for table in all_tables(profile, advice, found) if table.key not in told)
    return Page(headline, _warning(advice), _about(profile, found), tuple(sections), tables)


def all_tables(profile: Profile | None, advice: Recommendation | None, found: Validation | None) -> tuple[Table, ...]:
    """Every table of the page, whole."""
    tables: list[Table] = []
    if profile is not None:
        tables += [profiled.skews(profile), *profiled.profile_tables(profile)]
    if advice is not None:
        tables += advised.advice_tables(advice)
    if found is not None:
        tables += [validated.leaderboard(found), *validated.validation_tables(found)]
    return tuple(tables)


def _headline(profile: Profile | None, advice: Recommendation | None, found: Validation | None) -> str:
    if found is not None:
        return found.verdict.text
    if advice is not None:
        return advice.sentence
    return prevailing_sentence(profile) if profile is not None else ""


def _warning(advice: Recommendation | None) -> str:
    return f"{advice.void}." if advice is not None and advice.void else ""


def _about(profile: Profile | None, found: Validation | None) -> str:
    if profile is not None:
        return about(profile)
    return "" if found is None else f"{len(found.candidates)} candidates on {found.settings.get('train_rows')} rows"


def _reproduction(rows: tuple[tuple[str, str], ...]) -> Table:
    return Table("reproduction", "Settings, versions, hashes", (Column("name"), Column("value")), rows)

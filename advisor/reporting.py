"""Report: everything that was found on one page, as HTML, Markdown, JSON, LaTeX or CSV.

The HTML is one file without JavaScript; its only unescaped parts are the pictures, marked as safe in one place below.
"""

import hashlib
import json
import platform
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedskew.advisor.advice import Advice
from fedskew.advisor.recommendation import SCHEMA as RECOMMENDATION
from fedskew.advisor.recommendation import Recommendation
from fedskew.engine.records import SCHEMA as VALIDATION
from fedskew.engine.records import Validation
from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.records import SCHEMA as PROFILE
from fedskew.profiles.records import Profile
from fedskew.profiles.written import kind_of

if TYPE_CHECKING:
    from fedskew.advisor.page import Page, Table

Record = Profile | Recommendation | Validation
LIBRARIES = ("numpy", "scipy", "torch", "matplotlib")


@dataclass(frozen=True, slots=True)
class Report:
    """Up to three records on one page; what is None is left out.

    Raises
    ------
    FedskewError
        All three are None.
    """

    profile: Profile | None = None
    recommendation: Recommendation | None = None
    validation: Validation | None = None

    def __post_init__(self) -> None:
        if self.profile is None and self.recommendation is None and self.validation is None:
            raise FedskewError("a report needs a profile, a recommendation or a validation; none was given")

    def page(self) -> "Page":
        """The page before it becomes HTML or Markdown: sections, pictures, tables."""
        from fedskew.advisor.composition import compose

        return compose(self.data, self.recommendation, self.validation, self.reproduction())

    @property
    def data(self) -> Profile | None:
        """The profile, also where only the recommendation brought it along."""
        return self.profile or (self.recommendation.profile if self.recommendation is not None else None)

    def to_html(self) -> str:
        """One self-contained page; the same records give the same bytes."""
        from fedskew.advisor.formats import html

        return html(self.page(), _version("fedskew"))

    def to_markdown(self) -> str:
        """The page without its pictures; tables of more than 60 rows are cut, and say so."""
        from fedskew.advisor.formats import markdown

        return markdown(self.page())

    def to_json(self) -> str:
        """One JSON document with the keys ``profile``, ``recommendation``, ``validation``, as ``advise`` writes."""
        keys = {"profile": self.data, "recommendation": self.recommendation, "validation": self.validation}
        written = b",".join(b'"%s":%s' % (name.encode(), _encoded(record)) for name, record in keys.items())
        return msgspec.json.format(b"{" + written + b"}", indent=2).decode()

    def to_latex(self) -> str:
        """A booktabs table: mean ± standard deviation over seeds, best in bold; without a validation, the skews."""
        from fedskew.advisor.formats import latex, latex_scores

        if self.validation is not None:
            return latex_scores(self.validation)
        return latex(self.tables()["skews"])

    def to_csv(self, table: str | None = None) -> str:
        """One table as CSV with raw numbers; text cells that a spreadsheet would run get a leading apostrophe.

        Parameters
        ----------
        table : a key of :meth:`tables`; None: the leaderboard, or without a validation the parties

        Raises
        ------
        FedskewError
            There is no such table in this report.
        """
        from fedskew.advisor.formats import csv_text

        found = self.tables()
        wanted = table or ("leaderboard" if self.validation is not None else "parties")
        if wanted not in found:
            raise FedskewError(f"this report has no table {wanted!r}: {choices(wanted, found)}")
        return csv_text(found[wanted])

    def tables(self) -> "dict[str, Table]":
        """All tables by key, whole; no picture is drawn."""
        from fedskew.advisor.composition import all_tables

        return {table.key: table for table in all_tables(self.data, self.recommendation, self.validation)}

    def reproduction(self) -> tuple[tuple[str, str], ...]:
        """Settings, versions and hashes: what somebody needs to get the same numbers."""
        rows = [] if self.validation is None else [(k, _plain(v)) for k, v in self.validation.settings.items()]
        records = {"profile": self.data, "recommendation": self.recommendation, "validation": self.validation}
        rows += [
            (f"SHA-256 of the {name}", hashlib.sha256(_encoded(record)).hexdigest())
            for name, record in records.items()
            if record is not None
        ]
        rows += [("page written with", f"Python {platform.python_version()}, fedskew {_version('fedskew')}")]
        return (*rows, *((name, _version(name)) for name in LIBRARIES))


def _encoded(record: Record | None) -> bytes:
    """The record as it reads after one trip through JSON, so that it and its copy give the same bytes and hash."""
    if record is None:
        return b"null"
    try:
        return msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(record), type=type(record)))
    except UnicodeEncodeError:  # a lone surrogate in a name: no UTF-8, but JSON can escape it
        return json.dumps(msgspec.to_builtins(record)).encode()


def _plain(value: Any) -> str:
    return "none" if value is None else str(value)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def template() -> str:
    """The text of ``report.html``."""
    return resources.files("fedskew.advisor").joinpath("report.html").read_text(encoding="utf-8")


def report(*records: Record | Advice | Report) -> Report:
    """Put records on one page.

    Parameters
    ----------
    records : what ``advise`` returned, or a profile, a recommendation, a validation in any order

    Raises
    ------
    FedskewError
        Nothing was given, or something that no page can show.

    Examples
    --------
    >>> import numpy as np
    >>> from fedskew import make_partition, profile
    >>> toy = make_partition(np.eye(4), ["x", "y", "x", "y"], ["a", "a", "b", "b"])
    >>> report(profile(toy)).to_html().splitlines()[0]
    '<!doctype html>'
    """
    found: dict[str, Any] = {}
    for record in records:
        if isinstance(record, Advice | Report):
            for name in ("profile", "recommendation", "validation"):
                value = getattr(record, name)
                found |= {name: value} if value is not None else {}
        elif isinstance(record, Profile | Recommendation | Validation):
            found[type(record).__name__.lower()] = record
        else:
            raise FedskewError(f"a report cannot show a {type(record).__name__}; give it what advise() returned")
    return Report(**found)


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """What ``advise`` and ``Report.to_json`` write."""

    profile: Profile | None = None
    recommendation: Recommendation | None = None
    validation: Validation | None = None


_TYPES: dict[str, Any] = {PROFILE: Profile, RECOMMENDATION: Recommendation, VALIDATION: Validation}


def read_report(text: str | bytes | Path, where: str = "this JSON") -> Report:
    """Read a JSON document that profile, recommend, validate, advise or :meth:`Report.to_json` wrote.

    Parameters
    ----------
    text : the document, or the path of its file or of a run folder
    where : what messages call it, such as the name of its file

    Raises
    ------
    FedskewError
        It is none of these, or of another version.
    """
    if isinstance(text, Path):
        from fedskew.advisor.delivery import read_answer

        text, where = read_answer(text), str(text)
    try:
        head = msgspec.json.decode(text, type=dict[str, Any])
        if "schema" in head:
            kind = _TYPES.get(str(head["schema"]))
            if kind is None:
                raise FedskewError(f"{where}: {_other(text, str(head['schema']))}")
            return report(msgspec.json.decode(text, type=kind))
        return report(Report(**msgspec.structs.asdict(msgspec.json.decode(text, type=_Written))))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FedskewError(
            f"{where}: no report can be read from it ({error}); give a run folder, or what profile, recommend, "
            "validate or advise wrote with --json"
        ) from error


def _other(text: str | bytes, schema: str) -> str:
    """What a document is of which no report can be made."""
    kind = kind_of(text)
    return f"the schema is {schema!r}; {choices(schema, _TYPES)}" if kind is None else f"is {kind}"

"""What a JSON file is that fedskew wrote, so that a message can say which commands take it."""

from pathlib import Path

import msgspec

LARGEST = 1 << 28
"""Bytes of a file that is looked into for a message; a larger one is called unknown, not read."""
_ANSWER = frozenset({"profile", "recommendation", "validation"})
_KINDS = {
    "sketch": "a sketch file; fedskew profile, recommend and plan take it",
    "plan": "a plan for sketches; fedskew sketch takes it with --plan",
    "index": "an index file; fedskew profile, recommend, validate and advise take it",
    "profile": "a profile; fedskew recommend and report take one alone, fedskew validate takes it with --like",
    "recommendation": "a recommendation; fedskew report and export take it",
    "validation": "a validation; fedskew report and export take it",
    "study": "the results of a study; fedskew study --out takes their folder",
    "answer": "an answer of fedskew advise; fedskew report and export take it",
}


class _Head(msgspec.Struct):
    """The one key that is looked at; what stands beside it is skipped, not kept."""

    schema: str = ""


def looked_into(path: Path) -> bytes:
    """The bytes of a file that may be fedskew's; none of a larger one than is worth a message.

    Examples
    --------
    >>> looked_into(Path(__file__)) == Path(__file__).read_bytes()
    True
    """
    return path.read_bytes() if path.stat().st_size <= LARGEST else b""


def kind_of(data: str | bytes) -> str | None:
    """What a JSON file of fedskew is and which commands take it; None for any other file.

    Parameters
    ----------
    data : the whole file

    Examples
    --------
    >>> kind_of('{"class_names": [], "schema": "fedskew-plan/1"}')
    'a plan for sketches; fedskew sketch takes it with --plan'
    >>> kind_of(b"age,outcome") is None
    True
    """
    name = _name_of(data)
    return _KINDS.get(name) if name else None


def without_rows(kind: str) -> str:
    """What :func:`kind_of` says of a file, where rows are needed.

    Examples
    --------
    >>> without_rows("a plan for sketches; fedskew sketch takes it with --plan")
    'a plan for sketches and holds no rows; fedskew sketch takes it with --plan'
    """
    return kind.replace("; ", " and holds no rows; ", 1)


def is_answer(data: str | bytes) -> bool:
    """Whether a file of fedskew holds what was found, and neither sketches nor anything else to compute from.

    Examples
    --------
    >>> is_answer('{"schema": "fedskew-profile/1"}'), is_answer('{"schema": "fedskew-sketch/1"}')
    (True, False)
    """
    return _name_of(data) not in (None, "sketch")


def _name_of(data: str | bytes) -> str | None:
    try:
        schema = msgspec.json.decode(data, type=_Head).schema
        family, _, name = schema.partition("/")[0].partition("-")
        if family == "fedskew":
            return name
        return "answer" if set(msgspec.json.decode(data, type=dict[str, msgspec.Raw])) == _ANSWER else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None

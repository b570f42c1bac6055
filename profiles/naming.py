"""Names as they may be shown: printable, and not too long. No matplotlib here."""

import unicodedata

LONGEST = 22  # characters of a name in a picture; the tables hold whole names


def printable(text: str) -> str:
    r"""Show what cannot be printed (control and bidi characters, lone surrogates) instead of sending it on.

    Examples
    --------
    >>> printable("a\x00b\ud800") == r"a\x00b\ud800"
    True
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def wide(text: str) -> int:
    """Width of a text in characters; East Asian ones count twice.

    Examples
    --------
    >>> wide("abc"), wide("東京")
    (3, 4)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(name: str, most: int = LONGEST) -> str:
    """A printable name of at most ``most`` characters; what is cut becomes one ellipsis.

    Names that begin alike often end differently (``ward 1``, ``ward 2``), so the end is kept where there is room.

    Examples
    --------
    >>> shorten("a short one"), shorten("abcdefgh", 5), shorten("St Mary's hospital, ward 12", 18)
    ('a short one', 'abcd…', "St Mary's…ward 12")
    """
    shown = printable(name)
    if wide(shown) <= most:
        return shown
    end = shown[-(most * 2 // 5) :] if most >= 10 else ""
    while wide(end) > most * 2 // 5:
        end = end[1:]
    start = shown
    while wide(start) + wide(end) > most - 1:
        start = start[:-1]
    return f"{start.rstrip()}…{end.lstrip()}"

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

    Examples
    --------
    >>> shorten("a short one"), shorten("abcdefgh", 5)
    ('a short one', 'abcd…')
    """
    shown = printable(name)
    if wide(shown) <= most:
        return shown
    while wide(shown) > most - 1:
        shown = shown[:-1]
    return shown + "…"

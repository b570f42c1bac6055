"""Where the rows of delimited text begin, end, and how many fields each has: one vectorised pass, quotes respected."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 24  # bytes at a time, so that the masks stay small
QUOTE, NEWLINE, RETURN = ord('"'), ord("\n"), ord("\r")


@dataclass(frozen=True, slots=True)
class Lines:
    """R rows that are not blank: bytes ``starts`` to ``stops`` (R,) hold row r, which begins on line ``numbers[r]``.

    ``fields`` (R,): fields in each; ``blank``: how many blank lines there are; ``open_quote``: the line of a quote that
    is never closed, or None.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    fields: NDArray[np.int64]
    numbers: NDArray[np.int64]
    blank: int
    open_quote: int | None


def scan_lines(data: bytes, delimiter: str) -> Lines:
    r"""Find the rows of delimited text.

    Parameters
    ----------
    data : UTF-8 text whose lines end in ``\n`` or ``\r\n``
    delimiter : one ASCII character

    Examples
    --------
    >>> found = scan_lines(b'a,b\n"1,\n2",3\n\n4\n', ",")
    >>> found.fields.tolist(), found.numbers.tolist(), found.blank
    ([2, 2, 1], [1, 2, 5], 1)
    """
    raw = np.frombuffer(data, np.uint8)
    ends, marks, breaks = [], [], []
    inside = False
    for base in range(0, len(raw), BLOCK):
        block = raw[base : base + BLOCK]
        newline, mark = block == NEWLINE, block == ord(delimiter)
        breaks.append(newline.nonzero()[0] + base)
        quotes = (block == QUOTE).nonzero()[0]
        if quotes.size or inside:
            quoted = _quoted(len(block), quotes, inside=inside)
            newline, mark = newline & ~quoted, mark & ~quoted
            inside ^= bool(quotes.size % 2)
        ends.append(newline.nonzero()[0] + base)
        marks.append(mark.nonzero()[0] + base)
    stops = np.concatenate([*ends, [len(raw)]]).astype(np.int64)
    starts = np.concatenate([[0], stops[:-1] + 1])
    fields = np.diff(np.searchsorted(np.concatenate(marks), np.concatenate([starts, [len(raw)]]))) + 1
    numbers = np.searchsorted(np.concatenate(breaks), starts) + 1
    returned = (stops > starts) & (raw[np.maximum(stops - 1, 0)] == RETURN)
    stops = stops - returned
    full = stops > starts
    blank = int((~full[:-1]).sum())  # what follows the last line end is no line
    broken = int(np.searchsorted(np.concatenate(breaks), _open_quote(raw, delimiter))) + 1 if inside else None
    return Lines(starts[full], stops[full], fields[full], numbers[full], blank, broken)


def _quoted(size: int, quotes: NDArray[np.int64], *, inside: bool) -> NDArray[np.bool_]:
    """Which bytes of a block lie between an opening and a closing quote, (size,)."""
    turns = np.zeros(size, np.int8)
    turns[quotes] = 1
    return (np.bitwise_xor.accumulate(turns) ^ np.int8(inside)).astype(bool)


def _open_quote(raw: NDArray[np.uint8], delimiter: str) -> int:
    """Where the quote stands that is never closed: the first one whose supposed end is not the end of a field."""
    quotes = (raw == QUOTE).nonzero()[0]
    ends = quotes[1::2]
    after = raw[np.minimum(ends + 1, len(raw) - 1)]
    wrong = (~np.isin(after, [QUOTE, NEWLINE, RETURN, ord(delimiter)])).nonzero()[0]
    first = 2 * int(wrong[0]) if wrong.size else len(quotes) - 1
    while first > 1 and quotes[first] == quotes[first - 1] + 1:
        first -= 2  # a doubled quote inside the field: it began earlier
    return int(quotes[first])

"""Numbers in sentences: one party, two parties; and no minus before a zero."""


def many(count: int, one: str, several: str = "") -> str:
    """A count with its noun in the right number.

    Parameters
    ----------
    count : how many
    one : the noun for one
    several : the noun for none and for several; where it is empty, ``one`` with an s

    Examples
    --------
    >>> many(1, "party", "parties"), many(1200, "row")
    ('1 party', '1,200 rows')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; what rounds to zero is never negative.

    Examples
    --------
    >>> signed(-0.04), signed(-0.06), signed(2)
    ('+0.0', '-0.1', '+2.0')
    """
    return f"{round(float(value), digits) + 0.0:+.{digits}f}"  # -0.0 + 0.0 is 0.0

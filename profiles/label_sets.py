"""Silos that spell the same labels differently, so that one class counts as two."""

import unicodedata
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.noticed import some
from fedskew.profiles.partitions import Finding

Key = Decimal | str
SHOWN = 4  # spellings in a sentence
BINARY = ("-1 0 1 2", "no yes", "n y", "false true", "f t", "negative positive", "neg pos", "- +", "absent present")
"""Ways to spell the two labels of one question; no word stands in two of them."""


def label_set_mismatch(
    counts: NDArray[np.int64], party_names: tuple[str, ...], class_names: tuple[str, ...]
) -> Iterator[Finding]:
    """A finding where the label sets of silos differ in spelling alone: the same from rows and from sketches.

    Either classes are equal but for case, blanks or the form of a number, and no party holds two of one label; or
    every party has its classes in one of :data:`BINARY`, and not all in the same one. Classes that differ otherwise
    are label skew.

    Examples
    --------
    >>> table = np.array([[5, 4, 0, 0], [0, 0, 3, 6]])
    >>> [found.text for found in label_set_mismatch(table, ("north", "east"), ("0", "1", "no", "yes"))]
    ["silos spell their labels differently, so that one label counts as two classes: '0', '1' in 'north'; 'no', 'yes' \
in 'east'; spell each label alike in all silos"]
    >>> list(label_set_mismatch(table, ("north", "east"), ("0", "1", "2", "yes")))
    []
    """
    held = counts > 0
    keys = {int(c): _key(class_names[c]) for c in np.flatnonzero(held.any(axis=0))}
    concerned = _twins(held, keys) or _vocabularies(held, keys)
    if not concerned:
        return
    groups: dict[tuple[str, ...], list[str]] = {}
    for row, party in zip(held[:, concerned], party_names, strict=True):
        if row.any():
            names = tuple(class_names[c] for c, has in zip(concerned, row.tolist(), strict=True) if has)
            groups.setdefault(names, []).append(party)
    spelled = sorted(groups.items(), key=lambda group: -len(group[1]))
    told = "; ".join(f"{some(list(names))} in {some(parties)}" for names, parties in spelled[:SHOWN])
    more = f"; {len(spelled) - SHOWN} more" if len(spelled) > SHOWN else ""
    text = (
        f"silos spell their labels differently, so that one label counts as two classes: {told}{more}; spell each "
        "label alike in all silos"
    )
    who = tuple(party for row, party in zip(held[:, concerned], party_names, strict=True) if row.any())
    yield Finding(code="label_set_mismatch", severity="strong", text=text, parties=who, count=len(concerned))


def _key(name: str) -> Key:
    """What two spellings of one label have in common."""
    text = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


VOCABULARY = {_key(word): place for place, words in enumerate(BINARY) for word in words.split()}


def _twins(held: NDArray[np.bool_], keys: dict[int, Key]) -> list[int]:
    """Classes of which another has the same key; none if a party holds both, which then means both."""
    same: dict[Key, list[int]] = {}
    for code, key in keys.items():
        same.setdefault(key, []).append(code)
    twins = [codes for codes in same.values() if len(codes) > 1]
    if any((held[:, codes].sum(axis=1) > 1).any() for codes in twins):
        return []
    return sorted(code for codes in twins for code in codes)


def _vocabularies(held: NDArray[np.bool_], keys: dict[int, Key]) -> list[int]:
    """All classes, if they are those of several vocabularies and no party has two."""
    places = {code: VOCABULARY.get(key, -1) for code, key in keys.items()}
    kinds = sorted(set(places.values()))
    if len(kinds) < 2 or -1 in kinds:
        return []
    which = [[code for code, place in places.items() if place == kind] for kind in kinds]
    kinds_held = np.sum([held[:, codes].any(axis=1) for codes in which], axis=0)
    return [] if (kinds_held > 1).any() else sorted(places)

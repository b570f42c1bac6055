"""The reader of sketch files: what it takes, what it refuses, and that nothing else can come of a hostile file."""

import copy
import hashlib
import json
import os
import random
import resource
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedskew.profiles.histogram import MOST_BINS
from fedskew.profiles.partitions import Column, make_partition
from fedskew.profiles.sketching import file
from fedskew.profiles.sketching.file import (
    MOST_FILE,
    SketchError,
    SketchFile,
    decoded,
    encoded,
    is_sketch,
    json_schema,
    read_sketches,
    write_sketches,
)
from fedskew.profiles.sketching.making import sketch
from fedskew.profiles.sketching.plan import make_plan
from fedskew.profiles.sketching.pooled import profile_sketches
from fedskew.profiles.sketching.record import ClassCells, Sketch

FUZZ = int(os.environ.get("FEDSKEW_FUZZ", "200"))
ROOT = Path(__file__).resolve().parents[2]


def silos(*, planned: bool = False, keyed: bool = False, few: bool = False) -> tuple[Sketch, ...]:
    rng = np.random.default_rng(0)
    n = 20 if few else 80
    x = np.hstack([rng.standard_normal((n, 2)), np.eye(2)[rng.integers(0, 2, n)]])
    columns = (Column("a", "numeric", 0, 1), Column("b", "numeric", 1, 2), Column("k", "categorical", 2, 4, ("u", "v")))
    toy = make_partition(x, rng.integers(0, 2, n), rng.integers(0, 3, n), columns=columns)
    found = sketch(toy)
    return sketch(toy, make_plan(found), hash_key=b"0123456789abcdef" if keyed else None) if planned else found


def rehashed(content: list[Any]) -> bytes:
    """A file that was changed and then signed anew, in canonical spelling where it still has one."""
    try:
        sketches = msgspec.convert(content, type=tuple[Sketch, ...], strict=True)
    except (msgspec.MsgspecError, TypeError):
        body = json.dumps(content, separators=(",", ":")).encode()
        digest = hashlib.sha256(body).hexdigest()
        return b'{"schema":"fedskew-sketch/1","sha256":"%s","sketches":%s}' % (digest.encode(), body)
    digest = hashlib.sha256(msgspec.json.encode(sketches)).hexdigest()
    return msgspec.json.encode(SketchFile(sha256=digest, sketches=sketches))


def plain(sketches: tuple[Sketch, ...]) -> list[Any]:
    return json.loads(encoded(sketches))["sketches"]  # type: ignore[no-any-return]


def test_what_was_written_is_read(tmp_path):
    for planned in (False, True):
        path = tmp_path / f"{planned}.json"
        write_sketches(path, silos(planned=planned))
        assert is_sketch(path)
        assert read_sketches(path) == silos(planned=planned)


def test_a_changed_byte_a_space_and_a_repeated_key_are_refused():
    data = encoded(silos())
    for wrong in (
        data.replace(b'"rows":', b'"rows": ', 1),
        data + b"\n",
        data[:-10],
        data.replace(b'"party":"0"', b'"party":"0","party":"0"', 1),
        data.replace(b'"party":"0"', b'"party":"9"', 1),
        data.replace(b"fedskew-sketch/1", b"fedskew-sketch/2", 1),
    ):
        with pytest.raises(SketchError):
            decoded(wrong)


CHANGES: dict[str, tuple[str, Any]] = {
    "more rows in a class than a silo has": ("Expected `int` <= 2", lambda s: first(s).update(rows=2**62)),
    "more rows than any silo has": ("more than any silo", lambda s: [c.update(rows=2**48) for c in s[0]["classes"]]),
    "negative rows": ("Expected `int` >= 0", lambda s: first(s).update(rows=-1)),
    "rows as a fraction": ("got `float`", lambda s: first(s).update(rows=1.5)),
    "fewer rows than values": ("counts 16 values in 1 rows", lambda s: first(s).update(rows=1)),
    "no value": ("counts 0 values in 16 rows", lambda s: cell(s).update(n=0, bins=[], counts=[])),
    "a mean beyond its bins": ("lies outside its histogram", lambda s: cell(s).update(mean=1e9)),
    "a mean that is no number": ("got `null`", lambda s: cell(s).update(mean=float("nan"))),
    "a negative square": ("even powers is negative", lambda s: cell(s).update(m2=-1.0)),
    "a huge square": (r"m2 = 1e\+300 is more than", lambda s: cell(s).update(m2=1e300)),
    "a fourth power too small": ("m4 = 0.0 is too small", lambda s: cell(s).update(m4=0.0)),
    "bins out of order": ("bins are out of order", lambda s: cell(s)["bins"].reverse()),
    "a bin beyond float32": ("beyond what float32 holds", lambda s: cell(s)["bins"].__setitem__(-1, 2**40)),
    "bins too far apart": ("spans more", lambda s: cell(s)["bins"].__setitem__(-1, cell(s)["bins"][0] + MOST_BINS)),
    "a count too many": ("does not hold 16 values", lambda s: cell(s)["counts"].__setitem__(0, 99)),
    "a count too few": ("does not hold 16 values", lambda s: cell(s)["counts"].pop()),
    "yes and no beyond 1": ("said to hold 0 and 1 only", lambda s: (s[0]["columns"][0].update(binary=True),
                                                                     cell(s).update(mean=-0.25))),
    "more categories than rows": ("1000011 values in 16", lambda s: first(s)["categorical"]["k"].update(u=10**6)),
    "categories out of order": ("categories are out of order", lambda s: first(s)["categorical"].update(
        k=dict(reversed(first(s)["categorical"]["k"].items())))),
    "an unknown column": ("not among the categorical", lambda s: first(s)["categorical"].update(z={"u": 1})),
    "a category in a column of numbers": ("not among the categorical", lambda s: first(s)["categorical"].update(
        a={"u": 1})),
    "a number in a column of categories": ("not among the numeric", lambda s: first(s)["numeric"].update(k=cell(s))),
    "a number in an unknown column": ("not among the numeric", lambda s: first(s)["numeric"].update(z=cell(s))),
    "an unknown field": ("unknown field `secret`", lambda s: s[0].update(secret=1)),
    "a party twice": ("parties are out of order, or one", lambda s: s.__setitem__(1, s[0])),
    "parties out of order": ("parties are out of order, or one", lambda s: s.reverse()),
    "a class twice": ("classes are out of order, or one", lambda s: s[0]["classes"].append(s[0]["classes"][-1])),
    "a column twice": ("a column is named twice", lambda s: s[0]["columns"].append(s[0]["columns"][-1])),
    "columns out of order": ("columns are out of order", lambda s: s[0]["columns"].reverse()),
    "unused without a reason": ("or has none and is not", lambda s: s[0]["columns"][0].update(kind="unused")),
    "a name without letters": ("length >= 1", lambda s: s[0].update(party="")),
    "no party": ("length >= 1", lambda s: s.clear()),
}  # fmt: skip


def first(sketches: list[Any]) -> Any:
    return sketches[0]["classes"][0]


def cell(sketches: list[Any]) -> Any:
    return first(sketches)["numeric"]["a"]


@pytest.mark.parametrize("name", CHANGES)
def test_numbers_that_cannot_be_are_refused_though_the_hash_agrees(name):
    content, (message, change) = plain(silos()), CHANGES[name]
    assert decoded(rehashed(content)) == silos()
    change(content)
    with pytest.raises(SketchError, match=message):
        decoded(rehashed(content))


def test_of_joined_bins_one_stands_for_many_and_tells_no_range():
    content = plain(silos())
    cell(content).update(mean=1e3)
    with pytest.raises(SketchError, match="outside its histogram"):
        decoded(rehashed(content))
    content[0]["withheld"].update(min_count=5)
    assert decoded(rehashed(content))[0].classes[0].numeric["a"].mean == 1e3
    cell(content).update(mean=1e39)
    with pytest.raises(SketchError, match="outside its histogram"):
        decoded(rehashed(content))


def test_more_bytes_than_the_parties_may_have_are_refused(monkeypatch):
    monkeypatch.setattr(file, "MOST_BYTES", 1 << 10)
    with pytest.raises(SketchError, match=r"larger than 0 MB a party; use fewer columns"):
        decoded(encoded(silos()))


def test_what_cannot_be_read_is_no_sketch(tmp_path):
    assert not is_sketch(tmp_path)
    assert not is_sketch(tmp_path / "none.json")


KERNELS: dict[str, tuple[str, Any]] = {
    "sums that are too large": ("larger than its rows", lambda k: {"sums": np.full(128, 1e6).tobytes()}),
    "sums too large together": ("larger than its rows", lambda k: {"sums": np.full(128, k.rows / 2).tobytes()}),
    "sums that are no numbers": ("are not finite", lambda k: {"sums": np.full(128, np.nan).tobytes()}),
    "three sums": ("have another length", lambda k: {"sums": np.zeros(3).tobytes()}),
    "products that are too large": ("larger than its rows", lambda k: {"second": np.full(8256, 1e6).tobytes()}),
    "products that are no numbers": ("are not finite", lambda k: {"second": np.full(8256, np.inf).tobytes()}),
    "three products": ("have another length", lambda k: {"second": np.zeros(3).tobytes()}),
    "products of other rows": ("as their trace", lambda k: {"second": (np.frombuffer(k.second) / 2).tobytes()}),
    "more rows than there are": ("rows enter the kernel sums", lambda k: {"rows": 10**6}),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_sums_that_cannot_be_are_refused(name):
    (whole, *_), (message, change) = silos(planned=True), KERNELS[name]
    kernel = whole.classes[0].kernel
    assert kernel is not None
    changed = msgspec.structs.replace(kernel, **change(kernel))
    cells = msgspec.structs.replace(whole.classes[0], kernel=changed)
    bad = msgspec.structs.replace(whole, classes=(cells, *whole.classes[1:]))
    with pytest.raises(SketchError, match=message):
        encoded([bad])


def test_a_file_too_large_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(MOST_FILE + 1)
    with pytest.raises(SketchError, match="MB"):
        read_sketches(path)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"null", b"[" * 100_000, b'{"schema":1e999}', b"\xff\xfe", b"NaN"])
def test_what_is_no_sketch_is_refused_in_one_line(text):
    with pytest.raises(SketchError) as found:
        decoded(text)
    assert "\n" not in str(found.value)


def mutated(value: Any, rng: random.Random) -> Any:
    """Change one place of a nested value."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.05:
            value.pop(key)
        elif rng.random() < 0.05:
            value[rng.choice(["", "a", "party", "é" * 50])] = value[key]
        else:
            value[key] = mutated(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        if rng.random() < 0.1:
            value.insert(place, copy.deepcopy(value[place]))
        elif rng.random() < 0.1:
            value.pop(place)
        else:
            value[place] = mutated(value[place], rng)
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, value * 2, 0, 1, -value, 2**31, 2**47, 2**48, 2**53 + 1, 2**62, 2**63])
    if isinstance(value, float):
        return rng.choice([value * (1 + 1e-3), -value, 0.0, 1e-300, 1e38, 1e300, value * 2, value + 1])
    if isinstance(value, str):
        return rng.choice([value + "x", "", "0", value[:-1], value.upper(), "A" * 44, "../../etc/passwd", "\x00"])
    return rng.choice([None, 0, [], {}, "x"])


def mutant(turn: int, bases: list[list[Any]], rng: random.Random) -> bytes:
    """A file with one to three changes, signed anew; every twentieth one has a changed byte besides."""
    content = copy.deepcopy(bases[turn % len(bases)])
    for _ in range(rng.choice([1, 1, 2, 3])):
        content = mutated(content, rng)
    data = rehashed(content)
    if turn % 20 == 19:
        place = rng.randrange(len(data))
        data = data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
    return data


def test_mutants_are_refused_or_profiled_and_never_crash():
    """Every mutant that is accepted is profiled; each costs at most 1 s of work and 200 MB.

    ``FEDSKEW_FUZZ`` says how many.
    """
    rng = random.Random(1)
    bases = [plain(silos()), plain(silos(planned=True)), plain(silos(planned=True, keyed=True)), plain(silos(few=True))]
    profile_sketches(silos(planned=True, keyed=True))  # so that imports do not count
    signed, profiled, slowest = 0, 0, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for turn in range(FUZZ):
        data = mutant(turn, bases, rng)
        started = time.thread_time()  # of this thread: what other work the machine does is not the reader's
        try:
            sketches = decoded(data)
            signed += 1
            profile_sketches(sketches).to_json()
            profiled += 1
        except SketchError as fault:
            signed += "SHA-256" not in str(fault)
        except ValueError as fault:
            assert type(fault).__name__ == "FedskewError"  # noqa: PT017 - nothing else may come of a file
        slowest = max(slowest, time.thread_time() - started)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert signed >= 0.9 * FUZZ
    assert profiled >= 0.1 * FUZZ
    assert slowest <= 1.0
    assert grown <= 200  # MB, of the largest of them and all that Python kept of the others


@pytest.mark.parametrize("large", [2**31, 2**40, 2**47])
def test_a_silo_that_says_it_holds_nearly_all_rows_is_flagged(large):
    lying = Sketch(party="liar", classes=(ClassCells(name="x", rows=large), ClassCells(name="y", rows=large // 3)))
    honest = [
        Sketch(party=p, classes=(ClassCells(name="x", rows=40), ClassCells(name="y", rows=60))) for p in ("a", "b")
    ]
    found = profile_sketches(decoded(encoded([lying, *honest])))
    flagged = {finding.code: finding.parties for finding in found.hygiene}
    assert flagged["dominant_party"] == ("liar",)
    assert found.rows == large + large // 3 + 200
    assert "NaN" not in found.to_json()


def test_the_published_schema_is_that_of_the_records():
    assert json.loads((ROOT / "docs" / "sketch.schema.json").read_text()) == json.loads(
        msgspec.json.encode(json_schema())
    )

"""Row hashes under a shared key: which rows two silos share, and that nothing is told without the key."""

import os
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedskew.profiles import make_plan, merge, profile, read_table, sketch
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.hygiene import hygiene
from fedskew.profiles.partitions import Finding, Partition, make_partition
from fedskew.profiles.sketching import batches
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.copies import shared_rows
from fedskew.profiles.sketching.file import SketchError, decoded, encoded
from fedskew.profiles.sketching.minima import MINIMA, LeastHashes, RowMinima, merged_minima, read_key
from fedskew.profiles.sketching.record import Sketch
from fedskew.profiles.sketching.scanning import scan_file

KEY, OTHER = b"a secret of the silos", b"another secret of them"


def silos(rows: int, shared: int, seed: int = 0, parties: int = 2) -> Partition:
    """Silos of so many rows, where the first rows of all are the same."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((parties, rows, 3)), rng.integers(0, 2, (parties, rows))
    x[1:, :shared], y[1:, :shared] = x[0, :shared], y[0, :shared]
    return make_partition(x.reshape(-1, 3), y.ravel(), np.repeat(np.arange(parties), rows))


def keyed(toy: Partition, key: bytes = KEY) -> tuple[Sketch, ...]:
    return sketch(toy, make_plan(sketch(toy)), hash_key=key)


def duplicates(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.code == "duplicate_rows"]


def test_rows_that_small_silos_share_are_counted_exactly_as_with_rows_at_hand():
    toy = silos(600, 60, parties=3)
    (wanted,), (found,) = duplicates(hygiene(toy)), duplicates(profile(keyed(toy)).hygiene)
    assert found == wanted
    assert found.count == 120  # two copies of each of 60


def test_rows_that_large_silos_share_are_estimated_with_an_interval():
    covered, about = 0, []
    for seed in range(20):
        ((one,), *_) = shared_rows(keyed(silos(8_000, 800, seed)))
        covered += one.low <= 800 <= one.high
        about.append(one.rows)
        assert one.low < one.rows < one.high
    assert covered >= 17  # of 20 intervals of 95 %; fewer once in a thousand
    assert np.mean(about) == pytest.approx(800, rel=0.08)  # 100 of 1,023 hashes: 10 % a draw, 2.2 % of the mean
    (told,) = duplicates(profile(keyed(silos(8_000, 800))).hygiene)
    assert told.count == pytest.approx(800, rel=0.4)
    assert told.parties == ("0", "1")
    assert "about" in told.text


def test_silos_that_share_no_row_are_not_accused():
    for toy in (silos(3_000, 0), silos(200, 0)):
        assert duplicates(profile(keyed(toy)).hygiene) == []


def test_coarse_columns_that_repeat_within_silos_are_not_copies():
    rng = np.random.default_rng(1)
    x = rng.integers(0, [12, 12, 12, 6], (8_000, 4)).astype(float)
    toy = make_partition(x, rng.integers(0, 2, 8_000), np.arange(8_000) % 2)
    for found in (duplicates(profile(keyed(toy)).hygiene), duplicates(hygiene(toy))):
        assert [finding.severity for finding in found] == ["none"]


def test_silos_of_unequal_size_are_compared_by_what_both_know():
    rng = np.random.default_rng(2)
    large, small = rng.standard_normal((30_000, 2)), rng.standard_normal((2_000, 2))
    small[:1_000] = large[:1_000]
    party = np.repeat([0, 1], [30_000, 2_000])
    ((one,), *_) = shared_rows(keyed(make_partition(np.concatenate([large, small]), np.zeros(32_000, int), party)))
    assert one.low <= 1_000 <= one.high


def test_other_keys_cannot_be_compared_nor_merged():
    toy = silos(50, 10)
    one, other = keyed(toy), keyed(toy, OTHER)
    with pytest.raises(FedskewError, match="same --hash-key"):
        profile([one[0], other[1]])
    with pytest.raises(FedskewError, match="different keys"):
        merge(one[0], other[0])
    with pytest.raises(FedskewError, match="only a part"):
        merge(one[0], msgspec.structs.replace(one[0], minima=None))


def test_without_a_key_nothing_about_rows_is_written():
    toy = silos(50, 10)
    assert b'"minima":null' in encoded(sketch(toy, make_plan(sketch(toy))))
    assert duplicates(profile(sketch(toy, make_plan(sketch(toy)))).hygiene) == []


def test_hashes_of_another_key_or_plan_have_nothing_in_common():
    toy = silos(300, 300)
    plan = make_plan(sketch(toy))
    other_plan = msgspec.structs.replace(plan, most_rows=17)
    held = [sketch(toy, p, hash_key=k)[0].minima for p, k in ((plan, KEY), (plan, OTHER), (other_plan, KEY))]
    sets = [set(minima.hashes) for minima in held if minima is not None]
    assert [len(one) for one in sets] == [300] * 3
    assert len(set.union(*sets)) == 900
    assert len({minima.key for minima in held if minima is not None}) == 3


def test_a_key_needs_a_plan_and_sixteen_bytes(tmp_path):
    toy = silos(20, 0)
    with pytest.raises(FedskewError, match="need a plan"):
        sketch(toy, hash_key=KEY)
    with pytest.raises(FedskewError, match="16"):
        sketch(toy, make_plan(sketch(toy)), hash_key=b"short")
    path = tmp_path / "rows.key"
    path.write_bytes(b"  short \n")
    with pytest.raises(FedskewError, match="holds 5 bytes"):
        read_key(path)
    path.write_bytes(KEY + b"\r\n")
    assert read_key(path) == KEY
    path.write_bytes(b"x" * 70_000)
    with pytest.raises(FedskewError, match="too large"):
        read_key(path)


def test_the_scan_of_a_file_holds_the_hashes_of_its_rows_whatever_the_batches(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "site": rng.choice(["n", "s"], 3_000, p=[0.8, 0.2]),
            "y": rng.choice(["no", "yes"], 3_000),
            "a": np.where(rng.random(3_000) < 0.1, np.nan, rng.standard_normal(3_000).round(2)),
            "k": rng.choice(["u", "v", "w"], 3_000),
        }
    )
    path = tmp_path / "all.parquet"
    frame.write_parquet(path, row_group_size=500)
    toy = read_table(path, label="y", party="site")
    plan = make_plan(sketch(toy))
    wanted = sketch(toy, plan, hash_key=KEY)
    for rows in (131_072, 257):
        monkeypatch.setattr(batches, "ROWS", rows)
        found = scan_file(path, Wanted("y", "site"), plan, hash_key=KEY)
        assert [one.minima for one in found] == [one.minima for one in wanted]
    assert decoded(encoded(found)) == found


@settings(max_examples=int(os.environ.get("FEDSKEW_EXAMPLES", "40")))
@given(st.lists(st.integers(0, 3_000), max_size=60), st.lists(st.integers(0, 3_000), max_size=60), st.booleans())
def test_the_least_hashes_of_all_rows_are_those_of_the_parts_merged(one, other, many):
    parts = [list(one), list(other) + (list(range(5_000)) if many else [])]
    made = []
    for part in (*parts, parts[0] + parts[1]):
        least = LeastHashes()
        for at in range(0, len(part), 700):
            least.add(np.array(part[at : at + 700], np.uint64))
        made.append(least.record("0" * 32))
    assert merged_minima(made[0], made[1], (1, 1)) == merged_minima(made[1], made[0], (1, 1)) == made[2]
    times = Counter(parts[0] + parts[1])
    counts = {value: times[value] for value in sorted(times)[:MINIMA]}
    assert dict(zip(made[2].hashes, made[2].counts, strict=True)) == counts


def test_parts_of_a_silo_merge_to_the_hashes_of_all_its_rows():
    toy = silos(2_000, 0)
    plan = make_plan(sketch(toy))
    half = np.arange(toy.rows) % 2 == 0
    parts = [
        sketch(
            make_partition(toy.features[w], toy.labels[w], toy.party[w], columns=toy.columns, class_names=("0", "1")),
            plan,
            hash_key=KEY,
        )
        for w in (half, ~half)
    ]
    whole = sketch(toy, plan, hash_key=KEY)
    assert [merge(a, b).minima for a, b in zip(*parts, strict=True)] == [one.minima for one in whole]


@pytest.mark.parametrize(
    "change",
    [
        {"hashes": (2, 1), "counts": (1, 1)},
        {"hashes": (1, 1), "counts": (1, 1)},
        {"hashes": (1, 2), "counts": (1,)},
        {"hashes": (1, 2), "counts": (40, 11)},
        {"hashes": (1, 2), "counts": (20, 20)},
        {"hashes": (-1, 2), "counts": (25, 25)},
        {"hashes": (1, 2**63), "counts": (25, 25)},
        {"hashes": tuple(range(MINIMA + 1)), "counts": (1,) * (MINIMA + 1)},
    ],
)
def test_row_hashes_that_cannot_be_are_refused(change: dict[str, Any]):
    one = keyed(silos(50, 0))[0]
    bad = msgspec.structs.replace(one, minima=RowMinima(key="0" * 32, **change))
    with pytest.raises(SketchError):
        decoded(encoded([bad]))


def test_absurd_hashes_never_share_more_rows_than_there_are():
    hashes = RowMinima(key="0" * 32, hashes=tuple(range(MINIMA)), counts=(1,) * MINIMA)
    one = keyed(silos(2_000, 0))[0]
    many = [msgspec.structs.replace(one, party=f"p{i}", minima=hashes) for i in range(5)]
    (told,) = duplicates(profile(many).hygiene)
    assert told.count <= 10 * 2_000


def test_a_part_without_rows_changes_no_hashes_and_without_any_there_are_none() -> None:
    empty = RowMinima(key="0" * 32, hashes=(), counts=())
    held = RowMinima(key="0" * 32, hashes=(7,), counts=(2,))
    assert merged_minima(None, None, (3, 4)) is None
    assert merged_minima(held, None, (2, 0)) == held
    assert merged_minima(None, held, (0, 2)) == held
    assert merged_minima(empty, None, (0, 3)) is None

"""What is withheld and what is noised."""

import sys
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from fedskew.profiles import make_plan, profile, sketch
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.label import label_index, label_skew_of
from fedskew.profiles.partitions import Column, make_partition
from fedskew.profiles.quantity import _index as quantity_index
from fedskew.profiles.quantity import gini, quantity_skew_of
from fedskew.profiles.sketching.adding import Wanted
from fedskew.profiles.sketching.file import decoded, encoded
from fedskew.profiles.sketching.noisy import label_corrected, quantity_corrected
from fedskew.profiles.sketching.plan import Plan
from fedskew.profiles.sketching.privacy import _laplace, noised, withheld
from fedskew.profiles.sketching.record import ClassCells, Sketch
from fedskew.profiles.sketching.scanning import scan_file

PLAN = Plan(class_names=("x", "y", "z"), columns=(), variance=0.0)


def silos():
    rng = np.random.default_rng(0)
    labels = np.array(["x"] * 60 + ["y"] * 37 + ["canary"] * 3)
    columns = (Column("a", "numeric", 0, 1), Column("k", "categorical", 1, 3, ("u", "secret")))
    k = np.zeros((100, 2))
    k[:, 0] = 1
    k[:2] = [0, 1]
    x = np.column_stack([rng.standard_normal(100), k])
    x[60:95, 0] = np.nan
    return sketch(make_partition(x, labels, np.repeat(["p"], 100), columns=columns))


def test_cells_of_few_rows_are_withheld_and_counted():
    (kept,) = [withheld(one, 5) for one in silos()]
    assert [cells.name for cells in kept.classes] == ["x", "y"]
    note = kept.withheld
    assert (note.classes, note.rows, note.cells, note.categories) == (1, 3, 1, 1)
    assert note.columns == ("a", "k")
    assert "a" not in kept.classes[1].numeric
    assert kept.classes[0].categorical == {"k": {"u": 58}}
    assert all(count >= 5 for cells in kept.classes for cell in cells.numeric.values() for count in cell.counts)
    assert sum(kept.classes[0].numeric["a"].counts) == 60
    data = encoded([kept])
    assert decoded(data) == (kept,)
    for secret in (b"canary", b"secret"):
        assert secret not in data


def test_what_was_withheld_is_told_by_the_profile():
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(300) < 0.02, "rare", np.where(rng.random(300) < 0.5, "x", "y"))
    found = profile([withheld(s, 10) for s in sketch(make_partition(rng.random((300, 1)), labels, np.arange(300) % 3))])
    told = {finding.code: finding for finding in found.hygiene}["withheld_cells"]
    for part in ("fewer than 10 rows", f"classes in {np.count_nonzero(labels == 'rare')} rows", "bins were joined"):
        assert part in told.text
    assert "'rare'" not in told.text
    assert found.rows == 300 - np.count_nonzero(labels == "rare")


def test_a_limit_that_withholds_nothing_is_refused():
    for wrong in (1, 0, -3, 10**7):
        with pytest.raises(FedskewError, match="--min-count"):
            withheld(silos()[0], wrong)


def test_epsilon_must_be_positive_and_classes_declared():
    one = Sketch(party="p", classes=(ClassCells(name="other", rows=5),))
    for epsilon in (0, -1, float("nan"), float("inf")):
        with pytest.raises(FedskewError, match="--epsilon"):
            noised(one, epsilon, PLAN)
    with pytest.raises(FedskewError, match="has a class that the plan has not"):
        noised(one, 1.0, PLAN)


def test_without_opendp_the_error_names_the_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(EnvironmentFaultError, match=r"pip install 'fedskew\[dp\]'"):
        noised(Sketch(party="p"), 1.0, PLAN)


def test_noise_has_the_law_of_integer_laplace_and_is_written_down():
    pytest.importorskip("opendp")
    one = Sketch(party="p", classes=(ClassCells(name="x", rows=1000),), unlabelled=3)
    counts = Counter(count - 1000 for count in _laplace([1000] * 20_000, 1.0)[0])
    p = np.exp(-1.0)
    law = {k: (1 - p) / (1 + p) * p ** abs(k) for k in range(-3, 4)}
    chi = sum((counts[k] - 20_000 * q) ** 2 / (20_000 * q) for k, q in law.items())
    assert chi < 30  # seven cells; P(chi-squared with 7 degrees above 30) is 1e-4
    drawn = [noised(one, 1.0, PLAN) for _ in range(20)]
    noise = drawn[0].noise
    assert noise is not None
    assert (round(noise.epsilon, 9), noise.scale, list(noise.budget)) == (1.0, 1.0, ["labels"])
    assert len({s.noise.nonce for s in drawn if s.noise}) == 20
    assert decoded(encoded([drawn[0]])) == (drawn[0],)
    assert all(s.columns == () and s.unlabelled == 0 and not s.minima for s in drawn)


def test_noise_hides_whether_a_row_is_there():
    """The law of the count for 10 rows is never more than e times that for 11, as epsilon = 1 promises."""
    pytest.importorskip("opendp")
    seen = [Counter(_laplace([n] * 20_000, 1.0)[0]) for n in (10, 11)]
    for value in range(8, 14):
        one, other = seen[0][value] + 1, seen[1][value] + 1
        error = 4 * (1 / one + 1 / other) ** 0.5
        assert abs(np.log(one / other)) <= 1 + error


def noised_again(exact, scale, rng):
    stop = -np.expm1(-1 / scale)
    return np.maximum(exact + rng.geometric(stop, exact.shape) - rng.geometric(stop, exact.shape), 0)


def of_counts(counts: Any) -> Any:
    parties, classes = (tuple(str(i) for i in range(size)) for size in counts.shape)
    label = label_skew_of(counts, parties, classes)
    return label, quantity_skew_of(counts, parties, label)


def test_the_noise_is_taken_out_of_the_indices_and_added_to_their_intervals():
    """Small cells and strong noise: 12 silos of about 40 rows, where noise of scale 2 looks like label skew."""
    rng = np.random.default_rng(5)
    exact = rng.multinomial(40, [0.4, 0.3, 0.2, 0.1], size=12) + np.arange(12)[:, None] % 3
    label, quantity = of_counts(exact)
    raw: list[Any] = []
    mended: list[Any] = []
    covered: list[Any] = []
    scales = np.full(12, 2.0)
    for _ in range(60):
        drawn = noised_again(exact, 2.0, rng)
        index = label_index(drawn)
        noisy = msgspec.structs.replace(label, skew=index.skew, interval=index.interval)
        skew, _, interval, _ = quantity_index(drawn.sum(axis=1))
        noisy_sizes = msgspec.structs.replace(
            quantity, skew=skew, interval=interval, gini=float(gini(drawn.sum(axis=1)))
        )
        found: Any = label_corrected(noisy, drawn, scales), quantity_corrected(noisy_sizes, drawn, scales)
        raw.append((noisy.skew, noisy_sizes.skew))
        mended.append([one.skew for one in found])
        covered.append(
            [one.interval[0] <= e <= one.interval[1] for one, e in zip(found, (label.skew, quantity.skew), strict=True)]
        )
        for one, before in zip(found, (index.interval, interval), strict=True):
            assert before is not None
            assert one.interval[1] - one.interval[0] > before[1] - before[0]
    wanted = np.array([label.skew, quantity.skew])
    raw_bias, bias = (np.abs(np.mean(values, axis=0) - wanted) for values in (raw, mended))
    assert bias[0] < raw_bias[0] / 2  # noise in 48 cells of 10 rows adds most to the label index
    assert bias[1] <= raw_bias[1] + 2 * np.std(mended, axis=0)[1] / 60**0.5
    assert np.mean(covered, axis=0).min() >= 0.95


def test_indices_of_counts_without_noise_stay_what_they_are():
    label, quantity = of_counts(np.array([[30, 5], [4, 40]]))
    counts, none = np.array([[30, 5], [4, 40]]), np.zeros(2)
    assert label_corrected(label, counts, none).skew == pytest.approx(label.skew, abs=1e-12)
    assert label_corrected(label, counts, none).interval == pytest.approx(label.interval)
    assert quantity_corrected(quantity, counts, none).skew == pytest.approx(quantity.skew, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "label", "party"), [("mplsstops", "problem", "policePrecinct"), ("nycflights13", "label", "carrier")]
)
def test_epsilon_of_one_changes_neither_severities_nor_what_prevails_on_real_silos(data_file, name, label, party):
    pytest.importorskip("opendp")
    whole = scan_file(data_file(f"{name}.parquet"), Wanted(label, party, features=(label,)))
    exact = [
        Sketch(party=one.party, classes=tuple(ClassCells(name=c.name, rows=c.rows) for c in one.classes))
        for one in whole
    ]
    plan = Plan(class_names=tuple(sorted({c.name for one in exact for c in one.classes})), columns=(), variance=0.0)
    wanted, found = profile(exact), profile([noised(one, 1.0, plan) for one in exact])
    for one, other in ((wanted.label, found.label), (wanted.quantity, found.quantity)):
        assert one.skew == pytest.approx(other.skew, abs=0.002)
        assert one.severity == other.severity
        assert other.interval is not None
        assert other.interval[0] <= (one.skew or 0.0) <= other.interval[1]
    assert wanted.prevailing.kind == found.prevailing.kind


def test_of_a_thousand_unique_values_and_texts_none_is_in_any_file(tmp_path):
    """Canaries: numbers of nine digits, ids, notes and dates, in rows and in names of columns that are not used."""
    rng = np.random.default_rng(6)
    numbers = rng.integers(10**8, 10**9, 1_000) + rng.random(1_000).round(3)
    notes = [f"canary{i:04d}x{rng.integers(10**6)}" for i in range(1_000)]
    lines = [
        f"{v},{note},{i % 3},{'yes' if i % 2 else 'no'}" for i, (v, note) in enumerate(zip(numbers, notes, strict=True))
    ]
    path = tmp_path / "secretname.csv"
    path.write_text("\n".join(["pay,note,ward,sick", *lines]) + "\n", encoding="utf-8")
    first = scan_file(path, Wanted("sick", party_name="silo"))
    plan = make_plan(first)
    second = scan_file(path, Wanted("sick", party_name="silo"), plan, hash_key=b"0123456789abcdef")
    files = [encoded(first), encoded(second), encoded([withheld(one, 10) for one in first]), plan.to_json()]
    for data in files:
        assert not [note for note in notes if note.encode() in data]
        assert not [value for value in numbers if f"{value:.3f}".rstrip("0").encode() in data]
        narrow = numbers.astype(np.float32)
        assert not [value for value in narrow.tolist() if repr(value).removesuffix(".0").encode() in data]
        assert b"secretname" not in data
        assert str(tmp_path).encode() not in data


def test_values_and_strings_of_the_data_never_appear_in_a_noised_file():
    pytest.importorskip("opendp")
    rng = np.random.default_rng(2)
    values = rng.random(200) * 1e3
    toy = make_partition(values[:, None], np.where(rng.random(200) < 0.5, "x", "y"), np.arange(200) % 2)
    plan = make_plan(sketch(toy))
    data = encoded([noised(one, 1.0, plan) for one in sketch(toy, plan)])
    assert not any(f"{value:.4f}"[:6].encode() in data for value in values)
    assert b"x0" not in data

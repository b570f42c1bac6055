"""The label index, its interval, and what stands beside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import entropy

from fedskew.profiles import make_partition
from fedskew.profiles.label import label_index, label_skew, label_skew_of
from fedskew.profiles.records import LabelSkew


@pytest.fixture(autouse=True)
def _fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the tables drawn for chance: ten times faster, p no lower than 0.001."""
    monkeypatch.setattr("fedskew.profiles.null.DRAWS", 999)


def _skew(counts: np.ndarray) -> LabelSkew:
    names = tuple(str(i) for i in range(len(counts))), tuple(str(i) for i in range(counts.shape[1]))
    return label_skew_of(counts, *names)


def _dirichlet(rng: np.random.Generator, beta: float) -> np.ndarray:
    return np.stack([rng.multinomial(600, rng.dirichlet(np.full(10, beta))) for _ in range(10)], axis=1)


def _class_count(rng: np.random.Generator, k: int) -> np.ndarray:
    held = [[i, *rng.choice([c for c in range(10) if c != i], k - 1, replace=False)] for i in range(10)]
    holders = np.bincount(np.ravel(held), minlength=10)
    table = np.zeros((10, 10), dtype=np.int64)
    for i, classes in enumerate(held):
        table[i, classes] = 600 // holders[classes]
    return table


@pytest.mark.parametrize(("beta", "reference"), [(0.1, 0.59), (0.5, 0.25), (1.0, 0.15), (5.0, 0.03)])
def test_label_dirichlet_reads_the_reference_value(beta: float, reference: float) -> None:
    rng = np.random.default_rng(11)
    found = np.mean([label_index(_dirichlet(rng, beta)).skew for _ in range(12)])
    assert found == pytest.approx(reference, abs=0.03)


@pytest.mark.parametrize(("k", "reference"), [(1, 1.0), (2, 0.76), (3, 0.55)])
def test_class_counts_read_the_reference_value(k: int, reference: float) -> None:
    rng = np.random.default_rng(12)
    tables = [_class_count(rng, k) for _ in range(12)]
    assert np.mean([label_index(table).skew for table in tables]) == pytest.approx(reference, abs=0.03)
    assert {_skew(table).classes_per_party.k for table in tables[:3]} == {k}


def test_a_hundred_iid_parties_of_fifty_rows_and_a_hundred_classes_are_not_skewed() -> None:
    rng = np.random.default_rng(3)
    labels = rng.permutation(np.repeat(np.arange(100), 50))
    found = _skew(np.stack([np.bincount(part, minlength=100) for part in np.split(labels, 100)]))
    assert found.severity == "none"
    assert found.skew == pytest.approx(0.0, abs=0.02)
    assert found.jensen_shannon == pytest.approx(0.0, abs=0.03)
    assert found.hellinger == pytest.approx(0.0, abs=0.03)


def test_a_hundred_one_class_parties_over_two_classes_are_fully_skewed() -> None:
    found = _skew(np.array([[50, 0]] * 50 + [[0, 50]] * 50))
    assert found.skew == pytest.approx(1.0)
    assert found.severity == "strong"
    assert found.classes_per_party.k == 1


def test_two_disjoint_parties_are_fully_skewed_in_every_measure() -> None:
    found = _skew(np.array([[30, 0], [0, 30]]))
    assert (found.skew, found.jensen_shannon, found.hellinger) == (1.0, 1.0, 1.0)
    assert found.missing_classes == {"0": 1, "1": 1}
    assert found.effective_classes == {"0": 1.0, "1": 1.0}
    assert [party.party for party in found.most_deviant] == ["0", "1"]


def test_entropies_agree_with_scipy() -> None:
    table = np.array([[3, 9, 1], [40, 2, 7], [1, 1, 1]])
    found = _skew(table)
    assert found.entropy_bits.pooled == pytest.approx(entropy(table.sum(axis=0), base=2))
    assert list(found.entropy_bits.by_party.values()) == pytest.approx([entropy(row, base=2) for row in table])


def test_index_is_adjusted_information_by_a_naive_loop() -> None:
    table = np.array([[30, 5, 2], [4, 22, 9]])
    rng = np.random.default_rng(0)
    labels, party = np.repeat([0, 1, 2, 0, 1, 2], table.ravel()), np.repeat([0, 1], table.sum(axis=1))

    def information(y: np.ndarray) -> float:
        joint = np.bincount(3 * party + y, minlength=6).reshape(2, 3) / len(y)
        return float(entropy(joint.sum(axis=0)) + entropy(joint.sum(axis=1)) - entropy(joint.ravel()))

    chance = np.array([information(rng.permutation(labels)) for _ in range(1500)])
    most = min(entropy(table.sum(axis=0)), entropy(table.sum(axis=1)))
    expected = (information(labels) - chance.mean()) / (most - chance.mean())
    assert label_index(table).skew == pytest.approx(expected, abs=0.004)


def test_interval_is_the_jackknife_over_rows_by_a_naive_loop() -> None:
    table = np.array([[30, 5], [4, 22], [9, 10]])
    found = label_index(table)
    assert found.interval is not None
    parts = np.array([label_index_without_chance(table)])
    assert parts.size == 1
    variance = 0.0
    for party, row in enumerate(table):
        left_out = []
        for label, rows in enumerate(row):
            less = table.copy()
            less[party, label] -= 1
            left_out += [label_index_without_chance(less)] * int(rows)
        n = row.sum()
        variance += (n - 1) / n * ((np.array(left_out) - np.mean(left_out)) ** 2).sum()
    half = (found.interval[1] - found.interval[0]) / 2
    # E0 is about 0.012 of 0.69 nats here; leaving it out changes the width by a few per cent.
    assert half == pytest.approx(1.96 * np.sqrt(variance), rel=0.05)


def label_index_without_chance(table: np.ndarray) -> float:
    joint = table / table.sum()
    h_party, h_label = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    return float((h_party + h_label - entropy(joint.ravel())) / min(h_party, h_label))


def test_interval_covers_the_index_of_the_law_the_rows_were_drawn_from() -> None:
    rng = np.random.default_rng(8)
    law = rng.dirichlet(np.full(6, 1.0), size=5)
    truth = label_index(np.round(law * 1_000_000).astype(np.int64)).skew
    assert truth is not None
    hits = []
    for _ in range(60):
        interval = label_index(np.stack([rng.multinomial(400, p) for p in law])).interval
        assert interval is not None
        hits.append(interval[0] <= truth <= interval[1])
    assert 0.88 <= np.mean(hits) <= 1.0


@pytest.mark.parametrize(
    ("table", "skew", "reason"),
    [
        ([[5, 5]], None, "one_party"),
        ([[5, 5], [0, 0]], None, "one_party"),
        ([[20], [20]], 0.0, "one_class"),
        ([[1, 0], [0, 1]], None, "too_few_rows"),
        ([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], None, "too_few_rows"),
    ],
)
def test_an_index_that_cannot_be_identified_has_a_reason(
    table: list[list[int]], skew: float | None, reason: str
) -> None:
    found = _skew(np.array(table))
    assert (found.skew, found.reason, found.severity) == (skew, reason, "none")


def test_index_is_never_null_where_two_parties_share_a_class_in_ten_rows_each() -> None:
    table = np.zeros((2, 2001), dtype=np.int64)
    table[:, 0] = 10
    table[np.arange(2000) % 2, np.arange(1, 2001)] = 1
    assert label_index(table).skew is not None


def test_tiny_and_empty_parties_work_everywhere() -> None:
    found = _skew(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [30, 20, 10]]))
    assert found.entropy_bits.by_party["0"] is None
    assert found.effective_classes["0"] is None
    assert found.missing_classes["0"] == 3
    assert found.divergence["0"] is None
    assert np.isfinite([value for value in found.divergence.values() if value is not None]).all()


@given(arrays(np.int64, st.tuples(st.integers(2, 5), st.integers(2, 5)), elements=st.integers(0, 30)))
def test_index_does_not_depend_on_the_order_of_parties_or_classes(table: np.ndarray) -> None:
    if table.sum() == 0:
        return
    found, turned = label_index(table), label_index(table[::-1, ::-1])
    assert (found.reason, found.p_value) == (turned.reason, turned.p_value)
    if found.skew is not None:
        assert turned.skew is not None
        assert turned.skew == pytest.approx(found.skew, abs=1e-12)
        assert found.skew <= 1 + 1e-12


@given(arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.integers(0, 12)))
def test_every_table_gives_finite_numbers_and_no_warning(table: np.ndarray) -> None:
    if table.sum() == 0:
        return
    found = _skew(table)
    numbers = [found.skew, found.p_value, found.jensen_shannon, found.hellinger, *(found.interval or ())]
    numbers += [found.beta.estimate, found.beta.lower, found.beta.upper, found.alpha.estimate, found.alpha.upper]
    assert all(np.isfinite(number) for number in numbers if number is not None)


def test_whole_record_does_not_depend_on_the_order_of_parties() -> None:
    table = _dirichlet(np.random.default_rng(5), 0.5)
    names, classes = tuple("abcdefghij"), tuple("0123456789")
    order = np.random.default_rng(6).permutation(10)
    found = label_skew_of(table, names, classes)
    turned = label_skew_of(table[order], tuple(names[i] for i in order), classes)
    assert found.divergence == pytest.approx(turned.divergence)
    assert found.most_deviant[0].party == turned.most_deviant[0].party
    assert found.skew == pytest.approx(turned.skew, abs=1e-12)
    assert found.beta.estimate == pytest.approx(turned.beta.estimate, rel=1e-6)
    assert found.jensen_shannon == pytest.approx(turned.jensen_shannon, abs=1e-12)


def test_same_counts_give_the_same_bytes_whatever_the_features() -> None:
    labels, party = ["x", "y", "y", "x"] * 20, ["a", "b", "a", "b"] * 20
    first = label_skew(make_partition(np.zeros((80, 1)), labels, party))
    second = label_skew(make_partition(np.ones((80, 3)), labels, party))
    assert first == second


@pytest.mark.slow
def test_ten_thousand_parties_and_a_thousand_classes_are_measured() -> None:
    table = np.random.default_rng(1).multinomial(1_000_000, np.full(10_000_000, 1e-7)).reshape(10_000, 1000)
    found = _skew(table)
    assert found.skew == pytest.approx(0.0, abs=0.001)
    assert found.severity == "none"


@pytest.mark.parametrize("table", [[[1, 1], [1, 0]], [[2, 1], [1, 0]], [[10, 0], [0, 1]]])
def test_an_index_that_hangs_on_a_single_row_is_none(table: list[list[int]]) -> None:
    """Without that row one class is left: the interval was a hundred thousand million wide."""
    found = label_index(np.array(table))
    assert (found.skew, found.interval, found.reason) == (None, None, "too_few_rows")

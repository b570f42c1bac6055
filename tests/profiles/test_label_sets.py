"""Silos that spell the same labels differently, told from label skew."""

import numpy as np
import pytest
from tests.profiles.test_strategies import IDS, LABEL_ONLY

from fedskew.advisor import recommend
from fedskew.profiles import make_partition, profile
from fedskew.profiles.label_sets import label_set_mismatch
from fedskew.profiles.simulate import party_rows
from fedskew.profiles.sketching.making import sketch
from fedskew.profiles.sketching.plan import make_plan
from fedskew.profiles.table import read_table


def found(**silos: str):
    """The finding on silos whose classes are given as words, or None."""
    held = {name: words.split() for name, words in silos.items()}
    classes = tuple(sorted({word for words in held.values() for word in words}))
    counts = np.array([[7 * (name in words) for name in classes] for words in held.values()])
    return next(label_set_mismatch(counts, tuple(held), classes), None)


@pytest.mark.parametrize(
    "silos",
    [
        {"north": "0 1", "south": "0 1", "east": "no yes"},
        {"north": "u v", "south": "U V"},
        {"north": "u v", "south": "U v"},
        {"north": "u", "south": "U"},
        {"north": "0 1", "south": "false true"},
        {"north": "-1 1", "south": "Negative Positive"},
        {"north": "N Y", "south": "no", "east": "yes"},
        {"north": "01 02 10", "south": "1 2 10"},
        {"north": "\uff41 b", "south": "a b"},
    ],
    ids=str,
)
def test_labels_that_are_alike_but_for_their_spelling_are_told(silos):
    told = found(**silos)
    assert told is not None
    assert told.severity == "strong"
    assert set(told.parties) == set(silos)


@pytest.mark.parametrize(
    "silos",
    [
        {"north": "0 1", "south": "0 1"},
        {"north": "0", "south": "1", "east": "2 3"},
        {"north": "0", "south": "-1 1"},
        {"north": "-1", "south": "0", "east": "1"},
        {"north": "a A", "south": "a", "east": "A"},
        {"north": "a A", "south": "b", "east": "B"},
        {"north": "no yes", "south": "maybe"},
        {"north": "no", "south": "yes"},
        {"north": "no yes", "south": "0 1", "east": "unknown"},
        {"north": "no yes 0", "south": "0 1"},
        {"north": "cat", "south": "dog", "east": "fox"},
        {"north": "u U"},
    ],
    ids=str,
)
def test_label_skew_is_no_mismatch(silos):
    assert found(**silos) is None


def test_the_text_names_a_few_classes_and_silos_the_most_usual_spelling_first():
    told = found(z="No Yes", **{f"p{i}": "no yes" for i in range(9)})
    assert "'no', 'yes' in 'p0', 'p1', 'p2', 'p3', 'p4' and 4 more; 'No', 'Yes' in 'z'; spell each label" in told.text
    assert told.count == 4


@pytest.mark.parametrize(("name", "parameters"), LABEL_ONLY, ids=IDS)
@pytest.mark.parametrize("file", ["letterrecognition.npz", "mnist.npz", "adult_a9a.npz"])
def test_no_partition_of_real_classes_is_taken_for_a_mismatch(file, name, parameters, data_file):
    with np.load(data_file(file)) as held:
        labels = held[next(key for key in held.files if key.startswith("y"))][:3000].astype(str)
    classes, codes = np.unique(labels, return_inverse=True)
    for few in (parameters, {**parameters, "num_classes_per_partition": 1} if "count" in name else parameters):
        rows = party_rows(labels, name, num_partitions=max(10, len(classes)), **few)
        counts = np.array([np.bincount(codes[where], minlength=len(classes)) for where in rows.values()])
        assert list(label_set_mismatch(counts, tuple(rows), tuple(classes.tolist()))) == []


def test_rows_and_both_rounds_of_sketches_tell_it_alike():
    rng = np.random.default_rng(0)
    labels = [*["0", "1"] * 40, *["no", "yes"] * 20]
    toy = make_partition(rng.standard_normal((120, 2)), labels, np.repeat(["a", "b", "c"], 40))
    first = sketch(toy)
    told = [
        [one for one in profile(what).hygiene if one.code == "label_set_mismatch"]
        for what in (toy, first, sketch(toy, make_plan(first)))
    ]
    assert len(told[0]) == 1
    assert told[0] == told[1] == told[2]


def test_advice_on_files_of_numbers_and_of_words_is_void(tmp_path):
    for name, words in (("north", "01"), ("south", "01"), ("east", ("no", "yes"))):
        rows = [f"{i % 7}.5,{words[i % 3 % 2]}" for i in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,sick", *rows]) + "\n")
    void = recommend(profile(read_table(tmp_path, label="sick"))).void
    assert void is not None
    assert "'0', '1' in 'north', 'south'; 'no', 'yes' in 'east'" in void

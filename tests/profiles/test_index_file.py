"""The index file and the silos: round trips, changed data, damage, and nothing half written."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.index_file import (
    apply_index,
    load_index,
    make_index,
    read_index,
    relative_to_index,
    write_index,
)
from fedskew.profiles.index_formats import Index
from fedskew.profiles.partitioning import Summary, partition_source
from fedskew.profiles.partitions import Partition, make_partition
from fedskew.profiles.silos import are_file_names
from fedskew.profiles.simulate import resolve, simulate
from fedskew.profiles.sources import hash_of, is_index
from fedskew.profiles.table import read_table

ROWS = 300


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """A CSV with a number, a text, a hole, rows without a label and a column of sites."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, ROWS)
    label = [None if i % 50 == 7 else "yn"[i % 2] for i in range(ROWS)]
    frame = pl.DataFrame(
        {
            "age": age,
            "dose": [None if i % 9 == 0 else float(x) for i, x in enumerate(rng.normal(size=ROWS))],
            "colour": rng.choice(["red", "blue", "green"], ROWS),
            "site": [f"site {i % 6}" for i in range(ROWS)],
            "sick": label,
        }
    )
    path = tmp_path / "data" / "table.csv"
    path.parent.mkdir()
    frame.write_csv(path)
    return path


def same(a: Partition, b: Partition) -> None:
    np.testing.assert_array_equal(a.features, b.features)
    assert a.features.dtype == b.features.dtype
    np.testing.assert_array_equal(a.labels, b.labels)
    np.testing.assert_array_equal(a.party, b.party)
    assert (a.class_names, a.party_names, a.columns) == (b.class_names, b.party_names, b.columns)
    if a.test is not None or b.test is not None:
        assert a.test is not None
        assert b.test is not None
        np.testing.assert_array_equal(a.test.features, b.test.features)
        np.testing.assert_array_equal(a.test.labels, b.test.labels)


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize(
    ("strategy", "parameters"),
    [
        ("label_dirichlet", {"alpha": "0.3", "num_partitions": "4"}),
        ("iid", {"num_partitions": 3, "noise": "0.5"}),
        ("covariate_quantile", {"num_partitions": 3, "feature": "age"}),
        ("quantity+label_noise", {"num_partitions": 3}),
        ("natural", {"column": "site"}),
        ("natural", {"column": "site", "num_partitions": "2"}),
        ("class_lists", {"class_lists": '{"left": ["y", "n"], "right": ["n"]}'}),
    ],
)
def test_the_index_and_the_silo_files_give_the_same_partition(
    csv: Path, tmp_path: Path, ending: str, strategy: str, parameters: dict[str, Any]
) -> None:
    out = tmp_path / f"index.{ending}"
    silos = tmp_path / "silos"
    reading = {"label": "sick", "party": None, "drop": ()}
    made = partition_source(csv, strategy, out, parameters=parameters, write_silos=silos, reading=reading)
    loaded = load_index(out)
    same(loaded, read_table(silos, label="sick"))
    same(loaded, read_table(out))
    assert made.sizes == dict(zip(loaded.party_names, loaded.sizes.tolist(), strict=True))
    assert made.counts == dict(zip(loaded.party_names, loaded.counts.tolist(), strict=True))
    assert (made.rows, made.unassigned) == (ROWS, 6)
    assert [f.count for f in loaded.findings if f.code == "missing_labels"] == [6]
    assert not [f for f in loaded.findings if f.code == "missing_party"]
    assert made.silo_options == ("--label", "sick")
    assert ("site" in {column.name for column in loaded.columns}) == ("column" not in parameters)


def test_row_numbers_are_those_of_the_file(csv: Path, tmp_path: Path) -> None:
    partition_source(csv, "natural", tmp_path / "i.json", parameters={"column": "site"}, reading={"label": "sick"})
    index = read_index(tmp_path / "i.json")
    labelled = [i for i in range(ROWS) if i % 50 != 7]
    assert index.parties == {f"site {s}": [i for i in labelled if i % 6 == s] for s in range(6)}
    assert index.source == ("data/table.csv",)
    assert index.reading == {"label": "sick", "party": "site"}
    assert index.strategy == "natural"


def test_same_seed_gives_the_same_bytes(csv: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        partition_source(csv, "label_dirichlet", tmp_path / f"{name}.json", seed=seed, reading={"label": "sick"})
    a, b, c = ((tmp_path / f"{name}.json").read_bytes() for name in "abc")
    assert a == b != c


def test_a_partition_from_files_equals_the_simulation_in_memory(csv: Path, tmp_path: Path) -> None:
    partition_source(csv, "label_dirichlet", tmp_path / "i.json", reading={"label": "sick"}, parameters={"noise": 0.2})
    table = read_table(csv, label="sick", partitioned=False)
    same(load_index(tmp_path / "i.json"), simulate(table, "label_dirichlet", noise=0.2))


def test_a_drop_may_leave_fewer_features_than_an_index_records(csv: Path, tmp_path: Path) -> None:
    columns = [column.name for column in read_table(csv, label="sick", partitioned=False).columns]
    reading = {"label": "sick", "features": columns}
    partition_source(csv, "iid", tmp_path / "i.json", reading=reading, parameters={"num_partitions": 3})
    fewer = load_index(tmp_path / "i.json", drop=columns[:1])
    assert [column.name for column in fewer.columns] == columns[1:]


def test_the_folder_may_move_and_options_may_change(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "test.csv").write_bytes(csv.read_bytes())
    reading = {"label": "sick", "test": str(tmp_path / "data" / "test.csv")}
    partition_source(csv, "iid", tmp_path / "data" / "i.json", reading=reading, parameters={"num_partitions": 3})
    shutil.move(tmp_path / "data", tmp_path / "elsewhere")
    index = tmp_path / "elsewhere" / "i.json"
    loaded = load_index(index)
    assert loaded.test is not None
    fewer = load_index(index, drop=["age"], on_bad_row="error", label=None)
    assert "age" not in {column.name for column in fewer.columns}
    np.testing.assert_array_equal(fewer.party, loaded.party)
    with pytest.raises(FedskewError, match="leave out --party"):
        load_index(index, party="site")


def test_data_that_changed_are_refused_in_one_line(csv: Path, tmp_path: Path) -> None:
    partition_source(csv, "iid", tmp_path / "i.json", reading={"label": "sick"})
    text = csv.read_text()
    csv.write_text(text.replace("red", "rod", 1))
    with pytest.raises(FedskewError, match="changed since this index was written") as error:
        load_index(tmp_path / "i.json")
    assert "\n" not in str(error.value)
    csv.unlink()
    with pytest.raises(FedskewError, match="no such file"):
        load_index(tmp_path / "i.json")


def test_another_label_column_with_other_holes_is_refused_or_read_as_given(csv: Path, tmp_path: Path) -> None:
    partition_source(csv, "iid", tmp_path / "i.json", reading={"label": "sick"}, parameters={"num_partitions": 2})
    other = load_index(tmp_path / "i.json", label="colour")
    # The rows without `sick` belong to nobody, and that is said.
    assert other.rows == ROWS - 6
    assert [finding.count for finding in other.findings if finding.code == "missing_party"] == [6]


@pytest.fixture
def small() -> Index:
    codes = np.array([1, 0, 1, -1], np.int32)
    return make_index(codes, ("a", "b"), resolve("natural", {}), 7, source=["x.csv"], reading={"label": "y"})


def test_json_and_npz_say_the_same(small: Index, tmp_path: Path) -> None:
    for name in ("i.json", "i.npz"):
        write_index(small, tmp_path / name)
        assert read_index(tmp_path / name) == small
    document = json.loads((tmp_path / "i.json").read_text())
    assert document["parties"] == {"a": [1], "b": [0, 2]}
    assert document["schema"] == "fedskew-index/1"
    assert is_index(tmp_path / "i.json")
    assert not is_index(tmp_path / "nothing.json")


@pytest.mark.parametrize("name", ['"', "\\", "\u202e<b>", "é\n", "0"])
def test_party_names_of_any_text_survive(name: str, tmp_path: Path) -> None:
    index = make_index(np.array([0, 1], np.int32), (name, "other"), resolve("natural", {}), 0)
    for file in ("i.json", "i.npz"):
        write_index(index, tmp_path / file)
        assert read_index(tmp_path / file).parties == {name: [0], "other": [1]}


@pytest.mark.parametrize(
    ("content", "parties"),
    [
        ('{"0": [1, 2], "1": [0]}', {"0": [1, 2], "1": [0]}),
        ("{\n0: [\n1, 2\n],\n1: [\n0\n],\n}\n", {"0": [1, 2], "1": [0]}),  # as NIID-Bench writes it
        ('{"a b": [], "é": [0]}', {"a b": [], "é": [0]}),
    ],
)
def test_row_numbers_by_party_are_an_index_too(content: str, parties: dict[str, list[int]], tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(content)
    assert read_index(tmp_path / "map.json").parties == parties
    np.savez(tmp_path / "map.npz", **{name: np.array(rows, np.int64) for name, rows in parties.items()})  # type: ignore[arg-type]
    assert read_index(tmp_path / "map.npz").parties == parties


def test_a_foreign_index_takes_its_data_from_the_caller_and_counts_rows_left_out(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text('{"10": [0, 2], "9": [1, 5, 4]}')
    found = load_index(tmp_path / "map.json", source=csv, label="sick")
    assert found.party_names == ("9", "10")
    assert found.sizes.tolist() == [3, 2]
    assert [finding.count for finding in found.findings if finding.code == "missing_party"] == [ROWS - 6 - 5]
    table = make_partition(np.arange(6)[:, None], [0, 1] * 3, ["all"] * 6)
    held = apply_index(read_index(tmp_path / "map.json"), table)
    assert held.features.ravel().tolist() == [1, 4, 5, 0, 2]
    assert held.findings[-1].count == 1
    with pytest.raises(FedskewError, match="does not say where the data are"):
        load_index(tmp_path / "map.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello", "is no index file"),
        (b"[1, 2]", "is no index file"),
        (b'{"a": [1], "a": [2]}', "twice"),
        (b'{"a": [1]} tail', "is no index file"),
        (b'{"a": [-1]}', "is no index file"),
        (b'{"a": [' + b"9" * 5_000 + b"]}", "more than 18 digits"),
        (b"{" * 100_000, "is no index file"),
        (b'{"schema": "fedskew-index/1"}', "is no index file of fedskew"),
        (b'{"schema": ' + b"[" * 100_000, "is no index file of fedskew"),
        (b"PK\x03\x04junk", "cannot be read as npz"),
    ],
)
def test_what_is_no_index_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "i.json").write_bytes(content)
    with pytest.raises(FedskewError, match=message) as error:
        read_index(tmp_path / "i.json")
    assert "\n" not in str(error.value)


def test_an_index_that_lost_rows_or_has_one_twice_is_refused(small: Index, tmp_path: Path) -> None:
    write_index(small, tmp_path / "i.json")
    text = (tmp_path / "i.json").read_text()
    table = make_partition(np.arange(4)[:, None], [0, 1] * 2, ["all"] * 4)
    for old, new, message in (
        ("[0,2]", "[0]", "lists 2 of 3 rows"),
        ('"b": [0,2]', '"b": [0], "b": [2]', "lists 2 of 3 rows"),
        ("fedskew-index/1", "fedskew-index/9", "version"),
        ('"seed": 7', '"seed": "7"', "is no index file of fedskew"),
        ('"label": "y"', '"label": 5', "is no index file of fedskew"),
        ('"natural"', '"naturel"', "did you mean 'natural'"),
    ):
        (tmp_path / "i.json").write_text(text.replace(old, new))
        with pytest.raises(FedskewError, match=message):
            apply_index(read_index(tmp_path / "i.json"), table)
    for new, message in (
        ("[0,1]", "row 1 stands twice"),
        ("[0,4]", "rows 0 to 3"),
        ("[0,-2]", "rows 0 to 3"),
        ("[0,18446744073709551615]", "rows 0 to 3"),
    ):
        (tmp_path / "i.json").write_text(text.replace("[0,2]", new))
        with pytest.raises(FedskewError, match=message):
            apply_index(read_index(tmp_path / "i.json"), table)
    with pytest.raises(FedskewError, match="about 4 rows, but the source as read has 3"):
        apply_index(small, make_partition(np.eye(3), [0, 1, 0], ["all"] * 3))


def test_every_cut_of_an_index_file_is_refused(small: Index, tmp_path: Path) -> None:
    for name in ("i.json", "i.npz"):
        write_index(small, tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for length in range(1, len(whole) - 2, 7):
            (tmp_path / name).write_bytes(whole[:length])
            with pytest.raises(FedskewError):
                read_index(tmp_path / name)


def test_images_are_written_as_one_npz_a_party(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (120, 10, 9), dtype=np.uint8)
    labels = np.arange(120) % 3
    np.savez(tmp_path / "d.npz", X_train=pixels[:90], y_train=labels[:90], X_test=pixels[90:], y_test=labels[90:])
    for strategy in ("noniid-#label2", "noniid-#label2+feature_noise"):
        for how in ("own", "all"):
            folder = tmp_path / f"{strategy}-{how}"
            parameters = {"num_partitions": 3} | ({"noise_test": how} if "noise" in strategy else {})
            made = partition_source(
                tmp_path / "d.npz", strategy, tmp_path / "i.json", parameters=parameters, write_silos=folder
            )
            assert sorted(file.name for file in folder.iterdir()) == ["0.npz", "1.npz", "2.npz"]
            loaded = load_index(tmp_path / "i.json")
            assert loaded.modality == "image"
            same(loaded, read_table(folder, test=made.test))


def test_parties_without_rows_keep_their_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(40, 3)), y=np.arange(40) % 2)
    partition_source(
        tmp_path / "d.npz", "count_matrix", tmp_path / "i.json", write_silos=tmp_path / "s",
        parameters={"count_matrix": "[[20, 0], [0, 0], [0, 20]]"},
    )  # fmt: skip
    loaded = load_index(tmp_path / "i.json")
    assert loaded.sizes.tolist() == [20, 0, 20]
    same(loaded, read_table(tmp_path / "s", label="y"))


def test_party_names_that_are_no_file_names_go_into_a_column(tmp_path: Path) -> None:
    rows = {"x": np.arange(60.0) ** 1.5, "y": ["ab"[i % 2] for i in range(60)]}
    pl.DataFrame(rows | {"who": [("../up", "a/b", "c")[i % 3] for i in range(60)]}).write_parquet(
        tmp_path / "d.parquet"
    )
    made = partition_source(
        tmp_path / "d.parquet", "natural", tmp_path / "i.json", write_silos=tmp_path / "s",
        parameters={"column": "who"}, reading={"label": "y"},
    )  # fmt: skip
    assert sorted(file.name for file in (tmp_path / "s").iterdir()) == [f"silo-0000{i}.parquet" for i in range(3)]
    assert made.silo_options == ("--label", "y", "--party", "party")
    same(load_index(tmp_path / "i.json"), read_table(tmp_path / "s", label="y", party="party"))
    assert not are_file_names(("x" * 300,))
    assert not are_file_names((".hidden",))


def test_a_source_of_silos_can_be_partitioned_anew(csv: Path, tmp_path: Path) -> None:
    partition_source(
        csv, "label_dirichlet", tmp_path / "i.json", write_silos=tmp_path / "s", reading={"label": "sick"},
        parameters={"num_partitions": 6},
    )  # fmt: skip
    partition_source(
        tmp_path / "s", "natural", tmp_path / "j.json", reading={"label": "sick"}, parameters={"num_partitions": 2}
    )
    assert load_index(tmp_path / "j.json").party_names == ("0", "1")


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("fails_at", range(12))
def test_a_failure_at_any_step_leaves_nothing_half_written(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    before = everything_in(tmp_path)
    calls = [0]

    def failing(step: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] == fails_at + 1:
                raise OSError(28, "No space left on device")
            return step(*args, **kwargs)

        return call

    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    monkeypatch.setattr(Path, "replace", failing(Path.replace))
    monkeypatch.setattr(Path, "write_bytes", failing(Path.write_bytes))
    made: Summary | None = None
    said = ""
    try:
        made = partition_source(
            csv, "iid", tmp_path / "i.json", write_silos=tmp_path / "s", reading={"label": "sick"},
            parameters={"num_partitions": 2},
        )  # fmt: skip
    except EnvironmentFaultError as fault:
        said = str(fault)
    monkeypatch.undo()
    assert made is not None or "No space left" in said
    left = everything_in(tmp_path) - before
    assert left <= {"i.json", "s", "s/0.parquet", "s/1.parquet"}
    assert not {name for name in left if ".part" in name}
    if "s" in left:
        assert len(pl.read_parquet(tmp_path / "s" / "0.parquet")) > 100
    if "i.json" in left:
        load_index(tmp_path / "i.json")
    assert (made is not None) == (fails_at + 1 > calls[0])


def test_places_that_cannot_be_written_to_are_refused_before_any_work(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    cases: list[tuple[dict[str, Any], type[FedskewError], str]] = [
        ({"out": tmp_path / "no" / "i.json"}, EnvironmentFaultError, "does not exist"),
        ({"out": tmp_path / "i.txt"}, FedskewError, "ends in .json or .npz"),
        ({"out": tmp_path / "i.json", "write_silos": tmp_path / "full"}, FedskewError, "not empty"),
        ({"out": tmp_path / "i.json", "write_silos": csv}, EnvironmentFaultError, "is a file"),
    ]
    for arguments, kind, message in cases:
        with pytest.raises(kind, match=message):
            partition_source("no such file", "iid", **arguments)
    assert (tmp_path / "full" / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("strategy", "parameters", "message"),
    [
        ("natural", {}, "natural needs the column"),
        ("natural", {"column": "siet"}, "did you mean 'site'"),
        ("iid", {"num_partitions": 301}, "num_partitions up to 294"),
    ],
)
def test_what_the_source_cannot_give_is_said(
    csv: Path, tmp_path: Path, strategy: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(FedskewError, match=message):
        partition_source(csv, strategy, tmp_path / "i.json", parameters=parameters, reading={"label": "sick"})
    assert not (tmp_path / "i.json").exists()


def test_a_path_is_recorded_relative_to_the_index(tmp_path: Path) -> None:
    assert relative_to_index(tmp_path / "a" / "d.csv", tmp_path / "b" / "i.json") == "../a/d.csv"


def test_an_index_may_lie_in_the_folder_of_its_data(csv: Path, tmp_path: Path) -> None:
    partition_source(
        csv, "iid", tmp_path / "i.json", write_silos=tmp_path / "s", reading={"label": "sick"},
        parameters={"num_partitions": 3},
    )  # fmt: skip
    inside = tmp_path / "s" / "parts.json"
    for strategy in ("iid", "label_dirichlet"):
        partition_source(tmp_path / "s", strategy, inside, reading={"label": "sick"}, parameters={"num_partitions": 2})
        assert load_index(inside).parties == 2
    before = hash_of([tmp_path / "s"])
    (tmp_path / "s" / "0.parquet").rename(tmp_path / "s" / "9.parquet")
    assert hash_of([tmp_path / "s"]) != before


@pytest.mark.slow
def test_the_index_and_the_silos_of_real_data_give_identical_profiles(data_file: Any, tmp_path: Path) -> None:
    from fedskew.profiles.summary import profile

    source = tmp_path / "stops.csv"
    pl.read_parquet(data_file("mplsstops.parquet")).sample(3_000, seed=1).write_csv(source)
    partition_source(
        source, "label_dirichlet", tmp_path / "i.json", write_silos=tmp_path / "s", reading={"label": "problem"},
        parameters={"alpha": 0.5, "num_partitions": 5},
    )  # fmt: skip
    loaded, silos = load_index(tmp_path / "i.json"), read_table(tmp_path / "s", label="problem")
    assert profile(loaded).to_json() == profile(silos).to_json()


@pytest.mark.parametrize("names", ["numbers", "names that are no file names"])
def test_a_binary_column_that_a_strategy_splits_by_is_kept_in_index_and_silos(names: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    smoker = np.arange(ROWS) % 2
    frame = pl.DataFrame({"smoker": smoker, "dose": rng.normal(size=ROWS), "sick": rng.integers(0, 2, ROWS)})
    frame = frame.with_columns(city=pl.Series(np.array(["left/x", "right/x"])[smoker]))
    frame.write_csv(tmp_path / "t.csv")
    strategy, given = "covariate_quantile", {"num_partitions": "2", "feature": "smoker"}
    if names != "numbers":
        strategy, given = "class_lists", {"class_lists": '{"a/b": ["left/x"], "c": ["right/x"]}'}
    label = "sick" if names == "numbers" else "city"
    made = partition_source(
        tmp_path / "t.csv", strategy, tmp_path / "i.json", write_silos=tmp_path / "s", reading={"label": label},
        parameters=given,
    )  # fmt: skip
    loaded = load_index(tmp_path / "i.json")
    words = (word.removeprefix("--") for word in made.silo_options)
    options: dict[str, Any] = dict(zip(words, words, strict=True))
    silos = read_table(tmp_path / "s", **options)
    assert ("party" in options) == (names != "numbers")
    assert "smoker" in {column.name for column in loaded.columns}
    assert (loaded.counts > 0).any(axis=1).all()
    same(loaded, silos)
    for found in (loaded, silos):
        assert not [f for f in found.findings if f.code == "names_the_party"]


def test_a_column_that_names_natural_parties_is_left_out_in_index_and_silos(csv: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(csv).with_columns(number=pl.col("site").str.slice(-1))
    frame.write_csv(csv)
    partition_source(
        csv, "natural", tmp_path / "i.json", write_silos=tmp_path / "s", reading={"label": "sick"},
        parameters={"column": "site"},
    )  # fmt: skip
    loaded, silos = load_index(tmp_path / "i.json"), read_table(tmp_path / "s", label="sick")
    same(loaded, silos)
    for found in (loaded, silos):
        assert "number" not in {column.name for column in found.columns}
        assert [f.count for f in found.findings if f.code == "names_the_party"] == [1]


def test_silo_files_of_a_strategy_split_by_another_column_leave_out_what_names_it(csv: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(csv).with_columns(number=pl.col("site").str.slice(-1))
    frame.write_csv(csv)
    partition_source(
        csv, "iid", tmp_path / "i.json", write_silos=tmp_path / "s", reading={"label": "sick"},
        parameters={"num_partitions": 3},
    )  # fmt: skip
    found = read_table(tmp_path / "s", label="sick", party="site")
    assert found.parties == 6
    assert "number" not in {column.name for column in found.columns}


def test_a_silo_file_may_be_called_nan(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for name in ("nan", "null", "10"):
        (tmp_path / "s" / f"{name}.csv").write_bytes(csv.read_bytes())
    made = partition_source(tmp_path / "s", "natural", tmp_path / "i.json", reading={"label": "sick"})
    labelled = ROWS - 6
    assert made.sizes == {"10": labelled, "nan": labelled, "null": labelled}
    assert load_index(tmp_path / "i.json").party_names == ("10", "nan", "null")

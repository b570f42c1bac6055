"""From a source to a partition: the same table in any shape is the same partition, and bad input is one line."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedskew.profiles import EnvironmentFaultError, FedskewError, profile, read_table

ROWS = "x,c,label,site\n" + "".join(f"{i % 7},{'abc'[i % 3]},{'yn'[i % 2]},{'AB'[i % 5 > 2]}\n" for i in range(40))
NAMES: dict[str, Any] = {"label": "label", "party": "site"}


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(content: str, name: str = "stops.csv") -> Any:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return write


def same_bytes(one: Any, other: Any) -> None:
    assert one.features.tobytes() == other.features.tobytes()
    assert one.labels.tobytes() == other.labels.tobytes()
    assert one.party.tobytes() == other.party.tobytes()
    assert (one.class_names, one.party_names, one.columns) == (other.class_names, other.party_names, other.columns)


def codes(part: Any) -> list[str]:
    return [finding.code for finding in part.findings]


@pytest.mark.parametrize("kept", [False, True], ids=["party column dropped", "party column kept"])
def test_a_folder_of_silos_is_the_same_partition_as_the_single_file(tmp_path: Path, file: Any, kept: Any) -> None:
    whole = read_table(file(ROWS), **NAMES)
    frame = pl.read_csv(tmp_path / "stops.csv")
    (tmp_path / "silos").mkdir()
    for name in "BA":
        silo = frame.filter(pl.col("site") == name)
        (silo if kept else silo.drop("site")).write_csv(tmp_path / "silos" / f"{name}.csv")
    folder = read_table(tmp_path / "silos", label="label")
    same_bytes(whole, folder)
    assert codes(folder) == (["names_the_party"] if kept else [])
    files = [tmp_path / "silos" / "B.csv", str(tmp_path / "silos" / "A.csv")]
    same_bytes(whole, read_table(files, label="label"))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["party column dropped", "party column kept"])
@pytest.mark.parametrize("writer", ["polars", "pandas"])
def test_five_csv_silos_of_real_stops_equal_the_parquet(tmp_path: Path, data_file: Any, kept: Any, writer: Any) -> None:
    path = data_file("mplsstops.parquet")
    whole = read_table(path, label="problem", party="policePrecinct")
    assert whole.party_names == ("1", "2", "3", "4", "5")
    assert whole.sizes.tolist() == [7552, 9478, 9792, 12273, 12825]
    for (name,), silo in pl.read_parquet(path).group_by("policePrecinct"):
        table = silo if kept else silo.drop("policePrecinct")
        if writer == "polars":
            table.write_csv(tmp_path / f"{name}.csv")
        else:
            import pandas as pd

            pd.DataFrame(table.to_dict(as_series=False)).to_csv(tmp_path / f"{name}.csv", index=False)
    same_bytes(whole, read_table(tmp_path, label="problem"))


def test_the_order_of_rows_and_columns_of_silos_decides_nothing_but_the_order(tmp_path: Path, file: Any) -> None:
    file("x,label\n1.5,a\n2.5,b\n", "d/h1.csv")
    file("label,x\nb,4.5\na,5.5\n", "d/h2.csv")
    part = read_table(tmp_path / "d", label="label")
    assert (part.party_names, part.features.ravel().tolist()) == (("h1", "h2"), [1.5, 2.5, 4.5, 5.5])
    assert part.labels.tolist() == [0, 1, 1, 0]


def test_types_that_flip_between_silos_are_inferred_from_all(tmp_path: Path, file: Any) -> None:
    file("x,label\n1,a\n2,b\n", "d/h1.csv")
    file("x,label\n1,a\nlow,b\n1,b\n", "d/h2.csv")
    part = read_table(tmp_path / "d", label="label")
    assert part.columns[0].categories == ("1", "2", "low")
    pl.DataFrame({"x": [1.25, 2.0], "label": ["a", "b"]}).write_parquet(tmp_path / "d" / "h2.parquet")
    (tmp_path / "d" / "h2.csv").unlink()
    assert read_table(tmp_path / "d", label="label").features.ravel().tolist() == [1, 2, 1.25, 2]


def test_names_stay_one_where_whole_numbers_meet_floats_between_silos(tmp_path: Path) -> None:
    pl.DataFrame({"x": [1, 2], "label": [1, 2]}).write_parquet(tmp_path / "h1.parquet")
    pl.DataFrame({"x": [1.5, None], "label": [1.0, 2.0]}).write_parquet(tmp_path / "h2.parquet")
    pl.DataFrame({"x": [7.5, 3], "label": ["2", "1.0"]}).write_csv(tmp_path / "h3.csv")
    part = read_table(tmp_path, label="label")
    assert (part.class_names, part.labels.tolist()) == (("1", "2"), [0, 1, 0, 1, 1, 0])
    np.testing.assert_array_equal([1, 2, 1.5, np.nan, 7.5, 3], part.features.ravel())


@pytest.mark.parametrize("name", ["nan", "null", " padded ", "../up", "[red]", "é", "10"])
def test_the_name_of_a_silo_is_taken_as_it_stands(name: str) -> None:
    frame = pl.DataFrame({"x": [1.5, 2.5], "label": ["a", "b"]})
    part = read_table({name: frame, "9": frame, "zz": frame.head(0)}, label="label")
    assert dict(zip(part.party_names, part.sizes.tolist(), strict=True)) == {name: 2, "9": 2, "zz": 0}


def test_several_files_with_a_party_column_are_shards_of_one_table(file: Any) -> None:
    lines = ROWS.splitlines(keepends=True)
    shards = [file("".join(lines[:10]), "s/a.csv"), file("".join([lines[0], *lines[10:]]), "s/b.csv")]
    same_bytes(read_table(file(ROWS), **NAMES), read_table(shards, **NAMES))


@pytest.mark.parametrize("text", ["NA", "N/A", "n/a", "None", "?"])
def test_a_text_that_may_mean_missing_is_a_class_or_a_party_and_is_told(file: Any, text: str) -> None:
    rows = [f"{i},{'uv'[i % 2]},{'ab'[i % 3 > 0]}" for i in range(1, 9)]
    part = read_table(file("\n".join(["x,label,site", *rows, f"9,{text},a", "0,null,b", f"2,u,{text}"])), **NAMES)
    told = [finding.text for finding in part.findings if finding.code == "na_is_a_name"]
    assert [line.split(";")[0] for line in told] == [
        f"label column 'label' holds {text!r} in 1 row, taken as a class of that name",
        f"party column 'site' holds {text!r} in 1 row, taken as a party of that name",
    ]
    assert (set(part.class_names), set(part.party_names)) == ({"u", "v", text}, {"a", "b", text})


def test_a_silo_without_rows_is_a_party_and_is_named(tmp_path: Path, file: Any) -> None:
    for name, rows in (("a", "1,u\n2,v\n"), ("b", "1,v\n"), ("c", "")):
        file("x,label\n" + rows, f"d/{name}.csv")
    part = read_table(tmp_path / "d", label="label")
    assert (part.party_names, part.sizes.tolist()) == (("a", "b", "c"), [2, 1, 0])
    (empty,) = (f for f in part.findings if f.code == "empty_party")
    assert (empty.parties, empty.text) == (("c",), "1 party has no usable row")


def test_files_that_are_not_read_are_named(tmp_path: Path, file: Any) -> None:
    for name in ("a.csv", "b.csv", "README.md", ".hidden"):
        file("x,label\n1,u\n2,v\n", f"d/{name}")
    found = [f for f in read_table(tmp_path / "d", label="label").findings if f.code == "ignored_file"]
    assert [(f.count, "'README.md'" in f.text) for f in found] == [(1, True)]


def test_features_and_drop_choose_columns(file: Any) -> None:
    path = file(ROWS)
    assert [c.name for c in read_table(path, drop=["c"], **NAMES).columns] == ["x"]
    assert [c.name for c in read_table(path, features="c", **NAMES).columns] == ["c"]
    part = read_table((np.arange(24.0).reshape(8, 3) % 5, np.arange(8) % 2, np.arange(8) % 2), drop=["x1"])
    assert [c.name for c in part.columns] == ["x0", "x2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "lable"}, "has no label column 'lable'; did you mean 'label'? There are: 'x', 'c', 'label', 'site'"),
        ({"party": "sites"}, "has no party column 'sites'; did you mean 'site'?"),
        ({"label": None}, "say which column is the label with --label. There are: 'x', 'c', 'label', 'site'"),
        ({"party": None}, "say which column holds the party with --party. There are: 'x', 'c', 'site'"),
        ({"party": "label"}, "'label' is both the label and the party"),
        ({"drop": ["cc"]}, "has no column to drop 'cc'; did you mean 'c'?"),
        ({"features": ["z"]}, "has no feature 'z'; there are: 'x', 'c', 'label', 'site'"),
        ({"features": ["x", "c"], "drop": "c"}, "column 'c' is both in --features and in --drop; take it out of one"),
        ({"drop": ["site"]}, "it can be neither used nor dropped"),
        ({"task": "guess"}, "task is 'guess'"),
        ({"modality": "sound"}, "modality is 'sound'"),
        ({"on_bad_row": "mend"}, "on_bad_row is 'mend'"),
    ],
)
def test_a_wrong_name_is_one_line_with_those_that_exist(file: Any, options: Any, message: Any) -> None:
    with pytest.raises(FedskewError) as caught:
        read_table(file(ROWS), **(NAMES | options))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("third", "message"),
    [
        ("x,lab\n1,u\n", "h3.csv: has no column 'label', which"),
        ("", "h3.csv: the file is empty"),
        ("x,label\n1,u\n2\n", "h3.csv: line 3 has 1 fields where the header has 2"),
    ],
)
def test_the_silo_that_differs_is_named_with_its_column(tmp_path: Path, file: Any, third: Any, message: Any) -> None:
    for name, text in (("h1", "x,label\n1,u\n2,v\n"), ("h2", "x,label\n1,u\n2,v\n"), ("h3", third)):
        file(text, f"d/{name}.csv")
    with pytest.raises(FedskewError) as caught:
        read_table(tmp_path / "d", label="label")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("third", "message"),
    [
        ("x,label,site,age\n1,u,B,3\n", r"h3\.csv: has a column 'age', which .*leave it out with --drop age"),
        ("label,site\nu,B\n", r"h3\.csv: has no column 'x', which"),
        ("x,label\n1,u\n", r"h3\.csv: has no column 'site', which"),
    ],
)
def test_the_shard_that_differs_is_named_with_its_column(file: Any, third: str, message: str) -> None:
    texts = ("x,label,site\n1,u,A\n", "x,label,site\n2,v,B\n", third)
    shards = [file(text, f"d/h{i}.csv") for i, text in enumerate(texts, 1)]
    with pytest.raises(FedskewError, match=message):
        read_table(shards, label="label", party="site")


def test_columns_that_some_silos_lack_are_padded_and_told(tmp_path: Path, file: Any) -> None:
    north, south = "x,age,label\n1,30,u\n2,50,v\n3,,v\n", "x,label,dose\n4,u,7\n6,v,9\n"
    paths = [file(north, "d/north.csv"), file(south, "d/south.csv"), file("label,x\n", "d/west.csv")]
    part: Any = read_table(tmp_path / "d", label="label")
    assert [column.name for column in part.columns] == ["x", "age", "dose"]
    assert part.party_names == ("north", "south", "west")
    nan = np.nan
    expected = [[1, 30, nan], [2, 50, nan], [3, nan, nan], [4, nan, 7], [6, nan, 9]]
    np.testing.assert_array_equal(part.features, np.array(expected, np.float32))
    (told,) = (finding for finding in part.findings if finding.code == "schema_mismatch")
    assert told.text == (
        "2 columns are not in every silo and count as missing where they are not: 'age', 'dose' "
        "(lacking in 'north', 'south')"
    )
    assert (told.severity, told.parties, told.count) == ("strong", ("north", "south"), 2)
    other: Any = read_table(paths[::-1], label="label")
    same_bytes(part, other)


def test_a_column_of_one_silo_may_be_of_categories_and_may_be_left_out(tmp_path: Path, file: Any) -> None:
    file("x,label,ward\n" + "1,u,east\n2,v,west\n" * 3, "d/north.csv")
    file("x,label\n" + "4,u\n6,v\n" * 3, "d/south.csv")
    part: Any = read_table(tmp_path / "d", label="label")
    assert part.features[:, 1:].sum(axis=1).tolist() == [1] * 6 + [0] * 6
    assert "schema_mismatch" in codes(part)
    assert "schema_mismatch" not in codes(read_table(tmp_path / "d", label="label", drop=["ward"]))


def test_one_party_only_is_refused_unless_parties_are_not_needed(tmp_path: Path, file: Any) -> None:
    path = file("x,label,site\n1,a,A\n2,b,A\n")
    with pytest.raises(FedskewError, match="party column 'site' holds one party only, 'A'"):
        read_table(path, **NAMES)
    assert read_table(path, partitioned=False, **NAMES).party_names == ("A",)
    assert read_table(path, partitioned=False, label="label").party_names == ("all",)
    file("x,label\n1,a\n2,b\n", "d/h1.csv")
    with pytest.raises(FedskewError, match="one party only, 'h1'"):
        read_table(tmp_path / "d", label="label")


def test_what_is_no_readable_file_is_one_line(tmp_path: Path, file: Any) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "empty").mkdir()
    file(ROWS, "stops.xyz")
    file(ROWS)
    for source, message in (
        (tmp_path / "none.csv", "no such file"),
        (tmp_path / "stop.csv", "did you mean 'stops"),
        (tmp_path / "pipe.csv", "is a pipe"),
        (tmp_path / "loop.csv", "cannot be opened"),
        (tmp_path / "empty", "holds no readable file"),
        (tmp_path / "stops.xyz", "unknown kind of file"),
        ([tmp_path / "stops.csv", tmp_path / "empty"], "is a folder; a file is needed"),
        ([tmp_path / "stops.csv", tmp_path / "stops.csv"], "two silos are called 'stops'"),
        (str(tmp_path / "a\0b.csv"), "cannot be opened"),
    ):
        with pytest.raises(FedskewError, match=message):
            read_table(source, label="label")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_a_fault_of_the_environment(file: Any) -> None:
    path = file(ROWS)
    path.chmod(0)
    with pytest.raises(EnvironmentFaultError):
        read_table(path, **NAMES)


def test_the_test_table_takes_categories_classes_and_parties_of_training(file: Any) -> None:
    train = "x,c,label,site\n" + "1.5,u,10,B\n2.5,v,9,A\n3.5,u,9,B\n2.5,u,9,A\n" * 4
    test = "site,label,c,x\nA,9,v,7\nB,77,w,8\nB,10,,9\nA,,u,1\n"
    part: Any = read_table(file(train), test=file(test, "test.csv"), **NAMES)
    assert part.class_names == ("9", "10", "77")
    assert part.test.labels.tolist() == [0, 2, 1]
    assert part.test.party.tolist() == [0, 1, 1]
    assert part.test.features.tolist() == [[7, 0, 1], [8, 0, 0], [9, 0, 0]]  # 'u' is the more frequent, 'w' unknown
    assert {"missing_labels", "rare_categories", "missing_values"} <= set(codes(part))


def test_a_test_table_without_parties_or_with_strangers_has_no_party(file: Any) -> None:
    path = file(ROWS)
    part: Any = read_table(path, test=file("x,c,label\n1,a,y\n", "t.csv"), **NAMES)
    assert part.test.party is None
    part = read_table(path, test=file("x,c,label,site\n1,a,y,Z\n", "t.csv"), **NAMES)
    assert part.test.party is None
    assert "unknown_test_party" in codes(part)


def test_what_is_skipped_in_a_test_table_is_told(file: Any) -> None:
    test = file("x,c,label,site\n1,a,y,A\n2,a\n", "t.csv")
    part: Any = read_table(file(ROWS), test=test, on_bad_row="skip", **NAMES)
    assert part.test.features.shape[0] == 1
    (told,) = (finding for finding in part.findings if finding.code == "ragged_rows")
    assert "t.csv" in told.text
    assert told.count == 1


def test_a_test_table_with_other_columns_is_named(file: Any) -> None:
    path = file(ROWS)
    with pytest.raises(FedskewError, match=r"t\.csv: has no column 'x', which .*stops\.csv has"):
        read_table(path, test=file("xx,c,label,site\n1,a,y,A\n", "t.csv"), **NAMES)
    with pytest.raises(FedskewError, match=r"t\.csv: has no label column 'label'"):
        read_table(path, test=file("x,c,site\n1,a,A\n", "t.csv"), **NAMES)


def test_a_target_and_its_test_labels_share_the_bins(file: Any) -> None:
    values = np.random.default_rng(1).normal(size=(90, 2))
    lines = [f"{x},{y},{'AB'[i % 2]}\n" for i, (x, y) in enumerate(values.tolist())]
    part: Any = read_table(
        file("x,y,site\n" + "".join(lines)), label="y", party="site", test=file("x,y\n0,-9\n0,9\n", "t.csv")
    )
    assert part.test.labels.tolist() == [0, 4]
    order = np.argsort(np.arange(90) % 2, kind="stable")
    np.testing.assert_array_equal(values[order, 1], part.target)
    assert "continuous_target" in codes(part)


def test_parties_are_ordered_by_name_and_rows_keep_their_order() -> None:
    rng = np.random.default_rng(2)
    party = rng.integers(0, 12, 500)
    x = rng.normal(size=500).astype(np.float32)
    part = read_table({"x": x[:, None], "y": x > 0, "party": party})
    assert part.party_names == tuple(str(i) for i in range(12))
    for code in range(12):
        np.testing.assert_array_equal(x[party == code], part.features[part.rows_of(code), 0])


def test_many_rows_with_many_text_parties_read_fast() -> None:
    rng = np.random.default_rng(3)
    names = np.array([f"writer {i}" for i in range(3500)])
    frame = pl.DataFrame({"x": rng.normal(size=800_000), "y": rng.integers(0, 9, 800_000)})
    frame = frame.with_columns(who=pl.Series(names[rng.integers(0, 3500, 800_000)]))
    start = time.perf_counter()
    part = read_table(frame, label="y", party="who")
    assert time.perf_counter() - start < 10  # about one second on one core
    assert (part.parties, part.rows) == (3500, 800_000)


@pytest.mark.parametrize(
    ("name", "options", "shape", "parties"),
    [
        ("covtype.npz", {"label": "y_binary"}, (581_012, 50), 4),
        ("adult_a9a.npz", {"party": "occupation_train"}, (32_561, 109), 15),
        ("hapt_har.npz", {}, (10_411, 768), 30),
        ("hapt_har.npz", {"features": "F"}, (10_411, 90), 30),
        ("mnist.npz", {"partitioned": False}, (60_000, 1, 28, 28), 1),
        ("letterrecognition.npz", {"partitioned": False}, (20_000, 16), 1),
    ],
)
@pytest.mark.slow
def test_real_archives_are_read(data_file: Any, name: Any, options: Any, shape: Any, parties: Any) -> None:
    part = read_table(data_file(name), **options)
    assert (shape, parties) == (part.features.shape, part.parties)


def test_importing_the_profiles_loads_neither_polars_nor_pandas() -> None:
    code = "import sys, fedskew.profiles; print({'polars', 'pandas', 'torch', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("drop", [(), ("age",)])
def test_a_table_of_names_alone_is_profiled_and_says_that_it_cannot_be_trained_on(drop: tuple[str, ...]) -> None:
    rows = {"y": np.array(list("ab" * 20)), "site": np.repeat(["u", "v"], 20)} | {one: np.arange(40.0) for one in drop}
    found = profile(read_table(rows, label="y", party="site", drop=drop))
    assert "no_features" in {finding.code for finding in found.hygiene}
    assert (found.features, found.feature.reason, found.concept.reason) == (0, "no_features", "no_features")
    assert found.label.skew is not None

"""svmlight: rows, numbering, widths, packing, damage; sparse up to the partition and through an index."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse import random as random_sparse

from fedskew.profiles import EnvironmentFaultError, FedskewError, partition_source, profile, read_table
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.svmlight import is_svmlight, read_svmlight


def lines_of(matrix: Any, labels: Any, first: int = 1) -> str:
    """Write rows as the format's authors describe it, number by number."""
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    rows = (" ".join(f"{j + first}:{float(row[j])!r}" for j in np.flatnonzero(row)) for row in dense)
    return "".join(f"{label} {row} \n" for label, row in zip(labels, rows, strict=True))


def table(rows: int, width: int, density: float, seed: int = 0) -> Any:
    made: Any = random_sparse(
        rows, width, density, format="csr", dtype=np.float32, random_state=np.random.default_rng(seed)
    )
    return csr_array(made)


def test_every_value_is_read_where_it_stands(tmp_path: Path) -> None:
    matrix, labels = table(200, 50, 0.02), np.where(np.arange(200) % 3, -1, 1)
    (tmp_path / "t.svm").write_text(lines_of(matrix, labels))
    found = read_svmlight(tmp_path / "t.svm", Options())
    np.testing.assert_array_equal(matrix.toarray(), found.features.toarray()[:, 1:])
    np.testing.assert_array_equal(labels, found.labels)
    assert found.features.dtype == np.float32
    assert found.labels.dtype == np.int64


@pytest.mark.parametrize("text", ["1 1:2\n0 2:3", "1\t1:2\r\n0  2:3.0e0 # note 5:6\n\n", "# head\n+1 1:2\n0 2:3\n"])
def test_spaces_comments_and_a_missing_last_newline_do_not_matter(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.svm").write_bytes(text.encode())
    found = read_svmlight(tmp_path / "t.svm", Options())
    assert found.features.toarray().tolist() == [[0, 2, 0], [0, 0, 3]]
    assert found.labels.tolist() == [1, 0]


def test_a_row_may_hold_nothing_and_indices_may_stand_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "t.svm").write_text("1 3:3 1:1\n2\n3 2:2\n")
    assert read_svmlight(tmp_path / "t.svm", Options()).features.toarray().tolist() == [
        [0, 1, 0, 3], [0, 0, 0, 0], [0, 0, 2, 0],
    ]  # fmt: skip


def test_lines_across_blocks_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, labels = table(300, 40, 0.1), np.arange(300) % 4
    (tmp_path / "t.svm").write_text(lines_of(matrix, labels))
    monkeypatch.setattr("fedskew.profiles.readers.svmlight.BLOCK", 97)
    found = read_svmlight(tmp_path / "t.svm", Options())
    np.testing.assert_array_equal(matrix.toarray(), found.features.toarray()[:, 1:])
    np.testing.assert_array_equal(labels, found.labels)


@pytest.mark.parametrize("name", ["a9a", "a9a.t", "rcv1_train.binary", "covtype.libsvm.binary.scale", "news.txt"])
def test_bare_names_are_told_by_their_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(lines_of(np.eye(4), [1, -1, 1, -1]))
    found = read_table(tmp_path / name, partitioned=False)
    assert found.class_names == ("-1", "1")
    assert [column.name for column in found.columns] == ["x1", "x2", "x3", "x4"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["t.svm.gz", "rcv1_train.binary.bz2", "packed"])
def test_packed_files_read_as_plain_ones(tmp_path: Path, pack: Callable[[bytes], bytes], name: str) -> None:
    text = lines_of(np.eye(3), [0, 1, 2]).encode()
    (tmp_path / name).write_bytes(pack(text))
    assert read_table(tmp_path / name, partitioned=False).features.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n1 3\n", "line 2: '3' is no index:value"),
        ("1 1:2\n1:2 3:4\n", "line 2: '1:2' is no label"),
        ("1 1:2\n1 x:2\n", "line 2: 'x:2' is no finite number"),
        ("1 1:2\n1 1:\n", "line 2: '1:' is no finite number"),
        ("1 1:2\n1 :5 6: 7:8\n", "line 2: ':5' is no finite number"),
        ("1 1:2\n1 1:1_0\n", "line 2: '1:1_0' is no finite number"),
        ("1 1:nan\n", "line 1: '1:nan' is no finite number"),
        ("1 1:1e39\n", "line 1: '1:1e39' is no finite number in float32"),
        ("inf 1:1\n", "line 1: 'inf' is no finite number"),
        ("1 1.5:1\n", "line 1: '1.5:1' begins with no whole number"),
        ("1,2 1:1\n", "line 1: '1,2' are several labels"),
        ("1 qid:3 1:1\n", "line 1: 'qid:3' is a query"),
        ("1 2:1 2:3\n", "row 1 has feature 2 twice"),
        ("1 -1:1\n", "has a feature -1; allowed are 0 to"),
        ("1 99999999999:1\n", "has a feature 99999999999"),
        ("# nothing\n\n", "holds no rows"),
        ("1 1:" + "9" * 200 + "\n", "is no finite number"),
    ],
)
def test_a_damaged_line_is_named_with_its_number(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(FedskewError, match=r"t\.svm: ") as caught:
        read_svmlight(tmp_path / "t.svm", Options())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mutated_files_are_read_or_refused_but_never_crash(tmp_path: Path) -> None:
    whole = bytearray(lines_of(table(20, 9, 0.3), np.arange(20) % 2).encode())
    draw = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        for place in draw.integers(0, len(data), 3):
            data[place] = draw.choice(list(b" \n:#0.e-,\x00\xff"))
        (tmp_path / "t.svm").write_bytes(data)
        try:
            read_svmlight(tmp_path / "t.svm", Options())
        except FedskewError as fault:
            assert "\n" not in str(fault)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_cut_packed_file_is_refused_in_one_line(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = pack(lines_of(table(300, 50, 0.3), np.arange(300) % 2).encode())
    (tmp_path / "t.svm").write_bytes(data[: len(data) // 2])
    with pytest.raises(FedskewError, match=r"t\.svm: cannot be unpacked"):
        read_svmlight(tmp_path / "t.svm", Options())


def test_a_packed_bomb_is_refused_while_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedskew.profiles.readers.packed.FREE", 100_000)
    (tmp_path / "t.svm").write_bytes(bz2.compress(b"1 1:1\n" * 100_000))
    with pytest.raises(FedskewError, match="unpacks to over 200 times"):
        read_svmlight(tmp_path / "t.svm", Options())


def test_more_columns_than_memory_can_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.svm").write_text("1 16000000:1\n0 1:1\n")
    monkeypatch.setattr("fedskew.profiles.readers.base.available_memory", lambda: 2**30)
    with pytest.raises(EnvironmentFaultError, match="memory"):
        read_svmlight(tmp_path / "t.svm", Options())


def test_text_that_is_something_else_is_not_claimed(tmp_path: Path) -> None:
    for name, text in {
        "a": "1,2,3\n4,5,6\n",
        "b": "a story: 5\n",
        "c": "1 2 3\n",
        "d": "",
        "e": "1 1:2\nx 1:2\n",
    }.items():
        (tmp_path / name).write_text(text)
        assert not is_svmlight(tmp_path / name), name
    (tmp_path / "f").write_text("1 1:2\n" * 5)
    assert is_svmlight(tmp_path / "f")


def test_a_test_file_narrower_than_the_training_one_is_filled_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(lines_of(np.eye(6, 5), [1, -1] * 3))
    (tmp_path / "a.t").write_text("1 2:7\n-1 3:8\n")
    found = read_table(tmp_path / "a", test=tmp_path / "a.t", partitioned=False)
    assert found.test is not None
    assert found.test.features.tolist() == [[0, 7, 0, 0, 0], [0, 0, 8, 0, 0]]
    assert found.test.labels.tolist() == [1, 0]
    (finding,) = (finding for finding in found.findings if finding.code == "padded_columns")
    assert "has features up to 3, the training data 1 to 5: the others are filled with 0" in finding.text


def test_a_test_file_wider_than_the_training_one_is_cut_and_says_what_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(lines_of(np.eye(4, 2), [1, -1] * 2))
    (tmp_path / "a.t").write_text("1 2:7 5:1\n-1 3:8\n")
    found = read_table(tmp_path / "a", test=tmp_path / "a.t", partitioned=False)
    assert found.test is not None
    assert found.test.features.tolist() == [[0, 7], [0, 0]]
    (finding,) = (finding for finding in found.findings if finding.code == "padded_columns")
    assert "cut off, 2 of its values with them" in finding.text


def test_files_that_count_from_zero_keep_feature_zero_also_where_the_test_file_lacks_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(lines_of(np.eye(4), [1, -1] * 2, first=0))
    (tmp_path / "a.t").write_text("1 1:5 3:6\n-1 2:7\n")
    found = read_table(tmp_path / "a", test=tmp_path / "a.t", partitioned=False)
    assert found.test is not None
    assert [column.name for column in found.columns] == ["x0", "x1", "x2", "x3"]
    assert found.test.features.tolist() == [[0, 5, 0, 6], [0, 0, 7, 0]]


def test_silos_of_other_widths_are_padded_and_named(tmp_path: Path) -> None:
    for name, text in {"north": "1 1:1\n0 2:2\n", "south": "1 4:1\n0 1:2\n"}.items():
        (tmp_path / f"{name}.svm").write_text(text)
    found = read_table(tmp_path)
    assert found.party_names == ("north", "south")
    assert found.features.tolist() == [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 1], [2, 0, 0, 0]]
    (finding,) = (finding for finding in found.findings if finding.code == "padded_columns")
    assert finding.parties == ("north",)
    assert finding.text == "1 silo ends before feature 4, which others have; what is not there counts as 0: 'north'"


def test_an_almost_empty_table_stays_sparse_through_index_and_profile(tmp_path: Path) -> None:
    matrix, labels = table(300, 2000, 0.01), np.arange(300) % 2
    (tmp_path / "a").write_text(lines_of(matrix, labels))
    (tmp_path / "a.t").write_text(lines_of(table(50, 1500, 0.01, seed=1), np.arange(50) % 2))
    how = {"test": str(tmp_path / "a.t")}
    partition_source(tmp_path / "a", "label_dirichlet", tmp_path / "i.json", reading=how, parameters={"alpha": 0.5})
    found: Any = read_table(tmp_path / "i.json")
    assert isinstance(found.features, csr_array)
    assert isinstance(found.test.features, csr_array)
    used = int(matrix.indices.max()) + 1
    assert found.features.shape == (300, used)
    assert found.features.sum() == pytest.approx(float(matrix.sum()), rel=1e-5)
    assert profile(found).label.skew is not None


def test_a_sparse_column_that_names_the_party_is_left_out(tmp_path: Path) -> None:
    noise = table(40, 1000, 0.01).tolil()
    noise[:20, 7] = 3.0
    for name, rows in (("a", slice(0, 20)), ("b", slice(20, 40))):
        (tmp_path / f"{name}.svm").write_text(lines_of(noise.tocsr()[rows], np.arange(20) % 2))
    found: Any = read_table(tmp_path)
    assert isinstance(found.features, csr_array)
    assert "x8" not in [column.name for column in found.columns]
    assert found.features.shape[1] == len(found.columns)
    assert any(finding.code == "names_the_party" and "'x8'" in finding.text for finding in found.findings)
    assert "x8" in [column.name for column in read_table(tmp_path, features=("x8", "x9")).columns]


def test_columns_can_be_dropped_by_the_number_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(lines_of(np.eye(4), [1, -1] * 2))
    found = read_table(tmp_path / "a", drop="x2", partitioned=False)
    assert [column.name for column in found.columns] == ["x1", "x3", "x4"]
    np.testing.assert_array_equal(np.delete(np.eye(4), 1, axis=1), found.features)


def test_a_label_or_party_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n")
    for option in ({"label": "y"}, {"party": "site"}):
        with pytest.raises(FedskewError, match="svmlight files have one label a row"):
            read_table(tmp_path / "a.svm", partitioned=False, **option)  # type: ignore[arg-type]


def test_the_real_a9a_reads_as_the_archive_of_it(data_file: Any, tmp_path: Path) -> None:
    with np.load(data_file("adult_a9a.npz"), allow_pickle=False) as archive:
        x, y = archive["X_train"][:3000], archive["y_train"][:3000]
    (tmp_path / "a9a").write_text(lines_of(x, np.where(y, "+1", "-1")))
    found = read_table(tmp_path / "a9a", partitioned=False)
    np.testing.assert_array_equal(x[:, : found.features.shape[1]], found.features)
    np.testing.assert_array_equal(y, found.labels)

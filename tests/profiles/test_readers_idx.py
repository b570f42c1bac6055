"""idx: images and labels in two files, the test part in two more; plain and packed; headers that lie."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedskew.profiles import EnvironmentFaultError, FedskewError, partition_source, read_table
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.idx import holds_idx, is_idx, read_array, read_idx

PIXELS = np.random.default_rng(0).integers(0, 256, (30, 28, 28)).astype(np.uint8)
LABELS = (np.arange(30) % 5).astype(np.uint8)


def idx(array: NDArray[Any], kind: int = 8) -> bytes:
    """The bytes of an idx file, as its authors describe it."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.tobytes()


def mnist(
    folder: Path, names: tuple[str, str] = ("-images-idx3-ubyte", "-labels-idx1-ubyte"), packed: bool = False
) -> Path:
    folder.mkdir(exist_ok=True)
    for part, rows in (("train", slice(0, 20)), ("t10k", slice(20, 30))):
        for name, array in zip(names, (PIXELS, LABELS), strict=True):
            data = idx(array[rows])
            (folder / f"{part}{name}{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    return folder


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "names", [("-images-idx3-ubyte", "-labels-idx1-ubyte"), ("-images.idx3-ubyte", "-labels.idx1-ubyte")]
)
def test_a_folder_gives_images_labels_and_the_test_part(tmp_path: Path, packed: bool, names: Any) -> None:
    found = read_table(mnist(tmp_path / "m", names, packed), partitioned=False)
    np.testing.assert_array_equal(PIXELS[:20, None], found.features)
    np.testing.assert_array_equal(LABELS[:20], found.labels)
    assert found.modality == "image"
    assert found.test is not None
    np.testing.assert_array_equal(PIXELS[20:, None], found.test.features)
    np.testing.assert_array_equal(LABELS[20:], found.test.labels)


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
def test_either_file_finds_the_other_and_the_test_part(tmp_path: Path, name: str) -> None:
    found: Any = read_idx(mnist(tmp_path) / name, Options())
    np.testing.assert_array_equal(PIXELS[:20], found.features)
    np.testing.assert_array_equal(LABELS[20:], found.test.labels)


def test_the_test_files_alone_are_the_rows_and_may_be_the_test_table(tmp_path: Path) -> None:
    t10k = mnist(tmp_path) / "t10k-images-idx3-ubyte"
    found = read_table(t10k, partitioned=False)
    np.testing.assert_array_equal(LABELS[20:], found.labels)
    assert found.test is None
    given: Any = read_table(t10k, test=tmp_path / "train-images-idx3-ubyte", partitioned=False)
    np.testing.assert_array_equal(PIXELS[:20, None], given.test.features)


def test_emnist_names_are_paired_and_several_sets_in_a_folder_are_refused(tmp_path: Path) -> None:
    for name in ("emnist-digits", "emnist-letters"):
        for part in ("train", "test"):
            (tmp_path / f"{name}-{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(PIXELS)))
            (tmp_path / f"{name}-{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    found: Any = read_idx(tmp_path / "emnist-digits-train-images-idx3-ubyte.gz", Options())
    assert len(found.test.labels) == 30
    with pytest.raises(FedskewError, match="several data sets"):
        read_table(tmp_path, partitioned=False)


@pytest.mark.parametrize(("kind", "dtype"), [(8, "u1"), (9, "i1"), (11, ">i2"), (12, ">i4"), (13, ">f4"), (14, ">f8")])
def test_every_type_of_number_is_read(tmp_path: Path, kind: int, dtype: str) -> None:
    array = np.arange(24).reshape(6, 4).astype(dtype)
    (tmp_path / "a").write_bytes(idx(array, kind))
    found = read_array(tmp_path / "a")
    np.testing.assert_array_equal(array, found)
    assert found.dtype.isnative


def test_a_file_cut_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    whole = idx(PIXELS[:2])
    for length in (1, 3, 4, 9, 15, 16, 100, len(whole) - 1):
        (tmp_path / "a").write_bytes(whole[:length])
        with pytest.raises(FedskewError, match=r"a: ") as caught:
            read_array(tmp_path / "a")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", [1, 15, 60, 200])
def test_a_packed_file_cut_anywhere_is_refused_in_one_line(tmp_path: Path, length: int) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(PIXELS[:2]))[:length])
    with pytest.raises(FedskewError, match=r"a\.gz: "):
        read_array(tmp_path / "a.gz")


def test_a_file_longer_than_it_declares_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(idx(LABELS) + b"\0")
    with pytest.raises(FedskewError, match="longer than"):
        read_array(tmp_path / "a")


def test_a_header_that_lies_is_refused_before_anything_is_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**31, 2**31)
    (tmp_path / "a").write_bytes(lie)
    with pytest.raises(FedskewError, match="declares"):
        read_array(tmp_path / "a")
    (tmp_path / "a.gz").write_bytes(gzip.compress(lie))
    with pytest.raises(FedskewError, match="200 times"):
        read_array(tmp_path / "a.gz")
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(PIXELS)))
    monkeypatch.setattr("fedskew.profiles.readers.base.available_memory", lambda: 1000)
    with pytest.raises(EnvironmentFaultError, match="memory"):
        read_array(tmp_path / "a.gz")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-labels-idx1-ubyte", None, "its labels, train-labels-idx…-ubyte, must lie beside it"),
        ("train-labels-idx1-ubyte", idx(LABELS), "has 30 labels"),
        ("train-labels-idx1-ubyte", idx(np.zeros((20, 2), np.uint8)), r"labels have the shape \(20, 2\)"),
        ("train-labels-idx1-ubyte", b"x" * 40, "is not an idx file"),
        ("train-images-idx3-ubyte", idx(LABELS[:20]), r"has the shape \(20,\)"),
        ("t10k-labels-idx1-ubyte", None, "t10k-images-idx3-ubyte: its labels"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(tmp_path: Path, name: str, content: Any, message: str) -> None:
    mnist(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(FedskewError, match=message):
        read_table(tmp_path, partitioned=False)


def test_a_name_that_tells_nothing_is_refused_with_one_that_does(tmp_path: Path) -> None:
    (tmp_path / "digits").write_bytes(idx(PIXELS))
    assert is_idx(tmp_path / "digits")
    with pytest.raises(FedskewError, match="such as train-images-idx3-ubyte"):
        read_table(tmp_path / "digits", partitioned=False)
    assert not holds_idx(tmp_path)


def test_an_index_over_the_files_knows_when_their_labels_change(tmp_path: Path) -> None:
    images = mnist(tmp_path / "m", packed=True) / "train-images-idx3-ubyte.gz"
    for source in (images, tmp_path / "m"):
        partition_source(source, "iid", tmp_path / "i.json", parameters={"num_partitions": 4})
        found = read_table(tmp_path / "i.json")
        assert (found.parties, found.rows, found.modality) == (4, 20, "image")
    partition_source(images, "iid", tmp_path / "i.json", parameters={"num_partitions": 4})
    (tmp_path / "m" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS[1:21])))
    with pytest.raises(FedskewError, match="changed since this index was written"):
        read_table(tmp_path / "i.json")

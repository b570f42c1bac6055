"""SVHN's MATLAB files: X with rows last, 10 for the digit 0, the test part beside; damage in one line."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from fedskew.profiles import EnvironmentFaultError, FedskewError, partition_source, read_table
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.mat import read_mat
from fedskew.profiles.readers.matfile import read_arrays

PIXELS = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 24)).astype(np.uint8)
LABELS = (np.arange(24) % 4 + 7).astype(np.uint8)[:, None]


def svhn(folder: Path, *, packed: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in (("train", slice(0, 16)), ("test", slice(16, 24))):
        members = {"X": PIXELS[..., rows], "y": LABELS[rows]}
        savemat(folder / f"{name}_32x32.mat", members, do_compression=packed)
    return folder


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["", "train_32x32.mat"])
def test_images_labels_and_the_test_part_are_read(tmp_path: Path, packed: bool, name: str) -> None:
    found = read_table(svhn(tmp_path / "s", packed=packed) / name, partitioned=False)
    np.testing.assert_array_equal(PIXELS[..., :16].transpose(3, 2, 0, 1), found.features)
    assert [found.class_names[code] for code in found.labels] == [str(label % 10) for label in LABELS[:16, 0]]
    assert found.modality == "image"
    assert found.test is not None
    np.testing.assert_array_equal(PIXELS[..., 16:].transpose(3, 2, 0, 1), found.test.features)
    assert [found.class_names[code] for code in found.test.labels] == [str(label % 10) for label in LABELS[16:, 0]]


def test_the_test_file_may_be_given_as_the_test_table(tmp_path: Path) -> None:
    folder = svhn(tmp_path / "s")
    found: Any = read_table(folder / "test_32x32.mat", test=folder / "train_32x32.mat", partitioned=False)
    assert (found.rows, len(found.test.labels)) == (8, 16)


def test_a_matrix_of_rows_is_a_table_and_its_labels_stay(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"X": np.eye(6), "y": np.array([10.0, 1, 10, 1, 10, 1])})
    found = read_table(tmp_path / "a.mat", partitioned=False)
    assert found.class_names == ("1", "10")
    np.testing.assert_array_equal(np.eye(6), found.features)


def test_an_index_over_the_folder_gives_its_rows_back(tmp_path: Path) -> None:
    partition_source(svhn(tmp_path / "s"), "iid", tmp_path / "i.json", parameters={"num_partitions": 2})
    found = read_table(tmp_path / "i.json")
    assert (found.parties, found.rows, found.modality) == (2, 16, "image")
    assert found.features.sum() == PIXELS[..., :16].sum(dtype=np.int64)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"X": PIXELS}, "has no 'y'"),
        ({"images": PIXELS, "y": LABELS}, "has no 'X'; X and y are needed. There are: images, y"),
        ({"X": PIXELS, "y": LABELS[:5]}, "one label a row is needed"),
        ({"X": PIXELS[..., 0], "y": LABELS}, "allowed are"),
        ({"X": PIXELS, "y": np.array(["a"] * 24, object)}, "'y' is of class cell"),
        ({"X": np.empty((32, 32, 3, 0), np.uint8), "y": np.empty((0, 1))}, "at least one row"),
        ({"X": PIXELS + 1j, "y": LABELS}, "real numbers are needed"),
    ],
)
def test_files_without_sound_members_are_refused(tmp_path: Path, members: Any, message: str) -> None:
    savemat(tmp_path / "a.mat", members)
    with pytest.raises(FedskewError) as caught:
        read_table(tmp_path / "a.mat", partitioned=False)
    assert message in str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_cut_and_mutated_files_are_read_or_refused_in_one_line(tmp_path: Path, packed: bool) -> None:
    savemat(tmp_path / "a.mat", {"X": PIXELS[..., :2], "y": LABELS[:2]}, do_compression=packed)
    whole = (tmp_path / "a.mat").read_bytes()
    draw = np.random.default_rng(0)
    refused = 0
    for trial in range(300):
        data = bytearray(whole)
        if trial % 3 == 0:
            data = data[: draw.integers(1, len(data))]
        else:
            data[draw.integers(min(len(data), 400))] = draw.integers(256)
        (tmp_path / "a.mat").write_bytes(data)
        try:
            read_mat(tmp_path / "a.mat", Options())
        except FedskewError as fault:
            refused += 1
            assert "\n" not in str(fault)  # noqa: PT017 - both outcomes are right
    assert refused > 100


def test_hdf5_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n" * 100)
    with pytest.raises(FedskewError, match="save -v7"):
        read_table(tmp_path / "a.mat", partitioned=False)


def test_every_class_of_numbers_is_read_as_scipy_reads_it(tmp_path: Path) -> None:
    for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"):
        array = np.arange(12).reshape(4, 3).astype(kind)
        for packed in (False, True):
            savemat(tmp_path / "a.mat", {"note": "text", "X": array, "y": [1, 2, 1, 2]}, do_compression=packed)
            found, names = read_arrays(tmp_path / "a.mat", ("X", "y"))
            theirs = loadmat(tmp_path / "a.mat")["X"]
            np.testing.assert_array_equal(theirs, found["X"])
            assert theirs.dtype == found["X"].dtype
            assert names == ("note", "X", "y")


@pytest.mark.parametrize("packed", [False, True])
def test_numbers_stored_in_a_smaller_type_get_that_of_their_array(tmp_path: Path, packed: bool) -> None:
    # As MATLAB itself writes doubles that are small whole numbers; scipy never does.
    def element(kind: int, data: bytes) -> bytes:
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    def variable(name: bytes, shape: tuple[int, int], values: bytes) -> bytes:
        flags, axes = struct.pack(">II", 6, 0), struct.pack(">ii", *shape)
        body = element(6, flags) + element(5, axes) + struct.pack(">HH4s", len(name), 1, name) + element(2, values)
        whole = element(14, body)
        return struct.pack(">II", 15, len(zlib.compress(whole))) + zlib.compress(whole) if packed else whole

    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    (tmp_path / "a.mat").write_bytes(head + variable(b"X", (3, 2), bytes(range(6))) + variable(b"y", (3, 1), b"\1\2\1"))
    found, _ = read_arrays(tmp_path / "a.mat", ("X", "y"))
    assert found["X"].dtype == np.float64
    assert found["X"].tolist() == [[0, 3], [1, 4], [2, 5]] == loadmat(tmp_path / "a.mat")["X"].tolist()
    assert found["y"].ravel().tolist() == [1, 2, 1]


def test_a_packed_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    savemat(tmp_path / "a.mat", {"X": np.zeros((1000, 100)), "y": np.zeros(1000)}, do_compression=True)
    monkeypatch.setattr("fedskew.profiles.readers.packed.FREE", 100_000)
    with pytest.raises(FedskewError, match="unpacks to over 200 times"):
        read_mat(tmp_path / "a.mat", Options())


def test_sizes_are_checked_before_anything_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = svhn(tmp_path / "s", packed=False) / "test_32x32.mat"
    data = path.read_bytes()
    lie = data.replace(struct.pack("<4i", 32, 32, 3, 8), struct.pack("<4i", 32, 32, 3, 2_000_000))
    assert lie != data
    (tmp_path / "lie.mat").write_bytes(lie)
    with pytest.raises(FedskewError, match=r"of shape .* holds 24"):
        read_mat(tmp_path / "lie.mat", Options())
    monkeypatch.setattr("fedskew.profiles.readers.base.available_memory", lambda: 1000)
    with pytest.raises(EnvironmentFaultError, match="memory"):
        read_mat(path, Options())


def test_a_label_or_party_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FedskewError, match="hold X and y only"):
        read_table(svhn(tmp_path / "s"), party="site")

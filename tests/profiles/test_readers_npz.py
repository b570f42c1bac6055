"""npz: members by name and by habit; no objects, no bombs."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedskew.profiles import FedskewError, read_table
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.npz import read_npz

X, Y, P = np.arange(24.0).reshape(8, 3), np.arange(8) % 2, np.arange(8) % 3


def saved(folder: Any, **members: Any) -> Any:
    np.savez_compressed(folder / "d.npz", **members)
    return folder / "d.npz"


@pytest.mark.parametrize("names", [("x", "y", "party"), ("X", "Y", "Party"), ("X_train", "y_train", "party_train")])
def test_members_are_found_in_either_case(tmp_path: Path, names: Any) -> None:
    found = read_npz(saved(tmp_path, **dict(zip(names, (X, Y, P), strict=True))), Options())
    np.testing.assert_array_equal(X, found.features)
    np.testing.assert_array_equal(Y, found.labels)
    np.testing.assert_array_equal(P, found.party)


def test_named_members_bring_their_test_twins(tmp_path: Path) -> None:
    members = {"X_train": X, "y_train": Y, "X_test": X[:2], "y_test": Y[:2], "job_train": P, "job_test": P[:2]}
    for name in ("job_train", "job"):
        found: Any = read_npz(saved(tmp_path, **members), Options(party=name))
        np.testing.assert_array_equal(P, found.party)
        np.testing.assert_array_equal(P[:2], found.test.party)
        np.testing.assert_array_equal(X[:2], found.test.features)


def test_label_and_features_may_name_other_members(tmp_path: Path) -> None:
    path = saved(tmp_path, X=X, F=-X, y=Y, y_binary=1 - Y, party=P)
    found = read_npz(path, Options(label="y_binary", features=("F",)))
    np.testing.assert_array_equal(1 - Y, found.labels)
    np.testing.assert_array_equal(-X, found.features)


def test_integer_labels_take_the_names_in_classes(tmp_path: Path) -> None:
    part = read_table(saved(tmp_path, x=X, y=Y, party=P, classes=np.array(["walk", "sit"])))
    assert part.class_names == ("sit", "walk")
    assert [part.class_names[code] for code in part.labels[part.party == 0]] == ["walk", "sit", "walk"]


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ({"q": X, "y": Y}, {}, "Members are: 'q', 'y'"),
        ({"x": X}, {}, "has no labels"),
        ({"x": X, "y": Y}, {"label": "yy"}, "has no label 'yy'; did you mean 'y'? There are: 'x', 'y'"),
        ({"x": X, "y": Y}, {"party": "site"}, "has no party 'site'"),
        ({"x": X.astype(str), "y": Y}, {}, "they must be numbers"),
        ({"x": X.astype(complex), "y": Y}, {}, "they must be numbers"),
        ({"x": X, "y": Y[:3]}, {}, "'y' has shape (3,)"),
        ({"x": X, "y": np.array([{}] * 8)}, {}, "Python objects"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, members: Any, options: Any, message: Any) -> None:
    with pytest.raises(FedskewError) as caught:
        read_npz(saved(tmp_path, **members), Options(**options))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class Evil:
    """Writes a file when unpickled."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_pickle_inside_is_never_run(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.array([Evil(tmp_path / "ran")], dtype=object), y=Y[:1])
    with pytest.raises(FedskewError, match="Python objects"):
        read_npz(tmp_path / "d.npz", Options())
    assert not (tmp_path / "ran").exists()


def test_a_bomb_is_refused_by_its_declared_size(tmp_path: Path) -> None:
    path = saved(tmp_path, x=np.zeros(25_000_000), y=Y)
    assert path.stat().st_size < 300_000
    with pytest.raises(FedskewError, match="unpacks to 200000000 bytes"):
        read_npz(path, Options())


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(80))
    with pytest.raises(FedskewError, match="the file is damaged"):
        read_npz(tmp_path / "d.npz", Options())


def test_mutated_archives_are_read_or_refused_but_never_crash(tmp_path: Path) -> None:
    whole = saved(tmp_path, x=X, y=Y, party=P).read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for trial in range(300):
        data = bytearray(whole)
        data[rng.integers(len(data))] = rng.integers(256)
        (tmp_path / "d.npz").write_bytes(data[: rng.integers(1, len(data))] if trial % 3 == 0 else data)
        try:
            read_table(tmp_path / "d.npz")
        except FedskewError:
            refused += 1
    assert refused > 150


def test_an_archive_without_parties_says_what_there_is(tmp_path: Path) -> None:
    path = saved(tmp_path, x=X, y=Y)
    with pytest.raises(FedskewError, match=r"has no party \(its members: x, y\).*fedskew partition"):
        read_table(path)
    assert read_table(path, partitioned=False).party_names == ("all",)


@pytest.mark.parametrize(
    ("shape", "modality", "expected"),
    [
        ((8, 28, 28), None, (8, 1, 28, 28)),
        ((8, 28, 28), "tabular", (8, 784)),
        ((8, 10, 12, 3), None, (8, 3, 10, 12)),
        ((8, 2, 16, 8), None, (8, 2, 16, 8)),
        ((8, 17, 8), None, (8, 136)),
        ((8, 17, 8), "image", (8, 1, 17, 8)),
        ((8, 7, 8), None, (8, 56)),
        ((8,), None, (8, 1)),
    ],
)
def test_shapes_tell_images_from_tables_unless_told(tmp_path: Path, shape: Any, modality: Any, expected: Any) -> None:
    values = np.random.default_rng(0).integers(0, 256, shape)
    part = read_table(saved(tmp_path, x=values, y=Y, party=np.zeros(8)), modality=modality, partitioned=False)
    assert expected == part.features.shape
    assert (np.uint8 if len(expected) == 4 else np.float32) == part.features.dtype
    flat = np.moveaxis(values, -1, 1) if shape[-1] == 3 else values
    np.testing.assert_array_equal(flat.ravel(), part.features.ravel())

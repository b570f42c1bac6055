"""CIFAR batches: pickles read as data; whatever else a pickle may hold is refused and never run."""

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedskew.profiles import EnvironmentFaultError, FedskewError, partition_source, read_table
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.cifar import read_cifar
from fedskew.profiles.readers.opcodes import BadPickleError, plain_values

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 3072)).astype(np.uint8)
LABELS = [3, 1, 3, 1, 5, 9, 5, 6, 5, 3, 5, 8]
NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def text(value: str) -> bytes:
    return b"U" + struct.pack("<B", len(value)) + value.encode()


def as_python_2_wrote_it(pixels: NDArray[np.uint8], labels: list[int]) -> bytes:
    """The opcodes of the authors' files, one by one: protocol 2, texts as strings of bytes."""
    dtype = (
        b"cnumpy\ndtype\nq\x07"
        + text("u1")
        + b"K\x00K\x01\x87Rq\x08(K\x03"
        + text("|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85" + text("b") + b"\x87Rq\x05(K\x01"
    )
    array += b"M" + struct.pack("<H", len(pixels)) + b"M\x00\x0c\x86" + dtype + b"\x89"
    array += b"T" + struct.pack("<i", pixels.size) + pixels.tobytes() + b"tb"
    listed = b"]q\x0a(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    head = b"\x80\x02}q\x01(" + text("batch_label") + b"q\x02" + text("training batch 1 of 5")
    return head + text("labels") + listed + text("data") + array + text("filenames") + b"](" + text("a.png") + b"eu."


def folder_of(folder: Path, write: Any = as_python_2_wrote_it) -> Path:
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate((slice(0, 4), slice(4, 8)), 1):
        (folder / f"data_batch_{number}").write_bytes(write(PIXELS[rows], LABELS[rows]))
    (folder / "test_batch").write_bytes(write(PIXELS[8:], LABELS[8:]))
    (folder / "batches.meta").write_bytes(pickle.dumps({"num_vis": 3072, "label_names": NAMES}, 2))
    (folder / "readme.html").write_text("<p>")
    return folder


def python_3(protocol: int) -> Any:
    return lambda pixels, labels: pickle.dumps({b"labels": labels, b"data": pixels}, protocol)


@pytest.mark.parametrize("write", [as_python_2_wrote_it, *map(python_3, (2, 3, 4))])
def test_a_folder_gives_all_batches_names_and_the_test_part(tmp_path: Path, write: Any) -> None:
    found = read_table(folder_of(tmp_path / "cifar", write), partitioned=False)
    np.testing.assert_array_equal(PIXELS[:8].reshape(-1, 3, 32, 32), found.features)
    assert [found.class_names[code] for code in found.labels] == [NAMES[label] for label in LABELS[:8]]
    assert found.modality == "image"
    assert found.test is not None
    np.testing.assert_array_equal(PIXELS[8:].reshape(-1, 3, 32, 32), found.test.features)
    assert [found.class_names[code] for code in found.test.labels] == [NAMES[label] for label in LABELS[8:]]


def test_the_hand_written_batch_is_what_pickle_itself_reads(tmp_path: Path) -> None:
    data = as_python_2_wrote_it(PIXELS, LABELS)
    theirs, ours = pickle.loads(data, encoding="bytes"), plain_values(data)
    np.testing.assert_array_equal(theirs.pop(b"data"), ours.pop(b"data"))
    assert theirs == ours


def test_one_batch_is_read_alone_and_batches_given_by_name_are_silos(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "c")
    assert read_table(folder / "data_batch_2", partitioned=False).rows == 4
    assert read_table([folder / "data_batch_1", folder / "data_batch_2"]).party_names == (
        "data_batch_1",
        "data_batch_2",
    )


def test_cifar_100_has_fine_labels_unless_coarse_ones_are_asked_for(tmp_path: Path) -> None:
    for name, rows in (("train", slice(0, 8)), ("test", slice(8, 12))):
        batch = {"fine_labels": LABELS[rows], "coarse_labels": [k % 2 for k in LABELS[rows]], "data": PIXELS[rows]}
        (tmp_path / name).write_bytes(pickle.dumps(batch, 2))
    meta = {"fine_label_names": NAMES, "coarse_label_names": ["even", "odd"]}
    (tmp_path / "meta").write_bytes(pickle.dumps(meta, 2))
    fine: Any = read_cifar(tmp_path, Options())
    assert fine.labels.tolist() == [NAMES[label] for label in LABELS[:8]]
    assert len(fine.test.labels) == 4
    coarse = read_cifar(tmp_path, Options(label="coarse_labels"))
    assert coarse.labels.tolist() == [("even", "odd")[label % 2] for label in LABELS[:8]]


def test_an_index_over_the_batches_gives_their_rows_back(tmp_path: Path) -> None:
    partition_source(folder_of(tmp_path / "c"), "iid", tmp_path / "i.json", parameters={"num_partitions": 2})
    found = read_table(tmp_path / "i.json")
    assert (found.parties, found.rows) == (2, 8)
    assert found.features.sum() == PIXELS[:8].sum(dtype=np.int64)


class Harm:
    """What a hostile pickle does: it calls something."""

    def __reduce__(self) -> Any:
        return os.system, ("touch harmed",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_calls_something_is_refused_and_nothing_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": PIXELS, "labels": LABELS, "x": Harm()}, protocol))
    with pytest.raises(FedskewError, match="code is never run"):
        read_table(tmp_path, partitioned=False)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02cos\nsystem\n(U\x02lstR.", "it names 'os.system'"),
        (b"\x80\x02cnumpy\ndtype\nU\x01O\x85R.", "array of type 'O'"),
        (b"\x80\x02P1\n.", "opcode b'P'"),
        (b"\x80\x02}ccopy_reg\n_reconstructor\n.", "it names 'copy_reg._reconstructor'"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "a call"),
        (b"\x80\x02}(U\x01aK\x01", "cut at byte"),
        (b"\x80\x02}T\xff\xff\xff\xff.", "cut at byte"),
        (b"\x80\x02}T\xff\xff\xff\x7f.", "cut at byte"),
        (b"\x80\x02}K\x01e.", "no mark"),
        (b"\x80\x02K\x01K\x02.", "damaged"),
        (b"\x80\x02}h\x07.", "damaged"),
        (b"\x80\x02}(]K\x01u.", "a key of a dict"),
        (b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R.", "without values"),
        (b"", "cut at byte 0"),
    ],
)
def test_anything_but_plain_values_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(BadPickleError) as caught:
        plain_values(data)
    assert message in str(caught.value)


def test_nested_references_cannot_blow_up(tmp_path: Path) -> None:
    bomb = b"\x80\x02}" + b")" + b"".join(b"q\x01h\x01\x86" for _ in range(200))
    for end in (b"K\x01s.", b"\x93.", b"cnumpy\ndtype\nb.", b"R.", b"b."):
        with pytest.raises(BadPickleError):
            plain_values(bomb + end)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"labels": [1]}, "'data' is NoneType"),
        ({"data": PIXELS}, "has no labels"),
        ({"data": PIXELS, "labels": LABELS[:5]}, "12 images and 5 labels"),
        ({"data": PIXELS[:, :10], "labels": LABELS}, r"'data' is uint8 of shape \(12, 10\)"),
        ({"data": PIXELS.astype(float), "labels": LABELS}, "'data' is float64"),
        ({"data": PIXELS, "labels": [*LABELS[:11], "x"]}, "something else than whole numbers"),
        ({"data": PIXELS, "labels": [*LABELS[:11], -1]}, "something else than whole numbers"),
    ],
)
def test_a_batch_without_sound_data_and_labels_is_refused(tmp_path: Path, batch: Any, message: str) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(FedskewError, match=message):
        read_table(tmp_path / "data_batch_1", partitioned=False)


def test_mutated_batches_are_read_or_refused_but_never_crash(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for whole in (as_python_2_wrote_it(PIXELS[:1], LABELS[:1]), python_3(4)(PIXELS[:1], LABELS[:1])):
        opcodes = np.array([place for place in range(len(whole)) if place < 300 or place > len(whole) - 120])
        for _ in range(200):
            data = bytearray(whole)
            data[draw.choice(opcodes)] = draw.integers(256)
            if draw.random() < 0.2:
                data = data[: draw.integers(1, len(data))]
            (tmp_path / "data_batch_1").write_bytes(data)
            try:
                read_cifar(tmp_path / "data_batch_1", Options())
            except FedskewError as fault:
                assert "\n" not in str(fault)  # noqa: PT017 - both outcomes are right


def test_batches_beyond_memory_and_party_options_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "c")
    with pytest.raises(FedskewError, match="name no parties"):
        read_table(folder, party="site")
    with pytest.raises(FedskewError, match="no labels 'label'; did you mean 'labels'"):
        read_table(folder, label="label", partitioned=False)
    monkeypatch.setattr("fedskew.profiles.readers.base.available_memory", lambda: 1000)
    with pytest.raises(EnvironmentFaultError, match="memory"):
        read_table(folder, partitioned=False)

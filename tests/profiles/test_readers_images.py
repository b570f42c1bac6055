"""Folders of images: layout, order, conversions, bad files, bombs and links; and an index over them."""

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.index_file import read_index
from fedskew.profiles.partitioning import partition_source
from fedskew.profiles.readers import images as images_reader
from fedskew.profiles.readers import pixels as pixels_reader
from fedskew.profiles.readers.base import Options
from fedskew.profiles.readers.images import holds_images, read_images
from fedskew.profiles.readers.pixels import BadImageError, decode, decoding, read_header
from fedskew.profiles.table import read_table

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'fedskew[images]'")

GREY = (np.add.outer(np.arange(10), np.arange(8)) * 12).astype(np.uint8)  # 10 rows, 8 columns
COLOUR = np.stack([GREY, 255 - GREY, GREY[::-1]], axis=-1)


def save(path: Path, array: Any = GREY, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = array if isinstance(array, Image.Image) else Image.fromarray(array)
    image.save(path, **options)
    return path


@pytest.fixture
def silos(tmp_path: Path) -> Path:
    """Three parties, two classes; each image holds its own number in the first pixel."""
    root = tmp_path / "silos"
    number = 0
    for party in ("north", "nan", "10"):
        for label in ("cat", "dog"):
            for name in ("b", "a", "c10", "c9"):
                pixels = GREY.copy()
                pixels[0, 0] = number
                save(root / party / label / f"{name}.png", pixels)
                number += 1
    return root


def test_folders_name_the_party_and_the_class_and_paths_give_the_order(silos: Path) -> None:
    found = read_table(silos)
    assert found.modality == "image"
    assert found.party_names == ("10", "nan", "north")
    assert found.class_names == ("cat", "dog")
    assert found.features.shape == (24, 1, 10, 8)
    assert found.features.dtype == np.uint8
    files = sorted(str(path.relative_to(silos)) for path in silos.rglob("*.png"))
    pixels = [np.asarray(Image.open(silos / file)) for file in files]
    np.testing.assert_array_equal(found.features[:, 0], pixels)
    assert [found.party_names[p] for p in found.party] == [file.split("/")[0] for file in files]
    assert [found.class_names[k] for k in found.labels] == [file.split("/")[1] for file in files]
    assert found.findings == ()


def test_images_by_class_only_need_a_partition(silos: Path) -> None:
    with pytest.raises(FedskewError, match=r"read as classes.*fedskew partition"):
        read_table(silos / "north")
    found = read_table(silos / "north", partitioned=False)
    assert (found.party_names, found.class_names, found.rows) == (("all",), ("cat", "dog"), 8)


def test_a_party_without_images_is_a_party(silos: Path) -> None:
    (silos / "south").mkdir()
    found = read_table(silos)
    assert found.sizes.tolist() == [8, 8, 8, 0]
    assert [(f.code, f.parties) for f in found.findings] == [("empty_party", ("south",))]


def test_a_test_folder_is_read_in_the_channels_of_the_training_one(silos: Path, tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        save(tmp_path / "held" / name / "x.png")
    assert read_table(silos, test=tmp_path / "held").test.features.shape == (2, 1, 10, 8)  # type: ignore[union-attr]
    save(silos / "10" / "cat" / "colour.png", COLOUR)
    held = read_table(silos, test=tmp_path / "held").test
    assert held is not None
    np.testing.assert_array_equal(held.features, np.tile(GREY, (2, 3, 1, 1)))


def test_grey_stays_one_channel_and_one_colour_image_makes_all_rgb(tmp_path: Path) -> None:
    for i in range(4):
        save(tmp_path / "r" / "a" / f"{i}.png")
    assert read_images(tmp_path / "r", Options()).features.shape == (4, 1, 10, 8)
    save(tmp_path / "r" / "b" / "x.bmp", COLOUR)
    both = read_images(tmp_path / "r", Options())
    assert both.features.shape == (5, 3, 10, 8)
    np.testing.assert_array_equal(both.features[3], np.stack([GREY] * 3))
    np.testing.assert_array_equal(both.features[4], COLOUR.transpose(2, 0, 1))
    assert both.findings == ()


def decoded(path: Path) -> tuple[Any, str | None]:
    with decoding():
        return decode(path)


@pytest.mark.parametrize("ending", ["png", "bmp", "webp"])
def test_lossless_formats_give_back_the_pixels(ending: str, tmp_path: Path) -> None:
    options = {"lossless": True, "exact": True} if ending == "webp" else {}
    pixels, changed = decoded(save(tmp_path / f"x.{ending}", COLOUR, **options))
    np.testing.assert_array_equal(pixels, COLOUR)
    assert changed is None


def test_palette_cmyk_16_bit_and_transparency_are_converted_and_named(tmp_path: Path) -> None:
    grey_palette = Image.fromarray(GREY).convert("P")
    pixels, changed = decoded(save(tmp_path / "p.png", grey_palette))
    np.testing.assert_array_equal(pixels, GREY)
    assert changed == "palette"
    few = Image.fromarray(np.where(GREY[..., None] > 60, [255, 0, 0], [0, 0, 255]).astype(np.uint8))
    pixels, changed = decoded(save(tmp_path / "q.png", few.quantize(2)))
    np.testing.assert_array_equal(pixels, np.asarray(few))
    assert changed == "palette"
    pixels, changed = decoded(save(tmp_path / "c.jpg", Image.new("CMYK", (8, 10), (0, 255, 255, 0)), quality=95))
    assert changed == "CMYK"
    assert np.abs(pixels.astype(int) - [255, 0, 0]).max() <= 12  # full magenta and yellow are red
    pixels, changed = decoded(save(tmp_path / "w.png", GREY.astype(np.uint16) * 256 + 255))
    np.testing.assert_array_equal(pixels, GREY)
    assert changed == "16 bits a channel"
    clear = np.dstack([COLOUR, np.full((10, 8), 9, np.uint8)])
    pixels, changed = decoded(save(tmp_path / "a.png", clear))
    np.testing.assert_array_equal(pixels, COLOUR)
    assert changed == "transparency"
    pixels, _ = decoded(save(tmp_path / "1.png", Image.fromarray(GREY > 60)))
    np.testing.assert_array_equal(pixels, np.where(GREY > 60, 255, 0))


def test_16_bit_colour_keeps_its_high_byte(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    deep = (COLOUR.astype(np.uint16) * 256 + 7).astype(">u2").reshape(10, 24)
    body = b"".join(b"\0" + row.tobytes() for row in deep)
    path.write_bytes(png(8, 10, body, depth=16, kind=2))
    pixels, changed = decoded(path)
    np.testing.assert_array_equal(pixels, COLOUR)
    assert changed == "16 bits a channel"


def png(width: int, height: int, body: bytes, depth: int = 8, kind: int = 0) -> bytes:
    """A PNG written by hand, so that it may declare anything."""
    out = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(body)), (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return out


@pytest.mark.parametrize(("orientation", "turned"), [(1, GREY), (3, GREY[::-1, ::-1]), (6, np.rot90(GREY, -1))])
def test_exif_rotation_is_applied(orientation: int, turned: Any, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels, _ = decoded(save(tmp_path / "x.png", exif=exif))
    np.testing.assert_array_equal(pixels, turned)


def test_rotated_and_upright_images_of_one_size_go_together(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "r" / "a" / "0.png")
    save(tmp_path / "r" / "a" / "1.png", np.ascontiguousarray(np.rot90(GREY)), exif=exif)
    pixels = read_images(tmp_path / "r", Options()).features
    np.testing.assert_array_equal(pixels, [[GREY], [GREY]])


@pytest.mark.parametrize("ending", ["png", "webp"])
def test_of_an_animation_the_first_frame_counts(ending: str, tmp_path: Path) -> None:
    first, second = Image.fromarray(COLOUR), Image.fromarray(255 - COLOUR)
    options = {"lossless": True, "exact": True} if ending == "webp" else {}
    path = save(tmp_path / f"x.{ending}", first, save_all=True, append_images=[second], duration=9, **options)
    with Image.open(path) as image:
        assert image.n_frames == 2
    np.testing.assert_array_equal(decoded(path)[0], COLOUR)


@pytest.mark.parametrize(("width", "height"), [(10_000, 5_001), (10_000, 10_000), (30_000, 30_000)])
def test_a_bomb_is_an_error_before_a_pixel_is_decoded(
    width: int, height: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "r" / "a" / "0.png")
    (tmp_path / "r" / "a" / "bomb.png").write_bytes(png(width, height, b""))
    monkeypatch.setattr(images_reader, "decode", None)
    with pytest.raises(FedskewError, match=r"bomb.png: declares .* pixels; 50 million are allowed"):
        read_images(tmp_path / "r", Options())


def test_images_beyond_the_memory_are_refused_before_they_are_decoded(
    silos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedskew.profiles.readers import base

    monkeypatch.setattr(images_reader, "decode", None)
    monkeypatch.setattr(base, "available_memory", lambda: 3 * 24 * 80 - 1)
    with pytest.raises(EnvironmentFaultError, match="memory"):
        read_images(silos, Options())


@pytest.mark.parametrize(("content", "reason"), [
    (b"", "the file is empty"),
    (b"not an image", "no PNG, JPEG, BMP or WebP"),
    (b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", "no PNG, JPEG, BMP or WebP"),
    (png(8, 10, bytes(range(90)))[:80], "image file"),
])  # fmt: skip
def test_up_to_one_bad_file_in_a_hundred_is_left_out_counted_and_named(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    for i in range(99):
        save(tmp_path / "r" / "ab"[i % 2] / f"{i}.png")
    (tmp_path / "r" / "a" / "broken.png").write_bytes(content)
    found = read_images(tmp_path / "r", Options())
    assert len(found.features) == len(found.labels) == 99
    (finding,) = found.findings
    assert (finding.code, finding.count) == ("bad_file", 1)
    assert "1 of 100 images" in finding.text
    assert "'a/broken.png'" in finding.text
    assert reason in finding.text
    index = tmp_path / "i.json"
    partition_source(tmp_path / "r", "iid", index, parameters={"num_partitions": 3})
    assert read_table(index).rows == 99
    (tmp_path / "r" / "b" / "1.png").write_bytes(content)
    with pytest.raises(FedskewError, match=r"2 of 100 images cannot be read, and 1 in 100 is allowed: 'a/broken.png'"):
        read_images(tmp_path / "r", Options())


def test_the_party_of_a_bad_file_is_named(silos: Path) -> None:
    for party in ("10", "north"):
        for i in range(100):
            save(silos / party / "cat" / f"more{i}.png")
    (silos / "north" / "dog" / "bad.png").write_bytes(b"?")
    (finding,) = read_table(silos).findings
    assert (finding.code, finding.parties, finding.count) == ("bad_file", ("north",), 1)


def test_images_of_formats_that_are_not_read_count_as_bad(tmp_path: Path) -> None:
    save(tmp_path / "r" / "a" / "0.png")
    save(tmp_path / "r" / "a" / "1.gif")
    with pytest.raises(FedskewError, match=r"1 of 2 images cannot be read.*'a/1.gif' \(not read; save it as PNG\)"):
        read_images(tmp_path / "r", Options())


@pytest.mark.slow
def test_mutated_images_are_decoded_or_counted_and_nothing_else(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    originals = [
        save(tmp_path / f"{name}.{name[:3]}", image, **options).read_bytes()
        for name, image, options in (
            ("png", COLOUR, {"exif": exif}), ("png2", GREY.astype(np.uint16) * 99, {}), ("bmp", COLOUR, {}),
            ("png3", Image.fromarray(COLOUR).quantize(8), {}), ("jpg", COLOUR, {"exif": exif}),
            ("jpg2", COLOUR, {"progressive": True}), ("web", COLOUR, {"format": "WEBP"}),
            ("jpg3", Image.new("CMYK", (8, 10)), {}),
            ("png4", Image.fromarray(COLOUR), {"save_all": True, "append_images": [Image.fromarray(255 - COLOUR)]}),
        )
    ]  # fmt: skip
    rng = np.random.default_rng(11)
    outcomes = {"read": 0, "bad": 0, "refused": 0}
    path = tmp_path / "mutant"
    with decoding():
        for turn in range(2_000):
            data = bytearray(originals[turn % len(originals)])
            if turn % 3 == 0:
                del data[int(rng.integers(1, len(data))) :]
            for place in rng.integers(len(data), size=int(rng.integers(0, 6))):
                data[place] = rng.integers(256)
            path.write_bytes(data)
            try:
                read_header(path)
                pixels, _ = decode(path)
                assert pixels.dtype == np.uint8
                outcomes["read"] += 1
            except BadImageError:
                outcomes["bad"] += 1
            except FedskewError:
                outcomes["refused"] += 1
    assert sum(outcomes.values()) == 2_000
    assert min(outcomes["read"], outcomes["bad"]) > 200, outcomes


def test_the_first_image_of_another_size_is_named_with_what_to_try(silos: Path) -> None:
    save(silos / "nan" / "dog" / "b5.png", COLOUR[:6])
    save(silos / "north" / "dog" / "zz.png", COLOUR[:5])
    with pytest.raises(FedskewError, match=r"nan/dog/b5.png: is 8 x 6 pixels, but .*10/cat/a.png is 8 x 10.*8x10"):
        read_images(silos, Options())
    save(silos / "nan" / "dog" / "b5.png", np.ascontiguousarray(GREY.T))  # lies on its side
    with pytest.raises(FedskewError, match=r"b5.png: is 10 x 8 pixels|zz.png: is 8 x 5 pixels"):
        read_images(silos, Options())
    (silos / "north" / "dog" / "zz.png").unlink()
    with pytest.raises(FedskewError, match=r"b5.png: is 10 x 8 pixels, but .*10/cat/a.png is 8 x 10"):
        read_images(silos, Options())


def link_out(root: Path) -> None:
    outside = save(root.parent / "elsewhere" / "x.png")
    (root / "north" / "cat" / "link.png").symlink_to(outside)


def link_folder(root: Path) -> None:
    (root / "south").symlink_to(root / "north", target_is_directory=True)


def link_loop(root: Path) -> None:
    (root / "north" / "cat" / "loop.png").symlink_to(root / "north" / "cat" / "loop.png")


def link_dangling(root: Path) -> None:
    (root / "north" / "cat" / "gone.png").symlink_to(root / "nowhere.png")


def pipe(root: Path) -> None:
    os.mkfifo(root / "north" / "cat" / "pipe.png")


@pytest.mark.parametrize(("spoil", "message"), [
    (link_out, "link.png: is a link to .*elsewhere/x.png, outside"),
    (link_folder, "south: is a link to a folder"),
    (link_loop, "loop.png: cannot be opened"),
    (link_dangling, "gone.png: no such file"),
    (pipe, "pipe.png: is a pipe"),
    (lambda root: save(root / "x.png"), r"x.png and 10/cat/a.png: allowed are class/\*.png, or party"),
    (lambda root: save(root / "cat" / "x.png"), r"cat/x.png and 10/cat/a.png: allowed are class/\*.png, or party"),
    (lambda root: save(root / "north" / "NaN" / "x.png"), "a class folder is called 'NaN'"),
    (lambda root: save(root / " south" / "cat" / "x.png"), "a party folder is called ' south'"),
    (lambda root: (root / "notes.csv").write_text("a\n1\n"), "holds both notes.csv and folders of images.*--modality"),
])  # fmt: skip
def test_what_is_unclear_or_leads_out_is_an_error(spoil: Callable[[Path], object], message: str, silos: Path) -> None:
    spoil(silos)
    with pytest.raises(FedskewError, match=message) as error:
        read_table(silos)
    assert "\n" not in str(error.value)


def test_a_link_within_the_folder_is_followed(silos: Path) -> None:
    (silos / "north" / "dog" / "twin.png").symlink_to(silos / "north" / "cat" / "a.png")
    assert read_table(silos).rows == 25


def test_the_modality_decides_between_a_table_and_images(silos: Path) -> None:
    pl.DataFrame({"y": [0, 1, 0], "x": [1.0, 2.0, 3.0], "p": ["a", "b", "b"]}).write_csv(silos / "t.csv")
    assert read_table(silos, modality="image").rows == 24
    assert read_table(silos, modality="tabular", label="y", party="p").rows == 3
    (silos / "t.csv").unlink()
    assert read_table(silos, modality="tabular").features.shape == (24, 80)


def test_files_that_are_no_images_are_named_in_a_finding(silos: Path) -> None:
    (silos / "README.txt").write_text("x")
    (silos / "north" / "cat" / "deep").mkdir()
    (silos / "_cache").mkdir()
    (silos / ".git").mkdir()
    (finding,) = read_table(silos).findings
    assert (finding.code, finding.count) == ("ignored_file", 3)
    assert "'README.txt', '_cache', 'north/cat/deep'" in finding.text


def test_training_and_test_folders_are_not_taken_for_parties(tmp_path: Path) -> None:
    for split in ("train", "test"):
        save(tmp_path / "r" / split / "cat" / "x.png")
    with pytest.raises(FedskewError, match=r"folders test, train are no parties; give .* and --test"):
        read_table(tmp_path / "r")


def test_options_that_folders_answer_are_refused(silos: Path) -> None:
    with pytest.raises(FedskewError, match="leave out --label"):
        read_table(silos, label="x")
    with pytest.raises(FedskewError, match="leave out --party"):
        read_table(silos, party="x")
    with pytest.raises(FedskewError, match="is one image; give the folder"):
        read_table(silos / "10" / "cat" / "a.png")


def test_a_folder_without_images_or_tables_says_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert not holds_images(tmp_path)
    with pytest.raises(FedskewError, match=r"no readable file .*and no images in class/ or party/class/"):
        read_table(tmp_path)
    with pytest.raises(FedskewError, match="holds no images"):
        read_images(tmp_path, Options())


def test_names_of_files_that_are_no_text_do_not_break_anything(silos: Path) -> None:
    path = os.fsencode(silos / "north" / "cat") + b"/\xff.txt"
    with open(path, "wb") as file:  # noqa: PTH123 - a name that is not UTF-8
        file.write(b"x")
    (finding,) = read_table(silos).findings
    finding.text.encode("utf-8")


def test_a_missing_pillow_is_said_with_the_command_that_installs_it(silos: Path) -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from fedskew.cli import main\n"
        f"sys.argv = ['fedskew', 'profile', {str(silos)!r}]\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == (
        "fedskew: folders of images need Pillow, which is not installed: pip install 'fedskew[images]'\n"
    )


def test_pillow_keeps_its_own_limits(tmp_path: Path) -> None:
    before = Image.MAX_IMAGE_PIXELS
    decoded(save(tmp_path / "x.png"))
    assert before == Image.MAX_IMAGE_PIXELS
    assert pixels_reader.PIXELS == 50_000_000


@pytest.mark.parametrize("shape", [(10, 8), (4, 4), (40, 9), (10, 8, 3)])
@pytest.mark.parametrize("strategy", ["label_dirichlet", "iid+feature_noise"])
def test_index_and_silos_of_images_give_the_same_partition(
    shape: tuple[int, ...], strategy: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for i in range(60):
        save(tmp_path / "r" / f"c{i % 3}" / f"{i}.png", rng.integers(0, 256, shape).astype(np.uint8))
    root, index, written = tmp_path / "r", tmp_path / "i.json", tmp_path / "silos"
    made = partition_source(root, strategy, index, parameters={"num_partitions": 3}, write_silos=written)
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.png"))
    recorded = read_index(index)
    assert sorted(row for rows in recorded.parties.values() for row in rows) == list(range(60))
    by_index = read_table(index)
    words = (word.removeprefix("--") for word in made.silo_options)
    options: dict[str, Any] = dict(zip(words, words, strict=True))
    by_silos = read_table(written, **options)
    assert by_index.modality == by_silos.modality == "image"
    np.testing.assert_array_equal(by_index.features, by_silos.features)
    assert by_index.features.dtype == by_silos.features.dtype
    np.testing.assert_array_equal(by_index.labels, by_silos.labels)
    np.testing.assert_array_equal(by_index.party, by_silos.party)
    assert by_index.class_names == by_silos.class_names == ("c0", "c1", "c2")
    if strategy == "label_dirichlet":
        first = recorded.parties["0"][0]
        np.testing.assert_array_equal(
            np.asarray(Image.open(root / paths[first])).reshape(shape[0], shape[1], -1),
            by_index.features[0].transpose(1, 2, 0),
        )


def test_an_index_of_images_notices_any_change(silos: Path, tmp_path: Path) -> None:
    index = tmp_path / "i.json"
    partition_source(silos, "iid", index, parameters={"num_partitions": 2})
    save(silos / "10" / "cat" / "a.png", 255 - GREY)
    with pytest.raises(FedskewError, match="changed since this index was written"):
        read_table(index)

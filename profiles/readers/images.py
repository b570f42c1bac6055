"""Folders of images: ``party/class/*.png``, or ``class/*.png`` for data still to be partitioned."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError
from fedskew.profiles.noticed import counted, some
from fedskew.profiles.partitions import Finding, ordered_names
from fedskew.profiles.readers.base import MISSING_NAMES, Arrays, Options, Reader, check_file, check_memory
from fedskew.profiles.readers.pixels import BadImageError, decode, decoding, read_header

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
OTHERS = (".gif", ".tif", ".tiff", ".heic", ".avif", ".jp2", ".ppm", ".pgm", ".pbm", ".tga", ".svg", ".dcm", ".ico")
"""Images that are not read; each counts as a bad file, so that none is missing unnoticed."""
SPLITS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation"})
MOST_BAD = 0.01  # share of the files

Parts = tuple[str, ...]
Kind = Literal["image", "folder", "other"]


@dataclass(slots=True)
class _Found:
    """Images as path parts below the root in sorted order, folders of its first level, and what is neither."""

    images: list[Parts] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def holds_images(root: Path) -> bool:
    """Whether a folder has images in its subfolders; looks no further than the first one."""
    try:
        return any(kind == "image" and len(parts) > 1 for parts, kind, _ in _entries(root, ()))
    except EnvironmentFaultError:
        return False


def is_of_images(folder: Path, options: Options, tables: frozenset[str]) -> bool:
    """Whether a folder is one of images; where it holds tables as well, the modality decides.

    Raises
    ------
    FedskewError
        It holds both, and no modality was given; ``tables`` are the endings of the tables.
    """
    if not holds_images(folder):
        return False
    endings = tables - {".txt"}  # a README beside images is no table
    table = next((entry for entry in sorted(folder.iterdir()) if entry.suffix.lower() in endings), None)
    if table is None or options.modality is not None:
        return table is None or options.modality == "image"
    raise FedskewError(
        f"{folder}: holds both {table.name} and folders of images; say which are the data with "
        "--modality image or tabular"
    )


def read_images(root: Path, options: Options) -> Arrays:
    """Read a folder of images; rows are in the order of the sorted paths, one row an image.

    PNG, JPEG, BMP and WebP, told by content. Grey stays one channel if all images are grey, else all become RGB; of
    several frames the first counts. A file that cannot be decoded is left out, counted and named.

    Parameters
    ----------
    root : holds ``class/*.png``, or ``party/class/*.png``; names that begin with ``.`` or ``_`` do not count
    options : ``label`` and ``party`` must not be given, since folders name both

    Returns
    -------
    Arrays
        Features (N, C, H, W) uint8 with C 1 or 3; ``silos`` are the names of the party folders.

    Raises
    ------
    FedskewError
        No images, folders of another depth, sizes that differ, more than 1 % bad files, more than 50 million pixels
        in one, or a link that leads out of the folder.
    EnvironmentFaultError
        Pillow is missing, there is no permission, or memory cannot hold the images.
    """
    for what, given in (("label", options.label), ("party", options.party if options.party_required else None)):
        if given is not None:
            text = "folders name the class and the party of each image; leave out"
            raise FedskewError(f"{root}: --{what} is {given!r}, but {text} --{what}")
    found = _list(root)
    parties = _check_layout(root, found)
    with decoding():
        rows, pixels, noticed = _read(root, found.images)
    kept = [found.images[row] for row in rows]
    if found.others:
        text = f"{root.name}: not read, {some(sorted(found.others))}"
        noticed.append(Finding(code="ignored_file", severity="mild", text=text, count=len(found.others)))
    return Arrays(
        str(root),
        pixels,
        np.array([parts[-2] for parts in kept]),
        np.array([parts[0] for parts in kept]) if parties else None,
        findings=tuple(noticed),
        silos=parties,
        modality="image",
    )


def _entries(folder: Path, parts: Parts) -> Iterator[tuple[Parts, Kind, os.DirEntry[str]]]:
    """Everything down to ``party/class/file``, sorted by name within each folder; links to folders are not followed."""
    try:
        with os.scandir(folder) as entries:
            held = sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        raise EnvironmentFaultError(f"{folder}: permission denied") from None
    for entry in held:
        if entry.name.startswith("."):
            continue
        here = (*parts, entry.name)
        if entry.name.startswith("_"):
            yield here, "other", entry
        elif entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and Path(entry.path).is_dir()):
            yield here, "folder" if len(here) < 3 else "other", entry
            if len(here) < 3 and not entry.is_symlink():
                yield from _entries(folder / entry.name, here)
        else:
            yield here, "image" if Path(entry.name).suffix.lower() in {*ENDINGS, *OTHERS} else "other", entry


def _list(root: Path) -> _Found:
    found, inside = _Found(), root.resolve()
    for parts, kind, entry in _entries(root, ()):
        path = Path(entry.path)
        if kind != "other" and entry.is_symlink():
            target = Path(os.path.realpath(path))  # Path.resolve fails on a loop of links
            if kind == "folder" or not target.is_relative_to(inside):
                what = "a folder" if kind == "folder" else f"{target}, outside {root}"
                raise FedskewError(f"{path}: is a link to {what}; such links are not followed, copy the files")
        if kind == "image":
            if not path.is_file():
                check_file(path)  # says what it is
            found.images.append(parts)
        elif kind == "other":
            found.others.append("/".join(parts))
        elif len(parts) == 1:
            found.first.append(parts[0])
    found.images.sort()
    return found


def _check_layout(root: Path, found: _Found) -> Parts:
    """The names of the parties; none where the folders are classes."""
    layout = "allowed are class/*.png, or party/class/*.png"
    if not found.images:
        raise FedskewError(f"{root}: holds no images ({', '.join(ENDINGS)}); {layout}")
    first = {len(parts): parts for parts in reversed(found.images)}
    if len(first) > 1 or 1 in first:
        shown = " and ".join("/".join(parts) for _, parts in sorted(first.items()))
        raise FedskewError(f"{root}: {shown}: {layout}, the same for all images")
    parties = tuple(found.first) if 3 in first else ()
    if parties and {name.lower() for name in parties} <= SPLITS:
        shown = ", ".join(parties)
        raise FedskewError(f"{root}: its folders {shown} are no parties; give {root / parties[0]} and --test PATH")
    for what, names in (("party", parties), ("class", sorted({parts[-2] for parts in found.images}))):
        for name in names:
            readable = name.isprintable() and name == name.strip()
            if not readable or (what == "class" and name in MISSING_NAMES):
                raise FedskewError(f"{root}: a {what} folder is called {name!r}, which cannot be its name; rename it")
    return parties


def _read(root: Path, images: list[Parts]) -> tuple[list[int], NDArray[np.uint8], list[Finding]]:
    """Row numbers of the good files, their pixels (N, C, H, W), and findings."""
    bad: dict[str, str] = {}
    changed: Counter[str] = Counter()
    good = _survey(root, images, bad)
    rows: list[int] = []
    pixels: NDArray[np.uint8] | None = None
    for row in good:
        path = root.joinpath(*images[row])
        try:
            image, how = decode(path)
        except BadImageError as fault:
            bad["/".join(images[row])] = str(fault)
            continue
        if how:
            changed[how] += 1
        if pixels is None:
            pixels = np.empty((len(good), 1 if image.ndim == 2 else 3, *image.shape[:2]), np.uint8)
        if image.shape[:2] != pixels.shape[2:]:
            raise _differs(path, image.shape[1::-1], pixels.shape[:1:-1], root.joinpath(*images[rows[0]]))
        if image.ndim == 3 and pixels.shape[1] == 1:
            pixels = np.repeat(pixels, 3, axis=1)
        pixels[len(rows)] = image if image.ndim == 2 else image.transpose(2, 0, 1)
        rows.append(row)
    _check_bad(root, bad, len(images))
    assert pixels is not None
    parties = {name.partition("/")[0] for name in bad} if len(images[0]) == 3 else set()
    return rows, pixels[: len(rows)], _findings(bad, changed, len(images), ordered_names(parties))


def _survey(root: Path, images: list[Parts], bad: dict[str, str]) -> list[int]:
    """Read all headers: which files are worth decoding, and whether they fit into memory."""
    good: list[int] = []
    needed, widest, first = 0, 1, (0, 0)
    for row, parts in enumerate(images):
        path = root.joinpath(*parts)
        try:
            if Path(parts[-1]).suffix.lower() in OTHERS:
                raise BadImageError("not read; save it as PNG")
            if not path.stat().st_size:
                raise BadImageError("the file is empty")
            check_file(path)
            header = read_header(path)
        except BadImageError as fault:
            bad["/".join(parts)] = str(fault)
            continue
        size = (header.width, header.height)
        if good and sorted(size) != sorted(first):  # no rotation makes these the same
            raise _differs(path, size, first, root.joinpath(*images[good[0]]))
        first = first if good else size
        widest = widest if header.grey else 3
        needed += header.width * header.height
        good.append(row)
    _check_bad(root, bad, len(images))
    check_memory(root, 3 * needed * widest)
    return good


def _check_bad(root: Path, bad: dict[str, str], total: int) -> None:
    if len(bad) > MOST_BAD * total:
        raise FedskewError(
            f"{root}: {len(bad)} of {total} images cannot be read, and 1 in 100 is allowed: {_reasons(bad)}. "
            "Repair or remove them"
        )


def _reasons(bad: dict[str, str]) -> str:
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    return ", ".join(f"{name!r} ({reason})" for name, reason in sorted(bad.items())[:5]) + more


def _findings(bad: dict[str, str], changed: Counter[str], total: int, parties: tuple[str, ...]) -> list[Finding]:
    noticed = []
    if bad:
        text = f"{len(bad)} of {total} images cannot be read and were left out: {_reasons(bad)}"
        noticed.append(Finding(code="bad_file", severity="mild", text=text, parties=parties, count=len(bad)))
    if changed:
        text = f"images converted to 8-bit grey or RGB: {counted(dict(changed))}"
        noticed.append(Finding(code="converted_images", severity="mild", text=text, count=changed.total()))
    return noticed


def _differs(path: Path, size: tuple[int, ...], wanted: tuple[int, ...], first: Path) -> FedskewError:
    (width, height), (w, h) = size, wanted
    return FedskewError(
        f"{path}: is {width} x {height} pixels, but {first} is {w} x {h}; all images must have one size. "
        f"Resize them first, for example with mogrify -resize '{w}x{h}!'"
    )


IMAGES = Reader("folder of images", (), read_images)

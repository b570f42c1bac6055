"""One image file: its header checked before a pixel is decoded, then 8-bit grey or RGB, the right way up."""

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import EnvironmentFaultError, FedskewError

if TYPE_CHECKING:
    from PIL import Image, ImageFile

FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
"""What is decoded, by content and whatever the file is called; no other decoder of Pillow ever sees a byte."""
PIXELS = 50_000_000
"""Most pixels of one image."""
BROKEN = (
    OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, ArithmeticError, AttributeError,
    NotImplementedError, RuntimeError, AssertionError, struct.error, zlib.error,
)  # fmt: skip
"""What Pillow raises on a damaged file."""
GREY = frozenset({"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "F"})
_CHANGED = {"P": "palette", "PA": "palette", "CMYK": "CMYK", "RGBA": "transparency", "LA": "transparency"}


class BadImageError(Exception):
    """One file that cannot be decoded; counted and named by whoever reads many."""


@dataclass(frozen=True, slots=True)
class Header:
    """Width and height in pixels as stored, and whether the image can have but one channel."""

    width: int
    height: int
    grey: bool


@contextmanager
def decoding() -> Iterator[None]:
    """Within this block Pillow's warning about a decompression bomb is an error and its others are not shown.

    Raises
    ------
    EnvironmentFaultError
        Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        text = "folders of images need Pillow, which is not installed: pip install 'fedskew[images]'"
        raise EnvironmentFaultError(text) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def read_header(path: Path) -> Header:
    """Size and kind of an image from its first bytes.

    Raises
    ------
    BadImageError
        Not an image of an allowed format, or damaged.
    FedskewError
        It declares more than 50 million pixels.
    """
    with _opened(path) as image:
        return Header(image.width, image.height, image.mode in GREY)


def decode(path: Path) -> tuple[NDArray[np.uint8], str | None]:
    """Decode the first frame of an image, turned as its EXIF orientation says.

    Returns
    -------
    pixels : (H, W) or (H, W, 3) uint8; 16 bits a channel keep their high byte, transparency is dropped
    changed : what was converted, such as ``palette``, or None

    Raises
    ------
    BadImageError, FedskewError
        As :func:`read_header`.
    """
    from PIL import ImageOps

    with _opened(path) as image:
        try:
            deep = any("16" in str(tile[3]) for tile in image.tile)
            pixels, changed = _pixels(ImageOps.exif_transpose(image))
        except BROKEN as fault:
            raise BadImageError(_reason(fault)) from None
        return pixels, "16 bits a channel" if deep else changed


@contextmanager
def _opened(path: Path) -> "Iterator[ImageFile.ImageFile]":
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(path, formats=FORMATS)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise _too_large(path, "too many") from None
    except UnidentifiedImageError:
        raise BadImageError("no PNG, JPEG, BMP or WebP") from None
    except BROKEN as fault:
        raise BadImageError(_reason(fault)) from None
    with image:
        if image.width * image.height > PIXELS:
            raise _too_large(path, f"{image.width} x {image.height}")
        if min(image.size) < 1:
            raise BadImageError("it has no pixels")
        yield image


def _pixels(image: "Image.Image") -> tuple[NDArray[np.uint8], str | None]:
    changed = _CHANGED.get(image.mode, None if image.mode in {*GREY, "RGB"} else image.mode)
    if image.mode.startswith("I") or image.mode == "F":
        wide = np.clip(np.asarray(image), 0, 65_535).astype(np.uint16)
        return (wide >> 8).astype(np.uint8), "16 bits a channel"
    if image.mode in GREY:
        return np.asarray(image.convert("L")), changed
    colour = np.asarray(image.convert("RGB"))
    if changed == "palette" and bool((colour == colour[..., :1]).all()):
        return colour[..., 0], changed
    return colour, changed


def _too_large(path: Path, size: str) -> FedskewError:
    return FedskewError(
        f"{path}: declares {size} pixels; {PIXELS // 1_000_000} million are allowed. Shrink the images, or remove it"
    )


def _reason(fault: BaseException) -> str:
    return (str(fault).splitlines() or [""])[0][:60] or type(fault).__name__

"""One picture: bounded, rotated, encoded without metadata, and what its green says of the leaves.

Blocks, and takes time and memory: `program` runs it in a process of its own.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageChops, ImageStat, UnidentifiedImageError

from growd_camera.shot import Leaves, Prepared

if TYPE_CHECKING:
    from pathlib import Path

SMALL: Final = 320
"""Width of a preview in pixels."""
MOST_PIXELS: Final = 25_000_000
EXCESS_GREEN: Final = 0.2
"""A pixel is a leaf from this excess green index on."""
_SEEN: Final = 960  # width at which the leaves are measured: the edges of leaves are mixed with what is below
_DARK: Final = 24.0  # mean of r, g, b, of 255: darker pixels have noise in place of a colour
_LIT: Final = 0.05  # share of pixels above that, from which on a picture says something
_LEAST_PERCENT: Final = 0.1  # of leaves, whose colour says something: less is noise
_SMALL_QUALITY: Final = 75
_DAMAGE: Final = (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError)


class PictureError(Exception):
    """A file is no picture that can be used; the text says why."""


def prepare(
    source: Path, target: Path, small: Path, *, width: int, rotation: int = 0, quality: int = 85
) -> Prepared:
    """Write a JPEG of at most `width` pixels, turned clockwise by `rotation` degrees, and a preview.

    Both are on the disk when this returns. A JPEG is decoded at the smallest scale that has the width, so
    that a large one takes less memory. Raises `PictureError` and OSError.
    """
    with _opened(source) as image:
        try:
            image.draft("RGB", (width, 1))
            picture = image.convert("RGB")
        except _DAMAGE as error:
            raise PictureError("it is damaged or incomplete") from error
    picture.info = {}  # a comment and the like
    picture = _turned(_narrowed(picture, width), rotation)
    _write(picture, target, quality)
    _write(_narrowed(picture, SMALL), small, _SMALL_QUALITY)
    content = target.read_bytes()
    return Prepared(
        *picture.size,
        len(content),
        small.stat().st_size,
        hashlib.sha256(content).hexdigest(),
        leaves_in(picture),
    )


def leaves_in(picture: Image.Image) -> Leaves:
    """The leaves by excess green, 2g - r - b of chromatic coordinates (Woebbecke et al. 1995).

    With r + g + b = 1 the index is above a threshold t where (2 - t) G - (1 + t) (R + B) > 0 of the pixel's
    own values, which is linear. Greenness is the green chromatic coordinate G / (R + G + B) of all leaves
    (Gillespie, Kautz and Levine 1987; Richardson et al. 2007).
    """
    seen = _narrowed(picture, _SEEN)
    third = 1 / 3
    lit = seen.convert("L", (third, third, third, 0)).point(lambda mean: 255 * (mean > _DARK))
    if ImageStat.Stat(lit).mean[0] < 255 * _LIT:
        return Leaves(None, None)
    t = EXCESS_GREEN
    green = seen.convert("L", (-(1 + t), 2 - t, -(1 + t), 0)).point(lambda index: 255 * (index > 0))
    leaves = ImageChops.multiply(lit, green)
    pixels = leaves.histogram()[255]
    cover = round(100.0 * pixels / (seen.width * seen.height), 2)
    if cover < _LEAST_PERCENT:
        return Leaves(cover, None)
    red, greens, blue = ImageStat.Stat(seen, leaves).sum
    return Leaves(cover, round(greens / (red + greens + blue), 4))


def _opened(source: Path) -> Image.Image:
    Image.MAX_IMAGE_PIXELS = None  # the limit below is checked before a pixel is decoded
    try:
        image = Image.open(source, formats=("JPEG",))
    except UnidentifiedImageError:
        raise PictureError("it is not a JPEG") from None
    except FileNotFoundError:
        raise PictureError("there is none") from None
    except _DAMAGE as error:
        raise PictureError("it is damaged or incomplete") from error
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise PictureError(f"it has more than {MOST_PIXELS // 1_000_000} million pixels")
    return image


def _narrowed(picture: Image.Image, width: int) -> Image.Image:
    if picture.width <= width:
        return picture
    height = max(1, round(picture.height * width / picture.width))
    return picture.resize((width, height), Image.Resampling.BOX)


def _turned(picture: Image.Image, rotation: int) -> Image.Image:
    if not rotation:
        return picture
    ways = {
        90: Image.Transpose.ROTATE_270,  # Pillow turns counterclockwise
        180: Image.Transpose.ROTATE_180,
        270: Image.Transpose.ROTATE_90,
    }
    return picture.transpose(ways[rotation])


def _write(picture: Image.Image, target: Path, quality: int) -> None:
    with target.open("wb") as file:
        picture.save(file, "jpeg", quality=quality)
        file.flush()
        os.fsync(file.fileno())

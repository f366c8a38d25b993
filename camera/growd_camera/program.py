"""The process that takes one photo: `python -m growd_camera.program`, with a `ShotOrder` on standard input.

The picture is bounded, rotated, and encoded without metadata; its green says what leaves cover. The process
has a low priority, and bounds of memory and of the size of files, which the program of a camera inherits.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from PIL import Image, ImageChops, ImageStat, UnidentifiedImageError

from growd_camera.shot import LIMIT_S, Leaves, Prepared, Shot, ShotOrder

SMALL: Final = 320
"""Width of a preview in pixels."""
MOST_PIXELS: Final = 25_000_000
EXCESS_GREEN: Final = 0.2
"""A pixel is a leaf from this excess green index on."""
_SEEN: Final = 960  # width at which the leaves are measured: the edges of leaves are mixed with what is below
_DARK: Final = 24.0  # mean of r, g, b, of 255: darker pixels have noise in place of a colour
_LIT: Final = 0.05  # share of pixels above that, from which on a picture says something
_LEAST_PERCENT: Final = 0.1  # of leaves, whose colour says something: less is noise
_QUALITY: Final = 85  # of the JPEG
_SMALL_QUALITY: Final = 75
_DAMAGE: Final = (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError)


class PictureError(Exception):
    """A file is no picture that can be used; the text says why."""


def prepare(source: Path, target: Path, small: Path, *, width: int, rotation: int = 0) -> Prepared:
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
    _write(picture, target, _QUALITY)
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


MOST_BYTES: Final = 64 << 20
"""Of the file that a camera writes or sends."""
_MEMORY: Final = 1 << 30  # of addresses: libraries take a part of it
_ANSWER_S: Final = 15.0  # for each step of a request
_PIECE: Final = 64 << 10
_OK: Final = 200
_PACKAGES: Final = {"rpicam-still": "rpicam-apps-lite", "ffmpeg": "ffmpeg"}


def take(order: ShotOrder) -> Shot:
    """Take a photo and prepare it. Blocking."""
    source = Path(order.source)
    try:
        if order.programs:
            _run(order.programs)
        elif order.url:
            _fetch(order.url, source)
        picture = prepare(
            source,
            Path(order.target),
            Path(order.small),
            width=order.width,
            rotation=order.rotation,
        )
    except PictureError as error:
        return Shot(reason=f"the picture can't be used: {error}")
    except OSError as error:
        return Shot(reason=error.strerror or str(error) or type(error).__name__)
    except (http.client.HTTPException, ValueError) as error:
        return Shot(reason=f"the camera answered with {type(error).__name__}")
    except MemoryError:
        return Shot(reason="the picture takes too much memory")
    return Shot(picture)


def _run(programs: list[list[str]]) -> None:
    """Run the first program that is installed. Raises OSError."""
    command = next((each for each in programs if shutil.which(each[0])), None)
    if command is None:
        names = " or ".join(each[0] for each in programs)
        raise OSError(f"{names} is not installed: sudo apt install {_PACKAGES[programs[0][0]]}")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][-200:]
        raise OSError(f"{command[0]} ended with {done.returncode}: {last}".rstrip(": "))


def _fetch(url: str, source: Path) -> None:
    """Read an address into a file; http.client follows no redirect and uses no proxy."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    with closing(kind(parts.hostname or "", parts.port, timeout=_ANSWER_S)) as connection:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("GET", path, headers=_login(parts.username, parts.password))
            answer = connection.getresponse()
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise OSError(f"no answer from {parts.hostname}: {why}") from None
        if answer.status != _OK:
            raise OSError(f"{parts.hostname} answered with the status {answer.status}, not {_OK}: check url")
        left = MOST_BYTES
        with source.open("wb") as file:
            while piece := answer.read(_PIECE):
                left -= len(piece)
                if left < 0:
                    raise OSError(f"the camera sent more than {MOST_BYTES >> 20} MB")
                file.write(piece)


def _login(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def main() -> None:
    """Read the order, and print the `Shot`."""
    os.nice(15)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))  # the program of the camera, too
    signal.alarm(LIMIT_S + 5)  # should growd have been killed meanwhile
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ShotOrder)
    if not order.programs:  # a camera's own program maps as much as it likes
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.stdout.buffer.write(msgspec.json.encode(take(order)))


if __name__ == "__main__":
    main()

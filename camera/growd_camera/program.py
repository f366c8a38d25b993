"""The process that takes one photo: `python -m growd_camera.program`, with a `ShotOrder` on standard input.

It has a low priority, and bounds of memory and of the size of files, which the program of a camera inherits.
"""

from __future__ import annotations

import base64
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

from growd_camera.picture import PictureError, prepare
from growd_camera.shot import LIMIT_S, Shot, ShotOrder

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
            quality=order.quality,
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

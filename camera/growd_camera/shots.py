"""Takes a photo with a camera of whatever kind, by a process with limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from growd_camera.shot import LIMIT_S, Shot, ShotOrder

if TYPE_CHECKING:
    from pathlib import Path

    from growd.config.camera import Camera
    from growd_camera.shot import Prepared

_RPICAM: Final = ("--nopreview", "--timeout", "2000", "--encoding", "jpg", "--quality", "95", "--output")
"""Two seconds, in which the camera finds exposure and white balance (rpicam-still --help)."""
_MOST_DRAWN: Final = 1_920  # pixels; growd itself draws, and a picture takes memory
_FRAMES: Final = 15  # of a USB camera, until it has found its exposure


class ShotError(Exception):
    """A camera gave no picture; the text says why."""


class ShotFiles(NamedTuple):
    """The files of a photo that is being taken."""

    source: Path
    target: Path
    small: Path


class Draw(Protocol):
    """Draws the plants of a simulated chamber as a JPEG; None without one. Blocking."""

    def __call__(self, environment: str, width: int) -> bytes | None: ...


class Shooting:
    """Takes photos; `draw` is for simulated cameras."""

    def __init__(self, draw: Draw, *, limit_s: float = LIMIT_S) -> None:
        self._draw = draw
        self._limit_s = limit_s

    async def take(self, camera: Camera, environment: str, place: ShotFiles) -> Prepared:
        """Write the picture to `place.target`, and its preview. Raises `ShotError` and OSError."""
        if camera.kind == "simulated":
            await asyncio.to_thread(self._write_drawn, camera, environment, place)
        order = ShotOrder(
            str(place.source),
            str(place.target),
            str(place.small),
            width=camera.width,
            rotation=camera.rotation,
            programs=programs_of(camera, str(place.source)),
            url=camera.url,
        )
        shot = await self._done(order)
        if shot.picture is None:
            raise ShotError(shot.reason)
        return shot.picture

    def _write_drawn(self, camera: Camera, environment: str, place: ShotFiles) -> None:
        drawn = self._draw(environment, min(camera.width, _MOST_DRAWN))
        if drawn is None:
            raise ShotError("there is no simulated chamber")
        place.source.write_bytes(drawn)

    async def _done(self, order: ShotOrder) -> Shot:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-s", "-P", "-m", "growd_camera.program",
            stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        try:
            async with asyncio.timeout(self._limit_s):
                printed, complaint = await process.communicate(msgspec.json.encode(order))
        except TimeoutError:
            raise ShotError(f"the camera did not answer within {self._limit_s:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # it may have left a program of the camera
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        try:
            return msgspec.json.decode(printed, type=Shot)
        except msgspec.DecodeError:
            last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise ShotError(f"the program that takes photos has failed: {last}") from None


def programs_of(camera: Camera, target: str) -> list[list[str]]:
    """The commands that write a photo of this camera, of which the first that is installed is run."""
    if camera.kind == "rpicam":
        return [[name, *_RPICAM, target] for name in ("rpicam-still", "libcamera-still")]
    if camera.kind == "v4l2":
        chosen = f"select=gte(n\\,{_FRAMES})"
        begin = ["ffmpeg", "-loglevel", "error", "-y", "-f", "v4l2", "-i", camera.device]
        end = ["-vf", chosen, "-frames:v", "1", "-q:v", "2", "-f", "mjpeg", target]
        return [[*begin, *end]]
    return []

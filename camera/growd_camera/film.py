"""A film of photos: hands JPEGs to ffmpeg. Blocking."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


class FilmError(Exception):
    """The film can't be made; the text says why."""


class Film:
    """An H.264 film in `path`, with `fps` photos a second. Use it in `with`; without photos there is none.

    All photos become as large as the first one. Raises `FilmError`.
    """

    def __init__(self, path: Path, fps: float) -> None:
        if shutil.which("ffmpeg") is None:
            raise FilmError("ffmpeg is not installed: sudo apt install ffmpeg")
        self.frames = 0
        self.problem: FilmError | None = None
        """Why `try_to_add` added no more photos."""
        self._path = path
        self._fps = fps
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed with the film
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._process is not None:
                self._finish(self._process, is_whole=kind is None)
            if kind is None and self.problem is not None:
                raise self.problem
        finally:
            self._said.close()

    def add(self, photo: bytes) -> None:
        """Add a photo (JPEG)."""
        if self._process is None:
            self._process = self._started()
        try:
            _pipe(self._process).write(photo)
        except BrokenPipeError:
            raise FilmError(self._complaint()) from None
        self.frames += 1

    def try_to_add(self, photo: bytes) -> None:
        """Add a photo; an error is raised at the end, so that what makes the photos goes on."""
        try:
            if self.problem is None:
                self.add(photo)
        except FilmError as error:
            self.problem = error

    def _started(self) -> subprocess.Popen[bytes]:
        # even sizes and yuv420p, which all players have
        shape = "scale=trunc(iw/2)*2:trunc(ih/2)*2"
        command = [
            "ffmpeg", "-loglevel", "error", "-y", "-f", "image2pipe", "-framerate", f"{self._fps:g}",
            "-c:v", "mjpeg", "-i", "-", "-vf", shape, "-c:v", "libx264", "-pix_fmt", "yuv420p",
            "-movflags", "+faststart", "-f", "mp4", str(self._path),
        ]  # fmt: skip
        return subprocess.Popen(  # noqa: S603  our own command
            command, stdin=subprocess.PIPE, stdout=self._said, stderr=self._said, start_new_session=True
        )

    def _finish(self, process: subprocess.Popen[bytes], *, is_whole: bool) -> None:
        with contextlib.suppress(BrokenPipeError):
            _pipe(process).close()
        if not is_whole:
            process.kill()
        if process.wait() and is_whole:
            raise FilmError(self._complaint())

    def _complaint(self) -> str:
        self._said.seek(0)
        last = self._said.read().decode(errors="replace").strip().rpartition("\n")[2]
        return f"ffmpeg made no film: {last}"


def _pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None  # noqa: S101  it was opened with a pipe
    return process.stdin

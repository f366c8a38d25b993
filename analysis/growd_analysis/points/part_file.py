"""A file that is written in parts, with a mark of where to resume. Every call blocks."""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, Self

import msgspec

from growd.runtime.files import exists_already
from growd.store.errors import PartFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

_UNWRITTEN: Final = "%s can't be written: %s"
_MARK_S: Final = 0.5  # an interrupted export loses what came after the last mark

Place = tuple[str, str, str]
"""Where to resume: names of the part of the source, a key and a document id."""


class Mark(msgspec.Struct, frozen=True):
    """The `query` of a file, how much of it is on the disk, and where to resume (`place`)."""

    query: dict[str, str]
    bytes: int = 0
    rows: int = 0
    place: Place | None = None


class StreamFile:
    """A stream in place of a file: it can't be resumed."""

    def __init__(self, stream: BinaryIO) -> None:
        self.mark = Mark({})
        self._stream = stream

    def write(self, data: bytes, rows: int, place: Place | None) -> None:
        """Send so many rows. Raises `PartFileError`."""
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            raise  # the reader has closed it, which click handles
        except OSError as error:
            raise PartFileError(f"standard output can't be written: {error.strerror}") from None
        self.mark = Mark({}, self.mark.bytes + len(data), self.mark.rows + rows, place)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise `PartFileError` for an error of the system in the body."""
    try:
        yield
    except OSError as error:
        raise PartFileError(_UNWRITTEN % (path, error.strerror or error)) from None


class PartFile:
    """`path` while it is written, as `path`.part, with its mark in `path`.part.json.

    Resumes the part that is there if its `query` is the same, or starts over with `replace`. Raises
    `PartFileError` for another query, if `path` exists already, and for errors of the system. A private one
    is readable for its owner only.
    """

    def __init__(
        self, path: Path, query: dict[str, str], *, replace: bool = False, is_private: bool = False
    ) -> None:
        self._path = path
        self._mode = 0o600 if is_private else 0o666
        self.part = path.with_name(path.name + ".part")
        self._sidecar = path.with_name(path.name + ".part.json")
        if path.exists() and not replace:
            raise PartFileError(exists_already(path))
        self.mark = Mark(query) if replace else self._found(query)
        self._size = self.mark.bytes
        self._marked_at = time.monotonic()
        self._head = b""  # written before the first row
        self._file: BinaryIO | None = None
        if not path.parent.is_dir():
            raise PartFileError(_UNWRITTEN % (self.part, os.strerror(errno.ENOENT)))
        if self._size:
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, data: bytes, rows: int, place: Place | None) -> None:
        """Append so many rows; `place` is where to resume behind them.

        No file is made before the first row.
        """
        if not rows and self._file is None:
            self._head += data
            return
        self.append(data)
        self.mark = Mark(self.mark.query, self._size, self.mark.rows + rows, place)
        if time.monotonic() - self._marked_at > _MARK_S:
            self.save()

    def append(self, data: bytes) -> None:
        """Append data that counts with the next `write`: an interruption before it drops the data."""
        file = self._file or self._open()
        with explained(self.part):
            file.write(data)
        self._size += len(data)

    def begin(self) -> None:
        """Make the file, even without a row."""
        if self._file is None:
            self._open()

    def save(self) -> None:
        """Sync what was written, then write the mark."""
        if self._file is None:
            return
        with explained(self.part):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._write_mark()
        self._marked_at = time.monotonic()

    def finish(self) -> None:
        """Give the complete file its name."""
        self.begin()
        self.save()
        self.finish_as(self.part)

    def finish_as(self, whole: Path) -> None:
        """Give the name to another file, made from this one, and delete the parts."""
        if self._file is not None:
            self._file.close()
        with explained(self._path):
            whole.replace(self._path)
            self.part.unlink(missing_ok=True)
            self._sidecar.unlink(missing_ok=True)

    def _open(self) -> BinaryIO:
        with explained(self.part):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._file = os.fdopen(os.open(self.part, flags, self._mode), "r+b")
            os.fchmod(self._file.fileno(), self._mode & os.fstat(self._file.fileno()).st_mode)
            self._file.truncate(self._size)
            self._file.seek(self._size)
            self._file.write(self._head)
            self._size += len(self._head)
            self._head = b""
            self._write_mark()
        return self._file

    def _found(self, query: dict[str, str]) -> Mark:
        try:
            text = self._sidecar.read_bytes()
            mark = msgspec.json.decode(text, type=Mark)
            size = self.part.stat().st_size
        except FileNotFoundError:
            return Mark(query)
        except OSError as error:
            raise PartFileError(_UNWRITTEN % (self._sidecar, error.strerror)) from None
        except msgspec.DecodeError as error:
            raise PartFileError(f"{self._sidecar} can't be used ({error}): --replace starts over") from None
        if mark.query != query:
            other = ", ".join(
                f"{name} {mark.query.get(name) or 'not given'}"
                for name in sorted(mark.query | query)
                if mark.query.get(name) != query.get(name)
            )
            raise PartFileError(
                f"{self.part} was begun with another query ({other}): repeat that query to resume it, "
                "or start over with --replace"
            )
        if size < mark.bytes:
            raise PartFileError(f"{self.part} is shorter than its mark says: --replace starts over")
        return mark if mark.place is not None else Mark(query)

    def _write_mark(self) -> None:
        new = self._sidecar.with_name(self._sidecar.name + ".new")
        new.write_bytes(msgspec.json.encode(self.mark))
        new.replace(self._sidecar)

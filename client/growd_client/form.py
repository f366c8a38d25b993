"""An entry of the journal with photos, as a form."""

from __future__ import annotations

import secrets
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PIECE: Final = 64 * 1024
_JSON: Final = b"Content-Type: application/json\r\n"


class PhotoForm:
    """The form of an entry (multipart/form-data). Iterating gives its pieces; a file is open only meanwhile.

    The entry is JSON; a photo is a file or its content.
    """

    def __init__(self, entry: bytes, photos: Sequence[Path | bytes]) -> None:
        self._boundary = secrets.token_hex(16)
        self._entry = entry
        self._given = photos
        self._photos: list[tuple[Path | bytes, int]] = []
        self.media: Final = f"multipart/form-data; boundary={self._boundary}"

    def measure(self) -> int:
        """The size in bytes. Reads the sizes of the files, which the form keeps. Raises `UsageError`."""
        self._photos = self._photos or [(photo, _size_of(photo)) for photo in self._given]
        return sum(size if isinstance(part, Path) else len(part) for part, size in self._parts())

    def __iter__(self) -> Iterator[bytes]:
        for part, size in self._parts():
            if isinstance(part, Path):
                yield from _pieces(part, size)
            else:
                yield part

    def _parts(self) -> Iterator[tuple[Path | bytes, int]]:
        yield self._head(b"entry", _JSON) + self._entry, 0
        for photo, size in self._photos:
            yield b"\r\n" + self._head(b"photo"), 0
            yield photo, size
        yield f"\r\n--{self._boundary}--\r\n".encode(), 0

    def _head(self, name: bytes, more: bytes = b"") -> bytes:
        boundary = self._boundary.encode()
        return b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n%b\r\n' % (boundary, name, more)


def _size_of(photo: Path | bytes) -> int:
    if isinstance(photo, bytes):
        return len(photo)
    try:
        with photo.open("rb") as file:
            return file.seek(0, SEEK_END)
    except OSError as error:
        raise UsageError(f"the photo {photo} can't be read: {error.strerror}") from None


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    """At most `size` bytes: the file may grow meanwhile."""
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(size, _PIECE))):
            size -= len(piece)
            yield piece

"""A ZIP file with checksums whose bytes depend only on its content. Every call blocks."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, BinaryIO, Final, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from growd.runtime.files import exists_already, sync_folder
from growd.store.errors import PartFileError
from growd_analysis.points.part_file import explained

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

CHECKSUMS: Final = "SHA256SUMS"
_DATE: Final = (1980, 1, 1, 0, 0, 0)  # the first that ZIP has; that of now would change the bytes
_MODE: Final = 0o644 << 16
_UNIX: Final = 3
_PIECE: Final = 256 * 1024


class ZipMember:
    """A member that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Append."""
        self._file.write(data)
        self._hash.update(data)

    def digest(self) -> str:
        """The SHA-256 of what was written."""
        return self._hash.hexdigest()


class RunZip:
    """`path` while it is written, as `path`.part; `folder` is the folder of all members.

    `finish` adds the checksums and gives the file its name. Without it nothing is left. Raises
    `PartFileError` if `path` exists and may not be replaced, and for errors of the system.
    """

    def __init__(self, path: Path, folder: str, *, replace: bool = False) -> None:
        if path.exists() and not replace:
            raise PartFileError(exists_already(path))
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._folder = folder
        self._sums: list[str] = []
        with explained(self._part):
            self._zip = ZipFile(self._part, "w", ZIP_DEFLATED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError, ValueError):  # ValueError: a member is open
            self._zip.close()
        with suppress(OSError):
            self._part.unlink()

    @contextmanager
    def member(self, name: str, *, is_compressed: bool = True) -> Iterator[ZipMember]:
        """Write a member in the body; one at a time."""
        info = ZipInfo(f"{self._folder}/{name}", _DATE)
        info.compress_type = ZIP_DEFLATED if is_compressed else ZIP_STORED
        info.external_attr, info.create_system = _MODE, _UNIX
        with explained(self._part), self._zip.open(info, "w", force_zip64=True) as file:
            member = ZipMember(file)
            yield member
        self._sums.append(f"{member.digest()}  {name}\n")

    def add(self, name: str, content: bytes) -> None:
        """Add a whole member."""
        with self.member(name) as member:
            member.write(content)

    def add_file(self, name: str, file: BinaryIO) -> None:
        """Add the content of a file, from its beginning."""
        file.seek(0)
        with self.member(name) as member:
            while piece := file.read(_PIECE):
                member.write(piece)

    def finish(self) -> None:
        """Add the checksums of all members, and give the file its name."""
        self.add(CHECKSUMS, "".join(self._sums).encode())
        with explained(self._part):
            self._zip.close()
            with self._part.open("rb") as file:
                os.fsync(file.fileno())
            self._part.replace(self._path)
            sync_folder(self._path.parent)

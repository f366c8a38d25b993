"""The file of a backup: a tar archive, written member by member, with a manifest at its end.

docs/backup.md describes the format. The last member is `manifest.json` (`Manifest`) with the size and the
SHA-256 of every other. Every call blocks.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import msgspec

from growd.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import IO

    from growd_analysis.points.part_file import PartFile, Place

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
LINES: Final = ".jsonl.gz"
ATTACHMENTS: Final = "attachments/"
"""Before the SHA-256 of an attachment."""

_BLOCK: Final = tarfile.BLOCKSIZE
_PIECE: Final = 1 << 20
_MOST_JSON: Final = 64 << 20  # bytes of head or manifest: some 500 000 members
_MOST_LINES: Final = 128 << 20  # bytes of unpacked documents in a member; a backup writes a few MB

UnixTime = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class BackupError(StoreError):
    """A backup can't be made, read or restored; the message says why, and what to do."""


class DamagedBackupError(BackupError):
    """A file is no backup, is incomplete, or was changed; the message says what is damaged."""


class Member(msgspec.Struct, frozen=True):
    """A file in the archive; `documents` are its lines, if it has documents."""

    name: str
    size: int
    sha256: str
    documents: int = 0

    @property
    def folder(self) -> str:
        """The first two parts of the name: `databases/recipes`."""
        return "/".join(self.name.split("/")[:2])


class _Version(msgspec.Struct, frozen=True):
    format: int
    growd: str


class Manifest(_Version, frozen=True):
    """The last member. `device` is the id of the device, the times are UNIX seconds."""

    began: UnixTime
    finished: UnixTime
    device: str
    members: list[Member]

    def documents(self, folder: str) -> int:
        """How many lines the members in a folder have."""
        return sum(member.documents for member in self.members if member.folder == folder)


class ArchiveWriter:
    """Appends members to a part file; a part that was begun is checked and continued."""

    def __init__(self, file: PartFile, report: Callable[[int], None] = lambda _: None) -> None:
        """`report` gets the number of bytes of the earlier part that were checked."""
        self._file = file
        self.members: list[Member] = []
        if file.mark.bytes:
            with reading(file.part) as archive:
                self.members = list(archive.members(file.mark.bytes, report))
        self.names = {member.name for member in self.members}

    def add(self, name: str, content: bytes, place: Place, documents: int = 0) -> None:
        """Append a member; a later try resumes at `place`. Raises `PartFileError`."""
        data = b"".join((_header(name, len(content)), content, _padding(len(content))))
        self._file.write(data, documents, place)
        self._note(Member(name, len(content), hashlib.sha256(content).hexdigest(), documents))

    def add_file(self, name: str, source: IO[bytes], size: int) -> None:
        """Append `size` bytes of a file, which count once a member behind it is added.

        Raises `PartFileError`, and `BackupError` if the file is shorter.
        """
        self._file.append(_header(name, size))
        digest, left = hashlib.sha256(), size
        while left:
            piece = source.read(min(left, _PIECE))
            if not piece:
                raise BackupError(
                    f"{name} has become shorter while it was copied: run the same command again"
                )
            digest.update(piece)
            self._file.append(piece)
            left -= len(piece)
        self._file.append(_padding(size))
        self._note(Member(name, size, digest.hexdigest()))

    def finish(self, manifest: Manifest, place: Place) -> None:
        """Append the manifest and the end of the archive, and give the file its name."""
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        end = _padding(len(content)) + bytes(2 * _BLOCK)
        self._file.write(_header(MANIFEST, len(content)) + content + end, 0, place)
        self._file.finish()

    def _note(self, member: Member) -> None:
        self.members.append(member)
        self.names.add(member.name)


class ArchiveReader:
    """Reads an archive that is open."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}

    def members(
        self, end: int | None = None, report: Callable[[int], None] = lambda _: None
    ) -> Iterator[Member]:
        """All members up to byte `end`, each read whole. Raises `DamagedBackupError`."""
        with self._tar() as tar:
            last, place = "the beginning", 0
            while end is None or place < end:
                found = _next(tar)
                if found is None:
                    if end is not None:
                        self._damaged(f"no member begins behind {last}")
                    return
                yield self._member(tar, found)
                last, place = found.name, found.offset_data + found.size + -found.size % _BLOCK
                report(place)

    def checked(self, report: Callable[[int], None] = lambda _: None) -> Manifest:
        """The manifest, once every member was read and compared with it. Raises `BackupError`."""
        manifest = self.manifest()
        number = -1
        for number, found in enumerate(self.members(report=report)):
            if number == len(manifest.members):
                break
            self._compare(found, manifest.members[number])
        if number < len(manifest.members):
            self._damaged(f"{manifest.members[number + 1].name} is missing")
        return manifest

    def manifest(self) -> Manifest:
        """The last member. Raises `DamagedBackupError` if there is none, `BackupError` for a newer format."""
        last = "its first bytes"
        with self._tar() as tar:
            while (found := _next(tar)) is not None and found.name != MANIFEST:
                last = found.name
            if found is None or found.size > _MOST_JSON:
                self._damaged(f"it ends or is damaged behind {last}, and has no {MANIFEST}")
            try:
                content = _content(tar, found)
                made = msgspec.json.decode(content, type=_Version)
                if made.format > FORMAT:
                    raise BackupError(
                        f"{self._path} was made by growd {made.growd} in format {made.format}; "
                        f"this growd reads formats up to {FORMAT}: install a newer one"
                    )
                return msgspec.json.decode(content, type=Manifest)
            except (ValueError, RecursionError, tarfile.TarError):
                self._damaged(f"{MANIFEST} can't be read")

    def names(self) -> list[str]:
        """The names of all members; the same name may come again, and then the last one counts."""
        return [*self._found()]

    def read(self, name: str) -> bytes:
        """The content of a member. Raises `BackupError` if there is none of this name."""
        return b"".join(self.pieces(name))

    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of a member that `packed` made."""
        with gzip.open(io.BytesIO(self.read(name))) as packed_lines:
            content = packed_lines.read(_MOST_LINES)
        return (line.removesuffix(b"\n") for line in io.BytesIO(content))

    def size(self, name: str) -> int:
        """The size of a member in bytes."""
        return self._place(name)[1]

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content of a member, in pieces."""
        offset, left = self._place(name)
        while left:
            piece = os.pread(self._file.fileno(), min(left, _PIECE), offset)
            if not piece:
                self._damaged(f"{name} is cut off")
            yield piece
            offset, left = offset + len(piece), left - len(piece)

    def _place(self, name: str) -> tuple[int, int]:
        place = self._found().get(name)
        if place is None:
            self._damaged(f"{name} is missing")
        return place

    def _found(self) -> dict[str, tuple[int, int]]:
        """The place of the content of each member, and its size."""
        if not self._places:
            with self._tar() as tar:
                while (found := _next(tar)) is not None:
                    self._places[found.name] = found.offset_data, found.size
        return self._places

    def _member(self, tar: tarfile.TarFile, found: tarfile.TarInfo) -> Member:
        """A member whose content was read. Its lines are counted."""
        file = _opened(tar, found)
        if file is None:
            self._damaged(f"{found.name} is not a file")
        digest, size = hashlib.sha256(), 0
        unpacked = _Unpacked() if found.name.endswith(LINES) else None
        try:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                if unpacked is not None:
                    unpacked.add(piece)
        except (tarfile.TarError, zlib.error, OSError) as error:
            self._damaged(f"{found.name} can't be read: {error}")
        if unpacked is not None and unpacked.size > _MOST_LINES:
            self._damaged(f"{found.name} has more than {_MOST_LINES >> 20} MB of documents")
        if size != found.size or (unpacked is not None and not unpacked.is_complete):
            self._damaged(f"{found.name} is cut off")
        if found.name.startswith(ATTACHMENTS) and found.name != ATTACHMENTS + digest.hexdigest():
            self._damaged(f"{found.name} has changed: its name is its checksum")
        return Member(found.name, size, digest.hexdigest(), 0 if unpacked is None else unpacked.lines)

    def _compare(self, found: Member, expected: Member) -> None:
        if found.name != expected.name:
            self._damaged(f"{found.name} stands in the place of {expected.name}")
        if found != expected:
            self._damaged(f"{found.name} has changed: its checksum differs from that in {MANIFEST}")

    @contextmanager
    def _tar(self) -> Iterator[tarfile.TarFile]:
        self._file.seek(0)
        try:
            with tarfile.open(fileobj=self._file, mode="r:") as tar:
                yield tar
        except tarfile.TarError as error:
            raise DamagedBackupError(f"{self._path} is not a backup of growd: {error}") from None
        except OSError as error:
            raise BackupError(f"{self._path} can't be read: {error.strerror or error}") from None

    def _damaged(self, what: str) -> NoReturn:
        raise DamagedBackupError(f"{self._path} is damaged: {what}")


class _Unpacked:
    """Counts the lines of a gzip member and its unpacked bytes, up to a limit, in little memory."""

    def __init__(self) -> None:
        self.lines = 0
        self.size = 0
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def is_complete(self) -> bool:
        return self._stream.eof

    def add(self, packed_piece: bytes) -> None:
        """Unpack the next piece. Raises `zlib.error`."""
        while packed_piece and self.size <= _MOST_LINES:
            content = self._stream.decompress(packed_piece, _PIECE)
            self.lines += content.count(b"\n")
            self.size += len(content)
            packed_piece = self._stream.unconsumed_tail


@contextmanager
def reading(path: Path) -> Iterator[ArchiveReader]:
    """An archive. Raises `BackupError` if it can't be opened."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise BackupError(f"{path} can't be read: {error.strerror}") from None
    with file:
        yield ArchiveReader(path, file)


def packed(lines: list[bytes]) -> bytes:
    """JSON lines as a member has them; equal lines give equal bytes."""
    return gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)


def _next(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    """The next member; None at the end, and where it can't be read."""
    try:
        return tar.next()
    except (tarfile.ReadError, ValueError, OverflowError):  # also of numbers in its extended headers
        return None


def _opened(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes] | None:
    """The content of a file; None of a link, of a file with holes, and of whatever else tar knows."""
    return tar.extractfile(member) if member.isreg() and not member.issparse() else None


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = _opened(tar, member)
    return b"" if file is None else file.read()


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o600
    return info.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)

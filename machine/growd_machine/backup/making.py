"""Makes a backup: the data folder first, then the databases, so that no acknowledged point is missed.

`_all_docs` gives the documents that exist, `_changes` from a sequence before it what was written since. Both
together are the state of the database at the end of the reading. Tombstones come only from the changes, so
documents that were deleted before are left out. Each document has the form of a replication: `_rev` and, from
the second revision on, `_revisions`; all leaves of a conflict follow one another.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import aclosing
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd import __version__
from growd.store.encoding import to_json
from growd.store.errors import CouchAnswerTooLargeError, CouchRefusedError
from growd_machine.backup.archive import (
    ATTACHMENTS,
    FORMAT,
    LINES,
    ArchiveWriter,
    Manifest,
    packed,
)
from growd_machine.backup.revisions import bulk_get
from growd_machine.backup.state import copied_files, device_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
    from pathlib import Path

    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document
    from growd_analysis.points.part_file import PartFile, Place

CHUNK_BYTES: Final = 4 << 20
"""JSON lines in one member, before they are packed."""

STATE: Final = "state"
DATABASES: Final = "databases"
SECURITY: Final = "security.json"
_NOT_FOUND: Final = 404
_IN_MEMORY: Final = 4 << 20  # bytes of an attachment
ORDER: Final = (
    "environmental_data_point",
    "environmental_event",
    "recipe_run",
    "recipes",
    "environment",
    "environmental_photo",
    "environmental_rollup",
)
"""The databases in the order of copying. Rollups come last: they have points that are retired meanwhile."""
MOST_ROWS: Final = 1_000
"""Documents in one answer; fewer while documents are large."""
_HISTORIES: Final = 100  # revisions in one request


class _DatabaseProgress(msgspec.Struct, omit_defaults=True):
    """`since` is where the changes ended when the reading began, then up to where they were read."""

    since: str
    after: str = ""
    is_read: bool = False
    chunk: int = 0


class _Progress(msgspec.Struct):
    began: float
    databases: dict[str, _DatabaseProgress] = {}

    def place(self) -> Place:
        return ("backup", "", msgspec.json.encode(self).decode())


class Backup:
    """One backup into a part file, of a database server and a data folder.

    `report` gets the number of documents that were read, and how many there are. `missing` are databases that
    the server does not have.
    """

    def __init__(
        self,
        file: PartFile,
        couch: Couch,
        names: Databases,
        data: Path,
        *,
        design: str,
        report: Callable[[int, int], None] = lambda *_: None,
    ) -> None:
        self.missing: list[str] = []
        self._file = file
        self._couch = couch
        self._names = names.names_by_folder()
        self._data = data
        self._design = f"_design/{design}"
        self._report = report
        place = file.mark.place
        self._progress = (
            _Progress(time.time()) if place is None else msgspec.json.decode(place[2], type=_Progress)
        )
        self._read = 0
        self._total = 0
        self._writer: ArchiveWriter

    async def run(self, others: Callable[[], Iterable[tuple[str, bytes]]]) -> Manifest:
        """Make it, or continue it. `others` are more files, asked for at the end; blocking.

        Raises `BackupError`, `CouchError` and `PartFileError`.
        """
        self._writer = await asyncio.to_thread(self._opened)
        await asyncio.to_thread(self._copy_state)
        self._total = sum([await self._number(folder) for folder in ORDER])
        for folder in ORDER:
            if self._names[folder] not in self.missing:
                await self._copy_database(folder)
        return await asyncio.to_thread(self._finish, others)

    def _opened(self) -> ArchiveWriter:
        self._file.begin()
        return ArchiveWriter(self._file)

    def _copy_state(self) -> None:
        """Copy the data folder once more: points may have come since an earlier try."""
        copies = {name.split("/")[1][:3] for name in self._writer.names if name.startswith(f"{STATE}/")}
        number = len(copies) + 1
        scratch = self._file.part.with_name(f"{self._file.part.name}.sqlite3")
        for copied in copied_files(self._data, scratch):
            self._writer.add_file(f"{STATE}/{number:03d}/{copied.name}", copied.content, copied.size)
        self._writer.add(f"{STATE}/{number:03d}.complete", b"", self._progress.place())

    async def _number(self, folder: str) -> int:
        info = await self._couch.info(self._names[folder])
        if info is None:
            self.missing.append(self._names[folder])
            return 0
        return int(info.get("doc_count", 0))

    async def _copy_database(self, folder: str) -> None:
        reader = DocumentReader(self._couch, self._names[folder])
        progress = self._progress.databases.get(folder)
        if progress is None:
            progress = _DatabaseProgress(await reader.sequence())
            self._progress.databases[folder] = progress
            await self._copy_security(folder)
        lines = _Lines(self._writer, self._progress, folder, progress)
        if not progress.is_read:
            async for page in reader.documents(progress.after):
                await self._copy_page(lines, page)
                progress.after = page.place
                await lines.write_if_many()
                self._report(self._read, self._total)
            progress.is_read = True
        async for page in reader.changes(progress.since):
            await self._copy_page(lines, page)
            progress.since = page.place
            await lines.write_if_many()
        await lines.write()

    async def _copy_page(self, lines: _Lines, page: DocumentPage) -> None:
        for document in page.documents:
            if document["_id"] == self._design or not await self._copy_attachments(lines.folder, document):
                continue
            lines.append(document)
        self._read += len(page.documents)

    async def _copy_attachments(self, folder: str, document: Document) -> bool:
        """Copy what the archive does not have. False if this revision was removed meanwhile."""
        for name, stub in document.get("_attachments", {}).items():
            pieces = self._couch.attachment(self._names[folder], document["_id"], document["_rev"], name)
            with tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(self._file.part.parent)) as spool:
                try:
                    digest, size = await _spool(pieces, spool)
                except CouchRefusedError as error:
                    if error.status == _NOT_FOUND:
                        return False
                    raise
                stub["sha256"] = digest
                if ATTACHMENTS + digest not in self._writer.names:
                    spool.seek(0)
                    await asyncio.to_thread(self._writer.add_file, ATTACHMENTS + digest, spool, size)
        return True

    async def _copy_security(self, folder: str) -> None:
        security = await self._couch.security(self._names[folder])
        if security:
            content = to_json(security).encode() + b"\n"
            name = f"{DATABASES}/{folder}/{SECURITY}"
            await asyncio.to_thread(self._writer.add, name, content, self._progress.place())

    def _finish(self, others: Callable[[], Iterable[tuple[str, bytes]]]) -> Manifest:
        place = self._progress.place()
        for name, content in others():
            self._writer.add(name, content, place)
        manifest = Manifest(
            FORMAT,
            __version__,
            self._progress.began,
            time.time(),
            device_of(self._data),
            self._writer.members,
        )
        self._writer.finish(manifest, place)
        return manifest


class _Lines:
    """Documents of a database that become a member together."""

    def __init__(
        self, writer: ArchiveWriter, whole: _Progress, folder: str, progress: _DatabaseProgress
    ) -> None:
        self.folder = folder
        self._writer = writer
        self._whole = whole
        self._progress = progress
        self._lines: list[bytes] = []
        self._bytes = 0

    def append(self, document: Document) -> None:
        line = to_json(document).encode()
        self._lines.append(line)
        self._bytes += len(line)

    async def write_if_many(self) -> None:
        if self._bytes >= CHUNK_BYTES:
            await self.write()

    async def write(self) -> None:
        """Make them a member, behind which a later try resumes."""
        lines, self._lines, self._bytes = self._lines, [], 0
        self._progress.chunk += 1
        name = f"{DATABASES}/{self.folder}/{self._progress.chunk:06d}{LINES}"
        place = self._whole.place()
        await asyncio.to_thread(lambda: self._writer.add(name, packed(lines), place, len(lines)))


async def _spool(pieces: AsyncGenerator[bytes], spool: IO[bytes]) -> tuple[str, int]:
    """Write all pieces; their SHA-256 and number of bytes."""
    digest, size = sha256(), 0
    async with aclosing(pieces):
        async for piece in pieces:
            digest.update(piece)
            size += len(piece)
            await asyncio.to_thread(spool.write, piece)
    return digest.hexdigest(), size


class DocumentPage(NamedTuple):
    """Documents that were read together, and the id or the sequence to resume behind.

    Where that has not moved, more documents of the same answer follow.
    """

    documents: list[Document]
    place: str


class DocumentReader:
    """Reads one database. Every call raises `CouchError`."""

    def __init__(self, couch: Couch, database: str) -> None:
        self._couch = couch
        self._database = database
        self._rows = MOST_ROWS

    async def sequence(self) -> str:
        """Where the changes end now."""
        return str((await self._couch.changes(self._database, "now", 1))["last_seq"])

    async def documents(self, after: str = "") -> AsyncGenerator[DocumentPage]:
        """All documents that exist, in the order of their ids, behind the id `after`."""
        is_last = False
        while not is_last:
            asked = self._rows
            start = {"startkey": after} if after else {}
            try:
                rows = await self._couch.all_docs(
                    self._database, include_docs=True, conflicts=True, limit=asked + 1, **start
                )
            except CouchAnswerTooLargeError:
                self._ask_for_fewer()
                continue
            is_last = len(rows) <= asked
            found = [row["doc"] for row in rows if row["id"] != after and row.get("doc")]
            async for documents in self._revisions(_leaves(found)):
                yield DocumentPage(documents, after)
            if rows:
                after = rows[-1]["id"]
            yield DocumentPage([document for document in found if _is_simple(document)], after)
            self._rows = min(MOST_ROWS, 2 * asked)

    async def changes(self, since: str) -> AsyncGenerator[DocumentPage]:
        """The documents that were written or deleted after the sequence `since` and before this call."""
        left: int | None = None
        while left is None or left > 0:
            answer = await self._couch.changes(self._database, since, MOST_ROWS, all_leaves=True)
            rows: list[dict[str, Any]] = answer["results"]
            left = (len(rows) + int(answer.get("pending", 0)) if left is None else left) - len(rows)
            revisions = [(row["id"], change["rev"]) for row in rows for change in row["changes"]]
            async for documents in self._revisions(revisions):
                yield DocumentPage(documents, since)
            since = str(answer["last_seq"])
            yield DocumentPage([], since)
            if not rows:
                return

    async def _revisions(self, revisions: Sequence[tuple[str, str]]) -> AsyncGenerator[list[Document]]:
        """These revisions, without those that were removed meanwhile: the changes have newer ones."""
        parts = [revisions[start : start + _HISTORIES] for start in range(0, len(revisions), _HISTORIES)]
        while parts:
            part = parts.pop(0)
            try:
                yield await bulk_get(self._couch, self._database, part)
            except CouchAnswerTooLargeError:
                if len(part) == 1:
                    raise
                parts[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]

    def _ask_for_fewer(self) -> None:
        if self._rows == 1:
            raise CouchAnswerTooLargeError(f"a document in {self._database} is too large to be read")
        self._rows = max(1, self._rows // 8)


def _leaves(documents: list[Document]) -> list[tuple[str, str]]:
    """The leaves of those documents of which `_all_docs` leaves out histories or losing leaves."""
    others = (document for document in documents if not _is_simple(document))
    return [(each["_id"], rev) for each in others for rev in (each["_rev"], *each.get("_conflicts", ()))]


def _is_simple(document: Document) -> bool:
    """Whether its revision is the first, and has no rival."""
    return str(document["_rev"]).startswith("1-") and "_conflicts" not in document

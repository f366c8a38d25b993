"""Writes the documents of a backup into empty databases, and compares them."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.errors import CouchRefusedError
from growd_machine.backup.archive import ATTACHMENTS, LINES, BackupError, DamagedBackupError
from growd_machine.backup.making import DATABASES, ORDER, SECURITY
from growd_machine.backup.revisions import bulk_get, put_with_attachments, unknown_revisions, write_revisions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document
    from growd_machine.backup.archive import ArchiveReader

_TOGETHER: Final = 200  # documents in one request
_BYTES: Final = 4 << 20  # of them


class _Stub(msgspec.Struct):
    content_type: str
    revpos: int
    length: int
    sha256: str


class _Revisions(msgspec.Struct):
    start: int
    ids: list[str]


class _Line(msgspec.Struct, rename=lambda name: f"_{name}"):
    """What a restore reads of a document."""

    id: str
    rev: str
    revisions: _Revisions | None = None
    attachments: dict[str, _Stub] = {}


class Restoration:
    """The documents of one backup, on their way into a database server.

    `report` gets the number of documents that were written or compared. Every call raises `BackupError` and
    `CouchError`.
    """

    def __init__(
        self,
        archive: ArchiveReader,
        couch: Couch,
        names: Databases,
        *,
        design: str,
        report: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._archive = archive
        self._couch = couch
        self._names = names.names_by_folder()
        self._design = f"_design/{design}"
        self._report = report
        self._done = 0

    async def check_empty(self) -> None:
        """Raise `BackupError` if a database has documents apart from design documents."""
        full = [name for name in self._names.values() if await self._has_documents(name)]
        if full:
            raise BackupError(
                f"there are documents in {', '.join(full)}: restore into another database server or with "
                "another [couchdb] prefix, or delete these databases if their documents are not needed"
            )

    async def prepare(self) -> None:
        """Make the databases. growd's functions in them, which may refuse old points, come with its start."""
        for folder in ORDER:
            name = self._names[folder]
            if await self._couch.create(name):
                continue
            design = await self._couch.get(name, self._design)
            if design is not None:
                await self._couch.bulk_docs(name, [{**_named(design), "_deleted": True}])

    async def write(self, written: list[str], done: Callable[[str], None]) -> None:
        """Write the documents, apart from those of members in `written`; `done` is called behind a member."""
        for member in self._members():
            if member not in written:
                async for documents in self._documents(member):
                    await self._write(self._names[member.split("/")[1]], documents)
                await asyncio.to_thread(done, member)

    async def restore_security(self) -> list[str]:
        """Write who may read and write the databases; the names of those that did not allow it."""
        refused = []
        for folder, name in self._names.items():
            member = f"{DATABASES}/{folder}/{SECURITY}"
            if member in await asyncio.to_thread(self._archive.names):
                content = await asyncio.to_thread(self._archive.read, member)
                try:
                    await self._couch.put_security(name, _decoded(content, member))
                except CouchRefusedError:
                    refused.append(name)
        return refused

    async def compare(self) -> int:
        """Compare each revision of the backup with the database; how many documents the databases have."""
        self._done = 0
        for member in self._members():
            async for documents in self._documents(member):
                await self._compare(self._names[member.split("/")[1]], documents)
        infos = [await self._couch.info(name) for name in self._names.values()]
        return sum(int(info.get("doc_count", 0)) for info in infos if info is not None)

    def _members(self) -> Iterator[str]:
        for folder in ORDER:
            begin = f"{DATABASES}/{folder}/"
            yield from (
                name for name in self._archive.names() if name.startswith(begin) and name.endswith(LINES)
            )

    async def _documents(self, member: str) -> AsyncGenerator[list[Document]]:
        """The documents of a member, in parts."""
        lines = await asyncio.to_thread(self._archive.lines, member)
        part: list[Document] = []
        size = 0
        for line in lines:
            part.append(_document(line, member))
            size += len(line)
            if len(part) == _TOGETHER or size > _BYTES:
                yield part
                self._count(part)
                part, size = [], 0
        yield part
        self._count(part)

    def _count(self, documents: list[Document]) -> None:
        self._done += len(documents)
        self._report(self._done)

    async def _has_documents(self, name: str) -> bool:
        if not await self._couch.exists(name):
            return False
        before = await self._couch.all_docs(name, limit=1, endkey="_design/", inclusive_end=False)
        behind = await self._couch.all_docs(name, limit=1, startkey="_design0")
        return bool(before or behind)

    async def _write(self, name: str, documents: list[Document]) -> None:
        plain = [document for document in documents if "_attachments" not in document]
        if plain:
            await write_revisions(self._couch, name, plain)
        for document in documents:
            if "_attachments" in document:
                await self._write_with_attachments(name, document)

    async def _write_with_attachments(self, name: str, document: Document) -> None:
        members = [ATTACHMENTS + stub["sha256"] for stub in document["_attachments"].values()]
        contents = [(self._archive.size(member), self._content(member)) for member in members]
        following = {
            each: {
                "content_type": stub["content_type"],
                "revpos": stub["revpos"],
                "length": size,
                "follows": True,
            }
            for (each, stub), (size, _) in zip(document["_attachments"].items(), contents, strict=True)
        }
        await put_with_attachments(self._couch, name, document | {"_attachments": following}, contents)

    async def _content(self, member: str) -> AsyncGenerator[bytes]:
        pieces = self._archive.pieces(member)
        while (piece := await asyncio.to_thread(next, pieces, b"")) != b"":
            yield piece

    async def _compare(self, name: str, documents: list[Document]) -> None:
        """Compare all that the database still has. It may have removed the content of replaced revisions."""
        if not documents:
            return
        expected = {(document["_id"], document["_rev"]): document for document in documents}
        found = {
            (document["_id"], document["_rev"]): document
            for document in await bulk_get(self._couch, name, [*expected])
        }
        for key, document in expected.items():
            if key in found and _comparable(found[key]) != _comparable(document):
                raise BackupError(f"{key[0]} in {name} differs from the backup after the restore")
            if key in found:
                await self._compare_attachments(name, document)
        absent = [key for key in expected if key not in found]
        wanted = {
            document_id: [rev for each, rev in absent if each == document_id] for document_id, _ in absent
        }
        unknown = await unknown_revisions(self._couch, name, wanted) if wanted else {}
        if unknown:
            raise BackupError(f"{next(iter(unknown))} is missing in {name} after the restore")

    async def _compare_attachments(self, name: str, document: Document) -> None:
        for each, stub in document.get("_attachments", {}).items():
            digest = sha256()
            async for piece in self._couch.attachment(name, document["_id"], document["_rev"], each):
                digest.update(piece)
            if digest.hexdigest() != stub["sha256"]:
                raise BackupError(
                    f"{each} of {document['_id']} in {name} differs from the backup after the restore"
                )


def _document(line: bytes, member: str) -> Document:
    document = _decoded(line, member)
    try:
        msgspec.convert(document, _Line)
    except msgspec.ValidationError as error:
        raise DamagedBackupError(f"{member} has a line that is no document: {error}") from None
    return document


def _decoded(content: bytes, member: str) -> Document:
    try:
        document: Document = json.loads(content)
    except (ValueError, RecursionError):
        raise DamagedBackupError(f"{member} has a line that is not JSON") from None
    return document


def _named(document: Document) -> Document:
    return {"_id": document["_id"], "_rev": document["_rev"]}


def _comparable(document: Document) -> dict[str, Any]:
    """A revision without what servers write differently: digests, and histories of one revision."""
    attachments = {
        name: (stub["content_type"], stub["length"])
        for name, stub in document.get("_attachments", {}).items()
    }
    rest = {name: value for name, value in document.items() if name not in {"_attachments", "_revisions"}}
    revisions = document.get("_revisions", {})
    history = revisions if revisions.get("start", 1) > 1 else {}
    return {**rest, "_attachments": attachments, "_revisions": history}

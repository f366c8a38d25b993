"""Brings entries of the journals into the database, through outages of the database."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.runtime.supervisor import TaskFault
from growd.store.attachments import Attachment
from growd.store.couch_answers import is_stored, is_transient, reason_of
from growd.store.errors import (
    CouchError,
    CouchRefusedError,
    CouchUnavailableError,
    LocalStoreError,
    StoreError,
)
from growd.store.work import DatabaseWork

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker
    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document
    from growd.store.entries.entry import JournalEntry, Photo
    from growd.store.entries.entry_folder import EntryFolder

_PIECE: Final = 64 * 1024
_ATTEMPTS: Final = 3  # failures of an entry while the database answers, before its parts are sent apart
_MOST_FAILURES: Final = 3  # of entries, one after the other, before the rest waits
_NOT_ABOUT_CONTENT: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND})
_log = logging.getLogger(__name__)


class Refusal(NamedTuple):
    """Why the database refused an entry or a part of it, and when, in UNIX seconds."""

    reason: str
    at: float


class _RefusedError(StoreError):
    """The database refused a document or a photo for its content."""


class EntryDelivery:
    """Sends the entries that wait in the folder, oldest first.

    First the measurements, by `_bulk_docs`, then the note with all photos in one revision. So nobody sees a
    part of an entry, and its document changes no more. All ids are fixed, so that an entry that is sent again
    after a crash is stored once. An entry is deleted here when the database has all of it, or when somebody
    has deleted its document there.

    If the database refuses the whole, or fails again and again while it answers otherwise, the note goes
    alone, and then one photo after the other. What is refused in the end stays here with the reason, in
    `refused`, until `retry` or the next start, and stops no other entry.
    """

    def __init__(
        self,
        folder: EntryFolder,
        worker: Worker,
        couch: Couch,
        clock: Clock,
        *,
        names: Databases,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self.waiting: dict[str, JournalEntry] = {}
        self.refused: dict[str, Refusal] = {}
        self.waiting_bytes = 0
        """Of photos."""
        self.fault = TaskFault(
            _log, "journal entries wait for the database", "the database takes journal entries again"
        )
        self._folder = folder
        self._worker = worker
        self._couch = couch
        self._clock = clock
        self._names = names
        self._prepare = prepare
        self._is_prepared = False
        self._failures: Counter[str] = Counter()  # by entry
        self._apart: set[str] = set()  # entries whose parts are sent one by one
        self.work = DatabaseWork(clock, self._send_all, self.fault)

    def add(self, *entries: JournalEntry) -> None:
        """These wait in the folder."""
        self.waiting |= {entry.id: entry for entry in entries}
        self.waiting_bytes += sum(photo.size for entry in entries for photo in entry.photos)
        self.work.wake()

    def retry(self) -> int:
        """Send refused entries again; how many."""
        number = len(self.refused)
        self.refused.clear()
        self.work.wake()
        return number

    async def _send_all(self) -> None:
        """Raises the last error of an entry, after the others were sent."""
        left = [entry for entry in self.waiting.values() if entry.id not in self.refused]
        if left and not self._is_prepared:
            await self._prepare()
            self._is_prepared = True
        failure: StoreError | None = None
        in_a_row = 0
        for entry in sorted(left, key=lambda entry: (self._failures[entry.id], entry.id)):
            try:
                await self._send(entry)
            except _RefusedError as error:
                self._refuse(entry, str(error))
                in_a_row = 0
            except StoreError as error:
                failure = error
                in_a_row += 1
                await self._count_failure(entry, error)
                if in_a_row == _MOST_FAILURES:
                    break
            else:
                in_a_row = 0
                self.fault.succeeded()
        if failure is not None:
            raise failure

    async def _count_failure(self, entry: JournalEntry, error: StoreError) -> None:
        """Suspect the entry if the database answers otherwise."""
        if isinstance(error, CouchRefusedError) and error.status == HTTPStatus.NOT_FOUND:
            self._is_prepared = False  # the database is gone: make it again
        try:
            await self._couch.server()
        except CouchError:
            return
        self._failures[entry.id] += 1
        if self._failures[entry.id] >= _ATTEMPTS:
            self._apart.add(entry.id)

    async def _send(self, entry: JournalEntry) -> None:
        if entry.measurements:
            await self._store(self._names.points, [point.document() for point in entry.measurements])
        present = await self._present(entry)
        if present is None and entry.id not in self._apart:
            if await self._put_whole(entry):
                await self._forget(entry)
                return
            present = await self._present(entry)
        if present is None:
            await self._store(self._names.events, [entry.document()])
            present = await self._present(entry)
        if present and "_deleted" not in present:
            await self._complete(entry, present)
        await self._forget(entry)

    async def _put_whole(self, entry: JournalEntry) -> bool:
        """Whether the database stored the note with its photos."""
        attachments = [self._attachment(entry, photo) for photo in entry.photos]
        try:
            put = self._couch.put_whole(self._names.events, entry.document(), attachments)
            revision = await put
        except CouchRefusedError as error:
            if error.status in _NOT_ABOUT_CONTENT:
                raise
            self._apart.add(entry.id)
            return False
        return revision is not None

    async def _store(self, database: str, documents: list[Document]) -> None:
        """Store documents; `_RefusedError` if the database refuses one of them."""
        outcomes = await self._couch.bulk_docs(database, documents)
        for document in documents:
            outcome = outcomes[document["_id"]]
            if is_stored(outcome):
                continue
            if is_transient(outcome):
                raise CouchUnavailableError(f"the database could not store {document['_id']}")
            what = f"{document['variable']}: " if database == self._names.points else ""
            raise _RefusedError(f"{what}{reason_of(outcome)}")

    async def _complete(self, entry: JournalEntry, present: Document) -> None:
        """Attach the photos that the stored note lacks. `_RefusedError` names those that are refused."""
        stored = present.get("_attachments", {})
        revision, refusals = present["_rev"], []
        for photo in entry.photos:
            if photo.name in stored and stored[photo.name].get("length") == photo.size:
                continue
            attachment = self._attachment(entry, photo)
            try:
                put = await self._couch.put_attachment(self._names.events, entry.id, revision, attachment)
            except CouchRefusedError as error:
                if error.status in _NOT_ABOUT_CONTENT:
                    raise
                refusals.append(f"{photo.name}: {error}")
                continue
            if put is None:
                raise CouchUnavailableError(f"another client has just changed {entry.id}")
            revision = put
        if refusals:
            raise _RefusedError("; ".join(refusals))

    async def _present(self, entry: JournalEntry) -> Document | None:
        """The stored note, one with `_deleted` if it was deleted, None if there is none."""
        rows = await self._couch.all_docs(self._names.events, keys=[entry.id], include_docs=True)
        value = rows[0].get("value") if rows else None
        if not isinstance(value, dict):
            return None
        document: Document | None = rows[0].get("doc")
        return {"_deleted": True} if value.get("deleted") or document is None else document

    def _attachment(self, entry: JournalEntry, photo: Photo) -> Attachment:
        return Attachment(photo.name, photo.type, photo.size, partial(self.pieces, entry, photo))

    async def pieces(self, entry: JournalEntry, photo: Photo) -> AsyncGenerator[bytes]:
        """The content of a photo that waits. Raises `LocalStoreError`."""
        try:
            file = await self._worker.run(self._folder.open_photo, entry, photo.name)
        except OSError as error:
            raise LocalStoreError(f"{photo.name} of {entry.id} can't be read: {error.strerror}") from error
        try:
            while piece := await self._worker.run(file.read, _PIECE):
                yield piece
        except OSError as error:
            raise LocalStoreError(f"{photo.name} of {entry.id} can't be read: {error.strerror}") from error
        finally:
            file.close()

    async def _forget(self, entry: JournalEntry) -> None:
        try:
            await self._worker.run(self._folder.remove, entry)
        except OSError as error:
            raise LocalStoreError(f"the entry {entry.id} can't be deleted: {error.strerror}") from error
        self.waiting.pop(entry.id, None)
        self.waiting_bytes -= sum(photo.size for photo in entry.photos)
        self._failures.pop(entry.id, None)
        self._apart.discard(entry.id)

    def _refuse(self, entry: JournalEntry, reason: str) -> None:
        _log.warning("the database refused the journal entry %s: %s", entry.id, reason)
        self.refused[entry.id] = Refusal(reason, self._clock.time())

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
from growd.store.errors import CouchRefusedError, CouchUnavailableError, LocalStoreError, StoreError
from growd.store.work import DatabaseWork

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker
    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch
    from growd.store.entries.entry import JournalEntry, Photo
    from growd.store.entries.entry_folder import EntryFolder

_PIECE: Final = 64 * 1024
_MOST_FAILURES: Final = 3  # of entries, one after the other, before the rest waits
_NOT_ABOUT_CONTENT: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND})
_log = logging.getLogger(__name__)


class Refusal(NamedTuple):
    """Why the database refused an entry, and when, in UNIX seconds."""

    reason: str
    at: float


class _RefusedError(StoreError):
    """The database refused a document for its content."""


class EntryDelivery:
    """Sends the entries that wait in the folder, oldest first.

    First the measurements, by `_bulk_docs`, then the note with all photos in one revision. So nobody sees a
    part of an entry, and its document changes no more. All ids are fixed, so that an entry that is sent again
    after a crash is stored once. An entry is deleted here when the database has all of it, or when somebody
    has deleted its document there.

    An entry that the database refuses stays here with the reason, in `refused`, until `retry` or the next
    start. It stops no other entry, and neither does one that fails while the database answers otherwise.
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
                self._failures[entry.id] += 1
                if isinstance(error, CouchRefusedError) and error.status == HTTPStatus.NOT_FOUND:
                    self._is_prepared = False  # the database is gone: make it again
                if in_a_row == _MOST_FAILURES:
                    break
            else:
                in_a_row = 0
                self.fault.succeeded()
        if failure is not None:
            raise failure

    async def _send(self, entry: JournalEntry) -> None:
        if entry.measurements:
            await self._store_measurements(entry)
        if not await self._is_known(entry):
            photos = [
                Attachment(photo.name, photo.type, photo.size, partial(self.pieces, entry, photo))
                for photo in entry.photos
            ]
            try:
                await self._couch.put_whole(self._names.events, entry.document(), photos)
            except CouchRefusedError as error:
                if error.status in _NOT_ABOUT_CONTENT:
                    raise
                raise _RefusedError(str(error)) from error
        await self._forget(entry)

    async def _store_measurements(self, entry: JournalEntry) -> None:
        """Raises `_RefusedError` if the database refuses one of them."""
        documents = [point.document() for point in entry.measurements]
        outcomes = await self._couch.bulk_docs(self._names.points, documents)
        for document in documents:
            outcome = outcomes[document["_id"]]
            if is_stored(outcome):
                continue
            if is_transient(outcome):
                raise CouchUnavailableError(f"the database could not store {document['_id']}")
            raise _RefusedError(f"{document['variable']}: {reason_of(outcome)}")

    async def _is_known(self, entry: JournalEntry) -> bool:
        """Whether the database has, or had, the note, as after a crash."""
        rows = await self._couch.all_docs(self._names.events, keys=[entry.id])
        return bool(rows) and "value" in rows[0]

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

    def _refuse(self, entry: JournalEntry, reason: str) -> None:
        _log.warning("the database refused the journal entry %s: %s", entry.id, reason)
        self.refused[entry.id] = Refusal(reason, self._clock.time())

"""A document of each photo in the database, so that it can be queried and replicated there."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from growd.runtime.supervisor import TaskFault
from growd.store.attachments import Attachment
from growd.store.couch_answers import is_stored, is_transient, reason_of
from growd.store.errors import CouchRefusedError, CouchUnavailableError, LocalStoreError
from growd.store.work import DatabaseWork

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd.store.errors import StoreError
    from growd_camera.album import Album, CameraPhoto

PICTURE: Final = "photo-1.jpg"
"""The name of the JPEG as an attachment."""
_CATEGORY: Final = "photo"
_BATCH: Final = 100  # documents in a request
_PAGE: Final = 500
_PIECE: Final = 64 << 10
_CHECK_S: Final = 3_600.0
_log = logging.getLogger(__name__)


class PhotoRecords:
    """Mirrors an album into the database `environmental_photo`.

    `work` adds the documents that are missing there and deletes those of photos that were thinned, also after
    an outage or a restart. What the database has beyond that stays: the folder of photos may be lost. With
    `has_pictures` each document has its JPEG as the attachment `PICTURE`.
    """

    def __init__(
        self, database: Database, album: Album, worker: Worker, clock: Clock, *, has_pictures: bool
    ) -> None:
        self.fault = TaskFault(
            _log, "photos wait for the database", "the database has the documents of all photos"
        )
        self._database = database
        self._album = album
        self._worker = worker
        self._has_pictures = has_pictures
        self._present: dict[str, tuple[str, bool]] | None = None  # revision, and whether it has the JPEG
        self.work = DatabaseWork(clock, self._step, self.fault)

    async def _step(self) -> float:
        """One comparison. Raises `StoreError`."""
        try:
            if self._present is None:
                await self._database.prepare()
                self._present = await self._read()
            if self._has_pictures:
                await self._add_with_pictures(self._present)
            else:
                await self._add(self._present)
            await self._delete(self._present)
        except:
            self._present = None  # read it again
            raise
        return _CHECK_S

    async def _read(self) -> dict[str, tuple[str, bool]]:
        """The documents of this device."""
        found: dict[str, tuple[str, bool]] = {}
        first = f"{self._album.device}:"
        end = f"{first}\ufff0"
        while True:
            rows = await self._database.couch.all_docs(
                self._database.names.photos, include_docs=True, limit=_PAGE, startkey=first, endkey=end
            )
            for document in (row["doc"] for row in rows):
                found[document["_id"]] = document["_rev"], PICTURE in document.get("_attachments", {})
            if len(rows) < _PAGE:
                return found
            first = f"{rows[-1]['id']} "

    async def _add(self, present: dict[str, tuple[str, bool]]) -> None:
        missing = [photo for photo in self._album.all() if photo.id not in present]
        for begin in range(0, len(missing), _BATCH):
            batch = missing[begin : begin + _BATCH]
            revisions = await self._stored([document_of(photo) for photo in batch])
            present |= {each: (revision, False) for each, revision in revisions.items()}

    async def _add_with_pictures(self, present: dict[str, tuple[str, bool]]) -> None:
        """One photo after the other; one that is refused stops no other."""
        refused: CouchRefusedError | None = None
        couch, name = self._database.couch, self._database.names.photos
        for photo in self._album.all():
            revision, has_picture = present.get(photo.id, ("", False))
            if has_picture or photo.id in self._album.gone:
                continue
            picture = Attachment(PICTURE, "image/jpeg", photo.bytes, partial(self._pieces, photo))
            try:
                if revision:
                    put = await couch.put_attachment(name, photo.id, revision, picture)
                else:
                    put = await couch.put_whole(name, document_of(photo), [picture])
            except CouchRefusedError as error:
                refused = error
                continue
            if put is None:
                raise CouchUnavailableError(f"another client has just changed {photo.id}")
            present[photo.id] = put, True
        if refused is not None:
            raise refused

    async def _delete(self, present: dict[str, tuple[str, bool]]) -> None:
        gone = [*self._album.gone]
        for begin in range(0, len(gone), _BATCH):
            batch = gone[begin : begin + _BATCH]
            known = {each: present[each][0] for each in batch if each in present}
            if known:
                await self._stored(
                    [{"_id": each, "_rev": revision, "_deleted": True} for each, revision in known.items()]
                )
            try:
                await self._worker.run(self._album.forget, batch)
            except OSError as error:
                raise LocalStoreError(f"documents of photos can't be deleted: {error.strerror}") from error
            for each in known:
                del present[each]

    async def _stored(self, documents: Sequence[Document]) -> dict[str, str]:
        """Store documents; their revisions by id. Raises `StoreError` if one is not stored."""
        outcomes = await self._database.couch.bulk_docs(self._database.names.photos, documents)
        for each, outcome in outcomes.items():
            if "rev" in outcome:
                continue
            if is_stored(outcome) or is_transient(outcome):
                raise CouchUnavailableError(f"another client has just changed {each}")
            raise _refusal(each, outcome)
        return {each: outcome["rev"] for each, outcome in outcomes.items()}

    async def _pieces(self, photo: CameraPhoto) -> AsyncGenerator[bytes]:
        try:
            file: BinaryIO = await self._worker.run(self._album.open, photo)
            with file:
                while piece := await self._worker.run(file.read, _PIECE):
                    yield piece
        except OSError as error:  # thinned just now
            raise LocalStoreError(f"the photo {photo.id} can't be read: {error.strerror}") from error


def document_of(photo: CameraPhoto) -> dict[str, Any]:
    """The document of a photo in the database. Its first members are those of an event."""
    members = msgspec.to_builtins(photo)
    return {
        "_id": members.pop("id"),
        "environment": members.pop("environment"),
        "variable": _CATEGORY,
        "category": _CATEGORY,
        "value": photo.camera,
        "timestamp": members.pop("time"),
        **members,
    }


def _refusal(document_id: str, outcome: Document) -> StoreError:
    reason = reason_of(outcome)
    return CouchRefusedError(
        f"the database refused {document_id}: {reason}", 403, outcome["error"], str(outcome.get("reason"))
    )

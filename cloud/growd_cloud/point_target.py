"""Points and events that devices replicate: checked, and stored in the database of their month."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.couch_answers import checked, is_transient
from growd.store.errors import CouchRefusedError, CouchUnavailableError
from growd_cloud.checks import MOST_DOCUMENT, RefusedDocumentError, check_document, check_id, check_numbers
from growd_cloud.quorum import Quorum

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping, Sequence

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch, Document
    from growd_cloud.databases import CloudDatabases

    Revisions = Mapping[str, list[str]]

# What CouchDB says about one document of a batch, with the status of the whole batch.
_ABOUT_CONTENT: Final = frozenset({
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
})  # fmt: skip


_LATER: Final = f"1000000-{'0' * 32}"  # a revision later than all that may be stored
_LARGE: Final = 1024 * 1024  # bytes of a batch that is checked beside the event loop


class PointTarget:
    """Stores what a device may store; a point is written once and never changed.

    Methods raise `CouchError`. If fewer nodes have the documents than the quorum, or CouchDB reaches too few,
    that is a `CouchUnavailableError`.
    """

    def __init__(self, couch: Couch, databases: CloudDatabases, clock: Clock) -> None:
        self.quorum = Quorum(couch)
        self.stored = 0
        """Documents."""
        self.refused = 0
        self._couch = couch
        self._databases = databases
        self._clock = clock

    async def missing(self, series: str, device: str, revisions: Revisions) -> dict[str, Document]:
        """Those of these revisions that are not stored, as an answer of `_revs_diff`.

        Ids that are not the device's are missing: the device learns nothing about those of others.
        """
        found: dict[str, Document] = {}
        own: dict[str, list[str]] = {}
        for document_id, wanted in revisions.items():
            try:
                own[check_id(document_id, device)] = wanted
            except RefusedDocumentError:
                found[document_id] = {"missing": wanted}
        for database, group in self._by_database(series, own).items():
            found |= await self._revs_diff(database, {each: own[each] for each in group})
        return found

    async def store(self, series: str, device: str, raw: Sequence[bytes | msgspec.Raw]) -> list[Document]:
        """Store the documents, which are JSON; a row for each that was refused, as of `_bulk_docs`."""
        if sum(len(memoryview(each)) for each in raw) > _LARGE:
            good, refused = await asyncio.to_thread(_sorted_out, series, device, raw)
        else:
            good, refused = _sorted_out(series, device, raw)
        for database, group in self._by_database(series, good).items():
            refused += await self._store(database, [good[each] for each in group])
        self.refused += len(refused)
        return refused

    async def admit(self, series: str, device: str, document: Document) -> str:
        """The database of a document that may be stored. Raises `RefusedDocumentError`."""
        check_document(series, document, device)
        (database,) = self._by_database(series, {document["_id"]: document})
        refused, _ = await self._without_stored(database, [document])
        if refused:
            raise RefusedDocumentError(refused[0]["reason"])
        return database

    async def put(
        self, database: str, document_id: str, headers: Mapping[str, str], body: AsyncIterable[bytes]
    ) -> Document:
        """Store a document that was admitted, with its attachments."""
        await self._databases.ensure(database)
        status, answer = await self._couch.send_stream((database, document_id), headers, body)
        if status == HTTPStatus.NOT_FOUND:
            self._databases.forget(database)
            raise CouchUnavailableError(f"there is no database {database} any more")
        found: Document = stored_by_quorum(f"PUT /{database}", status, answer)
        await self.quorum.check()
        self.stored += 1
        return found

    async def _store(self, database: str, documents: list[Document]) -> list[Document]:
        refused, new = await self._without_stored(database, documents)
        refused += await self._write(database, new)
        self.stored += len(documents) - len(refused)
        return refused

    async def _without_stored(
        self, database: str, documents: list[Document]
    ) -> tuple[list[Document], list[Document]]:
        """Refusals of documents that would change a stored one, and those that are new.

        CouchDB names the stored revisions that may be ancestors of a revision that it does not know.
        """
        wanted = {each["_id"]: [each["_rev"], _LATER] for each in documents}
        found = await self._revs_diff(database, wanted)
        refused, new = [], []
        for each in documents:
            answer = found[each["_id"]]
            if each["_rev"] not in answer["missing"]:
                continue
            if "possible_ancestors" not in answer or await self._only_adds_attachments(database, each):
                new.append(each)
            else:
                refused.append(refusal(each, "a point is not changed"))
        return refused, new

    async def _only_adds_attachments(self, database: str, document: Document) -> bool:
        """Whether a document differs from the stored one in further attachments only."""
        if "_attachments" not in document:
            return False
        present = await self._couch.get(database, document["_id"])
        if present is None or not _follows(document, present):
            return False
        attachments, stored = document["_attachments"], present.get("_attachments", {})
        return (
            len(attachments) > len(stored)
            and _members(document) == _members(present)
            and all(
                name in attachments and attachments[name].get("digest") == each.get("digest")
                for name, each in stored.items()
            )
        )

    async def _write(self, database: str, documents: list[Document]) -> list[Document]:
        """Write revisions; one by one if CouchDB refuses the batch because of one of them."""
        if not documents:
            return []
        try:
            return await self._bulk_docs(database, documents)
        except CouchRefusedError as error:
            if not is_about_content(error):
                raise
            if len(documents) == 1:
                return [refusal(documents[0], f"{error.error}: {error.reason}")]
        refused = []
        for each in documents:
            refused += await self._write(database, [each])
        return refused

    async def _bulk_docs(self, database: str, documents: list[Document]) -> list[Document]:
        body = msgspec.json.encode({"docs": documents, "new_edits": False})
        answer = await self._ask(database, "_bulk_docs", body)
        rows = [row for row in answer if isinstance(row, dict) and "error" in row]
        if any(is_transient(row) for row in rows):
            raise CouchUnavailableError(f"{database} could not store {len(rows)} documents")
        return rows

    async def _revs_diff(self, database: str, revisions: Revisions) -> dict[str, Document]:
        """A database that does not exist lacks all; questions do not make it."""
        what = "_revs_diff"
        status, answer = await self._couch.send("POST", (database, what), msgspec.json.encode(revisions))
        if status == HTTPStatus.NOT_FOUND:
            self._databases.forget(database)
            return {document_id: {"missing": wanted} for document_id, wanted in revisions.items()}
        found: dict[str, Document] = stored_by_quorum(f"POST /{database}/{what}", status, answer)
        await self.quorum.check()
        return found

    async def _ask(self, database: str, what: str, body: bytes) -> Any:
        """POST documents to a database of a month, which is made if it is missing."""
        await self._databases.ensure(database)
        status, answer = await self._couch.send("POST", (database, what), body)
        if status == HTTPStatus.NOT_FOUND:
            self._databases.forget(database)
            await self._databases.ensure(database)
            status, answer = await self._couch.send("POST", (database, what), body)
        found = stored_by_quorum(f"POST /{database}/{what}", status, answer)
        await self.quorum.check()
        return found

    def _by_database(self, series: str, documents: Mapping[str, Any]) -> dict[str, list[str]]:
        now = self._clock.time()
        groups: dict[str, list[str]] = defaultdict(list)
        for document_id in documents:
            groups[self._databases.names.of_document(series, document_id, now)].append(document_id)
        return groups


def _sorted_out(
    series: str, device: str, raw: Sequence[bytes | msgspec.Raw]
) -> tuple[dict[str, Document], list[Document]]:
    """The documents that may be stored, by id, and the refusals of the others."""
    good: dict[str, Document] = {}
    refused: list[Document] = []
    for each in raw:
        document: Any = None
        try:
            document = decoded_document(each)
            check_document(series, document, device)
            _check_photos_inside(document)
            _check_once(document, good)
        except RefusedDocumentError as error:
            refused.append(refusal(document, str(error)))
        else:
            good[document["_id"]] = document
    return good, refused


def is_about_content(error: CouchRefusedError) -> bool:
    """Whether CouchDB refused documents, and not the receiver: an account may be locked (403)."""
    return error.status in _ABOUT_CONTENT and "locked" not in error.reason


def stored_by_quorum(request: str, status: int, answer: bytes) -> Any:
    """CouchDB's answer. `CouchUnavailableError` for 202: fewer nodes than the quorum have stored it."""
    if status == HTTPStatus.ACCEPTED:
        raise CouchUnavailableError(f"CouchDB answered {request} with 202: too few nodes are up", status)
    return checked(request, status, answer)


def refusal(document: Any, reason: str) -> Document:
    """A row of `_bulk_docs` for a document that is not stored."""
    document_id, revision = (
        (document.get("_id"), document.get("_rev")) if isinstance(document, dict) else (None, None)
    )
    row = {"id": document_id, "rev": revision}
    texts = {name: text for name, text in row.items() if isinstance(text, str)}
    return {"id": "", **texts, "error": "forbidden", "reason": reason}


def decoded_document(raw: bytes | msgspec.Raw) -> Document:
    """A document of at most `MOST_DOCUMENT` bytes, photos not counted. Raises `RefusedDocumentError`."""
    try:
        document = msgspec.json.decode(raw)
        check_numbers(document, raw)
    except (ValueError, RecursionError) as error:
        raise RefusedDocumentError(f"the document can't be read: {error}") from None
    if not isinstance(document, dict):
        raise RefusedDocumentError("a document must be a JSON object")
    size = len(bytes(raw)) if "_attachments" not in document else len(msgspec.json.encode(_members(document)))
    if size > MOST_DOCUMENT:
        raise RefusedDocumentError(f"the document is larger than {MOST_DOCUMENT} bytes")
    return document


def _check_photos_inside(document: Document) -> None:
    """A photo that follows its document would come in a part of its own: CouchDB fails (500) without it."""
    for name, each in document.get("_attachments", {}).items():
        if each.get("follows"):
            raise RefusedDocumentError(f"{name} must be in the document")


def _check_once(document: Document, others: Mapping[str, Document]) -> None:
    if document["_id"] in others:
        raise RefusedDocumentError("the same id is in this batch twice")


def _follows(document: Document, present: Document) -> bool:
    """Whether the stored revision is in the history of this one: it makes no conflict."""
    start, _, digits = present["_rev"].partition("-")
    history = document.get("_revisions") or {"start": 0, "ids": []}
    index: int = history["start"] - int(start)
    ids: list[str] = history["ids"]
    return 0 < index < len(ids) and ids[index] == digits


def _members(document: Document) -> Document:
    return {name: value for name, value in document.items() if not name.startswith("_")}

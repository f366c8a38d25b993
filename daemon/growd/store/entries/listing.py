"""Lists the entries of a journal: those that the database has, and those that wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.entries.entry import is_photo_name
from growd.store.entries.photos import TYPES
from growd.store.errors import StoreError
from growd.store.recorder import NOTE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from growd.store.couch import Couch, Document
    from growd.store.entries.delivery import EntryDelivery
    from growd.store.entries.entry import JournalEntry

MOST_READ: Final = 20_000
"""Notes that one search reads."""
_PAGE: Final = 500


class JournalQuery(msgspec.Struct, frozen=True):
    """Which entries to list: times in UNIX seconds, `end` excluded; at most `limit`, newest first.

    `search` is a part of the text, of the author or of the name of a variable, without regard to case.
    """

    environment: str
    start: float
    end: float
    limit: int
    search: str = ""


@dataclass(slots=True)
class _Page:
    documents: list[Document]
    floor: float
    """All documents of the range with a time from here on are in this page or in one before."""


class EntryReader:
    """Reads entries; `design` has the views, `ship` is entered around it and sends waiting points."""

    def __init__(
        self,
        couch: Couch,
        events: str,
        design: str,
        delivery: EntryDelivery,
        ship: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self._couch = couch
        self._events = events
        self._design = design
        self._delivery = delivery
        self._ship = ship

    async def read(self, query: JournalQuery) -> tuple[list[dict[str, Any]], bool, str]:
        """Entries, whether there are more, and why entries of the database are missing, "" if none are."""
        waiting = self._waiting(query)
        found: list[dict[str, Any]] = []
        read, above = 0, query.end
        try:
            async with self._ship():
                async for page in self._pages(query):
                    read += len(page.documents)
                    late = [doc for doc in waiting if page.floor <= doc["timestamp"] < above]
                    known = {doc["_id"] for doc in late}
                    stored = [doc for doc in page.documents if doc["_id"] not in known]
                    found += self._entries([*late, *stored], query)
                    above = page.floor
                    if len(found) > query.limit or (read >= MOST_READ and above > query.start):
                        break
        except StoreError as error:
            rest = [doc for doc in waiting if doc["timestamp"] < above]
            found += self._entries(rest, query)
            return found[: query.limit], len(found) > query.limit, str(error)
        cut = _cut(found, query.limit)
        return found[:cut], cut < len(found) or above > query.start, ""

    def described(self, entry: JournalEntry) -> dict[str, Any]:
        """An entry of this growd as `read` gives it."""
        return self._entry(_with_photos(entry.document(), entry.photos), [])

    def _waiting(self, query: JournalQuery) -> list[Document]:
        entries = self._delivery.waiting.values()
        documents = [_with_photos(entry.document(), entry.photos) for entry in entries]
        return [doc for doc in documents if doc["environment"] == query.environment and _is_in(doc, query)]

    async def _pages(self, query: JournalQuery) -> AsyncIterator[_Page]:
        """The notes of the range, newest first; notes of one time are on one page."""
        key = [query.environment, "event", NOTE]
        startkey: dict[str, Any] = {"startkey": [*key, query.end]}
        carried: list[Document] = []
        size = min(query.limit + 2, _PAGE)
        while True:
            rows = await self._couch.view(
                self._events, self._design, "by_variable", reduce=False, descending=True, limit=size,
                endkey=[*key, query.start], **startkey,
            )  # fmt: skip
            documents = [*carried, *(row["value"] for row in rows if _is_in(row["value"], query))]
            if len(rows) < size:
                yield _Page(documents, query.start)
                return
            last = rows[-1]
            at = last["key"][3]
            carried = [doc for doc in documents if doc["timestamp"] == at]
            if len(carried) < len(documents):
                above = [doc for doc in documents if doc["timestamp"] > at]
                yield _Page(above, above[-1]["timestamp"])
            startkey = {"startkey": last["key"], "startkey_docid": last["id"], "skip": 1}
            size = _PAGE

    def _entries(self, documents: list[Document], query: JournalQuery) -> list[dict[str, Any]]:
        """The entries of these documents that the search finds."""
        entries = (self._entry(doc, corrections) for doc, corrections in _corrected(documents))
        wanted = query.search.casefold()
        return [entry for entry in entries if wanted in _words(entry)]

    def _entry(self, document: Document, corrections: list[Document]) -> dict[str, Any]:
        versions = [document, *corrections]
        stored = self._delivery.waiting.get(document["_id"]) is None
        refusal = self._delivery.refused.get(document["_id"])
        newest = versions[-1]
        return {
            "id": document["_id"],
            "time": document["timestamp"],
            "written": _written(document),
            "by": _text(newest.get("by")),
            "text": _text(newest["value"]),
            "measurements": document.get("measurements") or {},
            "photos": [
                {"name": name, "type": about["content_type"], "size": about["length"], "waiting": not stored}
                for name, about in sorted((document.get("_attachments") or {}).items())
                if is_photo_name(name) and about.get("content_type") in TYPES
            ],
            "waiting": not stored,
            "refused": refusal.reason if refusal else "",
            "earlier": [
                {"text": _text(one["value"]), "by": _text(one.get("by")), "written": _written(one)}
                for one in versions[:-1]
            ],
        }


def _with_photos(document: Document, photos: Iterable[Any]) -> Document:
    about = {photo.name: {"content_type": photo.type, "length": photo.size} for photo in photos}
    return document | {"_attachments": about}


def _corrected(documents: list[Document]) -> Iterable[tuple[Document, list[Document]]]:
    """Each note with its corrections, oldest first; notes newest first. A correction has its note's time."""
    ordered = sorted(documents, key=lambda doc: (-doc["timestamp"], _written(doc), doc["_id"]))
    for _, group in groupby(ordered, key=lambda doc: doc["timestamp"]):
        notes: dict[str, tuple[Document, list[Document]]] = {}
        for doc in group:
            if doc.get("corrects") in notes:
                notes[doc["corrects"]][1].append(doc)
            else:
                notes[doc["_id"]] = (doc, [])
        yield from reversed(notes.values())


def _is_in(document: Document, query: JournalQuery) -> bool:
    return bool(query.start <= document["timestamp"] < query.end)


def _cut(found: list[dict[str, Any]], limit: int) -> int:
    """How many entries to answer: those with the time of the last one too, since `end` excludes its time."""
    cut = min(limit, len(found))
    while 0 < cut < len(found) and found[cut]["time"] == found[cut - 1]["time"]:
        cut += 1
    return cut


def _words(entry: dict[str, Any]) -> str:
    return "\n".join([entry["text"], entry["by"], *entry["measurements"]]).casefold()


def _written(document: Document) -> float:
    """When it was written; notes of another program have only their time."""
    written = document.get("written")
    return written if isinstance(written, int | float) else float(document["timestamp"])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

"""The documents of one database of the cloud for `growd cloud export`, from a place on, with new places.

A new database is read in the order of its ids first: they begin with the device, so that a part has the
points of few devices. `_changes` continues where it stood before that. With several copies of a shard the two
may be answered by different copies, of which one may lag, so `_changes` then begins at the first change: the
files know which ids they have.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd.store.errors import CouchAnswerTooLargeError
from growd.store.points import is_id
from growd_cloud.export_state import ReadPlace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from growd.store.couch import Couch, Document

_BATCH: Final = 2_000  # documents in one answer


class Documents(NamedTuple):
    """Points, the place behind them, how many documents were no points, and how many may follow."""

    points: list[Document]
    place: ReadPlace
    others: int
    pending: int


class CloudFeed:
    """Reads one database. Raises `CouchError`."""

    def __init__(self, couch: Couch, database: str) -> None:
        self._couch = couch
        self._database = database
        self._batch = _BATCH

    async def documents(self, place: ReadPlace | None) -> AsyncGenerator[Documents]:
        """What follows a place, batch by batch, to the present end; nothing if there is no such database."""
        info = await self._couch.info(self._database)
        if info is None:
            return
        if place is None or place.gone or _is_another(info, place):
            place = await self._beginning(info)
        pending = int(info.get("doc_count", 0))
        while place.after is not None:
            batch = await self._by_id(place, pending)
            place, pending = batch.place, batch.pending
            yield batch
        while True:
            batch, is_end = await self._changed(place)
            place = batch.place
            yield batch
            if is_end:
                return

    async def _beginning(self, info: Document) -> ReadPlace:
        """Where a database is read from: all documents, and then the changes since now."""
        since: Any = 0
        if _copies(info) == 1:
            since = (await self._couch.changes(self._database, "now", 1))["last_seq"]
        return ReadPlace(self._database, _made(info), json.dumps(since), after="")

    async def _by_id(self, place: ReadPlace, pending: int) -> Documents:
        async def ask(limit: int) -> list[Document]:
            query = {"startkey": place.after, "limit": limit, "include_docs": True}
            return await self._couch.all_docs(self._database, **query)

        rows, limit = await self._asked(ask)
        fresh = [row["doc"] for row in rows if row["id"] != place.after and row.get("doc")]
        after = rows[-1]["id"] if len(rows) == limit else None
        return _chosen(fresh, place._replace(after=after), max(0, pending - len(fresh)))

    async def _changed(self, place: ReadPlace) -> tuple[Documents, bool]:
        since = json.loads(place.since)

        async def ask(limit: int) -> Document:
            return await self._couch.changes(self._database, since, limit, include_docs=True)

        answer, limit = await self._asked(ask)
        found = [row["doc"] for row in answer["results"] if not row.get("deleted") and row.get("doc")]
        place = place._replace(since=json.dumps(answer["last_seq"]))
        return _chosen(found, place, int(answer.get("pending") or 0)), len(answer["results"]) < limit

    async def _asked(self, ask: Any) -> tuple[Any, int]:
        """The answer for as many documents as the client reads, and how many it asked for (2 and more)."""
        while True:
            try:
                answer = await ask(self._batch)
            except CouchAnswerTooLargeError:
                if self._batch <= 2:  # noqa: PLR2004  one known and one new document
                    raise
                self._batch //= 2
            else:
                asked, self._batch = self._batch, min(_BATCH, self._batch * 2)
                return answer, asked


def _chosen(documents: list[Document], place: ReadPlace, pending: int) -> Documents:
    points = [each for each in documents if is_id(each["_id"])]
    others = [each for each in documents if not is_id(each["_id"]) and not each["_id"].startswith("_design/")]
    return Documents(points, place, len(others), pending)


def _is_another(info: Document, place: ReadPlace) -> bool:
    """Whether the database was created again, or has fewer changes than were read: it was restored.

    With several copies of a shard one copy may be behind, and CouchDB repeats changes itself.
    """
    if _made(info) != place.made:
        return True
    return _copies(info) == 1 and _number(info.get("update_seq", 0)) < _number(json.loads(place.since))


def _made(info: Document) -> str:
    return str(info.get("instance_start_time", ""))


def _copies(info: Document) -> int:
    return int(info.get("cluster", {}).get("n", 1))


def _number(sequence: Any) -> int:
    """How many changes a sequence counts: `12-g1AAA...`, or 12 of the embedded database."""
    text = str(sequence).partition("-")[0]
    return int(text) if text.isdecimal() else 0

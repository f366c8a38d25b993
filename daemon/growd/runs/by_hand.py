"""What people recorded during a run: notes with their photos, and measurements by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection

    from growd.store.couch import Couch, Document

MOST_NOTES: Final = 2_000
MOST_MEASUREMENTS: Final = 2_000
_PAGE: Final = 500


class RecordsByHand:
    """Reads notes of the database `events` and measurements of `points`. Calls may raise `CouchError`."""

    def __init__(self, couch: Couch, points: str, events: str, design: str) -> None:
        self._couch = couch
        self._points = points
        self._events = events
        self._design = design

    async def notes(self, environment: str, start: float, end: float) -> list[dict[str, Any]]:
        """The first `MOST_NOTES` notes between two UNIX times, in their order."""
        key = [environment, "event", "note"]
        return [_note(document) async for document in self._read(self._events, key, start, end, MOST_NOTES)]

    async def measurements(
        self, environment: str, start: float, end: float, sensed: Collection[str]
    ) -> list[dict[str, Any]]:
        """The measurements by hand between two UNIX times of variables that no sensor measures (`sensed`).

        Those of the others are among millions of points.
        """
        found: list[Document] = []
        for variable in await self._variables(environment):
            if variable not in sensed:
                key = [environment, "measured", variable]
                left = MOST_MEASUREMENTS - len(found)
                found += [document async for document in self._read(self._points, key, start, end, left)]
        by_hand = [document for document in found if document.get("is_manual")]
        return [_measurement(document) for document in sorted(by_hand, key=lambda each: each["timestamp"])]

    async def _variables(self, environment: str) -> list[str]:
        """All measured variables, each found by a small request."""
        found: list[str] = []
        prefix = [environment, "measured"]
        while True:
            rows = await self._couch.view(
                self._points,
                self._design,
                "by_variable",
                reduce=False,
                limit=1,
                startkey=[*prefix, *([found[-1], {}] if found else [])],
                endkey=[*prefix, {}],
            )
            if not rows:
                return found
            found.append(rows[0]["key"][2])

    async def _read(
        self, database: str, key: list[Any], start: float, end: float, most: int
    ) -> AsyncGenerator[Document]:
        after: dict[str, Any] = {"startkey": [*key, start]}
        last = ""
        while most > 0:
            limit = min(most + 1, _PAGE)
            rows = await self._couch.view(
                database, self._design, "by_variable", reduce=False, limit=limit, endkey=[*key, end], **after
            )
            new = rows[1:] if rows and rows[0]["id"] == last else rows
            for row in new[:most]:
                yield row["value"]
            if len(rows) < limit:
                return
            most -= len(new)
            last = rows[-1]["id"]  # it is read again: `skip` would leave out another row if it was deleted
            after = {"startkey": rows[-1]["key"], "startkey_docid": last}


def photos_of(document: Document) -> list[str]:
    """The names of the attachments of a note."""
    return sorted(document.get("_attachments") or {})


def _note(document: Document) -> dict[str, Any]:
    return {
        "id": document["_id"],
        "time": document["timestamp"],
        "by": document.get("by", ""),
        "text": document["value"],
        "measurements": document.get("measurements") or {},
        "corrects": document.get("corrects", ""),
        "photos": photos_of(document),
    }


def _measurement(document: Document) -> dict[str, Any]:
    variable = document["variable"]
    return {
        "id": document["_id"],
        "time": document["timestamp"],
        "variable": variable,
        "value": document["value"],
        "unit": VARIABLES[variable].unit if variable in VARIABLES else "",
        "by": document.get("by", ""),
    }

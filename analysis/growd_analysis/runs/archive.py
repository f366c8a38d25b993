"""The runs in the database: the list of an environment, and one run by its id or the short form of it."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import InvalidValueError, UnknownNameError
from growd.store.run_documents import LEAST_DIGITS, short_id, stands_for
from growd.store.view_pages import keys_below, pages
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document

MOST_NOTES: Final = 2_000
MOST_MEASUREMENTS: Final = 2_000
_PAGE: Final = 500


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


AFTER_DAYS: Final = 14
"""Notes and measurements by hand up to so many days after the end belong to a run: yields come later."""

_MOST_IDS: Final = 20_000


class RunArchive:
    """Reads runs, and what people recorded during them. Every call may raise `CouchError`.

    `sensed` gives the variables that the sensors of an environment measure.
    """

    def __init__(
        self, couch: Couch, names: Databases, design: str, sensed: Callable[[str], Collection[str]]
    ) -> None:
        self._couch = couch
        self._names = names
        self._design = design
        self._sensed = sensed

    async def newest(
        self, environment: str, limit: int, before: float | None = None
    ) -> tuple[list[dict[str, Any]], bool]:
        """The newest runs that started before this UNIX time, newest first, and whether there are more."""
        rows = await self._couch.view(
            self._names.runs,
            self._design,
            "by_start",
            descending=True,
            limit=limit + 2,  # one that started at `before`, and one to know whether there are more
            startkey=[environment, {} if before is None else before],
            endkey=[environment],
        )
        found = [_listed(row) for row in rows]
        found = [run for run in found if before is None or run["started"] < before]
        return found[:limit], len(found) > limit

    async def find(self, text: str) -> Document:
        """The document of a run by its id, or by the first digits of its random part.

        Raises `UnknownNameError`, or `InvalidValueError` if several runs fit.
        """
        document = None if text.startswith("_") else await self._couch.get(self._names.runs, text)
        if document is None and len(text) >= LEAST_DIGITS:
            document = await self._by_short_id(text)
        if document is None or "started" not in document:
            raise UnknownNameError("run", text)
        return document

    async def describe(self, run: Document, now: float) -> dict[str, Any]:
        """A run with its short id, notes and measurements by hand until the UNIX time `now`."""
        environment, start = run["environment"], run["started"]
        until = await self.belongs_until(run, now)
        return {
            "run": run,
            "short_id": short_id(run["_id"]),
            "until": until,
            "notes": await self.notes(environment, start, until),
            "measurements": await self.measurements(environment, start, until),
        }

    async def notes(self, environment: str, start: float, end: float) -> list[dict[str, Any]]:
        """The first `MOST_NOTES` notes between two UNIX times, in their order."""
        key = [environment, "event", "note"]
        return [_note(one) for one in await self._read(self._names.events, key, start, end, MOST_NOTES)]

    async def measurements(self, environment: str, start: float, end: float) -> list[dict[str, Any]]:
        """The measurements by hand between two UNIX times of variables that no sensor measures.

        Those of the others are among millions of points; `MOST_MEASUREMENTS` are read.
        """
        found: list[Document] = []
        points, sensed = self._names.points, self._sensed(environment)
        async for key in keys_below(self._couch, points, self._design, [environment, "measured"]):
            left = MOST_MEASUREMENTS - len(found)
            if left > 0 and key[-1] not in sensed:
                found += await self._read(points, key, start, end, left)
        by_hand = [document for document in found if document.get("is_manual")]
        return [_measurement(document) for document in sorted(by_hand, key=lambda each: each["timestamp"])]

    async def belongs_until(self, run: Document, now: float) -> float:
        """The UNIX time until which notes and measurements by hand belong to a run.

        That is `AFTER_DAYS` after the end, or the start of the next run if that is earlier.
        """
        if run["ended"] is None:
            return max(now, float(run["started"]))
        environment, started = run["environment"], run["started"]
        following = await self._couch.view(
            self._names.runs,
            self._design,
            "by_start",
            limit=2,
            startkey=[environment, started],
            endkey=[environment, {}],
        )
        starts = [row["key"][1] for row in following if row["id"] != run["_id"]]
        until = min([run["ended"] + AFTER_DAYS * 86_400.0, now, *starts])
        return float(max(until, started))  # after the clock was set back `now` may be before

    async def _read(
        self, database: str, key: list[Any], start: float, end: float, most: int
    ) -> list[Document]:
        found: list[Document] = []
        query = {"reduce": False, "startkey": [*key, start], "endkey": [*key, end]}
        rows_of = pages(self._couch, database, self._design, "by_variable", _PAGE, **query)
        async with aclosing(rows_of) as reading:
            async for rows in reading:
                found += [row["value"] for row in rows]
                if len(found) >= most:
                    break
        return found[:most]

    async def _by_short_id(self, text: str) -> Document | None:
        rows = await self._couch.all_docs(self._names.runs, descending=True, limit=_MOST_IDS)
        ids = [row["id"] for row in rows if stands_for(text, row["id"])]
        if len(ids) > 1:
            raise InvalidValueError(
                "run", f"the id of one run ({len(ids)} begin with it: {', '.join(ids[:5])})", text
            )
        return await self._couch.get(self._names.runs, ids[0]) if ids else None


def _listed(row: Document) -> dict[str, Any]:
    environment, started = row["key"]
    run_id, summary = row["id"], row["value"]
    identity = {"id": run_id, "short_id": short_id(run_id), "environment": environment, "started": started}
    return {**identity, **summary}

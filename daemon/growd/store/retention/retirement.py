"""Deletes the points of one database, a day at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from growd.store.retention.far_end import UnconfirmedError
from growd.store.rollups.document import RollupSeries, rollup_id, span_of
from growd.store.rollups.rolled import is_retired_once_sealed, rolled_point
from growd.store.rollups.writing import HOUR_WIDTH
from growd.store.view_pages import keys_below, pages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from growd.runtime.pauses import Pace
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd.store.retention.far_end import FarEnd
    from growd.store.rollups.feed import DatabaseFeed, RollupFeed
    from growd.store.rollups.rolled import RolledPoint

DAY_S: Final = 86_400

BATCH: Final = 1_000
"""Points that are deleted at once: a larger batch costs the card less, and delays readers for longer."""

EMBEDDED_BATCH: Final = 250
"""The same for the embedded database, which answers nobody meanwhile."""

_PURGED_AT_ONCE: Final = 100  # CouchDB's limit, [purge] max_document_id_number
_SOUGHT_AT_ONCE: Final = 20
_BY_SERIES: Final = "by_variable"
_BY_TIME: Final = "by_timestamp"
_PURGING: Final = "_local/growd-retiring"


class Retirement:
    """Deletes the measured values or commands of one database that are rolled up and confirmed.

    Each step can be repeated: after a kill the same day is found again. In CouchDB the
    tombstones of a batch are removed for good; their ids are in a local document of the same database before,
    so that they are found again after a kill. Tombstones of other programs stay. It rests at its `pace` after
    each batch. `unrolled` are the hours (ids of rollups) whose points stay until the next start, because the
    rollup does not have them all.
    """

    def __init__(
        self,
        database: Database,
        rollups: RollupFeed,
        feed: DatabaseFeed,
        far_end: FarEnd,
        pace: Pace,
        *,
        batch: int | None = None,
    ) -> None:
        self.database = feed.database
        self._couch = database.couch
        self._design = database.design
        self._rollups = rollups
        self._feed = feed
        self._is_event = feed is rollups.events
        self._category = "commanded" if self._is_event else "measured"
        self._far_end = far_end
        self._pace = pace
        self._batch = batch or (EMBEDDED_BATCH if database.is_embedded else BATCH)
        self._purges = not database.is_embedded
        self._sealed_until = 0
        self._passed: dict[RollupSeries, float] = {}
        self.unrolled: set[str] = set()

    async def finish(self) -> None:
        """Purge the tombstones that a kill left. Raises `CouchError`."""
        if not self._purges:
            return
        noted = await self._couch.get(self.database, _PURGING) or {}
        rows = await self._couch.rows_of(self.database, noted.get("ids", []))
        await self._purge({row["id"]: row["value"]["rev"] for row in rows if _is_tombstone(row)})

    async def oldest_day(self, before: float) -> int | None:
        """The start of the oldest day that has points to delete and ends before `before`, in UNIX seconds.

        Raises `CouchError`.
        """
        earliest, self._feed.earliest = self._feed.earliest, math.inf
        self._passed = {series: time for series, time in self._passed.items() if time <= earliest}
        oldest = math.inf
        async for series in self._all_series():
            oldest = min(oldest, await self._oldest(series, min(oldest, before)))
        if not math.isfinite(oldest):
            return None
        day = int(oldest // DAY_S) * DAY_S
        return day if day + DAY_S <= before else None

    async def retire(self, day: int) -> int:
        """Delete the points of a day; how many. Raises `UnconfirmedError` and `StoreError`.

        In the order of time: the points of a batch are neighbours in the files.
        """
        number = self._sealed_until = 0
        batch: dict[str, Document] = {}
        async for (environment,) in self._keys_below():
            start, end = [environment, day], [environment, day + DAY_S]
            async for rows in self._pages(_BY_TIME, start, end, self._batch):
                batch |= {row["id"]: row["value"] for row in rows if self._is_retired(row["value"])}
                if len(batch) >= self._batch:
                    number += await self._delete(batch, day)
                    batch = {}
        return number + (await self._delete(batch, day) if batch else 0)

    async def _delete(self, batch: dict[str, Document], day: int) -> int:
        """Delete these points; how many were deleted. A point that changed meanwhile stays."""
        await self._far_end.confirm(self.database, list(batch))
        with self._pace.waiting("the rollups"):
            await self._roll_up(day)
        self.unrolled |= await self._feed.lacking(map(self._rolled, batch.values()))
        batch = {each: point for each, point in batch.items() if self._is_retired(point)}
        if not batch:
            return 0
        if self._purges:
            await self._note(list(batch))
        deletions = [{"_id": each, "_rev": point["_rev"], "_deleted": True} for each, point in batch.items()]
        outcomes = await self._couch.bulk_docs(self.database, deletions)
        deleted = {each: str(outcome["rev"]) for each, outcome in outcomes.items() if "rev" in outcome}
        if self._purges:
            await self._purge(deleted)
        refused = (one for one in outcomes.values() if one.get("error", "conflict") != "conflict")
        for outcome in refused:
            reason = outcome.get("reason") or outcome["error"]
            raise UnconfirmedError(f"the database {self.database} refuses to delete points: {reason}")
        await self._pace.rest()
        return len(deleted)

    async def _roll_up(self, day: int) -> None:
        """Roll up all points that there are. It follows the reading of a batch, so that it has those."""
        if self._sealed_until == day + DAY_S:
            await self._rollups.catch_up()
            if self._feed.state.sealed_until >= day + DAY_S:  # not if the rollups began again
                return
        await self._rollups.seal(day + DAY_S)
        # before the first deletion: the rollups are complete, and the points soon are not
        until = max(self._feed.state.retired_until, day + DAY_S)
        await self._rollups.note_retired(self._feed, until)
        self._sealed_until = day + DAY_S

    async def _note(self, ids: list[str]) -> None:
        present = await self._couch.get(self.database, _PURGING) or {"_id": _PURGING}
        await self._couch.put(self.database, present | {"ids": ids})

    async def _purge(self, tombstones: dict[str, str]) -> None:
        """Purge tombstones that the index has left: purging rows of an index costs it 25 times as much."""
        if not tombstones:
            return
        await self._couch.view(self.database, self._design, _BY_SERIES, reduce=False, limit=1)
        items = list(tombstones.items())
        for first in range(0, len(items), _PURGED_AT_ONCE):
            part = items[first : first + _PURGED_AT_ONCE]
            await self._couch.purge(self.database, {each: [revision] for each, revision in part})

    def _keys_below(self, *prefix: str) -> AsyncGenerator[list[str]]:
        return keys_below(self._couch, self.database, self._design, prefix)

    async def _all_series(self) -> AsyncIterator[RollupSeries]:
        async for (environment,) in self._keys_below():
            async for key in self._keys_below(environment, self._category):
                yield RollupSeries(*key)

    async def _oldest(self, series: RollupSeries, before: float) -> float:
        """The time of the oldest point to delete of a series, infinity if there is none before `before`."""
        start = [*series, *([self._passed[series]] if series in self._passed else [])]
        async for rows in self._pages(_BY_SERIES, start, [*series, before], _SOUGHT_AT_ONCE):
            for row in rows:
                if self._is_retired(row["value"]):
                    return float(row["key"][-1])
            self._passed[series] = rows[-1]["key"][-1]
        return math.inf

    def _pages(
        self, view: str, start: list[Any], end: list[Any], limit: int
    ) -> AsyncGenerator[list[Document]]:
        """The rows of a view from `start` to before `end`; some may be deleted meanwhile."""
        query = {"startkey": start, "endkey": end, "inclusive_end": False}
        query |= {"reduce": False} if view == _BY_SERIES else {}
        return pages(self._couch, self.database, self._design, view, limit, **query)

    def _is_retired(self, point: Document) -> bool:
        if not is_retired_once_sealed(point, is_event=self._is_event):
            return False
        return not self.unrolled or _hour(self._rolled(point)) not in self.unrolled

    def _rolled(self, point: Document) -> RolledPoint:
        rolled = rolled_point(point, is_event=self._is_event)
        assert rolled is not None  # noqa: S101  batches have only points that are rolled up
        return rolled


def _hour(point: RolledPoint) -> str:
    return rollup_id(point.series, HOUR_WIDTH, span_of(HOUR_WIDTH, point.time))


def _is_tombstone(row: Document) -> bool:
    """Whether a row of `_all_docs` is of a deleted document."""
    value = row.get("value")
    return isinstance(value, dict) and bool(value.get("deleted"))

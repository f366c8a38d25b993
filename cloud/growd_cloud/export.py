"""`growd cloud export`: the points of all databases of the cloud into partitioned Parquet files."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from growd.store.errors import CouchError, StoreError
from growd_cloud.export_feed import CloudFeed
from growd_cloud.export_files import PartitionedFiles, PointTable
from growd_cloud.months import EVENTS, FIRST_YEAR, POINTS, Month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.store.couch import Couch
    from growd_cloud.export_feed import Documents
    from growd_cloud.export_state import ExportState, ReadPlace
    from growd_cloud.months import CloudNames

FIRST_MONTH: Final = Month(FIRST_YEAR, 1)
MOST_ROWS: Final = 200_000  # in memory: 30 MB
_SINGLE: Final = {POINTS: "environmental_data_point", EVENTS: "environmental_event"}


@dataclass
class ExportRound:
    """What a reading found: new rows by kind, documents that are none, how many databases, and lost ones."""

    rows: dict[str, int] = field(default_factory=dict)
    databases: int = 0
    others: int = 0
    gone: list[str] = field(default_factory=list)


class CloudExport:
    """Exports from one server into one folder.

    `report` gets the share of a round that is done.
    """

    def __init__(
        self,
        couch: Couch,
        state: ExportState,
        *,
        names: CloudNames,
        kinds: tuple[str, ...] = (POINTS,),
        since: Month = FIRST_MONTH,
        now: Callable[[], float],
        report: Callable[[float], None] = lambda _: None,
        most_rows: int = MOST_ROWS,
    ) -> None:
        self._couch = couch
        self._state = state
        self._files = PartitionedFiles(state)
        self._names = names
        self._kinds = kinds
        self._since = since
        self._now = now
        self._report = report
        self._most_rows = most_rows

    async def round(self) -> ExportRound:
        """Export what is new in each database, and merge small files. Raises `StoreError`."""
        found = ExportRound(dict.fromkeys(self._kinds, 0))
        places = await asyncio.to_thread(self._state.places)
        databases = [(kind, name) for kind in self._kinds for name in self._databases(kind)]
        for number, (kind, name) in enumerate(databases):
            self._report(number / len(databases))

            def report(part: float, before: int = number) -> None:
                self._report((before + part) / len(databases))

            if await self._export(kind, name, places.get(name), found, report):
                found.databases += 1
            else:
                await self._note_gone(places.get(name), found)
        await self._merge()
        self._report(1.0)
        return found

    async def _export(
        self,
        kind: str,
        name: str,
        place: ReadPlace | None,
        found: ExportRound,
        report: Callable[[float], None],
    ) -> bool:
        """Export what is new in a database; whether there is one."""
        done = 0
        buffer = _Buffer(kind, self._files, self._state, place)
        try:
            async with aclosing(CloudFeed(self._couch, name).documents(place)) as batches:
                async for batch in batches:
                    await asyncio.to_thread(buffer.add, batch)
                    done += len(batch.points)
                    report(done / max(1, done + batch.pending))
                    if buffer.rows >= self._most_rows:
                        found.rows[kind] += await asyncio.to_thread(buffer.write)
        except (CouchError, asyncio.CancelledError):
            await asyncio.to_thread(buffer.write)
            raise
        found.rows[kind] += await asyncio.to_thread(buffer.write)
        found.others += buffer.others
        if buffer.is_new:
            await self._merge()
        return buffer.place is not place

    async def _merge(self) -> None:
        """Merge small files. If it is cancelled it ends after the merge that has begun."""
        merging = asyncio.ensure_future(asyncio.to_thread(self._files.merge, Month.at(self._now())))
        try:
            await asyncio.shield(merging)
        except asyncio.CancelledError:
            self._files.stop()
            await merging
            raise

    async def _note_gone(self, place: ReadPlace | None, found: ExportRound) -> None:
        """Remember that a database is gone; its files stay."""
        if place is not None and not place.gone:
            await asyncio.to_thread(self._state.set_place, place._replace(gone=True))
            found.gone.append(place.database)

    def _databases(self, kind: str) -> Iterator[str]:
        """The names of all databases of this kind that there may be: readers can't list those there are."""
        month, now = self._since, Month.at(self._now())
        while month <= now.next:
            yield self._names.of_month(kind, month)
            month = month.next
        yield self._names.other(kind)
        yield f"{self._names.prefix}{_SINGLE[kind]}"


class _Buffer:
    """The rows of a database that are not in a file yet. Every call blocks.

    A call that is cancelled goes on in its thread; the next one waits for it.
    """

    def __init__(
        self, kind: str, files: PartitionedFiles, state: ExportState, place: ReadPlace | None
    ) -> None:
        self._kind, self._files, self._state = kind, files, state
        self._form = PointTable(kind)
        self._lock = Lock()
        self._tables: list[Any] = []
        self.place = self._written = place
        self.rows = self.others = 0
        self.is_new = False

    def add(self, batch: Documents) -> None:
        """Take documents, and the place behind them."""
        try:
            table = self._form.table(batch.points)
        except ValueError as error:
            raise StoreError(f"{batch.place.database} has a document that is no point: {error}") from None
        with self._lock:
            if batch.points:
                self._tables.append(table)
            self.rows += len(batch.points)
            self.others += batch.others
            self.place = batch.place

    def write(self) -> int:
        """Put all rows that are new into files, and move the place; how many they were."""
        with self._lock:
            if self.place is None or self.place == self._written:
                return 0
            new = 0
            if self._tables:
                new = self._files.write(self._kind, self._tables, self.place)
                self.is_new = True
            else:
                self._state.set_place(self.place)
            self._tables, self.rows, self._written = [], 0, self.place
            return new

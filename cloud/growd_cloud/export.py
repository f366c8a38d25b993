"""`growd cloud export`: the points of all databases of the cloud into partitioned Parquet files."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd.store.errors import CouchAnswerTooLargeError, CouchError, StoreError
from growd.store.points import is_id
from growd_cloud.export_files import PartitionedFiles, PointTable
from growd_cloud.export_state import ReadPlace
from growd_cloud.months import EVENTS, FIRST_YEAR, POINTS, Month

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from growd.store.couch import Couch, Document
    from growd_cloud.export_state import ExportState
    from growd_cloud.months import CloudNames

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


@dataclass(eq=False)
class CloudExport:
    """Exports from one server into one folder.

    `report` gets the share of a round that is done.
    """

    couch: Couch
    state: ExportState
    _: KW_ONLY
    names: CloudNames
    kinds: tuple[str, ...] = (POINTS,)
    since: Month = FIRST_MONTH
    now: Callable[[], float]
    report: Callable[[float], None] = lambda _: None
    most_rows: int = MOST_ROWS

    def __post_init__(self) -> None:
        self._files = PartitionedFiles(self.state)

    async def round(self) -> ExportRound:
        """Export what is new in each database, and merge small files. Raises `StoreError`."""
        found = ExportRound(dict.fromkeys(self.kinds, 0))
        places = await asyncio.to_thread(self.state.places)
        databases = [(kind, name) for kind in self.kinds for name in self._databases(kind)]
        for number, (kind, name) in enumerate(databases):
            self.report(number / len(databases))

            def report(part: float, before: int = number) -> None:
                self.report((before + part) / len(databases))

            if await self._export(kind, name, places.get(name), found, report):
                found.databases += 1
            else:
                await self._note_gone(places.get(name), found)
        await self._merge()
        self.report(1.0)
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
        buffer = _Buffer(kind, self._files, self.state, place)
        try:
            async with aclosing(CloudFeed(self.couch, name).documents(place)) as batches:
                async for batch in batches:
                    await asyncio.to_thread(buffer.add, batch)
                    done += len(batch.points)
                    report(done / max(1, done + batch.pending))
                    if buffer.rows >= self.most_rows:
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
        merging = asyncio.ensure_future(asyncio.to_thread(self._files.merge, Month.at(self.now())))
        try:
            await asyncio.shield(merging)
        except asyncio.CancelledError:
            self._files.stop()
            await merging
            raise

    async def _note_gone(self, place: ReadPlace | None, found: ExportRound) -> None:
        """Remember that a database is gone; its files stay."""
        if place is not None and not place.gone:
            await asyncio.to_thread(self.state.set_place, place._replace(gone=True))
            found.gone.append(place.database)

    def _databases(self, kind: str) -> Iterator[str]:
        """The names of all databases of this kind that there may be: readers can't list those there are."""
        month, now = self.since, Month.at(self.now())
        while month <= now.next:
            yield self.names.of_month(kind, month)
            month = month.next
        yield self.names.other(kind)
        yield f"{self.names.prefix}{_SINGLE[kind]}"


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

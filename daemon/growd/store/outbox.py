"""Points on their way to the database: safe on the disk first, gone once the database has them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from growd.store.errors import LocalStoreError
from growd.store.local import to_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from growd.clock import Clock
    from growd.store.local import LocalStore
    from growd.store.points import DataPoint

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WaitingPoint:
    """A point in the outbox: its place in the order, and the document as it will be sent."""

    sequence: int
    document: dict[str, Any]

    @property
    def id(self) -> str:
        point_id: str = self.document["_id"]
        return point_id


@dataclass(frozen=True, slots=True)
class RejectedPoint:
    """A point that the database refused, with its reason; `rejected_at` in UNIX seconds."""

    document: dict[str, Any]
    reason: str
    rejected_at: float


class Outbox:
    """Keeps points, in order, until the database has them.

    `add` puts a point in memory; `run` commits what came together each `commit_interval` seconds of the
    clock, so that the card sees one sync and not one for each point. Who promises something uses
    `add_durably`. At most `buffer` points wait for a commit in memory: when the disk takes none, the oldest
    is dropped for a new one, which `dropped` counts.
    """

    def __init__(
        self,
        local: LocalStore,
        clock: Clock,
        *,
        commit_interval: float = 1.0,
        buffer: int = 10_000,
    ) -> None:
        self.dropped = 0
        self.added = asyncio.Event()  # set when points were committed; whoever waits on it clears it
        self._local = local
        self._clock = clock
        self._interval = commit_interval
        self._limit = buffer
        self._buffer: deque[str] = deque()
        self._buffered = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._waiting = 0

    @classmethod
    async def open(
        cls, local: LocalStore, clock: Clock, *, commit_interval: float = 1.0, buffer: int = 10_000
    ) -> Outbox:
        """An outbox that knows how many points wait from before."""
        outbox = cls(local, clock, commit_interval=commit_interval, buffer=buffer)
        outbox._waiting = await local.read(_count_waiting)
        if outbox._waiting:
            outbox.added.set()
        return outbox

    def add(self, point: DataPoint) -> None:
        """Take a point; it is safe with the next commit. Never waits."""
        if len(self._buffer) >= self._limit:
            self._drop_oldest()
        self._buffer.append(to_json(point.document()))
        self._buffered.set()

    async def add_durably(self, points: Iterable[DataPoint]) -> None:
        """Take points, and return once they and all before them are on the disk.

        Raises `LocalStoreError` if the disk takes none; the points then stay in memory and are tried again.
        """
        for point in points:
            self.add(point)
        await self.flush()

    async def add_with(self, point: DataPoint, also: Callable[[sqlite3.Connection], None]) -> None:
        """Take a point and run `also(file)` in one durable transaction; `LocalStoreError` undoes both."""
        documents = [to_json(point.document())]

        def write(file: sqlite3.Connection) -> int:
            also(file)
            return _insert(file, documents)

        await self._local.write(write, self._count_added)

    async def flush(self) -> None:
        """Commit what waits in memory. Raises `LocalStoreError`; the points then stay in memory."""
        async with self._flushing:
            documents = list(self._buffer)
            if not documents:
                return
            self._buffer.clear()
            self._buffered.clear()
            try:
                await self._local.write(lambda file: _insert(file, documents), self._count_added)
            except BaseException:
                # Cut short by a cancel, SQLite may have committed them all the same. Then they wait twice
                # under one _id, and the database keeps one.
                self._put_back(documents)
                raise

    async def run(self) -> None:
        """Commit added points, each interval at most once. Cancel it, then `flush` once more."""
        failing = False
        while True:
            await self._buffered.wait()
            await self._clock.sleep(self._interval)
            try:
                await self.flush()
            except LocalStoreError as error:
                if not failing:
                    _log.error("points can't be saved and stay in memory: %s", error)
                failing = True
            else:
                if failing:
                    _log.warning("points are saved again")
                failing = False

    async def next_batch(self, limit: int) -> list[WaitingPoint]:
        """The `limit` oldest points that are on the disk; they stay until they are marked."""
        rows = await self._local.read(
            lambda file: file.execute(
                "SELECT sequence, document FROM waiting ORDER BY sequence LIMIT ?", (limit,)
            ).fetchall()
        )
        return [WaitingPoint(sequence, json.loads(document)) for sequence, document in rows]

    async def mark_stored(self, points: Sequence[WaitingPoint]) -> None:
        """The database has these: forget them."""
        await self._local.write(lambda file: _delete(file, points), self._count_gone)

    async def reject(self, point: WaitingPoint, reason: str) -> None:
        """The database will not have this one: set it aside with the reason."""
        now = self._clock.time()

        def move(file: sqlite3.Connection) -> int:
            file.execute(
                "INSERT OR REPLACE INTO rejected VALUES (?, ?, ?, ?)",
                (point.id, to_json(point.document), reason, now),
            )
            return _delete(file, [point])

        await self._local.write(move, self._count_gone)

    async def rejected(self, limit: int = 1000) -> list[RejectedPoint]:
        """Points that were set aside, oldest first."""
        rows = await self._local.read(
            lambda file: file.execute(
                "SELECT document, reason, rejected_at FROM rejected ORDER BY rejected_at, id LIMIT ?",
                (limit,),
            ).fetchall()
        )
        return [RejectedPoint(json.loads(document), reason, at) for document, reason, at in rows]

    def depth(self) -> int:
        """Points that the database does not have yet, those in memory included."""
        return self._waiting + len(self._buffer)

    @property
    def waiting(self) -> int:
        """Points that are on the disk and can be shipped."""
        return self._waiting

    def _count_added(self, number: int) -> None:
        self._waiting += number
        self.added.set()

    def _count_gone(self, number: int) -> None:
        self._waiting -= number

    def _put_back(self, documents: list[str]) -> None:
        self._buffer.extendleft(reversed(documents))
        while len(self._buffer) > self._limit:
            self._drop_oldest()
        self._buffered.set()

    def _drop_oldest(self) -> None:
        if not self.dropped:
            _log.error("%d points wait in memory, the most there may be: the oldest are dropped", self._limit)
        self._buffer.popleft()
        self.dropped += 1


def _count_waiting(file: sqlite3.Connection) -> int:
    count: int = file.execute("SELECT count(*) FROM waiting").fetchone()[0]
    return count


def _insert(file: sqlite3.Connection, documents: list[str]) -> int:
    rows = ((document,) for document in documents)
    return file.executemany("INSERT INTO waiting (document) VALUES (?)", rows).rowcount


def _delete(file: sqlite3.Connection, points: Sequence[WaitingPoint]) -> int:
    deleted = file.executemany(
        "DELETE FROM waiting WHERE sequence = ?", ((point.sequence,) for point in points)
    )
    return deleted.rowcount

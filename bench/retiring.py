"""Days of a chamber in a database from which old points are retired, for `years`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import aiohttp
from frontdoor import COUCHDB, Way
from measuring import Process, Row, limited, listener
from ten_years import EVERY_S, MEASURED, point

from growd.config import Replication
from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from growd.store.retention.far_end import FarEnd
from growd.store.retention.retirement import Retirement
from growd.store.rollups.feed import RollupFeed

if TYPE_CHECKING:
    from growd.store.database import Database

DAY: Final = 86_400
START: Final = 1_700_006_400  # 00:00 UTC
DELAY_S: Final = 660.0
BATCH: Final = 500  # points stored in one request, as by growd
POINT_BYTES: Final = 2 * 1_258  # of the room: docs/retention.md, doubled since nothing is compacted early
ROLLUP_BYTES: Final = 2 * 17_000  # a day and series
KB_A_POINT: Final = 0.7


@dataclass
class _Served:
    """What `Retirement` needs of a `Database`."""

    couch: Couch
    is_embedded: bool
    design: str = "svc"


@dataclass(frozen=True)
class Scale:
    """How many days pass, how many points each has, and how many days of points are kept."""

    days: int
    points: int
    kept: int

    @property
    def room(self) -> float:
        """Bytes that the databases may take."""
        kept = self.points * (self.kept + 2) * POINT_BYTES
        return kept + self.days * len(MEASURED) * ROLLUP_BYTES


def retire_days(way: Way, scale: Scale, login: tuple[str, str] | None, *, is_embedded: bool) -> list[Row]:
    """Let the days pass; the largest size, and what each retired point wrote."""
    return asyncio.run(_retire_days(way, scale, login, is_embedded=is_embedded))


async def _retire_days(
    way: Way, scale: Scale, login: tuple[str, str] | None, *, is_embedded: bool
) -> list[Row]:
    names = Databases.prefixed(f"growd_bench_{uuid4().hex}_")
    process = listener(way.port)
    async with aiohttp.ClientSession() as session:
        couch = Couch(session, f"http://{way.host}:{way.port}", credentials=login)
        await bootstrap(couch, COUCHDB, databases=names)
        try:
            chamber = _Chamber(couch, names, scale, process, is_embedded=is_embedded)
            return await chamber.rows()
        finally:
            for name in names.names_by_folder().values():
                await couch.delete(name)


class _Chamber:
    """The databases of a chamber whose time is that of the day that has just passed."""

    def __init__(
        self, couch: Couch, names: Databases, scale: Scale, process: Process | None, *, is_embedded: bool
    ) -> None:
        self._couch, self._names, self._scale, self._process = couch, names, scale, process
        self._is_embedded = is_embedded
        self._now = START + 0.0
        self._feed = RollupFeed(couch, names, "svc", now=lambda: self._now, delay=lambda: DELAY_S, rest=0.0)

    async def rows(self) -> list[Row]:
        """Pass the days."""
        served = cast("Database", _Served(self._couch, self._is_embedded))
        far_end = FarEnd(self._couch, Replication(), self._names, "0123456789ab")
        retirement = Retirement(served, self._feed, self._feed.points, far_end, _no_rest)
        largest, written, retired = 0.0, 0, 0
        for day in range(self._scale.days):
            await self._store(START + day * DAY)
            self._now = START + (day + 1) * DAY + DELAY_S + 1
            await self._feed.catch_up()
            largest = max(largest, await self._size())
            before = self._process.written() if self._process else 0
            while (oldest := await retirement.oldest_day(self._now - self._scale.kept * DAY)) is not None:
                retired += await retirement.retire(oldest)
            written += (self._process.written() if self._process else 0) - before
            largest = max(largest, await self._size())
        passed = f"{self._scale.days} days with {self._scale.points:,} points each, {self._scale.kept} kept"
        rows = [limited(f"{passed}: largest size", "MB", largest / 1e6, self._scale.room / 1e6)]
        if self._process and retired:
            rows.append(limited("written for a retired point", "kB", written / retired / 1e3, KB_A_POINT))
        return rows

    async def _store(self, start: int) -> None:
        number = self._scale.points // len(MEASURED)
        made = [
            point(name, n * 10 + place, start + n * EVERY_S, is_desired=False, is_manual=False)
            for n in range(number)
            for place, name in enumerate(MEASURED)
        ]
        for first in range(0, len(made), BATCH):
            await self._couch.bulk_docs(self._names.points, made[first : first + BATCH])
            await self._couch.view(self._names.points, "svc", "by_variable", reduce=False, limit=1)

    async def _size(self) -> float:
        """Bytes of the databases and the index. Half-empty files are compacted, as growd does."""
        size = 0.0
        for name, design in (
            (self._names.points, ""),
            (self._names.points, "svc"),
            (self._names.rollups, ""),
        ):
            sizes = await self._sizes(name, design)
            size += sizes["file"]
            if sizes["file"] > 2 * sizes["active"] and not self._is_embedded:
                await self._couch.compact(name, design)
        return size

    async def _sizes(self, name: str, design: str) -> dict[str, Any]:
        info = await self._couch.info(name) or {}
        if design:
            info = (await self._couch.index_info(name, design))["view_index"]
        return {"file": 0, "active": 0, **info.get("sizes", {})}


async def _no_rest() -> None:
    """The benchmark needs no pauses."""

"""Ten years of a chamber on a small card, with growd's own retention, for `years`."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import aiohttp
from frontdoor import COUCHDB, Way
from measuring import Row, limited

from growd.bus import Bus
from growd.config import Replication, Retention
from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pace
from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from growd.store.database import Database
from growd.store.local import LocalStore
from growd.store.points import PointMaker
from growd.store.retention.budget import Shortage, budget
from growd.store.retention.compaction import Compaction
from growd.store.retention.far_end import FarEnd
from growd.store.retention.keeping import GRACE_S, RetentionKeeper
from growd.store.retention.retirement import Retirement
from growd.store.retention.sizes import DiskUse, disk_use
from growd.store.rollups.feed import DAY, RollupFeed

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

START: Final = 1_700_006_400  # 00:00 UTC
DELAY_S: Final = 660.0
HOUR: Final = 3_600
CARD_ROOM: Final = 11.2e9  # bytes, of 16 GB: docs/retention.md
CARD_POINTS: Final = 104_000  # of a day: six variables each 5 s and four commands
VARIABLE: Final = "air_temperature"
"""Only one: rollups do not shrink with the number of points, and those of one take more than their share."""

PIECES: Final = 5  # in which the points of a day are stored, with a look at the room after each


@dataclass(frozen=True)
class Scale:
    """How many days pass, how many times smaller than those of a card room and points are, and one day in
    how many has the points of all.
    """

    days: int
    smaller: int
    every: int

    @property
    def room(self) -> float:
        """Bytes that the databases may take with the room of a compaction."""
        return CARD_ROOM / self.smaller

    @property
    def points(self) -> int:
        """The points of a day that has some."""
        return CARD_POINTS * self.every // self.smaller


def simulate(way: Way, scale: Scale, login: tuple[str, str]) -> list[Row]:
    """Let the days pass in a CouchDB; the largest size, and what was not stored."""
    return asyncio.run(_simulate(way, scale, login))


async def _simulate(way: Way, scale: Scale, login: tuple[str, str]) -> list[Row]:
    prefix, url = f"growd_bench_{uuid4().hex}_", f"http://{way.host}:{way.port}"
    names = Databases.prefixed(prefix)
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        local = await LocalStore.open(Path(folder) / "growd.sqlite3")
        async with aiohttp.ClientSession() as session:
            couch = Couch(session, url, credentials=login)
            await bootstrap(couch, COUCHDB, databases=names)
            await _validate_nothing(couch, names)
            try:
                async with Database(
                    files=COUCHDB,
                    data=Path(folder),
                    design_name="svc",
                    url=url,
                    credentials=login,
                    prefix=prefix,
                ) as database:
                    database.prepared.set()
                    return await _Chamber(database, local, scale).rows()
            finally:
                for name in names.names_by_folder().values():
                    await couch.delete(name)
                await local.close()


async def _validate_nothing(couch: Couch, names: Databases) -> None:
    """Leave out the validation of documents, which takes most of the time and changes no size."""
    for name in (names.points, names.rollups):
        rows = await couch.all_docs(name, include_docs=True)
        for design in (row["doc"] for row in rows if "validate_doc_update" in row["doc"]):
            del design["validate_doc_update"]
            await couch.put(name, design)


class _PassedTime(RealClock):
    """A clock whose wall time is set."""

    def __init__(self) -> None:
        self.now = START + 0.0

    def time(self) -> float:
        return self.now

    def is_synchronised(self) -> bool:
        return True


class _Chamber:
    """The databases of a chamber, and the tasks that keep them within their room."""

    def __init__(self, database: Database, local: LocalStore, scale: Scale) -> None:
        self._database, self._data, self._scale = database, local.path.parent, scale
        self._options = Retention(budget_mb=scale.room / 1e6)
        self._clock = _PassedTime()
        self._maker = PointMaker(local.device)
        self._shortage = self._worst = Shortage.NONE
        self._largest = self._needed = self._stored = self._refused = 0
        names, couch = database.names, database.couch
        feed = RollupFeed(
            couch, names, database.design, now=self._clock.time, delay=lambda: DELAY_S, pace=Pace(0.0)
        )
        far_end = FarEnd(couch, Replication(), names, local.device)
        self._feed = feed
        self._keeper = RetentionKeeper(
            Bus(self._clock),
            local,
            self._options,
            prepared=database.prepared,
            retirements=lambda pace: [
                Retirement(database, feed, each, far_end, pace) for each in (feed.points, feed.events)
            ],
            compaction=Compaction(database, poll_s=0.1),
            measure=self._measure,
            store_less=self._store_less,
            record=lambda *_: None,
            zone=cast("ZoneInfo", UTC),
        )

    async def rows(self) -> list[Row]:
        """Pass the days."""
        scale = self._scale
        await self._look(START - GRACE_S - DAY)
        for day in range(0, scale.days, scale.every):
            await self._pass_day(START + day * DAY)
        sizes = await self._sizes()
        name = f"{scale.days} days, {scale.smaller} times smaller than 16 GB, {self._stored:,} points"
        return [
            limited(f"{name}: largest with compaction", "MB", self._needed / 1e6, scale.room / 1e6),
            limited(f"{name}: largest files", "MB", self._largest / 1e6, scale.room / 1e6),
            limited("  points that room was lacking for", "", self._refused, 0),
            limited("  rollups in the end", "MB", sizes[self._database.names.rollups] / 1e6),
            limited("  days of points in the end", "", await self._days_kept()),
            limited(f"  worst shortage: {self._worst.name.lower()}", "", self._worst),
        ]

    async def _pass_day(self, start: int) -> None:
        """Store the points of a day within an hour, a piece at a time; the next night follows."""
        number = self._scale.points // PIECES
        for piece in range(PIECES):
            at = start + piece * HOUR / PIECES
            if self._shortage >= Shortage.STORING_LESS:
                self._refused += number
            else:
                await self._store(at, number)
            await self._look(at + HOUR / PIECES)
        self._clock.now = night = start + DAY + 1.5 * HOUR  # in the quiet hours
        await self._feed.catch_up()
        await self._look(night)

    async def _store(self, start: float, number: int) -> None:
        step = HOUR / PIECES / number
        points = [
            self._maker.make("chamber", VARIABLE, 20 + n % 97 / 10, start + n * step) for n in range(number)
        ]
        couch, name = self._database.couch, self._database.names.points
        await couch.bulk_docs(name, [point.document() for point in points])
        await couch.view(name, self._database.design, "by_variable", reduce=False, limit=1)
        self._stored += number

    async def _look(self, now: float) -> None:
        self._clock.now = now
        await self._keeper.look()
        problems: list[dict[str, Any]] = self._keeper.node.details()["problems"]
        if faults := [one["text"] for one in problems if "does not work" in one["text"]]:
            raise RuntimeError(faults[0])

    async def _measure(self) -> DiskUse:
        """What growd measures before each of its steps."""
        use = await disk_use(self._database, self._data)
        self._needed = max(self._needed, budget(self._options, use).needs)
        self._largest = max(self._largest, use.used)
        return use

    def _store_less(self, shortage: Shortage) -> None:
        self._shortage, self._worst = shortage, max(self._worst, shortage)

    async def _sizes(self) -> dict[str, int]:
        use = await disk_use(self._database, self._data)
        return {file.database: file.size for file in use.files if not file.design}

    async def _days_kept(self) -> float:
        couch, names = self._database.couch, self._database.names
        rows = await couch.view(names.points, self._database.design, "by_timestamp", limit=1)
        oldest: float = rows[0]["key"][-1]
        return (self._clock.now - oldest) / DAY

"""Databases with points and rollups for tests, and a database client that stops at one of its requests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from growd.runtime.pauses import Pace
from growd.store.bootstrap import Databases, read_design
from growd.store.points import PointMaker
from growd.store.rollups.document import rollup_of
from growd.store.rollups.feed import RollupFeed
from support.couch_client import FILES
from support.own_databases import own_databases

if TYPE_CHECKING:
    from growd.store.couch import Couch

ENVIRONMENT = "environment_1"
DAY = 86_400
START = 1_700_006_400  # 00:00 UTC
DELAY_S = 660.0


class Killed(BaseException):
    """What stands for the end of the process."""


class KilledCouch:
    """A client whose process ends at request number `at`: before it is sent, or after it was carried out."""

    def __init__(self, couch, at=0, *, is_sent=False):
        self.requests = []
        self._couch = couch
        self._at = at
        self._is_sent = is_sent

    def __getattr__(self, name):
        method = getattr(self._couch, name)

        async def request(*arguments, **options):
            self.requests.append(name)
            is_last = len(self.requests) == self._at
            if is_last and not self._is_sent:
                raise Killed
            answer = await method(*arguments, **options)
            if is_last:
                raise Killed
            return answer

        return request


@dataclass
class RollupBench:
    """Databases of their own, a time that tests set, and `feed`, which `restart` replaces."""

    couch: Couch
    names: Databases
    feed: RollupFeed = field(init=False)
    now: float = START + 0.0
    maker: PointMaker = field(default_factory=lambda: PointMaker("0123456789ab"))

    def __post_init__(self):
        self.restart()

    def restart(self, couch=None, pace=None):
        """Forget all that is in memory, as a new process does."""
        client = couch or self.couch
        self.feed = RollupFeed(
            client, self.names, "svc", now=lambda: self.now, delay=lambda: DELAY_S, pace=pace or Pace(0.0)
        )

    async def catch_up(self, now=None):
        """Let time pass, and bring the rollups up to date."""
        self.now = now if now is not None else self.now
        await self.feed.catch_up()

    async def store(self, *points):
        """Store points, given by the arguments of `PointMaker.make`; returns their documents."""
        made = [self.maker.make(point.pop("environment", ENVIRONMENT), **point) for point in points]
        for name in (self.names.points, self.names.events):
            is_event = name == self.names.events
            documents = [point.document() for point in made if bool(point.category) is is_event]
            if documents:
                await self.store_documents(documents, name)
        return [point.document() for point in made]

    async def store_documents(self, documents, database=""):
        outcomes = await self.couch.bulk_docs(database or self.names.points, documents)
        assert not [one for one in outcomes.values() if "error" in one], outcomes

    async def rollups(self):
        """All rollups by id, without their revisions."""
        rows = await self.couch.all_docs(self.names.rollups, include_docs=True)
        found = {}
        for row in rows:
            if not row["id"].startswith("_design/"):
                rollup = rollup_of(row["doc"])
                assert rollup is not None, row
                rollup.rev = ""
                found[rollup.id] = rollup
        return found

    async def rollup(self, variable, width, start, category="measured"):
        """The one with this variable, width and start."""
        return (await self.rollups())[f"{ENVIRONMENT}/{category}/{variable}/{width:05d}/{start:011d}"]


async def make_databases(couch, names):
    """Make those of the three that are missing, with their design documents."""
    for folder in ("environmental_data_point", "environmental_event", "environmental_rollup"):
        database = names.names_by_folder()[folder]
        if await couch.create(database):
            design = await asyncio.to_thread(read_design, FILES / "design" / folder, "svc", False)
            assert design is not None
            await couch.put(database, design)


@asynccontextmanager
async def rollup_bench(server):
    """New databases, deleted at the end."""
    async with own_databases(server) as (couch, names):
        await make_databases(couch, names)
        yield RollupBench(couch, names)


def measured(variable, value, timestamp, **options):
    """The arguments of a measured point."""
    return {"variable": variable, "value": value, "timestamp": timestamp, **options}

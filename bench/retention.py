"""What the retirement of points writes to the files of CouchDB, for each point.

GROWD_TEST_COUCHDB=http://user:password@host:port names the CouchDB. Between compactions its files only grow,
so their growth is what was written. The databases are new and have four days of six variables, each stored
each 86 s; the oldest day is retired, which is too little for a compaction by CouchDB.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import aiohttp
from measuring import Options, Row, limited, main

from growd.config import Replication
from growd.runtime.pauses import Pace
from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from growd.store.points import PointMaker
from growd.store.retention.far_end import FarEnd
from growd.store.retention.retirement import BATCH, Retirement
from growd.store.rollups.feed import DAY, RollupFeed
from growd.wiring.files import shipped_folder

if TYPE_CHECKING:
    from growd.store.database import Database

MOST_KB: Final = 0.7
START: Final = 1_700_006_400
VARIABLES: Final = 6
EACH_DAY: Final = 6_000
DAYS: Final = 4


def measure(_: Options) -> list[Row]:
    address = os.environ.get("GROWD_TEST_COUCHDB")
    if not address:
        return []
    written, seconds = asyncio.run(retire_a_day(address))
    return [
        limited("written for a retired point", "kB", written / EACH_DAY / 1e3, MOST_KB),
        limited("time of 1000 retired points", "s", seconds * 1_000 / EACH_DAY),
    ]


async def retire_a_day(address: str) -> tuple[int, float]:
    """The bytes by which the files grow when a day is retired, and the seconds that it takes."""
    names = Databases.prefixed(f"growd_bench_{uuid4().hex}_")
    parts = urlsplit(address)
    login = unquote(parts.username or ""), unquote(parts.password or "")
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    async with aiohttp.ClientSession() as session:
        couch = Couch(session, url, credentials=login)
        try:
            await bootstrap(couch, shipped_folder("couchdb")[0], databases=names)
            await _store(couch, names)
            return await _retire(couch, names)
        finally:
            for name in names.names_by_folder().values():
                await couch.delete(name)


async def _store(couch: Couch, names: Databases) -> None:
    maker = PointMaker(PointMaker.new_device())
    step = DAY / EACH_DAY
    for first in range(0, DAYS * EACH_DAY, 500):
        points = [
            maker.make("environment_1", f"variable_{n % VARIABLES}", 20 + n % 97 / 10, START + n * step)
            for n in range(first, first + 500)
        ]
        await couch.bulk_docs(names.points, [point.document() for point in points])
        await couch.view(names.points, "svc", "by_variable", reduce=False, limit=1)


async def _retire(couch: Couch, names: Databases) -> tuple[int, float]:
    now = START + (DAYS + 2.0) * DAY
    feed = RollupFeed(couch, names, "svc", now=lambda: now, delay=lambda: 660.0, pace=Pace(0.0))
    await feed.catch_up()
    database = cast("Database", _Server(couch))
    far_end = FarEnd(couch, Replication(), names, "0" * 12)
    retirement = Retirement(database, feed, feed.points, far_end, Pace(0.0), batch=BATCH)
    before, began = await _file_bytes(couch, names), time.monotonic()
    number = await retirement.retire(START)
    if number != EACH_DAY:
        raise RuntimeError(f"{number} of {EACH_DAY} points were retired")
    return await _file_bytes(couch, names) - before, time.monotonic() - began


class _Server:
    """What `Retirement` needs of a `Database`."""

    is_embedded = False
    design = "svc"

    def __init__(self, couch: Couch) -> None:
        self.couch = couch


async def _file_bytes(couch: Couch, names: Databases) -> int:
    """The size of the files that a retirement writes."""
    databases = [await couch.info(name) or {} for name in (names.points, names.rollups)]
    index = (await couch.index_info(names.points, "svc"))["view_index"]
    return sum(int(each["sizes"]["file"]) for each in (*databases, index))


if __name__ == "__main__":
    main(measure, rounds=1)

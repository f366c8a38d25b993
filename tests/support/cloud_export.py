"""Monthly databases with points of several chambers, and what an export of them has."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from uuid import uuid4

import aiohttp
from cloud_points import device_id, document, month_database
from pyarrow import parquet

from growd.store.couch import Couch
from growd_cloud.export import CloudExport
from growd_cloud.export_state import ExportState
from growd_cloud.months import CloudNames, Month
from support.couch_client import client_of

NOW = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
OCTOBER = datetime(2026, 10, 30, tzinfo=UTC).timestamp()
NOVEMBER = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
DAY_S = 86_400


class Cloud:
    """The databases of one test, named with a prefix of their own."""

    def __init__(self, server, ask):
        self.server = server
        self.prefix = f"growd_cloud_{uuid4().hex[:12]}_"
        self.ask = ask
        self.made = set()

    async def make(self, name):
        if name not in self.made:
            self.made.add(name)
            assert (await self.ask("PUT", f"/{self.prefix}{name}", q=1)).status in {201, 202}

    async def drop(self, name):
        self.made.discard(name)
        await self.ask("DELETE", f"/{self.prefix}{name}")

    async def store(self, documents, kind="points", *, database=""):
        """Store documents in the databases of their months, or in one that is named."""
        by_database = {}
        for each in documents:
            by_database.setdefault(database or month_database(kind, each["_id"]), []).append(each)
        for name, some in by_database.items():
            await self.make(name)
            answer = await self.ask("POST", f"/{self.prefix}{name}/_bulk_docs", {"docs": some})
            assert all(row.get("ok") for row in answer.json), answer.json

    async def export(self, folder, **options):
        """One run of the export."""
        state = await asyncio.to_thread(ExportState, folder)
        try:
            async with aiohttp.ClientSession() as session:
                couch = Couch(session, self.server.url, credentials=self.server.auth)
                options = {"since": Month(2026, 9), "now": lambda: NOW, **options}
                return await CloudExport(couch, state, names=CloudNames(self.prefix), **options).round()
        finally:
            state.close()


async def change_state(folder, change):
    """Change the state of a folder."""

    def changed():
        with closing(ExportState(folder)) as state:
            change(state)

    await asyncio.to_thread(changed)


@asynccontextmanager
async def cloud_of(server):
    async with client_of(server.url, server.auth) as ask:
        cloud = Cloud(server, ask)
        try:
            yield cloud
        finally:
            for name in [*cloud.made]:
                await cloud.drop(name)


def points(number, start, chambers=3, every_s=3_600.0):
    """`number` points of each chamber from `start` on, one after the other."""
    return [
        document(chamber, start + step * every_s, "air_temperature", 20 + step / 8)
        for step in range(number)
        for chamber in range(chambers)
    ]


def files_of(folder, kind="points"):
    """The files that a reader finds, by month and device."""
    found = {}
    for path in sorted((folder / kind).rglob("*.parquet")):
        found.setdefault(str(path.parent.relative_to(folder / kind)), []).append(path)
    return found


def rows_of(folder, kind="points"):
    """All rows that a reader finds, with the month and device of their folders."""
    rows = []
    for place, paths in files_of(folder, kind).items():
        month, device = (part.partition("=")[2] for part in place.split("/"))
        for path in paths:
            table = parquet.ParquetFile(path).read(use_threads=False).to_pylist()
            rows += [row | {"month": month, "device": device} for row in table]
    return rows


def ids_of(folder, kind="points"):
    """How often a reader finds each id."""
    return Counter(row["id"] for row in rows_of(folder, kind))


def once(documents):
    """Each of these documents once."""
    return Counter({each["_id"] for each in documents})


__all__ = ["DAY_S", "NOVEMBER", "NOW", "OCTOBER", "Cloud", "cloud_of", "device_id", "document"]

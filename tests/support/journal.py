"""A journal over a database of its own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

import aiohttp

from growd.bus import Bus
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, MessageType
from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from growd.store.entries.journal import EntryFields, GrowersJournal
from growd.store.entries.listing import JournalQuery
from growd.store.points import PointMaker
from support.clock import ManualClock
from support.couch_client import FILES
from support.running import in_tasks
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from growd.runtime.clock import Clock

ENVIRONMENT = "environment_1"
TEXT = MessageType("std_msgs/String", (Field("data", Kind.STRING, min_length=1, max_length=2_000),))


@dataclass
class JournalRig:
    """Databases, and what a journal over them needs. While `is_away`, the database does not answer."""

    couch: Couch
    names: Databases
    data: Path
    clock: Clock
    is_away: bool = False
    shipped: list[str] = field(default_factory=list)
    maker: PointMaker = field(default_factory=lambda: PointMaker("0123456789ab"))

    async def prepare(self):
        await bootstrap(self.couch, FILES, "svc", self.names)

    @asynccontextmanager
    async def ship(self):
        self.shipped.append("begin")
        yield
        self.shipped.append("end")

    def journal(self, bus):
        """A journal that is not loaded yet, and the topics that it publishes on."""
        declare = bus.topics.declare
        declare(f"{ENVIRONMENT}/notes", TEXT, is_open=True)
        declare(f"{ENVIRONMENT}/measured/plant_height", FLOAT64.within(0, 1_000, "cm"), is_open=True)
        declare(f"{ENVIRONMENT}/measured/leaf_count", FLOAT64.within(0, 100_000, "leaves"), is_open=True)
        declare(f"{ENVIRONMENT}/measured/harvest_fresh_mass", FLOAT64.within(0, 100_000, "g"), is_open=True)
        declare(f"{ENVIRONMENT}/measured/air_temperature", FLOAT64.within(-40, 85, "degC"))
        return GrowersJournal(
            bus,
            self.data,
            self.couch,
            self.maker,
            (ENVIRONMENT,),
            names=self.names,
            design="svc",
            prepare=self.prepare,
            ship=self.ship,
        )

    @asynccontextmanager
    async def opened(self, bus=None):
        """A loaded journal, which sends its entries."""
        journal = self.journal(bus or Bus(self.clock))
        try:
            await journal.load()
            async with in_tasks(journal.delivery.work):
                yield journal
        finally:
            journal.node.close()
            await journal.close()

    @asynccontextmanager
    async def silent(self):
        """A loaded journal that sends nothing."""
        journal = self.journal(Bus(self.clock))
        try:
            await journal.load()
            yield journal
        finally:
            await journal.close()

    async def document(self, entry):
        return await self.couch.get(self.names.events, entry.id)

    def folders(self):
        """The names in the folder of the entries that wait."""
        folder = self.data / "journal"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@asynccontextmanager
async def journal_rig(server, data, clock=None):
    """New databases, deleted at the end."""
    names = Databases.prefixed(f"test-{uuid4().hex}-")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        couch = Couch(session, lambda: None if rig.is_away else server.url, credentials=server.auth)
        rig = JournalRig(couch, names, data, clock or ManualClock())
        yield rig
        rig.is_away = False
        for name in names.names_by_folder().values():
            if await couch.exists(name):
                await couch.delete(name)


async def kept(journal, text="a note", *photos, by="anna", **fields):
    """Save an entry as the API does."""
    draft = await journal.draft(ENVIRONMENT, EntryFields(text, **fields), by)
    if not photos:
        return await journal.keep(draft)
    async with journal.receiving(None) as upload:
        for photo in photos:
            await upload.write(photo)
            await upload.finish_photo()
        return await journal.keep(draft, upload)


async def listed(journal, **query):
    """The entries that the API would list."""
    entries, _, missing = await journal.reader.read(wanted(**query))
    assert not missing, missing
    return entries


def wanted(**query):
    return JournalQuery(**{"environment": ENVIRONMENT, "start": 0.0, "end": 1e11, "limit": 100, **query})


async def delivered(journal, left=0):
    """Return once only so many entries wait."""
    async with asyncio.timeout(PATIENCE_S):
        while len(journal.delivery.waiting) > left:  # noqa: ASYNC110  the folder has no event
            await asyncio.sleep(0.005)


async def content(journal, entry, name):
    """A photo as the API sends it."""
    async with journal.photo(entry.id, name) as photo:
        whole = b"".join([piece async for piece in photo.pieces])
        assert len(whole) == photo.size
        return whole

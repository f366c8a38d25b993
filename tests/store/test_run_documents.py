"""The `recipe_run` document of a run reaches the database in its last saved version."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from growd.store.bootstrap import read_design
from growd.store.errors import CouchUnavailableError, DesignFileError
from growd.store.journal import RunJournal
from growd.store.points import PointMaker
from growd.store.run_documents import CHECK_S, RunDocuments
from growd.store.work import RETRIES
from support.clock import ManualClock
from support.couch_client import FILES
from support.outbox import opened
from support.own_databases import own_databases
from support.running import running
from support.waiting import until_found

BEGUN = {
    "_id": "0123456789ab:0000000005000-0123456789",
    "environment": "environment_1",
    "recipe_id": "lettuce",
    "recipe_rev": "2-x",
    "started": 5.0,
    "ended": None,
}
ENDED = BEGUN | {"ended": 70.0, "end_reason": "stopped"}


class Rig:
    """A journal with its own file, and the writer of its documents with its own database."""

    def __init__(self, couch, local, names):
        self.couch, self.local, self.names = couch, local, names
        self.clock = ManualClock()
        self.prepared = 0
        self.is_away = False
        self.fault = CouchUnavailableError("away")
        self.going = {}

    async def prepare(self):
        self.prepared += 1
        if self.is_away:
            raise self.fault
        if await self.couch.create(self.names.runs):
            design = await asyncio.to_thread(read_design, FILES / "design/recipe_run", "svc", has_last=False)
            await self.couch.put(self.names.runs, design)

    @asynccontextmanager
    async def on(self):
        self.documents = RunDocuments(
            self.local,
            self.couch,
            self.clock,
            database=self.names.runs,
            prepare=self.prepare,
            going=lambda: self.going,
        )
        async with opened(self.local, self.clock) as outbox:
            maker = PointMaker(self.local.device)
            self.journal = RunJournal(self.local, outbox, maker, "environment_1", self.documents.work.wake)
            async with running(self.clock, self.documents.work):
                yield self.documents

    async def waiting(self):
        query = "SELECT count(*) FROM state WHERE key LIKE 'document of a run/%'"
        (count,) = await self.local.read(lambda file: file.execute(query).fetchone())
        return count

    async def brought(self, left=0):
        async def is_brought():
            return await self.waiting() <= left

        await until_found(is_brought)

    async def stored(self):
        """The document, without its revision, and the revision."""
        document = await self.couch.get(self.names.runs, BEGUN["_id"])
        return document, document.pop("_rev")

    async def begin(self):
        await self.journal.commit({"run": 1}, "recipe_start", "lettuce", 5.0, BEGUN)

    async def end(self):
        await self.journal.commit(None, "recipe_end", "lettuce", 70.0, ENDED)


@pytest.fixture
async def rig(database_server, local):
    async with own_databases(database_server) as (couch, names):
        yield Rig(couch, local, names)


async def test_start_and_end_of_a_run_are_one_document(rig):
    async with rig.on():
        for _ in range(2):  # again, as after a kill between the answer and the deletion of the row
            await rig.begin()
            await rig.brought()
            document, revision = await rig.stored()
            assert (document, revision[:2]) == (BEGUN, "1-")
        await rig.end()
        await rig.brought()
    document, revision = await rig.stored()
    assert (document, revision[:2]) == (ENDED, "2-")
    rows = await rig.couch.view(rig.names.runs, "svc", "by_start", startkey=["environment_1"])
    assert [row["id"] for row in rows] == [BEGUN["_id"]]


async def test_a_document_waits_for_the_database_over_a_restart(rig):
    rig.is_away = True
    async with rig.on():
        await rig.begin()
        await rig.end()
        await rig.clock.until(lambda: rig.prepared > 0)
        assert await rig.waiting() == 1  # the end replaced the start
    rig.is_away = False
    async with rig.on():
        await rig.brought()
    assert (await rig.stored())[0] == ENDED


@pytest.mark.parametrize(
    "fault", [CouchUnavailableError("away"), DesignFileError("map.js can't be read")], ids=["away", "update"]
)
async def test_a_failure_is_tried_again(rig, caplog, fault):
    """Also one while an update replaces files."""
    rig.is_away, rig.fault = True, fault
    async with rig.on():
        await rig.begin()
        await rig.clock.until(lambda: rig.documents.work.fault.failures)
        rig.is_away = False
        await rig.clock.advance(RETRIES.first_s)
        await rig.brought()
    assert (await rig.stored())[0] == BEGUN
    assert len([record for record in caplog.records if "waits for the database" in record.message]) == 1


async def test_a_document_changed_by_another_client_is_replaced(rig, monkeypatch):
    async with rig.on():
        await rig.begin()
        await rig.brought()
        put = rig.couch.put

        async def overtaken(database, document):
            monkeypatch.setattr(rig.couch, "put", put)
            await put(database, document | {"note": "of another client"})
            return await put(database, document)

        monkeypatch.setattr(rig.couch, "put", overtaken)
        await rig.end()
        await rig.clock.until(lambda: rig.couch.put == put)
        await rig.clock.until(lambda: rig.documents.work.fault.failures)
        await rig.clock.advance(RETRIES.first_s)
        await rig.brought()
    assert (await rig.stored())[0] == ENDED


async def test_the_document_of_a_run_that_goes_on_is_written_again_into_a_database_that_was_deleted(rig):
    rig.going[BEGUN["_id"]] = rig.begin

    async def is_stored():
        await rig.clock.advance(CHECK_S)
        return await rig.couch.get(rig.names.runs, BEGUN["_id"]) is not None

    async with rig.on():
        await rig.begin()
        await rig.brought()
        await rig.couch.delete(rig.names.runs)
        await until_found(is_stored)
    assert (await rig.stored())[0] == BEGUN


async def test_a_refused_document_blocks_no_other(rig):
    async with rig.on():
        bad = BEGUN | {"_id": "0", "recipe_id": ""}  # the first of them
        await rig.journal.commit({"run": 1}, "recipe_start", "lettuce", 5.0, bad)
        await rig.begin()
        await rig.brought(left=1)
        assert (await rig.stored())[0] == BEGUN

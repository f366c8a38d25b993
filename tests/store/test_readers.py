"""Points wait for a batch to spare the card, and clients that read still find them in the database."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import aiohttp
import pytest
from faulty_server import FaultyServer, never, status
from yarl import URL

from growd.proxy.gateway import FlushBeforeRead
from growd.runtime.pauses import Pauses
from growd.store import shipper as module
from growd.store.bootstrap import Databases
from growd.store.couch import Couch
from growd.store.points import PointMaker
from growd.store.shipper import Shipper
from support.clock import ManualClock
from support.couch_client import client_of, install_design
from support.gateway_server import gateway_to
from support.outbox import add_durably, opened_at
from support.running import in_tasks
from support.waiting import PATIENCE_S

MAKER = PointMaker("0123456789ab")


class Rig:
    """A shipper that has shipped what there was at the start, as a daemon's has after its first seconds."""

    def __init__(self, clock, outbox, server, shipper):
        self.clock = clock
        self.outbox = outbox
        self.server = server
        self.shipper = shipper

    async def measure(self, *values):
        await add_durably(self.outbox, [MAKER.make("e", "air_humidity", value, value) for value in values])
        await self.clock.settle()

    async def until_shipped(self):
        await self.clock.until(lambda: self.outbox.undelivered == 0)

    def stored(self):
        return [self.server.stored[point_id]["value"] for point_id in self.server.writes]


@pytest.fixture
async def rig(tmp_path):
    clock = ManualClock()
    async with (
        opened_at(tmp_path / "growd.sqlite3", clock) as outbox,
        aiohttp.ClientSession() as session,
        FaultyServer() as server,
    ):
        couch = Couch(session, server.url)
        shipper = Shipper(couch, outbox, clock, database="db", pauses=Pauses(0.005, 0.02))
        rig = Rig(clock, outbox, server, shipper)
        await rig.measure(0)
        async with in_tasks(shipper):
            await rig.until_shipped()
            yield rig


async def test_points_until_a_time_are_sent_for_who_needs_them(rig):
    await rig.measure(1)
    assert await rig.shipper.has_sent(0.5)
    assert not await rig.shipper.has_sent(1)
    await rig.until_shipped()
    assert await rig.shipper.has_sent(1)


async def test_a_reader_starts_once_older_points_are_delivered(rig):
    await rig.measure(1)
    await rig.clock.advance(6)
    async with rig.shipper.reading():
        assert rig.stored() == [0, 1]


async def test_while_a_client_reads_points_leave_within_seconds(rig):
    async with rig.shipper.reading():
        async with rig.shipper.reading():
            pass  # another one ends before
        await rig.measure(1)
        await rig.clock.advance(4)
        assert rig.stored() == [0]  # a reader each second does not cost a batch each second
        await rig.clock.advance(1)
        await rig.until_shipped()
    await rig.measure(2)
    await rig.clock.advance(500)
    assert rig.stored() == [0, 1]


async def test_a_new_reader_makes_waiting_points_due_sooner(rig):
    await rig.measure(1)
    await rig.clock.advance(1)
    async with rig.shipper.reading():
        await rig.clock.advance(4)  # and nothing else is measured
        await rig.until_shipped()


async def test_a_reader_delays_no_batch(rig):
    rig.shipper._max_age = 2.0
    async with rig.shipper.reading():
        await rig.measure(1)
        await rig.clock.advance(2)
        await rig.until_shipped()


async def test_a_database_that_hangs_or_fails_does_not_block_readers(rig, monkeypatch):
    monkeypatch.setattr(module, "CATCH_UP_S", 0.01)
    rig.server.script.extend([never, status(503)])
    await rig.measure(1)
    await rig.clock.advance(6)
    async with asyncio.timeout(10), rig.shipper.reading():
        assert rig.stored() == [0]


READING = ["/db", "/db/_all_docs?x=/", "//db/_changes", "/d%62/1", "/db?a=b"]
OTHERS = ["/", "/dbs", "/other/db", "/_all_dbs?key=db"]


async def test_requests_for_the_points_count_as_reading_and_others_do_not():
    noted = []

    @asynccontextmanager
    async def reading(_begins_now):
        noted.append("begin")
        yield
        noted.append("end")

    async with (
        gateway_to(None, behind=lambda gateway: FlushBeforeRead(gateway, ["db"], reading)) as port,
        aiohttp.ClientSession() as session,
    ):
        for path in [*READING, *OTHERS]:
            noted.clear()
            async with session.get(URL(f"http://127.0.0.1:{port}{path}", encoded=True)) as answer:
                assert answer.status == 503  # there is no database
            assert noted == (["begin", "end"] if path in READING else []), path


# --- As a control panel reads: what there is by a view that may be stale, then what changes from now on

BY_TIME = "_design/svc/_view/by_timestamp"
PANEL_VIEW = f"{BY_TIME}?startkey=%5B%22e%22%2C%7B%7D%5D&endkey=%5B%22e%22%5D&descending=true"
PANEL_FEED = "_changes?feed=longpoll&include_docs=true&heartbeat=true&since=now"


@asynccontextmanager
async def panel_on(rig, server):
    """A client of a front door before a database with growd's views, into which points are shipped."""
    names = Databases.prefixed(f"test_{uuid4().hex[:8]}_")
    async with (
        client_of(server.url, server.auth) as direct,
        gateway_to(
            server.url, behind=lambda gateway: FlushBeforeRead(gateway, [names.points], rig.shipper.reading)
        ) as port,
        client_of(f"http://127.0.0.1:{port}/{names.points}", server.auth) as panel,
    ):
        rig.shipper._couch = Couch(direct.session, server.url, credentials=server.auth)
        rig.shipper._database = names.points
        await direct("PUT", f"/{names.points}")
        try:
            await install_design(direct, f"/{names.points}", "environmental_data_point")
            yield panel
        finally:
            await direct("DELETE", f"/{names.points}")


async def shown(panel, asked):
    answer = await panel("GET", f"/{PANEL_VIEW}{asked}")
    return [row["value"]["value"] for row in answer.json["rows"]]


async def test_a_view_asked_with_stale_has_points_older_than_five_seconds(rig, database_server):
    async with panel_on(rig, database_server) as panel:
        for value, asked in enumerate(("stale=update_after", "stale=ok", "update=false", "update=lazy"), 1):
            await rig.measure(value)
            await rig.clock.advance(5)
            assert (await shown(panel, f"&{asked}"))[0] == value, asked


async def test_no_point_is_missing_between_a_view_and_a_following_feed(rig, database_server):
    async with panel_on(rig, database_server) as panel, asyncio.timeout(PATIENCE_S):
        await rig.measure(1)
        await rig.clock.advance(4.9)
        assert await shown(panel, "&stale=update_after") == []  # not five seconds old
        await rig.clock.advance(0.2)
        answer = await panel("GET", f"/{PANEL_FEED}")  # by now it is
    assert [row["doc"]["value"] for row in answer.json["results"]] == [1]

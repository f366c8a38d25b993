"""The shipper with a faulty server: points are stored once and in order, and none is lost."""

import asyncio
import logging

import aiohttp
import pytest
from aiohttp import web
from faulty_server import FaultyServer, answer_lost, half_the_rows, never, status, status_if

from growd.bus import Bus
from growd.runtime.liveness import SHIPPING_S, Liveness
from growd.runtime.pauses import Pauses
from growd.store import point_tables
from growd.store.couch import Couch
from growd.store.database import Database
from growd.store.database_node import DatabaseNode
from growd.store.errors import CouchRefusedError, CouchUnavailableError, DiskFullError
from growd.store.points import PointMaker
from growd.store.shipper import Shipper
from support.clock import ManualClock, Time
from support.http_server import serving_http
from support.outbox import add_durably, opened_at, set_query_only
from support.running import in_tasks

MAKER = PointMaker("0123456789ab")


def points(values):
    return [MAKER.make("environment_1", "air_humidity", value, 1e9 + value) for value in values]


class Rig:
    """An outbox, a server with a script, and a shipper between them."""

    def __init__(self, session, server, outbox, clock):
        self.clock = clock
        self.server = server
        self.outbox = outbox
        self.session = session
        self.couch = Couch(session, server.url)

    def shipper(self, **options):
        options = {"pauses": Pauses(0.005, 0.02)} | options
        return Shipper(self.couch, self.outbox, self.clock, database="db", **options)

    async def ship_all(self, shipper):
        async with in_tasks(shipper):
            await self.until_shipped(shipper)

    async def until_shipped(self, shipper):
        await self.clock.until(lambda: self.outbox.undelivered == 0 and not shipper.fault.failures)

    def written(self):
        return [self.server.stored[point_id]["value"] for point_id in self.server.writes]


@pytest.fixture
async def rig(tmp_path):
    clock = ManualClock()
    async with (
        opened_at(tmp_path / "growd.sqlite3", clock) as outbox,
        aiohttp.ClientSession() as session,
        FaultyServer() as server,
    ):
        yield Rig(session, server, outbox, clock)


@pytest.mark.parametrize("step", [status(500), status(401), status(404), half_the_rows, answer_lost])
async def test_a_request_that_fails_is_tried_again_and_nothing_is_lost_or_stored_twice(rig, step):
    made = points(range(30))
    await add_durably(rig.outbox, made)
    rig.server.script.extend([step, step])
    shipper = rig.shipper(max_batch=10)
    async with in_tasks(shipper):
        await rig.clock.until(lambda: shipper.fault.failures)
        await rig.until_shipped(shipper)
    assert rig.written() == list(range(30))
    assert rig.server.stored == {point.id: point.document() for point in made}
    assert await rig.outbox.rejected() == []


async def test_the_full_disk_of_a_couchdb_is_named(rig):
    """The answers of CouchDB 3.5 on a full disk: about documents it gives no reason."""
    is_full, trace = True, "{error,\n    {rexi_EXIT,\n        {{{{badmatch,{error,enospc}},\n  [...]"

    async def answer(request):
        if request.path == "/db/_revs_limit":
            failed = web.json_response({"error": "badmatch", "reason": trace}, status=500)
            return failed if is_full and request.method == "PUT" else web.json_response(1000)
        docs = (await request.json())["docs"]
        if is_full:
            outcomes = [
                {"id": doc["_id"], "error": "error", "reason": "internal_server_error"} for doc in docs
            ]
            return web.json_response(outcomes, status=500)
        return web.json_response([{"ok": True, "id": doc["_id"], "rev": "1-a"} for doc in docs], status=201)

    async with serving_http(answer) as url:
        rig.couch = Couch(rig.session, url)
        await add_durably(rig.outbox, points(range(30)))
        shipper = rig.shipper()
        async with in_tasks(shipper):
            await rig.clock.until(lambda: shipper.fault.failures)
            assert isinstance(shipper.fault.reason, DiskFullError)
            assert "no room on its disk" in str(shipper.fault)
            assert "rexi" not in str(shipper.fault)
            is_full = False
            await rig.until_shipped(shipper)
    assert await rig.outbox.rejected() == []


async def test_one_bad_document_is_rejected_and_blocks_no_other(rig):
    await add_durably(rig.outbox, points(range(20)))
    rig.server.refuse = {
        7: {"error": "forbidden", "reason": "no such variable"},
        13: {"error": "unauthorized", "reason": "not you"},
    }
    await rig.ship_all(rig.shipper(max_batch=5))
    assert rig.written() == [value for value in range(20) if value not in {7, 13}]
    reasons = {one.point.value: one.reason for one in await rig.outbox.rejected()}
    assert reasons == {7: "forbidden: no such variable", 13: "unauthorized: not you"}


@pytest.mark.parametrize(("code", "bad"), [(413, {3}), (400, {0, 9, 15}), (500, {6})])
async def test_a_refused_batch_is_halved_until_the_document_is_found(rig, code, bad):
    await add_durably(rig.outbox, points(range(16)))
    rig.server.script.extend([status_if(bad, code)] * 60)
    await rig.ship_all(rig.shipper(max_batch=16))
    assert rig.written() == [value for value in range(16) if value not in bad]
    aside = await rig.outbox.rejected()
    assert {point.point.value for point in aside} == bad
    assert all(f"{code} too_large: document" in point.reason for point in aside)


@pytest.mark.parametrize("code", [401, 412])
async def test_a_refusal_that_is_about_no_document_rejects_none(rig, code):
    await add_durably(rig.outbox, points(range(16)))
    rig.server.script.extend([status_if({3}, code)] * 10)
    await rig.ship_all(rig.shipper(max_batch=4))
    assert rig.written() == list(range(16))
    assert await rig.outbox.rejected() == []


@pytest.mark.parametrize("code", [413, 500])
async def test_a_server_that_refuses_everything_causes_no_rejections(rig, code):
    await add_durably(rig.outbox, points(range(16)))
    rig.server.script.extend([status(code)] * 200)
    shipper = rig.shipper()
    async with in_tasks(shipper):
        await rig.clock.until(lambda: not rig.server.script)
        await rig.until_shipped(shipper)
    assert await rig.outbox.rejected() == []
    assert sorted(rig.written()) == list(range(16))


async def test_a_transient_refusal_is_retried(rig):
    await add_durably(rig.outbox, points(range(4)))
    rig.server.refuse = {1: {"error": "internal_server_error", "reason": "shard busy"}}
    shipper = rig.shipper()
    async with in_tasks(shipper):
        await rig.clock.until(lambda: len(rig.server.writes) == 3)
        await rig.clock.until(lambda: shipper.fault.failures)
        rig.server.refuse = {}
        await rig.until_shipped(shipper)
    assert not shipper._transient  # removed, or it would grow for months
    assert rig.written() == [0, 2, 3, 1]
    assert await rig.outbox.rejected() == []


async def test_a_document_that_never_passes_while_others_do_is_rejected(rig):
    rig.server.refuse = {1: {"error": "unknown_error", "status": 500, "reason": "it breaks the server"}}
    await add_durably(rig.outbox, points(range(2)))
    shipper = rig.shipper()
    async with in_tasks(shipper):
        for value in range(2, 4):  # the third try succeeds
            await rig.clock.until(lambda: shipper.fault.failures)
            await add_durably(rig.outbox, points(range(value, value + 1)))
            await rig.clock.until(lambda value=value: len(rig.server.writes) == value)
        await rig.until_shipped(shipper)
    (aside,) = await rig.outbox.rejected()
    assert (aside.point.value, aside.reason) == (1, "unknown_error: it breaks the server")
    assert rig.written() == [0, 2, 3]


async def test_points_leave_when_the_batch_is_full_or_old_enough(rig):
    shipper = rig.shipper(batch=5, max_age=10)
    async with in_tasks(shipper):
        await rig.clock.settle()
        await add_durably(rig.outbox, points(range(4)))
        await rig.clock.advance(9)
        assert rig.server.batches == []
        await rig.clock.advance(2)
        await rig.until_shipped(shipper)
        assert rig.server.batches == [4]

        await add_durably(rig.outbox, points(range(4, 8)))
        await rig.clock.advance(1)
        assert rig.server.batches == [4]
        await add_durably(rig.outbox, points(range(8, 9)))
        await rig.until_shipped(shipper)
        assert rig.server.batches == [4, 5]


async def test_new_batch_sizes_apply_to_waiting_points(rig):
    shipper = rig.shipper(batch=5, max_batch=2, max_age=600)
    async with in_tasks(shipper):
        await rig.clock.settle()
        await add_durably(rig.outbox, points(range(4)))
        await rig.clock.advance(20)
        assert rig.server.batches == []
        shipper.reconfigure(max_age=30)
        await rig.clock.advance(5)
        assert rig.server.batches == []
        await rig.clock.advance(6)
        await rig.until_shipped(shipper)
        assert rig.server.batches == [2, 2]


async def test_a_backlog_leaves_at_once_in_large_batches(rig):
    await add_durably(rig.outbox, points(range(25)))
    await rig.ship_all(rig.shipper(batch=5, max_batch=10))
    assert rig.server.batches == [10, 10, 5]


async def test_a_missing_database_is_prepared_again(rig):
    prepared = []

    async def prepare():
        prepared.append(len(rig.server.batches))
        await rig.couch.server()

    serve = FaultyServer.serve_step
    rig.server.script.extend([status(503), serve, serve, status(404, "not_found")])
    await add_durably(rig.outbox, points(range(20)))
    await rig.ship_all(rig.shipper(prepare=prepare, max_batch=10))
    # one failed, one came before the first batch, one after the answer 404
    assert prepared == [0, 0, 2]
    assert rig.written() == list(range(20))


async def test_an_account_that_may_only_write_points_is_enough(rig, caplog):
    async def prepare():
        raise CouchRefusedError("401 for PUT /db", 401, "unauthorized", "You are not a server admin.")

    await add_durably(rig.outbox, points(range(3)))
    await rig.ship_all(rig.shipper(prepare=prepare))
    assert rig.written() == [0, 1, 2]
    assert caplog.text.count("can't set up the database: 401 for PUT /db") == 1


def mixed(values):
    """A measured point and a command of each value; values of commands are above 1000."""
    return [
        made
        for point in points(values)
        for made in (point, MAKER.make("e", "air_humidity", 1000 + point.value, 1e9, category="commanded"))
    ]


async def test_commands_qualities_and_events_go_into_their_own_database_once(rig):
    rig.server.script.extend([FaultyServer.serve_step, status(503), answer_lost])
    await add_durably(rig.outbox, mixed(range(3)))
    await rig.ship_all(rig.shipper())
    assert rig.server.paths == ["/db/_bulk_docs", *["/environmental_event/_bulk_docs"] * 3]
    assert rig.written() == [0, 1, 2, 1000, 1001, 1002]
    forms = [{"category", "is_desired"} & rig.server.stored[one].keys() for one in rig.server.writes]
    assert forms == [{"is_desired"}] * 3 + [{"category"}] * 3
    assert await rig.outbox.rejected() == []


async def test_a_failure_is_logged_once_and_the_recovery_once_both_databases_take_points(rig, caplog):
    caplog.set_level(logging.INFO, "growd.store.shipper")
    rig.server.script.extend([*[status(503)] * 4, status(401), answer_lost])
    rig.server.script.extend([FaultyServer.serve_step, status(503)])
    await add_durably(rig.outbox, mixed(range(3)))
    await rig.ship_all(rig.shipper())
    words = [record.message.partition(",")[0] for record in caplog.records if "points" in record.message]
    assert words == ["points wait", "the database stores points again"]


@pytest.mark.parametrize("code", [401, 404])
async def test_an_account_that_may_not_write_events_loses_and_delays_no_point(rig, code):
    async def prepare():
        raise CouchRefusedError("401 for PUT /environmental_event", 401, "unauthorized", "no admin")

    async def serve_points(server, request, body):
        refused = request.path.startswith("/environmental_event")
        return await (status(code) if refused else FaultyServer.serve_step)(server, request, body)

    rig.server.script.extend([serve_points] * 20)
    await add_durably(rig.outbox, mixed(range(2)))
    shipper = rig.shipper(prepare=prepare)
    async with in_tasks(shipper):
        await rig.clock.until(lambda: rig.written() == [0, 1])
        await add_durably(rig.outbox, points(range(2, 4)))
        shipper.ship_now()
        await rig.until_shipped(shipper)
    assert rig.written() == [0, 1, 2, 3]
    aside = await rig.outbox.rejected()
    assert {(one.point.value, str(code) in one.reason) for one in aside} == {(1000, True), (1001, True)}
    rig.server.script.clear()
    await rig.outbox.retry_rejected()
    shipper.ship_now()
    await rig.ship_all(shipper)
    assert {*rig.written()[4:]} == {1000, 1001}


async def test_a_database_that_answers_again_ends_the_pause_and_the_old_reason(rig, tmp_path):
    """Whoever asks it first: here the status."""
    await add_durably(rig.outbox, points(range(3)))
    await rig.server.stop()
    async with Database(files=tmp_path, data=tmp_path, design_name="svc", url=rig.server.url) as database:
        node = DatabaseNode(Bus(rig.clock), database)
        rig.couch = database.couch
        shipper = rig.shipper(pauses=Pauses(3600))
        database.when_up(shipper.retry_now)
        async with in_tasks(shipper):
            await rig.clock.until(lambda: shipper.fault.failures)
            await rig.clock.settle()
            assert "Connection refused" in str(shipper.fault)
            await rig.server.start()
            await node.look()
            assert (str(shipper.fault), shipper.fault.failures) == ("", 1)
            await rig.until_shipped(shipper)
    assert rig.written() == [0, 1, 2]


async def test_a_database_that_comes_up_during_a_try_is_tried_again_at_once(rig):
    await add_durably(rig.outbox, points(range(3)))
    shipper = rig.shipper(pauses=Pauses(3600))

    async def back_too_late(*_):
        shipper.retry_now()
        return web.Response(status=503)

    rig.server.script.append(back_too_late)
    await rig.ship_all(shipper)
    assert rig.written() == [0, 1, 2]


async def test_draining_sends_waiting_points_within_its_deadline(rig):
    shipper = rig.shipper()
    await add_durably(rig.outbox, points(range(3)))
    assert await shipper.drain(5) == 0
    assert rig.written() == [0, 1, 2]

    rig.server.script.append(never)
    await add_durably(rig.outbox, points(range(3, 5)))
    assert await shipper.drain(0.05) == 2
    assert rig.written() == [0, 1, 2]

    rig.server.script.append(status(503))
    assert await shipper.drain(5) == 2
    assert await shipper.drain(5) == 0


async def test_a_fault_of_the_local_file_is_made_up_for(rig):
    for point in points(range(3)):
        await rig.outbox.add_with(point, lambda _: None)
    await set_query_only(rig.outbox._local, "ON")
    shipper = rig.shipper()
    async with in_tasks(shipper):
        await rig.until_shipped(shipper)  # although their rows can't be deleted
        await rig.clock.until(lambda: "readonly" in (rig.outbox.file_fault or ""))
        await add_durably(rig.outbox, points(range(3, 5)))
        shipper.ship_now()
        await rig.until_shipped(shipper)
        assert await rig.outbox._local.read(point_tables.count) == 3
        await set_query_only(rig.outbox._local, "OFF")
        await rig.outbox.flush()
        assert (rig.outbox.file_fault, await rig.outbox._local.read(point_tables.count)) == (None, 0)
    assert rig.written() == [0, 1, 2, 3, 4]


async def test_a_rejection_that_can_not_be_written_blocks_no_other_and_causes_no_busy_loop(rig, monkeypatch):
    """It can't be sent; counting it as sendable would make the loop spin."""
    rig.server.refuse = {value: {"error": "forbidden", "reason": "no"} for value in (1, 4)}
    for point in points(range(3)):
        await rig.outbox.add_with(point, lambda _: None)
    await add_durably(rig.outbox, points(range(3, 6)))
    await set_query_only(rig.outbox._local, "ON")
    usual, looks = rig.outbox.next_batch, []

    async def next_batch(limit):
        looks.append(limit)
        return await usual(limit)

    monkeypatch.setattr(rig.outbox, "next_batch", next_batch)
    async with in_tasks(rig.shipper(batch=1, max_batch=2)):
        await rig.clock.until(lambda: rig.written() == [0, 2, 3, 5])
        await rig.clock.until(lambda: len(rig.outbox._rejections) == 2 and rig.outbox.file_fault)
        await rig.clock.settle()
        assert (rig.outbox.rejected_count, rig.outbox.sendable) == (0, 0)
        assert len(looks) < 50
        await set_query_only(rig.outbox._local, "OFF")
        await rig.outbox.flush()
    assert {one.point.value for one in await rig.outbox.rejected()} == {1, 4}
    assert (rig.outbox.undelivered, rig.outbox.rejected_count) == (0, 2)
    assert await rig.outbox._local.read(point_tables.count) == 0


async def test_long_outages_and_idle_times_do_not_trip_the_watchdog(rig):
    time = Time()
    liveness = Liveness(monotonic=time)
    rig.couch = Couch(rig.session, "http://127.0.0.1:1")  # a closed port
    shipper = rig.shipper(liveness=liveness)
    async with in_tasks(shipper):
        await rig.clock.until(lambda: shipper._is_resting)
        time.now += 86_400
        assert liveness.stuck() == []  # no point waits
        await add_durably(rig.outbox, points(range(3)))
        shipper.ship_now()
        for tries in range(1, 10):
            await rig.clock.until(lambda tries=tries: shipper.fault.failures >= tries)
            assert liveness.stuck() == []
            time.now += SHIPPING_S / 2
        assert rig.outbox.undelivered == 3


async def test_a_setup_that_fails_for_days_does_not_trip_the_watchdog(rig):
    time, tries = Time(), 0
    liveness = Liveness(monotonic=time)

    async def prepare():
        nonlocal tries
        tries += 1
        raise CouchUnavailableError("the embedded database has not come up")

    async with in_tasks(rig.shipper(liveness=liveness, prepare=prepare)):
        for number in range(1, 10):
            await rig.clock.until(lambda number=number: tries >= number)
            assert liveness.stuck() == []
            time.now += SHIPPING_S / 2


async def test_a_backlog_of_hours_does_not_trip_the_watchdog(rig, monkeypatch):
    time, stuck = Time(), []
    liveness = Liveness(monotonic=time)
    send = rig.couch.bulk_docs

    async def slow(*arguments):
        time.now += SHIPPING_S / 2
        stuck.extend(liveness.stuck())
        return await send(*arguments)

    monkeypatch.setattr(rig.couch, "bulk_docs", slow)
    await add_durably(rig.outbox, points(range(20)))
    async with in_tasks(rig.shipper(liveness=liveness, batch=2, max_batch=2)):
        await rig.clock.until(lambda: not rig.outbox.undelivered)
    assert time.now == 10 * SHIPPING_S / 2
    assert stuck == []


async def test_a_request_that_hangs_trips_the_watchdog(rig, monkeypatch):
    time = Time()
    liveness = Liveness(monotonic=time)
    asked = asyncio.Event()

    async def never_comes_back(*_):
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(rig.couch, "bulk_docs", never_comes_back)
    await add_durably(rig.outbox, points(range(3)))
    async with in_tasks(rig.shipper(liveness=liveness)):
        await asked.wait()
        assert liveness.stuck() == []
        time.now = SHIPPING_S + 1
        assert [each.name for each in liveness.stuck()] == ["shipper"]

"""The node `store`, `growd db rejected`, and the store in `growd status`, with a real daemon."""

import asyncio
import json

import aiohttp
import pytest
from faulty_server import FaultyServer, status

from growd.bus.parameter_rules import MAX_BYTES
from growd.runtime.pauses import Pauses
from growd.status.status_node import StatusNode
from growd.store.couch import Couch
from growd.store.losses import Losses
from growd.store.points import PointMaker
from growd.store.shipper import Shipper
from growd.store.store_node import StoreNode
from support.clock import ManualClock
from support.daemon import serving
from support.outbox import add_durably, opened_at
from support.program import said
from support.running import in_tasks

MAKER = PointMaker("0123456789ab")


class Rig:
    def __init__(self, daemon, outbox, shipper, server, clock):
        self.clock = clock
        self.daemon = daemon
        self.outbox = outbox
        self.shipper = shipper
        self.server = server

    async def told(self):
        _, printed = await self.asked("status", "--json")
        return json.loads(printed)["store"]

    async def asked(self, *arguments):
        return await asyncio.to_thread(said, *arguments, "--url", self.daemon.origin)


@pytest.fixture
async def rig(tmp_path):
    clock = ManualClock()
    async with (
        serving() as daemon,
        opened_at(tmp_path / "growd.sqlite3", clock) as outbox,
        aiohttp.ClientSession() as session,
        FaultyServer() as server,
    ):
        couch = Couch(session, server.url)
        shipper = Shipper(couch, outbox, clock, database="db", pauses=Pauses(0.005, 0.02))
        losses = Losses(outbox, outbox._local, clock, lambda _: None)
        StoreNode(daemon.bus, outbox, shipper, losses, ["growd.sqlite3 was damaged"])
        StatusNode(daemon.bus, [])
        yield Rig(daemon, outbox, shipper, server, clock)


async def test_rejected_points_are_listed_and_retried(rig):
    rig.server.refuse = {7: {"error": "forbidden", "reason": "no such variable"}}
    points = [MAKER.make("environment_1", "air_humidity", value, 1e9 + value) for value in range(10)]
    await add_durably(rig.outbox, points)
    async with in_tasks(rig.shipper):
        await rig.clock.until(lambda: rig.outbox.undelivered == 0)
        assert (await rig.told())["rejected"] == 1
        assert "1 point refused by the database: see" in (await rig.asked("status"))[1]
        _, printed = await rig.asked("service", "call", "store/rejected", "--json")
        answer = json.loads(printed)
        assert answer["message"] == "1 rejected point"
        (one,) = answer["results"]
        assert (one["point"], one["reason"]) == (points[7].document(), "forbidden: no such variable")
        rig.server.refuse = {}
        exit_status, printed = await rig.asked("service", "call", "store/retry_rejected")
        assert (exit_status, "message: 1 point sent again" in printed) == (0, True)
        await rig.clock.until(lambda: rig.outbox.undelivered == 0)
        assert (await rig.told())["rejected"] == 0
        assert rig.server.stored.keys() == {point.id for point in points}


async def test_status_shows_waiting_points_and_the_reason(rig):
    told = await rig.told()
    assert (told["waiting"], told["shipping"], told["saving"], told["oldest_at"]) == (0, "", "", None)
    assert told["notices"] == ["growd.sqlite3 was damaged"]
    rig.server.script.extend([status(503)] * 1000)
    await add_durably(rig.outbox, [MAKER.make("environment_1", "air_humidity", 1, 1e9)])
    async with in_tasks(rig.shipper):
        await rig.clock.until(lambda: rig.shipper.fault.failures)
        told = await rig.told()
        assert (told["waiting"], told["oldest_at"]) == (1, 1e9)
        assert "503" in told["shipping"]
        assert told["since"] == rig.clock.time()
        exit_status, printed = await rig.asked("status")
        assert exit_status == 0  # it waits on the disk: nothing is lost
        assert "store: 1 point waits for the next write to the database" in printed
        assert "the database has not taken points for " in printed


async def test_status_warns_when_parameters_take_half_of_their_room(rig):
    parameters = rig.daemon.bus.parameters
    while parameters.size <= MAX_BYTES / 2:
        assert json.loads((await rig.asked("status", "--json"))[1])["problems"] == []
        await parameters.set(f"farm/{parameters.size}", "x" * 1_000_000)
    (problem,) = json.loads((await rig.asked("status", "--json"))[1])["problems"]
    assert not problem.get("is_failure", False)
    assert "parameters take 2.0 MB of 4 MB" in problem["text"]


async def test_requests_for_the_status_look_at_a_disk_that_hangs_one_at_a_time(rig, monkeypatch):
    looks = []

    async def hang():
        looks.append(1)
        await asyncio.Event().wait()

    monkeypatch.setattr(rig.outbox, "oldest_at", hang)
    node = rig.daemon.bus.find_node("store")
    first = asyncio.create_task(node.prepare(), name="first")
    await rig.clock.until(lambda: looks)
    for _ in range(5):
        await node.prepare()
    assert len(looks) == 1
    first.cancel()
    await asyncio.wait([first])
    monkeypatch.undo()
    await add_durably(rig.outbox, [MAKER.make("environment_1", "air_humidity", 1, 1e9)])
    await node.prepare()
    assert node.details()["store"]["oldest_at"] == 1e9


async def test_a_failing_disk_is_a_failure_in_status(rig, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rig.outbox._log, "append", full)
    rig.outbox.add(MAKER.make("environment_1", "air_humidity", 1, 1e9))
    with pytest.raises(OSError, match="No space left"):
        await rig.outbox.flush()
    told = await rig.told()
    assert (told["unsaved"], told["saving"]) == (1, "points.log: No space left on device")
    exit_status, printed = await rig.asked("status")
    assert exit_status == 1
    assert "points can't be saved, 1 point in memory only: points.log: No space left" in printed


async def test_the_services_report_an_unreadable_file(rig):
    await rig.outbox._local.write(lambda file: file.execute("DROP TABLE rejected"))
    for service in ("store/rejected", "store/retry_rejected"):
        exit_status, printed = await rig.asked("service", "call", service)
        assert exit_status == 1
        assert "no such table: rejected" in printed
        address = f"{rig.daemon.origin}/_svc/api/0.0.1/service/{service}"
        async with aiohttp.ClientSession() as session, session.post(address) as answer:
            assert (answer.status, (await answer.json())["error"]) == (503, "not_kept")

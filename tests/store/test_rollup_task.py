"""The task of the rollups: when it works, how it goes on after failures, and what `growd status` shows."""

import asyncio
import logging

import aiohttp
import pytest

from growd.bus import Bus
from growd.bus.params import Parameters
from growd.store.errors import CouchRefusedError, CouchUnavailableError, RollupError
from growd.store.rollups.state import RollupState
from growd.store.rollups.task import FIRST_S, RollupTask
from support.clock import ManualClock
from support.program import home_on, started
from support.running import running
from support.waiting import PATIENCE_S

HOUR = 3_600.0
DELAY_S = 660.0
START = 1_700_006_400.0  # 00:00 UTC
AWAY = CouchUnavailableError("no answer from the database to GET /: Connection refused")
REFUSED = CouchRefusedError("the database answered GET / with 403 forbidden: no", 403, "forbidden", "no")


class Feed:
    """What `RollupFeed` is for the task: `times` has when it was called; `error` is what it raises."""

    class Half:
        def __init__(self):
            self.state = RollupState(id="_local/growd-points")
            self.is_known = False
            self.changes_left = 0
            self.on_progress = lambda **_: None

    def __init__(self, clock):
        self.clock = clock
        self.points, self.events = Feed.Half(), Feed.Half()
        self.times = []
        self.prepared = 0
        self.error = None

    async def prepare(self):
        self.prepared += 1

    async def catch_up(self):
        self.times.append(self.clock.time() - START)
        if self.error is not None:
            raise self.error
        for half in (self.points, self.events):
            half.is_known = True
            half.state.looked_at = self.clock.time()


class Rig:
    def __init__(self, clock):
        self.clock = clock
        self.feed = Feed(clock)
        bus = Bus(clock, Parameters({}))
        self.task = RollupTask(bus, self.feed, prepare=self.feed.prepare, delay=lambda: DELAY_S)

    def shown(self):
        problems = self.task.node.details()["problems"]
        assert not any(problem.get("is_failure") for problem in problems)
        return [problem["text"] for problem in problems]


@pytest.fixture
async def rig():
    clock = ManualClock(START)
    rig = Rig(clock)
    async with running(clock, rig.task.work):
        yield rig


async def test_it_works_soon_after_the_start_and_after_each_hour(rig):
    await rig.clock.advance(2 * HOUR + DELAY_S)
    assert rig.feed.times == [FIRST_S, DELAY_S, HOUR + DELAY_S, 2 * HOUR + DELAY_S]
    assert rig.feed.prepared == 1
    assert rig.shown() == []


async def test_a_step_of_the_wall_clock_delays_no_hour_by_more_than_an_hour(rig):
    await rig.clock.advance(FIRST_S)
    rig.clock.step(-30 * 86_400.0)
    await rig.clock.advance(2 * HOUR)
    assert len(rig.feed.times) == 3


async def test_a_failure_is_logged_once_and_its_pause_ends_once_the_database_is_up(rig, caplog):
    caplog.set_level(logging.INFO)
    rig.feed.error = AWAY
    await rig.clock.advance(HOUR * 3)
    rig.feed.error = None
    number = len(rig.feed.times)
    for _ in range(2):  # the second time nothing has failed
        rig.task.look_now()
        await rig.clock.settle()
        assert len(rig.feed.times) == number + 1
    lines = [record.message for record in caplog.records if "rollups" in record.name]
    assert lines == [f"rollups wait for the database: {AWAY}", "rollups are written again"]


async def test_the_status_shows_a_failure_that_lasts(rig):
    await rig.clock.advance(FIRST_S)
    for error in (REFUSED, RollupError("the database refused the rollup x: no")):
        rig.feed.error = error
        await rig.clock.advance(2 * HOUR)
        assert rig.shown() == [f"rollups can't be written: {error}"]
        rig.feed.error = None
        await rig.clock.advance(HOUR)
        assert rig.shown() == []


async def test_the_first_step_that_succeeds_ends_the_fault(rig):
    for error, ends in ((AWAY, (True, True)), (REFUSED, (False, True))):
        for is_written, is_end in zip((False, True), ends, strict=True):
            rig.feed.error = error
            await rig.clock.advance(2 * HOUR)
            assert rig.task.status().fault == str(error)
            rig.feed.points.on_progress(is_written=is_written)
            assert (rig.task.status().fault == "") is is_end, (error, is_written)


async def test_the_status_shows_a_database_that_is_away_only_after_a_day(rig):
    await rig.clock.advance(FIRST_S)
    rig.feed.error = AWAY
    await rig.clock.advance(86_400.0)
    assert rig.shown() == []
    assert rig.task.node.details()["rollups"]["fault"] == str(AWAY)
    await rig.clock.advance(HOUR)
    assert rig.shown() == [f"rollups can't be written: {AWAY}"]


async def test_the_status_shows_the_progress_of_a_long_run(rig):
    rig.feed.points.changes_left, rig.feed.events.changes_left = 1_999, 1
    first = "rollups of stored points are made for the first time: 2000 changes of the database left to read"
    assert rig.shown() == [first]
    for half in (rig.feed.points, rig.feed.events):
        half.state.looked_at = START - 90_000.0
    assert rig.shown() == ["rollups are 1 d 1 h behind: 2000 changes of the database left to read"]


async def test_the_node_has_the_state_of_both_databases(rig):
    rig.feed.points.state = RollupState(id="p", looked_at=5.0, sealed_until=86_400, retired_until=43_200)
    rig.feed.events.state = RollupState(id="e", looked_at=4.0, sealed_until=0, retired_until=0)
    assert rig.task.node.details()["rollups"] == {
        "looked_at": 4.0,
        "changes_left": 0,
        "is_running": False,
        "sealed_until": 0,
        "retired_until": 43_200,
        "fault": "",
    }


@pytest.mark.long
async def test_growd_rolls_up_its_points(tmp_path, database_server):
    """A whole growd, with an hour in a second and points that leave soon."""
    options = ("--set", "simulator.speed=3600", "--set", "store.max_age_s=60")
    async with (
        home_on(database_server) as home,
        started(tmp_path, *home.arguments, *options) as program,
        aiohttp.ClientSession(headers=home.headers) as session,
        asyncio.timeout(PATIENCE_S),
    ):
        found = f"{program.address}/{home.prefix}environmental_rollup/_all_docs?startkey=%22environment_1%22"
        while True:
            async with session.get(found) as answer:
                if (await answer.json()).get("rows"):
                    break
            await asyncio.sleep(0.1)
        async with session.get(f"{program.api}/node/rollups") as answer:
            assert (await answer.json())["rollups"]["fault"] == ""

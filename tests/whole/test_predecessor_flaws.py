"""What the predecessor did wrong, one short test for each flaw; where each is held in depth:

1. A recipe never ended: `recipes/test_flexformat.py`, `recipes/test_runner.py`.
2. A gap commanded 0: `recipes/test_flexformat.py`, `recipes/test_phased.py`.
3. No operations, a clock stepped back, 1970, a wrong order killed it: `recipes/test_interpreter.py`,
   `recipes/test_runs.py`, `recipes/test_whole_recipes.py`.
4. Stops when idle, and a second stop that was lost: `recipes/test_runner.py`.
5. It resumed by a stale view: `recipes/test_runner.py`, `store/test_journal.py`, `store/test_kill.py`.
6. Success before the recipe was looked at: `recipes/test_runner.py`, `recipes/test_schemas.py`.
7. Controllers went on after the recipe, and the PID: `control/test_carbon_dioxide.py`, `control/test_pid.py`,
   `control/test_controllers.py`.
8. A 0 was no value, failed writes were lost, NaN: `store/test_points.py`, `store/test_recorder.py`,
   `store/test_shipper.py`, `store/test_outbox.py`.
9. Silence left the last command on, old readings came as new: `control/test_sampling.py`,
   `control/test_filters.py`, `control/test_actuation.py`, `drivers/`.
10. Streams leaked subscriptions, posts lost a message: `api/test_streams.py`, `api/test_api.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from closed_loop import co2_controller, valve_controller

from growd.bus import Bus
from growd.bus.errors import InvalidValueError
from growd.bus.messages import Quality
from growd.control.filters import Filter
from growd.control.pid import Gains, Pid
from growd.control.topics import declare_environment
from growd.recipes.interpreter import check
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from support.clock import ManualClock
from support.daemon import serving
from support.outbox import opened_at
from support.raw_http import raw_client
from support.recipes import LIGHT, TEMPERATURE, Chamber
from support.running import running
from support.waiting import PATIENCE_S

CO2 = "air_carbon_dioxide"
VALVE = "air_carbon_dioxide_valve_on"
RECIPE_START = "environment_1/desired/recipe_start"


def span(start, end, value):
    return {"start_time": start, "end_time": end, "value": value}


def flexformat(*spans, cycles=1):
    step = {LIGHT: [span(*each) for each in spans]}
    return {
        "format": "flexformat",
        "phases": [
            {"name": "first", "cycles": cycles, "time_units": "seconds", "step": step},
            {"name": "last", "cycles": 1, "time_units": "seconds", "step": {LIGHT: [span(0, 10, 500)]}},
        ],
    }


def simple(*operations):
    return {"format": "simple", "operations": list(operations)}


@asynccontextmanager
async def growing(recipe, **attributes):
    """A chamber that runs a recipe."""
    chamber = Chamber()
    vars(chamber).update(attributes)
    chamber.recipes["r"] = recipe
    async with chamber.on():
        assert (await chamber.start("r"))["success"]
        yield chamber


# --- 1. flexformat never ended: after the last phase it fell back to phase 0 for ever


async def test_flaw_1_after_its_last_phase_a_flexformat_recipe_ends():
    async with growing(flexformat((0, 10, 8000), cycles=3)) as chamber:
        await chamber.clock.advance(35)
        assert chamber.set_points() == {LIGHT: 500}
        await chamber.clock.advance(6)
        for _ in range(50):
            await chamber.clock.advance(1)
            assert chamber.desired(LIGHT).value is None
        assert chamber.parameter("current_recipe") == ""
        assert chamber.journal.recorded() == [("recipe_start", "r"), ("recipe_end", "r")]


# --- 2. a gap between steps commanded the value 0


async def test_flaw_2_a_gap_releases_the_set_point_and_is_reported():
    recipe = flexformat((0, 10, 8000), (20, 30, 9000))
    gap, *_ = check(recipe)
    assert gap.sentence == "a gap from 10 to 20, in which the set point is released"
    async with growing(recipe) as chamber:
        for second in range(30):
            assert chamber.desired(LIGHT).value == [8000, None, 9000][second // 10]
            await chamber.clock.advance(1)


# --- 3. no operations, a clock stepped back, a boot in 1970, a wrong order killed the engine


async def test_flaw_3_a_recipe_without_operations_is_refused():
    chamber = Chamber()
    chamber.recipes["r"] = simple()
    async with chamber.on():
        answer = await chamber.start("r")
        assert (answer["success"], "got an array of 0 elements" in answer["message"]) == (False, True)
        assert (await chamber.start("day"))["success"]


@pytest.mark.parametrize("to", ["2 s back", "1970"])
async def test_flaw_3_no_clock_and_no_order_loses_an_operation(to):
    operations = [[30, TEMPERATURE, 23], [10, TEMPERATURE, 21], [0, TEMPERATURE, 20], [20, TEMPERATURE, 22]]
    async with growing(simple(*operations)) as chamber:
        seen = []
        for second in range(31):
            seen.append(chamber.set_points().get(TEMPERATURE))
            if second == 15:
                chamber.clock.step(-2 if to == "2 s back" else 5 - chamber.clock.time())
            await chamber.clock.advance(1)
        assert seen[:30] == [20] * 10 + [21] * 10 + [22] * 10
        assert chamber.journal.recorded()[-1] == ("recipe_end", "r")


async def test_flaw_3_a_boot_in_1970_goes_on_with_the_recipe():
    async with growing(
        simple([0, TEMPERATURE, 20], [5_000, TEMPERATURE, 21], [9_000, TEMPERATURE, 22])
    ) as chamber:
        await chamber.clock.advance(5_100)
    chamber.clock.synchronised = False
    chamber.clock.step(5 - chamber.clock.time())
    async with chamber.on():
        assert chamber.set_points() == {TEMPERATURE: 21}


# --- 4. stopping when idle stored an end; of two stops in one run of the program the second was lost


async def test_flaw_4_a_stop_when_idle_stores_and_releases_nothing():
    chamber = Chamber()
    async with chamber.on():
        answer = await chamber.stop()
        assert (answer["success"], answer["message"]) == (False, "no recipe is running")
        assert chamber.journal.recorded() == []
        assert chamber.desired(LIGHT) is None


async def test_flaw_4_a_recipe_stopped_for_the_second_time_stays_stopped_after_a_boot():
    async with growing(simple([0, TEMPERATURE, 20], [900, TEMPERATURE, 21])) as chamber:
        await chamber.stop()
        await chamber.start("r")
        await chamber.stop()
        assert chamber.journal.recorded() == [("recipe_start", "r"), ("recipe_end", "r")] * 2
    async with chamber.on():
        assert chamber.parameter("current_recipe") == ""
        assert chamber.desired(TEMPERATURE) is None


# --- 5. the resume query used a stale view, so the last start or stop could be missed


class FileJournal(RunJournal):
    broken = False


@asynccontextmanager
async def journal_in(path, clock):
    local = await LocalStore.open(path)
    outbox = await Outbox.open(local, clock)
    try:
        yield FileJournal(local, outbox, PointMaker(local.device), "e")
    finally:
        await outbox.close()
        await local.close()


async def test_flaw_5_the_last_start_or_stop_is_known_at_once_and_without_the_database(tmp_path):
    chamber = Chamber()
    for steps, runs in (([chamber.start], "day"), ([chamber.stop, chamber.start, chamber.stop], "")):
        async with journal_in(tmp_path / "growd.sqlite3", chamber.clock) as chamber.journal, chamber.on():
            for step in steps:
                assert (await step())["success"]
        chamber.database_error = ConnectionRefusedError()
        async with journal_in(tmp_path / "growd.sqlite3", chamber.clock) as chamber.journal, chamber.on():
            assert chamber.parameter("current_recipe") == runs
        chamber.database_error = None


# --- 6. "success" was answered before the recipe's format was looked at


@pytest.mark.parametrize("recipe", [{"format": "other"}, {}, simple([0, TEMPERATURE, 20], [1, "warmth", 20])])
async def test_flaw_6_a_recipe_is_looked_at_whole_before_it_starts(recipe):
    chamber = Chamber()
    chamber.recipes["r"] = recipe
    async with chamber.on():
        answer = await chamber.start("r")
        assert (answer["success"], "is not valid: /" in answer["message"]) == (False, True)
        assert chamber.journal.recorded() == []
        assert chamber.parameter("current_recipe") == ""


# --- 7. controllers went on after the recipe; no time step, kicks and wind-up in the PID


class Doser:
    """CO2 from a valve, on a bus that has a place for its sensor."""

    def __init__(self, bus):
        self.bus = bus
        bus.node("valve")
        self.controller = co2_controller(bus, environment="e", gains=Gains(0.002, 1000.0))
        self.valve = valve_controller(bus, environment="e", minimum_on_s=2.0, minimum_off_s=2.0)

    def commanded(self):
        last = self.bus.topics.get(f"e/commanded/{VALVE}").last
        return last.value, last.quality


async def test_flaw_7_at_the_end_of_the_recipe_the_valve_is_let_go_of():
    async with growing(simple([0, CO2, 5000], [10, CO2, 5000])) as chamber:
        measured = chamber.bus.node("sensor").publisher(f"e/measured/{CO2}")
        doser = Doser(chamber.bus)
        async with running(chamber.clock, doser.controller, doser.valve):
            for _ in range(4):
                measured.publish(400.0)
                await chamber.clock.advance(2)
            assert doser.commanded() == (1.0, Quality.OK)
            await chamber.clock.advance(4)
            assert doser.commanded() == (None, Quality.STALE)


def test_flaw_7_the_pid_counts_time_does_not_kick_and_does_not_wind_up():
    gains = Gains(0.001, 100.0, 50.0)
    slow, fast = Pid(gains, -1, 1), Pid(gains, -1, 1)
    fast.update(500, 400, 1.0)
    for _ in range(10):
        slow.update(500, 400, 1.0)
    fast.update(500, 400, 9.0)
    assert slow.integral == pytest.approx(fast.integral)
    before = slow.update(500, 400, 1.0)
    kick = slow.update(600, 400, 0.0) - before
    assert abs(kick) <= 0.001 * 100 + 1e-9  # of the proportional term, none of the derivative
    for _ in range(100_000):
        slow.update(5_000, 400, 1.0)
    assert abs(slow.integral) <= 1


# --- 8. a last value of 0 counted as none, a failed write was lost, NaN became invalid JSON


async def test_flaw_8_a_dark_sensor_writes_seldom_a_failed_write_is_kept_and_nan_is_refused(tmp_path):
    clock = ManualClock()
    async with opened_at(tmp_path / "growd.sqlite3", clock) as outbox:
        bus = Bus(clock)
        declare_environment(bus, "e", [LIGHT])
        light = bus.node("sensor").publisher(f"e/measured/{LIGHT}")
        async with running(clock, Recorder(bus, outbox, PointMaker("0123456789ab"), ["e"])):
            for _ in range(720):  # an hour
                light.publish(0.0)
                await clock.advance(5)
            with pytest.raises(InvalidValueError):
                light.publish(float("nan"))
            await outbox.flush()
            batch = await outbox.next_batch(1_000)
            assert [each.document["value"] for each in batch] == [0.0] * 6
            assert await outbox.next_batch(1_000) == batch  # they stay until the database has them


# --- 9. when `measured` stopped, the last command stayed on for ever


async def test_flaw_9_a_sensor_that_falls_silent_shuts_the_valve_and_its_last_value_is_not_given_again():
    clock = ManualClock()
    bus = Bus(clock)
    declare_environment(bus, "e", [CO2])
    doser, smoothing = Doser(bus), Filter(bus, "e", CO2, stale_after_s=30.0)
    client = bus.node("client")
    async with running(clock, smoothing, doser.controller, doser.valve):
        client.publisher(f"e/desired/{CO2}").publish(5000.0)
        for _ in range(4):
            client.publisher(f"e/raw/{CO2}").publish(400.0)
            await clock.advance(2)
        assert doser.commanded() == (1.0, Quality.OK)
        await clock.advance(40)
        measured = bus.topics.get(f"e/measured/{CO2}")
        assert (measured.last.value, measured.last.quality) == (None, Quality.STALE)
        assert doser.commanded() == (None, Quality.STALE)
        count = measured.count
        await clock.advance(600)
        assert measured.count == count


# --- 10. one subscription leaked for each client of a stream, and the first message of each post was lost


async def no_streams(daemon):
    async with asyncio.timeout(PATIENCE_S):
        while len(daemon.api.streams):  # noqa: ASYNC110  it is told by no event
            await asyncio.sleep(0)


async def test_flaw_10_a_stream_gets_the_first_post_and_leaves_no_subscription():
    async with serving() as daemon:
        topic = daemon.bus.topics.get(RECIPE_START)
        for number in range(3):
            async with raw_client(daemon.port) as client:
                path = f"{daemon.api.prefix}/topic_stream/{RECIPE_START}"
                await client.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert b"200" in await client.head()
                answer = await daemon.post(f"/topic/{RECIPE_START}", f'["number {number}"]')
                assert answer.status == 200
                async for piece in client.chunks():
                    if f"number {number}".encode() in piece:
                        break
                assert topic.subscribers == ["http"]
            await no_streams(daemon)
            assert topic.subscribers == []
        assert topic.count == 3

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import threading

import pytest

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.control.actuation import RAMP_STEP_S, LightActuator, SwitchActuator
from growd.control.topics import declare_environment
from growd.runtime.worker import Worker
from support.clock import ManualClock
from support.running import running

LUX = "light_illuminance"
DARK = {"white": 0.0, "red": 0.0, "blue": 0.0}


class Light:
    def __init__(self):
        self.history = []
        self.levels = {}
        self.failing = False
        self.hang: threading.Event | None = None
        self.begun = threading.Event()

    def write(self, channel, level):
        if self.hang is not None:
            self.begun.set()
            self.hang.wait(10)
        if self.failing:
            raise OSError(5, "pin refuses")
        self.history.append((channel, level))
        self.levels[channel] = level


class Rig:
    def __init__(self, **options):
        self.clock = ManualClock()
        self.bus = Bus(self.clock)
        declare_environment(self.bus, "e", [])
        self.worker = Worker("gpio", monotonic=self.clock.monotonic)
        self.clock.watch(self.worker)
        self.light = Light()
        self.actuator = self.made(**options)
        self.node = self.bus.node("controller")
        self.output = self.bus.topics.get("e/light_channels")

    @property
    def device(self):
        return self.bus.find_node("e/actuators/light").information()["device"]

    def made(self, **options):
        return LightActuator(self.bus, "e", write=self.light.write, worker=self.worker, **options)

    def command(self, name, value, quality=Quality.OK):
        self.node.publisher(f"e/commanded/{name}").publish(value, quality)

    async def repeated(self, variable, level, seconds):
        """A command that holds for so long, which a try that failed may have to wait for."""
        for _ in range(seconds):
            self.command(variable, level)
            await self.clock.advance(1)

    async def given(self, name, value, quality=Quality.OK):
        self.command(name, value, quality)
        await self.clock.settle()
        return self.light.levels


@pytest.fixture
async def idle():
    rig = Rig()
    yield rig
    await rig.worker.close()


@pytest.fixture
async def rig(idle):
    async with running(idle.clock, idle.actuator):
        yield idle


async def test_before_anything_else_every_channel_is_made_dark(idle):
    idle.command(LUX, 1.0)
    async with running(idle.clock, idle.actuator):
        assert idle.light.history[:3] == [("white", 0.0), ("red", 0.0), ("blue", 0.0)]


async def test_an_illuminance_command_is_mixed_over_the_channels(rig):
    assert await rig.given(LUX, 0.8) == {"white": 0.8, "red": 0.4, "blue": 0.4}
    assert rig.output.last.value == {"x": 0.8, "y": 0.4, "z": 0.4}


async def test_a_channels_own_command_wins_while_it_is_fresh(rig):
    await rig.given(LUX, 0.8)
    assert (await rig.given("light_intensity_red", 0.1))["red"] == 0.1
    for _ in range(4):
        await rig.clock.advance(2)
        rig.command(LUX, 0.8)
    await rig.clock.settle()
    assert rig.light.levels == {"white": 0.8, "red": 0.4, "blue": 0.4}


async def test_a_command_taken_back_gives_way_at_once(rig):
    await rig.given(LUX, 0.8)
    await rig.given("light_intensity_red", 0.1)
    assert (await rig.given("light_intensity_red", None, Quality.STALE))["red"] == 0.4


async def test_all_channels_are_set_in_one_call_by_one_command(rig):
    rig.light.history.clear()
    await rig.given("light_channels", {"x": 0.1, "y": 0.2, "z": 0.3})
    assert rig.light.history == [("white", 0.1), ("red", 0.2), ("blue", 0.3)]
    assert rig.output.last.value == {"x": 0.1, "y": 0.2, "z": 0.3}
    assert rig.output.count == 2  # dark at the start, then this: nothing in between was ever out


async def test_when_commands_stop_the_light_goes_dark_in_time(rig):
    await rig.given(LUX, 0.8)
    await rig.clock.advance(4)
    assert rig.light.levels["white"] == 0.8
    await rig.clock.advance(3)
    assert rig.light.levels == DARK
    assert rig.output.last.value == {"x": 0.0, "y": 0.0, "z": 0.0}


async def test_an_unchanged_level_is_not_written_again(rig):
    await rig.given(LUX, 0.8)
    rig.light.history.clear()
    for _ in range(10):
        await rig.given(LUX, 0.8)
        await rig.clock.advance(1)
    assert rig.light.history == []


async def test_a_failure_is_reported_once_and_tried_again_until_it_is_over(rig, caplog):
    caplog.set_level(logging.INFO, "growd")
    rig.light.failing = True
    for _ in range(60):
        rig.command(LUX, 0.8)
        await rig.clock.advance(1)
    assert (rig.output.last.quality, rig.output.last.value) == (Quality.FAULT, None)
    assert rig.bus.topics.get("e/diagnostics/light").last.value["level"] == 2
    rig.light.failing = False
    for _ in range(11):
        rig.command(LUX, 0.6)
        await rig.clock.advance(1)
    assert rig.light.levels == {"white": 0.6, "red": 0.3, "blue": 0.3}
    assert rig.output.last.value == {"x": 0.6, "y": 0.3, "z": 0.3}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_one_channel_that_fails_does_not_keep_the_others(rig):
    write = rig.light.write

    def red_fails(channel, level):
        if channel == "red":
            raise OSError(5, "pin refuses")
        write(channel, level)

    rig.actuator._write = red_fails
    assert await rig.given(LUX, 0.8) == {"white": 0.8, "red": 0.0, "blue": 0.4}
    assert rig.output.last.quality is Quality.FAULT
    await rig.repeated(LUX, 0.8, 60)  # so long that red is tried each 5 to 10 s
    assert await rig.given(LUX, 0.5) == {"white": 0.5, "red": 0.0, "blue": 0.25}
    assert await rig.given(LUX, None, Quality.STALE) == DARK
    assert rig.device["state"] == "failed"
    rig.actuator._write = write
    await rig.repeated(LUX, 0.8, 11)
    assert rig.output.last.value == {"x": 0.8, "y": 0.4, "z": 0.4}
    assert rig.device["state"] == "ok"


async def test_a_write_that_hangs_piles_up_nothing_and_the_newest_command_follows(rig):
    release = rig.light.hang = threading.Event()
    rig.clock.unwatch(rig.worker)
    await rig.given(LUX, 0.8)
    await asyncio.to_thread(rig.light.begun.wait, 10)
    for _ in range(9):
        rig.command(LUX, 0.2)
        await rig.clock.advance(1)
    assert rig.worker._calls.empty()
    rig.light.hang = None
    release.set()
    rig.clock.watch(rig.worker)
    for _ in range(11):
        rig.command(LUX, 0.2)
        await rig.clock.advance(1)
    assert rig.light.levels == {"white": 0.2, "red": 0.1, "blue": 0.1}


async def test_a_thread_that_hangs_is_left_behind_and_what_it_writes_late_does_not_last(rig):
    release = rig.light.hang = threading.Event()
    rig.clock.unwatch(rig.worker)
    await rig.given(LUX, 0.8)
    await asyncio.to_thread(rig.light.begun.wait, 10)
    stuck = rig.worker._thread
    rig.light.hang = None
    for _ in range(25):
        rig.command(LUX, 0.2)
        await rig.clock.advance(1)
    assert rig.worker.replaced == 1
    rig.clock.watch(rig.worker)
    await rig.repeated(LUX, 0.2, seconds=12)
    assert rig.light.levels == {"white": 0.2, "red": 0.1, "blue": 0.1}
    release.set()
    await asyncio.to_thread(stuck.join, 10)
    assert rig.light.levels == {"white": 0.8, "red": 0.1, "blue": 0.1}  # what hung was carried out, no more
    await rig.repeated(LUX, 0.2, seconds=12)
    assert rig.light.levels == {"white": 0.2, "red": 0.1, "blue": 0.1}


async def test_it_is_made_safe_after_its_task_was_cancelled(idle):
    async with running(idle.clock, idle.actuator):
        await idle.given(LUX, 0.8)
        assert idle.light.levels["white"] == 0.8
        idle.command(LUX, 1.0)
    assert await idle.actuator.make_safe()
    assert idle.light.levels == DARK
    assert idle.output.last.value == {"x": 0.0, "y": 0.0, "z": 0.0}


async def test_it_makes_itself_safe_when_it_fails_of_a_mistake(idle, monkeypatch):
    runs = asyncio.create_task(idle.actuator.run(), name="actuator")
    await idle.clock.settle()
    assert (await idle.given(LUX, 0.8))["white"] == 0.8
    monkeypatch.setattr(idle.actuator, "_take", None)  # not callable
    assert await idle.given(LUX, 0.5) == DARK
    with pytest.raises(ExceptionGroup):
        await runs


async def test_it_says_when_it_could_not_be_made_safe(idle, caplog):
    async with running(idle.clock, idle.actuator):
        await idle.given(LUX, 0.8)
        idle.light.failing = True
    assert not await idle.actuator.make_safe()
    assert "could not be made safe" in caplog.text


class RampedRig(Rig):
    async def commanded_for(self, seconds, name, value):
        """As a controller does: the same command each second."""
        for _ in range(seconds):
            self.command(name, value)
            await self.clock.advance(1)


async def test_a_switched_lamp_is_on_or_off_and_says_so():
    rig = Rig(is_switched=True)
    async with running(rig.clock, rig.actuator):
        assert await rig.given("light_intensity_white", 0.5) == {"white": 1.0, "red": 0.0, "blue": 0.0}
        assert rig.output.last.value == {"x": 1.0, "y": 0.0, "z": 0.0}
        assert (await rig.given("light_intensity_white", 0.49))["white"] == 0.0
        assert await rig.given(LUX, 1.0) == {"white": 0.0, "red": 1.0, "blue": 1.0}
    await rig.worker.close()
    assert {level for _, level in rig.light.history} == {0.0, 1.0}


@pytest.fixture
async def ramped():
    rig = RampedRig(ramp_s=10.0)
    async with running(rig.clock, rig.actuator):
        yield rig
    await rig.worker.close()


async def test_a_ramped_channel_takes_its_share_of_the_full_swing(ramped):
    way = 10 * RAMP_STEP_S / 10  # the step that is under way when time stops
    await ramped.commanded_for(2, LUX, 0.8)
    assert ramped.light.levels["white"] == pytest.approx(0.2, abs=way)
    assert ramped.light.levels["blue"] == pytest.approx(0.2, abs=way)
    await ramped.commanded_for(3, LUX, 0.8)
    assert ramped.light.levels == {"white": pytest.approx(0.5, abs=way), "red": 0.4, "blue": 0.4}
    await ramped.commanded_for(4, LUX, 0.8)
    assert ramped.light.levels == {"white": 0.8, "red": 0.4, "blue": 0.4}
    await ramped.commanded_for(4, LUX, 0.6)
    assert ramped.light.levels == {"white": 0.6, "red": 0.3, "blue": 0.3}
    levels = [level for channel, level in ramped.light.history if channel == "white"]
    top = levels.index(0.8)
    assert levels[: top + 1] == sorted(levels[: top + 1])
    assert levels[top:] == sorted(levels[top:], reverse=True)
    assert max(abs(a - b) for a, b in itertools.pairwise(levels)) < 0.1


async def test_a_ramp_that_has_arrived_writes_no_more(ramped):
    await ramped.commanded_for(10, LUX, 0.5)
    ramped.light.history.clear()
    await ramped.commanded_for(10, LUX, 0.5)
    assert ramped.light.history == []


async def test_a_new_command_turns_a_ramp_round_where_it_is(ramped):
    await ramped.commanded_for(4, LUX, 1.0)
    await ramped.commanded_for(2, LUX, 0.0)
    assert ramped.light.levels["white"] == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("how", ["taken back", "stale", "cancelled"])
async def test_no_ramp_leads_to_the_safe_level(ramped, how):
    await ramped.commanded_for(4, LUX, 1.0)
    assert ramped.light.levels["white"] > 0.3
    if how == "taken back":
        ramped.command(LUX, None, Quality.STALE)
        await ramped.clock.advance(RAMP_STEP_S)
    elif how == "stale":
        await ramped.clock.advance(3.9)
        assert ramped.light.levels["white"] > 0.3
        await ramped.clock.advance(2)
    else:
        await ramped.actuator.make_safe()
    assert ramped.light.levels == DARK
    on_the_way = [level for _, level in ramped.light.history if 0 < level < 0.3]
    assert on_the_way == sorted(on_the_way)  # all on the way up


FLUSH = "air_flush_on"


class SwitchRig(Rig):
    """A fan, in the place of the light."""

    def made(self, **options):
        fan = functools.partial(self.light.write, "fan")
        return SwitchActuator(self.bus, "e", "fan", FLUSH, write=fan, worker=self.worker, **options)

    def state(self):
        return self.bus.topics.get("e/switches/fan").last

    async def is_on_after(self, name, value, quality=Quality.OK):
        return (await self.given(name, value, quality))["fan"]


async def switching(**options):
    rig = SwitchRig(**options)
    async with running(rig.clock, rig.actuator):
        yield rig
    await rig.worker.close()


@pytest.fixture
async def switch():
    async for rig in switching():
        yield rig


@pytest.fixture
async def safe_on():
    async for rig in switching(safe_on=True):
        yield rig


async def test_a_switch_is_made_safe_before_anything_else(switch, safe_on):
    assert switch.light.history == [("fan", False)]
    assert safe_on.light.history == [("fan", True)]
    assert (switch.state().value, safe_on.state().value) == (0.0, 1.0)


async def test_a_switch_is_on_from_one_half(switch):
    assert [await switch.is_on_after(FLUSH, level) for level in (1, 0.49, 0.5, 0)] == [1, 0, 1, 0]
    assert switch.state().value == 0.0


async def test_a_switch_is_not_written_again_while_it_stays(switch):
    for level in (1.0, 0.8, 0.6, 1.0):
        await switch.is_on_after(FLUSH, level)
        await switch.clock.advance(3)
    assert switch.light.history == [("fan", False), ("fan", True)]
    assert switch.bus.topics.get("e/switches/fan").count == 2


async def test_when_commands_stop_a_switch_goes_to_its_safe_state_in_time(switch, safe_on):
    for rig, commanded in ((switch, 1.0), (safe_on, 0.0)):
        assert await rig.is_on_after(FLUSH, commanded) == commanded
        await rig.clock.advance(4)
        assert rig.light.levels["fan"] == commanded
        await rig.clock.advance(3)
        assert rig.light.levels["fan"] == 1 - commanded
        assert rig.state().value == 1 - commanded


async def test_a_command_taken_back_makes_a_switch_safe_at_once(switch):
    await switch.is_on_after(FLUSH, 1.0)
    assert await switch.is_on_after(FLUSH, None, Quality.STALE) == 0


async def test_a_switch_that_refuses_is_told_once_and_tried_again(switch, caplog):
    caplog.set_level(logging.INFO, "growd")
    switch.light.failing = True
    for _ in range(60):
        switch.command(FLUSH, 1.0)
        await switch.clock.advance(1)
    assert (switch.state().quality, switch.state().value) == (Quality.FAULT, None)
    assert switch.bus.topics.get("e/diagnostics/fan").last.value["level"] == 2
    switch.light.failing = False
    for _ in range(11):
        switch.command(FLUSH, 1.0)
        await switch.clock.advance(1)
    assert (switch.state().quality, switch.state().value) == (Quality.OK, 1.0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_a_switch_that_refuses_at_the_end_is_told(switch, caplog):
    await switch.is_on_after(FLUSH, 1.0)
    switch.light.failing = True
    assert not await switch.actuator.make_safe()
    assert "e/actuators/fan could not be made safe" in caplog.text
    switch.light.failing = False
    assert await switch.actuator.make_safe()
    assert switch.light.levels["fan"] == 0


class Strict:
    """A guard that holds some outputs at 0, and remembers what it was told."""

    def __init__(self):
        self.held = set()
        self.told = []
        self.nudge = None

    def permit(self, output, level):
        return 0.0 if output in self.held else level

    def wrote(self, output, level):
        self.told.append((output, level))

    def watch(self, nudge):
        self.nudge = nudge

    def hold(self, *outputs):
        self.held = set(outputs)
        self.nudge()


@pytest.fixture
async def guarded_switch():
    async for rig in switching(guard=Strict()):
        yield rig


async def test_what_the_guard_does_not_permit_is_not_written_whoever_commands(guarded_switch):
    guard = guarded_switch.actuator._guard
    assert await guarded_switch.is_on_after(FLUSH, 1.0) == 1
    guard.hold(FLUSH)
    await guarded_switch.clock.settle()
    assert guarded_switch.light.levels["fan"] == 0  # at once, not at the next command
    assert await guarded_switch.is_on_after(FLUSH, 1.0) == 0
    guard.hold()
    await guarded_switch.clock.settle()
    assert guarded_switch.light.levels["fan"] == 1
    assert guard.told == [(FLUSH, 0.0), (FLUSH, 1.0), (FLUSH, 0.0), (FLUSH, 1.0)]


async def test_the_guard_is_told_when_nobody_knows_what_an_output_is(guarded_switch):
    guarded_switch.light.failing = True
    guarded_switch.command(FLUSH, 1.0)
    await guarded_switch.clock.settle()
    assert guarded_switch.actuator._guard.told[-1] == (FLUSH, None)


@pytest.mark.parametrize("held", ["white", LUX])
@pytest.mark.parametrize("way", ["up", "down"])
async def test_a_light_that_is_held_is_dark_at_once_whatever_its_ramp_does(held, way):
    rig = RampedRig(ramp_s=10.0, guard=Strict())
    async with running(rig.clock, rig.actuator):
        await rig.commanded_for(11, LUX, 1.0)
        if way == "down":
            await rig.commanded_for(4, LUX, 0.0)
        assert rig.light.levels["white"] > 0.4
        rig.actuator._guard.hold(held)
        await rig.clock.advance(RAMP_STEP_S)
        assert rig.light.levels["white"] == 0.0
        assert (rig.light.levels["red"] == 0.0) == (held == LUX)
        rig.actuator._guard.hold()
        await rig.commanded_for(2, LUX, 1.0)
        assert 0.0 < rig.light.levels["white"] < 0.4  # and comes back by its ramp
    await rig.worker.close()


async def test_a_channel_with_a_command_of_its_own_is_lit_where_illuminance_is_held():
    rig = Rig(guard=Strict())
    async with running(rig.clock, rig.actuator):
        rig.actuator._guard.hold(LUX)
        await rig.given(LUX, 0.8)
        assert await rig.given("light_intensity_red", 0.3) == {"white": 0.0, "red": 0.3, "blue": 0.0}
    await rig.worker.close()

import asyncio
import functools
import itertools
import logging
import threading
from contextlib import asynccontextmanager

import pytest

from growd.bus.messages import Quality
from growd.control.actuation import RAMP_STEP_S, OutputActuator, SwitchActuator
from growd.control.lamp import LightActuator
from growd.output_roles import Lease
from growd.runtime.worker import Worker
from growd.variables import VALVE
from support.bus_rig import BusRig
from support.running import running

LUX = "light_illuminance"
UNRENEWED = Lease(60.0)
DARK = {"white": 0.0, "red": 0.0, "blue": 0.0}


class Light:
    def __init__(self):
        self.history = []
        self.levels = {}
        self.failing, self.tries = False, 0
        self.hang = None
        self.begun = threading.Event()

    def write(self, channel, level, _valid_s):
        self.tries += 1
        if self.hang is not None:
            self.begun.set()
            self.hang.wait(10)
        if self.failing:
            raise OSError(5, "pin refuses")
        self.history.append((channel, level))
        self.levels[channel] = level


class Rig(BusRig):
    def __init__(self, **options):
        super().__init__()
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
        options.setdefault("lease", UNRENEWED)
        return LightActuator(self.bus, "e", write=self.light.write, worker=self.worker, **options)

    def command(self, name, value, quality=Quality.OK):
        self.node.publisher(f"e/commanded/{name}").publish(value, quality)

    async def repeat(self, name, value, seconds):
        """Send the same command each second, as a controller does."""
        for _ in range(seconds):
            self.command(name, value)
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


async def test_every_channel_is_dark_before_commands_are_followed(idle):
    idle.command(LUX, 1.0)
    async with running(idle.clock, idle.actuator):
        assert idle.light.history[:3] == [("white", 0.0), ("red", 0.0), ("blue", 0.0)]


async def test_an_illuminance_command_is_mixed_and_a_fresh_one_of_a_channel_overrides_it(rig):
    mixed = {"white": 0.8, "red": 0.4, "blue": 0.4}
    assert await rig.given(LUX, 0.8) == mixed
    assert rig.output.last.value == {"x": 0.8, "y": 0.4, "z": 0.4}
    assert (await rig.given("light_intensity_red", 0.1))["red"] == 0.1
    for _ in range(4):
        await rig.clock.advance(2)
        rig.command(LUX, 0.8)
    await rig.clock.settle()
    assert rig.light.levels == mixed


async def test_one_command_sets_all_channels_in_one_call(rig):
    rig.light.history.clear()
    await rig.given("light_channels", {"x": 0.1, "y": 0.2, "z": 0.3})
    assert rig.light.history == [("white", 0.1), ("red", 0.2), ("blue", 0.3)]
    assert rig.output.last.value == {"x": 0.1, "y": 0.2, "z": 0.3}
    assert rig.output.count == 2  # dark at the start, then this: no level in between was published


async def test_an_unchanged_level_is_not_written_again_and_the_light_is_dark_when_commands_stop(rig):
    await rig.given(LUX, 0.8)
    rig.light.history.clear()
    await rig.repeat(LUX, 0.8, 10)
    await rig.clock.advance(3)
    assert rig.light.history == []
    assert rig.light.levels["white"] == 0.8
    await rig.clock.advance(3)
    assert rig.light.levels == DARK
    assert rig.output.last.value == {"x": 0.0, "y": 0.0, "z": 0.0}


async def test_a_failed_write_is_reported_once_and_repeated_until_it_succeeds(rig, caplog):
    caplog.set_level(logging.INFO, "growd")
    rig.light.failing = True
    await rig.repeat(LUX, 0.8, 60)
    assert (rig.output.last.quality, rig.output.last.value) == (Quality.FAULT, None)
    assert rig.bus.topics.get("e/diagnostics/light").last.value["level"] == 2
    rig.light.failing = False
    await rig.repeat(LUX, 0.6, 11)
    assert rig.light.levels == {"white": 0.6, "red": 0.3, "blue": 0.3}
    assert rig.output.last.value == {"x": 0.6, "y": 0.3, "z": 0.3}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_a_failed_channel_does_not_block_the_others(rig):
    write = rig.light.write

    def red_fails(channel, level, _valid_s):
        if channel == "red":
            raise OSError(5, "pin refuses")
        write(channel, level, _valid_s)

    rig.actuator._write = red_fails
    assert await rig.given(LUX, 0.8) == {"white": 0.8, "red": 0.0, "blue": 0.4}
    assert rig.output.last.quality is Quality.FAULT
    await rig.repeat(LUX, 0.8, 60)  # so long that red is tried each 5 to 10 s
    assert await rig.given(LUX, 0.5) == {"white": 0.5, "red": 0.0, "blue": 0.25}
    assert await rig.given(LUX, None, Quality.STALE) == DARK
    assert rig.device["state"] == "failed"
    rig.actuator._write = write
    await rig.repeat(LUX, 0.8, 11)
    assert rig.output.last.value == {"x": 0.8, "y": 0.4, "z": 0.4}
    assert rig.device["state"] == "ok"


async def test_commands_do_not_queue_behind_a_hung_write(rig):
    release = rig.light.hang = threading.Event()
    rig.clock.unwatch(rig.worker)
    await rig.given(LUX, 0.8)
    await asyncio.to_thread(rig.light.begun.wait, 10)
    await rig.repeat(LUX, 0.2, 9)
    assert rig.worker._calls.empty()
    rig.light.hang = None
    release.set()
    rig.clock.watch(rig.worker)
    await rig.repeat(LUX, 0.2, 11)
    assert rig.light.levels == {"white": 0.2, "red": 0.1, "blue": 0.1}


@pytest.mark.parametrize("level", [0.2, 0.0])
async def test_a_hung_thread_is_abandoned_and_its_late_write_is_corrected(rig, level):
    given = {"white": level, "red": level / 2, "blue": level / 2}
    release = rig.light.hang = threading.Event()
    rig.clock.unwatch(rig.worker)
    await rig.given(LUX, 0.8)
    await asyncio.to_thread(rig.light.begun.wait, 10)
    stuck = rig.worker._thread
    rig.light.hang = None
    await rig.repeat(LUX, level, 25)
    assert rig.worker.replaced == 1
    rig.clock.watch(rig.worker)
    await rig.repeat(LUX, level, 12)
    assert rig.light.levels == given
    release.set()
    await asyncio.to_thread(stuck.join, 10)
    assert rig.light.levels == given | {"white": 0.8}  # only the hung write was carried out
    await rig.repeat(LUX, level, 2)
    assert rig.light.levels == given


async def test_make_safe_darkens_the_lamp_after_a_cancellation_and_reports_failure(idle, caplog):
    async with running(idle.clock, idle.actuator):
        await idle.given(LUX, 0.8)
        assert idle.light.levels["white"] == 0.8
        idle.command(LUX, 1.0)
        idle.light.failing = True
    assert not await idle.actuator.make_safe()
    assert "e/actuators/light could not be made safe" in caplog.text
    idle.light.failing = False
    assert await idle.actuator.make_safe()
    assert idle.light.levels == DARK
    assert idle.output.last.value == {"x": 0.0, "y": 0.0, "z": 0.0}


async def test_an_internal_error_makes_the_outputs_safe(idle, monkeypatch):
    runs = asyncio.create_task(idle.actuator.run(), name="actuator")
    await idle.clock.settle()
    assert (await idle.given(LUX, 0.8))["white"] == 0.8
    monkeypatch.setattr(idle.actuator, "_take", None)  # not callable
    assert await idle.given(LUX, 0.5) == DARK
    with pytest.raises(ExceptionGroup):
        await runs


async def test_a_switched_lamp_is_fully_on_or_dark():
    rig = Rig(switched=DARK)
    async with running(rig.clock, rig.actuator):
        assert await rig.given("light_intensity_white", 0.5) == {"white": 1.0, "red": 0.0, "blue": 0.0}
        assert rig.output.last.value == {"x": 1.0, "y": 0.0, "z": 0.0}
        assert (await rig.given("light_intensity_white", 0.49))["white"] == 0.0
        assert await rig.given(LUX, 1.0) == {"white": 0.0, "red": 1.0, "blue": 1.0}
    await rig.worker.close()
    assert {level for _, level in rig.light.history} == {0.0, 1.0}


@pytest.fixture
async def ramped():
    rig = Rig(ramp_s=10.0, guard=Strict())
    async with running(rig.clock, rig.actuator):
        yield rig
    await rig.worker.close()


async def test_a_ramp_takes_its_share_of_the_full_swing(ramped):
    way = 10 * RAMP_STEP_S / 10  # the step that is under way when time stops
    await ramped.repeat(LUX, 0.8, 2)
    assert ramped.light.levels["white"] == pytest.approx(0.2, abs=way)
    assert ramped.light.levels["blue"] == pytest.approx(0.2, abs=way)
    await ramped.repeat(LUX, 0.8, 3)
    assert ramped.light.levels == {"white": pytest.approx(0.5, abs=way), "red": 0.4, "blue": 0.4}
    await ramped.repeat(LUX, 0.8, 4)
    assert ramped.light.levels == {"white": 0.8, "red": 0.4, "blue": 0.4}
    await ramped.repeat(LUX, 0.6, 4)
    assert ramped.light.levels == {"white": 0.6, "red": 0.3, "blue": 0.3}
    levels = [level for channel, level in ramped.light.history if channel == "white"]
    top = levels.index(0.8)
    assert levels[: top + 1] == sorted(levels[: top + 1])
    assert levels[top:] == sorted(levels[top:], reverse=True)
    assert max(abs(a - b) for a, b in itertools.pairwise(levels)) < 0.1


async def test_a_channel_whose_command_ends_goes_on_with_the_mix_without_a_dark_moment(ramped):
    await ramped.repeat(LUX, 0.8, 9)
    for _ in range(4):
        ramped.command("light_intensity_red", 0.7)
        await ramped.repeat(LUX, 0.8, 1)
    assert ramped.light.levels == {"white": 0.8, "red": 0.7, "blue": 0.4}
    ramped.light.history.clear()
    ramped.command("light_intensity_red", None, Quality.STALE)
    await ramped.repeat(LUX, 0.8, 4)
    assert ramped.light.levels == {"white": 0.8, "red": 0.4, "blue": 0.4}
    assert {channel for channel, _ in ramped.light.history} == {"red"}  # the others stay as they are
    assert min(level for _, level in ramped.light.history) == 0.4


@pytest.mark.parametrize("how", ["released", "stale", "cancelled"])
async def test_the_safe_level_is_written_without_a_ramp(ramped, how):
    await ramped.repeat(LUX, 1.0, 4)
    assert ramped.light.levels["white"] > 0.3
    if how == "released":
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

    def made(self, *, kind=SwitchActuator, **options):
        fan, options = functools.partial(self.light.write, "fan"), {"lease": UNRENEWED, **options}
        return kind(self.bus, "e", "fan", FLUSH, write=fan, worker=self.worker, **options)

    def state(self):
        return self.bus.topics.get("e/switches/fan").last

    async def is_on_after(self, name, value, quality=Quality.OK):
        return (await self.given(name, value, quality))["fan"]


@asynccontextmanager
async def switching(**options):
    rig = SwitchRig(**options)
    async with running(rig.clock, rig.actuator):
        yield rig
    await rig.worker.close()


@pytest.fixture
async def switch():
    async with switching() as rig:
        yield rig


@pytest.fixture
async def safe_on():
    async with switching(safe_on=True) as rig:
        yield rig


async def test_a_switch_is_on_from_one_half(switch):
    assert [await switch.is_on_after(FLUSH, level) for level in (1, 0.49, 0.5, 0)] == [1, 0, 1, 0]
    assert switch.state().value == 0.0


async def test_a_switch_is_safe_at_the_start_and_when_its_command_ends_or_is_released(switch, safe_on):
    for rig, commanded in ((switch, 1.0), (safe_on, 0.0)):
        assert rig.light.history == [("fan", 1 - commanded)]
        assert await rig.is_on_after(FLUSH, commanded) == commanded
        await rig.clock.advance(4)
        assert rig.light.levels["fan"] == commanded
        await rig.clock.advance(3)
        assert rig.light.levels["fan"] == 1 - commanded
        assert rig.state().value == 1 - commanded
        assert await rig.is_on_after(FLUSH, commanded) == commanded
        assert await rig.is_on_after(FLUSH, None, Quality.STALE) == 1 - commanded


async def test_a_flood_of_commands_does_not_wear_a_switch_out():
    async with switching(rest_s=1.0) as rig:
        for number in range(200):
            rig.command(FLUSH, float(number % 2))
            await rig.clock.advance(0.05)
        assert 3 <= sum(level for _, level in rig.light.history) <= 11  # of 100 commands within 10 s
        await rig.repeat(FLUSH, 1.0, 3)
        assert rig.light.levels["fan"] == 1
        rig.command(FLUSH, 0.0)
        await rig.clock.advance(0.05)
        assert rig.light.levels["fan"] == 0  # off at once
        await rig.repeat(FLUSH, 1.0, 2)
        assert rig.light.levels["fan"] == 1


async def test_a_dimmed_output_takes_any_level_and_is_safe_without_a_command():
    async with switching(kind=OutputActuator) as rig:
        assert [await rig.is_on_after(FLUSH, level) for level in (0.37, 0.50001, 0.50002)] == [0.37, 0.5, 0.5]
        assert rig.light.history == [("fan", level) for level in (0.0, 0.37, 0.5)]  # noise is not written
        await rig.clock.advance(6)
        assert rig.light.levels["fan"] == rig.bus.topics.get("e/outputs/fan").last.value == 0.0
        assert "e/switches/fan" not in rig.bus.topics.names()


async def test_an_output_that_becomes_safe_by_itself_is_told_again_and_again():
    async with switching(kind=OutputActuator, lease=Lease(60.0, 15.0, renews_safe=True)) as rig:
        await rig.repeat(FLUSH, 0.4, 61)
        assert rig.light.history == [("fan", level) for level in (0.0, *[0.4] * 5)]
        await rig.given(FLUSH, None, Quality.STALE)
        rig.light.history.clear()
        await rig.clock.advance(32)
        assert rig.light.history == [("fan", 0.0)] * 2  # somebody may have pressed its button
        rig.light.failing, rig.light.tries = True, 0
        await rig.clock.advance(100)
        assert 8 <= rig.light.tries <= 20  # the delay between two grows to 10 s


@pytest.mark.parametrize(
    ("variable", "advice"), [(VALVE, "; the valve may be open: close the bottle"), (FLUSH, "")]
)
async def test_the_failure_of_a_valve_says_what_to_do(variable, advice):
    rig = SwitchRig()
    rig.actuator = SwitchActuator(
        rig.bus, "e", "x", variable, write=functools.partial(rig.light.write, "x"), worker=rig.worker
    )
    rig.light.failing = True
    async with running(rig.clock, rig.actuator):
        await rig.clock.advance(1)
        failed = rig.actuator.node.information()["device"]
        assert (failed["state"], failed["message"]) == ("failed", f"[Errno 5] pin refuses{advice}")
        assert failed["counters"]["last_error"].endswith(f"pin refuses{advice}")
    await rig.worker.close()


class Strict:
    """A guard that holds some outputs at 0, and records what was written."""

    is_on_hold = False

    def __init__(self):
        self.held = set()
        self.written = []
        self.nudge = None

    def permit(self, output, level):
        return 0.0 if output in self.held else level

    def wrote(self, output, level, *_):
        self.written.append((output, level))

    def watch(self, nudge):
        self.nudge = nudge

    def hold(self, *outputs):
        self.held = set(outputs)
        self.nudge()


@pytest.fixture
async def guarded_switch():
    async with switching(guard=Strict()) as rig:
        yield rig


async def test_the_guard_limits_every_command(guarded_switch):
    guard = guarded_switch.actuator._guard
    assert await guarded_switch.is_on_after(FLUSH, 1.0) == 1
    guard.hold(FLUSH)
    await guarded_switch.clock.settle()
    assert guarded_switch.light.levels["fan"] == 0  # at once, not at the next command
    assert await guarded_switch.is_on_after(FLUSH, 1.0) == 0
    guard.hold()
    await guarded_switch.clock.settle()
    assert guarded_switch.light.levels["fan"] == 1
    assert guard.written == [(FLUSH, 0.0), (FLUSH, 1.0), (FLUSH, 0.0), (FLUSH, 1.0)]


async def test_a_failed_write_leaves_the_level_unknown_to_all():
    counted = []
    async with switching(guard=Strict(), counted=lambda *each: counted.append(each[:2])) as rig:
        rig.light.failing = True
        rig.command(FLUSH, 1.0)
        await rig.clock.settle()
        assert rig.actuator._guard.written[-1] == counted[-1] == (FLUSH, None)
        assert rig.bus.topics.get("e/outputs/fan").last.quality is Quality.FAULT


async def test_a_held_light_is_dark_at_once_and_comes_back_by_its_ramp(ramped):
    guard = ramped.actuator._guard
    await ramped.repeat(LUX, 1.0, 11)
    guard.hold("white")
    await ramped.clock.advance(RAMP_STEP_S)
    assert (ramped.light.levels["white"], ramped.light.levels["red"]) == (0.0, 0.5)
    guard.hold()
    await ramped.repeat(LUX, 1.0, 2)
    assert 0.0 < ramped.light.levels["white"] < 0.4
    guard.hold(LUX)
    await ramped.clock.advance(RAMP_STEP_S)
    assert ramped.light.levels == DARK


async def test_a_channel_command_works_while_illuminance_is_held(ramped):
    ramped.actuator._guard.hold(LUX)
    ramped.command(LUX, 0.8)
    ramped.command("light_intensity_red", 0.3)
    await ramped.clock.advance(4)
    assert ramped.light.levels == DARK | {"red": 0.3}

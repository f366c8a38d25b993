"""The saved state of interlocks: slow or failing disks, and clocks that step."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from growd.bus import Bus
from growd.bus.errors import NotKeptError
from growd.control.interlocks.base import SensorReadings
from growd.control.interlocks.carbon_dioxide import DosePerHour, NoRise
from growd.control.interlocks.node import Interlocks
from growd.control.interlocks.on_times import OnTimes
from growd.control.interlocks.saved_states import RETRY_S
from growd.control.topics import declare_environment
from growd.runtime.worker import WorkerError
from growd.variables import CARBON_DIOXIDE, VALVE
from support.clock import ManualClock
from support.memory import ShortMemory, SlowMemory

NAME, KEY = "no_rise_after_dose", "e/interlocks"
ERRORS = pytest.mark.parametrize("error", [OSError("disk full"), WorkerError("the worker is closed")])


class Scene:
    """The interlocks of a valve, without hardware."""

    def __init__(self, memory, clock=None, dose_s=3_600.0):
        self.clock, self.memory = clock or ManualClock(), memory
        self.bus = Bus(self.clock)
        declare_environment(self.bus, "e", [CARBON_DIOXIDE])
        readings, times = SensorReadings({CARBON_DIOXIDE: 1e9}), OnTimes()
        self.alarm = NoRise(times, readings, open_s=180, rise_ppm=40, fans=OnTimes())
        self.dose = DosePerHour(times, dose_s)
        self.interlocks = Interlocks(
            self.bus, "e", [self.alarm, self.dose], readings, sensors={CARBON_DIOXIDE: ()}, memory=memory
        )
        self.interlocks.track(times, [VALVE])
        self.guard = self.interlocks.guard("valve", {VALVE: 0.0})
        self.air = self.bus.node("e/samplers/air").publisher(f"e/raw/{CARBON_DIOXIDE}")

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.interlocks.run())
        try:
            await self.clock.advance(2)
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def dosed(self, seconds):
        """Open the valve for `seconds`, while CO2 does not change."""
        self.guard.wrote(VALVE, 1.0)
        for _ in range(int(seconds / 2)):
            self.air.publish(420.0)
            await self.clock.advance(2)
        self.guard.wrote(VALVE, 0.0)

    def may_open(self):
        return self.guard.permit(VALVE, 1.0) == 1.0

    def reset(self):
        return asyncio.create_task(self.bus.services.get(f"e/interlocks/{NAME}/reset").call())

    def has_tripped(self):
        return self.bus.topics.get(f"e/interlocks/{NAME}").last.value["tripped"]


@asynccontextmanager
async def tripped(**options):
    async with Scene(SlowMemory(), **options).running() as scene:
        await scene.dosed(200)
        assert scene.has_tripped()
        assert "did not rise" in scene.memory.texts[KEY]
        yield scene


@ERRORS
async def test_a_reset_releases_nothing_before_it_is_saved(error):
    async with tripped() as scene:
        events = scene.bus.node("reader").subscribe("e/events")
        scene.memory.answers.clear()
        call = scene.reset()
        await scene.clock.advance(3)
        assert not scene.may_open()
        assert scene.has_tripped()
        scene.memory.error, scene.memory.fails = error, True
        scene.memory.answers.set()
        await scene.clock.advance(3)
        assert not scene.may_open()
        with pytest.raises(NotKeptError):
            await call
        assert events.get_nowait() is None


async def test_a_reset_finishes_after_its_caller_is_cancelled():
    async with tripped() as scene:
        scene.memory.answers.clear()
        call = scene.reset()
        await scene.clock.advance(1)
        call.cancel()
        await scene.clock.advance(1)
        scene.memory.answers.set()
        await scene.clock.advance(1)
        assert call.cancelled()
        assert scene.may_open()
        assert "did not rise" not in scene.memory.texts[KEY]


async def test_no_save_during_a_reset_undoes_it():
    async with tripped(dose_s=300.0) as scene:
        scene.memory.answers.clear()
        call = scene.reset()
        await scene.dosed(40)  # enough to be saved
        written = scene.memory.written = []
        scene.memory.answers.set()
        await scene.clock.advance(5)
        assert (await call)["success"]
    assert len(written) > 1
    assert not any("did not rise" in text for text in written)


@ERRORS
async def test_a_state_that_a_failed_reset_did_not_save_is_saved_later(error):
    async with tripped(dose_s=1_000.0) as scene:
        saved = scene.memory.texts[KEY]
        scene.memory.answers.clear()
        await scene.dosed(60)  # too little to be saved
        call = scene.reset()
        await scene.clock.advance(1)
        scene.memory.error, scene.memory.fails = error, True
        scene.memory.answers.set()
        with pytest.raises(NotKeptError):
            await call
        scene.memory.fails = False
        assert scene.memory.texts[KEY] == saved
        await scene.dosed(30)
        await scene.clock.advance(2)
        assert scene.memory.texts[KEY] != saved


@ERRORS
async def test_a_failing_memory_is_tried_again(error, caplog):
    memory = SlowMemory()
    memory.error, memory.fails = error, True
    async with Scene(memory).running() as scene:
        scene.air.publish(420.0)
        await scene.clock.advance(RETRY_S)
        assert not scene.may_open()
        state = scene.bus.topics.get(f"e/interlocks/{NAME}").last.value
        assert (state["tripped"], state["needs_reset"]) == (True, False)  # a reset is not possible now
        assert state["reason"] == f"the state before the start cannot be read: {error}"
        assert caplog.text.count(f"{NAME} has tripped: the state before") == 1
        memory.fails = False
        await scene.clock.advance(RETRY_S)
        assert scene.may_open()
        saves, memory.fails = memory.saves, True
        await scene.dosed(200)
        assert memory.saves == saves
        (problem,) = scene.interlocks.node.details()["problems"]
        assert (problem["code"], problem["fields"]["reason"]) == ("interlocks_not_saved", str(error))
        memory.fails = False
        await scene.clock.advance(RETRY_S + 2)
        assert memory.saves == saves + 1
        assert scene.interlocks.node.details()["problems"] == []
        memory.error, memory.fails = error, True
        await scene.interlocks.close()
    assert caplog.text.count(f"cannot save the state: {error}") == 2  # once while it ran, once at the end


async def test_after_an_unclean_end_the_valve_may_have_been_open():
    clock = ManualClock()
    async with Scene(SlowMemory(), clock, dose_s=100.0).running() as scene:
        await scene.dosed(95)
        await clock.advance(RETRY_S)
    assert not scene.dose.reason
    async with Scene(scene.memory, clock, dose_s=100.0).running() as scene:
        assert scene.dose.reason.startswith(
            "the valve may have been open (growd ended without saving how long) for 10"
        )
        await scene.interlocks.close()
    async with Scene(scene.memory, clock, dose_s=100.0).running() as scene:  # after a clean end
        assert scene.dose.reason.startswith(
            "the valve may have been open (it was not known for sure before the last start) for 10"
        )
        await scene.interlocks.close()
    await clock.advance(HOUR_S / 2)
    async with Scene(scene.memory, clock, dose_s=100.0).running() as scene:
        assert "not known for sure" in scene.dose.reason


DOSE_S = 100.0
HOUR_S, DAY_S = 3_600.0, 86_400.0


async def given_up(clock):
    """The saved state of a run that has used up its dose."""
    async with Scene(SlowMemory(), clock, dose_s=DOSE_S).running() as scene:
        await scene.dosed(120)
        await scene.interlocks.close()
        assert scene.dose.reason
    return scene.memory


async def is_used_up(memory, clock):
    async with Scene(memory, clock, dose_s=DOSE_S).running() as scene:
        return bool(scene.dose.reason)


async def test_a_clock_step_between_two_runs_does_not_age_a_dose():
    clock = ManualClock()
    memory = await given_up(clock)
    clock.step(2 * DAY_S)
    assert await is_used_up(memory, clock)
    clock.step(-9 * DAY_S)
    await clock.advance(HOUR_S + 120)
    assert not await is_used_up(memory, clock)


@pytest.mark.parametrize(
    ("then", "now", "remains"),
    [(True, True, False), (False, True, True), (True, False, True), (False, False, True)],
)
async def test_after_a_reboot_only_a_clock_that_was_synchronised_twice_ages_a_dose(then, now, remains):
    clock = ManualClock()
    clock.synchronised = then
    memory = await given_up(clock)
    later = ManualClock(clock.time() + HOUR_S + 120)
    later.synchronised = now
    assert await is_used_up(memory, later) == remains


class LostMemory(ShortMemory):
    async def state(self, key, default=None):
        raise ValueError("the file is damaged")


async def test_a_lost_state_counts_as_the_worst_case(said):
    async with Scene(LostMemory(), dose_s=DOSE_S).running() as scene:
        said(scene.dose.reason)
        assert scene.has_tripped()
        assert "the file is damaged" in scene.alarm.reason
        scene.air.publish(420.0)
        assert (await scene.reset())["success"]
        assert not scene.may_open()
        await scene.clock.advance(HOUR_S + 60)
        assert scene.may_open()

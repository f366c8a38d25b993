"""Outputs with levels, repeated commands, and what is counted of both."""

from __future__ import annotations

import pytest

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.control.actuation import OutputActuator, SwitchActuator
from growd.control.topics import declare_environment
from growd.output_roles import Lease
from growd.runtime.worker import Worker
from support.clock import ManualClock
from support.running import running

FAN = "air_circulation"
UNRENEWED = Lease(60.0)


class Rig:
    """An actuator whose writes are kept."""

    def __init__(self, make=OutputActuator, **options) -> None:
        self.clock = ManualClock()
        self.bus = Bus(self.clock)
        declare_environment(self.bus, "e", [])
        self.worker = Worker("output", monotonic=self.clock.monotonic)
        self.clock.watch(self.worker)
        self.written: list[float] = []
        self.counted: list[tuple[str, float | None]] = []
        self.failing = False
        self.tries = 0
        self.actuator = make(
            self.bus,
            "e",
            "fan",
            FAN,
            write=self.write,
            worker=self.worker,
            counted=lambda output, level, *_: self.counted.append((output, level)),
            **{"lease": UNRENEWED, **options},
        )
        self._commands = self.bus.node("controller").publisher(f"e/commanded/{FAN}")

    def write(self, level: float, _valid_s: float) -> None:
        self.tries += 1
        if self.failing:
            raise OSError(5, "the device is away")
        self.written.append(level)

    async def command(self, level: float | None, seconds: int = 1) -> None:
        for _ in range(seconds):
            self._commands.publish(level, Quality.OK if level is not None else Quality.STALE)
            await self.clock.advance(1)

    def level(self, topic: str = "outputs/fan"):
        return self.bus.topics.get(f"e/{topic}").last


@pytest.fixture
async def rig():
    rig = Rig()
    async with running(rig.clock, rig.actuator):
        yield rig
    await rig.worker.close()


async def test_a_dimmed_output_takes_any_level_and_is_safe_without_a_command(rig):
    assert rig.written == [0.0]
    await rig.command(0.37)
    assert (rig.written[-1], rig.level().value) == (0.37, 0.37)
    await rig.clock.advance(6)
    assert (rig.written[-1], rig.level().value) == (0.0, 0.0)
    await rig.command(0.8)
    await rig.command(None)
    assert rig.written[-1] == 0.0
    assert "e/switches/fan" not in rig.bus.topics.names()


async def test_noise_of_a_command_is_not_written(rig):
    await rig.command(0.50001)
    await rig.command(0.50002)
    assert rig.written == [0.0, 0.5]


async def test_a_failed_write_is_a_fault_and_the_level_unknown(rig):
    await rig.command(0.5)
    rig.failing = True
    await rig.command(0.6, 3)
    assert rig.level().quality is Quality.FAULT
    assert rig.counted[-1] == (FAN, None)
    rig.failing = False
    await rig.command(0.6, 10)
    assert (rig.written[-1], rig.level().value) == (0.6, 0.6)
    assert rig.counted[-1] == (FAN, 0.6)


async def test_an_output_that_becomes_safe_by_itself_is_told_again_and_again():
    rig = Rig(lease=Lease(60.0, 15.0, renews_safe=True))
    async with running(rig.clock, rig.actuator):
        await rig.command(0.4, 61)
        assert rig.written == [0.0, *[0.4] * 5]
        await rig.command(None)
        rig.written.clear()
        await rig.clock.advance(31)
        assert rig.written == [0.0, 0.0]  # somebody may have pressed its button
    await rig.worker.close()


async def test_an_output_that_is_repeated_is_not_asked_more_often_while_it_fails():
    rig = Rig(lease=Lease(60.0, 5.0, renews_safe=True))
    rig.failing = True
    async with running(rig.clock, rig.actuator):
        await rig.clock.advance(100)
        assert 10 <= rig.tries <= 20  # the delay between two grows to 10 s
    await rig.worker.close()


async def test_a_switch_has_both_topics():
    rig = Rig(SwitchActuator)
    async with running(rig.clock, rig.actuator):
        await rig.command(0.6)
        assert rig.level().value == rig.level("switches/fan").value == 1.0
        assert rig.written == [0.0, 1.0]
        assert rig.counted == [(FAN, 0.0), (FAN, 1.0)]
    await rig.worker.close()


async def test_a_flood_of_commands_does_not_wear_a_switch_out():
    rig = Rig(SwitchActuator, rest_s=1.0)
    async with running(rig.clock, rig.actuator):
        for number in range(200):
            rig._commands.publish(float(number % 2))
            await rig.clock.advance(0.05)
        assert 3 <= sum(rig.written) <= 11  # of 100 commands within 10 s
        await rig.command(1.0, 3)
        assert rig.written[-1] == 1.0
        rig._commands.publish(0.0)
        await rig.clock.advance(0.05)
        assert rig.written[-1] == 0.0  # off at once
        await rig.command(1.0, 2)
        assert rig.written[-1] == 1.0
    await rig.worker.close()

"""Sensors of one variable that drift apart are told once, with hysteresis."""

from contextlib import asynccontextmanager

import pytest

from growd.config import Config, Light, Sensor
from growd_hwsim.faults import Fault
from support.rig import rigged

FIRST = Sensor(name="first", kind="sht3x", bus=1, interval_s=10.0)
SECOND = Sensor(name="second", kind="sht3x", bus=2, interval_s=10.0)


class Stage:
    def __init__(self, rig):
        self.rig = rig

    async def advance(self, seconds):
        await self.rig.clock.advance(seconds)

    def offset(self, degc):
        """Let the second sensor read so much more, from now on."""
        chip = self.rig.machine.chips[2, 0x44]
        truth = self.rig.machine.chamber.air

        class Around:
            def air(self):
                air = truth()
                return air._replace(temperature_degc=air.temperature_degc + degc)

        chip._cell = Around()

    @property
    def apart(self):
        return self.rig.bus.find_node("environment_1/combiners/air_temperature").details()["apart"]

    @property
    def problems(self):
        details = self.rig.bus.find_node("environment_1/combiners/air_temperature").details()
        return [each["text"] for each in details["problems"]]


@asynccontextmanager
async def stage(**options):
    config = Config(sensor=(FIRST, SECOND), light=Light(enabled=False), **options)
    async with rigged(config) as rig:
        yield Stage(rig)


@pytest.mark.long
async def test_a_lasting_difference_is_told_once_and_its_end_too():
    async with stage() as on:
        events = on.rig.bus.node("listener").subscribe("environment_1/events", depth=100)

        def drifts():
            found = []
            while (message := events.get_nowait()) is not None:
                found += [message.value["message"]] if message.value["kind"] == "drift" else []
            return found

        await on.advance(3_700)
        assert on.apart["is_known"] is True
        assert on.problems == drifts() == []
        on.offset(1.5)
        await on.advance(1_200)
        assert on.problems == []  # a door, or a dose, lasts as long
        await on.advance(1_000)
        (problem,) = on.problems
        assert problem.startswith("second reads 1.")
        assert (
            "more air_temperature than first in environment_1 (median of the last hour, limit 1.00)"
            in problem
        )
        (message,) = drifts()
        assert message.startswith("second reads")
        on.offset(0.8)  # within the limit, but not by enough
        await on.advance(4_000)
        assert len(on.problems) == 1
        on.offset(0.1)
        await on.advance(4_000)
        assert on.problems == []
        assert drifts() == ["the sensors of air_temperature agree again"]


async def test_the_limit_is_an_option_and_a_drift_no_problem_while_one_of_the_sensors_is_gone():
    async with stage(drift={"air_temperature": 3.0}) as on:
        on.offset(2.0)
        await on.advance(4_000)
        assert on.problems == []
        on.offset(3.6)
        await on.advance(4_000)
        assert len(on.problems) == 1
        on.rig.machine.faults.inject(Fault("absent", "i2c-2"))
        await on.advance(4_000)
        assert on.problems == []
        assert (on.apart["is_known"], on.apart["is_apart"]) == (False, True)


@pytest.mark.parametrize("lux", [0.0, 15.0])
async def test_darkness_says_nothing_of_light_sensors(lux):
    sensors = tuple(Sensor(name=f"lux_{bus}", kind="bh1750", bus=bus, interval_s=10.0) for bus in (1, 2))
    async with rigged(Config(sensor=sensors, light=Light(enabled=False))) as rig:
        for chip in rig.machine.chips.values():
            chip._truth = lambda: lux
        await rig.clock.advance(4_000)
        details = rig.bus.find_node("environment_1/combiners/light_illuminance").details()
        assert details["apart"]["is_known"] is False

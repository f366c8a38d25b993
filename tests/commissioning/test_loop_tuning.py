"""The autotune of temperature and humidity in the simulated chamber."""

from contextlib import asynccontextmanager

import pytest
from climate_loop import ENVIRONMENT, ClimateLoop, climate_config, output

from growd.variables import HUMIDITY, TEMPERATURE
from growd_hwsim.parameters import ChamberParameters

HEATER = output("air_heater", TEMPERATURE)
COOLER = output("air_cooler", TEMPERATURE, lowers=True)
HUMIDIFIER = output("air_humidifier", HUMIDITY)


class Tuned(ClimateLoop):
    """A chamber whose loop of `variable` is tuned."""

    def __init__(self, variable, outputs, parameters=None):
        super().__init__(climate_config([variable], outputs), parameters)
        self.variable = variable
        self.name = f"{ENVIRONMENT}/controllers/{variable}"

    async def ask(self):
        return await self.bus.services.get(f"{self.name}/autotune").call()

    def parameter(self, name):
        return self.bus.parameters.get(f"{self.name}/{name}")

    async def until_over(self):
        for _ in range(400):
            await self.clock.advance(10)
            last = self.bus.topics.get(f"{ENVIRONMENT}/autotune/{self.variable}").last
            if last.value["state"] != "running":
                return last.value
        raise AssertionError("it does not end")


@asynccontextmanager
async def tuned(*args):
    loop = Tuned(*args)
    async with loop.running():
        await loop.clock.advance(60)
        yield loop


@pytest.mark.long
@pytest.mark.parametrize(
    "parameters",
    [
        {"heater_w": 60.0},
        pytest.param({}, marks=pytest.mark.nightly),
        pytest.param({"air_heat_capacity_j_k": 3_000.0, "heater_w": 500.0}, marks=pytest.mark.nightly),
    ],
)
async def test_the_temperature_reaches_its_set_points_with_the_gains_of_its_autotune(parameters):
    async with tuned(TEMPERATURE, [HEATER, COOLER], ChamberParameters(**parameters)) as loop:
        assert (await loop.ask())["success"]
        result = await loop.until_over()
        assert result["state"] == "done", result["message"]
        assert loop.parameter("kp") not in (0.0, 0.3)
        assert loop.levels["air_heater"] == 0.0
        assert loop.on_s("air_heater") < 240  # until the rise was enough
        await loop.clock.advance(1_800)
        loop.want(TEMPERATURE, loop.true(TEMPERATURE) + 3.0)
        wanted = loop.true(TEMPERATURE) + 3.0
        values = []
        for _ in range(360):
            await loop.clock.advance(10)
            values.append(loop.true(TEMPERATURE))
        assert max(values) < wanted + 2.0
        assert sum(values[-120:]) / 120 == pytest.approx(wanted, abs=0.3)


async def test_humidity_that_does_not_fall_is_not_raised_again():
    """One time on is enough: the next one would end in saturated air."""
    async with tuned(HUMIDITY, [HUMIDIFIER], ChamberParameters(leaf_area_index=0.1)) as loop:
        await loop.clock.advance(1_800)
        before = loop.true(HUMIDITY)
        await loop.ask()
        result = await loop.until_over()
        assert result["state"] == "done", result["message"]
        assert 0 < loop.parameter("kp") < 1
        assert 1 < result["lag"] < 60
        assert loop.true(HUMIDITY) < before + 20


async def test_a_heater_without_effect_fails_the_autotune_and_changes_nothing():
    async with tuned(TEMPERATURE, [HEATER], ChamberParameters(heater_w=0.001)) as loop:
        await loop.ask()
        result = await loop.until_over()
        assert result["state"] == "failed"
        assert "rose by only" in result["message"]
        assert (loop.parameter("kp"), loop.parameter("ti")) == (0.3, 600.0)

"""How often heater, fan and CO2 valve of the profile `climate` start in its simulated chamber."""

import pytest
from climate_loop import ENVIRONMENT, ClimateLoop, climate_config, output
from wear import DAY, LIMITS, OUTPUTS, STARTS_PER_H, climate, worn

from growd.config import Chamber
from growd.variables import CARBON_DIOXIDE, VALVE

pytestmark = pytest.mark.long

HOUR_S = 3_600.0
SHIPPED, ON_RELAYS = climate(), climate("relay")


async def test_the_shipped_chamber_is_accurate_and_its_valve_lasts():
    kinds = {each.name: each.kind for each in Chamber(SHIPPED, ENVIRONMENT).outputs}
    assert kinds == {"heater": "ssr", "fan": "ssr", "valve": "relay", "humidifier": "relay"}
    wear = await worn(SHIPPED, DAY, HOUR_S)
    assert wear.starts_per_h["valve"] <= STARTS_PER_H["valve"]
    assert {name: error for name, error in wear.errors.items() if error > LIMITS[name]} == {}


async def test_mechanical_contacts_last_a_year():
    wear = await worn(ON_RELAYS, DAY, HOUR_S / 2)
    assert set(wear.starts_per_h) == set(OUTPUTS)
    assert all(starts <= STARTS_PER_H.get(name, 12.0) for name, starts in wear.starts_per_h.items())
    assert wear.starts_per_h["heater"] > 0


async def test_a_dose_that_is_held_is_given_after_the_hold():
    loop = ClimateLoop(climate_config([CARBON_DIOXIDE], [output(VALVE, CARBON_DIOXIDE)]))
    async with loop.running():
        loop.want(CARBON_DIOXIDE, 600.0)
        while loop.command(VALVE) != 1.0:
            await loop.clock.advance(1.0)
        loop.holds[VALVE].set(True)
        await loop.clock.advance(60.0)
        assert loop.command(VALVE) == 1.0
        before = loop.on_s(VALVE)
        loop.holds[VALVE].set(False)
        await loop.clock.advance(30.0)
        assert 4.0 <= loop.on_s(VALVE) - before < 20.0

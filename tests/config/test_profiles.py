import asyncio
import tomllib

import pytest

from growd.config import chambers_of, load
from growd.config.profiles import PROFILES, profile_path, profile_text
from growd.wiring.actuators import rated_outputs
from growd_cli.config_checks import DEVICE_CHECKS
from growd_cli.hardware_check import check_hardware
from growd_hwsim.parameters import ChamberParameters
from growd_simulation.simulated_clock import SimulatedClock, moving
from growd_simulation.simulated_hardware import simulated_hardware


@pytest.mark.parametrize("name", PROFILES)
async def test_every_device_of_a_profile_answers_on_simulated_hardware(name):
    file = profile_path(name)
    await asyncio.to_thread(load, file, checks=DEVICE_CHECKS)
    config = await asyncio.to_thread(load, file, ("simulator.enabled=true",), checks=DEVICE_CHECKS)
    clock = SimulatedClock()
    hardware = simulated_hardware(config, clock)
    try:
        with moving(clock, asyncio.get_running_loop()):
            findings = await check_hardware(config, hardware, clock, lambda _: None)
    finally:
        hardware.close()
    assert [finding.sentence for finding in findings if not finding.answers] == []
    (chamber,) = chambers_of(config)
    assert len(findings) == len(config.sensor) + len(chamber.outputs) + 1


def test_only_two_profiles_are_simulated():
    simulated = [name for name in PROFILES if tomllib.loads(profile_text(name))["simulator"]["enabled"]]
    assert simulated == ["climate", "sim"]


def test_the_devices_of_the_profiles():
    kinds = {name: {sensor.kind for sensor in load(profile_path(name)).sensor} for name in PROFILES}
    assert kinds == {
        "climate": {"scd30", "bh1750", "gpio", "ads1115", "ds18b20"},
        "sim": {"scd30", "bh1750"},
        "food-computer": {"scd30", "bh1750"},
        "minimal": {"mhz19"},
    }
    for name in ("sim", "food-computer"):
        variables = {relay.variable for relay in load(profile_path(name)).output}
        assert variables == {"air_carbon_dioxide_valve_on", "air_flush_on"}
    lamp = load(profile_path("minimal")).light
    assert (lamp.is_switched, [channel.name for channel in lamp.channel]) == (True, ["white"])


def test_the_use_of_the_simulated_lamp_and_valve_is_counted_as_it_is():
    (chamber,), simulated = chambers_of(load(profile_path("climate"))), ChamberParameters()
    rated = {each.name: each for each in rated_outputs(chamber)}
    lamps = {name: rated[f"light {name}"].power_w for name in simulated.lamps}
    assert lamps == {name: lamp.power_w for name, lamp in simulated.lamps.items()}
    assert rated["valve"].flow_ml_min == 1_000 * simulated.valve_flow_l_min


def test_the_profile_of_the_whole_climate_has_a_loop_for_each_of_its_variables():
    (chamber,) = chambers_of(load(profile_path("climate")))
    assert set(chamber.loops) == {
        "air_carbon_dioxide",
        "air_temperature",
        "air_humidity",
        "water_potential_hydrogen",
        "water_electrical_conductivity",
        "water_level",
    }

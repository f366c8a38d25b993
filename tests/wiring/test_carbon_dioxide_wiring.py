"""The control of CO2 as configured."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from growd.bus import Bus
from growd.config import Config, InterlockOptions, Light, Output, Sensor
from growd.config.loops import LoopOptions
from growd.status.status_node import StatusNode
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics
from support.clock import ManualClock
from support.machine import SleepingTime, simulated
from support.memory import ShortMemory
from support.rig import rigged

AIR = Sensor(name="air", kind="scd30")
VALVE = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on")
FAN = Output(name="fan", pin=24, variable="air_flush_on")
CO2 = "environment_1/controllers/air_carbon_dioxide"


async def control_of(config):
    bus = Bus(ManualClock())
    declare_topics(config, bus)
    chambers = AllChambers(config, bus, simulated(SleepingTime()), memory=ShortMemory(), report=print)
    parts = [part.node.name for part in chambers.by_environment["environment_1"].components()]
    await chambers.workers.close(1.0)
    return bus, parts


async def test_its_parameters_are_those_of_the_configuration():
    settings = LoopOptions(
        method="on_off", kp=0.01, ti_s=500.0, td_s=5.0, band=11.0, lowers_band=44.0,
    )  # fmt: skip
    outputs = (replace(VALVE, minimum_on_s=7.0, minimum_off_s=8.0), FAN)
    bus, parts = await control_of(Config(output=outputs, control={"air_carbon_dioxide": settings}))
    told = bus.parameters.get("environment_1/controllers")
    assert CO2 in parts
    assert told["air_carbon_dioxide"] == {
        "on_off": True, "kp": 0.01, "ti": 500.0, "td": 5.0, "weight": 1.0, "band": 11.0, "fan_band": 44.0,
        "override": 600.0, "override_left": 0.0,
    }  # fmt: skip
    assert told["air_carbon_dioxide_valve_on"].items() >= {"minimum_on": 7.0, "minimum_off": 8.0}.items()
    assert told["air_flush_on"].items() >= {"minimum_on": 10.0, "minimum_off": 10.0}.items()
    assert f"{CO2}/autotune" in bus.services.names()


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(output=(FAN,)),
        Config(output=(VALVE, FAN), sensor=(Sensor(name="lux", kind="bh1750"),)),
    ],
)
async def test_without_a_sensor_or_a_valve_switches_follow_their_own_set_points(config):
    bus, parts = await control_of(config)
    assert CO2 not in parts
    assert f"{CO2}/autotune" not in bus.services.names()
    assert not any("minimum_on" in name for name in bus.parameters.names())


@pytest.mark.long
@pytest.mark.parametrize("option", ["valve_open_s", "no_rise_open_s"])
async def test_the_usual_dose_of_autotune_ends_before_the_interlocks_would_end_it(option):
    limits = InterlockOptions(**{option: 60.0})
    config = Config(sensor=(AIR,), output=(VALVE,), light=Light(enabled=False), interlock=limits)
    async with rigged(config) as rig:
        status = StatusNode(rig.bus, ["environment_1"])
        chamber = rig.machine.chamber
        chamber.parameters = dataclasses.replace(chamber.parameters, valve_flow_l_min=0.01)
        await rig.clock.advance(30)
        before = rig.bus.parameters.get(f"{CO2}/kp")
        assert (await rig.bus.services.get(f"{CO2}/autotune").call())["success"]
        await rig.clock.until(lambda: not status.snapshot().experiments, within=1_800)
        assert rig.bus.parameters.get(f"{CO2}/kp") != before


@pytest.mark.parametrize(("ppm", "is_held"), [(100.0, True), (160.0, False)])
async def test_a_reading_that_plants_never_reach_keeps_the_valve_closed(ppm, is_held):
    posted = Sensor(name="co2", kind="topic", variable="air_carbon_dioxide", stale_after_s=600)
    async with rigged(Config(sensor=(posted,), output=(VALVE,), light=Light(enabled=False))) as rig:
        client = rig.bus.node("client")
        desired = client.publisher("environment_1/desired/air_carbon_dioxide")
        for _ in range(70):
            client.publish_arguments("environment_1/posted/co2", [ppm])
            desired.publish(800.0)
            await rig.clock.advance(1)
        assert rig.last("interlocks/carbon_dioxide_too_low").value["tripped"] is is_held
        opened = [rig.last("outputs/valve").value]
        for _ in range(60):
            await rig.clock.advance(1)
            opened.append(rig.last("outputs/valve").value)
        assert any(opened) is not is_held

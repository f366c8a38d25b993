"""The control of CO2 as configured."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growd.bus import Bus
from growd.config import CarbonDioxide, Config, ConfigError, Light, RelayOptions, Sensor, Simulator, load
from growd.wiring.chamber import AllChambers
from growd.wiring.topics import declare_topics
from support.clock import ManualClock
from support.machine import SleepingTime, simulated
from support.memory import ShortMemory
from support.rig import rigged

VALVE = RelayOptions(name="valve", pin=23, variable="air_carbon_dioxide_valve_on")
FAN = RelayOptions(name="fan", pin=24, variable="air_flush_on")
CO2 = "environment_1/controllers/air_carbon_dioxide"


async def control_of(config):
    bus = Bus(ManualClock())
    declare_topics(config, bus)
    chambers = AllChambers(config, bus, simulated(SleepingTime()), memory=ShortMemory(), report=print)
    parts = [part.node.name for part in chambers.by_environment["environment_1"].components()]
    await chambers.workers.close(1.0)
    return bus, parts


async def test_its_parameters_are_those_of_the_configuration():
    settings = CarbonDioxide(
        method="on_off", kp_per_ppm=0.01, ti_s=500.0, td_s=5.0, set_point_weight=0.5, band_ppm=11.0,
        fan_band_ppm=44.0, minimum_on_s=3.0, minimum_off_s=4.0, fan_minimum_on_s=20.0, fan_minimum_off_s=30.0,
        override_s=60.0,
    )  # fmt: skip
    bus, parts = await control_of(Config(relay=(VALVE, FAN), carbon_dioxide=settings))
    told = bus.parameters.get("environment_1/controllers")
    assert CO2 in parts
    assert told["air_carbon_dioxide"] == {
        "on_off": True, "kp": 0.01, "ti": 500.0, "td": 5.0, "weight": 0.5, "band": 11.0, "fan_band": 44.0,
        "override": 60.0, "override_left": 0.0,
    }  # fmt: skip
    assert told["air_carbon_dioxide_valve_on"].items() >= {"minimum_on": 3.0, "minimum_off": 4.0}.items()
    assert told["air_flush_on"].items() >= {"minimum_on": 20.0, "minimum_off": 30.0}.items()
    assert f"{CO2}/autotune" in bus.services.names()


async def test_gains_that_were_never_tuned_are_a_warning_on_real_hardware():
    config = Config(relay=(VALVE,))
    simulated_bus, _ = await control_of(config)
    assert "problems" not in simulated_bus.find_node(CO2).details()
    bus, _ = await control_of(replace(config, simulator=Simulator(enabled=False)))
    (problem,) = bus.find_node(CO2).details()["problems"]
    assert f"call the service {CO2}/autotune" in problem["text"]
    assert not problem["is_failure"]
    await bus.parameters.set(f"{CO2}/kp", 0.01)
    assert bus.find_node(CO2).details()["problems"] == []


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(relay=(FAN,)),
        Config(relay=(VALVE, FAN), sensor=(Sensor(name="lux", kind="bh1750"),)),
    ],
)
async def test_without_a_sensor_or_a_valve_switches_follow_their_own_set_points(config):
    bus, parts = await control_of(config)
    assert CO2 not in parts
    assert f"{CO2}/autotune" not in bus.services.names()
    assert not any("minimum_on" in name for name in bus.parameters.names())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("carbon_dioxide.method=fuzzy", r"\[carbon_dioxide\] method"),
        ("carbon_dioxide.kp_per_ppm=-1", r"\[carbon_dioxide\] kp_per_ppm"),
        ("carbon_dioxide.ti_s=0", r"\[carbon_dioxide\] ti_s"),
        ("carbon_dioxide.minimum_on_s=0", r"\[carbon_dioxide\] minimum_on_s"),
        ("carbon_dioxide.gain=1", r"\[carbon_dioxide\] gain: unknown option"),
        ("chamber.shelf_2.carbon_dioxide.ti_s=0", r"\[chamber.shelf_2.carbon_dioxide\] ti_s"),
    ],
)
def test_a_number_out_of_its_range_is_refused_with_its_place(setting, words):
    with pytest.raises(ConfigError, match=words):
        load(None, (setting,))


WITH_A_VALVE = "[[relay]]\nname = 'valve'\npin = 21\nvariable = 'air_carbon_dioxide_valve_on'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[carbon_dioxide]\nautotune_open_s = 180.5\n",
            r"\[carbon_dioxide\] autotune_open_s: 180.5 is above \[interlock\] no_rise_open_s, 180",
        ),
        ("[interlock]\nvalve_open_s = 60\n", r"autotune_open_s: 120 is above \[interlock\] valve_open_s, 60"),
    ],
)
def test_a_dose_of_autotune_that_an_interlock_would_end_is_refused(tmp_path, text, words):
    file = tmp_path / "growd.toml"
    file.write_text(WITH_A_VALVE + text)
    with pytest.raises(ConfigError, match=words):
        load(file)
    file.write_text(text)  # without a valve there is no dose
    load(file)


def test_an_autotune_dose_at_the_limit_of_the_interlocks_is_accepted(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(WITH_A_VALVE + "[carbon_dioxide]\nautotune_open_s = 180\n")
    load(file)


@pytest.mark.parametrize(("ppm", "is_held"), [(100.0, True), (160.0, False)])
async def test_a_reading_that_plants_never_reach_keeps_the_valve_closed(ppm, is_held):
    posted = Sensor(name="co2", kind="topic", variable="air_carbon_dioxide", stale_after_s=600)
    async with rigged(Config(sensor=(posted,), relay=(VALVE,), light=Light(enabled=False))) as rig:
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

"""Control loops as configured: [control.<variable>] and what outputs drive."""

import dataclasses

import pytest
from climate_loop import measured_by
from msgspec.structs import replace

from growd.bus import Bus
from growd.config import Config, ConfigError, InterlockOptions, Light, Sensor, Simulator, load
from growd.config.chamber import chambers_of
from growd.config.loops import LoopOptions
from growd.config.outputs import Output
from growd.control.loop_inputs import FreshAir
from growd.status.status_node import StatusNode
from growd.wiring.actuators import Common
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics
from growd.wiring.loops import loop_settings, output_controller
from growd.wiring.pumps import pumps_of
from support.clock import ManualClock
from support.machine import SleepingTime, simulated
from support.memory import ShortMemory
from support.rig import commissioning, rigged

CONTROLLERS = "environment_1/controllers"
HEATER = Output(name="heater", drives=("air_temperature",), pin=5, minimum_on_s=20.0)
EXHAUST = Output(name="exhaust", variable="air_flush_on", drives=("air_humidity",), direction="lowers", pin=6)


async def control_of(config):
    bus = Bus(ManualClock())
    declare_topics(config, bus)
    chambers = AllChambers(
        config,
        Common(
            bus, simulated(SleepingTime()), memory=ShortMemory(), report=print, experiments=commissioning()
        ),
    )
    parts = [part.node.name for part in chambers.by_environment["environment_1"].components()]
    await chambers.workers.close(1.0)
    return bus, parts


async def test_each_measured_and_driven_variable_has_a_controller():
    config = Config(sensor=measured_by("air_temperature", "air_humidity"), output=(HEATER, EXHAUST))
    bus, parts = await control_of(config)
    for name in ("air_temperature", "air_humidity", "air_heater", "air_flush_on"):
        assert f"{CONTROLLERS}/{name}" in parts
    told = bus.parameters.get(CONTROLLERS)
    assert told["air_temperature"].items() >= {"on_off": False, "kp": 0.3, "lowers_band": 1.0}.items()
    assert told["air_heater"].items() >= {"minimum_on": 20.0, "minimum_off": 4.0}.items()
    chamber = chambers_of(config)[0]
    assert {"air_temperature", "air_humidity"} <= chamber.reach().keys()


async def test_the_options_of_a_loop_are_its_parameters():
    options = LoopOptions(
        method="on_off", kp=0.1, ti_s=50.0, td_s=1.0, band=0.7, lowers_band=0.9,
        feed_forward=0.2, night_kp=0.05, lowering_kp=0.3,
    )  # fmt: skip
    cooler = Output(name="cooler", drives=("air_temperature",), direction="lowers", pin=7)
    config = Config(
        sensor=measured_by("air_temperature"), output=(HEATER, cooler), control={"air_temperature": options}
    )
    bus, _ = await control_of(config)
    assert bus.parameters.get(f"{CONTROLLERS}/air_temperature") == {
        "on_off": True, "kp": 0.1, "ti": 50.0, "td": 1.0, "weight": 1.0, "band": 0.7, "lowers_band": 0.9,
        "feed_forward": 0.2, "night_kp": 0.05, "night_ti": 50.0, "night_td": 1.0,
        "lowering_kp": 0.3, "lowering_ti": 50.0, "lowering_td": 1.0, "override": 600.0, "override_left": 0.0,
    }  # fmt: skip


def test_doses_follow_from_the_tank_and_the_flow_of_the_pumps():
    variable = "water_electrical_conductivity"
    given = {"drives": (variable,), "flow_ml_min": 30.0}
    pumps = [
        Output(name=name, variable=f"nutrient_{name}", pin=pin, **given) for name, pin in (("a", 5), ("b", 6))
    ]
    options = LoopOptions(tank_litres=50.0, ml_per_unit_litre=4.0)
    config = Config(sensor=measured_by(variable), output=tuple(pumps), control={variable: options})
    chamber = chambers_of(config)[0]
    doses = loop_settings(chamber, variable, pumps_of(chamber, lambda: 0.0)).doses
    size = doses.raising
    assert (size.ml_per_unit, size.flow.ml_s, doses.mixing_s, size.longest_s) == (200.0, 1.0, 310.0, 27.0)


@pytest.mark.parametrize(
    ("variable", "how", "cycle_s"),
    [
        ("air_heater", {}, 300.0),
        ("air_heater", {"kind": "http", "protocol": "shelly_gen2", "url": "http://plug"}, 300.0),
        ("air_humidifier", {}, 30.0),
        ("air_carbon_dioxide_valve_on", {}, 90.0),
        ("air_heater", {"kind": "ssr"}, 0.0),
        ("nutrient_a", {"flow_ml_min": 30.0}, 0.0),
        ("water_fill", {}, 0.0),
    ],
)
def test_starts_of_mechanical_contacts_are_a_cycle_apart(variable, how, cycle_s):
    output = Output(name="it", variable=variable, pin=None if "url" in how else 5, **how)
    config = Config(sensor=measured_by("air_temperature"), output=(output,))
    bus = Bus(ManualClock())
    (chamber,) = chambers_of(config)
    declare_topics(config, bus)
    pumps = pumps_of(chamber, lambda: 0.0)
    node = output_controller(chamber, bus, [output], FreshAir(bus, chamber.environment), pumps).node
    assert bus.parameters.get(f"{node.name}/minimum_cycle") == cycle_s
    assert output.starts_rated == (None if how.get("kind") == "ssr" else 100_000)


def test_doses_need_the_flow_of_their_pumps_and_no_feed_forward(tmp_path, said):
    sensor = "[[sensor]]\nname = 'ph'\nkind = 'topic'\nvariable = 'water_potential_hydrogen'\n"
    output = "[[output]]\nname = 'acid'\nvariable = 'auxiliary_1'\npin = 5\ndirection = 'lowers'\n"
    output += "drives = ['water_potential_hydrogen']\n"
    file = tmp_path / "growd.toml"
    file.write_text(sensor + output)
    with said.raises(ConfigError):
        load(file)
    file.write_text(
        f"{sensor}{output}flow_ml_min = 30\n[control.water_potential_hydrogen]\nfeed_forward = 0.1\n"
    )
    with said.raises(ConfigError):
        load(file)


PH = "water_potential_hydrogen"
ACID = Output(
    name="acid", variable="nutrient_ph_down", drives=(PH,), direction="lowers", flow_ml_min=30.0, pin=7
)


@pytest.mark.parametrize(
    ("outputs", "variable", "parameter", "options", "has_autotune"),
    [
        ((HEATER,), "air_temperature", "kp", LoopOptions(kp=0.1), True),
        ((ACID,), PH, "lowering_ml_per_unit", LoopOptions(lowering_ml_per_unit_litre=0.2), False),
    ],
)
async def test_loops_that_were_never_tuned_are_a_warning_on_real_hardware(
    outputs, variable, parameter, options, has_autotune
):
    config = Config(sensor=measured_by(variable), output=outputs, simulator=Simulator(enabled=False))
    bus, _ = await control_of(config)
    node = bus.find_node(f"{CONTROLLERS}/{variable}")
    (problem,) = node.details()["problems"]
    service = f"{CONTROLLERS}/{variable}/autotune"
    assert (service in problem["text"]) == (service in bus.services.names()) == has_autotune
    await bus.parameters.set(f"{CONTROLLERS}/{variable}/{parameter}", 0.123)
    assert node.details()["problems"] == []
    bus, _ = await control_of(replace(config, control={variable: options}))
    assert not bus.find_node(f"{CONTROLLERS}/{variable}").details().get("problems")


async def test_a_loop_without_an_autotune_has_no_warning():
    config = Config(sensor=measured_by("air_humidity"), output=(EXHAUST,), simulator=Simulator(enabled=False))
    bus, _ = await control_of(config)
    assert "problems" not in bus.find_node(f"{CONTROLLERS}/air_humidity").details()
    assert f"{CONTROLLERS}/air_humidity/autotune" not in bus.services.names()


AIR = Sensor(name="air", kind="scd30")
VALVE = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on")
FAN = Output(name="fan", pin=24, variable="air_flush_on")
CO2 = f"{CONTROLLERS}/air_carbon_dioxide"


@pytest.mark.parametrize(
    "config",
    [Config(output=(FAN,)), Config(output=(VALVE, FAN), sensor=(Sensor(name="lux", kind="bh1750"),))],
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


async def test_the_band_of_the_fan_of_co2_has_a_name_of_its_own():
    options = {"air_carbon_dioxide": LoopOptions(lowers_band=44.0)}
    bus, _ = await control_of(Config(output=(VALVE, FAN), control=options))
    assert bus.parameters.get(f"{CO2}/fan_band") == 44.0

"""Sensors of any variable, and of the state of outputs, from the configuration to their topics."""

import pytest
from msgspec.structs import replace

from growd.bus.messages import Quality
from growd.config import Config, ConfigError, Output, Sensor
from growd_hwsim.faults import Fault
from support.refusals import check_config
from support.rig import rigged

DOOR = Sensor(name="door", kind="gpio", pin=17, variable="door_open")
FAN = Output(name="exhaust", pin=22, variable="air_flush_on")
WATCH = Sensor(name="fan_contact", kind="gpio", pin=27, confirms="exhaust")


@pytest.mark.parametrize(
    ("active", "pull", "when_broken"),
    [("low", "up", 0), ("high", "up", 1), ("high", "down", 0), ("low", "down", 1), ("high", "none", 0)],
)
async def test_a_door_contact_measures_the_door_without_an_average(active, pull, when_broken):
    door = replace(DOOR, active=active, pull=pull)
    async with rigged(Config(sensor=(door,))) as rig:
        await rig.clock.advance(10)
        assert rig.last("measured/door_open").value == 0
        rig.machine.chamber.set_door(True)
        await rig.clock.advance(DOOR.interval_s)
        assert rig.last("raw/door_open").value == rig.last("measured/door_open").value == 1
        assert rig.device("samplers/door")["state"] == "ok"
        rig.machine.faults.inject(Fault("absent", "gpio"))
        await rig.clock.advance(DOOR.interval_s)
        assert rig.last("measured/door_open").value == when_broken


async def test_feedback_of_an_output_is_what_really_happens_and_without_a_reading_a_fault():
    async with rigged(Config(sensor=(WATCH,), output=(FAN,))) as rig:
        await rig.clock.advance(10)
        assert rig.last("feedback/exhaust").value == 0
        client = rig.bus.node("client")
        client.publish_arguments("environment_1/desired/air_flush_on", [1])
        await rig.clock.advance(10)
        assert rig.machine.pins.high(FAN.pin) == 1
        assert rig.last("feedback/exhaust").value == 1
        assert not rig.bus.topics.get("environment_1/feedback/exhaust").is_open
        client.publish_arguments("environment_1/desired/air_flush_on", [0])
        rig.machine.faults.inject(Fault("welded", "fan"))
        await rig.clock.advance(10)
        assert rig.machine.pins.high(FAN.pin) == 0
        assert rig.last("feedback/exhaust").value == 1
        rig.machine.faults.inject(Fault("refused", f"gpio-{WATCH.pin}"))
        await rig.clock.advance(10)
        assert rig.last("feedback/exhaust").quality is Quality.FAULT
        assert "can't be read" in rig.device("samplers/fan_contact")["message"]


SOIL = {"name": "soil", "kind": "ads1115", "variable": "soil_moisture", "points": ((2.8, 0.0), (1.2, 100.0))}


def door(**options):
    return Sensor(**{"name": "door", "kind": "gpio", "pin": 17, "variable": "door_open"} | options)


def soil(**options):
    return Sensor(**SOIL | options)


def thermometer(name, **options):
    return Sensor(name=name, kind="ds18b20", **options)


AIR = Sensor(name="air", kind="scd30", address=0x48)
REFUSED = (
    [door(variable="door")],
    [door(variable="")],
    [door(variable="air_flush_on")],
    [door(variable="air_temperature")],
    [door(pin=None)],
    [door(pin=22)],  # of the fan
    [door(bus=3)],
    [door(confirms="exhaust")],
    [door(variable="", confirms="pump")],
    [door(range_ppm=5_000)],
    [WATCH, Sensor(name="second", kind="gpio", pin=5, confirms="exhaust")],
    [Sensor(name="air", kind="scd30", variable="door_open")],
    [Sensor(name="air", kind="scd30", confirms="exhaust")],
    [thermometer("tank"), thermometer("air", variable="air_temperature", device="28-01*")],
    [thermometer("tank", device="28-01"), thermometer("air", variable="air_temperature", device="28-01")],
    [thermometer("air", variable="air_humidity")],
    [thermometer("tank"), door(pin=4)],  # of the 1-wire bus
    [soil(points=())],
    [soil(points=((1.0, 0.0),))],
    [soil(points=((1.0, 0.0), (1.0, 100.0)))],
    [soil(points=((1.0, 0.0), (2.0, 0.0)))],
    [soil(points=((0.0, 0.0), (7.0, 100.0)))],
    [soil(points=((0.0, 0.0), (3.0, 200.0)))],
    [soil(variable="light_daily_integral")],
    [soil(), soil(name="second")],
    [soil(), AIR],
    [AIR, soil()],
)


def test_sensors_that_do_not_fit_are_refused(said):
    for sensors in REFUSED:
        with said.raises(ConfigError):
            check_config(Config(sensor=tuple(sensors), output=(FAN,)))


async def test_two_inputs_of_one_chip_are_two_sensors_beside_a_thermometer():
    current = {"confirms": "exhaust", "variable": "", "channel": "1", "points": ((0.0, 0.0), (1.0, 5.0))}
    sensors = (soil(), soil(**current, name="current"), Sensor(name="tank", kind="ds18b20"))
    async with rigged(Config(sensor=sensors, output=(FAN,))) as rig:
        await rig.clock.advance(10)
        truth = rig.machine.chamber.soil_moisture_percent()
        assert rig.last("measured/soil_moisture").value == pytest.approx(truth, abs=0.5)
        truth = rig.machine.chamber.water().temperature_degc
        assert rig.last("measured/water_temperature").value == pytest.approx(truth, abs=0.2)
        assert rig.last("feedback/exhaust").value == pytest.approx(0, abs=0.01)
        rig.bus.node("client").publish_arguments("environment_1/desired/air_flush_on", [1])
        await rig.clock.advance(10)
        assert rig.last("feedback/exhaust").value == pytest.approx(1, abs=0.01)
        assert sum(chip.name == "ads1115" for chip in rig.machine.chips.values()) == 1

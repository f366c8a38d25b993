"""Sensors of any variable, and of the state of outputs, from the configuration to their topics."""

from __future__ import annotations

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


def findings(*sensors: Sensor, relays: tuple[Output, ...] = ()) -> str:
    config = Config(sensor=sensors, output=relays)
    with pytest.raises(ConfigError) as caught:
        check_config(config)
    return str(caught.value)


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


async def test_feedback_of_an_output_has_a_topic_of_its_own():
    async with rigged(Config(sensor=(WATCH,), output=(FAN,))) as rig:
        await rig.clock.advance(10)
        assert rig.last("feedback/exhaust").value == 0
        rig.bus.node("client").publish_arguments("environment_1/desired/air_flush_on", [1])
        await rig.clock.advance(10)
        assert rig.machine.pins.high(FAN.pin) == 1
        assert rig.last("feedback/exhaust").value == 1
        assert not rig.bus.topics.get("environment_1/feedback/exhaust").is_open


async def test_feedback_of_a_welded_relay_is_what_really_happens():
    async with rigged(Config(sensor=(WATCH,), output=(FAN,))) as rig:
        rig.machine.faults.inject(Fault("welded", "fan"))
        await rig.clock.advance(10)
        assert rig.machine.pins.high(FAN.pin) == 0
        assert rig.last("feedback/exhaust").value == 1


async def test_feedback_without_a_reading_is_a_fault():
    async with rigged(Config(sensor=(WATCH,), output=(FAN,))) as rig:
        await rig.clock.advance(10)
        rig.machine.faults.inject(Fault("refused", f"gpio-{WATCH.pin}"))
        await rig.clock.advance(10)
        assert rig.last("feedback/exhaust").quality is Quality.FAULT
        assert "can't be read" in rig.device("samplers/fan_contact")["message"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"variable": "door"}, "variable: there is no variable of this name"),
        ({"variable": ""}, "variable: is missing; door needs the variable that it measures"),
        ({"variable": "air_flush_on"}, "what an output does, which no sensor measures"),
        ({"variable": "air_temperature"}, "air_temperature is in degC, and a gpio measures switch"),
        ({"pin": None}, "pin: is missing; door is a gpio, which needs it"),
        ({"pin": 22}, "exhaust and door are both on GPIO 22"),
        ({"bus": 3}, "bus: door is a gpio, which is not on an I2C bus"),
        ({"confirms": "exhaust"}, "variable: door confirms exhaust instead: remove one"),
        ({"variable": "", "confirms": "pump"}, "confirms: there is no output pump; there is exhaust"),
        ({"range_ppm": 5_000}, "range_ppm: door is a gpio; this is for mhz19, mhz16 only: remove it"),
    ],
)
def test_options_that_do_not_fit_are_named(options, reason):
    chosen = {"name": "door", "kind": "gpio", "pin": 17, "variable": "door_open"} | options
    assert reason in findings(Sensor(**chosen), relays=(FAN,))


def test_an_output_is_confirmed_by_one_sensor():
    other = Sensor(name="second", kind="gpio", pin=5, confirms="exhaust")
    assert "another sensor confirms exhaust" in findings(WATCH, other, relays=(FAN,))


def test_an_air_sensor_can_neither_choose_its_variable_nor_confirm():
    for option in ({"variable": "door_open"}, {"confirms": "exhaust"}):
        reason = f"{next(iter(option))}: air is a scd30; this is for "
        assert reason in findings(Sensor(name="air", kind="scd30", **option), relays=(FAN,))


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({}, {"device": "28-01*"}, "device: environment_1/tank"),
        ({"device": "28-01"}, {"device": "28-01"}, "tank and air are both at 28-01"),
        ({"device": "28-01"}, {"variable": "air_humidity"}, "is in percent, and a ds18b20 measures degC"),
    ],
)
def test_thermometers_on_one_bus_differ(first, second, reason):
    tank = Sensor(name="tank", kind="ds18b20", **first)
    air = Sensor(**{"name": "air", "kind": "ds18b20", "variable": "air_temperature"} | second)
    assert reason.replace("environment_1/tank", "tank and air are both at 28-01*") in findings(tank, air)


def test_the_pin_of_the_1_wire_bus_is_taken():
    tank = Sensor(name="tank", kind="ds18b20")
    switch = Sensor(name="door", kind="gpio", pin=4, variable="door_open")
    assert "door and the 1-wire bus are both on GPIO 4" in findings(tank, switch)


async def test_a_thermometer_measures_the_water_of_the_chamber():
    async with rigged(Config(sensor=(Sensor(name="tank", kind="ds18b20"),))) as rig:
        await rig.clock.advance(10)
        truth = rig.machine.chamber.water().temperature_degc
        assert rig.last("measured/water_temperature").value == pytest.approx(truth, abs=0.2)


SOIL = {"name": "soil", "kind": "ads1115", "variable": "soil_moisture", "points": ((2.8, 0.0), (1.2, 100.0))}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"points": ()}, "points: is missing; soil is a ads1115, which needs it"),
        ({"points": ((1.0, 0.0),)}, "points: must be two points, got 1"),
        ({"points": ((1.0, 0.0), (1.0, 100.0))}, "points: must differ in volts and in value"),
        ({"points": ((1.0, 0.0), (2.0, 0.0))}, "points: must differ in volts and in value"),
        ({"points": ((0.0, 0.0), (5.0, 100.0))}, "points: 5 V is beyond range_mv, 4096"),
        (
            {"points": ((0.0, 0.0), (3.0, 200.0))},
            "200 is beyond the range of soil_moisture, 0 to 100 percent",
        ),
        ({"variable": "light_daily_integral"}, "growd calculates light_daily_integral"),
    ],
)
def test_points_of_a_voltage_are_checked(options, reason):
    assert reason in findings(Sensor(**SOIL | options))


def test_inputs_of_one_chip_differ_and_share_it_with_no_other():
    first, second = Sensor(**SOIL), Sensor(**SOIL | {"name": "second"})
    assert "channel: soil and second are both on input 0" in findings(first, second)
    stranger = Sensor(name="air", kind="scd30", address=0x48)
    assert "soil and air are both at 0x48 on bus 1" in findings(first, stranger)
    assert "air and soil are both at 0x48 on bus 1" in findings(stranger, first)


async def test_two_inputs_of_one_chip_are_two_sensors():
    current = {"confirms": "exhaust", "variable": "", "channel": "1", "points": ((0.0, 0.0), (1.0, 5.0))}
    sensors = (Sensor(**SOIL), Sensor(**SOIL | current | {"name": "current"}))
    async with rigged(Config(sensor=sensors, output=(FAN,))) as rig:
        await rig.clock.advance(10)
        truth = rig.machine.chamber.soil_moisture_percent()
        assert rig.last("measured/soil_moisture").value == pytest.approx(truth, abs=0.5)
        assert rig.last("feedback/exhaust").value == pytest.approx(0, abs=0.01)
        rig.bus.node("client").publish_arguments("environment_1/desired/air_flush_on", [1])
        await rig.clock.advance(10)
        assert rig.last("feedback/exhaust").value == pytest.approx(1, abs=0.01)
        assert len(rig.machine.chips) == 1

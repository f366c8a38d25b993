"""What a chamber measures and drives, according to its configuration."""

import pytest

from growd.config import (
    ChannelOptions,
    Config,
    FilterOptions,
    InterlockOptions,
    Light,
    Output,
    Sensor,
    chambers_of,
)
from growd.config.devices import OwnSensor
from growd.device_kinds import SENSOR_KINDS
from growd_drivers.kinds import SensorKind

AIR = Sensor(name="air", kind="scd30")
SECOND = Sensor(name="second", kind="mhz19", port="/dev/serial0", interval_s=60.0)
LUX = Sensor(name="lux", kind="bh1750")
VALVE = Output(name="valve", pin=5, variable="air_carbon_dioxide_valve_on")
FAN = Output(name="fan", pin=6, variable="air_flush_on")
SWITCHES = {"air_carbon_dioxide_valve_on": (0, 1), "air_flush_on": (0, 1)}


def chamber(*sensors, **options):
    return chambers_of(Config(sensor=sensors, **options))[0]


def test_measured_variables_and_their_sensors():
    it = chamber(SECOND, AIR, LUX)
    assert it.measured == ("air_carbon_dioxide", "air_humidity", "air_temperature", "light_illuminance")
    assert it.sensor_names("air_carbon_dioxide") == ["second", "air"]
    assert it.shared == ("air_carbon_dioxide",)
    assert chamber().measured == ()


def test_the_stale_limit_is_two_intervals_or_the_limit_of_the_filter():
    it = chamber(AIR, SECOND, filter=FilterOptions(stale_after_s=45.0))
    assert it.stale_after_s("air_carbon_dioxide") == 120
    assert it.stale_after_s("air_temperature") == 45


@pytest.mark.parametrize(
    ("sensor", "least", "most"),
    [
        (AIR, 2.0, 15.0),  # half of 30 s, the limit of the filter
        (Sensor(name="air", kind="scd30", interval_s=120.0), 60.0, 120.0),  # it measures each minute
        (LUX, 0.1, 15.0),
        (SECOND, 0.1, 60.0),
    ],
)
def test_no_interval_that_a_client_may_set_makes_a_variable_stale(sensor, least, most):
    assert chamber(sensor).interval_range_s(sensor) == (least, most)


def test_a_valve_needs_co2_if_a_sensor_measures_it():
    assert chamber(AIR, output=(VALVE, FAN)).needed() == {"air_carbon_dioxide": {VALVE.variable}}
    assert chamber(LUX, output=(VALVE, FAN)).needed() == {}


def test_devices_on_pins_are_lamps_relays_and_contacts():
    no_lamp = Light(enabled=False)
    assert not chamber(AIR, light=no_lamp).has_pins
    assert chambers_of(Config(light=no_lamp))[0].has_pins  # the default sensors
    assert chamber(AIR, light=no_lamp, output=(FAN,)).has_pins
    assert chamber(Sensor(name="door", kind="gpio", pin=4, variable="door_open"), light=no_lamp).has_pins
    assert chamber(AIR, light=Light(channel=(ChannelOptions(name="red", pin=4),))).has_pins


def test_a_sensor_of_another_package_on_a_pin_needs_the_pins(monkeypatch):
    kind = SensorKind("Contact", "growd_odd:Driver", {"door_open": "door_open"}, opens="gpio", api=1)
    monkeypatch.setitem(SENSOR_KINDS, "odd_contact", kind)
    contact = OwnSensor(name="door", kind="odd_contact", own={"line": 4})
    assert chamber(contact, light=Light(enabled=False)).has_pins


def test_the_reach_of_a_lamp():
    light = Light(channel=(ChannelOptions(name="red", pin=4),), full_scale_lux=9_000)
    assert chamber(light=light).reach() == {"light_illuminance": (0, 9_000), "light_intensity_red": (0, 1)}


def test_a_lamp_that_cannot_be_dimmed_tells_recipes_from_where_it_is_on():
    channels = (ChannelOptions(name="red", pin=4), ChannelOptions(name="white", pin=5, mix=0.8))
    lamp = Light(channel=channels, switched=True, full_scale_lux=9_000)
    assert chamber(light=lamp).reach_of_recipes()["light_illuminance"] == (0, 9_000, "", 4_500)
    assert chamber(light=lamp).reach()["light_illuminance"] == (0, 9_000)
    dimmed = Light(channel=channels, full_scale_lux=9_000)
    assert chamber(light=dimmed).reach_of_recipes()["light_illuminance"] == (0, 9_000)


def test_the_reach_of_co2_is_its_ceiling():
    limits = InterlockOptions(ceiling_ppm=2_000)
    reach = chamber(AIR, output=(VALVE, FAN), interlock=limits).reach()
    assert reach == SWITCHES | {"air_carbon_dioxide": (0, 2_000)}
    assert chamber(output=(VALVE, FAN)).reach() == SWITCHES


def test_the_reach_of_heaters_ends_at_their_interlock():
    heater = Output(name="heater", pin=17, variable="air_heater")
    reach = chamber(AIR, output=(heater,), interlock=InterlockOptions(heater_off_degc=38.0)).reach()
    assert reach["air_temperature"] == (-40.0, 38.0)

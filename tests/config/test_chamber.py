"""What a chamber measures and drives, according to its configuration."""

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


def test_no_interval_that_a_client_may_set_makes_a_variable_stale():
    slow = Sensor(name="air", kind="scd30", interval_s=120.0)
    for sensor, least, most in (
        (AIR, 2.0, 15.0),  # half of 30 s, the limit of the filter
        (slow, 60.0, 120.0),  # it measures each minute
        (LUX, 0.1, 15.0),
        (SECOND, 0.1, 60.0),
    ):
        assert chamber(sensor).interval_range_s(sensor) == (least, most)


def test_a_valve_needs_co2_if_a_sensor_measures_it():
    assert chamber(AIR, output=(VALVE, FAN)).needed() == {"air_carbon_dioxide": {VALVE.variable}}
    assert chamber(LUX, output=(VALVE, FAN)).needed() == {}


def test_devices_on_pins_are_lamps_relays_and_contacts(monkeypatch):
    no_lamp = Light(enabled=False)
    assert not chamber(AIR, light=no_lamp).has_pins
    assert chambers_of(Config(light=no_lamp))[0].has_pins  # the default sensors
    assert chamber(AIR, light=no_lamp, output=(FAN,)).has_pins
    assert chamber(Sensor(name="door", kind="gpio", pin=4, variable="door_open"), light=no_lamp).has_pins
    assert chamber(AIR, light=Light(channel=(ChannelOptions(name="red", pin=4),))).has_pins
    # a sensor of another package
    kind = SensorKind("Contact", "growd_odd:Driver", {"door_open": "door_open"}, opens="gpio", api=1)
    monkeypatch.setitem(SENSOR_KINDS, "odd_contact", kind)
    assert chamber(OwnSensor(name="door", kind="odd_contact", own={"line": 4}), light=no_lamp).has_pins


def test_the_reach_of_a_lamp():
    """One that cannot be dimmed tells recipes from where it is on."""
    channels = (ChannelOptions(name="red", pin=4), ChannelOptions(name="white", pin=5, mix=0.8))
    dimmed = Light(channel=channels, full_scale_lux=9_000)
    switched = Light(channel=channels, full_scale_lux=9_000, kind="relay")
    lux = {"light_illuminance": (0, 9_000)}
    assert (
        chamber(light=dimmed).reach()
        == {"light_intensity_red": (0, 1), "light_intensity_white": (0, 1)} | lux
    )
    assert chamber(light=dimmed).reach_of_recipes()["light_illuminance"] == (0, 9_000)
    assert chamber(light=switched).reach()["light_illuminance"] == (0, 9_000)
    assert chamber(light=switched).reach_of_recipes()["light_illuminance"] == (0, 9_000, "", 4_500)


def test_the_reach_of_co2_and_of_heaters_ends_at_their_interlocks():
    limits = InterlockOptions(ceiling_ppm=2_000, heater_off_degc=38.0)
    reach = chamber(AIR, output=(VALVE, FAN), interlock=limits).reach()
    assert reach == SWITCHES | {"air_carbon_dioxide": (0, 2_000)}
    assert chamber(output=(VALVE, FAN)).reach() == SWITCHES
    heater = Output(name="heater", pin=17, variable="air_heater")
    assert chamber(AIR, output=(heater,), interlock=limits).reach()["air_temperature"] == (-40.0, 38.0)

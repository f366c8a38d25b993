from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from growd.config import Config, ConfigError, Sensor, load
from growd.wiring.config_checks import DEVICE_CHECKS
from growd_drivers.pins import MAXIMUM_SOFTWARE_PWM_HZ
from support.refusals import check_config

if TYPE_CHECKING:
    from pathlib import Path


SCD30 = "[[sensor]]\nname = 'air'\nkind = 'scd30'\n"
MHZ19 = "[[sensor]]\nname = 'air'\nkind = 'mhz19'\n"
AT_A_PORT = MHZ19 + "port = '/dev/serial0'\n"
BH1750 = "[[sensor]]\nname = 'lux'\nkind = 'bh1750'\n"
VALVE = "[[output]]\nname = 'valve'\npin = 21\nvariable = 'air_carbon_dioxide_valve_on'\n"
FAN = "[[output]]\nname = 'fan'\npin = 20\nvariable = 'air_flush_on'\n"
LAMP = "[light]\n"
RELAYS = """
[[output]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"
active = "low"

[[output]]
name = "fan"
pin = 24
variable = "air_flush_on"
safe = "on"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "growd.toml"


def refusal(*settings: str, file: Path | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        load(file, settings)
    return str(error.value)


def test_the_default_is_a_simulated_chamber_on_loopback():
    config = load(None)
    assert config.environment.id == "environment_1"
    assert (config.http.host, config.http.port, config.http.name) == ("127.0.0.1", 5984, "svc")
    assert config.simulator.enabled
    assert config.couchdb.url == ""
    assert {sensor.kind for sensor in config.sensor} == {"scd30", "bh1750"}


def test_settings_override_the_file(file: Path):
    file.write_text(
        """
        [http]
        port = 8080
        name = "openag"
        [[sensor]]
        name = "under_the_lamp"
        kind = "bh1750"
        address = 0x5C
        [topics]
        "environment_1/note" = "std_msgs/String"
        """
    )
    config = load(file, ("http.port=9090", "light.inverted=true", "environment.id=bench"))
    assert (config.http.port, config.http.name) == (9090, "openag")
    assert config.light.inverted is True
    assert config.environment.id == "bench"
    assert [(sensor.name, sensor.address) for sensor in config.sensor] == [("under_the_lamp", 0x5C)]
    assert config.topics == {"environment_1/note": "std_msgs/String"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("http.port=70000", ["[http] port", "65535", "70000"]),
        ("http.port=abc", ["[http] port: must be a whole number from 0 to 65535", "abc"]),
        ("http.prot=1", ["[http] prot: unknown option; is it port?"]),
        ("store.batch=0", ["[store] batch", "0"]),
        ("store.max_age_s=100000", ["[store] max_age_s", "86400", "100000"]),
        ("htpp.port=1", ["[htpp]", "unknown section", "http"]),
        ("environment.id=a/b", ["[environment] id", "a/b"]),
        ("environment.id=environments", ["[environment] id", "reserved"]),
        ("environment.id=http", ["[environment] id: http is reserved"]),
        ("couchdb.url=ftp://x", ["[couchdb] url", "ftp://x"]),
        ("couchdb.url=http://host:port", ["[couchdb] url", "must be http://host:port or"]),
        ("couchdb.url=http://", ["[couchdb] url"]),
        ("couchdb.url=bob:secret@host", ["[couchdb] url", "must be http://host:port or", "got host"]),
        ("http.origins=['http://bob:secret@host/x']", ["[http] origins", "'http://host/x' must be"]),
        ("replication.url=http://[::1", ["[replication] url", "must be http://host:port or"]),
        ("replication.url=ftp://x", ["[replication] url", "must be http://host:port or", "ftp://x"]),
        (
            "replication.url=https://far/?q=1",
            ["[replication] url", "must be the address of a server only: https://far/"],
        ),
        ("replication.points=down", ["[replication] points", "down"]),
        ("replication.recipes=up", ["[replication] recipes", "up"]),
        ("replication.environments=['a b']", ["[replication] environments.0", "a b"]),
        ("simulator.speed=0", ["[simulator] speed", "0"]),
        ("light.channel=[{name='green', pin=1}]", ["[light] channel.green.name", "green"]),
        ("light.channel=[{name='red'}]", ["[light] channel.red.pin", "missing"]),
        (
            "light.channel=[{name='red', pin=4}, {name='blue', pin=4}]",
            ["[light] channel.pin: channel blue and channel red are both on GPIO 4"],
        ),
        ("light.channel=[{name='red', pin=4}, {name='red', pin=5}]", ["[light] channel.name", "red"]),
        ("light.channel=[]", ["[light] channel", "enabled = false"]),
        ("light.minimum_duty=1", ["[light] minimum_duty", "1"]),
        ("light.frequency_hz=20000", ["[light] frequency_hz", "10000"]),
        ("light.pwm_chip=-1", ["[light] pwm_chip", "-1"]),
        ("store.maximum_interval_s=1", ["[store] minimum_interval_s", "maximum_interval_s"]),
        ("store.batch=501", ["[store] batch", "500"]),
        ("topics.x=std_msgs/Nothing", ["[topics] x: must be one of", "std_msgs/Nothing"]),
        ("sensor.x=1", ["[sensor]: must be a list of tables, such as [[sensor]], got {'x': 1}"]),
        ("http", ["--set http", "section.option=value"]),
        ("http.port", ["--set http.port", "section.option=value"]),
        (
            "store.variable.air_humidity.maximum_interval_s=4",
            ["[store] variable.air_humidity.minimum_interval_s: 5 is above maximum_interval_s, 4"],
        ),
        ("couchdb.url=htp://grower:secret@host:5985", ["htp://host:5985"]),
        (
            "couchdb.url=http://a%3Ab:secret@127.0.0.1:5984",
            ["[couchdb] url: the user name cannot contain a colon"],
        ),
        (
            "replication.url=https://grower:secret@far",
            ["[replication] url: must not contain a login; put it into credentials_file"],
        ),
        ("=1", ["--set", "section.option=value"]),
    ],
)
def test_a_wrong_setting_is_named_with_section_option_and_value(setting: str, words: list[str]):
    sentence = refusal(setting)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence
    assert "secret" not in sentence


HTTPS = "replication.url=https://far"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("http.host=farm..example", "http.access=open"), "'farm..example' must be an address or a name"),
        (
            ("replication.url=http://far:5984", "replication.ca_file=/etc/ca.pem"),
            "[replication] ca_file: is for an https url, got http://far:5984",
        ),
        (
            (HTTPS, *(f"replication.{name}=off" for name in ("points", "events", "recipes"))),
            "[replication] points: is off, and so are events, photos and recipes",
        ),
        *(
            (
                ("simulator.enabled=false", f"simulator.{option}={value}"),
                f"[simulator] {option}: only simulated",
            )
            for option, value in (("speed", "10"), ("replay", "a.csv"), ("faults", "a.toml"))
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(settings: tuple[str, ...], words: str):
    assert words in refusal(*settings)


def test_options_of_an_scd30(file: Path):
    file.write_text(f"{SCD30}altitude_m = 65535\ntemperature_offset_degc = 1\n")
    (sensor,) = load(file).sensor
    assert (sensor.altitude_m, sensor.temperature_offset_degc) == (65_535, 1)
    assert sensor.self_calibration is False


def test_options_of_an_mhz19(file: Path):
    file.write_text(MHZ19 + "port = '/dev/ttyUSB*'\nrange_ppm = 2000\nself_calibration = true\n")
    (sensor,) = load(file).sensor
    assert (sensor.port, sensor.range_ppm, sensor.self_calibration) == ("/dev/ttyUSB*", 2000, True)


@pytest.mark.parametrize(
    ("sensor", "pin", "words"),
    [
        ("port = '/dev/serial0'", 14, "sensor air at /dev/serial0 are both on GPIO 14"),
        ("port = '/dev/ttyS0'", 15, "sensor air at /dev/ttyS0 are both on GPIO 15"),
        ("port = '/dev/ttyAMA*'", 15, "sensor air at /dev/ttyAMA* are both on GPIO 15"),
        ("address = 0x4D", 3, "I2C bus 1 are both on GPIO 3"),
    ],
)
def test_the_pins_of_a_sensor_with_a_serial_line_are_taken(file: Path, sensor: str, pin: int, words: str):
    file.write_text(f"{MHZ19}{sensor}\n{RELAYS.replace('24', str(pin))}")
    with pytest.raises(ConfigError, match=r"\[output\] pin: fan and ") as caught:
        load(file)
    assert words in str(caught.value)
    file.write_text(f"{MHZ19}port = '/dev/ttyUSB0'\n{RELAYS.replace('24', str(pin))}")
    assert load(file).output[1].pin == pin


@pytest.mark.parametrize("others", ["/dev/serial0", "/dev/serial*"])
def test_two_sensors_at_one_port_are_refused(others: str):
    sensors = [Sensor(name=n, kind="mhz19", port=p) for n, p in (("a", "/dev/serial0"), ("b", others))]
    with pytest.raises(ConfigError, match=r"\[sensor\] port: . and . are both at /dev/serial0"):
        check_config(Config(sensor=tuple(sensors)))


def test_a_file_without_a_lamp_has_none(file: Path):
    file.write_text("[simulator]\nenabled = false\n")
    assert not load(file).light.enabled
    for text in ("[light]\n", "[light]\ngamma = 2.2\n", "[[light.channel]]\nname = 'red'\npin = 4\n"):
        file.write_text(text)
        assert load(file).light.enabled
    file.write_text("[light]\nenabled = false\n")
    assert not load(file).light.enabled


def test_relays_are_safe_when_off_by_default(file: Path):
    file.write_text(RELAYS)
    relays = load(file).output
    assert [(relay.name, relay.pin, relay.active, relay.safe) for relay in relays] == [
        ("valve", 23, "low", "off"),
        ("fan", 24, "high", "on"),
    ]


def test_only_environments_of_this_chamber_are_replicated():
    words = refusal("replication.environments=['enviroment_1']", "chamber.shelf_2.filter.weight=1")
    assert (
        "[replication] environments: there is no environment enviroment_1; there is environment_1, s" in words
    )
    known = load(None, ("replication.environments=['shelf_2']", "chamber.shelf_2.filter.weight=1"))
    assert known.replication.environments == ("shelf_2",)


SHELF = """
[[chamber.shelf_2.sensor]]
name = "scd30_1"
kind = "scd30"
bus = 3

[chamber.shelf_2.light]
gamma = 2.2
[[chamber.shelf_2.light.channel]]
name = "white"
pin = 20

[[chamber.shelf_2.output]]
name = "valve"
pin = 21
variable = "air_carbon_dioxide_valve_on"

[chamber.shelf_3]
"""


def test_further_environments_have_sections_of_their_own(file: Path):
    file.write_text(SHELF)
    config = load(file, ("environment.id=shelf_1", "chamber.shelf_2.light.ramp_s=3"))
    chambers = config.chambers()
    assert list(chambers) == ["shelf_1", "shelf_2", "shelf_3"]
    assert chambers["shelf_1"] is config
    assert [sensor.bus for sensor in chambers["shelf_2"].sensor] == [3]
    lamp = chambers["shelf_2"].light
    assert (lamp.enabled, lamp.gamma, lamp.ramp_s) == (True, 2.2, 3)
    assert (chambers["shelf_3"].sensor, chambers["shelf_3"].light.enabled) == ((), False)
    assert not load(file, ("chamber.shelf_2.light.enabled=false",)).chamber["shelf_2"].light.enabled


@pytest.mark.parametrize(
    "text",
    [
        "[couchdb]\nurl = http://grower:secret@host\n",
        "[notify]\npassword = secret\n",
        "[replication]\nurl = 'http://host/?q=secret'\n",
    ],
)
def test_no_error_shows_a_password(file: Path, text: str):
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, environ={}, checks=DEVICE_CHECKS)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RELAYS.replace("24", "23"), "[output] pin: fan and valve are both on GPIO 23"),
        (LAMP + RELAYS.replace("24", "12"), "[output] pin: fan and channel white are both on GPIO 12"),
        (RELAYS.replace("24", "3"), "[output] pin: fan and I2C bus 1 are both on GPIO 3"),
        (RELAYS.replace("24", "28"), "[output] fan.pin: must be a whole number from 0 to 27, got 28"),
        (RELAYS.replace('"fan"', '"valve"'), "[output] name: valve is given 2 times"),
        (RELAYS.replace('"fan"', '"light"'), "[output] name: light is the name of another device"),
        (RELAYS.replace('"fan"', '"scd30_1"'), "[output] name: scd30_1 is the name of another device"),
        (
            RELAYS.replace("air_flush_on", "air_carbon_dioxide_valve_on").replace('"on"', '"off"')
            + "needs = ''",
            "[output] needs: valve and fan are both for air_carbon_dioxide_valve_on, so they must agree",
        ),
        (
            RELAYS.replace("air_carbon_dioxide_valve_on", "air_flush_on") + "override_s = 60",
            "[output] override_s: valve and fan are both for air_flush_on, so they must agree",
        ),
        (
            "[[sensor]]\nname = 'light'\nkind = 'bh1750'",
            "[sensor] name: light is the name of the lamp; choose another",
        ),
        (RELAYS.replace("air_flush_on", "air_humidity"), "[output] fan.variable"),
        (RELAYS.replace('"low"', '"no"'), "[output] valve.active"),
        (
            '[[light.channel]]\nname = "red"\npin = 2',
            "[light] channel.pin: channel red and I2C bus 1 are both on GPIO 2",
        ),
        (
            RELAYS.replace("air_flush_on", "air_carbon_dioxide_valve_on"),
            "[output] safe: fan is a valve for CO2, which is safe when it is off",
        ),
        ("[interlock]\nceiling_ppm = 40000", "[interlock] ceiling_ppm"),
        ("[interlock]\nlight_hours = 25", "[interlock] light_hours"),
        ("[light]\ngamma = 0.1", "[light] gamma"),
        *(
            (
                f"[light]\nswitched = true\n{option}",
                f"[light] {option.split()[0]}: has no effect on a lamp with switched",
            )
            for option in ("ramp_s = 5", "gamma = 2.2", "minimum_duty = 0.1", "hardware_pwm = true")
        ),
        ("[[sensor]]\nname = 'a'\nkind = 'scd30'\ninterval_s = 0.05", "[sensor] a.interval_s"),
        ("[filter]\nweight = 0.0001", "[filter] weight"),
        ("[light]\nramp_s = -1", "[light] ramp_s"),
        ("[light]\nstale_after_s = 1.5", "[light] stale_after_s"),
        (RELAYS + "stale_after_s = 1.5", "[output] fan.stale_after_s"),
        (MHZ19, "[sensor] port: is missing; air is a mhz19, on a serial line such as /dev/serial0"),
        (
            MHZ19 + "port = 'COM3'",
            "[sensor] air.port: must be text of at most 256 characters that matches ^/dev/",
        ),
        (
            MHZ19 + "port = '/dev/serial0'\nbus = 3",
            "[sensor] bus: air is at /dev/serial0, and not behind a bridge",
        ),
        (
            MHZ19 + "port = '/dev/serial0'\naddress = 77",
            "[sensor] address: air is at /dev/serial0, and not behind",
        ),
        (
            MHZ19 + "bus = 3",
            "[sensor] port: is missing; air is a mhz19, on a serial line such as /dev/serial0; behind",
        ),
        (
            MHZ19 + "port = '/dev/serial0'\naltitude_m = 3",
            "[sensor] altitude_m: air is a mhz19; this is for scd30, scd4x only",
        ),
        (
            SCD30.replace("scd30", "scd4x") + "altitude_m = 4000\n",
            "[sensor] altitude_m: 4000 is not between 0 and 3000, the range of an SCD4x",
        ),
        (
            "[[sensor]]\nname = 'door'\nkind = 'gpio'\nvariable = 'door_open'\npin = 3\npull = 'down'\n",
            "[sensor] pull: down has no effect on GPIO 3, which has a resistor to 3.3 V",
        ),
        (
            BH1750 + "calibrate_every_days = 30\n",
            "[sensor] calibrate_every_days: a BH1750 has no calibration that growd could record",
        ),
        (
            SCD30 + "[drift]\nair_temperature = 0.5\n",
            "[drift] air_temperature: only a variable with two or more sensors can be compared",
        ),
        (
            MHZ19 + "port = '/dev/serial0'\nrange_ppm = 3000",
            "[sensor] air.range_ppm: must be one of 2000, 5000, 10000, got 3000",
        ),
        (
            MHZ19 + "port = '/dev/serial0'\nstuck_after_s = 1",
            "[sensor] air.stuck_after_s: must be a number from 600 to 604800, got 1",
        ),
        (
            SCD30 + "altitude_m = 65536",
            "[sensor] air.altitude_m: must be a whole number from 0 to 65535, got 65536",
        ),
        (
            SCD30 + "temperature_offset_degc = nan",
            "[sensor] air.temperature_offset_degc: must be a number from 0 to 655.35, got nan",
        ),
        (
            "[[sensor]]\nname = 'ph'\nkind = 'ads1115'\npoints = [[2.8, 4], [1.2, 'x']]\n",
            "[sensor] ph.points.1.1: must be a number, got 'x'",
        ),
        (SCD30 + "self_calibration = 1", "[sensor] air.self_calibration: must be true or false, got 1"),
        (
            SCD30 + "bus = 0\n[[light.channel]]\nname = 'red'\npin = 1",
            "channel red and I2C bus 0 are both on GPIO 1;",
        ),
        *(
            (BH1750 + option, "lux is a bh1750; this is for scd30")
            for option in ("altitude_m = 1", "self_calibration = true")
        ),
        (SCD30 + BH1750.replace("lux", "air"), "growd.toml:5: [sensor] name: air is given 2 times"),
        *(
            (SCD30.replace("air", name), "name: must be a name of letters, digits, _, . and -")
            for name in ("..", ".hidden", "-", "a" * 65)
        ),
        (
            AT_A_PORT + "range_ppm = 5000\n" + VALVE,
            "[sensor] range_ppm: air ends at 5000, so it cannot measure [interlock] ceiling_ppm, 5000;",
        ),
        (AT_A_PORT + "range_ppm = 2000\n" + FAN, "air ends at 2000"),
        (AT_A_PORT + VALVE + "[interlock]\nceiling_ppm = 9999.5\n", "ceiling_ppm, 9999.5;"),
        (
            "[light]\nhardware_pwm = true\n[[light.channel]]\nname = 'red'\npin = 22\n",
            "[light] hardware_pwm: is for GPIO 12, 13, 18, 19, and the lamp",
        ),
        (
            f"light = {{frequency_hz = {MAXIMUM_SOFTWARE_PWM_HZ + 1}, channel = [{{name='red', pin=22}}]}}",
            "[light] frequency_hz: red on GPIO 22 has software PWM, of at most 1000 Hz; take",
        ),
        ("[http\nport=1", "growd.toml:1: is not TOML"),
        ("chamber = 3", "[chamber]: must be a table, got 3"),
        ("[chamber]\nshelf_2 = 3", "[chamber.shelf_2]: must be a table, got 3"),
        ("[chamber.'a/b']", "[chamber.a/b]: must be a name of letters, digits, _, . and -, got"),
        ("[chamber.environments]", "[chamber.environments]: environments is reserved"),
        ("[chamber.environment_1]", "[chamber.environment_1]: is the id of the first environment"),
        (
            "[chamber.shelf_2.http]",
            "[chamber.shelf_2.http]: unknown section; known are environment, sensor, light",
        ),
        ("[chamber.shelf_2.light]\nlevel = 1", "[chamber.shelf_2.light] level: unknown option"),
        (
            SHELF.replace('"scd30"', '"scd31"'),
            '[chamber.shelf_2.sensor] scd30_1.kind: must be one of "ads1115",',
        ),
        (
            SHELF + "filter.weight = 2",
            "[chamber.shelf_3.filter] weight: must be a number from 0.001 to 1, got 2",
        ),
        (SHELF + "[[chamber.shelf_2.sensor]]\nname = 'x'", "[chamber.shelf_2.sensor] x.kind: is missing"),
        (SHELF + "light.channel = []", "[chamber.shelf_3.light] channel: has no entry"),
        (SHELF.replace('"valve"', '"light"'), "[chamber.shelf_2.output] name: light is the name of another"),
        (
            SHELF.replace("bus = 3", "range_ppm = 2000"),
            "[chamber.shelf_2.sensor] range_ppm: scd30_1 is a scd",
        ),
        (
            LAMP + SHELF.replace("21", "12"),
            "[chamber.shelf_2.output] pin: shelf_2/valve and channel environment_1/white are both on GPIO 12",
        ),
        (
            LAMP + SHELF.replace("20", "13"),
            "[chamber.shelf_2.light] channel.pin: channel shelf_2/white and channel environment_1/red are ",
        ),
        (SHELF + RELAYS.replace("23", "21"), "shelf_2/valve and environment_1/valve are both on GPIO 21"),
        (SHELF.replace("21", "2"), "[chamber.shelf_2.output] pin: shelf_2/valve and I2C bus 1 are both on"),
        (
            RELAYS + SHELF.replace('"scd30"\nbus = 3', '"mhz19"\nport = "/dev/serial0"').replace("21", "14"),
            "shelf_2/valve and sensor shelf_2/scd30_1 at /dev/serial0 are both on GPIO 14",
        ),
    ],
)
def test_a_wrong_file_is_refused(file: Path, text: str, words: str):
    file.write_text(text)
    assert words in refusal(file=file)


def test_a_file_that_cannot_be_read_is_named(file: Path):
    assert f"{file}: can't be read: No such file" in refusal(file=file)
    file.write_bytes(b"\xff\xfe")
    assert f"{file}:1: it is in UTF-16" in refusal(file=file)


@pytest.mark.parametrize(
    "text",
    [
        AT_A_PORT + VALVE,
        AT_A_PORT + VALVE + "[interlock]\nceiling_ppm = 9999\n",
        AT_A_PORT + "range_ppm = 2000\n" + VALVE + "[interlock]\nceiling_ppm = 1999\n",
        VALVE + "[interlock]\nceiling_ppm = 30000\n",  # an SCD30
        "[[sensor]]\nname = 'air'\nkind = 'mhz16'\naddress = 0x4D\n",  # behind a bridge
        RELAYS.replace("24", "12") + "[light]\nenabled = false\n",  # a pin of the lamp that is not there
        LAMP + "hardware_pwm = true\n",
        "[[chamber.shelf_2.sensor]]\nname = 'air'\nkind = 'scd30'\naddress = 0x60\n",  # on the same bus
    ],
)
def test_a_valid_file_is_loaded(file: Path, text: str):
    file.write_text(text)
    load(file)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from growd.config import Config, ConfigError, Sensor, load, refuse
from growd.config.device_checks import device_inconsistencies
from growd.wiring.config_checks import DEVICE_CHECKS

if TYPE_CHECKING:
    from pathlib import Path


def refusal(*settings: str) -> str:
    with pytest.raises(ConfigError) as error:
        load(None, settings)
    return str(error.value)


def test_the_default_is_a_simulated_chamber_on_loopback():
    config = load(None)
    assert config.environment.id == "environment_1"
    assert (config.http.host, config.http.port, config.http.name) == ("127.0.0.1", 5984, "svc")
    assert config.simulator.enabled
    assert config.couchdb.url == ""
    assert {sensor.kind for sensor in config.sensor} == {"scd30", "bh1750"}


def test_a_file_is_read_and_settings_stand_above_it(tmp_path: Path):
    file = tmp_path / "growd.toml"
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
        ("http.max_connections=0", ["[http] max_connections", "0"]),
        ("http.header_timeout_s=0", ["[http] header_timeout_s", "0"]),
        ("http.keep_alive_s=100000", ["[http] keep_alive_s", "86400", "100000"]),
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
        ("store.batch=501", ["[store] batch", "max_batch"]),
        ("topics.x=std_msgs/Nothing", ["[topics] x: must be one of", "std_msgs/Nothing"]),
        ("sensor.x=1", ["[sensor]: must be a list of tables, such as [[sensor]], got {'x': 1}"]),
        ("http", ["--set http", "section.option=value"]),
        ("http.port", ["--set http.port", "section.option=value"]),
        ("=1", ["--set", "section.option=value"]),
    ],
)
def test_what_is_wrong_is_named_with_section_option_and_value(setting: str, words: list[str]):
    sentence = refusal(setting)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence


def test_the_pins_of_the_other_bus_are_taken_as_well(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text("sensor = [{name = 'air', kind = 'scd30', bus = 0}]\n")
    with pytest.raises(ConfigError, match=r"channel red and I2C bus 0 are both on GPIO 1;"):
        load(file, ("light.channel=[{name='red', pin=1}]",))


def test_an_address_to_listen_on_is_one_that_can_be():
    sentence = "--set http.host: [http] host: 'farm..example' must be an address or a name"
    assert refusal("http.host=farm..example", "http.access=open") == sentence


def test_fewer_connections_than_streams_may_be_configured():
    http = load(None, ("http.max_connections=100",)).http
    assert (http.max_connections, http.max_streams) == (100, 1_000)


def test_a_wrong_address_is_shown_without_its_password():
    sentence = refusal("couchdb.url=htp://grower:secret@host:5985")
    assert "htp://host:5985" in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(
    ("address", "option", "words"),
    [
        (
            "https://grower:secret@far",
            "points=up",
            "url: must not contain a login; put it into credentials_file",
        ),
        ("http://far:5984", "ca_file=/etc/ca.pem", "ca_file: is for an https url, got http://far:5984"),
        ("http://far", "points_database=Points", "points_database: must begin with one of a-z"),
        ("http://far", "points_database={device}_points", "points_database: must begin with one of a-z"),
        ("http://far", "recipes_database=a b", "recipes_database: must begin with one of a-z"),
    ],
)
def test_what_can_not_be_replicated_is_said_without_a_password(address: str, option: str, words: str):
    sentence = refusal(f"replication.url={address}", f"replication.{option}")
    assert f"[replication] {words}" in sentence
    assert "secret" not in sentence


def test_options_of_replication_that_exclude_each_other_are_refused():
    https = "replication.url=https://far"
    all_off = refusal(https, *(f"replication.{name}=off" for name in ("points", "events", "recipes")))
    assert "[replication] points: is off, and so are events and recipes" in all_off
    unverified = refusal(https, "replication.ca_file=/etc/ca.pem", "replication.verify_tls=false")
    assert "[replication] ca_file: has no effect with verify_tls = false" in unverified


def test_replication_is_off_until_an_address_is_given():
    assert load(None).replication.url == ""
    given = load(None, ("replication.url=https://far", "replication.points_database=p/{device}"))
    wanted = given.replication
    assert (wanted.points, wanted.events, wanted.recipes) == ("up", "up", "down")


@pytest.mark.parametrize("option", ["speed=10", "replay=a.csv", "faults=a.toml"])
def test_what_is_simulated_needs_simulated_hardware(option: str):
    sentence = refusal("simulator.enabled=false", f"simulator.{option}")
    assert f"[simulator] {option.partition('=')[0]}: only simulated hardware" in sentence


SCD30 = "[[sensor]]\nname = 'air'\nkind = 'scd30'\n"


def test_an_scd30_has_settings_of_its_own(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text(f"{SCD30}ambient_pressure_hpa = 700\naltitude_m = 65535\ntemperature_offset_degc = 1\n")
    (sensor,) = load(file).sensor
    assert (sensor.ambient_pressure_hpa, sensor.altitude_m, sensor.temperature_offset_degc) == (
        700,
        65_535,
        1,
    )
    assert sensor.self_calibration is False


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("ambient_pressure_hpa = 699", ["700", "699"]),
        ("ambient_pressure_hpa = 1401", ["1400", "1401"]),
        ("altitude_m = -1", ["0", "-1"]),
        ("altitude_m = 65536", ["65535", "65536"]),
        ("temperature_offset_degc = 655.36", ["655.35", "655.36"]),
        ("temperature_offset_degc = nan", ["nan"]),
        ("self_calibration = 1", ["true or false", "1"]),
    ],
)
def test_a_setting_that_the_scd30_does_not_have_is_refused(tmp_path: Path, setting: str, words: list[str]):
    file = tmp_path / "growd.toml"
    file.write_text(SCD30 + setting)
    with pytest.raises(ConfigError, match=rf"\[sensor\] \w+\.{setting.partition(' ')[0]}: ") as caught:
        load(file)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    "option", ["ambient_pressure_hpa = 900", "altitude_m = 1", "self_calibration = true"]
)
def test_an_option_of_another_kind_of_sensor_is_refused(tmp_path: Path, option: str):
    file = tmp_path / "growd.toml"
    file.write_text(f"[[sensor]]\nname = 'lux'\nkind = 'bh1750'\n{option}\n")
    with pytest.raises(ConfigError, match=r"\[sensor\] \w+: lux is a bh1750; this is for scd30.* only"):
        load(file)


MHZ19 = "[[sensor]]\nname = 'air'\nkind = 'mhz19'\n"


def test_an_mhz19_is_at_a_serial_port(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text(MHZ19 + "port = '/dev/ttyUSB*'\nrange_ppm = 2000\nself_calibration = true\n")
    (sensor,) = load(file).sensor
    assert (sensor.port, sensor.range_ppm, sensor.self_calibration) == ("/dev/ttyUSB*", 2000, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "[sensor] port: is missing; air is a mhz19, on a serial line such as /dev/serial0"),
        ("port = 'COM3'", "[sensor] air.port: must be text of at most 256 characters that matches ^/dev/"),
        ("port = '/dev/serial0'\nbus = 3", "[sensor] bus: air is at /dev/serial0, and not behind a bridge"),
        ("port = '/dev/serial0'\naddress = 77", "[sensor] address: air is at /dev/serial0, and not behind"),
        (
            "bus = 3",
            "[sensor] port: is missing; air is a mhz19, on a serial line such as /dev/serial0; behind",
        ),
        (
            "port = '/dev/serial0'\naltitude_m = 3",
            "[sensor] altitude_m: air is a mhz19; this is for scd30 only",
        ),
        (
            "port = '/dev/serial0'\nrange_ppm = 3000",
            "[sensor] air.range_ppm: must be one of 2000, 5000, 10000, got 3000",
        ),
        (
            "port = '/dev/serial0'\nstuck_after_s = 1",
            "[sensor] air.stuck_after_s: must be a number from 600 to 604800, got 1",
        ),
    ],
)
def test_what_a_serial_sensor_can_not_have_is_refused(tmp_path: Path, options: str, words: str):
    file = tmp_path / "growd.toml"
    file.write_text(MHZ19 + options)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert words in str(caught.value)


AT_A_PORT = MHZ19 + "port = '/dev/serial0'\n"
VALVE = "[[relay]]\nname = 'valve'\npin = 21\nvariable = 'air_carbon_dioxide_valve_on'\n"
FAN = "[[relay]]\nname = 'fan'\npin = 20\nvariable = 'air_flush_on'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AT_A_PORT + "range_ppm = 5000\n" + VALVE, "air ends at 5000, .* ceiling_ppm, 5000;"),
        (AT_A_PORT + "range_ppm = 2000\n" + FAN, "air ends at 2000"),
        (AT_A_PORT + VALVE + "[interlock]\nceiling_ppm = 10000\n", "air ends at 10000, .* 10000;"),
        (AT_A_PORT + VALVE + "[interlock]\nceiling_ppm = 9999.5\n", "air ends at 10000, .* 9999.5;"),
    ],
)
def test_a_sensor_that_can_not_measure_the_ceiling_is_refused(tmp_path: Path, text: str, words: str):
    file = tmp_path / "growd.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"\[sensor\] range_ppm: {words}"):
        load(file)


@pytest.mark.parametrize(
    "text",
    [
        AT_A_PORT + VALVE,
        AT_A_PORT + VALVE + "[interlock]\nceiling_ppm = 9999\n",
        AT_A_PORT + "range_ppm = 2000\n" + VALVE + "[interlock]\nceiling_ppm = 1999\n",
        VALVE + "[interlock]\nceiling_ppm = 30000\n",  # an SCD30
    ],
)
def test_and_one_that_can_is_not(tmp_path: Path, text: str):
    file = tmp_path / "growd.toml"
    file.write_text(text)
    load(file)


def test_an_mhz16_may_be_behind_a_bridge(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text("[[sensor]]\nname = 'air'\nkind = 'mhz16'\naddress = 0x4D\n")
    (sensor,) = load(file).sensor
    assert (sensor.port, sensor.bus, sensor.address) == (None, 1, 0x4D)


@pytest.mark.parametrize(
    ("sensor", "pin", "words"),
    [
        ("port = '/dev/serial0'", 14, "sensor air at /dev/serial0 are both on GPIO 14"),
        ("port = '/dev/ttyS0'", 15, "sensor air at /dev/ttyS0 are both on GPIO 15"),
        ("port = '/dev/ttyAMA*'", 15, "sensor air at /dev/ttyAMA* are both on GPIO 15"),
        ("address = 0x4D", 3, "I2C bus 1 are both on GPIO 3"),
    ],
)
def test_the_pins_of_a_sensor_with_a_serial_line_are_taken(tmp_path: Path, sensor: str, pin: int, words: str):
    file = tmp_path / "growd.toml"
    file.write_text(f"{MHZ19}{sensor}\n{RELAYS.replace('24', str(pin))}")
    with pytest.raises(ConfigError, match=r"\[relay\] pin: fan and ") as caught:
        load(file)
    assert words in str(caught.value)
    file.write_text(f"{MHZ19}port = '/dev/ttyUSB0'\n{RELAYS.replace('24', str(pin))}")
    assert load(file).relay[1].pin == pin


@pytest.mark.parametrize("others", ["/dev/serial0", "/dev/serial*"])
def test_two_sensors_at_one_port_are_refused(others: str):
    sensors = [Sensor(name=n, kind="mhz19", port=p) for n, p in (("a", "/dev/serial0"), ("b", others))]
    with pytest.raises(ConfigError, match=r"\[sensor\] port: . and . are both at /dev/serial0"):
        refuse(device_inconsistencies(Config(sensor=tuple(sensors))))


def test_two_sensors_of_one_name_are_refused(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text('[[sensor]]\nname = "a"\nkind = "scd30"\n[[sensor]]\nname = "a"\nkind = "bh1750"\n')
    with pytest.raises(ConfigError, match=r"growd\.toml:5: \[sensor\] name: a is given 2 times"):
        load(file)


@pytest.mark.parametrize(
    ("content", "words"), [(b"[http\nport=1", "is not TOML"), (b"\xff\xfe", "is not TOML")]
)
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes, words: str):
    file = tmp_path / "growd.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as error:
        load(file)
    assert str(file) in str(error.value)


def test_there_is_a_lamp_only_where_the_file_has_one(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text("[simulator]\nenabled = false\n")
    assert not load(file).light.enabled
    for text in ("[light]\n", "[light]\ngamma = 2.2\n", "[[light.channel]]\nname = 'red'\npin = 4\n"):
        file.write_text(text)
        assert load(file).light.enabled
    file.write_text("[light]\nenabled = false\n")
    assert not load(file).light.enabled


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: can't be read: No such file"):
        load(tmp_path / "nowhere.toml")


def test_a_user_that_basic_authentication_can_not_carry_is_refused_without_the_password():
    with pytest.raises(ConfigError, match=r"\[couchdb\] url: a user name cannot contain a colon") as caught:
        load(None, ("couchdb.url=http://a%3Ab:secret@127.0.0.1:5984",))
    assert "secret" not in str(caught.value)


LAMP = "[light]\n"
RELAYS = """
[[relay]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"
active = "low"

[[relay]]
name = "fan"
pin = 24
variable = "air_flush_on"
safe = "on"
"""


def test_relays_are_off_without_commands_unless_said_otherwise(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text(RELAYS)
    relays = load(file).relay
    assert [(relay.name, relay.pin, relay.active, relay.safe) for relay in relays] == [
        ("valve", 23, "low", "off"),
        ("fan", 24, "high", "on"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RELAYS.replace("24", "23"), "[relay] pin: fan and valve are both on GPIO 23"),
        (LAMP + RELAYS.replace("24", "12"), "[relay] pin: fan and channel white are both on GPIO 12"),
        (RELAYS.replace("24", "3"), "[relay] pin: fan and I2C bus 1 are both on GPIO 3"),
        (RELAYS.replace("24", "28"), "[relay] fan.pin: must be a whole number from 0 to 27, got 28"),
        (RELAYS.replace('"fan"', '"valve"'), "[relay] name: valve is given 2 times"),
        (RELAYS.replace('"fan"', '"light"'), "[relay] name: light is the name of another device"),
        (RELAYS.replace('"fan"', '"scd30_1"'), "[relay] name: scd30_1 is the name of another device"),
        (
            RELAYS.replace("air_flush_on", "air_carbon_dioxide_valve_on").replace('"on"', '"off"')
            + "needs = ''",
            "[relay] needs: valve and fan are both for air_carbon_dioxide_valve_on, and must have the same",
        ),
        (
            RELAYS.replace("air_carbon_dioxide_valve_on", "air_flush_on") + "override_s = 60",
            "[relay] override_s: valve and fan are both for air_flush_on, and must have the same",
        ),
        ("[[sensor]]\nname = 'light'\nkind = 'bh1750'", "[sensor] name: light is the name of the lamp"),
        (RELAYS.replace("air_flush_on", "air_humidity"), "[relay] fan.variable"),
        (RELAYS.replace('"low"', '"no"'), "[relay] valve.active"),
        (
            '[[light.channel]]\nname = "red"\npin = 2',
            "[light] channel.pin: channel red and I2C bus 1 are both on GPIO 2",
        ),
        (
            RELAYS.replace("air_flush_on", "air_carbon_dioxide_valve_on"),
            "[relay] safe: fan is a valve for CO2, which is safe when it is off",
        ),
        ("[interlock]\nceiling_ppm = 40000", "[interlock] ceiling_ppm"),
        ("[interlock]\nlight_hours = 25", "[interlock] light_hours"),
        (
            "[interlock]\ndose_litres = 2",
            "[interlock] dose_litres: takes valve_flow_l_min, the flow of an open valve",
        ),
        ("[light]\ngamma = 0.1", "[light] gamma"),
        *(
            (
                f"[light]\nswitched = true\n{option}",
                f"[light] {option.split()[0]}: is for a dimmed lamp",
            )
            for option in ("ramp_s = 5", "gamma = 2.2", "minimum_duty = 0.1", "hardware_pwm = true")
        ),
        ("[[sensor]]\nname = 'a'\nkind = 'scd30'\ninterval_s = 0.05", "[sensor] a.interval_s"),
        ("[filter]\nweight = 0.0001", "[filter] weight"),
        ("[light]\nramp_s = -1", "[light] ramp_s"),
        ("[light]\nstale_after_s = 1.5", "[light] stale_after_s"),
        (RELAYS + "stale_after_s = 1.5", "[relay] fan.stale_after_s"),
    ],
)
def test_devices_that_can_not_be_are_refused(tmp_path: Path, text: str, words: str):
    file = tmp_path / "growd.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert words in str(caught.value)


def test_hardware_pwm_needs_a_pin_that_has_it(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text("[light]\nhardware_pwm = true\n[[light.channel]]\nname = 'red'\npin = 22\n")
    with pytest.raises(
        ConfigError, match=r"\[light\] hardware_pwm: is for GPIO 12, 13, 18, 19, and the lamp"
    ):
        load(file)
    assert load(None, ("light.hardware_pwm=true",)).light.hardware_pwm


def test_a_pin_of_a_light_that_is_not_there_is_free(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text(RELAYS.replace("24", "12") + "[light]\nenabled = false\n")
    assert load(file).relay[1].pin == 12


@pytest.mark.parametrize("name", ["..", ".hidden", "-"])
def test_a_name_that_an_address_can_not_hold_is_refused(tmp_path: Path, name: str):
    file = tmp_path / "growd.toml"
    file.write_text(f"[[sensor]]\nname = '{name}'\nkind = 'scd30'\n")
    with pytest.raises(ConfigError, match=r"\[sensor\].*name"):
        load(file)


def test_the_intervals_of_a_variable_must_fit_each_other():
    words = refusal("store.variable.air_humidity.maximum_interval_s=4")
    assert "[store] variable.air_humidity.minimum_interval_s: 5 is above maximum_interval_s, 4" in words


def test_what_goes_up_is_of_this_chamber():
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

[[chamber.shelf_2.relay]]
name = "valve"
pin = 21
variable = "air_carbon_dioxide_valve_on"

[chamber.shelf_3]
"""


def test_further_environments_have_sections_of_their_own(tmp_path: Path):
    file = tmp_path / "growd.toml"
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
    ("text", "words"),
    [
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
            '[chamber.shelf_2.sensor] scd30_1.kind: must be one of "bh1750",',
        ),
        (
            SHELF + "filter.weight = 2",
            "[chamber.shelf_3.filter] weight: must be a number from 0.001 to 1, got 2",
        ),
        (SHELF + "[[chamber.shelf_2.sensor]]\nname = 'x'", "[chamber.shelf_2.sensor] x.kind: is missing"),
        (SHELF + "light.channel = []", "[chamber.shelf_3.light] channel: has no entry"),
        (SHELF.replace('"valve"', '"light"'), "[chamber.shelf_2.relay] name: light is the name of another"),
        (
            SHELF.replace("bus = 3", "range_ppm = 2000"),
            "[chamber.shelf_2.sensor] range_ppm: scd30_1 is a scd",
        ),
        (
            LAMP + SHELF.replace("21", "12"),
            "[chamber.shelf_2.relay] pin: shelf_2/valve and channel environment_1/white are both on GPIO 12",
        ),
        (
            LAMP + SHELF.replace("20", "13"),
            "[chamber.shelf_2.light] channel.pin: channel shelf_2/white and channel environment_1/red are ",
        ),
        (SHELF + RELAYS.replace("23", "21"), "shelf_2/valve and environment_1/valve are both on GPIO 21"),
        (SHELF.replace("21", "2"), "[chamber.shelf_2.relay] pin: shelf_2/valve and I2C bus 1 are both on"),
        (
            RELAYS + SHELF.replace('"scd30"\nbus = 3', '"mhz19"\nport = "/dev/serial0"').replace("21", "14"),
            "shelf_2/valve and sensor shelf_2/scd30_1 at /dev/serial0 are both on GPIO 14",
        ),
    ],
)
def test_what_is_wrong_in_a_further_environment_is_named(tmp_path: Path, text: str, words: str):
    file = tmp_path / "growd.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert words in str(caught.value), str(caught.value)


def test_an_i2c_bus_may_have_sensors_of_several_environments(tmp_path: Path):
    file = tmp_path / "growd.toml"
    file.write_text(SHELF.replace("bus = 3", "address = 0x60"))
    assert load(file).chamber["shelf_2"].sensor[0].bus == 1


@pytest.mark.parametrize(
    "text",
    [
        "[couchdb]\nurl = http://grower:secret@host\n",
        "[notify]\npassword = secret\n",
        "[replication]\nurl = 'http://host/?q=secret'\n",
        "[[notify]]\nname = 'h'\nkind = 'webhook'\nurl = 'grower:secret@host'\n",
    ],
)
def test_no_refusal_shows_a_password(tmp_path: Path, text: str):
    file = tmp_path / "growd.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, environ={}, checks=DEVICE_CHECKS)
    assert "secret" not in str(caught.value)

import pytest

from growd.config import Config, ConfigError, Sensor, load
from growd_cli.config_checks import DEVICE_CHECKS
from growd_drivers.pins import MAXIMUM_SOFTWARE_PWM_HZ
from support.refusals import check_config

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
def file(tmp_path):
    return tmp_path / "growd.toml"


def refusal(*settings, file=None):
    with pytest.raises(ConfigError) as error:
        load(file, settings, checks=DEVICE_CHECKS)
    assert "secret" not in str(error.value)
    return error.value


def places(error):
    """The section and option of each finding."""
    return ", ".join(dict.fromkeys(finding.where for finding in error.findings))


def test_the_default_is_a_simulated_chamber_on_loopback():
    config = load(None)
    assert config.environment.id == "environment_1"
    assert (config.http.host, config.http.port, config.http.name) == ("127.0.0.1", 5984, "svc")
    assert (config.simulator.enabled, config.couchdb.url) == (True, "")
    assert {sensor.kind for sensor in config.sensor} == {"scd30", "bh1750"}


def test_settings_override_the_file(file):
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


WRONG_SETTINGS = {
    "http.port=70000": "[http] port",
    "http.port=abc": "[http] port",
    "http.prot=1": "[http] prot",
    "htpp.port=1": "[htpp]",
    "environment.id=a/b": "[environment] id",
    "environment.id=environments": "[environment] id",
    "couchdb.url=ftp://x": "[couchdb] url",
    "couchdb.url=http://host:port": "[couchdb] url",
    "couchdb.url=http://": "[couchdb] url",
    "couchdb.url=bob:secret@host": "[couchdb] url",
    "couchdb.url=htp://grower:secret@host:5985": "[couchdb] url",
    "couchdb.url=http://a%3Ab:secret@127.0.0.1:5984": "[couchdb] url",
    "http.origins=['http://bob:secret@host/x']": "[http] origins",
    "replication.url=http://[::1": "[replication] url",
    "replication.url=https://far/?q=1": "[replication] url",
    "replication.url=https://grower:secret@far": "[replication] url",
    "replication.points=down": "[replication] points",
    "replication.environments=['a b']": "[replication] environments.0",
    "replication.environments=['environment_2']": "[replication] environments",
    'http.hosts=["farm.example:80"]': "[http] hosts",
    'http.hosts=["*"]': "[http] hosts",
    'http.origins=["https://a.example/"]': "[http] origins",
    'http.origins=["null"]': "[http] origins",
    'http.trusted_proxies=["nginx"]': "[http] trusted_proxies",
    'http.trusted_proxies=["10.0.0.1/8"]': "[http] trusted_proxies",
    "tls.key=x": "[tls] certificate",
    "tls.certificate=x": "[tls] key",
    "mqtt.publish=true": "[mqtt] publish",
    "mqtt.port=1883": "[mqtt] port",
    "control.air_carbon_dioxide.gain=1": "[control.air_carbon_dioxide] gain",
    "chamber.shelf_2.control.air_temperature.ti_s=0": "[chamber.shelf_2.control.air_temperature] ti_s",
    "light.channel=[{name='green', pin=1}]": "[light] channel.green.name",
    "light.channel=[{name='red'}]": "[light] channel.red.pin",
    "light.channel=[{name='red', pin=4}, {name='blue', pin=4}]": "[light] channel.pin",
    "light.channel=[{name='red', pin=4}, {name='red', pin=5}]": "[light] channel.name",
    "light.channel=[]": "[light] channel",
    "light.minimum_duty=1": "[light] minimum_duty",
    "store.maximum_interval_s=1": "[store] minimum_interval_s",
    "store.variable.air_humidity.maximum_interval_s=4": "[store] variable.air_humidity.minimum_interval_s",
    "topics.x=std_msgs/Nothing": "[topics] x",
    "sensor.x=1": "[sensor]",
    # not of the form section.option=value
    "http": "",
    "http.port": "",
    "=1": "",
}


def test_a_wrong_setting_is_named_with_section_option_and_value(said):
    errors = {setting: refusal(setting) for setting in WRONG_SETTINGS}
    assert {setting: places(error) for setting, error in errors.items()} == WRONG_SETTINGS
    said([str(error) for error in errors.values()])


REAL = "simulator.enabled=false"


ODD_SETTINGS = {
    ("http.host=farm..example", "http.access=open"): "[http] host",
    ("replication.url=http://far:5984", "replication.ca_file=/etc/ca.pem"): "[replication] ca_file",
    (
        "replication.url=https://far",
        *(f"replication.{name}=off" for name in ("points", "events", "recipes")),
    ): "[replication] points",
    ("mqtt.host=a", "mqtt.commands=true"): "[mqtt] commands",
    ("mqtt.host=a", "mqtt.password_file=x"): "[mqtt] password_file",
    ("mqtt.host=a", "mqtt.ca_file=x"): "[mqtt] ca_file",
    (REAL, "simulator.speed=10"): "[simulator] speed",
    (REAL, "simulator.replay=a.csv"): "[simulator] replay",
    (REAL, "simulator.faults=a.toml"): "[simulator] faults",
}


def test_options_that_do_not_go_together_are_refused(said):
    errors = {settings: refusal(*settings) for settings in ODD_SETTINGS}
    assert {settings: places(error) for settings, error in errors.items()} == ODD_SETTINGS
    said([str(error) for error in errors.values()])


def test_options_of_devices(file):
    file.write_text(f"{SCD30}altitude_m = 65535\ntemperature_offset_degc = 1\n{RELAYS}")
    config = load(file)
    (sensor,) = config.sensor
    assert (sensor.altitude_m, sensor.temperature_offset_degc) == (65_535, 1)
    assert sensor.self_calibration is False
    assert [(relay.name, relay.pin, relay.active, relay.safe) for relay in config.output] == [
        ("valve", 23, "low", "off"),  # safe when off by default
        ("fan", 24, "high", "on"),
    ]
    file.write_text(MHZ19 + "port = '/dev/ttyUSB*'\nrange_ppm = 2000\nself_calibration = true\n")
    (sensor,) = load(file).sensor
    assert (sensor.port, sensor.range_ppm, sensor.self_calibration) == ("/dev/ttyUSB*", 2000, True)


def test_the_pins_of_a_sensor_with_a_serial_line_are_taken(file, said):
    for sensor, pin in (
        ("port = '/dev/serial0'", 14),
        ("port = '/dev/ttyS0'", 15),
        ("port = '/dev/ttyAMA*'", 15),
        ("address = 0x4D", 3),
    ):
        relays = RELAYS.replace("24", str(pin))
        file.write_text(f"{MHZ19}{sensor}\n{relays}")
        error = refusal(file=file)
        assert places(error) == "[output] pin"
        said(str(error))
        file.write_text(f"{MHZ19}port = '/dev/ttyUSB0'\n{relays}")
        assert load(file).output[1].pin == pin


def test_two_sensors_at_one_port_or_address_are_refused(file, said):
    first = Sensor(name="a", kind="mhz19", port="/dev/serial0")
    for port in ("/dev/serial0", "/dev/serial*"):
        with said.raises(ConfigError):
            check_config(Config(sensor=(first, Sensor(name="b", kind="mhz19", port=port))))
    file.write_text("[[chamber.shelf_2.sensor]]\nname = 'air'\nkind = 'scd30'\n")
    said(str(refusal(file=file)))


def test_a_file_without_a_lamp_has_none(file):
    for text, is_enabled in (
        ("[simulator]\nenabled = false\n", False),
        ("[light]\nenabled = false\n", False),
        ("[light]\n", True),
        ("[light]\ngamma = 2.2\n", True),
        ("[[light.channel]]\nname = 'red'\npin = 4\n", True),
    ):
        file.write_text(text)
        assert load(file).light.enabled == is_enabled, text


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


def test_further_environments_have_sections_of_their_own(file):
    file.write_text(SHELF)
    replicated = "replication.environments=['shelf_2']"
    config = load(file, ("environment.id=shelf_1", "chamber.shelf_2.light.ramp_s=3", replicated))
    assert config.replication.environments == ("shelf_2",)
    chambers = config.chambers()
    assert list(chambers) == ["shelf_1", "shelf_2", "shelf_3"]
    assert chambers["shelf_1"] is config
    assert [sensor.bus for sensor in chambers["shelf_2"].sensor] == [3]
    lamp = chambers["shelf_2"].light
    assert (lamp.enabled, lamp.gamma, lamp.ramp_s) == (True, 2.2, 3)
    assert (chambers["shelf_3"].sensor, chambers["shelf_3"].light.enabled) == ((), False)
    assert not load(file, ("chamber.shelf_2.light.enabled=false",)).chamber["shelf_2"].light.enabled


def test_no_error_shows_a_password(file):
    for text in (
        "[couchdb]\nurl = http://grower:secret@host\n",
        "[notify]\npassword = secret\n",
        "[replication]\nurl = 'http://host/?q=secret'\n",
    ):
        file.write_text(text)
        refusal(file=file)


BAD_NAMES = ("..", ".hidden", "-", "a" * 65)
SWITCH = "[[sensor]]\nname = 'door'\nkind = 'gpio'\nvariable = 'door_open'\n"
FOR_DIMMING = ("frequency_hz = 500", "ramp_s = 5", "gamma = 2.2", "minimum_duty = 0.1")
WRONG_FILES = {
    # names
    RELAYS.replace('"fan"', '"valve"'): "[output] name",
    RELAYS.replace('"fan"', '"light"'): "[output] name",
    RELAYS.replace('"fan"', '"scd30_1"'): "[output] name",
    SHELF.replace('"valve"', '"light"'): "[chamber.shelf_2.output] name",
    "[[sensor]]\nname = 'light'\nkind = 'bh1750'": "[sensor] name",
    SCD30 + BH1750.replace("lux", "air"): "[sensor] name",
    **{f"[[sensor]]\nkind = 'scd30'\nname = '{name}'\n": f"[sensor] {name}.name" for name in BAD_NAMES},
    # pins
    RELAYS.replace("24", "23"): "[output] pin",
    LAMP + RELAYS.replace("24", "12"): "[output] pin",
    RELAYS.replace("24", "3"): "[output] pin",
    RELAYS.replace("24", "28"): "[output] fan.pin",
    "[[light.channel]]\nname = 'red'\npin = 2": "[light] channel.pin",
    SCD30 + "bus = 0\n[[light.channel]]\nname = 'red'\npin = 1": "[light] channel.pin",
    LAMP + SHELF.replace("21", "12"): "[chamber.shelf_2.output] pin",
    LAMP + SHELF.replace("20", "13"): "[chamber.shelf_2.light] channel.pin",
    SHELF + RELAYS.replace("23", "21"): "[chamber.shelf_2.output] pin",
    SHELF.replace("21", "2"): "[chamber.shelf_2.output] pin",
    RELAYS + SHELF.replace('"scd30"\nbus = 3', '"mhz19"\nport = "/dev/serial0"').replace("21", "14"): (
        "[chamber.shelf_2.output] pin"
    ),
    # outputs of one variable
    RELAYS.replace("air_flush_on", "air_carbon_dioxide_valve_on").replace('"on"', '"off"') + "needs = ''": (
        "[output] needs"
    ),
    RELAYS.replace("air_carbon_dioxide_valve_on", "air_flush_on"): "[output] safe",
    RELAYS.replace("air_flush_on", "air_carbon_dioxide_valve_on"): "[output] safe",
    # values of wrong types, or beyond their ranges
    RELAYS.replace("air_flush_on", "air_humidity"): "[output] fan.variable",
    SCD30 + "interval_s = 0.05": "[sensor] air.interval_s",
    SCD30 + "altitude_m = 65536": "[sensor] air.altitude_m",
    SCD30 + "temperature_offset_degc = nan": "[sensor] air.temperature_offset_degc",
    SCD30 + "self_calibration = 1": "[sensor] air.self_calibration",
    MHZ19 + "port = 'COM3'": "[sensor] air.port",
    AT_A_PORT + "range_ppm = 3000": "[sensor] air.range_ppm",
    "[[sensor]]\nname = 'ph'\nkind = 'ads1115'\npoints = [[2.8, 4], [1.2, 'x']]\n": "[sensor] ph.points.1.1",
    # the lamp
    **{f"[light]\nkind = 'relay'\n{each}": f"[light] {each.split()[0]}" for each in FOR_DIMMING},
    "light = {kind = 'relay', channel = [{name='red', pin=22, mix=0.4}]}": "[light] channel.mix",
    "[light]\nkind = 'hardware_pwm'\n[[light.channel]]\nname = 'red'\npin = 22\n": "[light] kind",
    f"light = {{frequency_hz = {MAXIMUM_SOFTWARE_PWM_HZ + 1}, channel = [{{name='red', pin=22}}]}}": (
        "[light] frequency_hz"
    ),
    # sensors
    MHZ19: "[sensor] port",
    MHZ19 + "bus = 3": "[sensor] port",
    AT_A_PORT + "bus = 3": "[sensor] bus",
    AT_A_PORT + "address = 77": "[sensor] address",
    AT_A_PORT + "altitude_m = 3": "[sensor] altitude_m",
    SCD30.replace("scd30", "scd4x") + "altitude_m = 4000\n": "[sensor] altitude_m",
    SWITCH + "pin = 3\npull = 'down'\n": "[sensor] pull",
    BH1750 + "calibrate_every_days = 30\n": "[sensor] calibrate_every_days",
    BH1750 + "self_calibration = true": "[sensor] self_calibration",
    SCD30 + "[drift]\nair_temperature = 0.5\n": "[drift] air_temperature",
    SHELF.replace("bus = 3", "bus = 3\nrange_ppm = 2000"): "[chamber.shelf_2.sensor] range_ppm",
    AT_A_PORT + "range_ppm = 5000\n" + VALVE: "[sensor] range_ppm",
    AT_A_PORT + "range_ppm = 2000\n" + FAN: "[sensor] range_ppm",
    AT_A_PORT + VALVE + "[interlock]\nceiling_ppm = 9999.5\n": "[sensor] range_ppm",
    # sections of further environments
    "[http\nport=1": "",
    "chamber = 3": "[chamber]",
    "[chamber]\nshelf_2 = 3": "[chamber.shelf_2]",
    "[chamber.'a/b']": "[chamber.a/b]",
    "[chamber.environments]": "[chamber.environments]",
    "[chamber.environment_1]": "[chamber.environment_1]",
    "[chamber.shelf_2.http]": "[chamber.shelf_2.http]",
    "[chamber.shelf_2.light]\nlevel = 1": "[chamber.shelf_2.light] level",
    SHELF.replace('"scd30"', '"scd31"'): "[chamber.shelf_2.sensor] scd30_1.kind",
    SHELF + "filter.weight = 2": "[chamber.shelf_3.filter] weight",
    SHELF + "[[chamber.shelf_2.sensor]]\nname = 'x'": "[chamber.shelf_2.sensor] x.kind",
    SHELF + "light.channel = []": "[chamber.shelf_3.light] channel",
}


def test_a_wrong_file_is_refused(file, said):
    found, sentences = {}, []
    for text in WRONG_FILES:
        file.write_text(text)
        error = refusal(file=file)
        found[text] = places(error)
        sentences.append(str(error))
    assert found == WRONG_FILES
    said(sentences)


def test_a_file_that_cannot_be_read_is_named(file):
    assert f"{file}: can't be read: No such file" in str(refusal(file=file))
    file.write_bytes(b"\xff\xfe")
    assert f"{file}:1: it is in UTF-16" in str(refusal(file=file))


def test_a_valid_file_is_loaded(file):
    for text in (
        AT_A_PORT + VALVE,
        AT_A_PORT + VALVE + "[interlock]\nceiling_ppm = 9999\n",
        AT_A_PORT + "range_ppm = 2000\n" + VALVE + "[interlock]\nceiling_ppm = 1999\n",
        VALVE + "[interlock]\nceiling_ppm = 30000\n",  # an SCD30
        "[[sensor]]\nname = 'air'\nkind = 'mhz16'\naddress = 0x4D\n",  # behind a bridge
        RELAYS.replace("24", "12") + "[light]\nenabled = false\n",  # a pin of the lamp that is not there
        LAMP + "kind = 'hardware_pwm'\n",
        "[[chamber.shelf_2.sensor]]\nname = 'air'\nkind = 'scd30'\naddress = 0x60\n",  # on the same bus
    ):
        file.write_text(text)
        load(file)

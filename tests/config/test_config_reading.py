import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.config import Config, ConfigError, load
from growd.config.lines import lines_of
from growd.config.profiles import PROFILES, profile_path
from growd_cli.config_checks import DEVICE_CHECKS, DOUBTS

NOT_TOML = ("9" * 6000, "[" * 3000, "8080\nname = 1")

WRONG = """\
[http]
prot = 8080
host = 5

[light]
gamma = "bright"
[[light.channel]]
name = "white"
pin = 2

[[sensor]]
name = "air"
kind = "scd30"

[[sensor]]
name = "gas"
kind = "scd31"

[[output]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"

[[output]]
name = "valve"
pin = 23
variable = "air_flush_on"

[chamber.shelf_2.interlock]
ceiling_pmm = 4000

[wifi]
name = "x"
"""


TWO_SENSORS = """\
[[sensor]]
name = "a"
kind = "scd30"
[[sensor]]
name = "b"
kind = "scd30"
bus = 3
[combine]
air_temperature = "median"
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "growd.toml"


def refused(path):
    with pytest.raises(ConfigError) as caught:
        load(path, environ={}, checks=DEVICE_CHECKS)
    return caught.value.findings


def findings(path, *settings, **environ):
    with pytest.raises(ConfigError) as caught:
        load(path, settings, environ=environ, checks=DEVICE_CHECKS)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def test_one_error_lists_everything_that_is_wrong_with_its_line(file, said):
    file.write_text(WRONG)
    found = findings(file)
    assert [line.partition(":")[0] for line in found] == ["2", "3", "6", "17", "25", "26", "30", "32"]
    said(found)


CONFLICTS = {
    "a wrong device causes no others": (
        # the lamp's default pins, or the address of a sensor of no known kind
        "[light]\nchannel = 3\n[[output]]\nname = 'fan'\npin = 12\nvariable = 'air_flush_on'\n"
    ),
    "each has its line": (
        "".join(f"[[sensor]]\nname = '{name}'\nkind = 'bh1750'\n" for name in "abc")
        + "[light]\nneeds_sensor = false\n[store.variable.air_humidty]\nabsolute_band = 1\n"
    ),
    "numbers are finite": (
        '[[alert]]\nname = "warm"\nkind = "out_of_band"\nvariable = "air_temperature"\nabove = nan\n'
        "below = inf\n[store.variable.air_temperature]\nabsolute_band = inf\n"
    ),
    "topics": (
        '[topics]\n"a//b" = "std_msgs/Float64"\n"environment_1/note" = "std_msgs/String"\n'
        '"environment_1/measured/air_temperature" = "std_msgs/Float64"\n'
        '"environment_1/interlocks/new" = "std_msgs/String"\n"alerts/event" = "std_msgs/String"\n'
    ),
}


LOW_RANGE = """
[[sensor]]
name = "a"
kind = "mhz19"
port = "/dev/ttyUSB0"
range_ppm = 2000
[[output]]
name = "v"
pin = 4
variable = "air_flush_on"
"""
OTHERS = (
    ('[[output]]\nname = "a"\npin = 1\nvariable = "auxiliary_1"\ndrives = ["warmth"]', "output"),
    ('[[condition]]\nname = "a"\nvariable = "air_temperature"\nabove = 3\noutputs = ["b"]', "condition"),
    ('[[sensor]]\nname = "a"\nkind = "ads1115"', "sensor"),
    ('[couchdb]\nurl = "box:5984"', "couchdb"),
    ('[environment]\ntime_zone = "Mars/X"', "environment"),
    ('[[alert]]\nname = "a"\nkind = "out_of_band"\nabove = 3', "alert"),
    ("[control.air_temperature]\nmethod = 'pid'", "control"),
)


@pytest.mark.parametrize(
    ("wrong", "other", "path"),
    [
        ("[http]\nport = true", "[retention]\nkeep_days = 1", "retention"),
        ("[store]\nmax_age_s = true", '[combine]\nair_temperature = "median"', "combine"),
        ("[[sensor]]\nname = 5", '[couchdb]\nurl = "box:5984"', "couchdb"),
        ('[[notify]]\nname = "a"\nkind = "smtp"', "[retention]\nkeep_days = 1", "retention"),
        ("[environment]\ntime_zone = 5", '[[output]]\nname = "a"\npin = 1\ndrives = ["warmth"]', "output"),
        *(
            (wrong, *other)
            for wrong in (
                "[bogus]\na = 1",
                "[interlock]\nceilng = 1",
                "[filter]\nweight = 7",
                "[http]\nprot = 1",
            )
            for other in OTHERS
        ),
    ],
)
def test_a_wrong_type_does_not_hide_faults_of_other_sections(file, wrong, other, path):
    file.write_text(other)
    alone = refused(file)
    assert {finding.path[0] for finding in alone} == {path}
    file.write_text(f"{wrong}\n{other}")
    both = refused(file)
    assert [finding for finding in both if finding.path[0] == path] == alone
    assert len(both) > len(alone)


DEVICES = """
[[chamber.a.sensor]]
name = "first"
kind = "scd30"
[[chamber.a.sensor]]
name = "door"
kind = "gpio"
pin = 17
variable = "door_open"
port = "/dev/ttyS0"
[[chamber.a.sensor]]
name = "lux"
kind = "bh1750"
address = 0x61
[[chamber.a.output]]
name = "heat"
pin = 17
variable = "air_heater"
url = "http://x"
[[chamber.a.output]]
name = "fog"
pin = 18
variable = "water_heater"
safe = "on"
"""


@pytest.mark.parametrize("chamber", ["chamber.a.", ""])
@pytest.mark.parametrize("section", ["sensor", "output"])
def test_a_wrong_kind_does_not_hide_the_faults_of_other_devices(file, chamber, section):
    file.write_text(DEVICES.replace("chamber.a.", chamber))
    alone = refused(file)
    wrong = f'[[{chamber}{section}]]\nname = "wrong"\nkind = "nothing"\n'
    file.write_text(wrong + file.read_text())
    own, *others = refused(file)
    assert own.path[-3:] == (section, 0, "kind")
    found = {(each.path[-3], each.path[-2] - (section in each.path), *each.path[-1:]) for each in others}
    assert found == {each.path[-3:] for each in alone} - {("output", 1, "needs")}
    assert len(found) >= 5


@pytest.mark.parametrize(
    ("wrong", "other"),
    [
        ('[http]\nhost = 5\n[couchdb]\nurl = "http://127.0.0.1:1"', ""),
        (
            "[mqtt]\nhost = 5",
            '[[sensor]]\nname = "a"\nkind = "mqtt"\ntopic = "t"\nvariable = "water_potential_hydrogen"',
        ),
        (
            '[environment]\nid = "a"\ntime_zone = 5',
            '[topics]\n"environment_1/measured/air_temperature" = "std_msgs/Float64"',
        ),
        ('[[notify]]\nname = "a"\nkind = 5', '[[alert]]\nname = "x"\nkind = "no_value"\nchannels = ["a"]'),
        ('[[sensor]]\nname = "a"\nkind = 5', '[[alert]]\nname = "x"\nkind = "device_failed"\ndevice = "a"'),
        (
            '[[sensr]]\nname = "a"',
            '[[alert]]\nname = "x"\nkind = "no_value"\nvariable = "water_potential_hydrogen"',
        ),
        ("[interlock]\nceiling_ppm = true", LOW_RANGE),
    ],
)
def test_a_wrong_type_has_no_further_faults(file, wrong, other):
    file.write_text(f"{other}\n{wrong}")
    (finding,) = refused(file)
    assert finding.is_numbered


def test_a_misspelt_variable_of_an_output_has_no_further_faults(file):
    file.write_text(
        '[[sensor]]\nname = "a"\nkind = "scd30"\n[control.air_temperature]\n[[output]]\nname = "b"\npin = 4\n'
        'variable = "auxiliary_1"\ndrives = ["air_temprature"]'
    )
    (finding,) = refused(file)
    assert finding.path == ("output", 0, "drives")


@pytest.mark.parametrize("name", CONFLICTS)
def test_every_conflict_has_its_line(file, name, said):
    file.write_text(CONFLICTS[name])
    said(findings(file))


def test_variables_override_the_file_and_settings_override_variables(file):
    file.write_text("[http]\nport = 1\nname = 'a'\nhost = '127.0.0.1'\n")
    environ = {
        "GROWD_HTTP__PORT": "2",
        "GROWD_HTTP__NAME": "b",
        "GROWD_CHAMBER__SHELF_2__FILTER__WEIGHT": "0.2",
        "GROWD_DATA": "elsewhere",
        "HTTP__PORT": "9",
    }
    config = load(file, ("http.port=3",), environ=environ)
    assert (config.http.port, config.http.name) == (3, "b")
    assert config.chamber["shelf_2"].filter.weight == 0.2
    environ = {  # one for an option overrides one for its table
        "GROWD_STORE__VARIABLE__AIR_HUMIDITY__ABSOLUTE_BAND": "0.5",
        "GROWD_STORE__VARIABLE": "{air_humidity = {absolute_band = 2, maximum_interval_s = 9}}",
    }
    rule = load(None, environ=environ).store.variable["air_humidity"]
    assert (rule.absolute_band, rule.maximum_interval_s) == (0.5, 9)


def test_a_variable_with_one_underscore_too_few_gets_the_right_name(said):
    with said.raises(ConfigError):
        load(None, environ={"GROWD_HTTP_PORT": "8080"})
    others = {"GROWD_URL": "http://chamber", "GROWD_USER": "bob", "GROWD_TEST_COUCHDB": "http://couch"}
    assert load(None, environ=others) == Config()


def test_a_wrong_variable_or_setting_is_named(file, said):
    file.write_text("[http]\nport = 1\n[retention]\nkeep_days = -1\n")
    said(findings(file, "http.port=x", GROWD_STORE__MAX_AGE_S="0", GROWD_HTTPS__PORT="1")[1:])
    assert findings(file, GROWD_HTTPS__PORT="1")[0].startswith("GROWD_HTTPS__PORT: [https]: unknown section")
    assert findings(file, GROWD_SENSOR__X="1")[0].startswith("GROWD_SENSOR__X: [sensor]: must be a list")
    file.write_text("")
    (lamps, *_) = findings(file, GROWD_LIGHT__GAMMA="2", GROWD_CHAMBER__SHELF_2__LIGHT__GAMMA="2")
    assert lamps.startswith("GROWD_CHAMBER__SHELF_2__LIGHT__GAMMA: [chamber.shelf_2.light] channel.pin: ")


KEYS = st.text("abc_-1", min_size=1, max_size=3) | st.sampled_from(['"a b"', "'c.d'", '"\\u00e4#["'])
SCALARS = st.sampled_from(
    [
        "1",
        "-2.5e3",
        "true",
        '"x # ] } \\" \'"',
        "'\\'",
        '"""\na\n"b" # ]\n"""',
        "'''\n''x\n'''",
        "0x1F",
        "1979-05-27 07:32:00",
        "inf",
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: "[ # a ] comment\n " + ",\n ".join(each) + "\n]")
        | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2).map(
            lambda each: "{" + ", ".join(f"{key} = {value}" for key, value in each.items()) + "}"
        )
    ),
    max_leaves=6,
)
LINES = st.lists(
    st.tuples(KEYS, KEYS, VALUES).map(lambda each: f"{each[0]} . {each[1]} = {each[2]} # so")
    | st.tuples(KEYS, VALUES).map(" = ".join)
    | KEYS.map(lambda key: f"[ {key} ]")
    | st.tuples(KEYS, KEYS).map(lambda keys: f"[{keys[0]}.{keys[1]}]  # table")
    | KEYS.map(lambda key: f"[[{key}]]")
    | st.tuples(KEYS, KEYS).map(lambda keys: f"[[{keys[0]}.{keys[1]}]]")
    | st.sampled_from(["", "# [nothing]", "\t"]),
    max_size=8,
)


def places(value, path=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path} | {place for key, each in inner for place in places(each, (*path, key))}


@given(LINES)
def test_every_key_of_a_file_has_a_line(lines):
    text = "\n".join(lines)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = lines_of(text)
    assert {*found} == places(tree) - {()}
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())
    for path, line in found.items():
        if isinstance(path[-1], str):
            written = text.split("\n")[line - 1]
            assert path[-1] in written or "\\u00e4" in written


def test_lines_of_a_file():
    text = (
        '\n[http]\nport = 1\na.b = [ 1, # ]\n  {x = 1, "y z" = 2} ]\n[[sensor]]\nname = """a\nb"""\n'
        "[[sensor]]\nname = 'x'\n[chamber.s.light]\n[[chamber.s.light.channel]]\npin = 2"
    )
    found = lines_of(text)
    assert found["http", "a", "b", 1, "y z"] == 5
    assert found["sensor", 0, "name"] == 7
    assert (found["sensor",], found["sensor", 1], found["sensor", 1, "name"]) == (6, 9, 10)
    assert found["chamber", "s", "light", "channel", 0, "pin"] == 13


def test_a_setting_that_is_not_toml_is_text(file):
    file.touch()
    for value in NOT_TOML:
        (sentence,) = findings(file, f"http.port={value}")
        start = "--set http.port: [http] port: must be a whole number from 0 to 65535, got '"
        assert sentence.startswith(start)
    for setting in ("http.port=\udcff", "chamber.\udcff.light.enabled=true"):
        (sentence,) = findings(file, setting)
        assert sentence == f"--set {setting.partition('=')[0]}: is not UTF-8"


def test_a_login_in_the_wrong_place_is_not_shown(file, said):
    address = "http://admin:secret@database:5984"
    file.write_text(f'couchdb = "{address}"\n')
    said(findings(file))
    file.write_text(f"[couchdb]\nurl = ['{address}']\n")
    assert "secret" not in findings(file)[0]
    file.write_text("[couchdb]\nurl = 'http://database:5984'\n")
    errors = [
        *findings(file, f"couchdb_url={address}"),
        *findings(file, GROWD_COUCHDB__=address),
        *findings(file, GROWD_COUCHDB__URL__X=address),
    ]
    said(errors)


MISTAKES = (
    "[[sensor]]\nname = co2\n",
    "[simulator]\nenabled = True\n",
    "[interlock]\nlight_off_degc = 38,5\n",
    "[http]\nname = “fan”\n",
    "[http]\nname = „fan“ # “\n",
    "[http]\nname\u00a0= 'ü'\n",
    "[[output]]\nname = Lüfter\n",
    "[[output]]\nname = 'Lüfter 2'\npin = 4\nvariable = 'air_flush_on'\n",
    "[[output]]\nname = 'f'\npin = 'GPIO24'\nvariable = 'air_flush_on'\n",
    "[[output]]\nname = 'f'\npin = 30\nvariable = 'air_flush_on'\n",
    "[[output]]\nname = 'f'\npin = 40\nvariable = 'air_flush_on'\n",
    "[http\n",
    "[[sensor]]\nname = 'a'\nkind = 'scd30'\naddress = '0x61'\n",
    "[[sensor]]\nname = 'a'\nkind = 'scd30'\nport = '/dev/ttyS0'\n",
    *(f"[[sensor]]\nname = 'a'\nkind = '{kind}'\n" for kind in ("dht22", "scd41", "SHT31", "ezo-ph")),
    "[[alert]]\nname = 'm'\nkind = 'hold'\nchannels = 'a'\n",
    *(f"[[output]]\nname = 'f'\npin = 4\nvariable = '{role}'\n" for role in ("air_flush", "Heater", "fog")),
    "[[alert]]\nname = 'm'\nkind = 'no-values'\n",
    "[[chamber]]\nname = 'x'\n",
    "[combine]\nair_co2 = 'first'\n",
    "[store.variable.temperature]\nabsolute_band = 1\n",
    *(f"[control.{name}]\nkp = 1\n" for name in ("temperature", "air_heater", "light_illuminance")),
    "[control.air_temperature]\nkp = 1\n",
    "[control.water_temperature]\nkp = 1\n",
)


def test_a_common_mistake_gets_a_correction(file, said):
    for text in MISTAKES:
        file.write_text(text)
        said(findings(file))


def test_a_file_may_begin_with_a_byte_order_mark_and_another_encoding_gets_its_line(file):
    file.write_bytes("\ufeff[http]\r\nport = 8080\r\n".encode())
    assert load(file, environ={}).http.port == 8080
    for encoding, line in (("latin-1", 2), ("utf-16", 1)):
        file.write_bytes(b"[http]\n" + "name = 'é' # Lüfter\n".encode(encoding))
        with pytest.raises(ConfigError, match=rf"growd.toml:{line}: it is .*not in UTF-8; save it as UTF-8"):
            load(file, environ={})


DOSING = """[[sensor]]
name = "ph"
kind = "ezo_ph"
interval_s = 10
[[output]]
name = "acid"
pin = 5
drives = ["water_potential_hydrogen"]
direction = "lowers"
flow_ml_min = 30
"""
COOLING = """[[sensor]]
name = "air"
kind = "scd30"
[[output]]
name = "{name}"
kind = "pwm"
pin = 5
drives = ["air_temperature"]
direction = "lowers"
"""
CIRCULATION = "[[output]]\nname = 'pump'\npin = 6\ndrives = ['water_circulation']\n"


DOUBTED = (
    "[[sensor]]\nname = 'a'\nkind = 'tsl2591'\naddress = 0x39\n",
    "light = {kind = 'hardware_pwm', channel = [{name='red', pin=12}, {name='white', pin=18}]}\n",
    "[[sensor]]\nname = 'p'\nkind = 'ezo_ph'\n",
    TWO_SENSORS,
    COOLING.format(name="exhaust_1"),
    DOSING,
)
SOUND = (
    COOLING.format(name="peltier"),
    COOLING.format(name="exhaust_1") + "variable = 'air_cooler'\n",
    DOSING + CIRCULATION,
    DOSING + "[interlock]\nmixing_pause_s = 300\n",
    *(profile_path(profile).read_text() for profile in PROFILES),
)


def warnings_of(file, text):
    file.write_text(text if "[simulator]" in text else f"{text}\n[simulator]\n")
    warnings = []
    load(file, environ={}, checks=DEVICE_CHECKS, doubts=DOUBTS, warn=warnings.append)
    return warnings


def test_a_doubtful_configuration_is_loaded_with_a_warning(file, said):
    warnings = [warnings_of(file, text) for text in DOUBTED]
    said([warning for (warning,) in warnings])
    assert [warnings_of(file, text) for text in SOUND] == [[]] * len(SOUND)


def test_relative_files_are_those_beside_the_configuration(tmp_path, monkeypatch):
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "secret").write_text("x")
    file = folder / "growd.toml"
    hook = "[[notify]]\nname = 'h'\nkind = 'apprise'\n"
    file.write_text(f"{hook}url_file = 'secret'\n[couchdb]\ncredentials_file = 'sub/login'\n")
    monkeypatch.chdir(tmp_path)
    config = load(file.relative_to(tmp_path), environ={})
    assert config.notify[0].url_file == str(folder / "secret")
    assert config.couchdb.credentials_file == str(folder / "sub/login")
    given = tmp_path / "credentials"
    given.mkdir()
    (given / "secret").write_text("y")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))  # systemd's come first
    assert load(file, environ={}).notify[0].url_file == "secret"
    file.write_text(f"{hook}url_file = 'elsewhere'\n")
    assert load(file, environ={}).notify[0].url_file == "elsewhere"

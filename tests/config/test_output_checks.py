"""What growd says of outputs that do not go together."""

import pytest
from msgspec.structs import replace

from growd.config import ConfigError, Output, load
from growd.config.outputs import REPEAT_S
from growd_cli.config_doubts import DOUBTS

AIR = '[[sensor]]\nname = "air"\nkind = "scd30"\n'
HEATING = '[[output]]\nname = "heater"\ndrives = ["air_temperature"]\n'
HEATER = HEATING + "pin = 17\n"
FAN = '[[output]]\nname = "fan"\ndrives = ["air_carbon_dioxide"]\ndirection = "lowers"\npin = 18\n'
VALVE = '[[output]]\nname = "valve"\ndrives = ["air_carbon_dioxide"]\n'
PLUG = 'kind = "http"\nprotocol = "shelly_gen2"\nurl = "http://192.168.1.40"\n'
PLAIN = 'kind = "http"\nurl_on = "http://x/1"\nurl_off = "http://x/0"\n'
MESSAGES = 'kind = "mqtt"\ntopic = "a"\n'
NEW = '[[output]]\nname = "panel"\npin = 18\n'
SECOND = 'variable = "auxiliary_2"\n'
RED_LAMP = "[light]\n[[light.channel]]\nname = 'red'\npin = 17\n"
BROKER = '[mqtt]\nhost = "broker"\n'
REAL = "[simulator]\nenabled = false\n"


def loaded(tmp_path, text, sensors=AIR):
    file = tmp_path / "growd.toml"
    file.write_text(sensors + text)
    warnings = []
    config = load(file, environ={}, doubts=DOUBTS, warn=warnings.append)
    return config, "\n".join(warnings)


def refused(tmp_path, text, sensors=AIR):
    """Where the faults are, and the sentences."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text, sensors)
    return ", ".join(dict.fromkeys(each.where for each in caught.value.findings)), str(caught.value)


def test_one_address_of_a_plain_device_is_one_relay_in_any_spelling(tmp_path):
    plain = 'kind = "http"\nurl_on = "http://plug/on?n={}"\nurl_off = "http://plug/off?n={}"\n'
    plain += "may_stay_on = true\n"
    heater = HEATER.replace("pin = 17\n", plain.replace("{}", "1"))
    fan = FAN.replace("pin = 18\n", plain)
    loaded(tmp_path, heater + fan.replace("{}", "2"))
    same = heater + fan.replace("{}", "1").replace("http://plug", "HTTP://PLUG:80")
    assert refused(tmp_path, same)[0] == "[output] url"


@pytest.mark.parametrize(
    ("protocol", "topic"), [("plain", "plug"), ("tasmota", "cmnd/plug/POWER1"), ("shelly_gen2", "plug/rpc")]
)
def test_a_command_does_not_confirm_itself(tmp_path, protocol, topic):
    heater = HEATER.replace(
        "pin = 17", f'kind = "mqtt"\nprotocol = "{protocol}"\ntopic = "plug"\nmay_stay_on = true'
    )
    state = '[[sensor]]\nname = "state"\nkind = "mqtt"\ntopic = "{}"\nconfirms = "heater"\n'
    assert refused(tmp_path, heater + state.format(topic) + BROKER)[0] == "[sensor] topic"
    loaded(tmp_path, heater + state.format("stat/plug/POWER") + BROKER)


VALID = (
    HEATER,
    HEATER + "power_w = 200\nflow_ml_min = 1\n",
    FAN + 'safe = "on"\n',
    HEATER + 'kind = "pwm"\nfrequency_hz = 1\nminimum_duty = 0.2\n',
    HEATER.replace("17", "12") + 'kind = "hardware_pwm"\nfrequency_hz = 25000\n',
    VALVE + PLUG,
    VALVE + PLUG + HEATER.replace("pin = 17\n", f"{PLUG}relay_number = 1\n"),
    VALVE + 'kind = "mqtt"\nprotocol = "tasmota"\ntopic = "plug"\n' + BROKER,
    VALVE + 'kind = "topic"\nmay_stay_on = true\n',
    '[[output]]\nname = "it"\nkind = "topic"\nvariable = "auxiliary_3"\ndrives = ["air_pressure"]\n',
    HEATER + 'variable = "auxiliary_1"\n',
    '[[output]]\nname = "a"\npin = 17\nvariable = "nutrient_a"\nflow_ml_min = 40\nneeds = ""\n',
    FAN.replace("air_carbon_dioxide", "air_temperature") + 'variable = "air_flush_on"\n',
)


def test_valid_outputs(tmp_path):
    for text in VALID:
        loaded(tmp_path, text)


WRONG = {
    HEATER + HEATER.replace('"heater"', '"second"'): "[output] pin",
    HEATER + HEATER.replace("17", "18"): "[output] name",
    HEATER.replace('"heater"', '"air"'): "[output] name",
    HEATER.replace('"heater"', '"light"'): "[output] name",
    HEATING: "[output] pin",
    HEATER.replace("17", "2"): "[output] pin",
    HEATER + 'kind = "ssr"\nfrequency_hz = 5\n': "[output] frequency_hz",
    HEATER + "frequency_hz = 5\n": "[output] frequency_hz",
    HEATER + 'url = "http://x"\n': "[output] url",
    HEATER + 'kind = "hardware_pwm"\n': "[output] pin",
    HEATER + 'kind = "pwm"\nfrequency_hz = 5000\n': "[output] frequency_hz",
    FAN + 'kind = "pwm"\n': "[output] kind",
    HEATER.replace("air_temperature", "air_temprature"): "[output] drives",
    HEATER.replace("air_temperature", "air_cooler") + 'variable = "air_heater"\n': "[output] drives",
    HEATER.replace("air_temperature", "air_humidity") + 'variable = "air_heater"\n': "[output] drives",
    HEATER + 'variable = "air_heater"\ndirection = "lowers"\n': "[output] direction",
    HEATER.replace("air_temperature", "air_pressure"): "[output] variable",
    '[[output]]\nname = "it"\npin = 4\n': "[output] drives",
    VALVE + 'pin = 17\nsafe = "on"\n': "[output] safe",
    HEATER + 'safe = "on"\n': "[output] safe",
    HEATER + 'needs = "water_level"\n': "[output] needs",
    HEATER.replace("air_temp", "water_temp"): "[output] needs",
    '[[output]]\nname = "a"\npin = 17\nvariable = "nutrient_a"\nneeds = ""\n': "[output] flow_ml_min",
    HEATER + "mix = 0.5\n": "[output] mix",
    VALVE + 'kind = "http"\n': "[output] url_on, [output] url_off, [output] may_stay_on",
    VALVE + PLUG.replace("192", "admin:x@192"): "[output] url",
    VALVE + PLUG.replace("http://", ""): "[output] url",
    VALVE + PLUG + 'url_on = "http://x"\n': "[output] url_on",
    VALVE + PLAIN: "[output] may_stay_on",
    HEATING + PLAIN: "[output] may_stay_on",
    VALVE + 'kind = "topic"\n': "[output] may_stay_on",
    VALVE + 'kind = "mqtt"\ntopic = "a/b"\n' + BROKER: "[output] may_stay_on",
    HEATING + 'kind = "mqtt"\ntopic = "a/#"\n' + BROKER: "[output] topic, [output] may_stay_on",
    HEATING + MESSAGES + REAL: "[output] kind, [output] may_stay_on",
    HEATING + MESSAGES + 'protocol = "shelly_gen1"\n' + BROKER: "[output] protocol",
    HEATING + MESSAGES + 'protocol = "tasmota"\n' + 'payload = "level"\n' + BROKER: "[output] payload",
    f"{RED_LAMP}{NEW}drives = ['light_intensity_red']\n": "[output] variable",
    NEW + "drives = ['light_illuminance']\nlongest_on_s = 60\n": "[output] longest_on_s",
    VALVE + PLUG + HEATING + PLUG: "[output] url",
    VALVE + PLUG + HEATING + PLUG.replace('168.1.40"', '168.1.40:80/"'): "[output] url",
    FAN.replace("pin = 18\n", PLAIN.replace("x/0", "x/1")): "[output] url_off",
    HEATER + 'variable = "auxiliary_1"\nsafe = "on"\n': "[output] safe",
    HEATER + 'variable = "air_circulation"\n': "[output] variable",
    HEATING.replace('["air_', '["air_carbon_dioxide", "air_') + "variable = 'air_flush_on'\npin = 17\n": (
        "[output] direction, [output] variable"
    ),
    NEW + f"{SECOND}drives = ['water_potential_hydrogen']\ndirection = 'lowers'\n": (
        "[output] flow_ml_min, [output] needs"
    ),
    NEW + f"{SECOND}drives = ['air_carbon_dioxide']\nsafe = 'on'\nneeds = ''\n": "[output] safe",
    FAN + "[[condition]]\nname = 'odd'\noutputs = ['fan']\nvariable = 'air_flush_on'\non = true\n": (
        "[condition] variable"
    ),
    NEW + "drives = ['light_illuminance', 'air_temperature']\n": "[output] drives",
}


def test_what_does_not_go_together_is_refused(tmp_path, said):
    found = {text: refused(tmp_path, text) for text in WRONG}
    assert {text: where for text, (where, _) in found.items()} == WRONG
    said([sentences for _, sentences in found.values()])


def test_a_valve_for_co2_without_a_sensor_is_refused(tmp_path):
    light = '[[sensor]]\nname = "lux"\nkind = "bh1750"\n'
    assert refused(tmp_path, VALVE + "pin = 17\n", light)[0] == "[output] needs"


def test_outputs_that_may_stay_on_or_share_a_channel_on_most_models_are_a_warning(tmp_path):
    heater = HEATER.replace("pin = 17\n", 'kind = "topic"\n')
    assert "heater stays on if growd hangs" in loaded(tmp_path, heater)[1]
    assert "stays on" not in loaded(tmp_path, f"{heater}may_stay_on = true\n")[1]
    pump = HEATER.replace("17", "12").replace('"heater"', '"b"') + 'kind = "hardware_pwm"\n'
    heater = '[[output]]\nname = "heater"\npin = 18\nkind = "hardware_pwm"\nvariable = "auxiliary_1"\n'
    assert "GPIO 12 and GPIO 18 share one PWM channel" in loaded(tmp_path, pump + heater)[1]


def test_the_timer_of_a_tasmota_device_makes_no_output_safe_that_is_safe_when_on():
    fan = Output(name="fan", kind="http", protocol="tasmota", variable="air_circulation")
    assert (fan.has_timer, fan.lease.renewed_s) == (True, 15)
    on = replace(fan, safe="on")
    assert (on.has_timer, on.lease.renewed_s) == (False, REPEAT_S)
    assert replace(on, protocol="shelly_gen2").has_timer

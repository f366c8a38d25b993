"""What growd says of outputs that do not go together."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from growd.config import ConfigError, Output, load
from growd.config.doubts import DOUBTS
from growd.config.outputs import REPEAT_S
from growd.wiring.outputs import place_of_output

AIR = '[[sensor]]\nname = "air"\nkind = "scd30"\n'
HEATER = '[[output]]\nname = "heater"\ndrives = ["air_temperature"]\npin = 17\n'
FAN = '[[output]]\nname = "fan"\ndrives = ["air_carbon_dioxide"]\ndirection = "lowers"\npin = 18\n'
VALVE = '[[output]]\nname = "valve"\ndrives = ["air_carbon_dioxide"]\n'
PLUG = 'kind = "http"\nprotocol = "shelly_gen2"\nurl = "http://192.168.1.40"\n'
BROKER = '[mqtt]\nhost = "broker"\n'
REAL = "[simulator]\nenabled = false\n"


def loaded(tmp_path, text: str, sensors: str = AIR):
    file = tmp_path / "growd.toml"
    file.write_text(sensors + text)
    warnings: list[str] = []
    config = load(file, environ={}, doubts=DOUBTS, warn=warnings.append)
    return config, "\n".join(warnings)


def refused(tmp_path, text: str, sensors: str = AIR) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text, sensors)
    return str(caught.value)


def test_one_address_of_a_plain_device_is_one_relay_in_any_spelling(tmp_path):
    plain = 'kind = "http"\nurl_on = "http://plug/on?n={}"\nurl_off = "http://plug/off?n={}"\n'
    plain += "may_stay_on = true\n"
    heater = HEATER.replace("pin = 17\n", plain.replace("{}", "1"))
    fan = FAN.replace("pin = 18\n", plain)
    loaded(tmp_path, heater + fan.replace("{}", "2"))
    said = refused(tmp_path, heater + fan.replace("{}", "1").replace("http://plug", "HTTP://PLUG:80"))
    assert "heater and fan are the same relay of one device" in said


@pytest.mark.parametrize(
    ("protocol", "topic"),
    [("plain", "plug"), ("tasmota", "cmnd/plug/POWER1"), ("shelly_gen2", "plug/rpc")],
)
def test_a_command_does_not_confirm_itself(tmp_path, protocol, topic):
    heater = HEATER.replace(
        "pin = 17", f'kind = "mqtt"\nprotocol = "{protocol}"\ntopic = "plug"\nmay_stay_on = true'
    )
    state = '[[sensor]]\nname = "state"\nkind = "mqtt"\ntopic = "{}"\nconfirms = "heater"\n'
    said = refused(tmp_path, heater + state.format(topic) + BROKER)
    assert "[sensor] topic: has growd's own commands for heater; take the topic of the device's state" in said
    loaded(tmp_path, heater + state.format("stat/plug/POWER") + BROKER)


@pytest.mark.parametrize(
    "text",
    [
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
        (
            '[[output]]\nname = "cooler"\npin = 17\nvariable = "air_flush_on"\ndrives = ["air_temperature"]\n'
            'direction = "lowers"\n'
        ),
    ],
)
def test_valid_outputs(tmp_path, text):
    loaded(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEATER + HEATER.replace('"heater"', '"second"'), "second and heater are both on GPIO 17"),
        (HEATER + HEATER.replace("17", "18"), "heater is given 2 times"),
        (HEATER.replace('"heater"', '"air"'), "name: air is the name of another device"),
        (HEATER.replace('"heater"', '"light"'), "name: light is the name of another device"),
        (HEATER.replace("pin = 17\n", ""), "pin: is missing; heater is on a pin"),
        (HEATER.replace("17", "2"), "heater and I2C bus 1 are both on GPIO 2"),
        (HEATER + 'kind = "ssr"\nfrequency_hz = 5\n', "heater is an ssr; this is for pwm, hardware_pwm only"),
        (HEATER + "minimum_cycle_s = -1\n", "minimum_cycle_s"),
        (HEATER + "frequency_hz = 5\n", "heater is a relay; this is for pwm, hardware_pwm only: remove it"),
        (HEATER + 'url = "http://x"\n', "url: heater is a relay; this is for http only: remove it"),
        (HEATER + 'kind = "hardware_pwm"\n', "heater has hardware PWM, which is for GPIO 12, 13, 18, 19"),
        (HEATER + 'kind = "pwm"\nfrequency_hz = 5000\n', "software PWM, of at most 1000 Hz"),
        (FAN + 'kind = "pwm"\n', "fan is for air_flush_on, which is only on or off"),
        (HEATER.replace("air_temperature", "air_temprature"), "did you mean air_temperature?"),
        (
            HEATER.replace("air_temperature", "air_cooler") + 'variable = "air_heater"\n',
            "another output does",
        ),
        (HEATER.replace("air_temperature", "air_humidity") + 'variable = "air_heater"\n', "drives air_temp"),
        (
            HEATER + 'variable = "air_heater"\ndirection = "lowers"\n',
            "direction: air_heater is a heater, which raises air_temperature",
        ),
        (
            HEATER.replace("air_temperature", "air_pressure"),
            "variable: is missing; no output usually raises air_pressure, so set one, such as auxiliary_1",
        ),
        ('[[output]]\nname = "it"\npin = 4\n', "drives: is missing; say what it drives"),
        (VALVE + 'pin = 17\nsafe = "on"\n', "valve is a valve for CO2, which is safe when it is off"),
        (HEATER + 'safe = "on"\n', "heater is a heater, which is safe when it is off"),
        (HEATER + 'needs = "water_level"\n', "needs: heater needs water_level, which no sensor measures"),
        (HEATER.replace("air_temp", "water_temp"), "heater is a water heater, and needs water_temperature"),
        (
            '[[output]]\nname = "a"\npin = 17\nvariable = "nutrient_a"\nneeds = ""\n',
            "flow_ml_min: is missing; commands of nutrient_a are in ml/h",
        ),
        (
            FAN + FAN.replace('"fan"', '"second"').replace("18", "19") + "override_s = 5\n",
            "override_s: fan and second are both for air_flush_on, so they must agree",
        ),
        (HEATER + "mix = 0.5\n", "mix: is for a channel of the lamp, and heater is a heater"),
        (VALVE + 'kind = "http"\n', "url_on: is missing; valve is driven over http"),
        (VALVE + PLUG.replace("192", "admin:x@192"), "without a login, got http://192.168.1.40"),
        (VALVE + PLUG.replace("http://", ""), "must be an address such as http://192.168.1.40"),
        (VALVE + PLUG + 'url_on = "http://x"\n', 'url_on: has no effect with protocol = "shelly_gen2"'),
        (
            VALVE + 'kind = "http"\nurl_on = "http://x/1"\nurl_off = "http://x/0"\n',
            "may_stay_on: valve is a valve for CO2, and nothing switches it off when growd or the",
        ),
        (
            HEATER.replace("pin = 17\n", 'kind = "http"\nurl_on = "http://x/1"\nurl_off = "http://x/0"\n'),
            "may_stay_on: heater is a heater, and nothing switches it off when growd or the network fails",
        ),
        (VALVE + 'kind = "topic"\n', "may_stay_on: valve is a valve for CO2"),
        (VALVE + 'kind = "mqtt"\ntopic = "a/b"\n' + BROKER, "may_stay_on: valve is a valve for CO2"),
        (
            HEATER.replace("pin = 17\n", 'kind = "mqtt"\ntopic = "a/#"\n') + BROKER,
            "topic: must not be empty, contain # or +",
        ),
        (
            HEATER.replace("pin = 17\n", 'kind = "mqtt"\ntopic = "a"\n') + REAL,
            "kind: needs a broker: set host in [mqtt]",
        ),
        (
            HEATER.replace("pin = 17\n", 'kind = "mqtt"\ntopic = "a"\nprotocol = "shelly_gen1"\n') + BROKER,
            "protocol: is for http",
        ),
        (
            HEATER.replace("pin = 17\n", 'kind = "mqtt"\ntopic = "a"\nprotocol = "tasmota"\n')
            + 'payload = "level"\n'
            + BROKER,
            "payload: heater is only switched on and off",
        ),
        (
            "[light]\n" + '[[light.channel]]\nname = "red"\npin = 17\n'
            '[[output]]\nname = "panel"\npin = 18\ndrives = ["light_intensity_red"]\n',
            "panel and channel red of [light] are both the lamp's channel red",
        ),
        (
            '[[output]]\nname = "panel"\npin = 18\ndrives = ["light_illuminance"]\nlongest_on_s = 60\n',
            "longest_on_s: has no effect, since panel is a channel of the lamp; see [light]",
        ),
        (
            VALVE + PLUG + HEATER.replace("pin = 17\n", PLUG),
            "url: valve and heater are the same relay of one device",
        ),
        (
            VALVE + PLUG + HEATER.replace("pin = 17\n", PLUG.replace('168.1.40"', '168.1.40:80/"')),
            "url: valve and heater are the same relay of one device",
        ),
        (
            FAN.replace("pin = 18\n", 'kind = "http"\nurl_on = "http://x/1"\nurl_off = "http://x/1"\n'),
            "url_off: fan has one address for on and off",
        ),
        (
            HEATER + 'variable = "auxiliary_1"\nsafe = "on"\n',
            "safe: heater is a heater, which is safe when it is off",
        ),
        (
            HEATER + 'variable = "air_circulation"\n',
            "air_circulation is a circulation fan, and heater raises air_temperature as a heater, whose",
        ),
        (
            HEATER.replace('["air_', '["air_carbon_dioxide", "air_') + 'variable = "air_flush_on"\n',
            "as a valve for CO2, whose interlocks it would not have; remove variable, or set auxiliary_1",
        ),
        (
            (
                '[[output]]\nname = "acid"\npin = 17\nvariable = "auxiliary_2"\n'
                'drives = ["water_potential_hydrogen"]\ndirection = "lowers"\n'
            ),
            "flow_ml_min: is missing; acid is a dosing pump, whose limits are volumes",
        ),
        (
            (
                '[[output]]\nname = "burner"\npin = 17\nvariable = "auxiliary_2"\n'
                'drives = ["air_carbon_dioxide"]\nsafe = "on"\nneeds = ""\n'
            ),
            "burner is a valve for CO2, which is safe when it is off",
        ),
        (
            FAN + '[[condition]]\nname = "odd"\noutputs = ["fan"]\nvariable = "air_flush_on"\non = true\n',
            "variable: is that of fan, which the condition holds itself",
        ),
        (
            '[[output]]\nname = "panel"\npin = 18\ndrives = ["light_illuminance", "air_temperature"]\n',
            "panel is a channel of the lamp, which drives light_illuminance only",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, text, sentence):
    assert sentence in refused(tmp_path, text)


def test_a_finding_names_the_section_that_the_user_wrote(tmp_path):
    relay = '[[output]]\nname = "valve"\npin = 5\nvariable = "air_carbon_dioxide_valve_on"\n'
    light = '[[sensor]]\nname = "lux"\nkind = "bh1750"\n'
    assert "[output] needs: valve is a valve for CO2, which no sensor measures" in refused(
        tmp_path, relay, light
    )
    assert "[output] needs: valve is a valve for CO2, which no sensor measures" in refused(
        tmp_path, VALVE + "pin = 17\n", light
    )


def test_growd_warns_of_a_heater_of_another_program_that_may_stay_on(tmp_path):
    heater = HEATER.replace("pin = 17\n", 'kind = "topic"\n')
    assert "heater stays on if growd hangs" in loaded(tmp_path, heater)[1]
    assert "stays on" not in loaded(tmp_path, f"{heater}may_stay_on = true\n")[1]


def test_pins_that_share_a_pwm_channel_on_most_models_are_a_warning(tmp_path):
    pump = HEATER.replace("17", "12").replace('"heater"', '"b"') + 'kind = "hardware_pwm"\n'
    heater = '[[output]]\nname = "heater"\npin = 18\nkind = "hardware_pwm"\nvariable = "auxiliary_1"\n'
    assert "GPIO 12 and GPIO 18 share one PWM channel" in loaded(tmp_path, pump + heater)[1]


def test_the_timer_of_a_tasmota_device_makes_no_output_safe_that_is_safe_when_on():
    fan = Output(name="fan", kind="http", protocol="tasmota", variable="air_circulation")
    assert (fan.has_timer, fan.lease.renewed_s) == (True, 15)
    on = replace(fan, safe="on")
    assert (on.has_timer, on.lease.renewed_s) == (False, REPEAT_S)
    assert replace(on, protocol="shelly_gen2").has_timer


def test_the_place_of_an_output_has_no_token():
    fan = Output(name="fan", kind="http", variable="air_flush_on", url_on="http://fan/on?key=s3cr3t")
    assert place_of_output(fan) == "device at http://fan/on"

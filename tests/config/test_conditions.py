"""Conditions and limits of outputs in the configuration: what is refused, and what is doubted."""

import pytest
from msgspec.structs import replace

from growd.config import Config, ConfigError, InterlockOptions, Light, Output, Sensor
from growd.config.alerts import AlertOptions
from growd.config.conditions import Condition
from growd.config.device_checks import device_inconsistencies
from growd.variables import hysteresis_of_band
from growd_cli.config_doubts import DOUBTS
from support.refusals import check_config

AIR = Sensor(name="air", kind="scd30")
HEATER = Output(name="heater", pin=17, variable="air_heater")
FAN = Output(name="fan", pin=22, variable="air_flush_on")
WARM = Condition(name="warm", outputs=("fan",), variable="air_temperature", above=30.0)


REFUSED = (
    {"below": 20.0},
    {"above": None},
    {"outputs": ("pump",)},
    {"outputs": ("heater",), "hold": "on"},
    {"outputs": ("light",), "hold": "on"},
    {"variable": "air_temprature"},
    {"variable": "water_level"},
    {"variable": "air_cooler"},
    {"above": 300.0},
    {"above": None, "below": -300.0},
)


def test_a_condition_that_cannot_work_is_refused(said):
    lamp = Config(sensor=(AIR,), output=(HEATER, FAN), light=Light())
    for change in REFUSED:
        with said.raises(ConfigError):
            check_config(replace(lamp, condition=(replace(WARM, **change),)))
    with said.raises(ConfigError):
        check_config(replace(lamp, condition=(WARM, replace(WARM, above=32.0))))


def test_an_alert_that_no_reading_can_start_is_refused(said):
    for limit in ({"above": 300.0}, {"below": -300.0}):
        alert = AlertOptions(name="warm", kind="out_of_band", variable="air_temperature", **limit)
        with said.raises(ConfigError):
            check_config(Config(sensor=(AIR,), alert=(alert,)))


def test_a_condition_on_what_is_known_is_valid():
    for change in (
        {},
        {"hold": "on"},
        {"variable": "air_vapour_pressure_deficit", "above": 2.0},
        {"outputs": ("heater",), "variable": "air_flush_on", "above": None, "on": True},
    ):
        condition, dark = replace(WARM, **change), Light(enabled=False)
        config = Config(sensor=(AIR,), output=(HEATER, FAN), condition=(condition,), light=dark)
        assert list(device_inconsistencies(config)) == []


def test_limits_of_an_output_that_do_not_go_together_are_refused(said):
    with said.raises(ConfigError):
        check_config(Config(sensor=(AIR,), output=(replace(HEATER, longest_on_s=10.0, minimum_on_s=60.0),)))


@pytest.mark.parametrize("variable", ["air_heater", "auxiliary_1"])
def test_a_limit_far_above_its_default_is_doubted_if_there_is_such_an_output(variable):
    limits = InterlockOptions(heater_off_degc=60.0, water_heater_off_degc=50.0)
    heater = replace(HEATER, variable=variable, drives=("air_temperature",))
    config = Config(sensor=(AIR,), output=(heater,), interlock=limits)
    texts = [str(finding) for doubt in DOUBTS for finding in doubt(config, None)]
    assert len(texts) == 1
    assert "60 is far above the default of 40; set it below 55" in texts[0]


def doubts_of(**options):
    config = Config(sensor=(AIR,), output=(HEATER, FAN), light=Light(enabled=False), **options)
    found = [finding for doubt in DOUBTS for finding in doubt(config, None)]
    return [finding.path for finding in found if finding.path[-1] == "hysteresis"]


def test_a_hysteresis_that_a_steady_value_passes_is_doubted():
    for limit in ({"above": 30.0}, {"above": None, "below": 15.0}):
        assert doubts_of(condition=(replace(WARM, **limit),)) == []
        assert doubts_of(condition=(replace(WARM, **limit, hysteresis=0.5),)) == []
        place = ("condition", 0, "hysteresis")
        assert doubts_of(condition=(replace(WARM, **limit, hysteresis=0.2),)) == [place]


@pytest.mark.parametrize(
    ("name", "low", "high", "hysteresis"),
    [
        ("soil_moisture", None, 50, 2.5),
        ("air_temperature", 18, None, 0.5),
        ("air_temperature", 24, 24.4, 0.1),
        ("air_carbon_dioxide", None, 1_500, 15),
        ("light_illuminance", None, 8_000, 80),
        ("light_illuminance", None, 1, 0.5),
        ("air_humidity", 99, None, 0.5),
        ("door_open", None, 0.5, 0),
        ("air_heater", None, 0.5, 0),
    ],
)
def test_a_value_can_return_by_the_usual_hysteresis(name, low, high, hysteresis):
    assert hysteresis_of_band(name, low, high) == pytest.approx(hysteresis)

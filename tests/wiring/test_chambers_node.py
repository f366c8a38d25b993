"""What the node `chambers` says of a configuration."""

import re

import pytest
from msgspec import structs

from growd.config import Config, Light, Output, Sensor
from growd.config.root import ChamberOptions
from growd.config.services import Couchdb, Environment
from growd.variable_names import GROUPS, LANGUAGES, VARIABLE_NAMES, group_of
from growd.variables import VARIABLES
from growd.wiring.chambers_node import describe_chambers, time_zone_name
from support.rig import rigged

ROME = Environment(time_zone="Europe/Rome")
CONFIG = Config(
    sensor=(Sensor(name="air", kind="scd30"), Sensor(name="lux", kind="bh1750", bus=3)),
    light=Light(full_scale_lux=9_000.0),
    output=(
        Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on"),
        Output(name="fan", pin=24, variable="air_flush_on"),
    ),
    chamber={"shelf_2": ChamberOptions(sensor=(Sensor(name="dim", kind="tsl2591", bus=4),))},
)


async def described(config):
    """What the node says, and the topics on which each node publishes."""
    async with rigged(config) as rig:
        describe_chambers(config, rig.bus, "Europe/Berlin")
        published = {name: rig.bus.find_node(name).information()["pubs"] for name in rig.bus.node_names()}
        return rig.bus.find_node("chambers").information(), published


async def devices_of(config):
    """The devices of the only environment of a configuration."""
    (environment,) = (await described(config))[0]["environments"]
    return {each["name"]: each for each in environment["devices"]}


@pytest.fixture
async def environments():
    return (await described(CONFIG))[0]["environments"]


async def test_a_variable_has_its_range_and_what_drives_it(environments):
    first, _ = environments
    variables = {each["variable"]: each for each in first["variables"]}
    assert variables["light_illuminance"] == {
        "variable": "light_illuminance",
        "names": {"en": "Light", "de": "Licht"},
        "group": "light",
        "unit": "lux",
        "minimum": 0,
        "maximum": 200_000,
        "precision": 1,
        "measured": True,
        "derived": False,
        "controlled": True,
        "manual": False,
        "reach": (0.0, 9_000.0),
        "outputs": ["light_intensity_white", "light_intensity_red", "light_intensity_blue"],
    }
    assert variables["air_carbon_dioxide"]["outputs"] == ["air_carbon_dioxide_valve_on", "air_flush_on"]
    assert not variables["air_temperature"]["controlled"]
    assert variables["water_potential_hydrogen"]["manual"]
    assert "marker" not in variables


async def test_a_device_has_its_place_and_its_services(environments):
    first, second = environments
    devices = {each["name"]: each for each in first["devices"]}
    assert devices["air"] == {
        "name": "air",
        "kind": "scd30",
        "part": "SCD30",
        "role": "sensor",
        "variables": ("air_carbon_dioxide", "air_temperature", "air_humidity"),
        "line": "i2c-1",
        "topics": [
            f"environment_1/raw/{name}" for name in ("air_carbon_dioxide", "air_temperature", "air_humidity")
        ],
        "services": ["environment_1/samplers/air/calibrate"],
    }
    assert devices["light"]["pins"] == [12, 13, 18]
    assert devices["light"]["services"] == [
        "environment_1/controllers/light_illuminance/calibrate_light",
        "environment_1/controllers/light_illuminance/stop_calibration",
    ]
    assert devices["light"]["topics"] == ["environment_1/light_channels"]
    assert devices["valve"]["services"] == [
        "environment_1/controllers/air_carbon_dioxide/autotune",
        "environment_1/controllers/air_carbon_dioxide/stop_autotune",
    ]
    assert devices["valve"]["topics"] == ["environment_1/switches/valve"]
    assert devices["fan"]["services"] == []
    assert [each["name"] for each in second["devices"]] == ["dim"]


async def test_several_sensors_of_a_variable_have_topics_of_their_own():
    sensors = (Sensor(name="lux", kind="bh1750", bus=3), Sensor(name="dim", kind="tsl2591"))
    told, published = await described(Config(sensor=sensors, combine={"light_illuminance": "first"}))
    topics = {each["name"]: each["topics"] for each in told["environments"][0]["devices"]}
    assert topics["dim"] == ["environment_1/raw/light_illuminance/dim"]
    for name in ("lux", "dim"):
        assert set(topics[name]) <= set(published[f"environment_1/samplers/{name}"])


async def test_calibrations_are_in_the_order_of_their_steps():
    devices = await devices_of(
        Config(sensor=(Sensor(name="ph", kind="ezo_ph"), Sensor(name="ec", kind="ezo_ec")))
    )
    steps = {name: [each.rpartition("/")[2] for each in devices[name]["services"]] for name in ("ph", "ec")}
    assert steps["ph"] == ["calibrate_mid", "calibrate_low", "calibrate_high"]
    assert steps["ec"] == ["calibrate_dry", "calibrate_low", "calibrate_high"]


async def test_the_databases_have_their_prefix():
    named = (await described(structs.replace(CONFIG, couchdb=Couchdb(prefix="mine_"))))[0]["databases"]
    assert named["environmental_data_point"] == "mine_environmental_data_point"
    assert set(named.values()) == {f"mine_{name}" for name in named}


async def test_an_environment_without_outputs_controls_nothing(environments):
    _, second = environments
    assert second["time_zone"] == "Europe/Berlin"
    assert not any(each["controlled"] or each["outputs"] for each in second["variables"])
    measured = [each for each in second["variables"] if each["measured"]]
    assert [each["variable"] for each in measured if not each["derived"]] == ["light_illuminance"]
    assert [each["variable"] for each in measured if each["derived"]] == [
        "light_ppfd", "light_daily_integral", "light_daily_integral_expected", "light_photoperiod",
    ]  # fmt: skip
    assert not any(each["manual"] for each in measured)


def test_the_time_zone_is_that_of_the_configuration_or_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.delenv("TZ", raising=False)
    link = tmp_path / "localtime"
    assert re.fullmatch(r"[+-]\d\d:\d\d", time_zone_name(Config(), str(link)))
    link.symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    assert time_zone_name(Config(), str(link)) == "Asia/Tokyo"
    monkeypatch.setenv("TZ", ":Europe/Paris")
    assert time_zone_name(Config(), str(link)) == "Europe/Paris"
    assert time_zone_name(structs.replace(Config(), environment=ROME), str(link)) == "Europe/Rome"


async def test_an_output_has_what_clients_need_to_draw_it():
    plug = {"kind": "http", "protocol": "tasmota", "url": "http://plug", "power_w": 200.0}
    heater = Output(name="heater", drives=("air_temperature",), **plug)
    fan = Output(name="fan", kind="pwm", pin=17, variable="air_circulation")
    devices = await devices_of(Config(output=(heater, fan)))
    assert devices["heater"]["place"] == "Tasmota device at http://plug"
    told = ("kind", "part", "class", "variables", "drives", "can_dim", "power_w", "pins", "topics")
    assert [devices["heater"][member] for member in told] == [
        *("http", "heater", "heater", ["air_heater"], ["air_temperature"], False, 200.0, []),
        ["environment_1/switches/heater"],
    ]
    assert [devices["fan"][member] for member in told] == [
        *("pwm", "circulation fan", "other", ["air_circulation"], [], True, None, [17]),
        ["environment_1/outputs/fan"],
    ]


def test_each_variable_has_a_name_in_each_language_and_a_group():
    assert VARIABLE_NAMES.keys() == VARIABLES.keys()
    for names in VARIABLE_NAMES.values():
        assert len(names) == len(LANGUAGES)
        assert all(names)
    of = {name: group_of(name) for name in ("air_flush_on", "nutrient_a", "room_humidity", "door_open")}
    assert of == {"air_flush_on": "air", "nutrient_a": "water", "room_humidity": "air", "door_open": "other"}
    assert {*map(group_of, VARIABLES)} == {*GROUPS}

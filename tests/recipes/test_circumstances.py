"""The record of a run has growd's version, the configuration without secrets, and the calibrations."""

import json

import msgspec
import pytest

from growd import __version__
from growd.bus import Bus
from growd.bus.fields import Field, Kind
from growd.config import Config, load
from growd.config.profiles import PROFILES, profile_path
from growd.control.wear import OutputCounters, Rated
from growd.recipes.circumstances import OF_DAEMON, OF_ENVIRONMENT, circumstances, configuration_of
from support.clock import ManualClock
from support.memory import ShortMemory
from support.running import running

SECRET = "s3cr3t"
TWO_CHAMBERS = """
[environment]
time_zone = "Europe/Berlin"

[store]
maximum_interval_s = 300

[[sensor]]
name = "air"
kind = "scd30"

[[alert]]
name = "warm"
kind = "out_of_band"
environment = "shelf_2"
variable = "air_temperature"
above = 30

[[alert]]
name = "failed"
kind = "device_failed"

[[chamber.shelf_2.sensor]]
name = "other"
kind = "scd30"
bus = 3
"""


@pytest.fixture
def two_chambers(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(TWO_CHAMBERS)
    return load(file)


def test_the_configuration_is_that_of_the_environment_with_the_defaults(two_chambers):
    first, second = (configuration_of(two_chambers, name) for name in ("environment_1", "shelf_2"))
    assert [each["name"] for each in first["sensor"]] == ["air"]
    assert [(each["name"], each["bus"]) for each in second["sensor"]] == [("other", 3)]
    assert [rule["name"] for rule in first["alert"]] == ["failed"]
    assert [rule["name"] for rule in second["alert"]] == ["warm", "failed"]
    assert second["environment"] == {"id": "shelf_2", "time_zone": "Europe/Berlin", "keep_set_points": True}
    assert second["store"]["maximum_interval_s"] == 300
    assert second["recipe"]["after_outage"] == two_chambers.chamber["shelf_2"].recipe.after_outage


@pytest.mark.parametrize("profile", PROFILES)
def test_the_configuration_of_each_profile_is_json_without_null_and_names_of_secrets(profile):
    found = configuration_of(load(profile_path(profile)), "environment_1")
    assert "null" not in json.dumps(found, allow_nan=False)
    words = ("password", "token", "secret", "credential", "user", "url", "host")
    assert not [name for name in _names(found) if any(word in name for word in words)]


def test_no_option_that_can_hold_a_secret_is_recorded():
    """All texts of the sections that are not recorded have the secret; a new section is one of them."""
    recorded = {*OF_ENVIRONMENT, *OF_DAEMON, "environment", "alert", "chamber"}
    config = Config()
    others = [field.name for field in msgspec.structs.fields(Config) if field.name not in recorded]
    assert {"http", "access", "tls", "couchdb", "replication", "notify"} <= {*others}
    filled = {
        name: _filled(getattr(config, name)) for name in others if name not in {"notify", "topics", "camera"}
    }
    whole = msgspec.structs.replace(config, **filled)
    assert SECRET in str(whole.couchdb.url)
    assert SECRET not in json.dumps(configuration_of(whole, "environment_1"))


def test_outputs_loops_and_conditions_are_recorded_without_addresses_and_logins(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(
        """
        [[output]]
        name = "heater"
        kind = "http"
        drives = ["air_temperature"]
        may_stay_on = true
        url_on = "http://10.0.0.7/on?key=s3cr3t"
        url_off = "http://10.0.0.7/off?key=s3cr3t"
        password_file = "/etc/s3cr3t"
        power_w = 200

        [control.air_temperature]
        band = 0.2

        [[condition]]
        name = "warm"
        outputs = ["heater"]
        variable = "air_temperature"
        above = 30
        """
    )
    found = configuration_of(load(file), "environment_1")
    ((heater,), (warm,)) = found["output"], found["condition"]
    assert (heater["name"], heater["kind"], heater["power_w"]) == ("heater", "http", 200)
    assert (warm["name"], warm["above"]) == ("warm", 30)
    assert found["control"]["air_temperature"]["band"] == 0.2
    assert SECRET not in json.dumps(found)


def test_the_calibrations_are_the_parameters_that_people_set_and_those_of_the_sensors():
    bus = Bus(ManualClock())
    light = bus.node("environment_1/controllers/light_illuminance")
    light.declare(f"{light.name}/full_scale", Field("full_scale", Kind.FLOAT64, default=20_000.0))
    light.declare(
        f"{light.name}/override_left", Field("override_left", Kind.FLOAT64, default=0.0), read_only=True
    )
    bus.node("shelf_2/controllers/x").declare(
        "shelf_2/controllers/x/kp", Field("kp", Kind.FLOAT64, default=1.0)
    )
    lines = {"scd30_1": {"slope": 1.0, "offset_ppm": 40.0}}
    bus.node("environment_1/interlocks").describe("calibrations", lambda: lines)
    found = circumstances(Config(), bus, "environment_1")
    assert found["calibrations"] == {
        "parameters": {"controllers/light_illuminance/full_scale": 20_000.0},
        "sensors": lines,
    }
    assert (found["growd"], found["counters"]) == (__version__, {})
    assert circumstances(load(None, ("chamber.shelf_2.light.enabled=false",)), bus, "shelf_2")[
        "calibrations"
    ] == {"parameters": {"controllers/x/kp": 1.0}, "sensors": {}}


async def test_the_counters_of_the_outputs_are_recorded():
    bus = Bus(ManualClock())
    pump = Rated("acid", "pump for acid", "nutrient_ph_down", "dosing", "relay", flow_ml_min=60.0)
    counters = OutputCounters(bus, "environment_1", [pump], ShortMemory())
    async with running(bus.clock, counters):
        counters.wrote("acid", 1.0)
        await bus.clock.advance(3)
        found = circumstances(Config(), bus, "environment_1")["counters"]["acid"]
    assert found.pop("since") <= bus.clock.time() - 3
    assert found == {
        "variable": "nutrient_ph_down",
        "cycles": 1,
        "on_s": 3.0,
        "energy_kwh": None,
        "volume_l": 0.003,
    }


def _filled(section):
    texts = {
        field.name: f"http://user:{SECRET}@host"
        for field in msgspec.structs.fields(section)
        if isinstance(getattr(section, field.name), str)
    }
    return msgspec.structs.replace(section, **texts)


def _names(value):
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _names(member)
    elif isinstance(value, list):
        for member in value:
            yield from _names(member)

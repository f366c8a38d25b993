"""The file with one environment of a configuration reads as that environment, and has no logins."""

import pytest

from growd.config import ChannelOptions, Config, Light, Output, Sensor, load
from growd.config.outputs import OwnOutput
from growd.config.profiles import PROFILES, profile_path
from growd.config.root import ChamberOptions
from growd.config.services import Couchdb, Environment, Simulator, Store
from growd_simulation.recipes.configuration import simulated_chamber


def read(tmp_path, text):
    path = tmp_path / "growd.toml"
    path.write_text(text)
    return load(path, environ={})


def sections(config, environment):
    options = config.chambers()[environment]
    names = {*ChamberOptions.__struct_fields__} - {"environment"}
    return {name: getattr(options, name) for name in names}


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_reads_as_itself(tmp_path, profile):
    config = load(profile_path(profile), environ={})
    first = config.environment.id
    found = read(tmp_path, simulated_chamber(config, first))
    assert sections(found, first) == sections(config, first)
    assert found.simulator.enabled


def test_a_further_environment_is_the_only_one(tmp_path):
    lamp = Light(channel=(ChannelOptions(name="red", pin=13), ChannelOptions(name="white", pin=18)))
    shelf = ChamberOptions(sensor=(Sensor(name="air", kind="scd30", altitude_m=120),), light=lamp)
    config = Config(environment=Environment(time_zone="Europe/Berlin"), chamber={"shelf": shelf})
    found = read(tmp_path, simulated_chamber(config, "shelf"))
    assert sections(found, "shelf") == sections(config, "shelf")
    assert (found.environment.id, found.environment.time_zone) == ("shelf", "Europe/Berlin")
    assert found.chamber == {}


def test_logins_faults_and_the_database_stay_here(tmp_path):
    plug = {"kind": "http", "drives": ("air_temperature",), "password_file": "/run/secret"}
    config = Config(
        output=(
            Output(name="heater", url="http://ann:secret@10.0.0.7", protocol="shelly_gen2", **plug),
            OwnOutput(name="own", kind="own", variable="auxiliary_1", own={"level": 3}),
        ),
        store=Store(max_age_s=7.0),
        couchdb=Couchdb(url="http://ann:secret@10.0.0.8"),
        simulator=Simulator(enabled=False, faults="/etc/faults.toml", speed=100.0),
    )
    text = simulated_chamber(config, "environment_1")
    assert 'url = "http://10.0.0.7"' in text
    assert "level = 3" in text
    assert "max_age_s = 7" in text
    assert not [word for word in ("ann", "secret", "10.0.0.8", "faults", "speed") if word in text]

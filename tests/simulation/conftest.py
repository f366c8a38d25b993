"""A small chamber and a recipe of half an hour, to be tried."""

import json

import pytest
from click.testing import CliRunner

from growd_cli.main import main

CHAMBER = """
[simulator]
enabled = false

[environment]
time_zone = "Asia/Tokyo"

[store]
minimum_interval_s = 10

[[sensor]]
name = "air"
kind = "scd30"
interval_s = 10

[[sensor]]
name = "bh1750_1"
kind = "bh1750"
interval_s = 5

[[sensor]]
name = "ph_probe"
kind = "ads1115"
channel = "0"
variable = "water_potential_hydrogen"
points = [[3.0, 0.0], [0.2, 14.0]]
interval_s = 10.0

[[light.channel]]
name = "white"
pin = 12
power_w = 30.0

[[output]]
name = "acid"
pin = 22
drives = ["water_potential_hydrogen"]
direction = "lowers"
flow_ml_min = 30.0

[[output]]
name = "heater"
pin = 25
drives = ["air_temperature"]
power_w = 200.0
"""
RECIPE = {
    "_id": "short",
    "format": "simple",
    "operations": [
        [0, "light_illuminance", 9_000],
        [0, "air_temperature", 24],
        [0, "water_potential_hydrogen", 5.5],
        [900, "light_illuminance", 3_000],
        [1_200, "light_illuminance", 0],
    ],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "chamber.toml").write_text(CHAMBER)
    (tmp_path / "short.json").write_text(json.dumps(RECIPE))
    return tmp_path


@pytest.fixture
def tried(folder):
    """Runs `growd simulate` with the chamber of the folder."""

    def run(*arguments, recipe=str(folder / "short.json")):
        config = ("--config", str(folder / "chamber.toml"))
        return CliRunner().invoke(main, ["simulate", recipe, *config, *map(str, arguments)])

    return run

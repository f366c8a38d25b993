"""The greeting of `growd run`."""

from pathlib import Path

import pytest

from growd.config import Config, Light, Sensor
from growd.wiring.app import Running
from growd_cli.run import _greeting


def test_the_greeting_asks_for_what_the_chamber_has():
    running = Running("http://127.0.0.1:5984", "embedded", Path("data"), 1.0)
    assert "desired/light_illuminance" in _greeting(Config(light=Light()), running)
    assert "light" not in _greeting(Config(), running)
    config = Config(sensor=(Sensor(name="air", kind="sht4x"),), light=Light())
    printed = _greeting(config, running)
    topic = "environment_1/measured/air_humidity"
    assert f"curl http://127.0.0.1:5984/_svc/api/0.0.1/topic_data/{topic}" in printed
    assert "light" not in printed


@pytest.mark.parametrize("listens", ["0.0.0.0", "[::]"])  # noqa: S104
def test_the_greeting_shows_an_address_that_can_be_typed(listens, said):
    printed = _greeting(Config(), Running(f"http://{listens}:5984", "embedded", Path("data"), 1.0))
    assert f"http://{listens}:" not in printed
    said(printed.splitlines())

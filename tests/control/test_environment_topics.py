from __future__ import annotations

import pytest

from growd.bus import Bus
from growd.bus.errors import InvalidValueError, UnknownNameError
from growd.control.topics import declare_environment
from growd.variables import VARIABLES
from support.clock import ManualClock


@pytest.fixture
def bus():
    bus = Bus(ManualClock())
    declare_environment(bus, "e", ["air_carbon_dioxide"])
    return bus


def test_every_variable_can_be_desired_and_commanded_and_only_sensed_ones_measured(bus):
    names = set(bus.topics.names())
    for variable in VARIABLES:
        assert {f"e/desired/{variable}", f"e/commanded/{variable}"} <= names
    assert [name for name in names if name.startswith(("e/raw", "e/measured"))] != []
    assert {name for name in names if "/raw/" in name} == {"e/raw/air_carbon_dioxide"}
    assert {name for name in names if "/measured/" in name} == {"e/measured/air_carbon_dioxide"}


def test_it_can_be_declared_twice(bus):
    before = bus.topics.names()
    declare_environment(bus, "e", ["air_carbon_dioxide"])
    assert bus.topics.names() == before


@pytest.mark.parametrize(
    ("topic", "arguments", "sentence"),
    [
        ("e/desired/light_illuminance", [200_001], "from 0 to 200000 lux"),
        ("e/commanded/light_intensity_red", [-0.1], "from 0 to 1 fraction"),
        ("e/commanded/air_temperature", [-1.1], "from -1 to 1 fraction"),
        ("e/commanded/light_channels", [0.1, 1.1, 0.1], "y: expected float64 from 0 to 1 fraction, got 1.1"),
        ("e/desired/recipe_start", [1], "expected string"),
    ],
)
def test_a_value_out_of_the_topics_range_is_refused(bus, topic, arguments, sentence):
    client = bus.node("client")
    with pytest.raises(InvalidValueError, match=sentence):
        client.publish_arguments(topic, arguments)
    assert bus.topics.get(topic).last is None


def test_cooling_is_a_negative_command(bus):
    assert bus.node("client").publish_arguments("e/commanded/air_temperature", [-1]).value == -1.0


def test_a_variable_that_no_sensor_gives_has_no_measured_topic(bus):
    with pytest.raises(UnknownNameError):
        bus.topics.get("e/measured/air_temperature")

import pytest

from growd.bus import Bus
from growd.bus.errors import InvalidValueError, NotOpenError, UnknownNameError
from growd.control.topics import declare_environment
from growd.variables import VARIABLES
from support.clock import ManualClock


@pytest.fixture
def bus():
    bus = Bus(ManualClock())
    declare_environment(bus, "e", ["air_carbon_dioxide"])
    return bus


def test_every_variable_can_be_desired_and_commanded_and_only_sensed_ones_are_raw(bus):
    names = set(bus.topics.names())
    for variable in VARIABLES:
        assert {f"e/desired/{variable}", f"e/commanded/{variable}"} <= names
    assert {name for name in names if "/raw/" in name} == {"e/raw/air_carbon_dioxide"}


def test_clients_may_publish_measured_values_only_of_variables_without_a_sensor_or_output(bus, said):
    node = bus.node("client")
    assert node.publish_arguments("e/measured/water_potential_hydrogen", [6.1]).value == 6.1
    with said.raises(InvalidValueError):
        node.publish_arguments("e/measured/water_potential_hydrogen", [15])
    with pytest.raises(NotOpenError):
        node.publish_arguments("e/measured/air_carbon_dioxide", [400])
    with pytest.raises(UnknownNameError):
        node.publish_arguments("e/measured/light_intensity_red", [1])


def test_a_variable_without_an_output_cannot_be_commanded_nor_a_recipe_started_by_a_topic(bus, said):
    client = bus.node("client")
    with said.raises(NotOpenError):
        client.publish_arguments("e/commanded/air_temperature", [1])
    bus.topics.open("e/commanded/air_temperature")
    assert client.publish_arguments("e/commanded/air_temperature", [-1]).value == -1.0  # it cools
    for topic in ("desired/recipe_start", "desired/recipe_end"):
        with pytest.raises(NotOpenError):
            client.publish_arguments(f"e/{topic}", ["basil"])


@pytest.mark.parametrize(
    ("topic", "arguments", "sentence"),
    [
        ("e/desired/light_illuminance", [200_001], "from 0 to 200000 lux"),
        ("e/commanded/light_intensity_red", [-0.1], r"from 0 to 1, not -0\.1"),
        ("e/commanded/air_temperature", [-1.1], r"from -1 to 1, not -1\.1"),
        ("e/commanded/light_channels", [0.1, 1.1, 0.1], "y must be a number from 0 to 1, not 1.1"),
        ("e/notes", [1], "must be a text of 1 to 2000 characters"),
        ("e/notes", [""], 'must be a text of 1 to 2000 characters, not ""'),
    ],
)
def test_a_value_out_of_the_topics_range_is_refused(bus, topic, arguments, sentence):
    client = bus.node("client")
    bus.topics.open(topic)
    with pytest.raises(InvalidValueError, match=sentence):
        client.publish_arguments(topic, arguments)
    assert bus.topics.get(topic).last is None

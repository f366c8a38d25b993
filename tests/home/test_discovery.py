"""Discovery messages against what Home Assistant demands of them (its MQTT and sensor documentation)."""

import json
import re
from dataclasses import replace

from msgspec import structs

from growd.variables import VARIABLES
from growd_home.discovery import Discovery, device_class_of, state_class_of, unit_of
from growd_home.layout import TopicNames
from growd_home.messages import state_of
from growd_home.outgoing import Outbound, Outgoing
from support.home import CLIMATE, IDLE, TOPICS, reading
from support.status import EMPTY

UNITS = {
    "temperature": {"°C"},
    "humidity": {"%"},
    "moisture": {"%"},
    "carbon_dioxide": {"ppm"},
    "illuminance": {"lx"},
    "atmospheric_pressure": {"hPa", "kPa"},
    "ph": {""},
    "conductivity": {"mS/cm", "µS/cm"},
    "voltage": {"mV", "V"},
    "duration": {"s", "min", "h", "d"},
    "volume_storage": {"L"},
    "energy": {"kWh"},
    "water": {"L"},
    "volume": {"L"},
    "enum": {""},
}
MEASURABLE = tuple(name for name, each in VARIABLES.items() if not each.is_output)
PLACES = [CLIMATE, replace(CLIMATE, environment="shelf_2", known=MEASURABLE)]


def messages(*, commands=True, recipes=("lettuce",)):
    return Discovery("homeassistant", TOPICS, "chamber", "1.0", commands=commands).messages(PLACES, recipes)


COMPONENTS = [
    (key, each)
    for message in (*messages().values(), *messages(commands=False).values())
    for key, each in message["components"].items()
]


def test_topics_and_devices_are_those_of_one_growd():
    found = messages()
    assert [*found] == [
        "homeassistant/device/growd_0123456789ab/config",
        "homeassistant/device/growd_0123456789ab_environment_1/config",
        "homeassistant/device/growd_0123456789ab_shelf_2/config",
    ]
    growd, *chambers = found.values()
    for message in found.values():
        assert message["origin"]["name"] == "growd"
        assert message["availability_topic"] == "growd/0123456789ab/availability"
        assert len(json.dumps(message)) < 100_000
    names = ["growd chamber environment_1", "growd chamber shelf_2"]
    assert [message["device"]["name"] for message in chambers] == names
    for message in chambers:
        assert message["device"]["via_device"] == growd["device"]["identifiers"][0]


def test_a_discovery_topic_has_only_characters_that_home_assistant_takes():
    discovery = Discovery("homeassistant", TopicNames("growd", "a.b:c"), "chamber", "1.0", commands=False)
    for topic in discovery.messages(PLACES, ()):
        assert re.fullmatch(r"homeassistant/device/[a-zA-Z0-9_-]+/config", topic)


def test_unique_ids_are_unique_and_stay_and_so_are_names_within_a_device():
    found = [list(message["components"].values()) for message in messages().values()]
    ids = [each["unique_id"] for components in found for each in components]
    assert len(ids) == len(set(ids))
    assert "growd_0123456789ab_environment_1_measured_air_temperature" in ids
    for components in found:
        assert len({each["name"] for each in components}) == len(components)


def test_the_unit_of_each_variable_is_one_of_its_device_class():
    for variable in VARIABLES:
        device_class = device_class_of(variable)
        assert not device_class or unit_of(variable) in UNITS[device_class], variable
        assert state_class_of(variable) in {"measurement", "total_increasing"}, variable


def test_each_component_is_complete():
    for key, component in COMPONENTS:
        platform = component["platform"]
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", key)
        assert ("state_topic" in component) == (platform != "button"), key
        assert ("command_topic" in component) == (platform in {"number", "button", "select", "switch"}), key
        assert ("expire_after" in component) == (platform in {"sensor", "binary_sensor"}), key
        unit = component.get("unit_of_measurement", "")
        if platform == "sensor" and (device_class := component.get("device_class")):
            assert unit in UNITS[device_class], key
        if platform == "number":
            assert component["min"] <= component["max"], key
            assert component["step"] >= 0.001, key
            assert len(str(component["max"]).partition(".")[2]) <= 2, key
        if "options" in component and platform == "sensor":
            assert "state_class" not in component, key
        for option in ("state_topic", "command_topic", "json_attributes_topic"):
            assert component.get(option, TOPICS("")).startswith(TOPICS("")), key


def test_every_state_topic_is_published():
    variables = [reading(name, 1.0) for name in CLIMATE.known]
    status = structs.replace(EMPTY, variables=variables, recipes=[IDLE])
    published = {TOPICS(*names) for names in state_of(status, [CLIMATE])}
    published |= {TOPICS("event"), TOPICS("environment_1", "recipe", "selected")}
    wanted = {
        each["state_topic"]
        for topic, message in messages().items()
        if "shelf_2" not in topic
        for each in message["components"].values()
        if "state_topic" in each and "/outputs/" not in each["state_topic"]
    }
    assert wanted <= published


def test_kinds_of_components():
    found = messages()["homeassistant/device/growd_0123456789ab_environment_1/config"]["components"]
    deficit = found["measured_air_vapour_pressure_deficit"]  # stays in kilopascals
    assert ("device_class" in deficit, deficit["unit_of_measurement"]) == (False, "kPa")
    # an output that nothing drives has a set point, and others are commanded by hand
    assert found.keys() >= {"desired_water_circulation", "hand_air_heater"}
    assert "desired_air_heater" not in found
    # counters are of outputs with a power or a flow
    kinds = {found[name]["device_class"] for name in ("energy_heater", "energy_light_white")}
    assert kinds == {"energy"}
    volumes = {key: each["device_class"] for key, each in found.items() if key.startswith("volume_")}
    assert volumes == {
        "volume_tap_water": "water",
        "volume_acid": "volume",
        "volume_nutrient": "volume",
        "volume_valve": "volume",
    }
    assert "energy_tap_water" not in found
    assert found["energy_heater"]["state_class"] == "total_increasing"


def test_a_forged_discovery_message_removes_no_message_of_others():
    discovery = Discovery("homeassistant", TOPICS, "chamber", "1.0", commands=False)
    outbound = Outbound(TOPICS, [CLIMATE], discovery, selected=None)
    forged = {
        "a": {"platform": "sensor", "state_topic": "zigbee2mqtt/lamp"},
        "b": {"platform": "sensor", "state_topic": TOPICS("environment_1", "measured", "gone")},
        "c": {"platform": 7, "state_topic": "x"},
    }
    topic = discovery.topic("environment_1")
    assert outbound.compare(topic, json.dumps({"components": forged}).encode())
    assert not outbound.compare(topic, b"{")
    due = [*outbound.due(EMPTY)]
    assert [each.topic for each in due if not each.body] == [TOPICS("environment_1", "measured", "gone")]
    (announced,) = (json.loads(each.body) for each in due if each.topic == topic)
    assert announced["components"]["a"] == {"platform": "sensor"}
    assert "c" not in announced["components"]


def _outbound():
    outbound = Outbound(TOPICS, [CLIMATE], None, selected=None)
    outbound.acknowledge([*outbound.due(EMPTY)])
    return outbound


def test_an_event_stays_until_the_broker_has_it():
    outbound = _outbound()
    outbound.note("critical", "it is hot")
    (event,) = outbound.due(EMPTY)
    outbound.forget()  # the connection was lost
    assert [*outbound.due(EMPTY)][-1] == event
    outbound.acknowledge([event])
    assert [*outbound.due(EMPTY)] == []


def test_the_message_of_something_that_is_gone_is_removed_once_and_surely():
    running = structs.replace(EMPTY, recipes=[IDLE])
    outbound = _outbound()
    outbound.acknowledge([*outbound.due(running)])
    outbound.forget()
    removal = Outgoing(TOPICS("environment_1", "recipe"), b"", retain=True)
    assert removal in outbound.due(EMPTY)
    assert removal in outbound.due(EMPTY)  # it is not acknowledged yet
    outbound.acknowledge([removal])
    outbound.forget()
    assert removal not in outbound.due(EMPTY)


def test_the_elapsed_time_of_a_recipe_is_rounded_down_and_the_rest_up():
    recipe = structs.replace(IDLE, state="running", elapsed_s=61.0, remaining_s=179.0)
    message = state_of(structs.replace(EMPTY, recipes=[recipe]), [CLIMATE])["environment_1", "recipe"]
    assert (message["elapsed_s"], message["remaining_s"]) == (60, 180)

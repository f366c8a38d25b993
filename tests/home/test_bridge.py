"""The bridge to home automation against a real broker: state, last will, outages, commands."""

import asyncio

import aiomqtt
import pytest
from msgspec.structs import replace

from growd.bus.messages import Quality
from growd.host.hold import Hold, Holder
from growd.status.model import OpenAlert
from growd_home.bridge import NODE
from growd_home.layout import HomePlace
from support.broker import broker
from support.home import AVAILABILITY, CLIMATE, CONFIG, DEVICE, ENVIRONMENT, Home, Watcher, at_home, reading
from support.waiting import until

TEMPERATURE = (ENVIRONMENT, "measured", "air_temperature")
EVENT = f"growd/{DEVICE}/event"
SET_POINT = f"{ENVIRONMENT}/desired/air_temperature"
ALERT = OpenAlert("a1", "hot", "critical", "it is hot", "2026-11-23T10:00:00+00:00", None)


@pytest.fixture
async def home(tmp_path):
    async with broker(tmp_path) as port, at_home(port) as home:
        yield home


async def test_state_and_discovery_are_published_before_growd_is_online(home):
    assert home.state(*TEMPERATURE) == {"value": 21.5, "quality": "ok", "unit": "degC", "time": 1e9 - 1}
    topics = [topic for topic, _ in home.history]
    assert topics.index(CONFIG) < topics.index("/".join(("growd", DEVICE, *TEMPERATURE)))
    assert [value for topic, value in home.history if topic == AVAILABILITY][:2] == ["offline", "online"]
    assert home.history.index((AVAILABILITY, "online")) > topics.index(CONFIG)
    assert home.seen[CONFIG]["components"]["measured_air_temperature"]["device_class"] == "temperature"


async def test_a_late_client_gets_all_values_at_once(tmp_path):
    async with broker(tmp_path) as port, at_home(port):
        late = Watcher(port)
        async with late.watched():
            await until(lambda: late.state(*TEMPERATURE) and late.seen.get(AVAILABILITY) == "online")
            assert CONFIG in late.seen


@pytest.mark.parametrize("quality", ["fault", "stale", "warm-up"])
async def test_a_value_that_is_not_ok_is_never_published(home, quality):
    home.status = replace(home.status, variables=[reading("air_temperature", 21.5, quality)])
    await until(lambda: home.state(*TEMPERATURE)["quality"] == quality)
    assert home.state(*TEMPERATURE)["value"] is None


async def test_only_what_has_changed_is_published_again(home):
    first = len(home.history)
    for number in range(3):
        home.status = replace(
            home.status, time=home.status.time + 5, variables=[reading("air_temperature", 22.0 + number)]
        )
        await until(lambda number=number: home.state(*TEMPERATURE)["value"] == 22.0 + number)
    others = ("config", "selected", "availability")
    changed = {topic for topic, _ in home.history[first:] if not topic.endswith(others)}
    assert changed == {"/".join(("growd", DEVICE, *TEMPERATURE))}


async def test_the_end_of_growd_is_announced(tmp_path):
    async with broker(tmp_path) as port:
        home = Home(port)
        async with home.watched():
            async with home.running():
                await until(lambda: home.is_up)
            await until(lambda: home.seen[AVAILABILITY] == "offline")


async def test_an_outage_of_the_broker_is_told_and_everything_published_again(tmp_path):
    async with broker(tmp_path) as port:
        home = Home(port)
        async with home.running(), home.watched():
            await until(lambda: home.is_up)
    home.seen.clear()
    home.status = replace(home.status, variables=[reading("air_temperature", 25.0)])
    async with home.running():
        await until(lambda: home.problem)
        assert home.problem.startswith(f"the MQTT broker localhost:{port} can't be reached: ")
        assert not home.bus.find_node(NODE).information()["bridge"]["is_connected"]
        async with broker(tmp_path, port=port), home.watched():
            await until(lambda: home.is_up)
            assert home.state(*TEMPERATURE)["value"] == 25.0
            await until(lambda: not home.problem)


async def test_a_start_of_home_assistant_gets_everything_again(home):
    home.seen.clear()
    await home.client.publish("homeassistant/status", "online", qos=1)
    await until(lambda: CONFIG in home.seen and home.state(*TEMPERATURE))


async def test_components_of_an_earlier_configuration_are_removed(tmp_path):
    fewer = HomePlace(CLIMATE.environment, ("air_temperature",), {}, {}, (), frozenset())
    async with broker(tmp_path) as port:
        async with at_home(port) as home:
            topic = f"growd/{DEVICE}/{ENVIRONMENT}/desired/air_humidity"
            assert home.seen[topic]["value"] is None
        async with at_home(port, places=[fewer]) as home:
            gone = "measured_air_humidity"
            await until(lambda: home.seen[CONFIG]["components"].get(gone) == {"platform": "sensor"})
            await until(lambda: home.seen.get(topic) == "")
        async with at_home(port, places=[fewer]) as home:
            await until(lambda: gone not in home.seen[CONFIG]["components"])


async def test_an_environment_that_is_gone_is_removed(tmp_path):
    async with broker(tmp_path) as port:
        async with at_home(port):
            pass
        async with at_home(port, places=[]) as home:
            await until(lambda: home.seen.get(CONFIG) == "")


async def test_alerts_are_listed_and_their_begin_and_end_are_events(home):
    home.status = replace(home.status, alerts=[ALERT])
    event = f"growd/{DEVICE}/event"
    await until(lambda: home.seen.get(event))
    assert home.seen[event] == {"event_type": "critical", "text": "it is hot", "rule": "hot"}
    await until(lambda: home.state("alerts")["count"] == 1)
    home.status = replace(home.status, alerts=[])
    await until(lambda: home.seen[event]["event_type"] == "ended")


async def test_a_set_point_takes_effect_and_comes_back_to_its_author(home):
    await home.say(f"{SET_POINT}/set", "24.5")
    topic = home.bus.topics.get(SET_POINT)
    await until(lambda: topic.last is not None)
    assert (topic.last.value, topic.last.node) == (24.5, NODE)
    await home.say(f"{SET_POINT}/set", "null")
    await until(lambda: topic.last.value is None)
    assert topic.last.quality is Quality.STALE


@pytest.mark.long
@pytest.mark.parametrize(
    ("topic", "body", "why"),
    [
        (f"{SET_POINT}/set", "900", "desired air_temperature must be a number from -40 to 85 degC, not 900"),
        (f"{SET_POINT}/set", "NaN", "must be a number"),
        (f"{SET_POINT}/set", "warm", "must be a number"),
        (f"{SET_POINT}/set", "true", "must be a number"),
        (f"{ENVIRONMENT}/desired/warmth/set", "1", "warmth"),
        (f"{ENVIRONMENT}/commanded/air_heater/set", "1", "has no output for air_heater"),
        ("elsewhere/desired/air_temperature/set", "1", "elsewhere"),
        ("hold/set", "1", "must be ON or OFF"),
        (f"{ENVIRONMENT}/recipe/start", "PRESS", "no recipe is chosen"),
        (f"{ENVIRONMENT}/recipe/start", "broken", "as it says"),
        (f"{ENVIRONMENT}/recipe/start", "", "is empty"),
        (f"{ENVIRONMENT}/recipe/stop", "", "is empty"),
        (f"{ENVIRONMENT}/recipe/stop", "now", "must be PRESS, got now"),
        (f"{ENVIRONMENT}/recipe/selected/set", "nosuch", "there is no recipe nosuch"),
        (f"{SET_POINT}/set", "", "is empty"),
        (f"{SET_POINT}/set", "1" * 1_025, "has 1025 bytes"),
    ],
)
async def test_a_command_that_is_not_valid_is_refused_with_its_reason(home, topic, body, why):
    await home.say(topic, body)
    await until(lambda: f"growd/{DEVICE}/event" in home.seen)
    event = home.seen[f"growd/{DEVICE}/event"]
    assert event["event_type"] == "refused"
    assert why in event["text"]
    assert event["topic"].endswith(topic)
    assert home.bus.topics.get(SET_POINT).last is None


async def test_a_retained_command_is_never_carried_out(tmp_path):
    async with broker(tmp_path) as port:
        async with aiomqtt.Client("localhost", port) as somebody:
            await somebody.publish(f"growd/{DEVICE}/{SET_POINT}/set", b"60", qos=1, retain=True)
        async with at_home(port) as home:
            await until(lambda: f"growd/{DEVICE}/event" in home.seen)
            assert "retained" in home.seen[f"growd/{DEVICE}/event"]["text"]
            assert home.bus.topics.get(SET_POINT).last is None


async def test_without_commands_nothing_is_taken_and_nothing_can_be_set(tmp_path):
    async with broker(tmp_path) as port, at_home(port, commands=False) as home:
        await home.say(f"{SET_POINT}/set", "24")
        await home.client.publish("homeassistant/status", "online", qos=1)
        home.seen.pop(CONFIG)
        await until(lambda: CONFIG in home.seen)  # the message before it has been handled, too
        assert home.bus.topics.get(SET_POINT).last is None
        platforms = {each["platform"] for each in home.seen[CONFIG]["components"].values()}
        assert platforms == {"sensor", "binary_sensor"}


async def test_the_newest_of_many_commands_on_a_topic_counts(home):
    await asyncio.gather(*(home.say(f"{SET_POINT}/set", f"{number / 10}") for number in range(200, 280)))
    topic = home.bus.topics.get(SET_POINT)
    await until(lambda: topic.last is not None and topic.last.value == 27.9)
    assert topic.count < 80


async def test_a_recipe_is_chosen_started_and_stopped(home):
    recipe = f"{ENVIRONMENT}/recipe"
    await until(lambda: home.seen[CONFIG]["components"]["recipe_selected"]["options"] == ["-", "lettuce"])
    await home.say(f"{recipe}/selected/set", "lettuce")
    await until(lambda: home.state(ENVIRONMENT, "recipe", "selected") == {"recipe_id": "lettuce"})
    await home.say(f"{recipe}/start", "PRESS")
    await home.say(f"{recipe}/stop", "PRESS")
    await until(lambda: len(home.called) == 2)
    assert home.called == [
        (f"{ENVIRONMENT}/start_recipe", {"recipe_id": "lettuce"}, "mqtt"),
        (f"{ENVIRONMENT}/stop_recipe", {}, "mqtt"),
    ]


async def test_outputs_are_held_safe_and_released(home):
    await home.say("hold/set", "ON")
    await until(lambda: len(home.called) == 1)
    await home.say("hold/set", "OFF")
    await until(lambda: len(home.called) == 2)
    assert [(name, who) for name, _, who in home.called] == [("hold/set", "mqtt"), ("hold/release", "mqtt")]


async def test_mqtt_releases_its_own_hold_and_not_that_of_a_person(home):
    home.status = replace(home.status, holds=[Hold(Holder.PERSON, "hands inside", "ann", 7.0)])
    await home.say("hold/set", "OFF")
    await until(lambda: EVENT in home.seen)
    assert "MQTT releases only its own hold" in home.seen[EVENT]["text"]
    assert "by ann: hands inside" in home.seen[EVENT]["text"]
    home.status = replace(home.status, holds=[Hold(Holder.PERSON, "", "mqtt", 8.0)])
    await home.say("hold/set", "OFF")
    await until(lambda: home.called)
    assert home.called == [("hold/release", {"since": 8.0, "reason": ""}, "mqtt")]


async def test_a_retained_command_that_is_removed_starts_nothing(home):
    """The broker passes the empty message on, without the flag of a retained one."""
    await home.say(f"{ENVIRONMENT}/recipe/selected/set", "lettuce")
    await until(lambda: home.state(ENVIRONMENT, "recipe", "selected") == {"recipe_id": "lettuce"})
    for action in ("start", "stop", "pause", "resume"):
        await home.say(f"{ENVIRONMENT}/recipe/{action}", "", retain=True)
    refused = {"event_type": "refused", "topic": f"growd/{DEVICE}/{ENVIRONMENT}/recipe/resume"}
    await until(lambda: refused.items() <= home.seen.get(EVENT, {}).items())
    assert home.called == []


async def test_the_broker_retains_online_never_so_that_old_values_do_not_come_back(tmp_path):
    async with broker(tmp_path) as port, at_home(port) as home:
        await until(
            lambda: [value for topic, value in home.history if topic == AVAILABILITY].count("online") > 2
        )
        late = Watcher(port)
        async with late.watched():
            await until(lambda: late.seen.get(AVAILABILITY) == "online")
        assert next(value for topic, value in late.history if topic == AVAILABILITY) == "offline"


async def test_what_growd_says_about_a_command_is_an_event(home):
    topic = f"{ENVIRONMENT}/recipe/start"
    await home.say(topic, "lettuce")
    await until(lambda: EVENT in home.seen)
    said = {"event_type": "remark", "text": "as it says", "topic": f"growd/{DEVICE}/{topic}"}
    assert home.seen[EVENT] == said

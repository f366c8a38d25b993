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


async def test_a_value_that_is_not_ok_is_never_published(home):
    for quality in ("fault", "stale", "warm-up"):
        home.status = replace(home.status, variables=[reading("air_temperature", 21.5, quality)])
        await until(lambda quality=quality: home.state(*TEMPERATURE)["quality"] == quality)
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


async def test_an_outage_of_the_broker_is_told_and_everything_published_again(tmp_path):
    async with broker(tmp_path) as port:
        home = Home(port)
        async with home.watched():
            async with home.running():
                await until(lambda: home.is_up)
            await until(lambda: home.seen[AVAILABILITY] == "offline")
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
        async with at_home(port, places=[]) as home:  # the environment is gone
            await until(lambda: home.seen.get(CONFIG) == "")


async def test_alerts_are_listed_and_their_begin_and_end_are_events(home):
    home.status = replace(home.status, alerts=[ALERT])
    await until(lambda: home.seen.get(EVENT))
    assert home.seen[EVENT] == {"event_type": "critical", "text": "it is hot", "rule": "hot"}
    await until(lambda: home.state("alerts")["count"] == 1)
    home.status = replace(home.status, alerts=[])
    await until(lambda: home.seen[EVENT]["event_type"] == "ended")


async def test_a_set_point_takes_effect_and_the_newest_of_many_counts(home):
    await home.say(f"{SET_POINT}/set", "24.5")
    topic = home.bus.topics.get(SET_POINT)
    await until(lambda: topic.last is not None)
    assert (topic.last.value, topic.last.node) == (24.5, NODE)
    await home.say(f"{SET_POINT}/set", "null")
    await until(lambda: topic.last.value is None)
    assert topic.last.quality is Quality.STALE
    await asyncio.gather(*(home.say(f"{SET_POINT}/set", f"{number / 10}") for number in range(200, 280)))
    await until(lambda: topic.last.value == 27.9)
    assert topic.count < 80


async def test_a_command_that_is_not_valid_is_refused_with_its_reason(home, said):
    recipe = f"{ENVIRONMENT}/recipe"
    for topic, *bodies in (
        (f"{SET_POINT}/set", "900", "NaN", "warm", "true", "", "1" * 1_025),
        (f"{ENVIRONMENT}/desired/warmth/set", "1"),
        (f"{ENVIRONMENT}/commanded/air_heater/set", "1"),
        ("elsewhere/desired/air_temperature/set", "1"),
        ("hold/set", "1"),
        (f"{recipe}/start", "PRESS", "broken", ""),
        (f"{recipe}/stop", "", "now"),
        (f"{recipe}/selected/set", "nosuch"),
    ):
        for body in bodies:
            home.seen.pop(EVENT, None)
            await home.say(topic, body)
            await until(lambda: EVENT in home.seen)
            event = home.seen[EVENT]
            assert (event["event_type"], event["topic"]) == ("refused", f"growd/{DEVICE}/{topic}")
            said(event["text"])
    assert home.bus.topics.get(SET_POINT).last is None


async def test_a_retained_command_is_never_carried_out(tmp_path):
    async with broker(tmp_path) as port:
        async with aiomqtt.Client("localhost", port) as somebody:
            await somebody.publish(f"growd/{DEVICE}/{SET_POINT}/set", b"60", qos=1, retain=True)
        async with at_home(port) as home:
            await until(lambda: EVENT in home.seen)
            assert "retained" in home.seen[EVENT]["text"]
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
    topic = f"growd/{DEVICE}/{recipe}/stop"  # what growd says about a command
    remark = {"event_type": "remark", "text": "as it says", "topic": topic}
    await until(lambda: home.seen.get(EVENT) == remark)


async def test_outputs_are_held_safe_and_mqtt_releases_its_own_hold_only(home):
    await home.say("hold/set", "ON")
    await until(lambda: len(home.called) == 1)
    await home.say("hold/set", "OFF")
    await until(lambda: len(home.called) == 2)
    assert [(name, who) for name, _, who in home.called] == [("hold/set", "mqtt"), ("hold/release", "mqtt")]
    home.status = replace(home.status, holds=[Hold(Holder.PERSON, "hands inside", "ann", 7.0)])
    await home.say("hold/set", "OFF")
    await until(lambda: home.seen.get(EVENT, {}).get("event_type") == "refused")
    assert "MQTT releases only its own hold" in home.seen[EVENT]["text"]
    assert "by ann: hands inside" in home.seen[EVENT]["text"]
    home.status = replace(home.status, holds=[Hold(Holder.PERSON, "", "mqtt", 8.0)])
    await home.say("hold/set", "OFF")
    await until(lambda: len(home.called) == 3)
    assert home.called[2] == ("hold/release", {"since": 8.0, "reason": ""}, "mqtt")


async def test_a_retained_command_that_is_removed_starts_nothing(home):
    """The broker passes the empty message on, without the flag of a retained one."""
    await home.say(f"{ENVIRONMENT}/recipe/selected/set", "lettuce")
    await until(lambda: home.state(ENVIRONMENT, "recipe", "selected") == {"recipe_id": "lettuce"})
    for action in ("start", "stop", "pause", "resume"):
        await home.say(f"{ENVIRONMENT}/recipe/{action}", "", retain=True)
    refused = {"event_type": "refused", "topic": f"growd/{DEVICE}/{ENVIRONMENT}/recipe/resume"}
    await until(lambda: refused.items() <= home.seen.get(EVENT, {}).items())
    assert home.called == []


async def test_a_late_client_gets_all_values_at_once_and_online_is_never_retained(tmp_path):
    """So that old values do not come back."""

    def online(watcher):
        return [value for topic, value in watcher.history if topic == AVAILABILITY].count("online")

    async with broker(tmp_path) as port, at_home(port) as home:
        await until(lambda: online(home) > 2)
        late = Watcher(port)
        async with late.watched():
            await until(lambda: late.state(*TEMPERATURE) and online(late))
            assert CONFIG in late.seen
        assert next(value for topic, value in late.history if topic == AVAILABILITY) == "offline"

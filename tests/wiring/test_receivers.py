"""Sensors whose values others send: payloads, freshness, and what does not count."""

import json
from contextlib import asynccontextmanager

import pytest

from growd.bus.messages import Quality
from growd.config import Config, ConfigError, Output, Sensor
from growd.config.mqtt import Mqtt
from growd.wiring.receivers import value_in
from support.refusals import check_config
from support.rig import rigged

TANK = Sensor(
    name="tank", kind="mqtt", topic="tank/1", key="water.temp", variable="water_temperature", stale_after_s=30
)
STRIP = Sensor(name="strip", kind="topic", variable="water_potential_hydrogen", stale_after_s=600)
FAN = Output(name="exhaust", pin=22, variable="air_flush_on")
PLUG = Sensor(name="plug", kind="mqtt", topic="stat/fan/POWER", confirms="exhaust")
BROKER = Mqtt(host="broker")


@asynccontextmanager
async def silent(*sensors, **options):
    """A chamber whose simulated sensors send nothing by themselves."""
    async with rigged(Config(sensor=sensors, mqtt=BROKER, **options)) as rig:
        rig.machine.mqtt.sensors = ()
        await rig.clock.advance(5)
        yield rig


async def send(rig, body, sensor=TANK, *, is_retained=False):
    rig.machine.mqtt.publish(sensor.topic, body, is_retained=is_retained)
    await rig.clock.advance(0.5)


def degrees(number):
    return json.dumps({"water": {"temp": number}}).encode()


async def test_a_simulated_sensor_sends_the_truth():
    async with rigged(Config(sensor=(TANK,), mqtt=BROKER)) as rig:
        await rig.clock.advance(10)
        truth = rig.machine.chamber.water().temperature_degc
        assert rig.last("measured/water_temperature").value == pytest.approx(truth, abs=0.1)
        assert rig.device("samplers/tank")["state"] == "ok"


async def test_a_value_is_known_from_its_arrival_until_it_is_stale(said):
    async with silent(TANK) as rig:
        await send(rig, degrees(21.5))
        sent = rig.clock.monotonic()
        last = rig.last("raw/water_temperature")
        assert (last.value, last.quality) == (21.5, Quality.OK)
        await rig.clock.advance(29 - (rig.clock.monotonic() - sent))
        assert rig.last("raw/water_temperature").quality is Quality.OK
        await rig.clock.advance(2)
        assert rig.last("raw/water_temperature").quality is Quality.STALE
        assert rig.last("measured/water_temperature").quality is Quality.STALE
        device = rig.device("samplers/tank")
        assert device["state"] == "failed"
        said(device["message"])
        await send(rig, degrees(22))
        assert rig.last("measured/water_temperature").quality is Quality.OK
        assert rig.device("samplers/tank")["state"] == "ok"


async def test_a_retained_message_is_no_value():
    async with silent(TANK) as rig:
        await send(rig, degrees(21.5), is_retained=True)
        assert rig.last("raw/water_temperature") is None
        await rig.clock.advance(31)
        assert rig.device("samplers/tank")["state"] == "failed"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\xff\x00garbage", "is not JSON"),
        (b'{"water": null}', "'None' where water.temp should be"),
        (degrees("NaN"), "the payload is no number"),
        (degrees(True), "no number: 'True'; words count only for a switch"),
        (degrees("2_2"), "the payload is no number: '2_2'"),
        (degrees("\N{ARABIC-INDIC DIGIT TWO}" * 2), "the payload is no number"),
        (degrees(1e3), "water_temperature"),
        (b" " * 70_000, "70000 bytes"),
    ],
)
async def test_what_is_no_value_is_a_fault_at_once_and_does_not_count(body, words):
    async with silent(TANK) as rig:
        await send(rig, degrees(21.5))
        await rig.clock.advance(20)
        await send(rig, body)
        await send(rig, b'{"battery": 91}')  # about something else: it does not end a fault
        assert rig.last("raw/water_temperature").quality is Quality.FAULT
        for seconds, state in ((0, "degraded"), (15, "failed")):
            await rig.clock.advance(seconds)
            device = rig.device("samplers/tank")
            assert device["state"] == state
            assert words in device["message"]


async def test_a_message_about_something_else_changes_nothing():
    async with silent(TANK) as rig:
        for body in (b"{}", b'{"battery": 91, "linkquality": 131}', b'{"water": {"level": 3}}'):
            await send(rig, degrees(21.5))
            rig.machine.mqtt.publish(TANK.topic, degrees(22.5))
            await send(rig, body)  # within the same tenth of a second as the value
            assert rig.last("raw/water_temperature").value == 22.5
            await rig.clock.advance(20)
            await send(rig, body)
            assert rig.last("raw/water_temperature").quality is Quality.OK
            assert rig.device("samplers/tank")["state"] == "ok"
            await rig.clock.advance(11)  # it does not make the value fresh
            assert rig.last("raw/water_temperature").quality is Quality.STALE
            assert "have no water.temp" in rig.device("samplers/tank")["message"]


async def test_of_a_flood_the_newest_message_counts():
    async with silent(TANK) as rig:
        before = rig.bus.topics.get("environment_1/raw/water_temperature").count
        for number in range(1_000):
            rig.machine.mqtt.publish("tank/1", degrees(number / 100))
        await rig.clock.advance(1)
        topic = rig.bus.topics.get("environment_1/raw/water_temperature")
        assert topic.last is not None
        assert topic.last.value == 9.99
        assert topic.count - before <= 3


async def test_the_state_of_a_plug_confirms_an_output():
    async with silent(PLUG, output=(FAN,)) as rig:
        for body, value in ((b"ON", 1), (b"OFF", 0), (b"true", 1), (b"0", 0)):
            await send(rig, body, PLUG)
            assert rig.last("feedback/exhaust").value == value
        await rig.clock.advance(61)
        assert rig.last("feedback/exhaust").quality is Quality.STALE
    async with rigged(Config(sensor=(PLUG,), output=(FAN,), mqtt=BROKER)) as rig:  # a simulated one
        for level in (0, 1):
            rig.bus.node(f"client {level}").publish_arguments("environment_1/desired/air_flush_on", [level])
            await rig.clock.advance(10)
            assert rig.last("feedback/exhaust").value == level


async def test_a_posted_value_is_a_sensor_with_freshness():
    async with silent(STRIP) as rig:
        client = rig.bus.node("client")
        client.publish_arguments("environment_1/posted/strip", [6.1])
        await rig.clock.advance(0.5)
        assert rig.last("measured/water_potential_hydrogen").value == 6.1
        client.publish_arguments("environment_1/posted/strip", [61.0])
        await rig.clock.advance(0.5)
        assert rig.last("raw/water_potential_hydrogen").quality is Quality.FAULT
        client.publish_arguments("environment_1/posted/strip", [6.2])
        await rig.clock.advance(599)
        assert rig.last("raw/water_potential_hydrogen").value == 6.2
        assert rig.last("measured/water_potential_hydrogen").quality is Quality.OK
        await rig.clock.advance(2)
        assert rig.last("measured/water_potential_hydrogen").quality is Quality.STALE
        reason = "no value has come on topic environment_1/posted/strip for 600 s"
        assert rig.device("samplers/strip")["message"] == reason


def test_a_value_is_found_in_a_payload_and_words_are_values_of_a_switch(said):
    assert value_in(b'{"door": true}', "door", is_switch=True) == 1
    assert value_in(b" Closed", "", is_switch=True) == 0
    assert value_in(b"0.5", "", is_switch=True) == 0.5
    assert value_in(b'{"a": [{"b c": "1.5"}]}', "a.0.b c") == 1.5
    assert value_in(b" -3e1\n", "") == -30
    with said.raises(ValueError):
        value_in(b"[" * 60_000, "temperature")
    assert value_in(b'{"a": [1]}', "a.1") is None
    assert value_in(b'{"a": [1]}', "a.b") is None


async def test_scale_and_offset_make_the_unit_of_the_variable():
    fahrenheit = Sensor(
        name="f", kind="mqtt", topic="t", variable="air_temperature", scale=5 / 9, offset=-160 / 9
    )
    async with silent(fahrenheit) as rig:
        await send(rig, b"77", fahrenheit)
        assert rig.last("raw/air_temperature").value == pytest.approx(25)


REFUSED = (
    ({"topic": "a/#"}, BROKER),
    ({"topic": ""}, BROKER),
    ({"topic": "a"}, Mqtt()),
    ({"topic": "a", "interval_s": 5.0}, BROKER),
    ({"topic": "a", "scale": 0.0}, BROKER),
    ({"topic": "a", "address": 5}, BROKER),
    ({"kind": "topic", "topic": "a"}, BROKER),
)


def test_options_that_do_not_fit_are_refused(said):
    for options, mqtt in REFUSED:
        chosen = {"name": "tank", "kind": "mqtt", "variable": "water_temperature"} | options
        with said.raises(ConfigError):
            check_config(Config(sensor=(Sensor(**chosen),), mqtt=mqtt))

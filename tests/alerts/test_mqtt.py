"""Alerts on the connection to a real broker."""

import asyncio
import json

import pytest

from growd.bus import Bus
from growd.config import Config, ConfigError
from growd.config.alerts import Notify
from growd.host.mqtt import Broker, MqttLink
from growd.runtime.clock import RealClock
from growd_alerts.channels import read_channels
from growd_alerts.messages import Alert, AlertMessage, Entry, Sender
from growd_alerts.rules import AlertPhase
from support.broker import broker, listening
from support.waiting import PATIENCE_S

TIME = 1_700_000_000.0
SENDER = Sender("chamber", "0123456789ab")
ALERT = Alert("a1", "hot", "out_of_band", "critical", "environment_1", "it is hot", TIME - 700, TIME)
HOUSE = Config(notify=(Notify(name="house", kind="mqtt"),))
START = AlertMessage((Entry(AlertPhase.START, ALERT),))


async def test_each_message_is_published_once_with_its_alerts(tmp_path):
    async with broker(tmp_path) as port, listening(port) as other:
        link = MqttLink(Bus(RealClock()), Broker("localhost", port, None, PATIENCE_S), "growd-test")
        send = read_channels(HOUSE, SENDER, lambda: TIME, link)["house"]
        with pytest.raises(ConnectionError, match="there is no connection yet"):
            await send(START)
        task = asyncio.create_task(link.run(), name="mqtt")
        await link.connected()
        await send(START)
        message = await other.next("event")
        task.cancel()
        await asyncio.wait([task])
    assert str(message.topic) == "growd/0123456789ab/alerts/event"
    assert not message.retain
    document = json.loads(message.payload)
    assert [each["id"] for each in document["alerts"]] == ["a1"]


def test_a_channel_that_comes_while_growd_runs_without_a_connection_needs_a_restart():
    with pytest.raises(ConfigError, match="restart growd"):
        read_channels(HOUSE, SENDER, lambda: TIME, None)

"""MQTT, against a real broker: with TLS and a login, retained messages, a will, and outages."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from growd.alerts.channels.mqtt import MqttAlerts
from growd.alerts.dispatch import DeliveryError
from growd.alerts.messages import Alert, AlertMessage, Entry, Sender
from growd.alerts.rules import AlertPhase
from growd.host.mqtt_connection import Broker
from growd.runtime.pauses import Pauses
from support.broker import PASSWORD, USER, broker, listening
from support.stand_in import StandIn
from support.tls_door import CA_FILE
from support.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import aiomqtt

TIME = 1_700_000_000.0
SOON = Pauses(0.05, 0.1)
ALERT = Alert("a1", "hot", "out_of_band", "critical", "environment_1", "it is hot", TIME - 700, TIME)
START = AlertMessage((Entry(AlertPhase.START, ALERT),))
EVENT, OPEN, STATUS = "event", "open", "status"


class Line:
    """A channel that runs, and how often it came up."""

    def __init__(
        self,
        port: int,
        *,
        tls: bool = False,
        password: str = "",
        pauses: Pauses = SOON,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        self.opened: list[Alert] = []
        self.ups: asyncio.Queue[None] = asyncio.Queue()
        context = ssl.create_default_context(cafile=CA_FILE) if tls else None
        where = Broker("localhost", port, context, timeout_s, USER if password else "", password)
        sender = Sender("chamber", "0123456789ab")
        self.mqtt = MqttAlerts(where, "growd", sender, lambda: TIME, lambda: self.opened, pauses=pauses)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.mqtt.run(lambda: self.ups.put_nowait(None)), name="mqtt")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def up(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.ups.get()


def payload(message: aiomqtt.Message) -> Any:
    assert isinstance(message.payload, (bytes, bytearray))
    return json.loads(message.payload)


async def test_events_are_published_and_open_alerts_are_retained(tmp_path: Path):
    async with broker(tmp_path, tls=True, login=True) as port:
        context = ssl.create_default_context(cafile=CA_FILE)
        login = {"username": USER, "password": PASSWORD, "tls_context": context}
        line = Line(port, tls=True, password=PASSWORD)
        async with listening(port, **login) as early, line.running():
            line.opened = [ALERT]
            name = await line.mqtt.send(START)
            event = await early.next(EVENT)
            assert (event.qos, event.retain) == (1, False)
            assert payload(event)["id"] == name
            assert payload(event)["alerts"][0]["text"] == "it is hot"
            async with listening(port, **login) as late:
                message = await late.next(OPEN)
                assert message.retain
                assert [each["id"] for each in payload(message)["alerts"]] == ["a1"]
            async with listening(port, **login) as later:
                message = await later.next(STATUS)
                assert (bytes(message.payload), message.retain) == (b"online", True)
        async with listening(port, **login) as last:
            assert (await last.next(STATUS)).payload == b"offline"


async def test_a_lost_connection_is_offline_by_the_will_and_is_restored(tmp_path: Path):
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(copy(reader, requests), copy(answers, writer))
        finally:
            requests.transport.abort()
            with suppress(ConnectionError):
                await requests.wait_closed()

    async with broker(tmp_path) as port, StandIn(relay) as network:
        line = Line(network.port)
        async with listening(port) as other, line.running():
            assert (await other.next(STATUS)).payload == b"online"
            await line.up()
            await network.down()
            assert (await other.next(STATUS)).payload == b"offline"
            await network.up()
            assert (await other.next(STATUS)).payload == b"online"


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(4_096):
            writer.write(data)
    writer.close()


async def test_a_restarted_broker_gets_the_open_alerts(tmp_path: Path, own_port: int):
    port = own_port
    line = Line(port)
    async with line.running():
        async with broker(tmp_path, port=port):
            await line.up()
        line.opened = [ALERT]
        async with broker(tmp_path, port=port):
            await line.up()
            async with listening(port) as other:
                assert [each["id"] for each in payload(await other.next(OPEN))["alerts"]] == ["a1"]


async def test_a_wrong_password_is_reported(tmp_path: Path):
    async with broker(tmp_path, login=True) as port:
        line = Line(port, password="wrong")
        async with line.running():
            with pytest.raises(DeliveryError, match=r"the broker can't be reached: .*(?i:authori)"):
                await line.mqtt.send(START)


@pytest.mark.parametrize(("timeout_s", "attempts"), [(0.1, 3), (30.0, 1), (30.0, 0)])
async def test_a_silent_broker_is_left_after_the_time_limit_and_at_the_end(timeout_s: float, attempts: int):
    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client leaves

    async with StandIn(listen) as silent:
        async with Line(silent.port, timeout_s=timeout_s).running():
            await asyncio.sleep(0)  # the first attempt starts
            await until(lambda: silent.connections >= attempts)
        await until(lambda: silent.connections >= 1)  # also one that its thread made after the end
        await silent.finished()


async def test_a_broker_that_is_not_there_is_reported(own_port: int):
    line = Line(own_port)
    async with line.running():
        with pytest.raises(DeliveryError, match=r"the broker can't be reached: .*refused"):
            await line.mqtt.send(START)


async def test_a_message_does_not_wait_for_the_next_regular_attempt(tmp_path: Path, own_port: int):
    line = Line(own_port, pauses=Pauses(3_600.0, 3_600.0))
    async with line.running():
        with pytest.raises(DeliveryError, match="refused"):
            await line.mqtt.send(START)
        async with broker(tmp_path, port=own_port), asyncio.timeout(PATIENCE_S):
            assert await line.mqtt.send(START) == START.id

"""The connection to the MQTT broker of the section [mqtt], for sensors and outputs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from growd.host.mqtt_connection import KEEP_ALIVE_S, MqttConnection
from growd.host.mqtt_outages import PAUSES, BrokerOutages
from growd_drivers.network_switch import NETWORK_LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.bus import Bus
    from growd.host.mqtt_connection import Broker
    from growd.runtime.pauses import Pauses

_ALIVE_S: Final = 10  # for an output, which a lost connection makes safe
_NEVER: Final = "there is no connection yet"
_log = logging.getLogger(__name__)


class MqttLink:
    """A `growd_drivers.mqtt.MqttClient`, whose connection is permanent and is restored after an outage.

    Messages of the time without a connection are lost; a message that the broker had retained is marked. The
    node `name` has its state, and an outage is a problem of the node. The broker publishes `will`, a topic
    and a body, when it loses the connection.
    """

    def __init__(
        self,
        bus: Bus,
        broker: Broker,
        identifier: str,
        *,
        pauses: Pauses = PAUSES,
        name: str = "mqtt",
        will: tuple[str, bytes] | None = None,
    ) -> None:
        self.node = bus.node(name)
        self._own: dict[str, MqttLink] = {}
        self._will = will
        self._broker = broker
        self._identifier = identifier
        self._outages = BrokerOutages(broker, identifier, pauses)
        self._loop = asyncio.get_running_loop()
        self._receivers: dict[str, list[Callable[[bytes, bool], None]]] = {}
        self._connection: MqttConnection | None = None
        self._refused: dict[str, str] = {}  # topics, and why
        self._is_changed = asyncio.Event()
        self.node.describe("broker", self._information)
        self.node.describe("problems", self._problems)

    @property
    def problem(self) -> str:
        """See `MqttClient`."""
        if self._connection is not None or not self._outages.reason:
            return ""
        return f"{self._outages.name} can't be reached: {self._outages.reason}"

    def subscribe(self, topic: str, receive: Callable[[bytes, bool], None]) -> None:
        """See `MqttClient`; on the event loop."""
        self._receivers.setdefault(topic, []).append(receive)
        self._is_changed.set()

    def of_output(self, topic: str) -> MqttLink:
        """See `MqttClient`."""
        return self._own.get(topic, self)

    def own(self, topic: str, link: MqttLink) -> None:
        """Give the output at a topic a connection of its own: a connection has only one last will."""
        self._own[topic] = link

    def send(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """See `MqttClient`. Without a connection it fails at once."""
        limit_s = min(self._broker.timeout_s, NETWORK_LIMIT_S)
        sending = asyncio.run_coroutine_threadsafe(self.publish(topic, body, retain=retain), self._loop)
        try:
            sending.result(limit_s)
        except TimeoutError:
            sending.cancel()
            raise ConnectionError(f"{self._outages.name} does not answer within {limit_s:g} s") from None

    async def publish(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """As `send`, on the event loop and without a time limit."""
        if self._connection is None:
            raise ConnectionError(f"{self._outages.name} can't be reached: {self._outages.reason or _NEVER}")
        await self._connection.publish(topic, body, retain=retain)

    async def run(self) -> None:
        """Maintain the connection until cancelled."""
        await self._outages.keep(self._connect)

    async def _connect(self) -> None:
        async with self._connected() as connection, asyncio.TaskGroup() as tasks:
            subscribing = tasks.create_task(self._subscribe(connection), name="mqtt: subscriptions")
            try:
                await connection.until_lost()
            finally:
                subscribing.cancel()

    @contextlib.asynccontextmanager
    async def _connected(self) -> Any:
        topic, body = self._will or ("", None)
        connection = MqttConnection(
            self._broker,
            self._identifier,
            will=topic,
            will_body=body,
            keep_alive_s=KEEP_ALIVE_S if body is None else _ALIVE_S,
            receive=self._receive,
        )
        try:
            await connection.open()
            self._connection = connection
            self._outages.end()
            yield connection
        finally:
            self._connection = None
            connection.close()

    async def _subscribe(self, connection: MqttConnection) -> None:
        """Subscribe to all topics that receivers want, and to those that they want later."""
        done: set[str] = set()
        self._refused = {}
        while True:
            self._is_changed.clear()
            if missing := sorted(self._receivers.keys() - done):
                async with asyncio.timeout(self._broker.timeout_s):
                    refused = await connection.subscribe(*missing)
                done.update(missing)
                self._note(refused)
            await self._is_changed.wait()

    def _receive(self, topic: str, body: bytes, is_retained: bool) -> None:  # noqa: FBT001  of MqttConnection
        for receive in self._receivers.get(topic, ()):
            receive(body, is_retained)

    def _note(self, refused: dict[str, str]) -> None:
        """Topics that the broker refuses are problems of their sensors, and not of the connection."""
        for topic, reason in refused.items():
            _log.warning("%s refuses the topic %s: %s", self._outages.name, topic, reason)
        self._refused |= refused

    def _information(self) -> dict[str, Any]:
        return {
            "host": self._broker.host,
            "port": self._broker.port,
            "is_connected": self._connection is not None,
            "topics": sorted(self._receivers),
        }

    def _problems(self) -> list[dict[str, Any]]:
        lost = [f"{self.problem}; its sensors and outputs fail"] if self.problem else []
        refused = [
            f"{self._outages.name} refuses the topic {topic} ({reason}): "
            "permit the user to read it, then restart growd"
            for topic, reason in self._refused.items()
        ]
        return [{"text": text, "is_failure": True} for text in (*lost, *refused)]

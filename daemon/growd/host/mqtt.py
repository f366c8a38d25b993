"""The connection to the MQTT broker of the section [mqtt], over aiomqtt."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

import aiomqtt
import msgspec

from growd.runtime.pauses import Pauses
from growd.runtime.sentence import Sentence, problem
from growd.runtime.supervisor import TaskFault
from growd_drivers.network_switch import NETWORK_LIMIT_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from growd.bus import Bus

T = TypeVar("T")

PAUSES: Final = Pauses(1.0, 60.0)
"""Between attempts to connect, in real seconds."""

AT_LEAST_ONCE: Final = 1
_KEEP_ALIVE_S: Final = 20  # the broker notices a silent loss after one and a half of it
_MOST_UNACKNOWLEDGED: Final = 100  # messages to a broker that does not answer; further ones fail at once
_MOST_RECEIVED: Final = 1_000  # that wait for their receivers; further ones are lost
_LASTING_S: Final = 10.0  # a connection that is lost sooner does not end an outage
_MANY: Final = 3  # failures in a row
_GOODBYE_S: Final = 2.0
_CLOSE_S: Final = 0.1
_UNUSED_TOPIC: Final = "growd/unused"
_NEVER: Final = "there is no connection yet"
_log = logging.getLogger(__name__)
_quiet = logging.getLogger(f"{__name__}.client")
_quiet.setLevel(logging.ERROR)


class Broker(msgspec.Struct, frozen=True):
    """The broker. Without `context` there is no TLS, without `user` no login."""

    host: str
    port: int
    context: ssl.SSLContext | None
    timeout_s: float
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        return f"the MQTT broker {self.host}:{self.port}"

    def client(self, identifier: str, **options: Any) -> aiomqtt.Client:
        """A client that is not connected yet."""
        return aiomqtt.Client(
            self.host,
            self.port,
            identifier=identifier,
            username=self.user or None,
            password=self.password if self.user else None,
            tls_context=self.context,
            timeout=self.timeout_s,
            logger=_quiet,
            **options,
        )


class MqttLink:
    """A `growd_drivers.mqtt.MqttClient`: one connection, which is restored after an outage.

    Messages of the time without a connection are lost; a message that the broker had retained is marked. The
    node `name` has its state. An outage is a problem of the node, a failure if it `is_vital`. The broker
    publishes `will` when it loses the connection, and growd publishes it at the end.
    """

    def __init__(
        self,
        bus: Bus,
        broker: Broker,
        identifier: str,
        *,
        pauses: Pauses = PAUSES,
        name: str = "mqtt",
        will: aiomqtt.Will | None = None,
        keep_alive_s: int = _KEEP_ALIVE_S,
        is_vital: bool = True,
    ) -> None:
        self.node = bus.node(name)
        self.broker = broker
        self.connections = 0
        """How many there were, with the present one."""
        self._identifier = identifier
        self._pauses = pauses
        self._will = will
        self._keep_alive_s = keep_alive_s
        self._is_vital = is_vital
        self._own: dict[str, MqttLink] = {}
        self._fault = TaskFault(_log, f"{broker} can't be reached", f"{broker} can be reached again")
        self._loop = asyncio.get_running_loop()
        self._receivers: list[tuple[str, Callable[[str, bytes, bool], None]]] = []
        self._refused: dict[str, str] = {}  # topics, and why
        self._is_changed = asyncio.Event()  # there are further topics
        self._is_up = asyncio.Event()
        self._client: aiomqtt.Client | None = None
        self.node.describe("broker", self._information)
        self.node.describe("problems", self._problems)

    @property
    def problem(self) -> str:
        """See `MqttClient`."""
        reason = "" if self._client is not None else self.reason
        return f"{self.broker} can't be reached: {reason}" if reason else ""

    @property
    def reason(self) -> str:
        """Why there is no connection, or why the last ones were lost at once; "" without a failure."""
        return str(self._fault)

    def subscribe(self, topic: str, receive: Callable[[bytes, bool], None]) -> None:
        """See `MqttClient`; on the event loop."""
        self.listen([topic], lambda _, body, is_retained: receive(body, is_retained))

    def listen(self, topics: Iterable[str], receive: Callable[[str, bytes, bool], None]) -> None:
        """As `subscribe`, for topics with wildcards; `receive` also gets the topic of the message."""
        self._receivers += [(topic, receive) for topic in topics]
        self._is_changed.set()

    def of_output(self, topic: str) -> MqttLink:
        """See `MqttClient`."""
        return self._own.get(topic, self)

    def own(self, topic: str, link: MqttLink) -> None:
        """Give the output at a topic a connection of its own: a connection has only one last will."""
        self._own[topic] = link

    async def connected(self) -> int:
        """Wait for a connection, and return its number: see `connections`."""
        await self._is_up.wait()
        return self.connections

    def send(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """See `MqttClient`. Without a connection it fails at once."""
        limit_s = min(self.broker.timeout_s, NETWORK_LIMIT_S)
        sending = asyncio.run_coroutine_threadsafe(self.publish(topic, body, retain=retain), self._loop)
        try:
            sending.result(limit_s)
        except TimeoutError:
            sending.cancel()
            raise ConnectionError(f"{self.broker} does not answer within {limit_s:g} s") from None

    async def publish(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """Publish, and wait for the acknowledgement. Raises ConnectionError."""
        if (client := self._client) is None:
            raise ConnectionError(self.problem or f"{self.broker} can't be reached: {_NEVER}")
        await self._answer(client.publish(topic, body, qos=AT_LEAST_ONCE, retain=retain, timeout=math.inf))

    async def run(self) -> None:
        """Maintain the connection until cancelled."""
        while True:
            before = self.connections
            try:
                await self._connect()
            except* (aiomqtt.MqttError, ConnectionError) as errors:
                self._lost(_reason(errors), was_up=self.connections > before)
            await asyncio.sleep(self._pauses.after(self._fault.failures))

    async def _connect(self) -> None:
        async with self._connection() as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._subscribe(client), name=f"{self.node.name}: subscriptions")
            tasks.create_task(self._outlast(), name=f"{self.node.name}: end of an outage")
            async for message in client.messages:
                for topic, receive in tuple(self._receivers):
                    if message.topic.matches(topic):
                        receive(str(message.topic), message.payload, message.retain)

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[aiomqtt.Client]:
        # A new client each time: paho would send again what the last one could not, such as an old command.
        client = self.broker.client(
            self._identifier,
            will=self._will,
            keepalive=self._keep_alive_s,
            max_queued_incoming_messages=_MOST_RECEIVED,
            max_queued_outgoing_messages=_MOST_UNACKNOWLEDGED,
        )
        opening = asyncio.create_task(client.__aenter__(), name=f"{self.node.name}: connection")
        try:
            await asyncio.shield(opening)  # its thread can't be cancelled
            yield client
        except asyncio.CancelledError:
            await self._say_goodbye()
            raise
        finally:
            self._client = None
            self._is_up.clear()
            await _close(client, opening)

    async def _subscribe(self, client: aiomqtt.Client) -> None:
        """Subscribe to all topics that receivers want, and to those that they want later."""
        done: set[str] = set()
        self._refused = {}
        while True:
            self._is_changed.clear()
            if missing := sorted({topic for topic, _ in self._receivers} - done):
                wanted = [(topic, AT_LEAST_ONCE) for topic in missing]
                reasons = await self._answer(client.subscribe(wanted, timeout=math.inf))
                done.update(missing)
                self._note(dict(zip(missing, reasons, strict=False)))
            elif self._client is None:
                # aiomqtt overlooks a loss while the connection opens: only an answer proves the connection.
                await self._answer(client.unsubscribe(_UNUSED_TOPIC, timeout=math.inf))
            if self._client is None:
                self.connections += 1
                self._client = client
                self._is_up.set()
            await self._is_changed.wait()

    async def _outlast(self) -> None:
        await asyncio.sleep(_LASTING_S)
        self._fault.succeeded()

    async def _answer(self, sending: Awaitable[T]) -> T:
        """Wait for the broker. Raises ConnectionError."""
        try:
            async with asyncio.timeout(self.broker.timeout_s):
                return await sending
        except TimeoutError:
            raise ConnectionError(
                f"{self.broker} does not answer within {self.broker.timeout_s:g} s"
            ) from None
        except aiomqtt.MqttError as error:
            raise ConnectionError(f"{self.broker}: {_reason(error)}") from None

    async def _say_goodbye(self) -> None:
        if (client := self._client) is not None and (will := self._will) is not None:
            with contextlib.suppress(TimeoutError, aiomqtt.MqttError):
                async with asyncio.timeout(_GOODBYE_S):
                    await client.publish(will.topic, will.payload, will.qos, will.retain, timeout=math.inf)

    def _lost(self, reason: str, *, was_up: bool) -> None:
        if was_up and self._fault.failures >= _MANY:  # MQTT 3.1.1 gives no reason
            reason += f" within seconds, again and again; another client may have the id {self._identifier}"
        self._fault.failed(reason)

    def _note(self, answers: dict[str, Any]) -> None:
        """Topics that the broker refuses are problems of their sensors, and not of the connection."""
        for topic, reason in answers.items():
            if reason.is_failure:
                _log.warning("%s refuses the topic %s: %s", self.broker, topic, reason)
                self._refused[topic] = str(reason)

    def _information(self) -> dict[str, Any]:
        return {
            "host": self.broker.host,
            "port": self.broker.port,
            "is_connected": self._client is not None,
            "topics": sorted({topic for topic, _ in self._receivers}),
        }

    def _problems(self) -> list[dict[str, Any]]:
        found, broker = [], str(self.broker)
        if reason := self.problem:
            said = Sentence(reason, "broker_away", broker=broker, reason=reason)
            found.append(problem(said, is_failure=self._is_vital))
        for topic, reason in self._refused.items():
            text = f"{broker} refuses the topic {topic} ({reason})"
            said = Sentence(text, "broker_refuses", broker=broker, topic=topic, reason=reason)
            remedy = "Permit the user to read it, then restart growd."
            found.append(problem(said, name=topic, is_failure=self._is_vital, remedy=remedy))
        return found


async def publish_once(broker: Broker, identifier: str, messages: Iterable[tuple[str, bytes]]) -> None:
    """Publish these on a connection of their own. Raises ConnectionError."""
    try:
        async with broker.client(identifier) as client:
            for topic, body in messages:
                await client.publish(topic, body, qos=AT_LEAST_ONCE)
    except aiomqtt.MqttError as error:
        raise ConnectionError(f"{broker}: {_reason(error)}") from None


async def _close(client: aiomqtt.Client, opening: asyncio.Task[Any]) -> None:
    """End the connection, also one that the broker has not accepted."""
    await asyncio.wait([opening], timeout=_GOODBYE_S)
    client.timeout = _CLOSE_S
    if opening.done():
        opening.exception()
        with contextlib.suppress(aiomqtt.MqttError):
            await client.__aexit__(None, None, None)


def _reason(error: BaseException) -> str:
    """The cause, which aiomqtt's sentence hides; without the number of paho's code."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(error.exceptions[0])
    return str(error.__cause__ or error)

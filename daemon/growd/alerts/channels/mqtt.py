"""Alerts by MQTT 3.1.1: events, and the open alerts as a retained message."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from growd.alerts.dispatch import DeliveryError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from paho.mqtt.client import SocketLike
    from paho.mqtt.enums import MQTTErrorCode
    from paho.mqtt.reasoncodes import ReasonCode

    from growd.alerts.messages import Alert, AlertMessage, Sender

DELAYS_S: Final = (2.0, 300.0)  # the first and the longest between attempts to connect
KEEP_ALIVE_S: Final = 60
GOODBYE_S: Final = 2.0
_TICK_S: Final = 1.0
_LOST: Final = "the connection was lost"
_AT_LEAST_ONCE: Final = 1
_SHARE: Final = 0.9  # of the time limit of a message, so that the reason of a failure is reported in time


@dataclass(frozen=True)
class Broker:
    """The broker. Without `context` there is no TLS, without `user` no login."""

    host: str
    port: int
    context: ssl.SSLContext | None
    timeout_s: float
    user: str = ""
    password: str = ""


class _Connection:
    """One connection, which paho's client makes in a thread and the event loop then drives.

    Raises OSError if the broker can't be reached, refuses, or is lost.
    """

    def __init__(self, broker: Broker, identifier: str, will: str) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._accepted = self._loop.create_future()
        self._lost = asyncio.Event()
        self._acknowledged: dict[int, asyncio.Future[None]] = {}
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2, identifier, reconnect_on_failure=False
        )
        client.connect_timeout = broker.timeout_s
        if broker.user:
            client.username_pw_set(broker.user, broker.password)
        if broker.context is not None:
            client.tls_set_context(broker.context)
        client.will_set(will, b"offline", qos=_AT_LEAST_ONCE, retain=True)
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish

    async def open(self) -> None:
        """Connect, and wait until the broker accepts."""
        connecting = self._loop.run_in_executor(
            None, self._client.connect, self._broker.host, self._broker.port, KEEP_ALIVE_S
        )
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:  # the thread can't be cancelled
            connecting.add_done_callback(self._close_late)
            raise
        if (socket := self._client.socket()) is None:
            raise ConnectionError(_LOST)
        self._client.on_socket_close = self._on_socket_close
        self._loop.add_reader(socket, self._read)
        try:
            async with asyncio.timeout(self._broker.timeout_s):
                await self._accepted
        except TimeoutError:
            raise ConnectionError(f"no answer within {self._broker.timeout_s:g} s") from None

    async def publish(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """Publish, and wait for the acknowledgement."""
        message = self._client.publish(topic, body, _AT_LEAST_ONCE, retain)
        if message.rc != paho.MQTT_ERR_SUCCESS:
            raise ConnectionError(paho.error_string(message.rc))
        acknowledged = self._acknowledged[message.mid] = self._loop.create_future()
        try:
            await acknowledged
        finally:
            del self._acknowledged[message.mid]

    async def until_lost(self) -> None:
        """Send pings, and what the socket did not take at once, until the connection is lost."""
        while self._client.loop_misc() == paho.MQTT_ERR_SUCCESS:
            self._read()  # TLS may have decrypted more than one message at once
            if self._client.want_write():
                self._client.loop_write()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._lost.wait()
        raise ConnectionError(_LOST)

    def close(self) -> None:
        """End the connection, if there is one."""
        self._accepted.cancel()
        self._client.disconnect()

    def _close_late(self, connecting: asyncio.Future[MQTTErrorCode]) -> None:
        if connecting.exception() is None:
            self.close()

    def _read(self) -> None:
        try:
            self._client.loop_read()
        except Exception as error:  # noqa: BLE001  paho raises several if the broker breaks the protocol
            self._fail(f"the broker sends an invalid message: {error!r}")
            self.close()

    def _on_connect(self, _: object, __: object, ___: object, reason: ReasonCode, *____: object) -> None:
        if reason.is_failure:
            self._fail(str(reason))
        elif not self._accepted.done():
            self._accepted.set_result(None)

    def _on_publish(self, _: object, __: object, message: int, *___: object) -> None:
        acknowledged = self._acknowledged.get(message)
        if acknowledged is not None and not acknowledged.done():
            acknowledged.set_result(None)

    def _on_socket_close(self, _: object, __: object, socket: SocketLike) -> None:
        self._loop.remove_reader(socket)
        self._lost.set()
        self._fail(_LOST)

    def _fail(self, reason: str) -> None:
        for waiting in (self._accepted, *self._acknowledged.values()):
            if not waiting.done():
                waiting.set_exception(ConnectionError(reason))


class Mqtt:
    """Publishes on a broker with quality of service 1.

    `<topic>/alerts/event` has each message, `<topic>/alerts/open` (retained) the open alerts, and
    `<topic>/alerts/status` (retained) "online", or "offline" when growd has ended or the broker has lost it.
    The connection is permanent and is restored after an outage.
    """

    def __init__(
        self,
        broker: Broker,
        topic: str,
        sender: Sender,
        now: Callable[[], float],
        opened: Callable[[], Sequence[Alert]],
        *,
        delays: tuple[float, float] = DELAYS_S,
    ) -> None:
        self._broker = broker
        self._event, self._open, self._status = (
            f"{topic}/alerts/{name}" for name in ("event", "open", "status")
        )
        self._sender = sender
        self._now = now
        self._opened = opened
        self._first_delay, self._longest_delay = delays
        self._connection: _Connection | None = None
        self._attempted: asyncio.Future[None] | None = None  # `send` waits for an attempt to connect
        self._is_wanted = asyncio.Event()
        self._error = "there is no connection yet"

    async def run(self, is_up: Callable[[], None]) -> None:
        """Maintain the connection until cancelled."""
        delay = self._first_delay
        while True:
            try:
                async with self._connected() as connection:
                    delay = self._first_delay
                    is_up()
                    self._answer()
                    await connection.until_lost()
            except OSError as error:
                self._error = f"the broker can't be reached: {error}"
                self._answer(self._error)
            self._is_wanted.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay * random.uniform(0.5, 1.0)):  # noqa: S311  no secret
                    await self._is_wanted.wait()
            delay = min(2 * delay, self._longest_delay)

    async def send(self, batch: AlertMessage) -> str:
        """See `AlertChannel`. Without a connection it tries to connect at once."""
        limit = _SHARE * self._broker.timeout_s
        try:
            async with asyncio.timeout(limit):
                if self._connection is None:
                    await self._attempt()
                connection = self._connection
                if connection is None:
                    raise DeliveryError(self._error)
                body = msgspec.json.encode(self._sender.document(batch, self._now()))
                await connection.publish(self._event, body)
                await self._publish_open(connection)
        except TimeoutError:
            sentence = "can't be reached" if self._connection is None else "does not answer"
            raise DeliveryError(f"the broker {sentence} within {limit:g} s") from None
        except OSError as error:
            raise DeliveryError(f"can't publish on the broker: {error}") from None
        return batch.id

    async def _attempt(self) -> None:
        """Start an attempt to connect now, and wait for it. Raises `DeliveryError` if it fails."""
        self._attempted = asyncio.get_running_loop().create_future()
        self._is_wanted.set()
        await self._attempted

    def _answer(self, error: str = "") -> None:
        """Give the result of an attempt to `send`, if it waits for it."""
        if self._attempted is None or self._attempted.done():
            return
        if error:
            self._attempted.set_exception(DeliveryError(error))
        else:
            self._attempted.set_result(None)

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[_Connection]:
        """A connection, with the status "online" for the body. Raises OSError."""
        connection = _Connection(self._broker, f"growd-{self._sender.device}", self._status)
        try:
            await connection.open()
            async with asyncio.timeout(self._broker.timeout_s):
                await connection.publish(self._status, b"online", retain=True)
                await self._publish_open(connection)
            self._connection = connection
            yield connection
        except asyncio.CancelledError:
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    async with asyncio.timeout(GOODBYE_S):
                        await connection.publish(self._status, b"offline", retain=True)
            raise
        finally:
            self._connection = None
            connection.close()

    async def _publish_open(self, connection: _Connection) -> None:
        body = msgspec.json.encode(self._sender.opened(self._opened(), self._now()))
        await connection.publish(self._open, body, retain=True)

"""One connection to an MQTT 3.1.1 broker, driven by the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from paho.mqtt.client import MQTTMessage, SocketLike
    from paho.mqtt.enums import MQTTErrorCode
    from paho.mqtt.reasoncodes import ReasonCode

KEEP_ALIVE_S: Final = 60
_TICK_S: Final = 1.0
LOST: Final = "the connection was lost"
"""The reason without any from the broker."""
AT_LEAST_ONCE: Final = 1
_MOST_UNACKNOWLEDGED: Final = 100  # messages to a broker that does not answer; further ones fail at once
_MOST_BYTES: Final = 262_144  # that come without a whole message: paho has no limit of a message's size
_OF_PINGS_S: Final = 10.0  # bytes per second, at most, of answers to pings, which are no messages
_RECEIVED_AT_ONCE: Final = 65_536  # paho reads up to a hundred times this before it returns
_TCP_INFO: Final = slice(128, 136)  # tcpi_bytes_received of struct tcp_info (Linux, uapi/linux/tcp.h)


@dataclass(frozen=True)
class Broker:
    """The broker. Without `context` there is no TLS, without `user` no login."""

    host: str
    port: int
    context: ssl.SSLContext | None
    timeout_s: float
    user: str = ""
    password: str = ""


class Unfinished:
    """The bytes since the last whole message, without pings. `received` counts from the start."""

    def __init__(self) -> None:
        self._whole_until = 0.0

    def end(self, received: int) -> None:
        """A message is whole."""
        self._whole_until = received

    def forget(self, seconds: float) -> None:
        """Take off what the answers to pings have in this time."""
        self._whole_until += seconds * _OF_PINGS_S

    def is_too_much(self, received: int) -> bool:
        """Whether a message grows beyond what growd takes."""
        self._whole_until = min(self._whole_until, received)
        return received - self._whole_until > _MOST_BYTES


class MqttConnection:
    """One connection, which paho's client makes in a thread and the event loop then drives.

    The broker publishes a retained "offline" on the topic `will` if the connection is lost, or `will_body`,
    not retained. It notices a silent loss after one and a half `keep_alive_s`. `receive` is called with the
    topic, the body, and whether the broker had retained it. Raises OSError if the broker can't be reached,
    refuses, or is lost.
    """

    def __init__(
        self,
        broker: Broker,
        identifier: str,
        *,
        will: str = "",
        will_body: bytes | None = None,
        keep_alive_s: int = KEEP_ALIVE_S,
        receive: Callable[[str, bytes, bool], None] = lambda _topic, _body, _is_retained: None,
    ) -> None:
        self._broker = broker
        self._keep_alive_s = keep_alive_s
        self._loop = asyncio.get_running_loop()
        self._accepted = self._loop.create_future()
        self._lost = asyncio.Event()
        self._reason = LOST
        self._unfinished = Unfinished()
        self._acknowledged: dict[int, asyncio.Future[Sequence[ReasonCode]]] = {}
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2, identifier, reconnect_on_failure=False
        )
        client.connect_timeout = broker.timeout_s
        client.max_queued_messages = _MOST_UNACKNOWLEDGED
        if broker.user:
            client.username_pw_set(broker.user, broker.password)
        if broker.context is not None:
            client.tls_set_context(broker.context)
        if will:
            body = b"offline" if will_body is None else will_body
            client.will_set(will, body, qos=AT_LEAST_ONCE, retain=will_body is None)
        self._receive = receive
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message

    async def open(self) -> None:
        """Connect, and wait until the broker accepts."""
        connecting = self._loop.run_in_executor(
            None, self._client.connect, self._broker.host, self._broker.port, self._keep_alive_s
        )
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:  # the thread can't be cancelled
            connecting.add_done_callback(self._close_late)
            raise
        if (link := self._socket) is None:
            raise ConnectionError(LOST)
        self._client.on_socket_close = self._on_socket_close
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_AT_ONCE)
        self._loop.add_reader(link, self._read)
        try:
            async with asyncio.timeout(self._broker.timeout_s):
                await self._accepted
        except TimeoutError:
            raise ConnectionError(f"no answer within {self._broker.timeout_s:g} s") from None

    async def publish(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """Publish, and wait for the acknowledgement."""
        message = self._client.publish(topic, body, AT_LEAST_ONCE, retain)
        await self._acknowledgement(message.rc, message.mid)

    async def subscribe(self, *topics: str) -> dict[str, str]:
        """Receive the messages of these topics. Returns the topics that the broker refused, and why."""
        code, number = self._client.subscribe([(topic, AT_LEAST_ONCE) for topic in topics])
        reasons = await self._acknowledgement(code, number)
        answers = zip(topics, reasons, strict=False)
        return {topic: str(reason) for topic, reason in answers if reason.is_failure}

    async def until_lost(self) -> None:
        """Send pings, and what the socket did not take at once, until the connection is lost."""
        while self._client.loop_misc() == paho.MQTT_ERR_SUCCESS:
            self._read()  # TLS may have decrypted more than one message at once
            if self._client.want_write():
                self._client.loop_write()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._lost.wait()
            self._unfinished.forget(_TICK_S)
        raise ConnectionError(self._reason)

    def close(self) -> None:
        """End the connection, if there is one."""
        self._accepted.cancel()
        self._client.disconnect()

    async def _acknowledgement(self, code: MQTTErrorCode, number: int | None) -> Sequence[ReasonCode]:
        if code != paho.MQTT_ERR_SUCCESS or number is None:
            raise ConnectionError(paho.error_string(code))
        acknowledged: asyncio.Future[Sequence[ReasonCode]] = self._loop.create_future()
        self._acknowledged[number] = acknowledged
        try:
            return await acknowledged
        finally:
            del self._acknowledged[number]

    def _close_late(self, connecting: asyncio.Future[MQTTErrorCode]) -> None:
        if connecting.exception() is None:
            self.close()

    def _read(self) -> None:
        try:
            self._client.loop_read()
            has_too_much = self._unfinished.is_too_much(self._received())
        except Exception as error:  # noqa: BLE001  paho raises several if the broker breaks the protocol
            self._give_up(f"the broker sends an invalid message: {error!r}")
        else:
            if has_too_much:
                self._give_up(f"the broker sends a message of more than {_MOST_BYTES} bytes, or of QoS 2")

    def _received(self) -> int:
        """How many bytes have come, 0 without a connection."""
        if (link := self._socket) is None:
            return 0
        info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.stop)
        return int.from_bytes(info[_TCP_INFO], sys.byteorder)

    @property
    def _socket(self) -> socket.socket | None:
        return cast("socket.socket | None", self._client.socket())

    def _give_up(self, reason: str) -> None:
        self._reason = reason
        self._fail(reason)
        self.close()

    def _on_connect(self, _: object, __: object, ___: object, reason: ReasonCode, *____: object) -> None:
        if reason.is_failure:
            self._fail(str(reason))
        elif not self._accepted.done():
            self._accepted.set_result(None)

    def _on_publish(self, _: object, __: object, message: int, *___: object) -> None:
        self._unfinished.end(self._received())
        acknowledged = self._acknowledged.get(message)
        if acknowledged is not None and not acknowledged.done():
            acknowledged.set_result(())

    def _on_subscribe(
        self, _: object, __: object, number: int, reasons: Sequence[ReasonCode], *___: object
    ) -> None:
        self._unfinished.end(self._received())
        acknowledged = self._acknowledged.get(number)
        if acknowledged is not None and not acknowledged.done():
            acknowledged.set_result(reasons)

    def _on_message(self, _: object, __: object, message: MQTTMessage) -> None:
        self._unfinished.end(self._received())
        self._receive(message.topic, bytes(message.payload), message.retain)

    def _on_socket_close(self, _: object, __: object, link: SocketLike) -> None:
        self._loop.remove_reader(link)
        self._lost.set()
        self._fail(LOST)

    def _fail(self, reason: str) -> None:
        for waiting in (self._accepted, *self._acknowledged.values()):
            if not waiting.done():
                waiting.set_exception(ConnectionError(reason))

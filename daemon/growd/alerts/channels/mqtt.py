"""Alerts by MQTT 3.1.1: events, and the open alerts as a retained message."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import aiomqtt
import msgspec

from growd.alerts.dispatch import DeliveryError, heed_cancel

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from growd.alerts.messages import Alert, AlertMessage, Sender

DELAYS_S: Final = (2.0, 300.0)  # the first and the longest between attempts to connect
KEEP_ALIVE_S: Final = 60
GOODBYE_S: Final = 2.0
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


class _Client(aiomqtt.Client):
    """Closes the connection if connecting fails.

    aiomqtt 2.5 leaves it open after a timeout or a refusal, and if it is cancelled while its thread connects.
    """

    _gave_up = False

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except BaseException:
            self._gave_up = True
            self._leave()
            raise

    async def _misc_loop(self) -> None:  # starts when the socket is open
        if self._gave_up:
            self._leave()
        else:
            await super()._misc_loop()

    def _leave(self) -> None:
        """Close the connection if there is one."""
        self._connected = asyncio.Future()  # the old future may have been cancelled
        self._client.disconnect()


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
        self._client: aiomqtt.Client | None = None
        self._asks: list[asyncio.Future[None]] = []  # callers that wait for the next attempt to connect
        self._asked = asyncio.Event()
        self._error = "there is no connection yet"

    async def run(self, is_up: Callable[[], None]) -> None:
        """Maintain the connection until cancelled."""
        delay = self._first_delay
        while True:
            asks, self._asks = self._asks, []
            self._asked.clear()
            try:
                async with self._connected() as client:
                    delay = self._first_delay
                    is_up()
                    _answer([*asks, *self._asks])
                    self._asks.clear()
                    async for _ in client.messages:  # none arrives; this ends with the connection
                        pass
            except aiomqtt.MqttError as error:
                self._error = f"the broker can't be reached: {error}"
                _answer(asks, self._error)
            heed_cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay * random.uniform(0.5, 1.0)):  # noqa: S311  no secret
                    await self._asked.wait()
            delay = min(2 * delay, self._longest_delay)

    async def send(self, batch: AlertMessage) -> str:
        """See `AlertChannel`. Without a connection it tries to connect at once."""
        limit = _SHARE * self._broker.timeout_s
        try:
            async with asyncio.timeout(limit):
                if self._client is None:
                    await self._attempt()
                client = self._client
                if client is None:
                    raise DeliveryError(self._error)
                body = msgspec.json.encode(self._sender.document(batch, self._now()))
                await client.publish(self._event, body, qos=_AT_LEAST_ONCE)
                await self._publish_open(client)
        except TimeoutError:
            sentence = "can't be reached" if self._client is None else "does not answer"
            raise DeliveryError(f"the broker {sentence} within {limit:g} s") from None
        except aiomqtt.MqttError as error:
            raise DeliveryError(f"can't publish on the broker: {error}") from None
        return batch.id

    async def _attempt(self) -> None:
        """Start an attempt to connect now, and wait for it. Raises `DeliveryError` if it fails."""
        ask = asyncio.get_running_loop().create_future()
        self._asks.append(ask)
        self._asked.set()
        await ask

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiomqtt.Client]:
        """A connection, with the status "online" for the body. Raises `MqttError`."""
        broker = self._broker
        async with _Client(
            broker.host,
            broker.port,
            username=broker.user or None,
            password=broker.password if broker.user else None,
            tls_context=broker.context,
            will=aiomqtt.Will(self._status, b"offline", qos=_AT_LEAST_ONCE, retain=True),
            identifier=f"growd-{self._sender.device}",
            timeout=broker.timeout_s,
            keepalive=KEEP_ALIVE_S,
        ) as client:
            await client.publish(self._status, b"online", qos=_AT_LEAST_ONCE, retain=True)
            await self._publish_open(client)
            heed_cancel()
            self._client = client
            try:
                yield client
            except asyncio.CancelledError:
                with contextlib.suppress(aiomqtt.MqttError):
                    await client.publish(
                        self._status, b"offline", qos=_AT_LEAST_ONCE, retain=True, timeout=GOODBYE_S
                    )
                raise
            finally:
                self._client = None

    async def _publish_open(self, client: aiomqtt.Client) -> None:
        body = msgspec.json.encode(self._sender.opened(self._opened(), self._now()))
        await client.publish(self._open, body, qos=_AT_LEAST_ONCE, retain=True)


def _answer(asks: list[asyncio.Future[None]], error: str = "") -> None:
    """Give the result of an attempt to those who wait for it."""
    for ask in asks:
        if ask.done():  # it was cancelled, or an earlier connection answered it
            continue
        if error:
            ask.set_exception(DeliveryError(error))
        else:
            ask.set_result(None)

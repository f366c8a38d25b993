"""Alerts by MQTT 3.1.1: events, and the open alerts as a retained message."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from growd.alerts.dispatch import DeliveryError
from growd.host.mqtt_connection import MqttConnection
from growd.runtime.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from growd.alerts.messages import Alert, AlertMessage, Sender
    from growd.host.mqtt_connection import Broker

PAUSES: Final = Pauses(2.0, 300.0)  # between attempts to connect
GOODBYE_S: Final = 2.0
_SHARE: Final = 0.9  # of the time limit of a message, so that the reason of a failure is reported in time


class MqttAlerts:
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
        pauses: Pauses = PAUSES,
    ) -> None:
        self._broker = broker
        self._event, self._open, self._status = (
            f"{topic}/alerts/{name}" for name in ("event", "open", "status")
        )
        self._sender = sender
        self._now = now
        self._opened = opened
        self._pauses = pauses
        self._connection: MqttConnection | None = None
        self._attempted: asyncio.Future[None] | None = None  # `send` waits for an attempt to connect
        self._is_wanted = asyncio.Event()
        self._error = "there is no connection yet"

    async def run(self, is_up: Callable[[], None]) -> None:
        """Maintain the connection until cancelled."""
        failures = 0
        while True:
            try:
                async with self._connected() as connection:
                    failures = 0
                    is_up()
                    self._answer()
                    await connection.until_lost()
            except OSError as error:
                self._error = f"the broker can't be reached: {error}"
                self._answer(self._error)
            self._is_wanted.clear()
            failures += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pauses.after(failures)):
                    await self._is_wanted.wait()

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
    async def _connected(self) -> AsyncIterator[MqttConnection]:
        """A connection, with the status "online" for the body. Raises OSError."""
        connection = MqttConnection(self._broker, f"growd-{self._sender.device}", will=self._status)
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

    async def _publish_open(self, connection: MqttConnection) -> None:
        body = msgspec.json.encode(self._sender.opened(self._opened(), self._now()))
        await connection.publish(self._open, body, retain=True)

"""Delivery of alerts on one channel: grouping, retries and a limit per hour."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from growd.runtime.pauses import Pauses
from growd.runtime.supervisor import TaskFault
from growd_alerts.messages import AlertMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.config.alerts import Notify
    from growd.runtime.clock import Clock
    from growd_alerts.backlog import Backlog
    from growd_alerts.messages import Alert
    from growd_alerts.rules import AlertPhase

PAUSES: Final = Pauses(5.0, 900.0)
HOUR_S: Final = 3_600.0
GROUP_S: Final = 5.0
"""Alerts within this time share one message."""

MOST_PER_HOUR: Final = 30
TIMEOUT_S: Final = 30.0
"""Time limit of one message, including the connection."""

_log = logging.getLogger(__name__)


class DeliveryError(Exception):
    """A message was not delivered."""


Send: TypeAlias = "Callable[[AlertMessage], Awaitable[None]]"
"""Sends a message to operators. Raises `DeliveryError` or OSError."""


class Delivery:
    """Sends the backlog of a channel.

    Alerts within `GROUP_S` share one message. A failed message is repeated, with all alerts that came
    meanwhile, after a delay that doubles from 5 s to 15 min; a random part of up to a half is subtracted.
    Beyond `MOST_PER_HOUR` messages wait. `clock` is real time, as for the receiver; `wall` is the time of the
    alerts in UNIX seconds. `on_change` is called when there is something to be saved.
    """

    def __init__(
        self,
        settings: Notify,
        send: Send,
        backlog: Backlog,
        *,
        clock: Clock,
        wall: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.backlog = backlog
        self._channel = send
        self._clock = clock
        self._wall = wall
        self._on_change = on_change
        self._wanted = asyncio.Event()
        self._again = asyncio.Event()
        self._sending = asyncio.Lock()
        self._sent_at: deque[float] = deque(maxlen=MOST_PER_HOUR)
        self._fault = TaskFault(
            _log,
            f"can't send alerts on the channel {settings.name}",
            f"the channel {settings.name} sends alerts again",
        )
        self._sent = 0
        self._is_reached = False
        if len(backlog):
            self._wanted.set()

    def put(self, phase: AlertPhase, alert: Alert) -> None:
        """Add news of an alert."""
        self.backlog.put(phase, alert)
        self._wanted.set()

    def information(self) -> dict[str, Any]:
        """The state for the node `alerts`; `since` is when it began to fail in UNIX seconds, else 0."""
        return {
            "name": self.settings.name,
            "kind": self.settings.kind,
            "state": "failing" if self._fault.failures else ("ok" if self._is_reached else "not used yet"),
            "since": self.backlog.late_since or 0.0,
            "error": str(self._fault),
            "sent": self._sent,
            "waiting": len(self.backlog),
            "left_out": self.backlog.left_out,
        }

    async def run(self) -> None:
        """Send the backlog until cancelled."""
        while True:
            await self._wanted.wait()
            await self._clock.sleep(GROUP_S)
            await self._clock.sleep(self._until_allowed())
            if not await self._send_backlog():
                await self._back_off()
            elif not len(self.backlog):
                self._wanted.clear()

    async def test(self) -> str:
        """Send a test message now. Returns the reason if that failed, else an empty text."""
        try:
            await self._send(AlertMessage((), is_test=True))
        except DeliveryError as error:
            return str(error)
        self._is_reached = True
        self._again.set()  # the receiver is reachable
        return ""

    async def _send_backlog(self) -> bool:
        """Whether nothing is left to send."""
        batch = self.backlog.batch()
        if batch is None:
            return True
        try:
            await self._send(batch)
        except DeliveryError as error:
            if self.backlog.late_since is None:
                self.backlog.late_since = self._wall()
                self._on_change()
            self._fault.failed(error)
            return False
        self._sent_at.append(self._clock.monotonic())
        self.backlog.delivered(batch)
        self._sent += 1
        self._is_reached = True
        self._fault.succeeded()
        self._on_change()
        return True

    async def _send(self, batch: AlertMessage) -> None:
        """One message at a time. Raises `DeliveryError`."""
        limit = TIMEOUT_S
        async with self._sending:
            try:
                async with asyncio.timeout(limit):
                    await self._channel(batch)
            except TimeoutError:
                raise DeliveryError(f"no confirmation within {limit:g} s") from None
            except OSError as error:
                raise DeliveryError(str(error) or type(error).__name__) from error

    def _until_allowed(self) -> float:
        if len(self._sent_at) < MOST_PER_HOUR:
            return 0.0
        return max(0.0, self._sent_at[0] + HOUR_S - self._clock.monotonic())

    async def _back_off(self) -> None:
        self._again.clear()
        timer = self._clock.call_later(PAUSES.after(max(1, self._fault.failures)), self._again.set)
        try:
            await self._again.wait()
        finally:
            timer.cancel()

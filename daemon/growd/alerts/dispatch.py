"""What brings alerts out on one channel: groups them, tries again for as long as it takes, limits them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.alerts.messages import AlertMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.alerts.backlog import Backlog
    from growd.alerts.messages import Alert
    from growd.alerts.rules import AlertPhase
    from growd.config.alerts import Notify
    from growd.runtime.clock import Clock

FIRST_DELAY_S: Final = 5.0
REFUSED_DELAY_S: Final = 300.0
LONGEST_DELAY_S: Final = 900.0
HOUR_S: Final = 3_600.0
_log = logging.getLogger(__name__)


class DeliveryError(Exception):
    """A message was not taken. `is_refusal`: whoever has it says no, and will the next time too."""

    def __init__(self, sentence: str, *, is_refusal: bool = False) -> None:
        super().__init__(sentence)
        self.is_refusal = is_refusal


class Channel(Protocol):
    """A way to tell operators."""

    async def run(self, is_up: Callable[[], None]) -> None:
        """Keep up what lasts between two messages, and call `is_up()` when it is there again."""

    async def send(self, batch: AlertMessage) -> str:
        """Tell it. Returns what the message is called, for those that refer to it; "" for nothing.

        Raises `DeliveryError`, or OSError.
        """


def heed_cancel() -> None:
    """Raise CancelledError where this task was cancelled and something has swallowed that.

    `asyncio.wait_for`, which libraries wait with, does so before Python 3.12 where the cancel meets the end
    of what it waits for.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Delivery:
    """Brings a backlog out on a channel.

    After the first thing to tell it waits for `group_s`, and tells all that has come by then in one message.
    A message that is not taken is tried again after a delay that doubles from 5 s to 15 min, and is at least
    5 min after a refusal; each is shortened by chance by up to a half. All that has come meanwhile goes with
    it. More than `most_per_hour` messages wait for their hour. `clock` is real, for the far side is; `wall`
    is that of the alerts, in UNIX seconds. `on_change` is called when there is something to be kept.
    """

    def __init__(
        self,
        settings: Notify,
        channel: Channel,
        backlog: Backlog,
        *,
        clock: Clock,
        wall: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.backlog = backlog
        self._channel = channel
        self._clock = clock
        self._wall = wall
        self._on_change = on_change
        self._wanted = asyncio.Event()
        self._again = asyncio.Event()
        self._sending = asyncio.Lock()
        self._sent_at: deque[float] = deque(maxlen=settings.most_per_hour)
        self._delay = FIRST_DELAY_S
        self._error = ""
        self._sent = 0
        if len(backlog):
            self._wanted.set()

    def put(self, phase: AlertPhase, alert: Alert) -> None:
        """Have this told."""
        self.backlog.put(phase, alert)
        self._wanted.set()

    def retry_now(self) -> None:
        """The way may be free again: wait no longer."""
        self._again.set()

    def information(self) -> dict[str, Any]:
        """How it fares, for people; `since` in UNIX seconds, 0 where it does not fail."""
        return {
            "name": self.settings.name,
            "kind": self.settings.kind,
            "state": "failing" if self._error else ("ok" if self._sent else "not used yet"),
            "since": self.backlog.late_since or 0.0,
            "error": self._error,
            "sent": self._sent,
            "waiting": len(self.backlog),
            "left_out": self.backlog.left_out,
        }

    async def run(self) -> None:
        """Tell what there is to tell, until cancelled."""
        while True:
            await self._wanted.wait()
            await self._clock.sleep(self.settings.group_s)
            await self._clock.sleep(self._until_allowed())
            self._wanted.clear()
            is_told = False
            try:
                is_told = await self._tell()
            finally:  # also after a mistake, where this runs again
                if not is_told:
                    self._wanted.set()
            heed_cancel()
            if not is_told:
                await self._back_off()

    async def keep_up(self) -> None:
        """Keep the channel up between messages."""
        await self._channel.run(self.retry_now)

    async def test(self) -> str:
        """Send a test message now. Returns why that failed, else an empty text."""
        try:
            await self._send(AlertMessage((), is_test=True))
        except DeliveryError as error:
            return str(error)
        self.retry_now()
        return ""

    async def _tell(self) -> bool:
        """Whether all was taken that there was to tell."""
        batch = self.backlog.batch()
        if batch is None:
            return True
        try:
            name = await self._send(batch)
        except DeliveryError as error:
            self._failed(error)
            return False
        self._sent_at.append(self._clock.monotonic())
        self.backlog.delivered(batch, name)
        self._succeeded()
        self._on_change()
        return True

    async def _send(self, batch: AlertMessage) -> str:
        """One message at a time. Raises `DeliveryError`."""
        limit = self.settings.timeout_s
        async with self._sending:
            try:
                async with asyncio.timeout(limit):
                    return await self._channel.send(batch)
            except TimeoutError:
                raise DeliveryError(f"it was not taken within {limit:g} s") from None
            except OSError as error:
                raise DeliveryError(str(error) or type(error).__name__) from error

    def _failed(self, error: DeliveryError) -> None:
        if not self._error:
            _log.warning("alerts can't be told by %s: %s; it is tried again", self.settings.name, error)
        if self.backlog.late_since is None:
            self.backlog.late_since = self._wall()
            self._on_change()
        self._error = str(error)
        if error.is_refusal:
            self._delay = max(self._delay, REFUSED_DELAY_S)

    def _succeeded(self) -> None:
        self._sent += 1
        if self._error:
            _log.info("alerts are told by %s again", self.settings.name)
        self._error, self._delay = "", FIRST_DELAY_S

    def _until_allowed(self) -> float:
        if len(self._sent_at) < self.settings.most_per_hour:
            return 0.0
        return max(0.0, self._sent_at[0] + HOUR_S - self._clock.monotonic())

    async def _back_off(self) -> None:
        delay = self._delay * random.uniform(0.5, 1.0)  # noqa: S311  no secret
        self._delay = min(2 * self._delay, LONGEST_DELAY_S)
        waits = {
            asyncio.create_task(self._clock.sleep(delay), name=f"alerts: {self.settings.name} waits"),
            asyncio.create_task(self._again.wait(), name=f"alerts: {self.settings.name} is called"),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
        self._again.clear()

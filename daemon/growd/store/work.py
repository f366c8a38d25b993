"""Work on the database in the background: a step when it is woken or due, and again after a failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from growd.runtime.pauses import Pauses
from growd.store.errors import CouchUnavailableError, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.runtime.supervisor import TaskFault

RETRIES: Final = Pauses(5.0, 600.0, least=1.0)


class DatabaseWork:
    """Does `step` when it is woken, when it is due, and after a pause if it raised `StoreError`.

    `step` returns in how many seconds it is due again, None for only when it is woken. The first step is due
    after `first_s` seconds of the clock, also when the task starts again after another error.
    """

    def __init__(
        self,
        clock: Clock,
        step: Callable[[], Awaitable[float | None]],
        fault: TaskFault,
        *,
        first_s: float = 0.0,
    ) -> None:
        self.fault = fault
        self._clock = clock
        self._step = step
        self._first_s = first_s
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There is something to do: do not wait any longer."""
        self._wake.set()

    def retry_now(self) -> None:
        """The database answers again: do not wait any longer."""
        forget_silence(self.fault)
        self.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        wait_s: float | None = self._first_s
        while True:
            await self._rest(wait_s)
            try:
                wait_s = await self._step()
            except StoreError as error:
                self.fault.failed(error)
                wait_s = RETRIES.after(self.fault.failures)
            else:
                self.fault.succeeded()

    async def _rest(self, wait_s: float | None) -> None:
        timer = None
        if wait_s == 0:
            self._wake.set()
        elif wait_s is not None:
            timer = self._clock.call_later(wait_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._wake.clear()


def forget_silence(fault: TaskFault) -> None:
    """The database answers again, so that it did not is no reason any more. The failures still count."""
    if isinstance(fault.reason, CouchUnavailableError) and fault.reason.status is None:
        fault.reason = None

"""A blocking call to a device in its bus's worker, with a time limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from growd.control.errors import DeviceTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.clock import Clock
    from growd.worker import Worker

T = TypeVar("T")


class DeviceCalls:
    """Runs the calls of one device in a worker, at most one at a time.

    A call past its limit (`limit_s`, seconds of the clock, the wait for the bus included) raises
    `DeviceTimeoutError`; until it comes back every further call is refused with the same error, so that
    calls to a device that hangs do not pile up in the worker. What it brings back then is dropped: it is old.
    """

    def __init__(self, device: str, worker: Worker, clock: Clock, limit_s: float) -> None:
        self._device = device
        self._worker = worker
        self._clock = clock
        self._limit = limit_s
        self._began = 0.0
        self._pending: asyncio.Task[Any] | None = None

    @property
    def is_pending(self) -> bool:
        """A call has not come back yet."""
        return self._pending is not None and not self._pending.done()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """`function(*args)` in the worker: its result, its error, or `DeviceTimeoutError`."""
        if self.is_pending:
            raise DeviceTimeoutError(self._device, self._clock.monotonic() - self._began)
        self._began = self._clock.monotonic()
        task = asyncio.create_task(self._worker.run(function, *args), name=f"{self._device}: call")
        task.add_done_callback(_mark_retrieved)
        self._pending = task
        await self._finish_or_time_out(task)
        return task.result()

    async def close(self) -> None:
        """Stop waiting for the call that is pending, if there is one."""
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.wait({self._pending})
            self._pending = None

    async def _finish_or_time_out(self, task: asyncio.Task[Any]) -> None:
        timer = asyncio.create_task(self._clock.sleep(self._limit), name=f"{self._device}: time limit")
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            await asyncio.wait({timer})
        if not task.done():
            raise DeviceTimeoutError(self._device, self._limit)


def _mark_retrieved(task: asyncio.Task[Any]) -> None:
    """The error of a call that nobody waits for any more is dropped with it."""
    if not task.cancelled():
        task.exception()

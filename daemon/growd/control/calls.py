"""Blocking calls to a device in the worker thread of its bus, with a time limit."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from growd.control.errors import DeviceStuckError, DeviceTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.runtime.clock import Clock
    from growd.runtime.worker import Worker

T = TypeVar("T")

STUCK_AFTER: Final = 5.0
"""In time limits of a call. A call that hangs for longer never returns: each transfer ends within a second
(the default timeout of an I2C adapter in Linux), and a driver makes only a few."""

logger = logging.getLogger(__name__)


class DeviceCalls:
    """Runs the calls of one device in a worker, one at a time.

    A call that exceeds its limit (`limit_s`, seconds of the clock) raises `DeviceTimeoutError`; so does one
    that waits for another device's call that exceeds it. Until the late call returns, further calls raise the
    same error, and its result is dropped. When a call has hung for `STUCK_AFTER` limits, the next call
    abandons the worker's thread, and `DeviceStuckError` reports it once.
    """

    def __init__(self, device: str, worker: Worker, clock: Clock, limit_s: float) -> None:
        self._device = device
        self._worker = worker
        self._clock = clock
        self._limit = limit_s
        self._began = 0.0
        self._pending: asyncio.Future[Any] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a call has not returned yet."""
        return self._pending is not None and not self._pending.done()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in the worker. Raises its error, or `DeviceTimeoutError`."""
        if self.is_pending:
            raise self._refusal()
        self._began = self._clock.monotonic()
        call = self._worker.submit(function, *args)
        self._pending = call
        try:
            await self._finish_or_time_out(call)
        finally:
            if call.done():
                _mark_retrieved(call)
            else:
                call.add_done_callback(_mark_retrieved)
        return call.result()

    def close(self) -> None:
        """Stop waiting for a pending call."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None

    def _refusal(self) -> DeviceTimeoutError:
        waited = self._clock.monotonic() - self._began
        if not self._worker.abandon_hung_thread(STUCK_AFTER * self._limit):
            return DeviceTimeoutError(self._device, waited)
        logger.warning("%s: call hung; abandoned its thread and started a new one", self._worker.name)
        return DeviceStuckError(self._device, waited)

    async def _finish_or_time_out(self, call: asyncio.Future[Any]) -> None:
        left = self._limit
        while left > 0:
            await self._finish_within(left, call)
            if call.done():
                return
            left = self._limit - self._worker.busy_for()
        raise DeviceTimeoutError(self._device, self._clock.monotonic() - self._began)

    async def _finish_within(self, seconds: float, call: asyncio.Future[Any]) -> None:
        """Return when the call is done, or after `seconds`. No task: this runs for each reading."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: object = None) -> None:
            if not over.done():
                over.set_result(None)

        timer = self._clock.call_later(seconds, end)
        call.add_done_callback(end)
        try:
            await over
        finally:
            timer.cancel()
            call.remove_done_callback(end)


def _mark_retrieved(call: asyncio.Future[Any]) -> None:
    """Drop the error of a call whose result is no longer awaited."""
    if not call.cancelled():
        call.exception()

"""A task group of long-running components: named, restarted after a failure, cancelled together."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Self

from growd.runtime.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.runtime.liveness import Liveness

PAUSES: Final = Pauses(1.0, 60.0, least=1.0)
_log = logging.getLogger(__name__)


class Supervisor:
    """Runs components from `start` until the `async with` block ends; then all of them have ended.

    A component is a coroutine function that runs until it is cancelled. One that raises is restarted after a
    delay (seconds of the clock) that doubles up to a minute, and is reset when a run has lasted longer than
    that. Other components are not affected. Each failure is logged with its traceback and counted in
    `liveness`.
    """

    def __init__(self, clock: Clock, liveness: Liveness) -> None:
        self._clock = clock
        self._liveness = liveness
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_ending = True
        for task in self._tasks:
            task.cancel()
        # without the error of the body, which the group would wrap
        await self._group.__aexit__(None, None, None)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a component under this name from now on."""
        task = self._group.create_task(self._keep_running(name, run), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                await run()
            except (Exception, asyncio.CancelledError) as error:
                # something that the component awaited may have been cancelled
                if not (self._is_ending or (isinstance(error, asyncio.CancelledError) and _is_cancelled())):
                    _forget_cancellations()
                    self._liveness.failed(name, _cause(error))
                    failures = 1 if self._clock.monotonic() - began > PAUSES.longest_s else failures + 1
                    pause = PAUSES.after(failures)
                    _log.exception("%s failed; restarting it in %g s", name, pause)
                elif isinstance(error, asyncio.CancelledError):
                    raise
                else:
                    _log.exception("%s failed while it was shutting down", name)
                    return  # a cancellation is delivered once; restarting here would swallow it
            else:
                return  # the component has finished
            await self._clock.sleep(pause)


def _cause(error: BaseException) -> BaseException:
    """The first error in exception groups, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_cancelled() -> bool:
    """Whether the current task has been cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _forget_cancellations() -> None:
    """A task group cancels its own task at an error of another one, and Python 3.11 may leave it so."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


class TaskFault:
    """Why a task in the background does not work: from a failed step until the first step that succeeds.

    `log` gets `begins` with the reason at the failure number `shown_after` in a row, and `ends` after it.
    """

    def __init__(self, log: logging.Logger, begins: str, ends: str, *, shown_after: int = 1) -> None:
        self.reason: object = None
        """The error or sentence of the last failure; None without a fault."""
        self.failures = 0
        """Failed steps in a row."""
        self._log = log
        self._begins, self._ends = begins, ends
        self._shown_after = shown_after
        self._level = logging.WARNING

    def __str__(self) -> str:
        return "" if self.reason is None else str(self.reason)

    @property
    def is_lasting(self) -> bool:
        """Whether so many steps failed that it was logged."""
        return self.failures >= self._shown_after

    def failed(self, reason: object, level: int = logging.WARNING) -> None:
        """A step failed."""
        self.reason, self._level = reason, level
        self.failures += 1
        if self.failures == self._shown_after:
            self._log.log(level, "%s: %s", self._begins, reason)

    def succeeded(self) -> None:
        """A step succeeded."""
        if self.is_lasting:
            self._log.log(self._level, "%s", self._ends)
        self.reason, self.failures = None, 0

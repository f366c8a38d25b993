"""One task group that owns every long-running part: named, restarted when it fails, cancelled together."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.clock import Clock

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 60.0
_log = logging.getLogger(__name__)


class Supervisor:
    """Runs parts until it is told to stop.

    A part is a coroutine function that runs until it is cancelled. One that raises is started again after a
    delay that doubles up to a minute and falls back once the part has held out for longer than that; the
    others go on. Every failure is logged, with its traceback, in the log and nowhere else.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._stop = asyncio.Event()

    def add(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """A part to run under this name, from `run()` on."""
        self._parts.append((name, run))

    def stop(self) -> None:
        """Ask `run` to cancel every part and return. Safe to call from a signal handler of the loop."""
        self._stop.set()

    async def run(self) -> None:
        """Run all parts until `stop()`; returns when every one of them has ended."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._keep_running(name, run), name=name) for name, run in self._parts]
            await self._stop.wait()
            for task in tasks:
                task.cancel()

    async def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        delay = FIRST_DELAY_S
        while True:
            began = self._clock.monotonic()
            try:
                await run()
            except Exception:  # noqa: BLE001  whatever it is, the others go on
                _log.exception("%s failed; it starts again in %g s", name, delay)
            else:
                return  # it has nothing more to do
            if self._clock.monotonic() - began > LONGEST_DELAY_S:
                delay = FIRST_DELAY_S
            await self._clock.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY_S)

"""Time as the daemon sees it: one real clock, and one that runs fast for the simulator.

Everything that measures or waits takes a `Clock`. Wall time only stamps; intervals run on monotonic time,
so that a step of the wall clock (NTP at boot, no battery clock) moves nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


_TIME_ERROR: Final = 5
"""What adjtimex(2) returns where the clock is not synchronised."""


def _boot_id() -> str:
    """Of the kernel since it started (random(4)); where it can't be read, of this process."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return secrets.token_hex(8)


_BOOT: Final = _boot_id()


class Cancellable(Protocol):
    """What has not happened yet."""

    def cancel(self) -> object:
        """Let it not happen."""


class Clock(Protocol):
    """Wall time, monotonic time, and two ways to wait. All in seconds."""

    def time(self) -> float:
        """Wall time in UNIX seconds. May step."""

    def monotonic(self) -> float:
        """Seconds since an unknown start. Never steps back."""

    @property
    def boot(self) -> str:
        """The name of that start: monotonic times of one name can be compared, also over a restart."""

    def is_synchronised(self) -> bool:
        """Whether something that knows the time has set the wall clock. Where nobody can say, it has."""

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Cancellable:
        """Have `callback()` called by the event loop, unless that is cancelled before."""

    def sleep_blocking(self, seconds: float) -> None:
        """Wait in a worker thread. Never call it on the event loop."""


class RealClock:
    """The machine's clock."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    @property
    def boot(self) -> str:
        return _BOOT

    def is_synchronised(self) -> bool:
        return _adjtimex() != _TIME_ERROR

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Cancellable:
        return asyncio.get_running_loop().call_later(seconds, callback)

    def sleep_blocking(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class AcceleratedClock:
    """A clock that runs `speed` times as fast as the machine's, for the simulator.

    Wall time starts at `start` (UNIX seconds, default now). A daemon that ran fast is ahead of the machine's
    clock: whoever restarts it hands in the last time it showed, so that time goes on and never back.
    """

    def __init__(self, speed: float, start: float | None = None) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed!r}")
        self.speed = speed
        self._origin = time.monotonic()
        self._start = time.time() if start is None else start
        self.boot = secrets.token_hex(8)

    def time(self) -> float:
        return self._start + self.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._origin) * self.speed

    def is_synchronised(self) -> bool:
        return True

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Cancellable:
        return asyncio.get_running_loop().call_later(seconds / self.speed, callback)

    def sleep_blocking(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds / self.speed))


def _adjtimex() -> int:
    """The state of the kernel's clock (adjtimex(2)), which it tells everybody; -1 if it does not."""
    try:
        call = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return -1
    return int(call(ctypes.create_string_buffer(512)))  # struct timex, of which modes = 0 changes nothing

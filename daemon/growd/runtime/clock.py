"""The clock of the daemon; `growd_simulation.simulated_clock` has that of the simulator.

Wall time is for time stamps only. Intervals use monotonic time, so that a step of the wall clock (NTP after
boot, no battery-backed clock) does not affect them.
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

EARLIEST: Final = 946_684_800.0
"""2000-01-01: an earlier time of a client or of old data is of a clock that was never set."""

ROUNDING_S: Final = 1e-3
"""Seconds: what is as near as this is at the same time."""

_TIME_ERROR: Final = 5
"""The result of adjtimex(2) for a clock that is not synchronised."""

_TIMESYNC: Final = "/run/systemd/timesync"
"""The folder of a running systemd-timesyncd(8). Asked first: after nine hours without a network the
kernel takes its clock for one that is not synchronised (adjtimex(2), `maxerror`)."""


_LIBC: Final = ctypes.CDLL(None)


def _boot_id() -> str:
    """The id of this boot of the kernel (random(4)), or of this process if it can't be read."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return secrets.token_hex(8)


_BOOT: Final = _boot_id()
_EXACT_S: Final = 2.0**53 / 1e6


def whole_microseconds(seconds: float) -> float:
    """A UNIX time as growd makes, takes and stores all of them.

    It has at most 16 digits until the year 2223. The views of the embedded database return such keys
    unchanged, but change a sixth of those with 17 digits (`numToIndexableString` of pouchdb-collate).
    """
    # the first takes a fifth of the time
    return round(seconds * 1e6) / 1e6 if abs(seconds) < _EXACT_S else round(seconds, 6)


class Cancellable(Protocol):
    """A callback that has not been called yet."""

    def cancel(self) -> object:
        """Do not call it."""


class Clock(Protocol):
    """Wall time, monotonic time and ways to wait. All in seconds."""

    def time(self) -> float:
        """Wall time in UNIX seconds, in whole microseconds. May step."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start. Never steps back."""

    @property
    def boot(self) -> str:
        """The id of that start: monotonic times with the same id are comparable, also over a restart."""

    def is_synchronised(self) -> bool:
        """Whether the wall clock is synchronised (NTP); True if that is unknown."""

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Cancellable:
        """Let the event loop call `callback()`, unless it is cancelled before."""

    def sleep_blocking(self, seconds: float) -> None:
        """Wait in a worker thread; never on the event loop."""


def until_beat(clock: Clock, period_s: float) -> float:
    """Seconds until the next multiple of a period, for loops that wake up together: that takes less CPU."""
    left_s = period_s - clock.monotonic() % period_s
    return left_s if left_s > ROUNDING_S else left_s + period_s


class RealClock:
    """The machine's clock."""

    def time(self) -> float:
        return whole_microseconds(time.time())

    def monotonic(self) -> float:
        return time.monotonic()

    @property
    def boot(self) -> str:
        return _BOOT

    def is_synchronised(self) -> bool:
        if _exists(_TIMESYNC):
            return _exists(f"{_TIMESYNC}/synchronized")
        return _adjtimex() != _TIME_ERROR

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Cancellable:
        return asyncio.get_running_loop().call_later(seconds, callback)

    def sleep_blocking(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


def _exists(path: str) -> bool:
    """Whether a file in memory exists. Does not block."""
    return bool(_LIBC.access(path.encode(), 0) == 0)


def _adjtimex() -> int:
    """The state of the kernel's clock (adjtimex(2)); -1 if it is not available."""
    call = getattr(_LIBC, "adjtimex", None)
    if call is None:
        return -1
    return int(call(ctypes.create_string_buffer(512)))  # struct timex; modes = 0 changes nothing

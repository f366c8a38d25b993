"""Wall time for interlocks: a clock that ignores unsynchronised steps, and on-time per day."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    from growd.runtime.clock import Clock

PLAUSIBLE: Final = 1_577_836_800.0  # 2020-01-01: a wall clock before this date was never set
_MAX_TIME: Final = 253_400_000_000.0  # 9999-12: Python's dates end there


class SteadyWallClock:
    """The wall clock of `clock`, without steps while it is not synchronised.

    While it is not synchronised it follows monotonic time, also over a restart of growd. A clock that was
    never set is followed once it is set. After a reboot the time is the clock's, or the saved one if that is
    later, since a board without a battery may start anywhere.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.time()
        self._at = clock.monotonic()

    def follow(self) -> None:
        """Follow the clock if it is synchronised, or was set for the first time. Call it often."""
        now, wall = self._clock.monotonic(), self._clock.time()
        if self._clock.is_synchronised() or self._wall < PLAUSIBLE:
            self._wall = wall
        else:
            self._wall = self.time(now)
        self._at = now

    def time(self, now: float) -> float:
        """UNIX seconds at this monotonic time."""
        return self._wall + now - self._at

    def state(self) -> dict[str, Any]:
        """The state to save."""
        clock = self._clock
        self.follow()
        return {
            "time": self._wall,
            "synchronised": clock.is_synchronised(),
            "boot": clock.boot,
            "monotonic": self._at,
        }

    def restore(self, saved: Mapping[str, Any]) -> float:
        """Continue from a saved state. Returns the least time that growd was not running, in seconds.

        Returns 0 where that is unknown. Raises KeyError, TypeError or ValueError if the state is invalid.
        """
        self.follow()
        was = float(saved["time"])
        if not 0 <= was < _MAX_TIME:
            raise ValueError("the time is out of range")
        if saved.get("boot") == self._clock.boot:
            away = max(0.0, self._at - float(saved["monotonic"]))
            if not self._clock.is_synchronised():
                self._wall = was + away
            return away
        if not self._clock.is_synchronised():
            self._wall = max(self._wall, was)
            return 0.0
        return max(0.0, self._wall - was) if saved.get("synchronised") is True else 0.0


class OnTimeOfDay:
    """How long something was on today in `zone`, None for the machine's time zone.

    A new day starts only when the local date advances. A wall clock that is set back, or was never set,
    starts no day. A clock set back by more than a day was in the future by mistake: the sum stays, and the
    next midnight starts a day. Changes to and from summer time do not matter.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._day: date | None = None
        self._seconds = 0.0

    def add(self, seconds: float, wall: float) -> None:
        """Add the seconds that ended at the wall time `wall` (UNIX seconds)."""
        self._turn(wall)
        self._seconds += seconds

    def seconds(self, wall: float) -> float:
        """The seconds on the day of this wall time."""
        self._turn(wall)
        return self._seconds

    def state(self) -> list[Any]:
        """The state to save."""
        return [self._day.isoformat() if self._day else "", self._seconds]

    def restore(self, saved: Any) -> None:
        """Continue from a saved state. Raises ValueError or TypeError if it is invalid."""
        day, seconds = saved
        if not 0 <= float(seconds) < math.inf:
            raise ValueError("the seconds are out of range")
        self._day = None if day == "" else date.fromisoformat(day)
        self._seconds += float(seconds)

    def _turn(self, wall: float) -> None:
        if wall < PLAUSIBLE:
            return
        today = datetime.fromtimestamp(wall, self._zone).date()
        if self._day is None or today > self._day:
            self._seconds = 0.0 if self._day else self._seconds
            self._day = today
        elif self._day - today > timedelta(days=1):
            self._day = today

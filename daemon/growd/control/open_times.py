"""How long outputs were on: at a stretch, in the last hour, and on this day. Pure; times are handed in."""

from __future__ import annotations

import math
from collections import deque
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import tzinfo

    from growd.runtime.clock import Clock

HOUR_S: Final = 3600.0
BIN_S: Final = 60.0
PLAUSIBLE: Final = 1_577_836_800.0  # 2020-01-01: a wall clock before it was never set
_NO_DATE: Final = 253_400_000_000.0  # 9999-12: after it there are no dates


class OpenTimes:
    """The outputs of one kind, and how long they were on, as they were really written.

    An output of which nobody knows what it is, for its last write failed, counts as on. All times in seconds
    of a monotonic clock.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # of those that are on, or may be
        self._uncertain: set[str] = set()
        self._total = 0.0
        self._certain_total = 0.0
        self._began: float | None = None
        self._ended = -math.inf
        self._doubted = -math.inf

    def wrote(self, output: str, level: float | None, now: float) -> None:
        """An output has this level from now on; None if nobody knows."""
        self._settle(output, now)
        if level is not None and level <= 0:
            self._since.pop(output, None)
        else:
            self._since[output] = now
        self._uncertain.discard(output)
        if level is None:
            self._uncertain.add(output)
        self._note_stretch(now)

    @property
    def is_open(self) -> bool:
        """Whether one of them is on, or may be."""
        return bool(self._since)

    def stretch(self, now: float) -> float:
        """For how long one of them has been on without a pause."""
        return 0.0 if self._began is None else now - self._began

    def rest(self, now: float) -> float:
        """For how long none of them has been on."""
        return 0.0 if self.is_open else now - self._ended

    def doubt(self, now: float) -> float:
        """How long ago it was that nobody knew whether one of them is on: 0 for now."""
        return 0.0 if self._uncertain else now - self._doubted

    def total(self, now: float) -> float:
        """The seconds of all of them together since the beginning."""
        if not self._since:  # as it mostly is: a valve is shut
            return self._total
        return self._total + sum(now - since for since in self._since.values())

    def certain_total(self, now: float) -> float:
        """As `total`, without the times in which nobody knew."""
        if not self._since:
            return self._certain_total
        known = (now - since for output, since in self._since.items() if output not in self._uncertain)
        return self._certain_total + sum(known)

    def _settle(self, output: str, now: float) -> None:
        lasted = now - self._since.get(output, now)
        self._total += lasted
        if output in self._uncertain:
            self._doubted = now
        else:
            self._certain_total += lasted

    def _note_stretch(self, now: float) -> None:
        if self._since and self._began is None:
            self._began = now
        elif not self._since and self._began is not None:
            self._began, self._ended = None, now


class RollingDose:
    """What was given in the last hour, never less than that and at most what was given in a minute more.

    It is kept in bins of a minute, so that it takes no more room however small the doses are.
    """

    def __init__(self) -> None:
        self._bins: deque[list[float]] = deque()  # the beginning of each, and what was given in it

    def add(self, amount: float, now: float) -> None:
        """So much was given at this time, which is not before the last one."""
        if amount <= 0:
            return
        begin = math.floor(now / BIN_S) * BIN_S
        if not self._bins or self._bins[-1][0] < begin:
            self._bins.append([begin, 0.0])
        self._bins[-1][1] += amount
        self._forget(now)

    def within_hour(self, now: float) -> float:
        """What was given in the hour that ends now."""
        self._forget(now)
        return math.fsum(amount for _, amount in self._bins)

    def since(self, now: float) -> float:
        """For how many seconds at least nothing was given; infinite where nothing was in the last hour."""
        self._forget(now)
        return max(0.0, now - self._bins[-1][0] - BIN_S) if self._bins else math.inf

    def kept(self, now: float) -> list[list[float]]:
        """To be kept over a restart: the age of each bin in seconds, and what was given in it."""
        self._forget(now)
        return [[now - begin, amount] for begin, amount in self._bins]

    def restore(self, kept: Iterable[Iterable[float]], now: float, away: float = 0.0) -> None:
        """Go on from what was kept `away` seconds ago. Raises ValueError or TypeError for anything else."""
        restored = [[now - float(age) - away, float(amount)] for age, amount in kept]
        if not all(
            math.isfinite(number) and amount >= 0 for begin, amount in restored for number in (begin, amount)
        ):
            raise ValueError("a dose that is no number")
        self._bins = deque(sorted([*restored, *self._bins]))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._bins and self._bins[0][0] + BIN_S < now - HOUR_S:
            self._bins.popleft()


class SteadyWall:
    """The wall clock of `clock`, of which no step counts that nobody has synchronised.

    Without that, it goes on with monotonic time from where it was, over a restart too. A clock that was never
    set is followed once it is. Where the machine was started anew it is what the clock says, or where it was
    if that is later: one without a battery may begin anywhere.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.time()
        self._at = clock.monotonic()

    def follow(self) -> None:
        """See whether the clock is synchronised, or was set for the first time. To be called often."""
        now, wall = self._clock.monotonic(), self._clock.time()
        if self._clock.is_synchronised() or self._wall < PLAUSIBLE:
            self._wall = wall
        else:
            self._wall = self.time(now)
        self._at = now

    def time(self, now: float) -> float:
        """UNIX seconds at this monotonic time."""
        return self._wall + now - self._at

    def kept(self) -> dict[str, Any]:
        """To be kept over a restart: all that there is to know of the time."""
        clock = self._clock
        self.follow()
        return {
            "time": self._wall,
            "synchronised": clock.is_synchronised(),
            "boot": clock.boot,
            "monotonic": self._at,
        }

    def restore(self, kept: Mapping[str, Any]) -> float:
        """Go on from what was kept; for how many seconds nobody ran, at least: 0 where that is not known.

        Raises KeyError, TypeError or ValueError for anything else.
        """
        self.follow()
        was = float(kept["time"])
        if not 0 <= was < _NO_DATE:
            raise ValueError("a time that is none")
        if kept.get("boot") == self._clock.boot:
            away = max(0.0, self._at - float(kept["monotonic"]))
            if not self._clock.is_synchronised():
                self._wall = was + away
            return away
        if not self._clock.is_synchronised():
            self._wall = max(self._wall, was)
            return 0.0
        return max(0.0, self._wall - was) if kept.get("synchronised") is True else 0.0


class DayHours:
    """How long something was on in the day of `zone`, None for the machine's.

    A new day begins when the local date goes on, and only then: a wall clock that is set back, or that was
    never set (no battery), begins none. One that is set back by more than a day was in the future by mistake:
    what was added stays, and the next midnight begins a day. The length of a day does not matter, so a change
    to or from summer time does not either.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._day: date | None = None
        self._seconds = 0.0

    def add(self, seconds: float, wall: float) -> None:
        """So many seconds were added until the wall time `wall` (UNIX seconds)."""
        self._turn(wall)
        self._seconds += seconds

    def seconds(self, wall: float) -> float:
        """How many they were on the day of this wall time."""
        self._turn(wall)
        return self._seconds

    def kept(self) -> list[Any]:
        """To be kept over a restart."""
        return [self._day.isoformat() if self._day else "", self._seconds]

    def restore(self, kept: Any) -> None:
        """Go on from what was kept. Raises ValueError or TypeError for anything else."""
        day, seconds = kept
        if not 0 <= float(seconds) < math.inf:
            raise ValueError("seconds that are none")
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

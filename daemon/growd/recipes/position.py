"""Where a run is: on monotonic time, through restarts and whatever is done to the wall clock."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from datetime import tzinfo

    from growd.clock import Clock
    from growd.recipes.run import Run

PLAUSIBLE: Final = 1_577_836_800.0  # 2020-01-01: a wall clock before it was never set
STEP_S: Final = 60.0  # by so much and no more does a clock that was right go wrong between two looks at it
NEWS_S: Final = 1.0


class Position:
    """Where a run is, and what time it is for it.

    The place in the recipe moves with monotonic time alone. The time of day, which some recipes go by, is
    that of the wall clock, but it does not follow each of its steps: forward it does; back only where
    something that knows the time has set the clock, and not for up to a minute: then it runs at half its pace
    until the clock has come up. A clock that was never set (1970) is not followed at all.

    After a restart without one of the machine it has not missed any time. After one of the machine the wall
    clock says how long that took, and without a battery it may not know before the network does: as long as
    nothing that knows the time has set it, its next step forward counts as time without power.

    With `catches_up` time in which growd did not run counts as time of the recipe.
    """

    def __init__(self, run: Run, clock: Clock, *, catches_up: bool = True) -> None:
        self.run = run
        self._clock = clock
        self._catches_up = catches_up
        self._since = self._looked = clock.monotonic()
        self._wall = clock.time()
        self._is_unsure = False
        self.has_news = False
        """Whether the place is worth keeping at once, for the clock made a step."""

    @classmethod
    def resumed(cls, run: Run, clock: Clock, *, catches_up: bool) -> Position:
        """The place of a kept run after a restart."""
        position = cls(run, clock, catches_up=catches_up)
        now = clock.time()
        if run.boot == clock.boot:
            outage = max(0.0, clock.monotonic() - run.monotonic)
        else:
            outage = max(0.0, now - run.seen) if run.seen >= PLAUSIBLE else 0.0
            position._is_unsure = now < run.seen or not clock.is_synchronised()
        position._missed(outage)
        if now < PLAUSIBLE or (position._is_unsure and now < run.seen):
            position._wall = run.seen + outage
        run.seen = position._wall
        position.has_news = True
        return position

    def copied(self) -> Position:
        """One that can be changed without this one."""
        copied = copy.copy(self)
        copied.run = msgspec.structs.replace(self.run)
        return copied

    @property
    def is_paused(self) -> bool:
        return self.run.paused is not None

    def elapsed(self) -> float:
        """Seconds of the recipe."""
        return self.run.elapsed + (0.0 if self.is_paused else self.unkept())

    def unkept(self) -> float:
        """Seconds since the position was noted last."""
        return self._clock.monotonic() - self._since

    def wall(self) -> float:
        """The UNIX time that the run goes by."""
        return self._wall + self._clock.monotonic() - self._looked

    def time_of_day(self, zone: tzinfo | None, ago: float = 0.0) -> float:
        """Seconds after midnight, as clocks on the wall have it; None is the machine's own time zone.

        `ago` seconds ago, at a time before the last pause only by and large.
        """
        return time_of_day((self.wall() if self.run.paused is None else self.run.paused) - ago, zone)

    def look(self) -> None:
        """Look at the wall clock. To be called about each second."""
        now, shown = self._clock.monotonic(), self._clock.time()
        gone = now - self._looked
        step = self._step(shown - self._wall - gone, gone) if shown >= PLAUSIBLE else 0.0
        self._wall, self._looked = self._wall + gone + step, now
        self.has_news = self.has_news or abs(step) > NEWS_S
        if self._is_unsure:
            self._missed(max(0.0, step))
            self._is_unsure = step <= STEP_S and not self._clock.is_synchronised()

    def note(self) -> None:
        """Bring the run up to now, to be kept."""
        self.run.elapsed = self.elapsed()
        self._since = self._clock.monotonic()
        self.run.seen = self.wall()
        self.run.boot, self.run.monotonic = self._clock.boot, self._since
        self.has_news = False

    def pause(self) -> None:
        self.note()
        self.run.paused = self.run.seen

    def go_on(self) -> None:
        self.note()
        self.run.paused = None

    def skip_to(self, elapsed: float) -> None:
        self.note()
        self.run.elapsed = elapsed

    def _step(self, difference: float, gone: float) -> float:
        """How far to follow a clock that differs from what was expected `gone` seconds ago."""
        if difference < 0 and not self._clock.is_synchronised():
            return 0.0
        return difference if difference < -STEP_S else max(difference, -gone / 2.0)

    def _missed(self, seconds: float) -> None:
        if self._catches_up and not self.is_paused:
            self.run.elapsed += seconds


def time_of_day(wall: float, zone: tzinfo | None) -> float:
    """Seconds after midnight at a UNIX time, as clocks on the wall have it, also across DST."""
    local = datetime.fromtimestamp(wall, zone)
    return local.hour * 3600.0 + local.minute * 60.0 + local.second + local.microsecond * 1e-6

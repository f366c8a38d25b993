"""Where a run is: on monotonic time, through restarts and whatever is done to the wall clock."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from datetime import tzinfo

    from growd.recipes.run import Run
    from growd.runtime.clock import Clock

PLAUSIBLE: Final = 1_577_836_800.0  # 2020-01-01: a wall clock before it was never set
STEP_S: Final = 60.0  # by so much and no more does a clock that was right go wrong between two looks at it
NEWS_S: Final = 1.0
UNSURE_S: Final = 3_600.0  # for so long it is waited for somebody who knows the time before a run may end
MAX_COURSE: Final = 100


class Position:
    """Where a run is, on monotonic time, through restarts and whatever is done to the wall clock.

    The place in the recipe moves with monotonic time alone. The time of day, which some recipes go by, is
    that of the wall clock, but it does not follow each of its steps: forward it does; back only where
    something that knows the time has set the clock, and not for up to a minute: then it runs at half its pace
    until the clock has come up. A clock that was never set (1970) is not followed at all.

    With `catches_up` time in which growd did not run counts as time of the recipe. Without a restart of the
    machine its monotonic clock tells how long that was. After one the wall clock does, and without a battery
    it does not know before the network does. So if the time of the last place was confirmed by somebody who
    knows it, and that of now is not yet, what the clock says counts for the time being, and is put right,
    forward or back, as soon as it is confirmed. Two times that nobody has confirmed are compared once, and
    for good: a later step says nothing of them.
    """

    def __init__(self, run: Run, clock: Clock, *, catches_up: bool = True) -> None:
        self.run = run
        self._clock = clock
        self._catches_up = catches_up
        self._began = self._since = self._looked = clock.monotonic()
        self._wall = clock.time()
        self.has_news = False
        """Whether the place is worth keeping at once, for more than time has changed it."""

    @classmethod
    def begun(cls, run: Run, clock: Clock, *, catches_up: bool) -> Position:
        """The place of a run that starts now."""
        position = cls(run, clock, catches_up=catches_up)
        run.confirmed = clock.is_synchronised()
        position.note()
        position._moved()
        return position

    @classmethod
    def resumed(cls, run: Run, clock: Clock, *, catches_up: bool) -> Position:
        """The place of a kept run after a restart."""
        position = cls(run, clock, catches_up=catches_up)
        if run.boot == clock.boot:
            outage = max(0.0, clock.monotonic() - run.monotonic)
            position._wall = run.seen + outage
            run.lasted += outage
        else:
            outage = position._outage_of_machine()
            run.lasted = max(0.0, position._wall - run.start) if run.confirmed else run.lasted + outage
        if catches_up and not position.is_paused:
            run.elapsed += outage
        run.seen = position._wall
        position._moved()
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

    @property
    def is_sure(self) -> bool:
        """Whether it is known how long a power cut took, or has been waited for long enough."""
        return self.run.anchor is None or self._clock.monotonic() - self._began >= UNSURE_S

    def elapsed(self) -> float:
        """Seconds of the recipe."""
        return self.run.elapsed + (0.0 if self.is_paused else self.unkept())

    def lasted(self) -> float:
        """Seconds since the start, pauses and outages among them, as far as those are known."""
        return self.run.lasted + self.unkept()

    def unkept(self) -> float:
        """Seconds since the position was noted last."""
        return self._clock.monotonic() - self._since

    def wall(self) -> float:
        """The UNIX time that the run goes by."""
        return self._wall + self._clock.monotonic() - self._looked

    def time_of_day(self, zone: tzinfo | None) -> float:
        """Seconds after midnight, as clocks on the wall have it; None is the machine's own time zone."""
        return time_of_day(self.wall() if self.run.paused is None else self.run.paused, zone)

    def time_of_day_at(self, elapsed: float, zone: tzinfo | None) -> float:
        """What it was when the run was at an earlier place, or would have been where it was never there."""
        place, wall = next(
            (each for each in reversed(self.run.course) if each[0] <= elapsed), self.run.course[0]
        )
        return time_of_day(wall + elapsed - place, zone)

    def look(self) -> None:
        """Look at the wall clock. To be called about each second."""
        now, shown = self._clock.monotonic(), self._clock.time()
        gone = now - self._looked
        step = self._step(shown - self._wall - gone, gone) if shown >= PLAUSIBLE else 0.0
        self._wall, self._looked = self._wall + gone + step, now
        if not self.run.confirmed and shown >= PLAUSIBLE and self._clock.is_synchronised():
            self.run.confirmed = self.has_news = True
            self._settle()
        if abs(step) > NEWS_S:
            self._moved()
            self.has_news = True

    def note(self) -> None:
        """Bring the run up to now, to be kept."""
        self.run.elapsed, self.run.lasted = self.elapsed(), self.lasted()
        self._since = self._clock.monotonic()
        self.run.seen = self.wall()
        self.run.boot, self.run.monotonic = self._clock.boot, self._since
        self.has_news = False

    def pause(self) -> None:
        self.note()
        self.run.paused = self.run.seen
        self.run.anchor = None

    def go_on(self) -> None:
        self.note()
        self.run.paused = None
        self._moved()

    def skip_to(self, elapsed: float) -> None:
        self.note()
        self.run.elapsed = elapsed
        self.run.anchor = None
        self._moved()

    def _outage_of_machine(self) -> float:
        """How long the machine did not run, as far as its clock knows; it is settled later if need be."""
        run, now = self.run, self._clock.time()
        is_confirmed = self._clock.is_synchronised() and now >= PLAUSIBLE
        if self._catches_up and not self.is_paused and run.confirmed and not is_confirmed:
            run.anchor = (run.elapsed, run.seen)
        elif is_confirmed and run.anchor is not None:  # of a power cut before this one
            run.elapsed, run.seen = run.anchor
            run.anchor = None
        run.confirmed = is_confirmed
        outage = max(0.0, now - run.seen) if run.seen >= PLAUSIBLE else 0.0
        self._wall = now if is_confirmed else max(now, run.seen)
        return outage

    def _settle(self) -> None:
        """The time is known now, and so it is where the run would be without any power cut."""
        if self.run.anchor is not None:
            elapsed, wall = self.run.anchor
            self.run.anchor = None
            self.note()
            self.run.elapsed = max(elapsed, elapsed + self._clock.time() - wall)
            self.run.lasted = max(0.0, self._clock.time() - self.run.start)
            self._moved()
            self.has_news = True

    def _moved(self) -> None:
        """Write down that it is here now, after something else than time has moved it or the clock."""
        here = (self.elapsed(), self.wall())
        before = [each for each in self.run.course if each[0] < here[0]]
        self.run.course = [*before, here][-MAX_COURSE:]

    def _step(self, difference: float, gone: float) -> float:
        """How far to follow a clock that differs from what was expected `gone` seconds ago."""
        if difference < 0 and not self._clock.is_synchronised():
            return 0.0
        return difference if difference < -STEP_S else max(difference, -gone / 2.0)


def time_of_day(wall: float, zone: tzinfo | None) -> float:
    """Seconds after midnight at a UNIX time, as clocks on the wall have it, also across DST."""
    local = datetime.fromtimestamp(wall, zone)
    return local.hour * 3600.0 + local.minute * 60.0 + local.second + local.microsecond * 1e-6

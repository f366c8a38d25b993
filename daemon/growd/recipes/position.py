"""The position of a run in its recipe, through restarts and steps of the wall clock."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from datetime import tzinfo

    from growd.recipes.run import Run
    from growd.runtime.clock import Clock

PLAUSIBLE: Final = 1_577_836_800.0  # 2020-01-01; a wall clock before it was never set
MAX_DRIFT_S: Final = 60.0  # maximum plausible clock drift between two polls
SAVE_STEP_S: Final = 1.0  # a larger clock step is saved at once
CONFIRM_S: Final = 3_600.0  # how long to wait for NTP before a run of uncertain position may end
MAX_HISTORY: Final = 100


class Position:
    """The position of a run, which moves with monotonic time.

    The time of day follows the wall clock: at once when the clock is set forward, back only when it is
    synchronised (NTP). A step back of up to a minute is not followed at once; the time of day runs at half
    speed instead. A clock that was never set (1970) is ignored.

    With `catches_up`, an outage of growd counts as time of the recipe. Its length comes from the monotonic
    clock or, after a reboot, from the wall clock. If only the time before the outage was synchronised, the
    length is provisional and corrected once the clock is. If neither was, the two times are compared once.
    docs/recipes.md has the rules.
    """

    def __init__(self, run: Run, clock: Clock, *, catches_up: bool = True) -> None:
        self.run = run
        self._clock = clock
        self._catches_up = catches_up
        self._began = self._since = self._polled = clock.monotonic()
        self._wall = clock.time()
        self.must_save = False
        """Whether to save the position at once, since more than time has changed it."""

    @classmethod
    def started(cls, run: Run, clock: Clock, *, catches_up: bool) -> Position:
        """The position of a run that starts now."""
        position = cls(run, clock, catches_up=catches_up)
        run.confirmed = clock.is_synchronised()
        position.checkpoint()
        position._add_to_history()
        return position

    @classmethod
    def resumed(cls, run: Run, clock: Clock, *, catches_up: bool) -> Position:
        """The position of a saved run after a restart."""
        position = cls(run, clock, catches_up=catches_up)
        if run.boot == clock.boot:
            outage = max(0.0, clock.monotonic() - run.monotonic)
            position._wall = run.seen + outage
            run.lasted += outage
        else:
            outage = position._outage_after_boot()
            run.lasted = max(0.0, position._wall - run.start) if run.confirmed else run.lasted + outage
        if catches_up and not position.is_paused:
            run.elapsed += outage
        run.seen = position._wall
        position._add_to_history()
        position.must_save = True
        return position

    def copied(self) -> Position:
        """An independent copy."""
        copied = copy.copy(self)
        copied.run = msgspec.structs.replace(self.run)
        return copied

    @property
    def is_paused(self) -> bool:
        return self.run.paused is not None

    @property
    def is_certain(self) -> bool:
        """Whether the length of the last power cut is known, or NTP did not arrive in time."""
        return self.run.pre_outage is None or self._clock.monotonic() - self._began >= CONFIRM_S

    def elapsed(self) -> float:
        """Seconds of the recipe."""
        return self.run.elapsed + (0.0 if self.is_paused else self.since_checkpoint())

    def lasted(self) -> float:
        """Seconds since the start, including pauses and known outages."""
        return self.run.lasted + self.since_checkpoint()

    def since_checkpoint(self) -> float:
        """Seconds since the last checkpoint."""
        return self._clock.monotonic() - self._since

    def wall(self) -> float:
        """The UNIX time for this run."""
        return self._wall + self._clock.monotonic() - self._polled

    def time_of_day(self, zone: tzinfo | None) -> float:
        """Seconds after local midnight; `zone` None is the machine's time zone."""
        return time_of_day(self.wall() if self.run.paused is None else self.run.paused, zone)

    def time_of_day_at(self, elapsed: float, zone: tzinfo | None) -> float:
        """The time of day at an earlier position; extrapolated for a skipped one."""
        position, wall = next(
            (each for each in reversed(self.run.history) if each[0] <= elapsed), self.run.history[0]
        )
        return time_of_day(wall + elapsed - position, zone)

    def poll(self) -> None:
        """Compare with the wall clock. Call about once per second."""
        now, shown = self._clock.monotonic(), self._clock.time()
        passed = now - self._polled
        step = self._step(shown - self._wall - passed, passed) if shown >= PLAUSIBLE else 0.0
        self._wall, self._polled = self._wall + passed + step, now
        if not self.run.confirmed and shown >= PLAUSIBLE and self._clock.is_synchronised():
            self.run.confirmed = self.must_save = True
            self._correct()
        if abs(step) > SAVE_STEP_S:
            self._add_to_history()
            self.must_save = True

    def checkpoint(self) -> None:
        """Update the run to the present position, to save it."""
        self.run.elapsed, self.run.lasted = self.elapsed(), self.lasted()
        self._since = self._clock.monotonic()
        self.run.seen = self.wall()
        self.run.boot, self.run.monotonic = self._clock.boot, self._since
        self.must_save = False

    def pause(self) -> None:
        self.checkpoint()
        self.run.paused = self.run.seen
        self.run.pre_outage = None

    def resume(self) -> None:
        self.checkpoint()
        self.run.paused = None
        self._add_to_history()

    def skip_to(self, elapsed: float) -> None:
        self.checkpoint()
        self.run.elapsed = elapsed
        self.run.pre_outage = None
        self._add_to_history()

    def _outage_after_boot(self) -> float:
        """The length of an outage with a reboot, by the wall clock; `_correct` may correct it later."""
        run, now = self.run, self._clock.time()
        is_confirmed = self._clock.is_synchronised() and now >= PLAUSIBLE
        if self._catches_up and not self.is_paused and run.confirmed and not is_confirmed:
            run.pre_outage = (run.elapsed, run.seen)
        elif is_confirmed and run.pre_outage is not None:  # of an earlier power cut
            run.elapsed, run.seen = run.pre_outage
            run.pre_outage = None
        run.confirmed = is_confirmed
        outage = max(0.0, now - run.seen) if run.seen >= PLAUSIBLE else 0.0
        self._wall = now if is_confirmed else max(now, run.seen)
        return outage

    def _correct(self) -> None:
        """Correct a provisional position, now that the clock is synchronised."""
        if self.run.pre_outage is not None:
            elapsed, wall = self.run.pre_outage
            self.run.pre_outage = None
            self.checkpoint()
            self.run.elapsed = max(elapsed, elapsed + self._clock.time() - wall)
            self.run.lasted = max(0.0, self._clock.time() - self.run.start)
            self._add_to_history()
            self.must_save = True

    def _add_to_history(self) -> None:
        """Add the present position to the history, after a step of the position or the clock."""
        here = (self.elapsed(), self.wall())
        before = [each for each in self.run.history if each[0] < here[0]]
        self.run.history = [*before, here][-MAX_HISTORY:]

    def _step(self, difference: float, passed: float) -> float:
        """How far to follow a clock that differs from the expected time, `passed` seconds after a poll."""
        if difference < 0 and not self._clock.is_synchronised():
            return 0.0
        return difference if difference < -MAX_DRIFT_S else max(difference, -passed / 2.0)


def time_of_day(wall: float, zone: tzinfo | None) -> float:
    """Seconds after local midnight at a UNIX time, as a clock shows it."""
    local = datetime.fromtimestamp(wall, zone)
    return local.hour * 3600.0 + local.minute * 60.0 + local.second + local.microsecond * 1e-6

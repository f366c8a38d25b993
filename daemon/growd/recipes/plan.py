"""A recipe made ready to run: a pure function from where it is to set points. No clock, no bus, no I/O.

Every format becomes the same: phases one after the other, and in each phase a track for each variable.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

DAY_S: Final = 86_400.0
ROUNDING: Final = 1e-9  # a phase is a multiple of its cycle, but for what floats make of it


class Shape(StrEnum):
    """How a set point gets to the next one: not before that comes, in a straight line, or softly."""

    HOLD = "hold"
    RAMP = "ramp"
    SINE = "sine"

    def between(self, begin: float, end: float, fraction: float) -> float:
        """The value when that fraction (0..1) of the way is gone. `sine` is half a wave of the cosine."""
        if self is Shape.HOLD:
            return begin
        gone = fraction if self is Shape.RAMP else (1.0 - math.cos(math.pi * fraction)) / 2.0
        # of two products, and not of one difference: it meets both ends and never leaves what is between
        return min(max(begin, end), max(min(begin, end), begin * (1.0 - gone) + end * gone))


Written = tuple[float | None, Shape, float | None]
"""A set point as a recipe has it: value, way to the next one, and value of the next one unless it holds."""


@dataclass(frozen=True, slots=True)
class Point:
    """A set point: from `at` (seconds after the beginning of the cycle) on. `None` releases the variable."""

    at: float
    value: float | None
    shape: Shape = Shape.HOLD


class Track:
    """The course of one variable in a phase, over a cycle of `cycle` seconds.

    `points` are in the order of their time; of several at one time the last holds. The cycle is repeated as
    long as the phase lasts. It begins with the phase; with `is_daily` it is the day, as clocks on the wall
    have it.

    `is_whole` is whether it says something at every time of the phase, if only that the variable is released.
    """

    def __init__(self, points: Sequence[Point], cycle: float, *, is_daily: bool = False) -> None:
        self.points = tuple(sorted(points, key=lambda point: point.at))  # stable
        self.cycle = DAY_S if is_daily else cycle
        self.is_daily = is_daily
        self.is_whole = is_daily or self.points[0].at <= 0.0
        self._times = [point.at for point in self.points]

    def value(self, since: float, end: float, time_of_day: float) -> float | None:
        """The value `since` seconds after the beginning of a phase of `end` seconds.

        None where it is released, and before the first set point. At the end of the phase it is that of the
        end of a cycle, and not of the beginning of another.
        """
        time, passed, goes_on = self._place(since, end, time_of_day)
        if passed is None:
            return None
        point = self.points[passed - 1]
        if point.value is None or self._holds(point, passed, goes_on=goes_on):
            return point.value
        following = self.points[passed % len(self.points)]
        gone = (time - point.at) % self.cycle
        way = (following.at - point.at) % self.cycle or self.cycle
        end_value = point.value if following.value is None else following.value
        return point.shape.between(point.value, end_value, min(1.0, gone / way))

    def written(self, since: float, end: float, time_of_day: float) -> Written | None:
        """The set point in force, as the recipe has it; None before the first. Arguments as for `value`."""
        _, passed, goes_on = self._place(since, end, time_of_day)
        if passed is None:
            return None
        point = self.points[passed - 1]
        if self._holds(point, passed, goes_on=goes_on):
            return point.value, Shape.HOLD, None
        return point.value, point.shape, self.points[passed % len(self.points)].value

    def _holds(self, point: Point, passed: int, *, goes_on: bool) -> bool:
        return point.shape is Shape.HOLD or (passed == len(self.points) and not goes_on)

    def _place(self, since: float, end: float, time_of_day: float) -> tuple[float, int | None, bool]:
        """The time of the cycle, how many points have passed in it, and whether another cycle follows.

        None have passed before the first point; 0 means the last point of the cycle before.
        """
        if self.is_daily:
            time = time_of_day % DAY_S
            return time, bisect_right(self._times, time), True
        time = math.fmod(since, self.cycle)  # exact
        if since >= end and time < ROUNDING * self.cycle:
            time = self.cycle
        goes_on = since - time + self.cycle < end * (1.0 - ROUNDING)
        passed = bisect_right(self._times, time)
        return time, passed if passed or since > time else None, goes_on


_RELEASED: Final = Track([Point(0.0, None)], 1.0)
_NOWHERE: Final = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Phase:
    """A part of a recipe, from `begin` on, for `duration` (seconds since the recipe's beginning).

    A variable that it has no track for keeps its last value, unless the phase `releases` it.
    """

    name: str
    begin: float
    duration: float
    tracks: Mapping[str, Track] = field(default_factory=dict)
    releases: bool = False

    @property
    def end(self) -> float:
        return self.begin + self.duration

    def settles(self, variable: str) -> bool:
        """Whether the phases after it that say nothing of a variable need not look at those before it."""
        track = self.tracks.get(variable)
        if track is None:
            return self.releases
        # the end of a course is the same whatever the clock shows
        return track.is_whole or track.written(self.end - self.begin, self.duration, 0.0) is not None


class Plan:
    """Phases that follow each other without a gap. It ends with the last of them.

    `goes_by_local_time` is whether the time of day matters.
    """

    def __init__(self, phases: Sequence[Phase]) -> None:
        self.phases = tuple(phases)
        self._begins = [phase.begin for phase in self.phases]
        self.variables = sorted({variable for phase in phases for variable in phase.tracks})
        self.goes_by_local_time = any(track.is_daily for phase in phases for track in phase.tracks.values())
        # of each variable, the phases whose end tells what it is in those after them that don't name it
        self._settled: dict[str, list[int]] = {variable: [] for variable in self.variables}
        for number, phase in enumerate(self.phases):
            for variable in self.variables if phase.releases else phase.tracks:
                if phase.settles(variable):
                    self._settled[variable].append(number)

    @property
    def duration(self) -> float:
        """When it ends, in seconds after its beginning."""
        return self.phases[-1].end

    def phase_at(self, elapsed: float) -> int:
        """The number of the phase after `elapsed` seconds, from 0; after the end, of the last one."""
        return max(0, bisect_right(self._begins, elapsed) - 1)

    def set_points(
        self, elapsed: float, time_of_day: float = 0.0, earlier: Callable[[float], float] | None = None
    ) -> dict[str, float]:
        """The value of each variable that has one, at that many seconds after midnight.

        `elapsed` seconds after the beginning; before it nothing has one, after the end it is as at the end.
        `earlier(elapsed)` is the time of day that it was at an earlier position, for a value of then may
        still hold; without it, no clock was changed since (to summer time, or by a pause).
        """
        values = ((name, self.value(name, elapsed, time_of_day, earlier)) for name in self.variables)
        return {variable: value for variable, value in values if value is not None}

    def value(
        self,
        variable: str,
        elapsed: float,
        time_of_day: float = 0.0,
        earlier: Callable[[float], float] | None = None,
    ) -> float | None:
        """That of one variable, as `set_points` has it, None where it has none.

        It is that of the phase, else as the last phase that says something of it left it.
        """
        track, place = self._speaking(variable, elapsed, time_of_day, earlier)
        return None if track is None else track.value(*place)

    def written(
        self,
        variable: str,
        elapsed: float,
        time_of_day: float = 0.0,
        earlier: Callable[[float], float] | None = None,
    ) -> Written | None:
        """The set point in force as the recipe has it; None before the first. Arguments as for `value`.

        It stays the same along a ramp and where the recipe repeats it, and differs once the recipe changes
        the variable. After a release it is that of a value of None.
        """
        track, place = self._speaking(variable, elapsed, time_of_day, earlier)
        return None if track is None else track.written(*place)

    def _speaking(
        self, variable: str, elapsed: float, time_of_day: float, earlier: Callable[[float], float] | None
    ) -> tuple[Track | None, tuple[float, float, float]]:
        """The track that says what a variable is, None if there is none, and the place to ask it for."""
        if elapsed < 0:
            return None, _NOWHERE
        for phase, position in self._telling(variable, min(elapsed, self.duration)):
            track = phase.tracks.get(variable)
            if track is not None:
                gone = elapsed - position
                at = earlier(position) if earlier is not None and gone > 0 else time_of_day - gone
                place = position - phase.begin, phase.duration, at
                if track.is_whole or track.written(*place) is not None:
                    return track, place
            elif phase.releases:
                return _RELEASED, _NOWHERE
        return None, _NOWHERE

    def _telling(self, variable: str, position: float) -> Iterator[tuple[Phase, float]]:
        """The phase at a position, and the last one before that settles a variable, as it was at its end."""
        number = self.phase_at(position)
        yield self.phases[number], position
        settled = self._settled.get(variable, ())
        before = bisect_left(settled, number)
        if before:
            last = settled[before - 1]
            yield self.phases[last], self.phases[last + 1].begin


def in_sequence(parts: Iterator[tuple[str, float, Mapping[str, Track], bool]]) -> Plan:
    """A plan from the name, duration, tracks and policy of each phase."""
    phases: list[Phase] = []
    begin = 0.0
    for name, duration, tracks, releases in parts:
        phases.append(Phase(name, begin, duration, tracks, releases))
        begin += duration
    return Plan(phases)

"""The plan of a recipe: a pure function from the position to set points, without clock, bus or I/O.

Every format becomes a sequence of phases, each with a track for each variable.
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
ROUNDING: Final = 1e-9  # of floats, relative: a phase may be a multiple of its cycle


class Shape(StrEnum):
    """The way from a set point to the next: a step, a straight line, or half a cosine wave."""

    HOLD = "hold"
    RAMP = "ramp"
    SINE = "sine"

    def between(self, begin: float, end: float, fraction: float) -> float:
        """The value at a fraction (0..1) of the way."""
        if self is Shape.HOLD:
            return begin
        progress = fraction if self is Shape.RAMP else (1.0 - math.cos(math.pi * fraction)) / 2.0
        # a sum of two products: exact at both ends, and never outside
        return min(max(begin, end), max(min(begin, end), begin * (1.0 - progress) + end * progress))


Written = tuple[float | None, Shape, float | None]
"""A set point as written: value, way to the next one, and value of the next one unless it holds."""


@dataclass(frozen=True, slots=True)
class Point:
    """A set point from `at` (seconds after the beginning of the cycle) on; None releases the variable."""

    at: float
    value: float | None
    shape: Shape = Shape.HOLD


class Track:
    """The set points of one variable in a phase, over a repeated cycle of `cycle` seconds.

    `points` are in the order of their time; of several at one time the last counts. The cycle begins with the
    phase or, if `is_daily`, at local midnight. `is_whole` is whether a set point or a release is in force at
    every time of the phase.
    """

    def __init__(self, points: Sequence[Point], cycle: float, *, is_daily: bool = False) -> None:
        self.points = tuple(sorted(points, key=lambda point: point.at))  # stable
        self.cycle = DAY_S if is_daily else cycle
        self.is_daily = is_daily
        self.is_whole = is_daily or self.points[0].at <= 0.0
        self._times = [point.at for point in self.points]

    def value(self, since: float, end: float, time_of_day: float) -> float | None:
        """The value `since` seconds after the beginning of a phase of `end` seconds.

        None if it is released, and before the first set point. The end of the phase belongs to the last
        cycle.
        """
        time, passed, goes_on = self._place(since, end, time_of_day)
        if passed is None:
            return None
        point = self.points[passed - 1]
        if point.value is None or self._holds(point, passed, goes_on=goes_on):
            return point.value
        following = self.points[passed % len(self.points)]
        since_point = (time - point.at) % self.cycle
        way = (following.at - point.at) % self.cycle or self.cycle
        end_value = point.value if following.value is None else following.value
        return point.shape.between(point.value, end_value, min(1.0, since_point / way))

    def written(self, since: float, end: float, time_of_day: float) -> Written | None:
        """The set point in force, as written; None before the first. Arguments as for `value`."""
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
        """The time in the cycle, the number of passed points, and whether another cycle follows.

        The number is None before the first point; 0 means the last point of the previous cycle.
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
_ANYWHERE: Final = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Phase:
    """A phase: it begins `begin` seconds after the start of the recipe, and lasts `duration` seconds.

    A variable without a track keeps its last value, unless the phase `releases` it.
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
        """Whether its end determines a variable in later phases without a track for it."""
        track = self.tracks.get(variable)
        if track is None:
            return self.releases
        # the end of a track does not depend on the time of day
        return track.is_whole or track.written(self.end - self.begin, self.duration, 0.0) is not None


class Plan:
    """A sequence of phases without gaps. `goes_by_local_time` is whether it depends on the time of day."""

    def __init__(self, phases: Sequence[Phase]) -> None:
        self.phases = tuple(phases)
        self._begins = [phase.begin for phase in self.phases]
        self.variables = sorted({variable for phase in phases for variable in phase.tracks})
        self.goes_by_local_time = any(track.is_daily for phase in phases for track in phase.tracks.values())
        # of each variable, the phases that determine it in later phases without a track
        self._settled: dict[str, list[int]] = {variable: [] for variable in self.variables}
        for number, phase in enumerate(self.phases):
            for variable in self.variables if phase.releases else phase.tracks:
                if phase.settles(variable):
                    self._settled[variable].append(number)

    @property
    def duration(self) -> float:
        """The length in seconds."""
        return self.phases[-1].end

    def phase_at(self, elapsed: float) -> int:
        """The number of the phase, from 0, after `elapsed` seconds; the last one after the end."""
        return max(0, bisect_right(self._begins, elapsed) - 1)

    def set_points(
        self, elapsed: float, time_of_day: float = 0.0, earlier: Callable[[float], float] | None = None
    ) -> dict[str, float]:
        """The value of each variable that has one, `elapsed` seconds after the start.

        Empty before the start; after the end as at the end. `time_of_day` is in seconds after midnight.
        `earlier(elapsed)` returns the time of day at an earlier position, whose value may still be in force;
        without it, there was no change of the clock (DST or a pause) since.
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
        """The value of one variable, None if it has none; arguments as for `set_points`.

        Without a track in the phase, it is the last value of an earlier phase.
        """
        track, place = self._track_for(variable, elapsed, time_of_day, earlier)
        return None if track is None else track.value(*place)

    def written(
        self,
        variable: str,
        elapsed: float,
        time_of_day: float = 0.0,
        earlier: Callable[[float], float] | None = None,
    ) -> Written | None:
        """The set point in force, as written; None before the first. Arguments as for `value`.

        It does not change along a ramp or when the recipe repeats a set point. A release has the value None.
        """
        track, place = self._track_for(variable, elapsed, time_of_day, earlier)
        return None if track is None else track.written(*place)

    def _track_for(
        self, variable: str, elapsed: float, time_of_day: float, earlier: Callable[[float], float] | None
    ) -> tuple[Track | None, tuple[float, float, float]]:
        """The track that determines a variable, None if there is none, and the arguments for it."""
        if elapsed < 0:
            return None, _ANYWHERE
        for phase, position in self._candidates(variable, min(elapsed, self.duration)):
            track = phase.tracks.get(variable)
            if track is not None:
                ago = elapsed - position
                at = earlier(position) if earlier is not None and ago > 0 else time_of_day - ago
                place = position - phase.begin, phase.duration, at
                if track.is_whole or track.written(*place) is not None:
                    return track, place
            elif phase.releases:
                return _RELEASED, _ANYWHERE
        return None, _ANYWHERE

    def _candidates(self, variable: str, position: float) -> Iterator[tuple[Phase, float]]:
        """The phase at a position, and the end of the last phase before that determines the variable."""
        number = self.phase_at(position)
        yield self.phases[number], position
        settled = self._settled.get(variable, ())
        before = bisect_left(settled, number)
        if before:
            last = settled[before - 1]
            yield self.phases[last], self.phases[last + 1].begin


def in_sequence(parts: Iterator[tuple[str, float, Mapping[str, Track], bool]]) -> Plan:
    """A plan from the name, duration, tracks and release policy of each phase."""
    phases: list[Phase] = []
    begin = 0.0
    for name, duration, tracks, releases in parts:
        phases.append(Phase(name, begin, duration, tracks, releases))
        begin += duration
    return Plan(phases)

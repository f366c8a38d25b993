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


@dataclass(frozen=True, slots=True)
class Point:
    """A set point: from `at` (seconds after the beginning of the cycle) on."""

    at: float
    value: float
    shape: Shape = Shape.HOLD


class Track:
    """The course of one variable in a phase, over a cycle of `cycle` seconds.

    `points` are in the order of their time; of several at one time the last holds. The cycle is repeated as
    long as the phase lasts. It begins with the phase; with `is_daily` it is the day, as clocks on the wall
    have it.
    """

    def __init__(self, points: Sequence[Point], cycle: float, *, is_daily: bool = False) -> None:
        self.points = tuple(sorted(points, key=lambda point: point.at))  # stable
        self.cycle = DAY_S if is_daily else cycle
        self.is_daily = is_daily
        self._times = [point.at for point in self.points]

    def value(self, since: float, end: float, time_of_day: float) -> float | None:
        """The value `since` seconds after the beginning of a phase of `end` seconds; None before the first.

        At the end of the phase it is that of the end of a cycle, and not of the beginning of another.
        """
        if self.is_daily:
            return self._at(time_of_day % DAY_S, goes_on=True, came_round=True)
        time = math.fmod(since, self.cycle)  # exact
        if since >= end and time < ROUNDING * self.cycle:
            time = self.cycle
        goes_on = since - time + self.cycle < end * (1.0 - ROUNDING)
        return self._at(time, goes_on=goes_on, came_round=since > time)

    def _at(self, time: float, *, goes_on: bool, came_round: bool) -> float | None:
        """At a time of the cycle, to which another one comes after (`goes_on`) or came before."""
        passed = bisect_right(self._times, time)
        if not passed and not came_round:
            return None
        point = self.points[passed - 1]  # before the first, the last of the round before
        if point.shape is Shape.HOLD or (passed == len(self.points) and not goes_on):
            return point.value
        following = self.points[passed % len(self.points)]
        gone = (time - point.at) % self.cycle
        way = (following.at - point.at) % self.cycle or self.cycle
        return point.shape.between(point.value, following.value, min(1.0, gone / way))


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
        # of a day there always is one, and the end of a course is the same whatever the clock shows
        return track.value(self.end - self.begin, self.duration, 0.0) is not None


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
        if elapsed < 0:
            return None
        for phase, position in self._telling(variable, min(elapsed, self.duration)):
            track = phase.tracks.get(variable)
            if track is not None:
                gone = elapsed - position
                at = earlier(position) if earlier is not None and gone > 0 else time_of_day - gone
                value = track.value(position - phase.begin, phase.duration, at)
                if value is not None:
                    return value
            elif phase.releases:
                return None
        return None

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

"""When a plan changes a variable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from growd.recipes.plan import Shape
from growd.recipes.position import time_of_day

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd.recipes.plan import Phase, Plan, Track, Written

MAX_AHEAD: Final = 5_000
"""Limit of evaluated times in a search for the next change of a variable."""

BEFORE_S: Final = 1e-5  # just before an edge; above the resolution of UNIX time as a float
_SAMPLES: Final = 16  # of half a sine wave, which is drawn with straight lines


def next_change(
    plan: Plan, variable: str, elapsed: float, start_wall: float, zone: tzinfo | None
) -> float | None:
    """When a plan next changes a variable, in seconds since its start; its end at the latest.

    `elapsed` is the present, `start_wall` the UNIX time of the start. `zone` is that of times of day, None
    that of the machine. None if the change is too far ahead to search.
    """
    dated = DatedPlan(plan, start_wall, zone)
    now = dated.written(variable, elapsed)
    for edge in islice(dated.edges(variable, elapsed), MAX_AHEAD):
        if edge > elapsed and (edge >= plan.duration or dated.written(variable, edge + BEFORE_S) != now):
            return min(edge, plan.duration)
    return None


@dataclass(frozen=True, slots=True)
class DatedPlan:
    """A plan that starts at a UNIX time, with the time zone of its times of day."""

    plan: Plan
    start: float
    zone: tzinfo | None

    def local(self, elapsed: float) -> float:
        """The time of day."""
        return time_of_day(self.start + elapsed, self.zone) if self.plan.goes_by_local_time else 0.0

    def written(self, variable: str, elapsed: float) -> Written | None:
        return self.plan.written(variable, elapsed, self.local(elapsed), self.local)

    def edges(self, variable: str, since: float = 0.0) -> Iterator[float]:
        """The times at which the line may turn, roughly in order, without most before `since`."""
        for phase in self.plan.phases[self.plan.phase_at(since) :]:
            yield phase.begin
            track = phase.tracks.get(variable)
            if track is not None:
                edges = self._days(phase, track, since) if track.is_daily else _cycles(phase, track, since)
                yield from (edge for edge in edges if phase.begin < edge < phase.end)
        yield self.plan.duration

    def _days(self, phase: Phase, track: Track, since: float) -> Iterator[float]:
        """Times of day on each day, both of a repeated one, and the changes of the clocks (DST)."""
        times, zone = _turns(track), self.zone
        begin, end = self.start + max(phase.begin, since), self.start + phase.end
        day = datetime.fromtimestamp(begin, zone).date()
        while (midnight := datetime.combine(day, time(), zone)).timestamp() < end:
            day += timedelta(days=1)
            local = [midnight + timedelta(seconds=turn) for turn in times]  # local time
            moments = {moment.replace(fold=fold).timestamp() for moment in local for fold in (0, 1)}
            change = _change(midnight.timestamp(), datetime.combine(day, time(), zone).timestamp(), zone)
            yield from sorted(moment - self.start for moment in moments | change)


def _cycles(phase: Phase, track: Track, since: float) -> Iterator[float]:
    times = _turns(track)
    number = max(0, int((since - phase.begin) / track.cycle) - 1)
    while number * track.cycle < phase.duration:
        yield from (phase.begin + number * track.cycle + turn for turn in times)
        number += 1


def _change(begin: float, end: float, zone: tzinfo | None) -> set[float]:
    """When clocks change between two UNIX times, to a second; empty if they do not."""

    def ahead(moment: float) -> timedelta | None:
        return datetime.fromtimestamp(moment, zone).astimezone(zone).utcoffset()

    before = ahead(begin)
    if before == ahead(end):
        return set()
    while end - begin > 1.0:
        middle = float((begin + end) // 2)
        begin, end = (middle, end) if ahead(middle) == before else (begin, middle)
    return {end}


def _turns(track: Track) -> list[float]:
    """The times of a cycle at which its line turns or is sampled."""
    turns = {point.at for point in track.points}
    for point, following in zip(track.points, track.points[1:] + track.points[:1], strict=True):
        if point.shape is Shape.SINE:
            way = (following.at - point.at) % track.cycle or track.cycle
            turns |= {(point.at + way * part / _SAMPLES) % track.cycle for part in range(1, _SAMPLES)}
    return sorted(turns)

"""Format `phased`, growd's own: phases whose set points go by the time of day, or by the time in the phase.

    {"format": "phased",
     "phases": [{"name": "early", "duration": 14, "time_units": "days", "otherwise": "hold",
                 "daily": {"light_illuminance": [{"at": "06:00", "value": 0, "to_next": "sine"},
                                                 {"at": "07:30", "value": 8000},
                                                 {"at": "22:00", "value": 0}]},
                 "course": {"air_temperature": [{"at": 0, "value": 24, "to_next": "ramp"},
                                                {"at": 7, "value": 20}]},
                 "cycle": 14}]}

`daily` times are those of the clock on the wall, of each day; the first of a day holds until then from the
last of the day before. `course` times count from the beginning of the phase, and again from that of each
`cycle` where there is one. What a phase does not name keeps its last value, or is let go of where `otherwise`
is "release". docs/recipes.md says why there is this format.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes.findings import (
    check_time,
    check_value,
    check_variable,
    error,
    is_number,
    under,
    warning,
)
from growd.recipes.phases import (
    DAY_S,
    SHORTEST_S,
    check_phases,
    check_sum,
    check_texts,
    check_unit,
    unit_of,
)
from growd.recipes.plan import Plan, Point, Shape, Track, in_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from growd.recipes.findings import Finding

UNITS: Final = {"days": DAY_S, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}
OTHERWISE: Final = ("hold", "release")
_PHASE: Final = ("name", "description", "duration", "time_units", "otherwise", "daily", "course", "cycle")
_POINT: Final = ("at", "value", "to_next")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)


def plan(recipe: dict[str, Any]) -> Plan:
    """The phases one after the other, each for its duration."""
    return in_sequence(_part(number, phase) for number, phase in enumerate(recipe["phases"], start=1))


def check(recipe: dict[str, Any]) -> Iterator[Finding]:
    """All that is to be said of a recipe of this format."""
    return check_phases(recipe, _arrays_of, _check_phase, _check_whole)


def places(recipe: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The place of each set point, its variable and value."""
    for number, phase in enumerate(recipe["phases"]):
        for kind in ("daily", "course"):
            for variable, points in phase.get(kind, {}).items():
                place = under(f"/phases/{number}/{kind}", variable)
                for index, point in enumerate(points):
                    yield f"{place}/{index}", variable, float(point["value"])


def _part(number: int, phase: dict[str, Any]) -> tuple[str, float, Mapping[str, Track], bool]:
    unit = UNITS[phase["time_units"]]
    duration = phase["duration"] * unit
    cycle = phase.get("cycle", phase["duration"]) * unit
    tracks = {
        variable: Track([_point(point, float(point["at"]) * unit) for point in points], cycle)
        for variable, points in phase.get("course", {}).items()
    }
    tracks |= {
        variable: Track([_point(point, _time_of_day(point["at"])) for point in points], DAY_S, is_daily=True)
        for variable, points in phase.get("daily", {}).items()
    }
    return phase.get("name") or f"phase {number}", duration, tracks, phase.get("otherwise") == "release"


def _point(point: dict[str, Any], at: float) -> Point:
    return Point(at, float(point["value"]), Shape(point.get("to_next", "hold")))


def _time_of_day(text: str) -> float:
    """Seconds after midnight."""
    hours, minutes, seconds = (int(part or 0) for part in _TIME.fullmatch(text).groups())  # type: ignore[union-attr]
    return hours * 3600.0 + minutes * 60.0 + seconds


def _arrays_of(phase: dict[str, Any]) -> Iterator[Any]:
    return (points for kind in ("daily", "course") for _, points in _tracks(phase, kind))


def _check_phase(place: str, phase: dict[str, Any]) -> Iterator[Finding]:
    yield from _check_members(place, phase, _PHASE)
    yield from check_texts(place, phase, "name", "description")
    yield from check_unit(place, phase, UNITS)
    unit = unit_of(phase, UNITS) or "seconds"
    if phase.get("otherwise", "hold") not in OTHERWISE:
        words = f"expected one of {', '.join(OTHERWISE)}, got {shown(phase['otherwise'])}"
        yield error(f"{place}/otherwise", words)
    for name in ("duration", *(["cycle"] if "cycle" in phase else [])):
        yield from _check_length(f"{place}/{name}", name, phase.get(name), unit)
    yield from _check_cycle(f"{place}/cycle", phase)
    for kind in ("daily", "course"):
        if not isinstance(phase.get(kind, {}), dict):
            words = f"expected an object with an array for each variable, got {shown(phase[kind])}"
            yield error(f"{place}/{kind}", words)
    yield from _check_daily(f"{place}/daily", phase)
    yield from _check_course(f"{place}/course", phase, unit)
    yield from _check_both(place, phase)


def _check_length(place: str, name: str, length: Any, unit: str) -> Iterator[Finding]:
    yield from check_time(place, name, length, unit, UNITS[unit])
    if is_number(length) and 0 <= length * UNITS[unit] < SHORTEST_S:
        yield error(place, f"the {name} {shown(length)} is too short; a millisecond is the least")


def _check_cycle(place: str, phase: dict[str, Any]) -> Iterator[Finding]:
    cycle, duration = phase.get("cycle"), phase.get("duration")
    if is_number(cycle) and is_number(duration) and cycle > duration > 0:
        words = (
            f"the cycle {shown(cycle)} is longer than the duration, {shown(duration)}: it never comes again"
        )
        yield warning(place, words)


def _check_members(place: str, found: dict[str, Any], known: tuple[str, ...]) -> Iterator[Finding]:
    for name in found:
        if name not in known:
            yield error(under(place, name), f"{shown(name)} is not known here; known are {', '.join(known)}")


def _check_both(place: str, phase: dict[str, Any]) -> Iterator[Finding]:
    daily = dict(_tracks(phase, "daily"))
    for variable, _ in _tracks(phase, "course"):
        if variable in daily:
            yield error(under(f"{place}/course", variable), f"{variable} is in daily too; choose one of them")


def _check_daily(place: str, phase: dict[str, Any]) -> Iterator[Finding]:
    def check_at(where: str, at: Any) -> Iterator[Finding]:
        if not isinstance(at, str) or not _TIME.fullmatch(at):
            yield error(where, f'expected a time of day such as "06:30", got {shown(at)}')

    for variable, points in _tracks(phase, "daily"):
        where = under(place, variable)
        findings = list(_check_track(where, variable, points, check_at))
        yield from findings
        if not findings:
            yield from _check_order(where, [(_time_of_day(point["at"]), point) for point in points])


def _check_course(place: str, phase: dict[str, Any], unit: str) -> Iterator[Finding]:
    lengths = [each for each in (phase.get("duration"), phase.get("cycle")) if is_number(each)]
    end = min(lengths, default=math.inf)

    def check_at(where: str, at: Any) -> Iterator[Finding]:
        yield from check_time(where, "time", at, unit, UNITS[unit])
        if is_number(at) and at >= end > 0:
            yield error(where, f"{shown(at)} {unit} is not before the end, at {end:g}: it is never reached")

    for variable, points in _tracks(phase, "course"):
        where = under(place, variable)
        findings = list(_check_track(where, variable, points, check_at))
        yield from findings
        if not findings:
            times = [(float(point["at"]), point) for point in points]
            yield from _check_order(where, times)
            yield from _check_ends(where, times, is_repeated="cycle" in phase)


def _tracks(phase: dict[str, Any], kind: str) -> Iterator[tuple[str, Any]]:
    """The array of each variable."""
    tracks = phase.get(kind)
    return iter(tracks.items() if isinstance(tracks, dict) else ())


def _check_track(
    place: str, variable: str, points: Any, check_at: Callable[[str, Any], Iterator[Finding]]
) -> Iterator[Finding]:
    yield from check_variable(place, variable)
    if not isinstance(points, list) or not points:
        yield error(place, f"expected an array of one set point or more, got {shown(points)}")
        return
    for index, point in enumerate(points):
        where = f"{place}/{index}"
        if not isinstance(point, dict):
            yield error(where, f"expected an object with at and value, got {shown(point)}")
            continue
        yield from _check_members(where, point, _POINT)
        yield from check_at(f"{where}/at", point.get("at"))
        yield from check_value(f"{where}/value", variable, point.get("value"))
        shape = point.get("to_next", "hold")
        if not isinstance(shape, str) or shape not in list(Shape):
            yield error(f"{where}/to_next", f"expected one of {', '.join(Shape)}, got {shown(shape)}")


def _check_order(place: str, points: list[tuple[float, dict[str, Any]]]) -> Iterator[Finding]:
    for index, ((before, _), (after, _)) in enumerate(pairwise(points), start=1):
        if after < before:
            yield warning(f"{place}/{index}/at", "it comes after a later one; set points run by their time")
    seen: dict[float, int] = {}
    for index, (time, _) in enumerate(points):
        first = seen.setdefault(time, index)
        if first != index:
            yield error(f"{place}/{index}/at", f"set point {first} is at the same time")


def _check_ends(
    place: str, points: list[tuple[float, dict[str, Any]]], *, is_repeated: bool
) -> Iterator[Finding]:
    times = [time for time, _ in points]
    last = times.index(max(times))
    if not is_repeated and points[last][1].get("to_next", "hold") != "hold":
        yield warning(f"{place}/{last}/to_next", "there is no next set point, so this one holds")
    if min(times) > 0:
        words = f"a gap from 0 to {min(times):g}, in which the last value holds, if there is one"
        yield warning(place, words)


def _check_whole(phases: list[dict[str, Any]]) -> Iterator[Finding]:
    """What is to be said of phases that are sound one by one."""
    whole = sum(phase["duration"] * UNITS[phase["time_units"]] for phase in phases)
    yield from check_sum(whole)
    known: set[str] = set()
    for number, phase in enumerate(phases):
        named = phase.get("daily", {}).keys() | phase.get("course", {}).keys()
        if not named and not known:
            yield warning(f"/phases/{number}", "it has no set point, and none before it")
        known |= named
    if not known:
        yield error("/phases", "there is no set point, so there is nothing to run")

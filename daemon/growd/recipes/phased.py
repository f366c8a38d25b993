"""Format `phased`, growd's own: phases with set points by the time of day or by the time in the phase.

`daily` times are local times, on each day; the last of a day holds until the first of the next. `course`
times count from the beginning of the phase, and of each `cycle` if there is one. A variable that the phase
does not name keeps its last value, or is released with `otherwise: "release"`. docs/recipes.md has the rules.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes.findings import check_time, check_value, error, under, warning
from growd.recipes.grammar import TIME_OF_DAY, VALUE, Grammar, RecipeFormat, per_variable, seconds_of_day
from growd.recipes.phases import SHORTEST_S, UNITS, check_phases, check_points, name_of, phases, sound_phases
from growd.recipes.plan import DAY_S, Plan, Point, Shape, Track, in_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.recipes.findings import RecipeFinding

_TO_NEXT: Final[Grammar] = {
    "description": "The transition to the next set point: hold until then, ramp in a straight line, or sine, "
    "along half a cosine wave.",
    "enum": [str(shape) for shape in Shape],
    "default": "hold",
}
_OFFSET: Final[Grammar] = {
    "description": "In time_units, before the end of the phase and of the cycle.",
    "type": "number",
    "minimum": 0,
    "examples": [0.5],
}


def _points(at: Grammar, example: dict[str, Any]) -> Grammar:
    point = {
        "type": "object",
        "properties": {"at": at, "value": VALUE, "to_next": _TO_NEXT},
        "required": ["at", "value"],
        "additionalProperties": False,
        "examples": [example],
    }
    return {"title": "an array of one set point or more", "type": "array", "minItems": 1, "items": point}


_PHASE: Final[Grammar] = {
    "properties": {
        "name": name_of("germination"),
        "description": {"description": "For people.", "type": "string"},
        "duration": {
            "description": "How long the phase lasts, in time_units, at most ten years.",
            "type": "number",
            "exclusiveMinimum": 0,
            "examples": [14],
        },
        "time_units": {
            "description": "The unit of duration, cycle and the times in course. A day is 24 hours here.",
            "enum": list(UNITS),
        },
        "otherwise": {
            "description": "What happens to a variable that this phase does not name: it keeps its last "
            "value (hold), or its set point is released.",
            "enum": ["hold", "release"],
            "default": "hold",
        },
        "daily": per_variable(
            _points(TIME_OF_DAY, {"at": "06:30", "value": 8000}),
            description="Set points of each variable by the time of day, on every day of the phase. "
            "The last of a day holds until the first of the next.",
        ),
        "course": per_variable(
            _points(_OFFSET, {"at": 0, "value": 24, "to_next": "ramp"}),
            description="Set points of each variable by the time since the beginning of the phase or of the "
            "cycle. A variable of daily can't be here too.",
        ),
        "cycle": {
            "description": "The time, in time_units, after which course begins again. Without it, course "
            "runs once.",
            "type": "number",
            "exclusiveMinimum": 0,
            "examples": [1],
        },
    },
    "required": ["duration", "time_units"],
    "additionalProperties": False,
}
GRAMMAR: Final[Grammar] = {
    "description": "growd's own format: phases in sequence, each with set points by the time of day (daily) "
    "and by the time in the phase (course), and transitions between them. The recipe ends with its last "
    "phase. docs/recipes.md has the rules.",
    "type": "object",
    "properties": {"phases": phases(_PHASE)},
    "required": ["phases"],
    "examples": [
        {
            "_id": "two_weeks",
            "format": "phased",
            "phases": [
                {
                    "name": "early",
                    "duration": 14,
                    "time_units": "days",
                    "daily": {
                        "light_illuminance": [
                            {"at": "06:00", "value": 0, "to_next": "sine"},
                            {"at": "07:30", "value": 8000},
                            {"at": "22:00", "value": 0},
                        ]
                    },
                    "course": {
                        "air_temperature": [{"at": 0, "value": 24, "to_next": "ramp"}, {"at": 7, "value": 20}]
                    },
                }
            ],
        }
    ],
}


def _plan(recipe: dict[str, Any]) -> Plan:
    return in_sequence(_part(number, phase) for number, phase in enumerate(recipe["phases"], start=1))


def _set_points(recipe: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
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
        variable: Track(
            [_point(point, seconds_of_day(point["at"])) for point in points], DAY_S, is_daily=True
        )
        for variable, points in phase.get("daily", {}).items()
    }
    return phase.get("name") or f"phase {number}", duration, tracks, phase.get("otherwise") == "release"


def _point(point: dict[str, Any], at: float) -> Point:
    return Point(at, float(point["value"]), Shape(point.get("to_next", "hold")))


def _check(recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    found = list(sound_phases(recipe))
    tracks = [phase.get(kind, {}) for _, phase in found for kind in ("daily", "course")]
    yield from check_points(tracks)
    for place, phase in found:
        yield from _check_phase(place, phase)


def _check_phase(place: str, phase: dict[str, Any]) -> Iterator[RecipeFinding]:
    unit = phase.get("time_units", "seconds")
    duration, cycle = phase.get("duration"), phase.get("cycle")
    daily, course = _sound_points(phase, "daily"), _sound_points(phase, "course")
    yield from check_time(f"{place}/duration", "duration", duration, unit, UNITS[unit], least_s=SHORTEST_S)
    yield from check_time(f"{place}/cycle", "cycle", cycle, unit, UNITS[unit], least_s=SHORTEST_S)
    if cycle and duration and cycle > duration:
        words = f"the cycle {shown(cycle)} is longer than the duration, {shown(duration)}: it is not repeated"
        yield warning(f"{place}/cycle", words)
    for kind, tracks in (("daily", daily), ("course", course)):
        for variable, points in tracks.items():
            yield from _check_values(under(f"{place}/{kind}", variable), variable, points)
    for variable, points in daily.items():
        if _are_whole(points):
            times = [seconds_of_day(point["at"]) for point in points]
            yield from _check_order(under(f"{place}/daily", variable), times)
    for variable, points in course.items():
        where = under(f"{place}/course", variable)
        wrong = list(_check_times(where, points, unit, min(duration or math.inf, cycle or math.inf)))
        yield from wrong
        if not wrong and _are_whole(points):
            yield from _check_order(where, [point["at"] for point in points])
            yield from _check_ends(where, points, is_repeated="cycle" in phase)
    for variable in sorted(daily.keys() & course.keys()):
        yield error(under(f"{place}/course", variable), f"{variable} is in daily too; choose one of them")


def _sound_points(phase: dict[str, Any], kind: str) -> dict[str, list[dict[str, Any]]]:
    """The set points of each variable, of malformed ones the members that fit."""
    tracks = phase.get(kind, {})
    return {variable: [point or {} for point in points or ()] for variable, points in tracks.items()}


def _are_whole(points: list[dict[str, Any]]) -> bool:
    return bool(points) and all({"at", "value"} <= point.keys() for point in points)


def _check_values(place: str, variable: str, points: list[dict[str, Any]]) -> Iterator[RecipeFinding]:
    for index, point in enumerate(points):
        yield from check_value(f"{place}/{index}/value", variable, point.get("value"))


def _check_times(place: str, points: list[dict[str, Any]], unit: str, end: float) -> Iterator[RecipeFinding]:
    for index, point in enumerate(points):
        at = point.get("at")
        yield from check_time(f"{place}/{index}/at", "time", at, unit, UNITS[unit])
        if at is not None and at >= end:
            words = f"{shown(at)} {unit} is not before the end, at {end:g}, so it is never reached"
            yield error(f"{place}/{index}/at", words)


def _check_order(place: str, times: list[float]) -> Iterator[RecipeFinding]:
    for index, (before, after) in enumerate(pairwise(times), start=1):
        if after < before:
            yield warning(f"{place}/{index}/at", "it comes after a later one; set points run by their time")
    seen: dict[float, int] = {}
    for index, time in enumerate(times):
        first = seen.setdefault(float(time), index)
        if first != index:
            yield error(f"{place}/{index}/at", f"set point {first + 1} is at the same time")


def _check_ends(place: str, points: list[dict[str, Any]], *, is_repeated: bool) -> Iterator[RecipeFinding]:
    times = [point["at"] for point in points]
    last = times.index(max(times))
    if not is_repeated and points[last].get("to_next", "hold") != "hold":
        yield warning(f"{place}/{last}/to_next", "there is no next set point, so this one holds")
    if min(times) > 0:
        yield warning(
            place, f"a gap from 0 to {min(times):g}, in which the last value holds, if there is one"
        )


def _check_whole(recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    known: set[str] = set()
    for number, phase in enumerate(recipe["phases"]):
        named = phase.get("daily", {}).keys() | phase.get("course", {}).keys()
        if not named and not known:
            yield warning(f"/phases/{number}", "neither it nor a phase before it has a set point")
        known |= named
    if not known:
        yield error("/phases", "there is no set point, so there is nothing to run")
    lengths = (phase["duration"] * UNITS[phase["time_units"]] for phase in recipe["phases"])
    yield from check_phases(recipe["phases"], lengths)


FORMAT: Final = RecipeFormat("phased", GRAMMAR, _check, _check_whole, _plan, _set_points)

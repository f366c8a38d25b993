"""Format `flexformat`: phases, each a step that is repeated for a number of cycles.

A step is as long as its largest `end_time`. A gap, a time of the step at which a variable has no span,
releases its set point. A variable that a later phase does not name stays as the last phase left it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes import phases
from growd.recipes.doubts import LIGHT, check_openag_unit
from growd.recipes.findings import check_time, check_value, error, under, warning
from growd.recipes.grammar import VALUE, Grammar, RecipeFormat, per_variable
from growd.recipes.phases import SHORTEST_S, check_phases, check_points, name_of, sound_phases
from growd.recipes.plan import DAY_S, Plan, Point, Track, in_sequence
from growd.recipes.units import AS_IN_THE_SAMPLE, conversion, converted, names_of
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.recipes.findings import RecipeFinding

HOUR_S: Final = 3_600.0
TOLERANCE_H: Final = 1e-6  # the rounding of times in days

RELEASED: Final = "the set point is released"
UNITS: Final = phases.UNITS | {"milliseconds": 0.001, "ms": 0.001}

_SPAN: Final[Grammar] = {
    "description": "The variable has this value from start_time on, up to end_time. "
    "Both count from the beginning of the cycle.",
    "type": "object",
    "properties": {
        "start_time": {"type": "number", "minimum": 0},
        "end_time": {"description": "After start_time.", "type": "number", "exclusiveMinimum": 0},
        "value": VALUE,
    },
    "required": ["start_time", "end_time", "value"],
    "ascending": ["start_time", "end_time"],
    "examples": [{"start_time": 0, "end_time": 18, "value": 8000}],
}
_PHASE: Final[Grammar] = {
    "properties": {
        "name": name_of("early"),
        "cycles": {
            "description": "How often the step runs.",
            "type": "integer",
            "minimum": 1,
            "examples": [14],
        },
        "time_units": {"description": "The unit of start_time and end_time.", "enum": list(UNITS)},
        "variable_units": {
            "title": "an object with the unit of each variable",
            "description": "growd converts values in other units than its own, such as degF or uS/cm. "
            "A unit that it can't convert is an error.",
            "type": "object",
            "examples": [{"light_illuminance": "lux"}],
        },
        "step": per_variable(
            {"title": "an array of spans", "type": "array", "items": _SPAN},
            title="an object with an array of spans for one variable or more",
            description="The spans of each variable, without overlaps.",
            minProperties=1,
        ),
    },
    "required": ["cycles", "time_units", "step"],
}
GRAMMAR: Final[Grammar] = {
    "description": "Phases in sequence. Each is a step that is repeated for a number of cycles; a step is as "
    "long as its largest end_time. Where a variable of the step has no span, its set point is released. "
    "A variable that a later phase does not name keeps its state. The recipe ends with its last phase.",
    "type": "object",
    "properties": {"phases": phases.phases(_PHASE)},
    "required": ["phases"],
    "examples": [
        {
            "_id": "two_weeks",
            "format": "flexformat",
            "phases": [
                {
                    "name": "early",
                    "cycles": 14,
                    "time_units": "hours",
                    "variable_units": {"light_illuminance": "lux"},
                    "step": {
                        "light_illuminance": [
                            {"start_time": 0, "end_time": 18, "value": 8000},
                            {"start_time": 18, "end_time": 24, "value": 0},
                        ]
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
        for variable, spans in phase["step"].items():
            place = under(f"/phases/{number}/step", variable)
            for index, span in enumerate(spans):
                value = converted(variable, span["value"], phase.get("variable_units"))
                yield f"{place}/{index}", variable, float(value)


def _part(number: int, phase: dict[str, Any]) -> tuple[str, float, Mapping[str, Track], bool]:
    unit = UNITS[phase["time_units"]]
    step = _step_length(phase) * unit
    units = phase.get("variable_units")
    tracks = {
        variable: Track(list(_points(variable, spans, units, unit, step)), step)
        for variable, spans in phase["step"].items()
    }
    return phase.get("name") or f"phase {number}", phase["cycles"] * step, tracks, False


def _points(
    variable: str, spans: list[dict[str, Any]], units: Any, unit: float, step: float
) -> Iterator[Point]:
    """The set points of a step, in seconds: one for each span, and a release where a gap begins."""
    end = 0.0
    for span in sorted(spans, key=lambda each: float(each["start_time"])):
        start = span["start_time"] * unit
        if start > end:
            yield Point(end, None)
        yield Point(start, float(converted(variable, span["value"], units)))
        end = span["end_time"] * unit
    if end < step:
        yield Point(end, None)


def _step_length(phase: dict[str, Any]) -> float:
    """In the phase's unit."""
    return max((float(span["end_time"]) for spans in phase["step"].values() for span in spans), default=0.0)


def _check(recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    found = list(sound_phases(recipe))
    tracks = [phase.get("step", {}) for _, phase in found]
    yield from check_points(tracks)
    for place, phase in found:
        yield from _check_phase(place, phase)


def _check_phase(place: str, phase: dict[str, Any]) -> Iterator[RecipeFinding]:
    unit = phase.get("time_units", "seconds")
    units, step = phase.get("variable_units", {}), phase.get("step", {})
    yield from _check_variable_units(f"{place}/variable_units", units, step)
    for variable, spans in step.items():
        where = under(f"{place}/step", variable)
        if spans is None:
            continue
        if not spans:
            yield warning(where, f"there is no span; {RELEASED}")
        for index, span in enumerate(spans):
            if span is not None:
                yield from _check_span(f"{where}/{index}", variable, span, unit, units)
        if spans and all(span is not None and span.keys() >= set(_SPAN["required"]) for span in spans):
            yield from _check_order(where, spans)
        if variable not in units:
            yield from check_openag_unit(where, variable, "name the unit in variable_units")


def _check_variable_units(place: str, units: dict[str, Any], step: dict[str, Any]) -> Iterator[RecipeFinding]:
    """Check that growd can convert them; those of variables that the step does not name are not used."""
    for variable, unit in units.items():
        where = under(place, variable)
        if variable not in step or variable not in VARIABLES:
            continue
        if conversion(variable, unit) is None:
            known = ", ".join(names_of(variable))
            yield error(where, f"expected a unit of {variable}, one of {known}, got {shown(unit)}")
        elif (variable, unit) == AS_IN_THE_SAMPLE:
            own = VARIABLES[variable].unit
            yield warning(where, f"{variable} is read in {own}, as in openag_brain, not in {unit}")


def _check_span(
    place: str, variable: str, span: dict[str, Any], unit: str, units: dict[str, Any]
) -> Iterator[RecipeFinding]:
    for name in ("start_time", "end_time"):
        yield from check_time(f"{place}/{name}", name, span.get(name), unit, UNITS[unit])
    yield from check_value(f"{place}/value", variable, converted(variable, span.get("value"), units))


def _check_order(place: str, spans: list[dict[str, Any]]) -> Iterator[RecipeFinding]:
    """Overlapping spans are errors, for they are ambiguous; gaps and a wrong order are warnings."""
    for index, (before, after) in enumerate(pairwise(spans), start=1):
        if after["start_time"] < before["start_time"]:
            what = f"{shown(after['start_time'])} comes after {shown(before['start_time'])}"
            yield warning(f"{place}/{index}/start_time", f"the start_time {what}; spans run by start_time")
    ordered = sorted(enumerate(spans), key=lambda each: float(each[1]["start_time"]))
    latest, end = ordered[0][0], ordered[0][1]["end_time"]
    for index, span in ordered[1:]:
        start = span["start_time"]
        if start < end:
            words = f"it overlaps with span {latest}, which ends at {shown(end)}"
            yield error(f"{place}/{index}/start_time", words)
        elif start > end:
            words = f"a gap from {shown(end)} to {shown(start)}, in which {RELEASED}"
            yield warning(f"{place}/{index}/start_time", words)
        if span["end_time"] > end:
            latest, end = index, span["end_time"]


def _check_whole(recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    lengths = []
    known: set[str] = set()
    for number, phase in enumerate(recipe["phases"]):
        place = f"/phases/{number}/step"
        step, length = phase["step"], _step_length(phase)
        seconds = length * UNITS[phase["time_units"]]
        lengths.append(seconds * phase["cycles"])
        if seconds < SHORTEST_S:
            why = f"it is {length:g} {phase['time_units']} long" if length else "there is no span"
            yield error(place, f"{why}; the minimum for a step is a millisecond")
        if phase["cycles"] > 1:
            yield from _check_drift(place, seconds)
        yield from _check_ends(place, step, length)
        yield from _check_lit(place, step, length)
        for variable in sorted(known - step.keys()):
            yield warning(place, f"{variable} is not named; it stays as an earlier phase left it")
        known |= step.keys()
    yield from check_phases(recipe["phases"], lengths)


def _check_drift(place: str, seconds: float) -> Iterator[RecipeFinding]:
    """Check that a step of about a day is exactly as long, or else it moves through the day."""
    days = max(1, round(seconds / DAY_S))
    off = (seconds - days * DAY_S) / HOUR_S
    if seconds > DAY_S / 2 and abs(off) > TOLERANCE_H:
        words = f"the step is {seconds / HOUR_S:.4g} h long, not {days * 24:g}: it begins {abs(off):.3g} h"
        yield warning(place, f"{words} {'later' if off > 0 else 'earlier'} in the day with each cycle")


def _check_ends(place: str, step: dict[str, list[dict[str, Any]]], length: float) -> Iterator[RecipeFinding]:
    """Gaps at the beginning and at the end of a step."""
    for variable, spans in step.items():
        if not spans:
            continue
        first = min(float(span["start_time"]) for span in spans)
        last = max(float(span["end_time"]) for span in spans)
        if first > 0:
            yield warning(under(place, variable), f"a gap from 0 to {first:g}, in which {RELEASED}")
        if last < length:
            yield warning(under(place, variable), f"a gap from {last:g} to {length:g}, in which {RELEASED}")


def _check_lit(place: str, step: dict[str, list[dict[str, Any]]], length: float) -> Iterator[RecipeFinding]:
    """The hours of light a day, where they follow from gaps."""
    for variable in sorted(LIGHT & step.keys()):
        lengths = [(span["end_time"] - span["start_time"], span["value"]) for span in step[variable]]
        if lengths and sum(each for each, _ in lengths) < length:
            hours = 24 * sum(each for each, value in lengths if value > 0) / length
            yield warning(
                under(place, variable), f"{variable} is lit {hours:.3g} h a day: the light is off in the gaps"
            )


FORMAT: Final = RecipeFormat("flexformat", GRAMMAR, _check, _check_whole, _plan, _set_points)

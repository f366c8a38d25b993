"""Format `flexformat`: phases, each a step that is repeated for a number of cycles.

    {"format": "flexformat",
     "phases": [{"name": "early", "cycles": 14, "time_units": "hours", "variable_units": {...},
                 "step": {"<variable>": [{"start_time": 0, "end_time": 18, "value": 8000}, ...]}}]}

A step is as long as its largest `end_time`. A gap, a time of the step at which a variable has no span,
releases its set point. A variable that a later phase does not name stays as the last phase left it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes.doubts import LIGHT, check_openag_unit
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
from growd.recipes.plan import Plan, Point, Track, in_sequence
from growd.recipes.units import AS_IN_THE_SAMPLE, conversion, converted, names_of
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.recipes.findings import Finding

HOUR_S: Final = 3_600.0
TOLERANCE_H: Final = 1e-6  # the rounding of times in days

RELEASED: Final = "the set point is released"
UNITS: Final = {
    "days": DAY_S,
    "hours": 3_600.0,
    "minutes": 60.0,
    "seconds": 1.0,
    "milliseconds": 0.001,
    "ms": 0.001,
}


def plan(recipe: dict[str, Any]) -> Plan:
    """The phases one after the other, each for its cycles, and then the end."""
    return in_sequence(_part(number, phase) for number, phase in enumerate(recipe["phases"], start=1))


def check(recipe: dict[str, Any]) -> Iterator[Finding]:
    """All that is to be said of a recipe of this format."""
    return check_phases(recipe, _arrays_of, _check_phase, _check_whole)


def places(recipe: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The place of each set point, its variable and value."""
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


def _arrays_of(phase: dict[str, Any]) -> Iterator[Any]:
    step = phase.get("step")
    return iter(step.values() if isinstance(step, dict) else ())


def _check_phase(place: str, phase: dict[str, Any]) -> Iterator[Finding]:
    yield from check_texts(place, phase, "name")
    cycles = phase.get("cycles")
    if not is_number(cycles) or cycles < 1 or cycles != int(cycles):
        yield error(f"{place}/cycles", f"expected a whole number of cycles, 1 or more, got {shown(cycles)}")
    yield from check_unit(place, phase, UNITS)
    unit = unit_of(phase, UNITS) or "seconds"
    units = phase.get("variable_units", {})
    step = phase.get("step")
    yield from _check_variable_units(f"{place}/variable_units", units, step)
    if not isinstance(step, dict):
        yield error(f"{place}/step", f"expected an object with an array for each variable, got {shown(step)}")
        return
    for variable, spans in step.items():
        where = under(f"{place}/step", variable)
        yield from _check_spans(where, variable, spans, unit, units)
        if isinstance(units, dict) and variable not in units:
            yield from check_openag_unit(where, variable, "name the unit in variable_units")


def _check_variable_units(place: str, units: Any, step: Any) -> Iterator[Finding]:
    """Whether growd can convert them; units of variables that the step does not name are for people."""
    if not isinstance(units, dict):
        yield error(place, f"expected an object with the unit of each variable, got {shown(units)}")
        return
    for variable, unit in units.items():
        where = under(place, variable)
        if not isinstance(step, dict) or variable not in step:
            continue
        if variable in VARIABLES and conversion(variable, unit) is None:
            known = ", ".join(names_of(variable))
            yield error(where, f"expected a unit of {variable}, one of {known}, got {shown(unit)}")
        elif (variable, unit) == AS_IN_THE_SAMPLE:
            own = VARIABLES[variable].unit
            yield warning(where, f"{variable} is taken in {own}, as openag_brain took it, not in {unit}")


def _check_spans(place: str, variable: str, spans: Any, unit: str, units: Any) -> Iterator[Finding]:
    yield from check_variable(place, variable)
    if not isinstance(spans, list):
        yield error(place, f"expected an array of spans, got {shown(spans)}")
        return
    if not spans:
        yield warning(place, "there is no span; the set point is released")
    sound = True
    for index, span in enumerate(spans):
        for finding in _check_span(f"{place}/{index}", variable, span, unit, units):
            sound = False
            yield finding
    if sound and spans:
        yield from _check_order(place, spans)


def _check_span(place: str, variable: str, span: Any, unit: str, units: Any) -> Iterator[Finding]:
    if not isinstance(span, dict):
        yield error(place, f"expected an object with start_time, end_time and value, got {shown(span)}")
        return
    start, end = span.get("start_time"), span.get("end_time")
    yield from check_time(f"{place}/start_time", "start_time", start, unit, UNITS[unit])
    yield from check_time(f"{place}/end_time", "end_time", end, unit, UNITS[unit])
    if is_number(start) and is_number(end) and end <= start:
        yield error(f"{place}/end_time", f"the end_time {shown(end)} is not after start_time, {shown(start)}")
    yield from check_value(f"{place}/value", variable, converted(variable, span.get("value"), units))


def _check_order(place: str, spans: list[dict[str, Any]]) -> Iterator[Finding]:
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


def _check_whole(phases: list[dict[str, Any]]) -> Iterator[Finding]:
    """What is to be said of phases that are sound one by one."""
    whole = 0.0
    known: set[str] = set()
    for number, phase in enumerate(phases):
        step = _step_length(phase)
        if step * UNITS[phase["time_units"]] < SHORTEST_S:
            why = f"it is {step:g} {phase['time_units']} long" if step else "there is no span"
            words = f"{why}; a step is a millisecond long at least"
            yield error(f"/phases/{number}/step", words)
        whole += step * UNITS[phase["time_units"]] * phase["cycles"]
        if phase["cycles"] > 1:
            yield from _check_drift(f"/phases/{number}/step", step * UNITS[phase["time_units"]])
        yield from _check_ends(f"/phases/{number}/step", phase["step"], step)
        yield from _check_lit(f"/phases/{number}/step", phase["step"], step)
        yield from (
            warning(
                f"/phases/{number}/step", f"{variable} is not named; it stays as an earlier phase left it"
            )
            for variable in sorted(known - phase["step"].keys())
        )
        known |= phase["step"].keys()
    yield from check_sum(whole)


def _check_drift(place: str, seconds: float) -> Iterator[Finding]:
    """A step of about a day that is none: it wanders through the day."""
    days = max(1, round(seconds / DAY_S))
    off = (seconds - days * DAY_S) / HOUR_S
    if seconds > DAY_S / 2 and abs(off) > TOLERANCE_H:
        words = f"the step is {seconds / HOUR_S:.4g} h long, not {days * 24:g}: it begins {abs(off):.3g} h"
        yield warning(place, f"{words} {'later' if off > 0 else 'earlier'} in the day with each cycle")


def _check_ends(place: str, step: dict[str, list[dict[str, Any]]], length: float) -> Iterator[Finding]:
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


def _check_lit(place: str, step: dict[str, list[dict[str, Any]]], length: float) -> Iterator[Finding]:
    """The hours of light a day, where they follow from gaps."""
    for variable in sorted(LIGHT & step.keys()):
        lengths = [(span["end_time"] - span["start_time"], span["value"]) for span in step[variable]]
        if lengths and sum(each for each, _ in lengths) < length:
            hours = 24 * sum(each for each, value in lengths if value > 0) / length
            yield warning(
                under(place, variable), f"{variable} is lit {hours:.3g} h a day: the light is off in the gaps"
            )

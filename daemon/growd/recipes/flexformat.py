"""Format `flexformat`: phases, each a step that is repeated for a number of cycles.

    {"format": "flexformat",
     "phases": [{"name": "early", "cycles": 14, "time_units": "hours", "variable_units": {...},
                 "step": {"<variable>": [{"start_time": 0, "end_time": 18, "value": 8000}, ...]}}]}

A step is as long as its largest `end_time`. Where a variable has no span (a gap) it keeps its last value.
"""

from __future__ import annotations

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
from growd.recipes.plan import Plan, Point, Track, in_sequence
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.recipes.findings import Finding

UNITS: Final = {"days": DAY_S, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0, "milliseconds": 0.001}


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
                yield f"{place}/{index}", variable, float(span["value"])


def _part(number: int, phase: dict[str, Any]) -> tuple[str, float, Mapping[str, Track], bool]:
    unit = UNITS[phase["time_units"]]
    step = _step_length(phase) * unit
    tracks = {
        variable: Track([Point(span["start_time"] * unit, float(span["value"])) for span in spans], step)
        for variable, spans in phase["step"].items()
        if spans
    }
    return phase.get("name") or f"phase {number}", phase["cycles"] * step, tracks, False


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
    yield from _check_variable_units(f"{place}/variable_units", phase.get("variable_units", {}))
    step = phase.get("step")
    if not isinstance(step, dict):
        yield error(f"{place}/step", f"expected an object with an array for each variable, got {shown(step)}")
        return
    for variable, spans in step.items():
        yield from _check_spans(under(f"{place}/step", variable), variable, spans, unit)


def _check_variable_units(place: str, units: Any) -> Iterator[Finding]:
    """They are for people, but whoever thinks of degrees Fahrenheit should hear of it."""
    if not isinstance(units, dict):
        yield error(place, f"expected an object with the unit of each variable, got {shown(units)}")
        return
    for variable, unit in units.items():
        known = VARIABLES.get(variable)
        if known is not None and unit != known.unit:
            words = f"{variable} is taken in {known.unit}, whatever is written here: {shown(unit)}"
            yield warning(under(place, variable), words)


def _check_spans(place: str, variable: str, spans: Any, unit: str) -> Iterator[Finding]:
    yield from check_variable(place, variable)
    if not isinstance(spans, list):
        yield error(place, f"expected an array of spans, got {shown(spans)}")
        return
    if not spans:
        yield warning(place, "there is no span; the variable keeps its last value")
    sound = True
    for index, span in enumerate(spans):
        for finding in _check_span(f"{place}/{index}", variable, span, unit):
            sound = False
            yield finding
    if sound and spans:
        yield from _check_order(place, spans)


def _check_span(place: str, variable: str, span: Any, unit: str) -> Iterator[Finding]:
    if not isinstance(span, dict):
        yield error(place, f"expected an object with start_time, end_time and value, got {shown(span)}")
        return
    start, end = span.get("start_time"), span.get("end_time")
    yield from check_time(f"{place}/start_time", "start_time", start, unit, UNITS[unit])
    yield from check_time(f"{place}/end_time", "end_time", end, unit, UNITS[unit])
    if is_number(start) and is_number(end) and end <= start:
        yield error(f"{place}/end_time", f"the end_time {shown(end)} is not after start_time, {shown(start)}")
    yield from check_value(f"{place}/value", variable, span.get("value"))


def _check_order(place: str, spans: list[dict[str, Any]]) -> Iterator[Finding]:
    """Overlaps are errors, for nobody can say which value was meant; gaps and a wrong order are not."""
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
            words = f"a gap from {shown(end)} to {shown(start)}, in which the last value holds"
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
        yield from _check_ends(f"/phases/{number}/step", phase["step"], step, known)
        known |= phase["step"].keys()
    yield from check_sum(whole)


def _check_ends(
    place: str, step: dict[str, list[dict[str, Any]]], length: float, known: set[str]
) -> Iterator[Finding]:
    """Gaps at the beginning and at the end of a step."""
    for variable, spans in step.items():
        if not spans:
            continue
        first = min(float(span["start_time"]) for span in spans)
        last = max(float(span["end_time"]) for span in spans)
        if first > 0:
            held = "the last value holds" if variable in known else "it has no value the first time"
            yield warning(under(place, variable), f"a gap from 0 to {first:g}, in which {held}")
        if last < length:
            yield warning(
                under(place, variable), f"a gap from {last:g} to {length:g}, in which the last value holds"
            )
    yield from (
        warning(place, f"{variable} is not named; it keeps the last value of an earlier phase")
        for variable in sorted(known - step.keys())
    )

"""The format `flexformat`: what is said of a recipe, and its plan against one unrolled span by span."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.findings import Severity, errors
from growd.recipes.interpreter import check, interpret
from support.recipe_strategies import FLEXFORMAT, findings

SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1, "milliseconds": Fraction(1, 1000)}
LIGHT = "light_illuminance"
AIR = "air_temperature"


def flexformat(*phases):
    return {"_id": "r", "format": "flexformat", "phases": list(phases)}


def phase(cycles=1, time_units="hours", **step):
    spans = {
        variable: [{"start_time": s, "end_time": e, "value": v} for s, e, v in spans]
        for variable, spans in step.items()
    }
    return {"name": "p", "cycles": cycles, "time_units": time_units, "step": spans}


DAY = phase(2, **{LIGHT: [(0, 18, 8000), (18, 24, 0)]})


def unrolled(recipe):
    """Every span of every cycle of every phase as (begin in s, variable, value), and the end."""
    begin = Fraction(0)
    spans = []
    for each in recipe["phases"]:
        unit = SECONDS[each["time_units"]]
        ends = [span["end_time"] for track in each["step"].values() for span in track]
        for _ in range(int(each["cycles"])):
            for variable, track in each["step"].items():
                starts = [begin + Fraction(span["start_time"]) * unit for span in track]
                spans += [(start, variable, span["value"]) for start, span in zip(starts, track, strict=True)]
            begin += Fraction(max(ends)) * unit
    return sorted(spans, key=lambda span: span[0]), begin


def slow_and_obvious(recipe, elapsed):
    """A variable has the value of the last of its spans to begin; a gap, a phase without it, the end hold."""
    spans, _ = unrolled(recipe)
    return {variable: value for begin, variable, value in spans if begin <= elapsed}


# --- What is said of it


def test_a_sound_recipe_has_no_findings():
    units = {"variable_units": {LIGHT: "lux", "something": "of their own"}}
    assert check(flexformat(DAY | units, phase(3, "days", **{LIGHT: [(0, 1, 5)]}))) == []


SPAN = {"start_time": 0, "end_time": 24, "value": 20}


@pytest.mark.parametrize(
    ("change", "place", "sentence"),
    [
        ({"cycles": 0}, "/cycles", "whole number of cycles, 1 or more, got 0"),
        ({"cycles": 1.5}, "/cycles", "got 1.5"),
        ({"cycles": True}, "/cycles", "got true"),
        ({"cycles": None}, "/cycles", "got null"),
        ({"time_units": "weeks"}, "/time_units", "expected one of days, hours, minutes, seconds, millisec"),
        ({"time_units": ["hours"]}, "/time_units", "an array of 1 element"),
        ({"name": 5}, "/name", "expected a text, got 5"),
        ({"variable_units": []}, "/variable_units", "expected an object"),
        ({"step": []}, "/step", "expected an object with an array for each variable"),
        ({"step": {}}, "/step", "there is no span; a step is"),
        ({"step": {AIR: {}}}, f"/step/{AIR}", "expected an array of spans, got an object"),
        ({"step": {"air/temp": []}}, "/step/air~1temp", 'no variable "air/temp"'),
        ({"step": {AIR: [5]}}, f"/step/{AIR}/0", "expected an object with start_time, end_time and value"),
        ({"step": {AIR: [SPAN | {"start_time": -1}]}}, f"/step/{AIR}/0/start_time", "-1 is negative"),
        (
            {"step": {AIR: [SPAN | {"start_time": "0"}]}},
            f"/step/{AIR}/0/start_time",
            "finite number of hours",
        ),
        ({"step": {AIR: [SPAN | {"end_time": 0}]}}, f"/step/{AIR}/0/end_time", "is not after start_time, 0"),
        ({"step": {AIR: [SPAN | {"end_time": 1e9}]}}, f"/step/{AIR}/0/end_time", "more than ten years"),
        ({"step": {AIR: [SPAN | {"value": 86}]}}, f"/step/{AIR}/0/value", "from -40 to 85 degC, got 86"),
        ({"step": {AIR: [{"start_time": 0, "end_time": 1}]}}, f"/step/{AIR}/0/value", "got null"),
        ({"step": {AIR: [SPAN | {"end_time": 1e-9}]}}, "/step", "it is 1e-09 hours long; a step is"),
    ],
)
def test_an_error_names_its_place(change, place, sentence):
    (finding,) = errors(check(flexformat(DAY, DAY | change)))
    assert (finding.severity, finding.pointer) == (Severity.ERROR, f"/phases/1{place}")
    assert sentence in finding.sentence


@pytest.mark.parametrize(
    ("phases", "pointer", "sentence"),
    [
        (None, "/phases", "expected an array of phases, got null"),
        ([], "/phases", "there is no phase"),
        ([DAY, 7], "/phases/1", "expected a phase as an object, got 7"),
        ([DAY | {"cycles": 4_000}], "/phases", "together they last 4000 days, which is more than ten years"),
    ],
)
def test_an_error_of_the_phases_names_their_place(phases, pointer, sentence):
    (finding,) = check({"format": "flexformat", "phases": phases})
    assert (finding.severity, finding.pointer) == (Severity.ERROR, pointer)
    assert sentence in finding.sentence


def test_all_findings_come_at_once():
    wrong = phase(0, "weeks", **{"no": [(0, 1, 1)], AIR: [(-1, 2, 90), (2, 2, 20)]})
    assert findings(flexformat(wrong, 5)) == [
        ("error", "/phases/0/cycles"),
        ("error", "/phases/0/time_units"),
        ("error", "/phases/0/step/no"),
        ("error", f"/phases/0/step/{AIR}/0/start_time"),
        ("error", f"/phases/0/step/{AIR}/0/value"),
        ("error", f"/phases/0/step/{AIR}/1/end_time"),
        ("error", "/phases/1"),
    ]


def test_spans_that_overlap_are_errors_each_with_the_one_it_overlaps():
    recipe = flexformat(phase(**{AIR: [(0, 10, 20), (12, 13, 20), (1, 2, 21), (3, 4, 22)]}))
    overlaps = [finding for finding in check(recipe) if finding.severity is Severity.ERROR]
    assert [finding.pointer[-13:] for finding in overlaps] == ["/2/start_time", "/3/start_time"]
    assert {finding.sentence for finding in overlaps} == {"it overlaps with span 0, which ends at 10"}


def test_gaps_an_order_and_units_of_their_own_are_warned_of():
    recipe = flexformat(phase(**{AIR: [(20, 22, 21), (2, 18, 20)], LIGHT: [(0, 24, 0)]}))
    assert findings(recipe | {"phases": [recipe["phases"][0] | {"variable_units": {AIR: "degF"}}]}) == [
        ("warning", f"/phases/0/variable_units/{AIR}"),
        ("warning", f"/phases/0/step/{AIR}/1/start_time"),
        ("warning", f"/phases/0/step/{AIR}/0/start_time"),
        ("warning", f"/phases/0/step/{AIR}"),
        ("warning", f"/phases/0/step/{AIR}"),
    ]


def test_a_variable_that_a_later_phase_does_not_name_and_one_without_spans_are_warned_of():
    assert findings(flexformat(DAY, phase(**{AIR: [(0, 1, 20)]}))) == [("warning", "/phases/1/step")]
    assert findings(flexformat(phase(**{AIR: [(0, 1, 20)], LIGHT: []}))) == [
        ("warning", f"/phases/0/step/{LIGHT}")
    ]


# --- Its plan


@given(FLEXFORMAT, st.data())
def test_set_points_are_those_of_the_recipe_unrolled(recipe, data):
    plan, _ = interpret(recipe)
    spans, end = unrolled(recipe)
    edges = [float(begin) for begin, _, _ in spans]
    elapsed = data.draw(
        st.one_of(
            st.sampled_from(edges),
            st.floats(0, float(end) * 1.1),
            st.sampled_from([float(end), float(end) + 1, 10 * float(end), -1.0]),
        )
    )
    assert plan.duration == end
    assert plan.set_points(elapsed) == slow_and_obvious(recipe, elapsed)


@given(FLEXFORMAT.map(lambda recipe: recipe["phases"]), st.floats(0.1, 3), st.floats(0, 1.2))
def test_times_that_no_float_can_hold_exactly_make_no_difference_but_at_their_very_edge(phases, odd, part):
    for each in phases:
        for spans in each["step"].values():
            for span in spans:
                span |= {"start_time": span["start_time"] * odd, "end_time": span["end_time"] * odd}
    recipe = flexformat(*phases)
    plan, _ = interpret(recipe)
    spans, end = unrolled(recipe)
    elapsed = part * plan.duration
    assert plan.duration == pytest.approx(float(end), rel=1e-12)
    if all(abs(begin - elapsed) > 1e-6 * end for begin, _, _ in spans):
        assert plan.set_points(elapsed) == slow_and_obvious(recipe, elapsed)
    assert plan.set_points(plan.duration) == slow_and_obvious(recipe, end)


@given(FLEXFORMAT, st.floats(0, 5))
def test_after_the_end_it_stays_as_it_was_at_the_end_and_never_begins_anew(recipe, more):
    plan, _ = interpret(recipe)
    at_end = plan.set_points(plan.duration)
    assert plan.set_points(plan.duration * (1 + more)) == at_end
    assert plan.phase_at(plan.duration * (1 + more)) == len(recipe["phases"]) - 1


def test_a_gap_holds_the_last_value_also_from_one_cycle_to_the_next():
    plan, _ = interpret(flexformat(phase(2, **{AIR: [(2, 4, 20), (6, 8, 22)], LIGHT: [(0, 10, 0)]})))
    assert [plan.set_points(hour * 3600).get(AIR) for hour in (0, 2, 5, 7, 9, 11, 12, 19, 20, 99)] == [
        *(None, 20, 20, 22, 22),
        *(22, 20, 22, 22, 22),
    ]


def test_milliseconds_are_milliseconds():
    plan, _ = interpret(flexformat(phase(3, "milliseconds", **{AIR: [(0, 500, 20), (500, 1000, 21)]})))
    assert plan.duration == 3.0
    assert [plan.set_points(at)[AIR] for at in (0.0, 0.499, 0.5, 1.25, 2.75, 3.0)] == [20, 20, 21, 20, 21, 21]

"""The format `flexformat`: findings, and the plan compared with an unrolled recipe."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.findings import Severity, errors
from growd.recipes.interpreter import check, interpret
from support.recipe_strategies import FLEXFORMAT, findings

SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
LIGHT = "light_illuminance"
AIR = "air_temperature"


def flexformat(*phases):
    return {"_id": "r", "format": "flexformat", "phases": list(phases)}


def phase(cycles=1, time_units="hours", name="p", **step):
    spans = {
        variable: [{"start_time": s, "end_time": e, "value": v} for s, e, v in spans]
        for variable, spans in step.items()
    }
    return {"name": name, "cycles": cycles, "time_units": time_units, "step": spans}


DAY = phase(2, **{LIGHT: [(0, 18, 8000), (18, 24, 0)]})


def unrolled(recipe):
    """The begin and end of each span in each cycle, in s, and the end of the recipe."""
    begin = Fraction(0)
    edges = []
    for each in recipe["phases"]:
        unit = SECONDS[each["time_units"]]
        spans = [span for track in each["step"].values() for span in track]
        for _ in range(int(each["cycles"])):
            for name in ("start_time", "end_time"):
                edges += [float(begin + Fraction(span[name]) * unit) for span in spans]
            begin += Fraction(max(span["end_time"] for span in spans)) * unit
    return edges, begin


def slow_and_obvious(recipe, elapsed):
    """A variable has the value of its span at that time, none in a gap of its step.

    In a phase without it, and after the end, it is as at the end of the last phase that has it.
    """
    found = {}
    begin = Fraction(0)
    for each in recipe["phases"]:
        unit = SECONDS[each["time_units"]]
        step = max(Fraction(span["end_time"]) for track in each["step"].values() for span in track) * unit
        end = begin + step * int(each["cycles"])
        if elapsed >= begin:
            is_over = elapsed >= end
            gone = step if is_over else (Fraction(elapsed) - begin) % step
            for variable, track in each["step"].items():
                found.pop(variable, None)
                for span in track:
                    start, stop = Fraction(span["start_time"]) * unit, Fraction(span["end_time"]) * unit
                    if start <= gone < stop or (is_over and gone == stop):
                        found[variable] = span["value"]
        begin = end
    return found


# --- Findings


def test_a_valid_recipe_has_no_findings():
    units = {"variable_units": {LIGHT: "lux", "something": "of their own", AIR: "not set here"}}
    assert (
        check(flexformat(DAY | units, phase(3, "days", "q", **{AIR: [(0, 1, 5)], LIGHT: [(0, 1, 0)]}))) == []
    )


SPAN = {"start_time": 0, "end_time": 24, "value": 20}


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"variable_units": {AIR: "degR"}, "step": {AIR: [SPAN]}}, f"/variable_units/{AIR}", "degF, F, fahr"),
        ({"variable_units": {LIGHT: None}}, f"/variable_units/{LIGHT}", "got null"),
        ({"variable_units": {LIGHT: "percent"}}, f"/variable_units/{LIGHT}", "one of lux, lx, klux, got"),
        ({"variable_units": {"no": "lux"}, "step": {"no": [SPAN]}}, "/step/no", 'no variable "no"'),
        ({"step": {"air/temp": []}}, "/step/air~1temp", 'no variable "air/temp"'),
        ({"step": {AIR: [SPAN | {"start_time": 25}]}}, f"/step/{AIR}/0/end_time", "above start_time, 25"),
        ({"step": {AIR: [SPAN | {"end_time": 1e9}]}}, f"/step/{AIR}/0/end_time", "more than ten years"),
        ({"step": {AIR: [SPAN | {"end_time": 1e-9}]}}, "/step", "it is 1e-09 hours long; the minimum"),
        ({"step": {AIR: [SPAN | {"value": 86}]}}, f"/step/{AIR}/0/value", "from -40 to 85 degC, not 86"),
    ],
)
def test_an_error_names_its_place(change, place, words):
    (finding,) = errors(check(flexformat(DAY, DAY | change)))
    assert finding.pointer == f"/phases/1{place}"
    assert words in finding.sentence


def test_phases_that_are_too_long_together_are_an_error():
    (finding,) = check(flexformat(DAY | {"cycles": 4_000}))
    assert (finding.severity, finding.pointer) == (Severity.ERROR, "/phases")
    assert "together they last 4000 days, which is more than ten years" in finding.sentence


def test_all_findings_come_at_once():
    wrong = phase(0, "weeks", **{"no": [(0, 1, 1)], AIR: [(-1, 2, 90), (2, 2, 20)]})
    assert findings(flexformat(wrong, 5)) == [
        ("error", "/phases/0/cycles"),
        ("error", f"/phases/0/step/{AIR}/0/start_time"),
        ("error", f"/phases/0/step/{AIR}/0/value"),
        ("error", f"/phases/0/step/{AIR}/1/end_time"),
        ("error", "/phases/0/step/no"),
        ("error", "/phases/0/time_units"),
        ("error", "/phases/1"),
    ]


def test_overlapping_spans_are_errors():
    recipe = flexformat(phase(**{AIR: [(0, 10, 20), (12, 13, 20), (1, 2, 21), (3, 4, 22)]}))
    overlaps = [finding for finding in check(recipe) if finding.severity is Severity.ERROR]
    assert [finding.pointer[-13:] for finding in overlaps] == ["/2/start_time", "/3/start_time"]
    assert {finding.sentence for finding in overlaps} == {"it overlaps with span 0, which ends at 10"}


def test_gaps_and_a_wrong_order_get_warnings():
    recipe = flexformat(phase(**{AIR: [(20, 22, 21), (2, 18, 20)], LIGHT: [(0, 24, 0)]}))
    assert findings(recipe) == [
        ("warning", f"/phases/0/step/{AIR}/1/start_time"),
        ("warning", f"/phases/0/step/{AIR}/0/start_time"),
        ("warning", f"/phases/0/step/{AIR}"),
        ("warning", f"/phases/0/step/{AIR}"),
    ]


def test_unnamed_variables_and_missing_spans_get_warnings():
    assert findings(flexformat(DAY, phase(name="q", **{AIR: [(0, 1, 20)]}))) == [
        ("warning", "/phases/1/step")
    ]
    assert findings(flexformat(phase(**{AIR: [(0, 1, 20)], LIGHT: []}))) == [
        ("warning", f"/phases/0/step/{LIGHT}")
    ]


# --- The plan


@given(FLEXFORMAT, st.data())
def test_set_points_agree_with_the_unrolled_recipe(recipe, data):
    plan, _ = interpret(recipe)
    edges, end = unrolled(recipe)
    elapsed = data.draw(
        st.one_of(
            st.sampled_from(edges),
            st.floats(0, float(end) * 1.1),
            st.sampled_from([float(end), float(end) + 1, 10 * float(end), -1.0]),
        )
    )
    assert plan.duration == end
    assert plan.phase_at(2 * plan.duration) == len(recipe["phases"]) - 1
    assert plan.set_points(elapsed) == slow_and_obvious(recipe, elapsed)


@given(FLEXFORMAT.map(lambda recipe: recipe["phases"]), st.floats(0.1, 3), st.floats(0, 1.2))
def test_rounding_of_times_matters_only_at_edges(phases, odd, part):
    for each in phases:
        for spans in each["step"].values():
            for span in spans:
                span |= {"start_time": span["start_time"] * odd, "end_time": span["end_time"] * odd}
    recipe = flexformat(*phases)
    plan, _ = interpret(recipe)
    edges, end = unrolled(recipe)
    elapsed = part * plan.duration
    assert plan.duration == pytest.approx(float(end), rel=1e-12)
    if all(abs(edge - elapsed) > 1e-6 * end for edge in edges):
        assert plan.set_points(elapsed) == slow_and_obvious(recipe, elapsed)
    assert plan.set_points(plan.duration) == slow_and_obvious(recipe, end)


def test_a_gap_of_light_gets_a_warning_with_the_hours_per_day():
    recipe = flexformat(phase(20, **{LIGHT: [(6, 18, 8000)], AIR: [(0, 24, 20)]}))
    *_, lit = [finding.sentence for finding in check(recipe)]
    assert lit == "light_illuminance is lit 12 h a day: the light is off in the gaps"
    plan, _ = interpret(recipe)
    assert sum(LIGHT in plan.set_points(hour * 3600.0) for hour in range(20 * 24)) == 240


@pytest.mark.parametrize("unit", ["milliseconds", "ms"])
def test_times_in_milliseconds(unit):
    plan, _ = interpret(flexformat(phase(3, unit, **{AIR: [(0, 500, 20), (500, 1000, 21)]})))
    assert plan.duration == 3.0
    assert [plan.set_points(at)[AIR] for at in (0.0, 0.499, 0.5, 1.25, 2.75, 3.0)] == [20, 20, 21, 20, 21, 21]

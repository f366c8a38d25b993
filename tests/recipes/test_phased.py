"""The format `phased`: findings, and the plan compared with a reference implementation."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.findings import Severity
from growd.recipes.interpreter import check, interpret
from support.recipe_strategies import PHASED, findings

SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
DAY_S = 86_400
LIGHT = "light_illuminance"
AIR = "air_temperature"
COURSE = {"course": {AIR: [{"at": 0, "value": 20}]}}


def phased(*phases):
    return {"_id": "r", "format": "phased", "phases": list(phases)}


def phase(duration=2, time_units="days", **members):
    return {"duration": duration, "time_units": time_units, **members}


def points(*points):
    names = ("at", "value", "to_next")
    return [dict(zip(names, point, strict=False)) for point in points]


GOOD = phase(
    name="early",
    description="until it sprouts",
    otherwise="hold",
    daily={LIGHT: points(("06:00", 0, "sine"), ("07:30", 8000), ("22:00:00", 0))},
    course={AIR: points((0, 24, "ramp"), (1, 20))},
)

# --- The reference implementation


def between(shape, first, second, part):
    if shape == "ramp":
        return first + (second - first) * part
    if shape == "sine":
        return first + (second - first) * math.sin(math.pi * part / 2) ** 2
    return first


def of_course(each, track, since):
    """List all points of all cycles, and interpolate."""
    unit = SECONDS[each["time_units"]]
    duration, cycle = each["duration"] * unit, each.get("cycle", each["duration"]) * unit
    written, begin = [], Fraction(0)
    while begin < duration:
        for point in sorted(track, key=lambda point: point["at"]):
            shape = point.get("to_next", "hold")
            written.append((begin + Fraction(point["at"]) * unit, point["value"], shape))
        begin += Fraction(cycle)
    return among(written, since)


def of_day(track, time_of_day):
    """List the points of yesterday, today and tomorrow, and interpolate."""
    written = []
    for day in (-1, 0, 1):
        for point in sorted(track, key=lambda point: point["at"]):
            at = day * DAY_S + int(point["at"][:2]) * 3600 + int(point["at"][3:5]) * 60
            written.append((at, point["value"], point.get("to_next", "hold")))
    return among(written, time_of_day)


def among(written, time):
    past = [number for number, (at, _, _) in enumerate(written) if at <= time]
    if not past:
        return None
    at, value, shape = written[past[-1]]
    if past[-1] + 1 == len(written):
        return value
    next_at, next_value, _ = written[past[-1] + 1]
    return between(shape, value, next_value, float((Fraction(time) - at) / (next_at - at)))


def slow_and_obvious(recipe, elapsed, local):
    """Follow the phases from the first on; `local` is the time of day."""
    held, begin = {}, 0
    if elapsed < 0:
        return {}
    for number, each in enumerate(recipe["phases"]):
        end = begin + each["duration"] * SECONDS[each["time_units"]]
        is_last = number == len(recipe["phases"]) - 1
        at = min(end, elapsed)
        left = dict(held) if each.get("otherwise", "hold") == "hold" else {}
        for kind in ("daily", "course"):
            for variable, track in each[kind].items():
                value = of_day(track, local(at)) if kind == "daily" else of_course(each, track, at - begin)
                value = held.get(variable) if value is None else value
                left |= {} if value is None else {variable: value}
        held, begin = left, end
        if elapsed < end or is_last:
            return held
    raise AssertionError


def test_the_reference_implementation():
    recipe = phased(GOOD | {"otherwise": "release"}, phase(daily={}, course={}))
    assert slow_and_obvious(recipe, 43_200, lambda _: 22_500) == {
        LIGHT: pytest.approx(535.9, abs=0.1),
        AIR: 22,
    }
    assert slow_and_obvious(recipe, 2.5 * 86_400, lambda _: 0.0) == {LIGHT: 0, AIR: 20}


# --- Findings


def test_a_valid_recipe_has_no_findings():
    assert check(phased(GOOD, phase(1.5, "hours"), phase(10, "minutes", cycle=5, **COURSE))) == []


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"duration": 1e-9}, "/duration", "the minimum is a millisecond"),
        ({"duration": 4000}, "/duration", "more than ten years"),
        ({"time_units": "hour"}, "/time_units", "did you mean hours?"),
        ({"otherwize": "hold"}, "/otherwize", "did you mean otherwise?"),
        ({"daily": {AIR: points(("06:00", 1))}}, f"/course/{AIR}", "is in daily too"),
        ({"daily": {"no": points(("06:00", 1))}}, "/daily/no", 'no variable "no"'),
        ({"daily": {LIGHT: points(("06:00\n", 1))}}, f"/daily/{LIGHT}/0/at", "time of day"),
        ({"daily": {LIGHT: points(("٠٦:00", 1))}}, f"/daily/{LIGHT}/0/at", "time of day"),
        ({"daily": {LIGHT: points(("06:00", -1))}}, f"/daily/{LIGHT}/0/value", "from 0 to 200000 lux"),
        ({"daily": {LIGHT: points(("06:00", "x"))}}, f"/daily/{LIGHT}/0/value", "takes 0 to 200000 lux"),
        ({"daily": {LIGHT: points(("06:00", 1, "rmp"))}}, f"/daily/{LIGHT}/0/to_next", "did you mean ramp?"),
        ({"daily": {LIGHT: points(("06:00", 1), ("06:00:00", 2))}}, f"/daily/{LIGHT}/1/at", "same time"),
        ({"course": {AIR: [{"value": 1}]}}, f"/course/{AIR}/0/at", "it is missing"),
        ({"course": {AIR: points((2, 20))}}, f"/course/{AIR}/0/at", "2 days is not before the end, at 2"),
        ({"cycle": 1, "course": {AIR: points((0, 1), (1, 2))}}, f"/course/{AIR}/1/at", "end, at 1"),
        ({"course": {AIR: points((0, 1), (0, 2))}}, f"/course/{AIR}/1/at", "set point 1 is at the same"),
    ],
)
def test_an_error_names_its_place(change, place, words):
    (finding,) = check(phased(GOOD, phase(**COURSE) | change))
    assert (finding.severity, finding.pointer) == (Severity.ERROR, f"/phases/1{place}")
    assert words in finding.sentence


def test_phases_that_are_too_long_together_are_an_error():
    (finding,) = check(phased(*[GOOD | {"duration": 2000}] * 2))
    assert (finding.severity, finding.pointer) == (Severity.ERROR, "/phases")
    assert "together they last 4000 days" in finding.sentence


def test_all_findings_come_at_once():
    wrong = phase(
        0, "weeks", otherwise=1, daily={"no": points(("x", 1, "y"))}, course={AIR: points((-1, 99))}
    )
    assert findings(phased(wrong, 5)) == [
        ("error", f"/phases/0/course/{AIR}/0/at"),
        ("error", f"/phases/0/course/{AIR}/0/value"),
        ("error", "/phases/0/daily/no"),
        ("error", "/phases/0/daily/no/0/at"),
        ("error", "/phases/0/daily/no/0/to_next"),
        ("error", "/phases/0/duration"),
        ("error", "/phases/0/otherwise"),
        ("error", "/phases/0/time_units"),
        ("error", "/phases/1"),
    ]


@pytest.mark.parametrize(
    ("change", "place", "sentence"),
    [
        ({"course": {AIR: points((1, 20), (0, 21))}}, f"/course/{AIR}/1/at", "run by their time"),
        ({"daily": {LIGHT: points(("07:00", 0), ("06:00", 2_000))}}, f"/daily/{LIGHT}/1/at", "run by"),
        ({"course": {AIR: points((0, 20, "ramp"))}}, f"/course/{AIR}/0/to_next", "no next set point"),
        ({"course": {AIR: points((1, 20))}}, f"/course/{AIR}", "a gap from 0 to 1, in which the last value"),
        ({"cycle": 3}, "/cycle", "3 is longer than the duration, 2"),
    ],
)
def test_odd_set_points_get_warnings(change, place, sentence):
    (finding,) = check(phased(phase(**COURSE) | change))
    assert (finding.severity, finding.pointer) == (Severity.WARNING, f"/phases/0{place}")
    assert sentence in finding.sentence


def test_phases_before_the_first_set_point_get_warnings():
    assert findings(phased(phase(), GOOD, phase())) == [("warning", "/phases/0")]
    assert findings(phased(phase())) == [("error", "/phases"), ("warning", "/phases/0")]


# --- The plan


@given(PHASED, st.integers(0, DAY_S - 1), st.data())
def test_set_points_agree_with_the_reference(recipe, midnight, data):
    """Also with a clock change of an hour."""
    plan, _ = interpret(recipe)
    end = plan.duration
    shift, changed = data.draw(st.sampled_from([-3600, 0, 3600])), data.draw(st.floats(0, end))
    elapsed = data.draw(
        st.one_of(
            st.integers(0, int(end)).map(float),
            st.integers(0, 16).map(lambda number: number * end / 16),
            st.floats(0, end),
            st.sampled_from([phase.begin for phase in plan.phases]),
            st.sampled_from([end, end + 1, 3 * end, -1.0]),
        )
    )

    def local(at):
        return (midnight + at + (shift if at >= changed else 0)) % DAY_S

    found = plan.set_points(elapsed, local(elapsed), local)
    expected = slow_and_obvious(recipe, elapsed, local)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_rounding_adds_no_cycle():
    """Three times 0.15 is a little less than 0.45."""
    cycle = points((0, 10), (0.1, 20, "ramp"))
    plan, _ = interpret(phased(phase(0.45, "seconds", cycle=0.15, course={AIR: cycle})))
    assert plan.set_points(0.14)[AIR] == pytest.approx(12)
    assert plan.set_points(0.44)[AIR] == 20

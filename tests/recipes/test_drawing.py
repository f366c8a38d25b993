"""The drawn plan, compared with the plan that runs."""

import json
from bisect import bisect_right
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.changes import next_change
from growd.recipes.interpreter import interpret
from growd.recipes.plan import Shape
from growd.recipes.position import time_of_day
from growd_analysis.recipes.drawing import (
    COMING_S,
    MAX_COMING,
    MAX_DRAWN,
    MAX_WRITTEN,
    coming_changes,
    plan_of,
)
from support.recipe_strategies import FLEXFORMAT, PHASED, SIMPLE

BERLIN = ZoneInfo("Europe/Berlin")
LIGHT = "light_illuminance"
AIR = "air_temperature"
NOON = datetime(2026, 3, 1, 12, tzinfo=BERLIN).timestamp()
STARTS = st.sampled_from(
    [
        datetime(2026, month, day, 13, 17, tzinfo=BERLIN).timestamp()
        for month, day in [(3, 28), (10, 24), (6, 1)]
    ]
)


def on_the_line(line, elapsed):
    """The value of a line at a time; None if it has none."""
    number = bisect_right([at for at, _ in line], elapsed)
    if not number:
        return None
    (before, value), (after, next_value) = line[number - 1], line[min(number, len(line) - 1)]
    if value is None or next_value is None or before == after:
        return value
    return value + (next_value - value) * (elapsed - before) / (after - before)


@given(st.one_of(SIMPLE, FLEXFORMAT, PHASED), STARTS, st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_the_lines_agree_with_the_set_points(recipe, start, parts):
    """Also over DST changes. A sine wave is drawn with straight lines."""
    plan, _ = interpret(recipe)
    drawn = plan_of("r", recipe, start, BERLIN)
    assert not drawn["truncated"]
    assert list(drawn["series"]) == plan.variables

    def local(elapsed):
        return time_of_day(start + elapsed, BERLIN)

    for elapsed in (part * plan.duration for part in parts):
        for variable, line in drawn["series"].items():
            if all(abs(at - elapsed) > 0.01 for at, _ in line):
                value = plan.value(variable, elapsed, local(elapsed), local)
                assert on_the_line(line, elapsed) == pytest.approx(value, abs=0.02), variable


@given(st.one_of(SIMPLE, FLEXFORMAT, PHASED))
def test_a_line_continues_to_the_end_of_the_recipe(recipe):
    drawn = plan_of("r", recipe, NOON, BERLIN)
    for line in drawn["series"].values():
        assert line == sorted(line, key=lambda point: point[0])
        assert line[-1][0] == drawn["duration"]


def test_the_plan_has_phases_and_set_points_in_seconds():
    phases = [
        {
            "duration": 2,
            "time_units": "hours",
            "course": {AIR: [{"at": 0.5, "value": 20, "to_next": "ramp"}]},
            "cycle": 1,
        },
        {
            "name": "late",
            "duration": 1,
            "time_units": "days",
            "daily": {LIGHT: [{"at": "06:00", "value": 9}]},
        },
    ]
    drawn = plan_of("lettuce", {"format": "phased", "phases": phases}, NOON, BERLIN)
    assert json.loads(json.dumps(drawn)) == {
        "recipe_id": "lettuce",
        "format": "phased",
        "start": NOON,
        "duration": 93_600.0,
        "state": "idle",
        "elapsed": 0.0,
        "name": None,
        "next": [
            {"time": NOON + 1_800, "variable": AIR, "from": None, "to": 20.0, "unit": "degC"}
            | {"to_next": "hold"},
            {"time": NOON + 7_200, "variable": LIGHT, "from": None, "to": 9.0, "unit": "lux"}
            | {"to_next": "hold"},
        ],
        "phases": [
            {"name": "phase 1", "begin": 0.0, "duration": 7_200.0},
            {"name": "late", "begin": 7_200.0, "duration": 86_400.0},
        ],
        "set_points": [
            {"phase": 0, "variable": AIR, "unit": "degC", "daily": False, "cycle": 3_600.0}
            | {"points": [{"at": 1_800.0, "value": 20.0, "to_next": "ramp"}]},
            {"phase": 1, "variable": LIGHT, "unit": "lux", "daily": True, "cycle": 86_400.0}
            | {"points": [{"at": 21_600.0, "value": 9.0, "to_next": "hold"}]},
        ],
        "series": {
            AIR: [[1_800.0, 20.0], [5_400.0, 20.0], [7_200.0, 20.0], [93_600.0, 20.0]],
            LIGHT: [[7_200.0, 9.0], [64_800.0, 9.0], [93_600.0, 9.0]],
        },
        "set_points_truncated": False,
        "truncated": False,
    }


def test_a_step_has_two_points_at_one_time_and_a_release_is_null():
    first = {"duration": 20, "time_units": "seconds", "course": {AIR: [{"at": 0, "value": 20}]}}
    first["course"][AIR].append({"at": 10, "value": 25})
    second = {"duration": 5, "time_units": "seconds", "otherwise": "release"}
    drawn = plan_of("r", {"format": "phased", "phases": [first, second]}, NOON, None)
    assert drawn["series"][AIR] == [
        *((0.0, 20.0), (10.0, 20.0), (10.0, 25.0)),
        *((20.0, 25.0), (20.0, None), (25.0, None)),
    ]


@pytest.mark.parametrize(
    ("month", "day", "hours"), [(3, 28, [10, 14, 33]), (10, 24, [10, 14.5, 15, 15.5, 35])]
)
def test_a_time_of_day_is_skipped_or_repeated_at_dst_changes(month, day, hours):
    """In Berlin, at 2 and 3 o'clock at night; 02:30 is 14.5 h after noon."""
    daily = {LIGHT: [{"at": "02:30", "value": 100}, {"at": "22:00", "value": 0}]}
    recipe = {"format": "phased", "phases": [{"duration": 1.5, "time_units": "days", "daily": daily}]}
    start = datetime(2026, month, day, 12, tzinfo=BERLIN).timestamp()
    line = plan_of("r", recipe, start, BERLIN)["series"][LIGHT]
    steps = [at / 3600 for (at, value), (after, other) in pairwise(line) if at == after and value != other]
    assert steps == hours


def test_series_with_too_many_points_are_truncated_and_of_very_many_changes_the_first_are_listed():
    cycle = [{"at": 0, "value": 20}, {"at": 1, "value": 21}]
    phase = {"duration": 86_400, "time_units": "seconds", "cycle": 2, "course": {AIR: cycle}}
    recipe = {"format": "phased", "phases": [phase]}
    drawn = plan_of("r", recipe, NOON, BERLIN)
    assert drawn["truncated"]
    assert len(drawn["series"][AIR]) <= 2 * MAX_DRAWN
    assert drawn["series"][AIR][-1][0] == MAX_DRAWN - 1
    listed = changes_of(recipe, 40_000, 86_400)
    assert [at for at, *_ in listed] == [40_001 + number for number in range(MAX_COMING)]


@pytest.mark.parametrize(("more", "is_cut"), [(0, False), (1, True)])
def test_only_ten_thousand_set_points_are_listed(more, is_cut):
    """For several tracks of a phase, and several phases."""
    half = [{"at": second, "value": 20} for second in range(MAX_WRITTEN // 2)]
    courses = [{AIR: half[:-1], LIGHT: half[:1]}, {LIGHT: half}, {AIR: half[:1]} if more else {}]
    phases = [{"duration": 1, "time_units": "days", "course": course} for course in courses]
    drawn = plan_of("r", {"format": "phased", "phases": phases}, NOON, BERLIN)
    listed = [(track["phase"], track["variable"], len(track["points"])) for track in drawn["set_points"]]
    assert listed == [(0, AIR, len(half) - 1), (0, LIGHT, 1), (1, LIGHT, len(half))]
    assert (drawn["set_points_truncated"], drawn["truncated"]) == (is_cut, False)
    assert len(drawn["phases"]) == 3


def test_a_track_with_too_many_set_points_is_truncated():
    operations = [[second, AIR, 20] for second in range(MAX_WRITTEN + 5)]
    drawn = plan_of("r", {"format": "simple", "operations": operations}, NOON, BERLIN)
    assert [point["at"] for point in drawn["set_points"][0]["points"]] == list(range(MAX_WRITTEN))
    assert drawn["set_points_truncated"]


@given(st.one_of(SIMPLE, FLEXFORMAT, PHASED), STARTS, st.floats(0, 1), st.lists(st.floats(0, 1), max_size=10))
def test_the_coming_changes_agree_with_the_set_points(recipe, start, part, others):
    plan, _ = interpret(recipe)
    elapsed = part * plan.duration
    changes = coming_changes(plan, elapsed, elapsed + COMING_S, start, BERLIN, has_begun=True)
    assert all(start + elapsed < change["time"] <= start + elapsed + COMING_S for change in changes)
    end = min(elapsed + COMING_S, plan.duration)
    if len(changes) == MAX_COMING:
        end = min(end, changes[-1]["time"] - start)

    def local(at):
        return time_of_day(start + at, BERLIN)

    for at in (elapsed + other * (end - elapsed) for other in others):
        for variable in plan.variables:
            past = [change for change in changes if change["variable"] == variable]
            if any(abs(change["time"] - start - at) < 0.01 for change in past):
                continue
            past = [change for change in past if change["time"] - start < at]
            now, before = (plan.written(variable, time, local(time), local) for time in (at, elapsed))
            if past and past[-1]["to_next"] == "hold" and now is not None and now[1] is Shape.HOLD:
                assert past[-1]["to"] == pytest.approx(now[0], abs=1), variable
            elif not past and before is not None and before[1] is Shape.HOLD:
                assert plan.value(variable, at, local(at), local) == pytest.approx(before[0], abs=1), variable


def changes_of(recipe, elapsed, until, *, has_begun=True):
    plan, _ = interpret(recipe)
    found = coming_changes(plan, elapsed, until, NOON, BERLIN, has_begun=has_begun)
    return [
        (each["time"] - NOON, each["variable"], each["from"], each["to"], each["to_next"]) for each in found
    ]


DAWN = {
    "format": "phased",
    "phases": [
        {
            "duration": 3,
            "time_units": "days",
            "daily": {
                LIGHT: [
                    {"at": "06:00", "value": 0, "to_next": "sine"},
                    {"at": "07:00", "value": 8000},
                    {"at": "22:00", "value": 0},
                ]
            },
            "course": {AIR: [{"at": 0, "value": 24}, {"at": 2.5, "value": 20}]},
        }
    ],
}


def test_a_transition_is_one_change_to_its_end():
    """At noon the lamp is on already."""
    assert changes_of(DAWN, 0, COMING_S) == [
        (10 * 3600, LIGHT, 8000, 0, "hold"),
        (18 * 3600, LIGHT, 0, 8000, "sine"),
    ]


def test_the_end_of_a_recipe_releases_its_set_points():
    assert changes_of(DAWN, 2.4 * 86_400, 4 * 86_400) == [
        (2 * 86_400 + 10 * 3600, LIGHT, 8000, 0, "hold"),
        (2.5 * 86_400, AIR, 24, 20, "hold"),
        (2 * 86_400 + 18 * 3600, LIGHT, 0, 8000, "sine"),
        (3 * 86_400, AIR, 20, None, "hold"),
        (3 * 86_400, LIGHT, 8000, None, "hold"),
    ]


def test_a_recipe_that_has_not_begun_changes_everything_at_its_beginning():
    half_a_day = 43_200
    assert changes_of(DAWN, half_a_day, half_a_day + 60, has_begun=False) == [
        (half_a_day, AIR, None, 24, "hold"),
        (half_a_day, LIGHT, None, 0, "hold"),
    ]
    assert changes_of(DAWN, half_a_day, half_a_day - 60, has_begun=False) == []


def test_changes_far_into_a_long_recipe_are_found():
    """Not searched from its beginning, which is years ago."""
    year = 365 * 86_400
    plan, _ = interpret(DAWN | {"phases": [DAWN["phases"][0] | {"duration": 9 * 365}]})
    (first, *_) = coming_changes(plan, 8 * year, 8 * year + 86_400, NOON, BERLIN, has_begun=True)
    assert first["time"] == pytest.approx(NOON + 8 * year + 10 * 3600, abs=3600)
    assert next_change(plan, LIGHT, 8 * year, NOON, BERLIN) == first["time"] - NOON

"""Warnings on valid recipes that are probably mistakes."""

import pytest

from growd.recipes.interpreter import check
from support.recipe_strategies import findings

LIGHT, AIR = "light_illuminance", "air_temperature"
DAY_S = 86_400


def simple(*operations):
    return {"format": "simple", "operations": [list(operation) for operation in operations]}


def phased(*phases):
    return {"format": "phased", "phases": [{"duration": 3, "time_units": "days"} | each for each in phases]}


def daily(*points):
    return {"daily": {LIGHT: [{"at": at, "value": value} for at, value in points]}}


def course(cycle, *points):
    return {"course": {LIGHT: [{"at": at, "value": value} for at, value in points]}, "cycle": cycle}


def flexformat(*spans):
    step = {LIGHT: [{"start_time": at, "end_time": end, "value": value} for at, end, value in spans]}
    return {"format": "flexformat", "phases": [{"cycles": 3, "time_units": "hours", "step": step}]}


NIGHT = daily(("06:00", 8000), ("22:00", 0))


@pytest.mark.parametrize(
    ("recipe", "place", "sentence"),
    [
        (simple((0, AIR, 75), (60, AIR, 70)), "/operations/0", "75 degF would be 23.9 degC"),
        (simple((0, LIGHT, 80), (60, LIGHT, 0)), "/operations/0", "no light_illuminance of this recipe is"),
        (simple((0, "air_humidity", 0.8), (60, "air_humidity", 0.7)), "/operations/0", "is this a fraction?"),
        (
            simple((0, "air_carbon_dioxide", 900), (60, "air_carbon_dioxide", 0)),
            "/operations/1",
            "air_carbon_dioxide 0 ppm is less than fresh air has, 420 ppm: no output reaches it",
        ),
        (
            simple((0, "air_humidity", 60), (90, "air_vapour_pressure_deficit", 1.5)),
            "/operations",
            "the set point of air_vapour_pressure_deficit has no effect while air_humidity has its own",
        ),
        (
            simple((0, LIGHT, 8000), (60, LIGHT, 0), (60, "light_daily_integral", 12)),
            "/operations",
            "the set point of light_daily_integral has no effect while light_illuminance has its own",
        ),
        (
            simple((0, LIGHT, 8000), (3 * DAY_S, LIGHT, 0)),
            "/operations",
            "lit 24 h a day, for 72 h without a dark hour",
        ),
        (
            simple((0, LIGHT, 8000), (DAY_S, LIGHT, 9000), (2 * DAY_S, AIR, 20)),
            "/operations",
            "for 48 h without",
        ),
        (phased(daily(("06:00", 8000))), "/phases/0", "for 72 h without"),
        (phased(NIGHT, course(1, (0, 8000))), "/phases/1", "for 72 h without"),
        (phased(course(2, (0, 8000), (0.4, 0), (0.5, 8000))), "/phases/0", "for 45.6 h without"),
        (phased(course(3, (0, 0), (2, 8000)), {"name": "b"}), "/phases/0", "for 24 h without"),
        (phased(NIGHT | {"name": "a"}, NIGHT | {"name": "a"}), "/phases/1/name", "phase 1 has the same name"),
        (
            simple((0, LIGHT, 8000), (16, LIGHT, 0), (24, LIGHT, 0)),
            "/operations",
            "the whole recipe lasts 24 s",
        ),
        (
            flexformat((0, 6, 0), (6, 22, 8000)),
            "/phases/0/step",
            "the step is 22 h long, not 24: it begins 2 h earlier",
        ),
        (flexformat((0, 10, 0), (10, 25, 8000)), "/phases/0/step", "25 h long, not 24: it begins 1 h later"),
        (phased(NIGHT) | {"operations": []}, "/operations", "format phased has no operations"),
        (simple((0, AIR, 20), (90, AIR, 20)) | {"phases": []}, "/phases", "format simple has no phases"),
    ],
)
def test_probable_mistakes_get_warnings(recipe, place, sentence):
    (finding,) = check(recipe)
    assert (finding.severity, finding.pointer) == ("warning", place)
    assert sentence in finding.sentence


def test_a_phase_that_keeps_the_light_on_gets_a_warning():
    day = course(1, (0, 0), (0.5, 8000))
    saved = {"course": {AIR: [{"at": 0, "value": 20}]}}
    assert findings(phased(day, saved)) == [("warning", "/phases/1")]
    assert findings(phased(day, saved | {"otherwise": "release"})) == []


@pytest.mark.parametrize(
    "recipe",
    [
        simple((0, LIGHT, 8000), (57_600, LIGHT, 0), (DAY_S, LIGHT, 8000), (2 * DAY_S - 1, LIGHT, 0)),
        phased(NIGHT),
        phased(course(1, (0, 8000), (0.7, 0))),
        simple((0, AIR, 45), (60, AIR, 20)),
        simple((0, LIGHT, 0), (60, LIGHT, 101)),
    ],
)
def test_good_recipes_get_no_warnings(recipe):
    assert check(recipe) == []

"""Findings on any document: formats, limits, the reach of actuators, garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.findings import Severity, errors, under
from growd.recipes.formats import InvalidRecipeError
from growd.recipes.grammar import fitting
from growd.recipes.interpreter import FORMATS, MAX_BYTES, MAX_FINDINGS, check, interpret
from growd.recipes.phases import MAX_PHASES, MAX_POINTS
from support.recipe_strategies import FLEXFORMAT, GARBAGE, PHASED, SIMPLE, at_pointer, findings, mutated

UNSORTED = [[offset, "air_temperature", 20] for offset in range(300, 0, -1)]


@pytest.mark.parametrize(
    ("recipe", "pointer", "sentence"),
    [
        (None, "", "expected a recipe as an object, got null"),
        ([], "", "an array"),
        ({}, "/format", f"the format is missing; known are {', '.join(FORMATS)}"),
        ({"format": "complex"}, "/format", 'the format "complex" is not known'),
        ({"format": ["simple"]}, "/format", "is not known"),
    ],
)
def test_other_documents_than_recipes_are_errors(recipe, pointer, sentence):
    (finding,) = check(recipe)
    assert (finding.severity, finding.pointer) == (Severity.ERROR, pointer)
    assert sentence in finding.sentence


@given(st.one_of(GARBAGE, *[st.just({"format": name}) for name in FORMATS]), st.sampled_from([*FORMATS]))
def test_garbage_gives_errors_without_exceptions(garbage, name):
    assert errors(check(garbage))
    if isinstance(garbage, dict):
        check(garbage | {"format": name})


@given(st.one_of(mutated(SIMPLE), mutated(FLEXFORMAT), mutated(PHASED)), st.floats(0, 1e6))
def test_a_changed_recipe_is_refused_or_runs(recipe, elapsed):
    if errors(check(recipe)):
        with pytest.raises(InvalidRecipeError):
            interpret(recipe)
    else:
        plan, _ = interpret(recipe)
        plan.set_points(elapsed, elapsed % 86_400)
        plan.set_points(plan.duration)


@given(st.one_of(mutated(SIMPLE), mutated(FLEXFORMAT), mutated(PHASED)))
def test_the_place_of_a_finding_exists_or_is_a_missing_member(recipe):
    for finding in check(recipe):
        if finding.pointer and "?" not in finding.pointer:
            at_pointer(recipe, finding.pointer.rpartition("/")[0])


def test_the_number_and_the_names_of_errors_are_bounded():
    recipe = {"format": "simple", "operations": [[0, "x" * 10_000, 1]] * 5_000}
    found = check(recipe)
    assert len(found) == MAX_FINDINGS + 1
    assert "more than 100 findings" in found[-1].sentence
    assert sum(len(str(finding)) for finding in found) < 20_000
    step = {f"{number}\ud800" + "x" * 10_000: [] for number in range(100)}
    phase = {"cycles": 1, "time_units": "hours", "step": step}
    found = check({"format": "flexformat", "phases": [phase]})
    assert sum(len(str(finding).encode()) for finding in found) < 50_000


@pytest.mark.parametrize(
    "phase", [dict.fromkeys(map(str, range(1_000)), 1), {"daily": {"air_humidity": [1] * 1_000}}]
)
def test_the_grammar_check_stops_after_many_errors(phase):
    recipe = {"format": "phased", "phases": [phase] * 10}
    assert len(fitting(FORMATS["phased"].grammar, recipe)[1]) < MAX_FINDINGS + 50


def test_an_error_after_many_warnings_is_found():
    spans = [{"start_time": n, "end_time": n + 0.5, "value": 1} for n in range(300)]
    phase = {"cycles": 1, "time_units": "seconds", "step": {"air_humidity": spans}}
    found = check({"format": "flexformat", "phases": [phase, phase | {"cycles": 0}]})
    assert (found[0].severity, found[0].pointer) == (Severity.ERROR, "/phases/1/cycles")
    assert len(found) == MAX_FINDINGS + 1
    large = {"format": "simple", "operations": UNSORTED, "notes": "x" * MAX_BYTES}
    assert "the recipe is too large" in check(large)[0].sentence


def test_a_recipe_with_too_many_warnings_runs():
    plan, warnings = interpret({"format": "simple", "operations": UNSORTED})
    assert plan.duration == 300
    assert len(warnings) == MAX_FINDINGS + 1


@pytest.mark.parametrize(("name", "kind"), [("flexformat", "step"), ("phased", "course")])
def test_too_many_phases_or_set_points_are_refused(name, kind):
    many = {"format": name, "phases": [{}] * (MAX_PHASES + 1)}
    assert findings(many) == [("error", "/phases")]
    point = {"at": 0, "value": 1} if name == "phased" else {"start_time": 0, "end_time": 1, "value": 1}
    long = {"format": name, "phases": [{kind: {"air_humidity": [point] * (MAX_POINTS + 1)}}]}
    assert ("error", "/phases") in findings(long)


def test_values_other_than_json_are_errors():
    operations = [[0, "air_temperature", 20], [9, "air_temperature", 21]]
    nested = []
    for _ in range(100_000):
        nested = [nested]
    for oddity in ("\ud800", nested, object()):
        (finding,) = check({"format": "simple", "operations": operations, "notes": oddity})
        assert (finding.severity, finding.pointer) == (Severity.ERROR, "")


def test_unreachable_set_points_get_one_warning_per_variable(said):
    operations = [[0, "light_illuminance", 20_001], [5, "light_illuminance", 30_000]]
    operations += [[6, "air_temperature", 20], [7, "air_temperature", 21], [80, "air_flush_on", 1]]
    reach = {"light_illuminance": (0, 20_000), "air_flush_on": (0, 1)}
    lamp, heater = check({"format": "simple", "operations": operations}, reach)
    assert (lamp.pointer, heater.pointer) == ("/operations/0", "/operations/2")
    said(lamp.sentence)
    assert "nothing here drives air_temperature" in heater.sentence
    assert {lamp.severity, heater.severity} == {Severity.WARNING}
    assert check({"format": "simple", "operations": operations}) == []


def test_light_below_that_from_which_a_switched_lamp_is_on_is_a_warning():
    def warnings(lux):
        reach = {"light_illuminance": (0, 20_000, "", 10_000)}
        operations = [[0, "light_illuminance", lux], [60, "light_illuminance", 0]]
        return check({"format": "simple", "operations": operations}, reach)

    (finding,) = warnings(8_000)
    assert (finding.severity, finding.pointer) == (Severity.WARNING, "/operations/0")
    assert "on from 10000" in finding.sentence
    assert warnings(0) == warnings(10_000) == []


def test_a_set_point_beyond_a_limit_of_interlocks_is_an_error_with_the_limit():
    operations = [[0, "water_potential_hydrogen", 5.8], [5, "water_potential_hydrogen", 3]]
    reach = {"water_potential_hydrogen": (5.0, 7.5, "the limits")}
    finding, *_ = check({"format": "simple", "operations": operations}, reach)
    assert (finding.severity, finding.pointer) == (Severity.ERROR, "/operations/1")
    assert finding.sentence.endswith("from 5 to 7.5 here, not to 3: these are the limits")


def test_a_recipe_with_errors_is_not_checked_against_actuators():
    recipe = {"format": "simple", "operations": [[0, "air_temperature", 20], [1]]}
    assert [finding.severity for finding in check(recipe, {})] == [Severity.ERROR]


def test_a_name_in_a_pointer_is_escaped():
    assert under("/phases/0", "a/b~c") == "/phases/0/a~1b~0c"
    assert under("", "x" * 101) == "/" + "x" * 100 + "…"

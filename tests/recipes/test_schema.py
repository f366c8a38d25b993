from __future__ import annotations

import json

import pytest

from growd.recipes.errors import InvalidRecipeError
from growd.recipes.interpreter import PLANS, interpret
from growd.recipes.schema import FORMATS, MAX_FINDINGS, MAX_OPERATIONS, Severity, check


def simple(*operations):
    return {"_id": "r", "format": "simple", "operations": list(operations)}


GOOD = [0, "air_temperature", 21]


def findings(recipe):
    return [(finding.severity.value, finding.pointer) for finding in check(recipe)]


def test_a_sound_recipe_has_no_findings():
    assert check(simple(GOOD, [3600, "light_illuminance", 8000.5], [7200, "air_flush_on", True])) == []


@pytest.mark.parametrize(
    ("recipe", "pointer", "sentence"),
    [
        (None, "", "a recipe is an object, not null"),
        ([], "", "an array"),
        ({}, "/format", "the format is missing; known are simple"),
        ({"format": "complex"}, "/format", 'the format "complex" is not known'),
        ({"format": ["simple"]}, "/format", "is not known"),
        ({"format": "simple"}, "/operations", "expected an array of operations, got null"),
        ({"format": "simple", "operations": {}}, "/operations", "got an object"),
        (simple(), "/operations", "nothing to run"),
        (simple(GOOD, "x"), "/operations/1", "expected [offset in s, variable, value], got"),
        (simple([0, "air_temperature"]), "/operations/0", "an array of 2 elements"),
        (simple(GOOD, [-1, "air_temperature", 20]), "/operations/1/0", "the offset -1 is negative"),
        (simple(["0", "air_temperature", 20]), "/operations/0/0", "finite number of seconds"),
        (simple([True, "air_temperature", 20]), "/operations/0/0", "got true"),
        (simple([float("nan"), "air_temperature", 20]), "/operations/0/0", "finite"),
        (simple([float("inf"), "air_temperature", 20]), "/operations/0/0", "finite"),
        (simple([10**400, "air_temperature", 20]), "/operations/0/0", "finite"),
        (simple([3600_000 * 24 * 365, "air_temperature", 20]), "/operations/0/0", "offsets are in seconds"),
        (simple([0, "air_temprature", 20]), "/operations/0/1", 'no variable "air_temprature"'),
        (simple([0, ["air_temperature"], 20]), "/operations/0/1", "no variable"),
        (simple([0, "air_temperature", 86]), "/operations/0/2", "from -40 to 85 degC, got 86"),
        (simple([0, "air_temperature", "20"]), "/operations/0/2", 'got "20"'),
        (simple([0, "air_temperature", None]), "/operations/0/2", "got null"),
        (simple([0, "air_temperature", float("nan")]), "/operations/0/2", "got NaN"),
        (simple([0, "air_temperature", 10**400]), "/operations/0/2", "expected float64"),
        (simple(*[GOOD] * (MAX_OPERATIONS + 1)), "/operations", "are too many"),
    ],
)
def test_an_error_names_its_place_and_keeps_the_recipe_from_running(recipe, pointer, sentence):
    (finding,) = check(recipe)
    assert (finding.severity, finding.pointer) == (Severity.ERROR, pointer)
    assert sentence in finding.sentence
    with pytest.raises(InvalidRecipeError) as caught:
        interpret(recipe)
    assert caught.value.findings == [finding]


def test_all_findings_come_at_once():
    recipe = simple([-1, "nothing", 5], [0, "air_humidity", 101], 7)
    assert findings(recipe) == [
        ("error", "/operations/0/0"),
        ("error", "/operations/0/1"),
        ("error", "/operations/1/2"),
        ("error", "/operations/2"),
    ]


def test_a_recipe_of_nothing_but_errors_gives_a_bounded_answer():
    found = check(simple(*[[0, "x" * 10_000, 1]] * 50_000))
    assert len(found) == MAX_FINDINGS + 1
    assert "more to say" in found[-1].sentence
    assert sum(len(str(finding)) for finding in found) < 20_000


def test_unsorted_operations_and_repeated_ones_are_warned_of():
    recipe = simple([10, "air_temperature", 20], [0, "air_temperature", 21], [10, "air_temperature", 22])
    assert findings(recipe) == [("warning", "/operations/1/0"), ("warning", "/operations/2")]
    _, warnings = interpret(recipe)
    assert len(warnings) == 2


def test_a_recipe_that_ends_as_it_starts_is_warned_of():
    assert findings(simple(GOOD)) == [("warning", "/operations")]


def test_every_format_that_is_checked_can_be_run():
    assert FORMATS.keys() == PLANS.keys()


def test_a_recipe_as_it_comes_from_json_is_the_same(tmp_path):
    recipe = simple(GOOD, [1e3, "air_temperature", 2.15e1])
    assert check(json.loads(json.dumps(recipe))) == []

"""The format `simple`: findings, and the plan compared with a reference implementation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.findings import Severity
from growd.recipes.formats import InvalidRecipeError
from growd.recipes.interpreter import check, interpret
from growd.recipes.simple import MAX_OPERATIONS
from growd.variables import VARIABLES
from support.recipe_strategies import findings, in_range

GOOD = [0, "air_temperature", 21]
OFFSET = st.one_of(st.integers(0, 50), st.floats(0, 50), st.integers(0, 5_000_000))
OPERATION = st.one_of(
    [st.tuples(OFFSET, st.just(name), in_range(name)).map(list) for name in sorted(VARIABLES)]
)
OPERATIONS = st.lists(OPERATION, min_size=1, max_size=20)
ELAPSED = st.one_of(st.floats(-10, 60), st.floats(0, 6_000_000))


def simple(*operations):
    return {"_id": "r", "format": "simple", "operations": list(operations)}


def plan(operations):
    return interpret(simple(*operations))[0]


def slow_and_obvious(operations, elapsed):
    """Of all due operations, in the order of the document, the one with the latest offset."""
    latest = {}
    for offset, variable, value in operations:
        if offset <= elapsed and (variable not in latest or offset >= latest[variable][0]):
            latest[variable] = (offset, value)
    return {variable: value for variable, (_, value) in latest.items()}


# --- Findings


def test_a_valid_recipe_has_no_findings():
    assert check(simple(GOOD, [3600, "light_illuminance", 8000.5], [7200, "air_flush_on", True])) == []


@pytest.mark.parametrize(
    ("recipe", "pointer", "sentence"),
    [
        ({"format": "simple"}, "/operations", "expected an array of 1 to 100000 operations; it is missing"),
        (simple(), "/operations", "1 to 100000 operations, got an array of 0"),
        (
            simple(GOOD, [-1, "air_temperature", 20]),
            "/operations/1/0",
            "the offset as a number of seconds, from 0 to ten years, got -1",
        ),
        (simple([float("nan"), "air_temperature", 20]), "/operations/0/0", "got NaN"),
        (simple([10**400, "air_temperature", 20]), "/operations/0/0", "an integer of 1329 bits"),
        (
            simple([3600_000 * 24 * 365, "air_temperature", 20]),
            "/operations/0/0",
            "seconds, from 0 to ten years",
        ),
        (
            simple([0, "air_temprature", 20]),
            "/operations/0/1",
            'no variable "air_temprature"; did you mean air_temperature?',
        ),
        (
            simple([0, "air_temperature", "warm"]),
            "/operations/0/2",
            'true or false, got "warm"; air_temperature takes -40 to 85 degC',
        ),
        (simple([0, "air_flush_on", "on"]), "/operations/0/2", 'got "on"; air_flush_on is a switch'),
        (simple([0, "air_temperature", 86]), "/operations/0/2", "from -40 to 85 degC, not 86"),
        (simple([0, "air_temperature", float("nan")]), "/operations/0/2", "got NaN"),
        (simple([0, "air_temperature", 10**400]), "/operations/0/2", "expected a number, true or false"),
        (simple(*[GOOD] * (MAX_OPERATIONS + 1)), "/operations", "got an array of 100001"),
    ],
)
def test_an_error_names_its_place_and_prevents_a_run(recipe, pointer, sentence):
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


def test_unsorted_and_repeated_operations_get_warnings():
    recipe = simple([90, "air_temperature", 20], [0, "air_temperature", 21], [90, "air_temperature", 22])
    assert findings(recipe) == [("warning", "/operations/1/0"), ("warning", "/operations/2")]
    _, warnings = interpret(recipe)
    assert len(warnings) == 2


def test_a_recipe_that_ends_at_its_start_gets_a_warning():
    assert findings(simple(GOOD)) == [("warning", "/operations")]


# --- The plan


@given(OPERATIONS, ELAPSED)
def test_set_points_agree_with_the_reference(operations, elapsed):
    made = plan(operations)
    assert made.duration == max(offset for offset, _, _ in operations)
    for each in (elapsed, *(offset for offset, _, _ in operations)):
        assert made.set_points(each) == slow_and_obvious(operations, each)

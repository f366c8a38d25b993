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

AIR = "air_temperature"
GOOD = [0, AIR, 21]
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
    ("operations", "pointer", "words"),
    [
        ([[float("nan"), AIR, 20]], "/operations/0/0", "got NaN"),
        ([[10**400, AIR, 20]], "/operations/0/0", "an integer of 1329 bits"),
        ([GOOD, [3600_000 * 24 * 365, AIR, 20]], "/operations/1/0", "from 0 to ten years"),
        ([[0, "air_temprature", 20]], "/operations/0/1", "did you mean air_temperature?"),
        ([[0, AIR, "warm"]], "/operations/0/2", "air_temperature takes -40 to 85 degC"),
        ([[0, "air_flush_on", "on"]], "/operations/0/2", "air_flush_on is a switch"),
        ([[0, AIR, 86]], "/operations/0/2", "from -40 to 85 degC, not 86"),
        ([[0, AIR, float("nan")]], "/operations/0/2", "got NaN"),
        ([[0, AIR, 10**400]], "/operations/0/2", "expected a number, true or false"),
        ([GOOD] * (MAX_OPERATIONS + 1), "/operations", "got an array of 100001"),
    ],
)
def test_an_error_names_its_place_and_prevents_a_run(operations, pointer, words):
    recipe = simple(*operations)
    (finding,) = check(recipe)
    assert (finding.severity, finding.pointer) == (Severity.ERROR, pointer)
    assert words in finding.sentence
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


def test_odd_operations_get_warnings():
    recipe = simple([90, AIR, 20], [0, AIR, 21], [90, AIR, 22])
    assert findings(recipe) == [("warning", "/operations/1/0"), ("warning", "/operations/2")]
    assert len(interpret(recipe)[1]) == 2
    assert findings(simple(GOOD)) == [("warning", "/operations")]  # it ends at its start


# --- The plan


@given(OPERATIONS, ELAPSED)
def test_set_points_agree_with_the_reference(operations, elapsed):
    made = plan(operations)
    assert made.duration == max(offset for offset, _, _ in operations)
    for each in (elapsed, *(offset for offset, _, _ in operations)):
        assert made.set_points(each) == slow_and_obvious(operations, each)

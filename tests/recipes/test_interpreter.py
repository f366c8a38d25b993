from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from growd.recipes.interpreter import interpret
from growd.variables import VARIABLES

VARIABLE = st.sampled_from(sorted(VARIABLES))
OFFSET = st.one_of(st.integers(0, 50), st.floats(0, 50), st.integers(0, 5_000_000))


@st.composite
def operation(draw):
    variable = draw(VARIABLE)
    known = VARIABLES[variable]
    return [draw(OFFSET), variable, draw(st.floats(known.minimum, known.maximum))]


OPERATIONS = st.lists(operation(), min_size=1, max_size=30)
ELAPSED = st.one_of(st.floats(-10, 60), st.floats(0, 6_000_000))


def plan(operations):
    return interpret({"format": "simple", "operations": operations})[0]


def slow_and_obvious(operations, elapsed):
    """Of all operations that are due, in the order of the document, keep the one with the latest offset."""
    latest = {}
    for offset, variable, value in operations:
        if offset <= elapsed and (variable not in latest or offset >= latest[variable][0]):
            latest[variable] = (offset, value)
    return {variable: value for variable, (_, value) in latest.items()}


@given(OPERATIONS, ELAPSED)
def test_set_points_are_those_of_the_last_operation_due(operations, elapsed):
    assert plan(operations).set_points(elapsed) == slow_and_obvious(operations, elapsed)


@given(OPERATIONS)
def test_at_every_offset_itself_its_operation_holds(operations):
    made = plan(operations)
    for offset, _, _ in operations:
        assert made.set_points(offset) == slow_and_obvious(operations, offset)


@given(OPERATIONS)
def test_it_ends_with_its_last_operation_and_loses_none(operations):
    made = plan(operations)
    assert made.duration == max(offset for offset, _, _ in operations)
    assert made.set_points(made.duration).keys() == {variable for _, variable, _ in operations}


@given(
    OPERATIONS.flatmap(lambda operations: st.tuples(st.just(operations), st.permutations(operations))),
    ELAPSED,
)
def test_the_order_in_the_document_matters_only_between_equal_offsets(both, elapsed):
    operations, shuffled = both
    moments = [(offset, variable) for offset, variable, _ in operations]
    if len(set(moments)) == len(moments):
        assert plan(operations).set_points(elapsed) == plan(shuffled).set_points(elapsed)


def test_a_set_point_holds_until_the_next_and_the_later_of_two_at_once_wins():
    made = plan([[0, "air_temperature", 20], [60, "air_temperature", 25], [60, "air_temperature", 26]])
    assert made.set_points(59.999) == {"air_temperature": 20}
    assert made.set_points(60) == {"air_temperature": 26}
    assert made.set_points(-1) == {}

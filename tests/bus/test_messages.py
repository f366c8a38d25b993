"""Constructor arguments of messages: count, type, range, and the texts of errors."""

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.bus.errors import SHOWN, InvalidArgumentsError, InvalidValueError, shown
from growd.bus.fields import Field, Kind
from growd.bus.messages import (
    BOOL,
    DIAGNOSTIC_STATUS,
    FLOAT64,
    INT64,
    MESSAGE_TYPES,
    STRING,
    VECTOR3,
    MessageType,
)

CO2 = FLOAT64.within(0, 40_000, "ppm")

# The fields of each type, written down again from the .msg files of ROS (DiagnosticStatus without hardware_id
# and values, level as far as it has a meaning).
LAYOUTS = {
    "std_msgs/Float64": [("data", "float64")],
    "std_msgs/Int64": [("data", "int64")],
    "std_msgs/Bool": [("data", "bool")],
    "std_msgs/String": [("data", "string")],
    "geometry_msgs/Vector3": [("x", "float64"), ("y", "float64"), ("z", "float64")],
    "diagnostic_msgs/DiagnosticStatus": [("level", "level"), ("name", "string"), ("message", "string")],
}


class Refused(Exception):  # noqa: N818  an outcome of the reference
    pass


def packed(code, value):
    """A value after a way over the wire of ROS."""
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except (struct.error, OverflowError):
        raise Refused from None


def reference_field(kind, value):
    """The reference: the wire format of ROS decides what is valid."""
    if kind == "float64":
        number = packed("<d", value)
        if number in (math.inf, -math.inf) or number != number:  # noqa: PLR0124  the definition of NaN
            raise Refused
        return number
    if kind in {"int64", "level"}:
        if type(value) is float and math.isfinite(value) and Fraction(value).denominator == 1:
            value = Fraction(value).numerator  # JSON has one kind of number
        if type(value) is not int:
            raise Refused
        number = packed("<q", value)
        if kind == "level" and number not in range(4):
            raise Refused
        return number
    if type(value) is not {"bool": bool, "string": str}[kind]:
        raise Refused
    return value


def reference(name, arguments):
    """("ok", value), ("arguments", None) for a wrong form or count, or ("value", the first bad field)."""
    layout = LAYOUTS[name]
    if type(arguments) is not list or len(arguments) != len(layout):
        return "arguments", None
    values = {}
    for (field, kind), argument in zip(layout, arguments, strict=True):
        try:
            values[field] = reference_field(kind, argument)
        except Refused:
            return "value", field
    return "ok", values if len(layout) > 1 else values["data"]


def outcome(message_type, arguments):
    try:
        return "ok", message_type.construct(arguments)
    except InvalidArgumentsError:
        return "arguments", None
    except InvalidValueError as error:
        return "value", error.field


def exactly(value):
    """Distinguishes 1, 1.0, True, and 0.0 from -0.0, which `==` does not."""
    if isinstance(value, dict):
        return {key: exactly(member) for key, member in value.items()}
    return type(value), repr(value)


numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from(
        [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2.0**63, -(2.0**63), 10**308, 10**309, -(10**400)]
    ),
    st.integers(0, 3).map(float),
    st.booleans(),
)
values = st.one_of(
    numbers, st.text(max_size=5), st.none(), st.lists(st.integers(), max_size=2), st.just({"data": 1})
)
fitting = {
    "float64": numbers,
    "int64": numbers,
    "level": st.integers(-1, 4),
    "bool": st.booleans(),
    "string": st.text(max_size=5),
}


@st.composite
def publications(draw):
    """A type and arguments for it: mostly nearly valid, some arbitrary."""
    name = draw(st.sampled_from(sorted(LAYOUTS)))
    near = st.tuples(*(st.one_of(fitting[kind], fitting[kind], values) for _, kind in LAYOUTS[name])).map(
        list
    )
    return name, draw(st.one_of(near, near, st.lists(values, max_size=4), values))


def test_the_types_are_those_of_the_reference():
    fields = {name: [field.name for field in each.fields] for name, each in MESSAGE_TYPES.items()}
    assert fields == {name: [field for field, _ in layout] for name, layout in LAYOUTS.items()}


@given(publications())
def test_arguments_are_checked_as_by_the_reference(publication):
    name, arguments = publication
    message_type = MESSAGE_TYPES[name]
    expected = reference(name, arguments)
    got = outcome(message_type, arguments)
    assert got[0] == expected[0]
    assert exactly(got[1]) == exactly(expected[1])
    if got[0] == "ok":
        assert exactly(message_type.check(got[1])) == exactly(got[1])  # the result is a valid value


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), numbers)
def test_a_range_includes_its_borders(low, width, value):
    message_type = FLOAT64.within(low, low + width, "lux")
    kind, number = reference("std_msgs/Float64", [value])
    if kind == "ok" and not Fraction(low) <= Fraction(number) <= Fraction(low + width):
        kind, number = "value", "data"
    got = outcome(message_type, [value])
    assert got[0] == kind
    assert exactly(got[1]) == exactly(number)
    assert outcome(message_type, [low]) == ("ok", low)
    assert outcome(message_type, [low + width]) == ("ok", low + width)


BOUNDS = st.none() | st.floats(-100, 100)
NEAR = st.floats(-200, 200) | st.sampled_from(
    [math.nan, math.inf, -math.inf, True, "1", None, 10**400, 1e308]
)


@given(st.sampled_from([Kind.FLOAT64, Kind.INT64, Kind.STRING]), BOUNDS, BOUNDS, NEAR)
def test_the_faster_check_agrees_with_the_check(kind, low, high, value):
    field = Field("data", kind, low, high)
    checked = []
    for check in (field.check, field.checker(), MessageType("a/B", (field,)).checker()):
        try:
            checked.append(exactly(check(value)))
        except InvalidValueError as error:
            checked.append(str(error))
    assert checked == [checked[0]] * 3


def test_a_refusal_names_field_type_and_value(said):
    for message_type, arguments in (
        (FLOAT64, 5),
        (FLOAT64, []),
        (VECTOR3, ["x"]),
        (FLOAT64, ["warm"]),
        (FLOAT64, [None]),
        (FLOAT64, [math.nan]),
        (CO2, [math.inf]),
        (CO2, [-0.5]),
        (CO2, [[]]),
        (FLOAT64.within(0, 1_234_567.0, "lux"), [-1]),
        (FLOAT64, [10**5000]),
        (VECTOR3, [1, "a", math.inf]),
        (BOOL, [1]),
        (INT64, [True]),
        (INT64, [2.5]),
        (INT64, [2**63]),
        (DIAGNOSTIC_STATUS, [4, "a", "b"]),
        (STRING, [5]),
        (STRING, ["\ud800"]),
        (MessageType("x/Name", (Field("name", Kind.STRING, max_length=3),)), ["abcd"]),
    ):
        with said.raises((InvalidArgumentsError, InvalidValueError)):
            message_type.construct(arguments)


def test_a_message_of_several_fields_has_exactly_those():
    for value in ({"x": 1.0, "y": 2.0}, {"x": 1, "y": 2, "z": 3, "w": 4}, [1, 2, 3], 1.0, None):
        with pytest.raises(InvalidArgumentsError, match="x: a number, y: a number, z: a number"):
            VECTOR3.check(value)


def test_the_length_of_a_string_is_counted_in_characters():
    assert Field("name", Kind.STRING, max_length=3).check("日本語") == "日本語"


def test_expected_bounds_are_shown_in_all_digits(said):
    least, most = -(2**63), 2**63 - 1
    for field in (
        Field("a", Kind.INT64, minimum=2),
        Field("a", Kind.FLOAT64, maximum=0.25, unit="lux"),
        Field("a", Kind.INT64, least, most),
        Field("a", Kind.JSON),
    ):
        said(field.expected())


@given(
    st.recursive(
        values,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
        max_leaves=30,
    )
)
def test_any_value_can_be_shown_in_one_short_line(value):
    text = shown(value)
    assert text.isprintable()
    assert len(text) <= 6 * SHOWN + 3  # each character escaped, two quotes, one ellipsis


def test_a_long_value_is_cut_with_a_mark():
    assert shown("x" * SHOWN) == f'"{"x" * SHOWN}"'
    assert shown("x" * (SHOWN + 1)) == f'"{"x" * SHOWN}"…'
    assert shown(2**1024 - 1).endswith("…")

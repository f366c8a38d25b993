"""Cells are printed as by JavaScript; Node is the reference."""

import json
import re
import shutil
import subprocess

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from growd_analysis.points.csv_format import UNITS, CsvFormat, cell, iso_time, number, stringify
from support.couch_client import FILES

LIST = FILES / "design" / "environmental_data_point" / "lists" / "csv.js"
# answers each line of JSON with a line of JSON: the output of JSON.stringify, or the time of a number
REFERENCE = """
const timed = process.argv[1] === 'time';
const time = (seconds) => {
  const date = new Date(Math.round(seconds * 1000));
  return isNaN(date) ? '' : date.toISOString();
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const value = JSON.parse(line);
  console.log(JSON.stringify(timed ? time(value) : JSON.stringify(value)));
});
"""


class Node:
    """A process of Node that answers line by line."""

    def __init__(self, *arguments):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([shutil.which("node"), "-e", REFERENCE, *arguments], **pipes)

    def __call__(self, text):
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


@pytest.fixture(scope="module")
def printed():
    node = Node()
    yield node
    node.close()


@pytest.fixture(scope="module")
def timed():
    node = Node("time")
    yield node
    node.close()


DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
EXPONENTS = st.builds(
    lambda digits, power: f"{digits}e{power}", st.integers(-999, 999), st.integers(-340, 310)
)
INTEGERS = st.integers(-(2**80), 2**80)
SCALARS = st.none() | st.booleans() | DOUBLES | INTEGERS | st.text()
NAMES = st.text() | st.integers(0, 2**33).map(str) | st.sampled_from(["4294967294", "4294967295", "01"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6)
)


@settings(max_examples=250)
@given(text=DOUBLES.map(repr) | INTEGERS.map(str) | EXPONENTS)
@example("-0.0")
@example("1e21")
@example("1e20")
@example("1e-6")
@example("1e-7")
@example(str(2**53 + 1))
@example(str(10**400))
@example("1e400")
def test_numbers_are_printed_as_by_javascript(printed, text):
    assert number(json.loads(text)) == printed(text)


@settings(max_examples=100)
@given(value=VALUES)
def test_json_is_printed_as_by_javascript(printed, value):
    assert stringify(value) == printed(json.dumps(value))


@settings(max_examples=100)
@given(seconds=st.floats(-9e12, 9e12) | st.integers(-(10**13), 10**13) | st.floats(1.7e9, 1.8e9))
@example(1795305903.12)
@example(-0.0004)
@example(8.64e12)
@example(8.64e12 + 1)
@example(-62_198_755_200)
@example(10**400)
def test_times_are_those_of_javascript(timed, seconds):
    assert iso_time(seconds) == timed(json.dumps(seconds))


def test_only_numbers_are_times():
    assert [iso_time(value) for value in (float("inf"), True, "1", None)] == [""] * 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ("=1", "'=1"),
        ('a "b"', '"a ""b"""'),
        ("-a,b", '"\'-a,b"'),
        ("a\nb\n", '"a\nb\n"'),
        (-3, "-3"),
        (False, "false"),
        ([1, "a"], '"[1,""a""]"'),
        ({"b": 1, "10": 2, "2": None}, '"{""2"":null,""10"":2,""b"":1}"'),
        ([], "[]"),
    ],
)
def test_a_cell(value, text):
    assert cell(value) == text


def lines(columns, *values):
    form = CsvFormat(columns)
    rows = [msgspec.Raw(b'{"id":"i","key":1,"value":%b}' % value.encode()) for value in values]
    return (form.head + form.lines(form.rows(rows))).decode()


def test_columns_are_made_from_the_fields_of_a_point():
    own = '{"timestamp":0,"is_desired":true,"variable":"air_temperature","environment":"e"}'
    told = '{"timestamp":0,"category":"commanded","unit":"K","quality":"bad","time":1,"variable":"x"}'
    assert lines(["time", "environment", "category", "unit", "quality"], own, told, "{}", "null", "7") == (
        "time,environment,category,unit,quality\r\n"
        "1970-01-01T00:00:00.000Z,e,desired,degC,ok\r\n"
        "1970-01-01T00:00:00.000Z,,commanded,K,bad\r\n"
        ",,measured,,ok\r\n,,measured,,ok\r\n,,measured,,ok\r\n"
    )


def test_truthy_values_of_javascript_mean_desired():
    given = ["true", "1", '"x"', "[]", "{}", "false", "0", '""', "null"]
    points = [f'{{"is_desired":{text}}}' for text in given]
    assert lines(["category"], *points).split() == ["category", *["desired"] * 5, *["measured"] * 4]


def test_columns_may_repeat_and_have_any_name():
    assert lines(["a", "=b", "a", ""], '{"a":1,"=b":2,"":3}') == "a,'=b,a,\r\n1,2,1,3\r\n"


def test_json_that_msgspec_refuses_is_read():
    half = '{"a":"x\\ud800y","b":{"c":"\\udfff"},"d":1e400}'
    assert lines(["a", "b", "d"], half, '{"a":1}') == (
        'a,b,d\r\nx\ufffdy,"{""c"":""\\udfff""}",null\r\n1,,\r\n'
    )


def test_an_invalid_row_is_an_error():
    with pytest.raises(ValueError, match="without key"):
        CsvFormat().rows([msgspec.Raw(b"1")])


def test_the_list_function_has_the_same_units():
    found = re.findall(r'^    "(\w+)": "([^"]+)",?$', LIST.read_text(), re.MULTILINE)
    assert dict(found) == UNITS

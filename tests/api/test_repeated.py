"""Query parameters that are given several times."""

import pytest

from growd.api.api import Api
from growd.api.operation import MOST_FIELDS, Operation, Repeated
from growd.api.operations import OPERATIONS
from growd.bus.errors import BusError
from growd.bus.fields import Field, Kind
from growd.server.errors import ApiError
from growd_web.openapi import _query_parameter

NAMES = Repeated(Field("name", Kind.STRING, max_length=5, doc="a name"), most=3, least=1)
SIZES = Repeated(Field("size", Kind.INT64, 1, 9), most=2)
OPERATION = Operation("GET", "x", "", "", Api.list_nodes, query=(NAMES, SIZES))


def test_all_values_are_read_in_order():
    for query, names, sizes in (
        ("name=a", ["a"], []),
        ("name=b&x=1&name=a&name=b", ["b", "a", "b"], []),
        ("name=12&name=&name=true&size=2&size=3.0", ["12", "", "true"], [2, 3]),
        ("name=a%2Fb&name=%C3%BC+x", ["a/b", "ü x"], []),
    ):
        assert OPERATION.read_query(query) == {"name": names, "size": sizes}


def test_a_refusal_says_which_value_does_not_fit(said):
    for query in (
        "",
        "size=1",
        "name=a&name=a&name=a&name=a",
        "name=a&name=sixsix",
        "name=a&size=1&size=big",
    ):
        with said.raises(BusError):
            OPERATION.read_query(query)
    with said.raises(BusError):
        Repeated(Field("x", Kind.STRING), most=3, least=2).check(["a"])


def test_a_query_of_too_many_fields_is_refused_before_it_is_split():
    assert OPERATION.read_query("&".join(["name=a", *["b"] * (MOST_FIELDS - 1)]))["name"] == ["a"]
    with pytest.raises(ApiError) as refusal:
        OPERATION.read_query("&".join(["name=a", *["%41"] * MOST_FIELDS]))
    assert (refusal.value.status, refusal.value.code) == (400, "too_many_fields")


def test_an_operation_without_parameters_reads_no_query():
    session = next(each for each in OPERATIONS if each.is_open)
    assert session.read_query("&".join(["%41"] * 10 * MOST_FIELDS)) == {}


def test_the_document_says_how_often_it_may_be_given():
    described = _query_parameter(NAMES)
    assert (described["required"], described["style"], described["explode"]) == (True, "form", True)
    schema = described["schema"]
    assert (schema["minItems"], schema["maxItems"], schema["items"]["maxLength"]) == (1, 3, 5)
    assert _query_parameter(SIZES)["required"] is False

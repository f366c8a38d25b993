"""`growd param`, `growd service` and `growd node` with a running daemon."""

import pytest
from click import unstyle
from hypothesis import given
from hypothesis import strategies as st

from growd.bus.fields import Field, Kind
from growd.variables import VARIABLES
from growd_cli.arguments import FieldInfo, value_of
from growd_cli.names import similar
from growd_cli.output import table, tree
from support.daemon import CALIBRATE, CO2, START, STOP
from support.terminal import typed

INTERVAL = "sensors/scd30/interval"


async def at(daemon, *arguments):
    return await typed(*arguments, "--url", daemon.origin)


async def test_parameters_are_listed_and_printed(daemon, said):
    await daemon.bus.parameters.set("mine/list", [1, {"a": "b"}])
    await daemon.bus.parameters.set("mine/sub/word", "two words")
    names = ["environment_1/current_recipe", "mine/list", "mine/sub/word", INTERVAL]
    assert (await at(daemon, "param", "list")).out.splitlines() == names
    assert (await at(daemon, "param", "list", "mine", "--json")).json == names[1:3]
    assert (await at(daemon, "param", "get", "/mine/sub/word")).out == "two words\n"
    assert (await at(daemon, "param", "get", INTERVAL)).out == "5.0\n"
    said((await at(daemon, "param", "get", "mine")).out.splitlines())
    values = {"list": [1, {"a": "b"}], "sub": {"word": "two words"}}
    assert (await at(daemon, "param", "get", "mine", "--json")).json == values


def test_short_names_of_variables():
    names = [f"e/desired/{variable}" for variable in VARIABLES]
    for name, meant in (
        ("e/desired/co2", "air_carbon_dioxide"),
        ("e/desired/pH", "water_potential_hydrogen"),
        ("ec", "water_electrical_conductivity"),
        ("desired/lux", "light_illuminance"),
        ("e/desired/temperature", "air_temperature"),
        ("humidity", "air_humidity"),
    ):
        assert similar(name, names) == [f"e/desired/{meant}"]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["-21.5"], -21.5),
        (["null"], None),
        (["two words"], "two words"),
        (['"21"'], "21"),
        (["21", "--text"], "21"),
        (['["a", 1.5]'], ["a", 1.5]),
        ([""], ""),
    ],
)
async def test_a_parameter_is_set_to_json_or_to_text(daemon, words, value):
    printed = await at(daemon, "param", "set", "mine/own", *words, "--json")
    assert (printed.status, printed.err) == (0, "")
    saved = daemon.bus.parameters.get("mine/own")
    assert (saved, type(saved)) == (value, type(value))
    assert printed.json == value


async def test_a_refused_parameter_has_the_message_of_the_daemon(daemon, said):
    for name, value in ((INTERVAL, "1"), ("environment_1/current_recipe", "mine")):
        printed = await at(daemon, "param", "set", name, value)
        assert (printed.status, printed.out) == (1, "")
        said(printed.err)


async def test_an_unknown_name_is_refused_with_a_suggestion(daemon, said):
    for *command, name in (
        ("param", "get", "sensors/scd30/intervall"),
        ("param", "get", "interval"),
        ("param", "get", "sensor/scd"),
        ("service", "info", "environment_1/start_recip"),
        ("service", "call", "start_recipe"),
        ("node", "info", "recipe_runer"),
        ("topic", "info", "measured/air_carbon_dioxide"),
        ("topic", "echo", "measured/air_carbon_dioxide"),
        ("topic", "pub", "zzz"),
    ):
        values = ("1",) if command[-1] == "pub" else ()
        printed = await at(daemon, *command, name, *values)
        assert (printed.status, printed.out) == (1, "")
        said(printed.err)


async def test_services_are_listed_with_their_arguments(daemon, said):
    assert (await at(daemon, "service", "list")).out.splitlines() == [START, STOP, CALIBRATE]
    assert (await at(daemon, "service", "list", "sensors")).out == f"{CALIBRATE}\n"
    said((await at(daemon, "service", "info", CALIBRATE)).out.splitlines())
    said((await at(daemon, "service", "info", STOP)).out.splitlines())
    reported = (await at(daemon, "service", "info", CALIBRATE, "--json")).json
    assert (reported["node"], reported["request_type"]) == ("recipe_runner", "growd/Calibrate")
    rounds = reported["fields"][1]
    assert (rounds["name"], rounds["kind"], rounds["required"]) == ("rounds", "int64", False)
    assert (rounds["unit"], rounds["minimum"], rounds["maximum"], rounds["default"]) == ("", 1, 10, 3)


@pytest.mark.parametrize(
    ("name", "words", "arguments"),
    [
        (STOP, [], {}),
        (START, ["7"], {"recipe_id": "7"}),
        (START, ["recipe_id=a=b"], {"recipe_id": "a=b"}),
        (START, ["id=7"], {"recipe_id": "id=7"}),
        (CALIBRATE, ["force=true", "reference=500", "notes=by hand"], {"force": True, "notes": "by hand"}),
        (CALIBRATE, ["500", "2", "false", '{"who": "me"}'], {"rounds": 2, "notes": {"who": "me"}}),
    ],
)
async def test_a_service_is_called_with_arguments_in_order_or_by_name(daemon, name, words, arguments):
    printed = await at(daemon, "service", "call", name, *words)
    assert (printed.status, printed.err) == (0, "")
    assert printed.out.startswith("success: true\nmessage: ")
    usual = {"reference": 500.0, "rounds": 3, "force": False, "notes": None} if name == CALIBRATE else {}
    assert daemon.runner.calls == [(name, usual | arguments)]


async def test_a_refusing_service_is_a_failure(daemon, said):
    for words in ((START, "unknown"), (CALIBRATE, "2")):
        printed = await at(daemon, "service", "call", *words)
        assert (printed.status, printed.out) == (1, "")
        said(printed.err)
    printed = await at(daemon, "service", "call", START, "unknown", "--json")
    assert (printed.status, printed.json["success"]) == (1, False)
    assert daemon.runner.calls == [(START, {"recipe_id": "unknown"})] * 2


async def test_nodes_are_listed_and_described(daemon, said):
    node = daemon.bus.node("store")
    node.describe("store", lambda: {"waiting": 3, "notices": ["full", "late"], "since": None})
    node.describe("replications", lambda: [{"name": "a", "lag": 1}, {"name": "b", "lag": None}])
    assert (await at(daemon, "node", "list")).out.split() == ["http", "recipe_runner", "scd30", "store"]
    said((await at(daemon, "node", "info", "store")).out.splitlines())
    reported = (await at(daemon, "node", "info", "scd30", "--json")).json
    assert reported["node_name"] == "scd30"
    assert CO2 in reported["pubs"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_the_lines_of_any_value_are_printable(value):
    lines = [unstyle(line) for line in tree(value)]
    assert lines
    assert all(line.isprintable() and line for line in lines)


@given(st.text())
def test_text_arguments_are_passed_unchanged(text):
    field = FieldInfo("recipe_id", "string")
    if not text.startswith('"'):
        assert value_of(text, field) == text


@given(
    st.lists(st.tuples(st.text(st.characters(categories=["L", "N"]), min_size=1), st.text("ab ")), max_size=6)
)
def test_a_table_is_aligned_and_complete(rows):
    heading, *lines = [unstyle(line) for line in table(("name", "about"), rows)]
    at = heading.index("about")
    assert [(line[:at].rstrip(), line[at:]) for line in lines] == [
        (name, about.rstrip()) for name, about in rows
    ]


@pytest.mark.parametrize(
    "command", [["topic", "echo"], ["param", "get"], ["service", "call"], ["node", "info"]]
)
async def test_an_empty_name_is_a_usage_error(daemon, command):
    for name in ("", "/"):
        printed = await at(daemon, *command, name)
        assert (printed.status, "the name is empty" in printed.err) == (2, True)


async def test_a_parameter_is_deleted_and_a_new_name_needs_new(daemon):
    declared = Field("gain", Kind.FLOAT64, default=1.0)
    daemon.bus.node("lamp").declare("lamp/gain", declared)
    refused = await at(daemon, "param", "set", "lamp/gian", "2")
    assert refused.status == 1
    assert refused.err.endswith('has no parameter "gian" (--new would add it); did you mean lamp/gain?\n')
    assert (await at(daemon, "param", "set", "--new", "lamp/gian", "2")).out == "2\n"
    unknown = await at(daemon, "param", "get", "lamp/gia")
    assert unknown.err.endswith("did you mean lamp/gain?\n")  # and not the other typo, which is there
    assert (await at(daemon, "param", "delete", "lamp/gian")).out == ""
    await at(daemon, "param", "set", "lamp/gain", "2")
    assert (await at(daemon, "param", "delete", "lamp/gain")).out == "1.0\n"
    assert daemon.bus.parameters.get("lamp") == {"gain": 1.0}


async def test_arguments_are_all_by_known_names_or_in_order(daemon, said):
    for odd in ("3", "target=3"):
        refused = await at(daemon, "service", "call", START, "recipe_id=demo_day", odd)
        assert refused.status == 2
        said(refused.err.splitlines()[-1])
    assert daemon.runner.calls == []

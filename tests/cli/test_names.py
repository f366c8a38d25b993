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


async def test_parameters_are_listed_and_printed(daemon):
    await daemon.bus.parameters.set("mine/list", [1, {"a": "b"}])
    await daemon.bus.parameters.set("mine/sub/word", "two words")
    names = ["environment_1/current_recipe", "mine/list", "mine/sub/word", INTERVAL]
    assert (await at(daemon, "param", "list")).out.splitlines() == names
    assert (await at(daemon, "param", "list", "mine", "--json")).json == names[1:3]
    assert (await at(daemon, "param", "get", "/mine/sub/word")).out == "two words\n"
    assert (await at(daemon, "param", "get", INTERVAL)).out == "5.0\n"
    assert (await at(daemon, "param", "get", "mine")).out.splitlines() == [
        "list:",
        "  - 1",
        "  - a: b",
        "sub:",
        "  word: two words",
    ]
    assert (await at(daemon, "param", "get", "mine", "--json")).json == {
        "list": [1, {"a": "b"}],
        "sub": {"word": "two words"},
    }


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("e/desired/co2", ["e/desired/air_carbon_dioxide"]),
        ("e/desired/pH", ["e/desired/water_potential_hydrogen"]),
        ("ec", ["e/desired/water_electrical_conductivity"]),
        ("desired/lux", ["e/desired/light_illuminance"]),
        ("e/desired/temperature", ["e/desired/air_temperature"]),
        ("humidity", ["e/desired/air_humidity"]),
    ],
)
def test_short_names_of_variables(name, meant):
    assert similar(name, [f"e/desired/{variable}" for variable in VARIABLES]) == meant


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["21"], 21),
        (["-21.5"], -21.5),
        (["true"], True),
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


async def test_a_refused_parameter_has_the_message_of_the_daemon(daemon):
    printed = await at(daemon, "param", "set", INTERVAL, "1")
    assert (printed.status, printed.out) == (1, "")
    assert printed.err == f"growd: {INTERVAL} must be a number from 2 to 1800 s, not 1\n"
    printed = await at(daemon, "param", "set", "environment_1/current_recipe", "mine")
    assert printed.status == 1
    assert "is read-only: the node scd30 sets it" in printed.err


@pytest.mark.parametrize(
    ("command", "name", "meant"),
    [
        (["param", "get"], "sensors/scd30/intervall", INTERVAL),
        (["param", "get"], "interval", INTERVAL),
        (["param", "get"], "sensor/scd", INTERVAL.rpartition("/")[0]),
        (["service", "info"], "environment_1/start_recip", f"{START} or {STOP}"),
        (["service", "call"], "start_recipe", f"{START}, {STOP} or recipe_runner"),
        (["node", "info"], "recipe_runer", "recipe_runner"),
    ],
)
async def test_an_unknown_name_is_refused_with_a_suggestion(daemon, command, name, meant):
    printed = await at(daemon, *command, name)
    assert (printed.status, printed.out) == (1, "")
    assert printed.err.startswith("growd: there is no ")
    first = meant.partition(",")[0].partition(" or ")[0]
    assert f"; did you mean {first}" in printed.err


async def test_services_are_listed_with_their_arguments(daemon):
    assert (await at(daemon, "service", "list")).out.splitlines() == [START, STOP, CALIBRATE]
    assert (await at(daemon, "service", "list", "sensors")).out == f"{CALIBRATE}\n"
    assert (await at(daemon, "service", "info", CALIBRATE)).out.splitlines()[-5:] == [
        "name       type     range            default  about",
        "reference  float64  400 to 2000 ppm",
        "rounds     int64    1 to 10          3",
        "force      bool                      false",
        "notes      json                      null",
    ]
    reported = (await at(daemon, "service", "info", CALIBRATE, "--json")).json
    assert (reported["node"], reported["request_type"]) == ("recipe_runner", "growd/Calibrate")
    assert reported["fields"][1] | {"doc": ""} == {
        "name": "rounds",
        "kind": "int64",
        "unit": "",
        "minimum": 1,
        "maximum": 10,
        "required": False,
        "default": 3,
        "doc": "",
    }
    assert "args: []" in (await at(daemon, "service", "info", STOP)).out.splitlines()


@pytest.mark.parametrize(
    ("name", "words", "arguments"),
    [
        (STOP, [], {}),
        (START, ["lettuce"], {"recipe_id": "lettuce"}),
        (START, ["7"], {"recipe_id": "7"}),
        (START, ["recipe_id=a=b"], {"recipe_id": "a=b"}),
        (START, ["id=7"], {"recipe_id": "id=7"}),
        (CALIBRATE, ["450"], {"reference": 450.0, "rounds": 3, "force": False, "notes": None}),
        (
            CALIBRATE,
            ["force=true", "reference=500", "notes=by hand"],
            {"reference": 500.0, "rounds": 3, "force": True, "notes": "by hand"},
        ),
        (
            CALIBRATE,
            ["500", "2", "false", '{"who": "me"}'],
            {"reference": 500.0, "rounds": 2, "force": False, "notes": {"who": "me"}},
        ),
    ],
)
async def test_a_service_is_called_with_arguments_in_order_or_by_name(daemon, name, words, arguments):
    printed = await at(daemon, "service", "call", name, *words)
    assert (printed.status, printed.err) == (0, "")
    assert printed.out.startswith("success: true\nmessage: ")
    assert daemon.runner.calls == [(name, arguments)]


async def test_a_refusing_service_is_a_failure(daemon):
    printed = await at(daemon, "service", "call", START, "unknown")
    assert (printed.status, printed.out) == (1, "")
    assert printed.err == "growd: there is no recipe named unknown\n"
    printed = await at(daemon, "service", "call", START, "unknown", "--json")
    assert (printed.status, printed.json["success"]) == (1, False)
    printed = await at(daemon, "service", "call", CALIBRATE, "2")
    assert printed.status == 1
    assert printed.err == "growd: reference must be a number from 400 to 2000 ppm, not 2\n"
    assert len(daemon.runner.calls) == 2


async def test_nodes_are_listed_and_described(daemon):
    node = daemon.bus.node("store")
    node.describe("store", lambda: {"waiting": 3, "notices": ["full", "late"], "since": None})
    node.describe("replications", lambda: [{"name": "a", "lag": 1}, {"name": "b", "lag": None}])
    assert (await at(daemon, "node", "list")).out.split() == ["http", "recipe_runner", "scd30", "store"]
    assert (await at(daemon, "node", "info", "store")).out.splitlines() == [
        "node_name: store",
        "pubs: []",
        "subs: []",
        "srvs: []",
        "params: []",
        "store:",
        "  waiting: 3",
        '  notices: ["full", "late"]',
        "  since: null",
        "replications:",
        "  - name: a",
        "    lag: 1",
        "  - name: b",
        "    lag: null",
    ]
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
@pytest.mark.parametrize("name", ["", "/"])
async def test_an_empty_name_is_a_usage_error(daemon, command, name):
    printed = await at(daemon, *command, name)
    assert printed.status == 2
    assert "the name is empty" in printed.err


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


@pytest.mark.parametrize("odd", ["3", "target=3"])
async def test_arguments_are_all_by_known_names_or_in_order(daemon, odd):
    refused = await at(daemon, "service", "call", START, "recipe_id=demo_day", odd)
    assert refused.status == 2
    assert f"{odd.partition('=')[0]} is no argument by name" in refused.err
    assert "recipe_id" in refused.err
    assert daemon.runner.calls == []

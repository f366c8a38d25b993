"""The OpenAPI document: valid, whole, and saying of bodies what is accepted."""

import asyncio
import copy

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st

from growd.api.operations import OPERATIONS
from growd.bus.errors import BusError
from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, MESSAGE_TYPES
from growd.bus.names import PATTERN, normalise
from growd_web.answer_schemas import ANSWERS
from growd_web.openapi import field_schema
from support.daemon import CALIBRATE, CO2, LIGHT, START, STOP, TOPICS

# the same values each time, however busy the machine is
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

NAMES = jsonschema_rs.validator_for({"pattern": PATTERN})


@pytest.fixture
async def document(daemon):
    answer = await daemon.ask("GET", "/openapi.json?chamber")
    assert answer.status == 200
    return answer.json


def schemas(document):
    """All schemas that stand in the place of one."""
    if isinstance(document, dict):
        if "schema" in document:
            yield document["schema"]
        for member in document.values():
            yield from schemas(member)
    elif isinstance(document, list):
        for member in document:
            yield from schemas(member)


def test_each_answer_has_a_schema():
    assert {each.answer for each in OPERATIONS} - {""} <= ANSWERS.keys()


class TestDocument:
    async def test_it_is_valid_openapi_3_1_and_its_schemas_are_valid_json_schema_2020_12(self, document):
        assert document["openapi"] == "3.1.0"
        assert (await asyncio.to_thread(is_valid, document)) is True
        spoilt = copy.deepcopy(document)
        spoilt["paths"]["/param"]["get"]["parameters"] = [{"name": "x"}]
        assert (await asyncio.to_thread(is_valid, spoilt)) is False
        found = [*schemas(document), *document["components"]["schemas"].values()]
        assert len(found) > 30
        for schema in found:
            jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})

    async def test_each_operation_that_is_routed_is_listed(self, daemon, document):
        for (resource, named), methods in daemon.api.routes.items():
            (kind,) = {operation.kind for operation in methods.values()}
            path = f"/{resource}" + (f"/{{{kind}}}" if named else "")
            assert set(document["paths"][path]) == {method.lower() for method in methods} - {"head"}
        routed = {o.handler for methods in daemon.api.routes.values() for o in methods.values()}
        assert routed == {operation.handler for operation in daemon.api.operations}
        assert routed > {operation.handler for operation in OPERATIONS}

    async def test_each_service_and_topic_has_its_path(self, document):
        assert {f"/service/{name}" for name in (START, STOP, CALIBRATE)} <= set(document["paths"])
        assert {f"/topic/{name}" for name in TOPICS} <= set(document["paths"])
        service = document["paths"][f"/service/{START}"]["post"]
        assert service["summary"] == "Start a recipe"
        light = document["paths"][f"/topic/{LIGHT}"]["post"]
        (item,) = light["requestBody"]["content"]["application/json"]["schema"]["prefixItems"]
        assert (item["minimum"], item["maximum"], item["description"]) == (0, 200_000, "(lux)")

    async def test_services_and_topics_that_come_and_go_are_followed(self, daemon, document):
        async def handler():
            return {"success": True, "message": ""}

        async def added():
            """The paths that there are now besides those at first."""
            answer = await daemon.ask("GET", "/openapi.json?chamber")
            return set(answer.json["paths"]) - set(document["paths"])

        late = daemon.bus.node("late")
        late.serve("a/{b}", "t", handler)
        assert await added() == {"/service/a/%7Bb%7D"}
        daemon.bus.topics.declare("late/topic", FLOAT64)
        assert await added() == {"/service/a/%7Bb%7D", "/topic/late/topic"}
        late.close()
        daemon.bus.node("later").serve("c", "t", handler)
        assert await added() == {"/service/c", "/topic/late/topic"}

    async def test_the_usual_one_has_no_names_of_this_chamber(self, daemon, document):
        for query in ("", "?chamber=false"):
            answer = await daemon.ask("GET", f"/openapi.json{query}")
            assert set(answer.json["paths"]) == {
                path for path in document["paths"] if path.count("/") == 1
            } | {path for path in document["paths"] if "{" in path}
        assert (await daemon.ask("GET", "/openapi.json?chamber=true")).json == document
        assert (await daemon.ask("GET", "/openapi.json?chamber=perhaps")).status == 400

    async def test_each_array_says_what_its_items_are(self, document):
        def arrays(schema):
            if isinstance(schema, dict):
                if "array" in (kind := schema.get("type", ())) and "properties" not in schema:
                    yield kind, schema
                for member in schema.values():
                    yield from arrays(member)
            elif isinstance(schema, list):
                for member in schema:
                    yield from arrays(member)

        found = [schema for _, schema in arrays(document["paths"])]
        assert len(found) > 5
        assert all("items" in schema for schema in found)

    async def test_only_topics_that_clients_may_publish_on_have_a_post(self, daemon, document):
        owned, wanted = document["paths"][f"/topic/{CO2}"], document["paths"][f"/topic/{LIGHT}"]
        assert "post" not in owned
        assert owned["get"]["x-message"]["prefixItems"][0]["x-unit"] == "ppm"
        assert (
            wanted["post"]["requestBody"]["content"]["application/json"]["schema"]
            == (wanted["get"]["x-message"])
        )
        daemon.bus.topics.open(CO2)
        assert "post" in (await daemon.ask("GET", "/openapi.json?chamber")).json["paths"][f"/topic/{CO2}"]

    async def test_all_is_described_and_named_and_all_tags_are_declared(self, daemon, document):
        assert document["servers"] == [{"url": daemon.api.prefix}]
        assert {"title", "version", "description", "contact"} <= document["info"].keys()
        declared = {tag["name"] for tag in document["tags"] if tag["description"]}
        operations = [operation for path in document["paths"].values() for operation in path.values()]
        for operation in operations:
            assert operation["description"].startswith(operation["summary"].rstrip("."))
        assert {tag for operation in operations for tag in operation["tags"]} == declared
        assert len({operation["operationId"] for operation in operations}) == len(operations)


def is_valid(document):
    try:
        schemathesis.openapi.from_dict(document).validate()
    except jsonschema_rs.ValidationError:
        return False
    return True


def validator_of(schema):
    return jsonschema_rs.Draft202012Validator(schema)


def accepts(check, value):
    try:
        check(value)
    except BusError:
        return False
    return True


FIELDS = [
    *(field for kind in MESSAGE_TYPES.values() for field in kind.fields),
    *(kind.fields[0] for kind in TOPICS.values()),
    Field("small", Kind.STRING, max_length=2),
    Field("gain", Kind.FLOAT64, 0.5, 10),
    Field("deep", Kind.FLOAT64, maximum=-1),
    Field("high", Kind.FLOAT64, minimum=1.5),
    Field("count", Kind.INT64, -3, 3),
    Field("any", Kind.JSON),
]


EDGES = [0, 1, -3, 3, 0.5, 10, 2**63, -(2**63), 2.0, True, False, None, "", "ab", "abc"]
BOUNDS = [bound for field in FIELDS for bound in (field.minimum, field.maximum) if bound is not None]


class TestSchemas:
    """A schema allows what the check behind it accepts, and nothing else."""

    def test_fields(self):
        checks = [(field, validator_of(field_schema(field))) for field in FIELDS]

        def is_same(value):
            for field, validator in checks:
                assert validator.is_valid(value) == accepts(field.check, value), (field, value)

        for edge in (*EDGES, *BOUNDS, *(beside for bound in BOUNDS for beside in (bound - 1, bound + 1))):
            is_same(edge)
        settings(max_examples=60)(given(JSON)(is_same))()

    async def test_arguments_of_services(self, daemon, document):
        services = {name: daemon.bus.services.get(name) for name in (START, STOP, CALIBRATE)}
        validators = {
            name: validator_of(
                document["paths"][f"/service/{name}"]["post"]["requestBody"]["content"]["application/json"][
                    "schema"
                ]
            )
            for name in services
        }
        value = st.sampled_from([420, 3, True, "basil"]) | JSON
        names = {name: [each.name for each in service.arguments] for name, service in services.items()}

        @settings(max_examples=60)
        @given(st.data(), st.sampled_from([*services]))
        def same(data, name):
            by_name = st.dictionaries(st.sampled_from([*names[name], "x"]), value, max_size=4)
            body = data.draw(st.none() | st.lists(value, max_size=5) | by_name)
            assert validators[name].is_valid(body) == accepts(services[name].bind, body)

        await asyncio.to_thread(same)

    @given(
        st.text(st.characters(max_codepoint=126) | st.just("/") | st.characters(codec="utf-8"), max_size=12)
    )
    def test_names(self, name):
        assert NAMES.is_valid(name) == accepts(normalise, name)

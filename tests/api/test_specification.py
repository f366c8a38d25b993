"""Every row of the specification of the REST API 0.0.1, asked of the whole program."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from support.couch_client import Answer
from support.program import home_on, started
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.database import DatabaseServer
    from support.program import Home, Program

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = "/_svc/api/0.0.1"
ENV = "environment_1"
LUX = f"{ENV}/desired/light_illuminance"
CO2 = f"{ENV}/measured/air_carbon_dioxide"
KP = f"{ENV}/controllers/air_carbon_dioxide/kp"
REFUSAL = {"ERROR", "error", "reason"}
VALUES = [
    None, True, False, 0, -7, 1.5, 1e300, 10**25, "", "Grün 🌱", [], [1, [None, {}]], {}, {"a": 1},
    {"a": {"b": [2]}, "c": None}, {"x/y": 1}, {"": 0},
]  # fmt: skip


class Service:
    """The program as its clients meet it: at a base address, with JSON bodies."""

    def __init__(self, program: Program, home: Home, session: aiohttp.ClientSession) -> None:
        self.program = program
        self.home = home
        self._session = session

    async def at(self, method: str, path: str, **options: Any) -> Answer:
        """The answer at a path below the base address."""
        url = URL(self.program.address + path, encoded=True)
        async with self._session.request(method, url, **options) as response:
            return Answer(response.status, response.headers.copy(), await response.read())

    async def get(self, path: str) -> Answer:
        return await self.at("GET", ROOT + path)

    async def post(self, path: str, body: Any) -> Answer:
        headers = {"Content-Type": "application/json"}
        return await self.at("POST", ROOT + path, data=json.dumps(body), headers=headers)

    def stream(self, topic: str) -> Any:
        return self._session.get(f"{self.program.address}{ROOT}/topic_stream/{topic}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    tmp_path_factory: pytest.TempPathFactory, database_server: DatabaseServer
) -> AsyncIterator[tuple[Program, Home]]:
    data = tmp_path_factory.mktemp("growd")
    async with (
        home_on(database_server, shared=True) as home,
        started(data, "--profile", "sim", *home.arguments) as program,
    ):
        await program.until_there(f"{home.recipes}/demo_day", home.headers)
        yield program, home


@pytest_asyncio.fixture(loop_scope="module")
async def service(running: tuple[Program, Home]) -> AsyncIterator[Service]:
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(headers=running[1].headers, timeout=timeout) as session:
        yield Service(*running, session)


def refused(answer: Answer, status: int) -> str:
    """The sentence of a refusal, whose form is checked."""
    assert (answer.status, answer.json.keys()) == (status, REFUSAL), answer.body
    assert answer.json["ERROR"] == answer.json["reason"]
    return str(answer.json["ERROR"])


def named(answer: Answer) -> list[str]:
    """The names in a list, whose form is checked."""
    assert (answer.status, answer.json.keys()) == (200, {"results"}), answer.body
    assert answer.headers["Content-Type"] == "application/json"
    names = answer.json["results"]
    assert names == sorted(set(names))
    return list(names)


# Lists, and all spellings of their paths


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "member"),
    [("/param", KP), ("/service", f"{ENV}/start_recipe"), ("/topic", LUX), ("/node", f"{ENV}/recipe_runner")],
)
async def test_a_list_has_all_names(service: Service, path: str, member: str) -> None:
    assert member in named(await service.get(path))
    for other in (f"{path}/", f"/{path}", f"/{path}//"):
        assert named(await service.get(other)) == named(await service.get(path))
    for prefix in ("/" + ROOT, "//_svc//api/0.0.1"):
        assert named(await service.at("GET", prefix + path)) == named(await service.get(path))
    assert (await service.post(path, {})).status == 405


@pytest.mark.parametrize(
    "path", [f"/param/{KP}", f"/service/{ENV}/start_recipe", f"/topic/{LUX}", f"/node/{ENV}/recipe_runner"]
)
async def test_doubled_and_trailing_slashes_mean_the_same(service: Service, path: str) -> None:
    plain = await service.get(path)
    assert plain.status == 200
    assert plain.headers["Content-Type"] == "application/json"
    for other in (f"{path}/", f"/{path}", path.replace("/", "//"), path.replace(f"/{ENV}", f"/%2F{ENV}")):
        answer = await service.get(other)
        assert (answer.status, answer.json.keys()) == (200, plain.json.keys())
    for other in ("/param/", "/param//", "/param/%2F"):
        assert (await service.post(f"{other}my_own/", {"value": other})).json == {"result": other}
        assert (await service.get("/param/my_own")).json == {"result": other}


# Parameters


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_parameter_takes_any_json_value(service: Service, value: Any) -> None:
    posted = await service.post("/param/any/value", {"value": value})
    assert (posted.status, posted.json) == (200, {"result": value})
    got = await service.get("/param/any/value")
    assert (got.status, got.json) == (200, {"result": value})
    assert type(got.json["result"]) is type(value)
    assert any(name.startswith("any/value") for name in named(await service.get("/param")))


async def test_any_value_replaces_any_other(service: Service) -> None:
    for before, after in [*pairwise(VALUES), *pairwise(reversed(VALUES))]:
        await service.post("/param/any/value", {"value": before})
        assert (await service.post("/param/any/value", {"value": after})).json == {"result": after}
        assert (await service.get("/param/any/value")).json == {"result": after}


async def test_a_parameter_beneath_another_is_set(service: Service) -> None:
    await service.post("/param/one", {"value": 1})
    assert (await service.post("/param/one/two/three", {"value": 3})).json == {"result": 3}
    assert (await service.get("/param/one")).json == {"result": {"two": {"three": 3}}}


async def test_a_new_parameter_below_an_environment_is_set(service: Service) -> None:
    answer = await service.post(f"/param/{ENV}/my_new_param", {"value": 5})
    assert (answer.status, answer.json) == (200, {"result": 5})
    assert f"{ENV}/my_new_param" in named(await service.get("/param"))


async def test_an_unknown_name_beneath_those_of_a_node_is_refused_with_the_nearest(service: Service) -> None:
    assert "did you mean" in refused(await service.post(f"/param/{KP}p", {"value": 5}), 409)
    assert KP in refused(await service.post(f"/param/{KP}p", {"value": 5}), 409)
    assert (await service.get(f"/param/{KP}p")).status == 404


async def test_a_missing_parameter_has_the_field_error(service: Service) -> None:
    assert '"no/such"' in refused(await service.get("/param/no/such"), 404)


@pytest.mark.parametrize("body", [{}, {"value": 1, "more": 2}, {"Value": 1}, [1], 5, "x", None])
async def test_another_body_is_refused(service: Service, body: Any) -> None:
    refused(await service.post("/param/other", body), 400)
    refused(await service.get("/param/other"), 404)


# Services


async def test_information_about_a_service(service: Service) -> None:
    answer = await service.get(f"/service/{ENV}/start_recipe")
    assert (answer.status, answer.json.keys()) == (200, {"request_type", "node", "args"})
    assert answer.json["node"] == f"{ENV}/recipe_runner"
    assert "recipe_id" in answer.json["args"]


async def test_a_recipe_is_started(service: Service) -> None:
    start, stop = f"/service/{ENV}/start_recipe", f"/service/{ENV}/stop_recipe"
    for body in ({"recipe_id": "demo_day"}, ["demo_day"]):
        answer = await service.post(start, body)
        assert (answer.status, answer.json["success"]) == (200, True), answer.body
        assert isinstance(answer.json["message"], str)
        assert (await service.get(f"/param/{ENV}/current_recipe")).json == {"result": "demo_day"}
        again = await service.post(start, body)
        assert (again.status, again.json["success"]) == (400, False)
        assert again.json.keys() >= REFUSAL
        assert (await service.post(stop, None)).json["success"] is True
    assert (await service.post(stop, {})).status == 400


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        (f"{ENV}/start_recipe", {"recipe_id": "no such recipe"}, 400),
        (f"{ENV}/start_recipe", {"recipe_id": 5}, 400),
        (f"{ENV}/start_recipe", {"recipe": "demo_day"}, 400),
        (f"{ENV}/start_recipe", "demo_day", 400),
        ("environment_9/start_recipe", {"recipe_id": "demo_day"}, 404),
        ("no/such", {}, 404),
    ],
)
async def test_a_call_that_cannot_be(service: Service, name: str, body: Any, status: int) -> None:
    answer = await service.post(f"/service/{name}", body)
    assert (answer.status, answer.json.keys() >= REFUSAL) == (status, True), answer.body
    if status == 404:
        refused(await service.get(f"/service/{name}"), 404)


# Topics


@pytest.mark.parametrize(("topic", "node"), [(LUX, None), (CO2, f"{ENV}/filters/air_carbon_dioxide")])
async def test_a_topic_has_type_subscribers_and_publishers(
    service: Service, topic: str, node: str | None
) -> None:
    answer = await service.get(f"/topic/{topic}")
    assert (answer.status, answer.json.keys()) == (200, {"type", "subs", "pubs"})
    assert answer.json["type"] == "std_msgs/Float64"
    assert all(isinstance(answer.json[key], list) for key in ("subs", "pubs"))
    assert node is None or node in answer.json["pubs"]


async def test_an_unknown_topic_is_an_error(service: Service) -> None:
    refused(await service.get("/topic/no/such"), 404)
    refused(await service.post("/topic/no/such", [1]), 404)


async def test_a_desired_value_is_published_and_streamed(service: Service) -> None:
    answer = await service.post(f"/topic/{LUX}", [8000])
    assert (answer.status, answer.json["message"]) == (200, "Posted message to topic")
    async with service.stream(LUX) as stream:
        assert stream.status == 200
        await service.post(f"/topic/{LUX}", [9000.5])
        async with asyncio.timeout(PATIENCE_S):
            while (line := json.loads(await stream.content.readline()))["value"] != 9000.5:
                assert line["value"] == 8000
        assert not stream.content.at_eof()  # it stays open
    assert (await service.post(f"/topic/{LUX}", [None])).status == 200


@pytest.mark.parametrize("body", [[], [1, 2], ["8000"], [[8000]], [{}], {"data": 8000}, 8000, None, [1e9]])
async def test_values_that_do_not_match_the_type_are_refused(service: Service, body: Any) -> None:
    refused(await service.post(f"/topic/{LUX}", body), 400)


async def test_a_topic_of_a_node_is_closed_to_clients(service: Service) -> None:
    refused(await service.post(f"/topic/{CO2}", [400]), 403)


# Nodes


async def test_information_about_a_node(service: Service) -> None:
    answer = await service.get(f"/node/{ENV}/recipe_runner")
    assert answer.status == 200
    assert answer.json["node_name"] == f"{ENV}/recipe_runner"
    assert f"{ENV}/start_recipe" in answer.json["srvs"]
    assert all(isinstance(answer.json[key], list) for key in ("pubs", "subs", "srvs"))
    refused(await service.get("/node/no/such"), 404)


# CSV export, and the database


def query(*key: str) -> str:
    start, end = json.dumps([ENV, *key]), json.dumps([ENV, *key, {}])
    return f"group_level=4&startkey={start}&endkey={end}".replace(" ", "").replace('"', "%22")


@pytest.mark.parametrize("slash", ["/", "//"])
async def test_points_are_exported_as_csv(service: Service, slash: str) -> None:
    place = f"{slash}{service.home.points}/_design/svc{slash}_list/csv/by_variable"
    async with asyncio.timeout(PATIENCE_S):
        while True:
            whole = await service.at("GET", f"{place}?{query('measured')}")
            rows = list(csv.DictReader(io.StringIO(whole.body.decode())))
            if {"air_temperature", "air_carbon_dioxide"} <= {row["variable"] for row in rows}:
                break
            await asyncio.sleep(0.1)
    assert whole.status == 200
    assert whole.headers["Content-Type"].startswith("text/csv")
    assert {"timestamp", "variable", "value"} == rows[0].keys()
    one = await service.at("GET", f"{place}?{query('measured', 'air_carbon_dioxide')}")
    assert {row["variable"] for row in csv.DictReader(io.StringIO(one.body.decode()))} == {
        "air_carbon_dioxide"
    }


async def test_the_database_answers_its_own_endpoints(service: Service) -> None:
    assert (await service.at("GET", f"/{service.home.points}/_all_docs?limit=1")).status == 200
    assert (await service.at("GET", f"/{service.home.recipes}/demo_day")).json["_id"] == "demo_day"

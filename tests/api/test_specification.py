"""Every row of the specification of the REST API 0.0.1, asked of the whole program."""

import asyncio
import csv
import io
import json

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from support.couch_client import Answer
from support.program import home_on, started
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = "/_svc/api/0.0.1"
ENV = "environment_1"
LUX = f"{ENV}/desired/light_illuminance"
CO2 = f"{ENV}/measured/air_carbon_dioxide"
KP = f"{ENV}/controllers/air_carbon_dioxide/kp"


class Service:
    """The program as its clients meet it: at a base address, with JSON bodies."""

    def __init__(self, program, home, session):
        self.program = program
        self.home = home
        self._session = session

    async def at(self, method, path, **options):
        """The answer at a path below the base address."""
        url = URL(self.program.address + path, encoded=True)
        async with self._session.request(method, url, **options) as response:
            return Answer(response.status, response.headers.copy(), await response.read())

    async def get(self, path):
        return await self.at("GET", ROOT + path)

    async def post(self, path, body):
        headers = {"Content-Type": "application/json"}
        return await self.at("POST", ROOT + path, data=json.dumps(body), headers=headers)

    def stream(self, topic):
        return self._session.get(f"{self.program.address}{ROOT}/topic_stream/{topic}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory, database_server):
    data = tmp_path_factory.mktemp("growd")
    async with (
        home_on(database_server, shared=True) as home,
        started(data, "--profile", "sim", *home.arguments) as program,
    ):
        await program.until_there(f"{home.recipes}/demo_day", home.headers)
        yield program, home


@pytest_asyncio.fixture(loop_scope="module")
async def service(running):
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(headers=running[1].headers, timeout=timeout) as session:
        yield Service(*running, session)


def named(answer):
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
async def test_a_list_has_all_names(service, path, member):
    assert member in named(await service.get(path))
    for other in (f"{path}/", f"/{path}", f"/{path}//"):
        assert named(await service.get(other)) == named(await service.get(path))
    for prefix in ("/" + ROOT, "//_svc//api/0.0.1"):
        assert named(await service.at("GET", prefix + path)) == named(await service.get(path))
    assert (await service.post(path, {})).status == 405


@pytest.mark.parametrize(
    "path", [f"/param/{KP}", f"/service/{ENV}/start_recipe", f"/topic/{LUX}", f"/node/{ENV}/recipe_runner"]
)
async def test_doubled_and_trailing_slashes_mean_the_same(service, path):
    plain = await service.get(path)
    assert plain.status == 200
    assert plain.headers["Content-Type"] == "application/json"
    for other in (f"{path}/", f"/{path}", path.replace("/", "//"), path.replace(f"/{ENV}", f"/%2F{ENV}")):
        answer = await service.get(other)
        assert (answer.status, answer.json.keys()) == (200, plain.json.keys())
    for other in ("/param/", "/param//", "/param/%2F"):
        assert (await service.post(f"{other}my_own/", {"value": other})).json == {"result": other}
        assert (await service.get("/param/my_own")).json == {"result": other}


# Each resource


async def test_a_recipe_is_started(service):
    start, stop = f"/service/{ENV}/start_recipe", f"/service/{ENV}/stop_recipe"
    for body in ({"recipe_id": "demo_day"}, ["demo_day"]):
        answer = await service.post(start, body)
        assert (answer.status, answer.json["success"]) == (200, True), answer.body
        assert isinstance(answer.json["message"], str)
        assert (await service.get(f"/param/{ENV}/current_recipe")).json == {"result": "demo_day"}
        again = await service.post(start, body)
        assert (again.status, again.json["success"]) == (400, False)
        assert again.json.keys() >= {"ERROR", "error", "reason"}
        assert (await service.post(stop, None)).json["success"] is True
    assert (await service.post(stop, {})).status == 400


async def test_a_desired_value_is_published_and_streamed(service):
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


# CSV export, and the database


def query(*key):
    start, end = json.dumps([ENV, *key]), json.dumps([ENV, *key, {}])
    return f"group_level=4&startkey={start}&endkey={end}".replace(" ", "").replace('"', "%22")


@pytest.mark.parametrize("slash", ["/", "//"])
async def test_points_are_exported_as_csv(service, slash):
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
    variables = {row["variable"] for row in csv.DictReader(io.StringIO(one.body.decode()))}
    assert variables == {"air_carbon_dioxide"}
    assert (await service.at("GET", f"/{service.home.points}/_all_docs?limit=1")).status == 200

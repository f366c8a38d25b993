"""`growd import openag`: documents of openag_brain in all their forms, imported once."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from growd.recipes.findings import errors
from growd.recipes.interpreter import FORMATS, check
from growd.runtime.clock import EARLIEST
from growd.store.rollups.document import Rollup, RollupSeries, rollup_id
from growd_analysis.openag.forms import Conversion, OddDocumentError
from growd_analysis.openag.sources import SourceError, of_couchdb, of_file
from support.chambers import growd, places
from support.couch_client import install_design
from support.http_server import serving_http

EC = "water_electrical_conductivity"
POINT = {
    "_id": "1474484000.25-123",
    "_rev": "1-967a00dff5e02add41819138abb3284d",
    "environment": "environment_1",
    "variable": "air_temperature",
    "is_desired": False,
    "is_manual": False,
    "value": 21.5,
    "timestamp": 1474484000.25,
}
STORED = {name: value for name, value in POINT.items() if name != "_rev"}
RECIPE = {
    "_id": "r",
    "format": "simple",
    "operations": [[0, "air_temperature", 24], [60, "air_temperature", 22]],
}


def point(**members):
    return POINT | members


def without(*names):
    return {name: value for name, value in POINT.items() if name not in names}


@pytest.mark.parametrize(
    ("document", "members"),
    [
        (POINT, {}),
        (point(timestamp="1474484000.25"), {}),
        (point(timestamp="2016-09-21T18:53:20.250Z"), {}),
        (point(timestamp=1474484000250), {}),
        (without("timestamp"), {}),
        (without("is_desired", "is_manual"), {}),
        (point(is_desired="True"), {"is_desired": True}),
        (point(is_desired=1), {"is_desired": True}),
        (point(value="21.5"), {}),
        (point(value="None"), {"value": None}),
        (point(value=None), {"value": None}),
        (point(value=True), {"value": True}),
        (point(variable=EC, value=1_500), {"variable": EC, "value": 1.5}),
        (point(variable="recipe_start", value="7"), {"variable": "recipe_start", "value": "7"}),
        (
            without("is_desired") | {"variable": "recipe_end", "value": "r"},
            {"variable": "recipe_end", "value": "r", "is_desired": True},
        ),
        (point(variable="temp"), {"variable": "air_temperature"}),
        (point(environment="old"), {"environment": "new"}),
        (point(_attachments={"a": {"stub": True}}), {}),
        (point(more=[1]), {"more": [1]}),
    ],
)  # fmt: skip
def test_old_forms_of_points_are_corrected(document, members):
    conversion = Conversion({"old": "new"}, {"temp": "air_temperature"})
    kind, converted = conversion.converted(document)
    assert kind == "point"
    assert converted == STORED | members
    text = {name: value for name, value in document.items() if name != "_rev"}
    assert bool(+conversion.corrected) == (json.dumps(converted) != json.dumps(text))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([1], "no JSON object"),
        ({"a": 1}, "no JSON object with an _id"),
        ({"_id": "a", "other": 1}, "neither a point nor a recipe"),
        (without("environment"), "no environment"),
        (without("value"), "no value"),
        (point(variable=""), "no variable"),
        (point(value=[1]), "list or an object"),
        (point(value="warm"), "value is not a number"),
        (point(value="inf"), "not a finite number"),
        (point(value=float("nan")), "not finite"),
        (point(is_desired="perhaps"), "is_desired is not true or false"),
        (point(timestamp="yesterday"), "timestamp is not a time"),
        (point(timestamp=-1), "timestamp is not a time"),
        (point(timestamp=True), "timestamp is not a time"),
        (point(timestamp=10**400), "timestamp is not a time"),
        (point(timestamp=9_480_000_500), "timestamp is in the future"),
        (point(timestamp=600.5), "timestamp is before 2000"),
        (point(value=10**400), "not a finite number"),
        (without("timestamp") | {"_id": "a"}, "no timestamp"),
        (point(_deleted=True), "deleted"),
    ],
)
def test_odd_documents_are_rejected_by_kind(document, reason):
    conversion = Conversion({"environment_1": "lab"}, oldest=EARLIEST, newest=4e9)
    with pytest.raises(OddDocumentError, match=reason):
        conversion.converted(document)
    assert not conversion.corrected


DAY = {"hours": 16, "light_intensity_red": 1, "air_temperature": 24}
NIGHT = {"hours": 8, "light_intensity_red": 0, "air_temperature": 20}
OLD_PHASED = {
    "_id": "old", "format": "phased", "version": "1.0",
    "operations": [{"cycles": 2, "name": "germination", "day": DAY, "night": NIGHT}],
}  # fmt: skip
"""As openag_brain had them before its flexformat."""


def test_days_and_nights_of_older_recipes_become_cycles_of_phases():
    assert [str(each) for each in errors(check(OLD_PHASED))] != []
    kind, recipe = Conversion().converted(OLD_PHASED)
    assert (kind, errors(check(recipe))) == ("recipe", [])
    plan = FORMATS["phased"].plan(recipe)
    assert plan.duration == 2 * 86_400
    values = [plan.set_points(hour * 3_600.0, 0.0) for hour in (0, 15, 17, 23, 24, 47)]
    assert [value["air_temperature"] for value in values] == [24, 24, 20, 20, 24, 20]
    assert [value["light_intensity_red"] for value in values] == [1, 1, 0, 0, 1, 0]


def test_minutes_of_a_flush_become_its_end():
    flush = [[0, 0], [10, 60], [20, 0], [3_600, 2], [3_700, 5], [9_000, 0]]
    operations = [[at, "air_flush_on", value] for at, value in flush]
    recipe = RECIPE | {
        "operations": [[0, "air_temperature", 24], *operations, [9_000, "air_temperature", 24]]
    }
    assert "minutes" in str(errors(check(recipe))[-1])
    _, converted = Conversion().converted(recipe)
    assert errors(check(converted)) == []
    course = [(at, value) for at, variable, value in converted["operations"] if variable == "air_flush_on"]
    assert course == [(0, 0), (10, 1), (20, 0), (3_600, 1), (3_700, 1), (4_000, 0), (9_000, 0)]
    _, same = Conversion().converted(RECIPE)
    assert same == RECIPE


@pytest.mark.parametrize(
    ("operations", "place"),
    [
        ([OLD_PHASED["operations"][0] | {"day": 5}], "/operations/0/day/hours"),
        ([OLD_PHASED["operations"][0] | {"night": {"hours": "8"}}], "/operations/0/night/hours"),
        (
            [OLD_PHASED["operations"][0], OLD_PHASED["operations"][0] | {"cycles": "3"}],
            "/operations/1/cycles",
        ),
        ([5], "/operations/0"),
        ({}, "/operations"),
        ([], "/operations"),
    ],
)
def test_an_odd_older_recipe_is_rejected_with_the_place(operations, place):
    with pytest.raises(OddDocumentError, match=f"errors: {place}: must be "):
        Conversion().converted(OLD_PHASED | {"operations": operations})


def test_odd_operations_stay_as_they_are():
    document = RECIPE | {"operations": [[1], [0, "air_flush_on", 60]]}
    _, converted = Conversion().converted(document)
    assert converted == document
    assert errors(check(converted))


def test_impossible_values_and_unknown_variables_are_counted():
    conversion = Conversion(is_conductivity_in_us=False)
    for document in (
        point(value=999),
        point(value="warm", variable="air_temprature"),
        point(value=None),
        point(variable="recipe_start", value="r"),
        point(variable=EC, value=1.5),  # in mS/cm already
    ):
        assert conversion.converted(document).document["value"] == document["value"]
    assert conversion.doubtful == {
        "value of air_temperature that is not from -40 to 85": 1,
        "unknown variable air_temprature": 1,
    }


@asynccontextmanager
async def prepared(server, folder):
    """Databases with growd's validation."""
    async with places(server, folder) as place:
        await place.make()
        for name in ("environmental_data_point", "recipes", "environment"):
            await install_design(place.couch, f"/{place.names[name]}", name)
        yield place


def imported(place, *arguments, keep_days=0):
    keeping = ("--set", f"retention.keep_days={keep_days}")
    return growd("import", "openag", *arguments, *place.settings(), *keeping)


async def stored(place, folder):
    rows = (await place.couch("GET", f"/{place.names[folder]}/_all_docs", include_docs=True)).json["rows"]
    return [
        {name: value for name, value in row["doc"].items() if name != "_rev"}
        for row in rows
        if not row["id"].startswith("_")
    ]


def dump(documents):
    """As CouchDB answers `_all_docs?include_docs=true`."""
    rows = [
        json.dumps({"id": each["_id"], "key": each["_id"], "value": {}, "doc": each}) for each in documents
    ]
    return f'{{"total_rows":{len(rows)},"offset":0,"rows":[\r\n' + ",\r\n".join(rows) + "\r\n]}\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")


FORMS = {
    "answer": dump,
    "answer in one line": lambda documents: json.dumps(
        {"rows": [{"id": "x", "doc": each} for each in documents]}
    ),
    "indented": lambda documents: json.dumps({"docs": documents}, indent=2),
    "lines": lambda documents: "".join(json.dumps(each) + "\n" for each in documents),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_dump_may_have_several_forms(tmp_path, form):
    documents = [*(point(_id=f"{n}") for n in range(503)), RECIPE]
    await asyncio.to_thread(write, tmp_path / "dump", FORMS[form](documents))
    found = [document async for page in of_file(tmp_path / "dump") for document in page.documents]
    assert found == documents


async def test_a_dump_is_imported_once(database_server, tmp_path):
    documents = [point(_id=f"{1474484000 + n}.5-{n}", value=n) for n in range(503)]
    await asyncio.to_thread(write, tmp_path / "dump", dump([*documents, RECIPE, {"_id": "_design/openag"}]))
    async with prepared(database_server, tmp_path) as place:
        dry = await imported(place, str(tmp_path / "dump"), "--dry-run")
        assert "503 points would be imported, 0 there already" in dry.output
        assert await stored(place, "environmental_data_point") == []
        first = await imported(place, str(tmp_path / "dump"))
        assert first.exit_code == 0, first.output
        assert "503 points imported, 0 there already\n1 recipe imported" in first.output
        assert "1 design document left out" in first.output
        again = await imported(place, str(tmp_path / "dump"))
        assert "0 points imported, 503 there already" in again.output
        found = await stored(place, "environmental_data_point")
        assert found == [STORED | {"_id": each["_id"], "value": each["value"]} for each in documents]
        assert await stored(place, "recipes") == [RECIPE]


async def test_odd_documents_are_counted_and_written_to_a_file(database_server, tmp_path):
    """Also times of a clock that was never set, which can be asked for."""
    odd = [
        point(_id="a", value="warm"),
        {"_id": "b", "x": 1},
        {"_id": "c", "format": "simple", "operations": "none"},
        point(_id="unset", timestamp=600.5),
        point(_id="ahead", timestamp=time.time() + 90_000),
    ]
    lines = FORMS["lines"]([point(_id="good"), *odd]) + "{torn\n"
    await asyncio.to_thread(write, tmp_path / "dump", lines)
    async with prepared(database_server, tmp_path) as place:
        done = await imported(place, str(tmp_path / "dump"), "--rejected", str(tmp_path / "odd"))
        assert [each["_id"] for each in await stored(place, "environmental_data_point")] == ["good"]
        await imported(place, str(tmp_path / "dump"), "--any-time")
        found = await stored(place, "environmental_data_point")
    assert done.exit_code == 0
    assert "1 point imported" in done.output
    assert "rejected: value is not a number: 1" in done.output
    assert "rejected: the recipe c has errors: " in done.output
    assert "6 documents rejected: they are in" in done.output
    rejected = [json.loads(line)["document"] for line in (tmp_path / "odd").read_bytes().splitlines()]
    assert rejected == [*odd, "{torn"]
    assert [each["_id"] for each in found] == ["ahead", "good", "unset"]


@asynccontextmanager
async def couchdb_1(databases):
    """A server that has only what CouchDB 1.x has, behind a login."""

    async def answer(request):
        if request.headers.get("Authorization") != "Basic b2xkOnB3":
            return web.json_response({"error": "unauthorized", "reason": "log in"}, status=401)
        documents = databases.get(request.match_info["database"])
        if documents is None:
            return web.json_response({"error": "not_found", "reason": "no_db_file"}, status=404)
        if request.match_info.get("rest") is None:
            return web.json_response({"db_name": "x", "doc_count": len(documents)})
        assert request.match_info["rest"] == "_all_docs"
        assert {*request.query} <= {"include_docs", "limit", "startkey"}
        start = json.loads(request.query.get("startkey", '""'))
        rows = [{"id": each["_id"], "doc": each} for each in sorted(documents, key=lambda each: each["_id"])]
        rows = [row for row in rows if row["id"] >= start][: int(request.query["limit"])]
        return web.json_response({"rows": rows})

    app = web.Application()
    app.router.add_get("/{database}", answer)
    app.router.add_get("/{database}/{rest}", answer)
    async with serving_http(app) as url:
        yield url.replace("//", "//old:pw@")


async def test_a_couchdb_of_the_first_version_is_imported(database_server, tmp_path):
    old = {
        "environmental_data_point": [point(_id=f"{1474484000 + n}.5-{n}") for n in range(1_100)],
        "recipes": [RECIPE, {"_id": "_design/openag"}],
        "environment": [{"_id": "environment_1", "name": "Lab"}],
    }
    async with prepared(database_server, tmp_path) as place, couchdb_1(old) as address:
        done = await imported(place, address, "--environment", "environment_1=lab")
        assert done.exit_code == 0, done.output
        found = await stored(place, "environmental_data_point")
        assert len(found) == 1_100
        assert {each["environment"] for each in found} == {"lab"}
        assert await stored(place, "environment") == [{"_id": "lab", "name": "Lab"}]
        for source, status, words in (
            (address.replace("pw@", "no@"), 1, "401"),
            ("missing", 1, "missing can't be read"),
            ("http://127.0.0.1:9", 3, "run the same command again"),
        ):
            wrong = await imported(place, source)
            assert (wrong.exit_code, words in wrong.output) == (status, True), wrong.output
            assert "no@" not in wrong.output


async def test_points_that_would_be_deleted_are_refused_until_their_rollups_suffice(
    database_server, tmp_path
):
    new = point(_id="a", timestamp=time.time() - 3600)
    kept = [point(_id="manual", is_manual=True), point(_id="set point", is_desired=True)]
    await asyncio.to_thread(write, tmp_path / "dump", dump([new, *kept, point(_id="old")]))
    async with prepared(database_server, tmp_path) as place:
        dry = await imported(place, str(tmp_path / "dump"), "--dry-run", keep_days=90)
        assert dry.exit_code == 0, dry.output
        assert "rollups: 1 (refused without --old-points=rollups)" in dry.output
        refused = await imported(place, str(tmp_path / "dump"), keep_days=90)
        assert refused.exit_code == 1
        assert "1 point of 4 that are next, the first of 2016-09-21, are older than 90 days" in refused.output
        assert "[retention] keep_days = 0" in refused.output
        assert await stored(place, "environmental_data_point") == []
        done = await imported(place, str(tmp_path / "dump"), "--old-points=rollups", keep_days=90)
        assert "4 points imported" in done.output, done.output
        assert "keep their rollups: 1\n" in done.output


async def test_points_that_a_sealed_rollup_may_have_are_not_imported_again(database_server, tmp_path):
    series = RollupSeries("environment_1", "measured", "air_temperature")
    hour = 1474484000 // 3600 * 3600
    rollup = Rollup(
        id=rollup_id(series, 300, hour), **series._asdict(), width=300, start=hour, at=[1, 3], min=[1, 1],
        mean=[1, 1], max=[1, 1], last=[1, 1], last_at=[hour + 300, hour + 900], count=[1, 1], is_sealed=True,
    )  # fmt: skip
    points = [point(_id=str(n), timestamp=hour + n * 100) for n in range(12)]
    manual = point(_id="manual", timestamp=hour + 300, is_manual=True)
    await asyncio.to_thread(write, tmp_path / "dump", dump([*points, manual]))
    async with prepared(database_server, tmp_path) as place:
        await place.write("environmental_rollup", [rollup.document()])
        done = await imported(place, str(tmp_path / "dump"))
        ids = {each["_id"] for each in await stored(place, "environmental_data_point")}
    assert ids == {"0", "1", "2", "6", "7", "8", "manual"}
    assert "may be counted in them already: 6" in done.output


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"id": str(n), "doc": point(_id=str(n))} for n in range(501)], "repeats rows"),
        ([5], "without an id"),
    ],
)
async def test_a_server_that_answers_nonsense_ends_the_import(rows, words):
    class Server:
        async def exists(self, _):
            return True

        async def all_docs(self, *_, **__):
            return rows

    with pytest.raises(SourceError, match=words):
        async for _ in of_couchdb(Server()):
            pass

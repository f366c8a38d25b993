"""Bootstrap and shipping against a real database: the embedded one, or the CouchDB of GROWD_TEST_COUCHDB."""

import asyncio
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import aiohttp
import pytest

from growd.bus import Bus
from growd.config import Config
from growd.store.bootstrap import bootstrap, read_design, supports_last
from growd.store.couch import Couch
from growd.store.database import Database
from growd.store.embedded import EmbeddedDatabase
from growd.store.errors import CouchRefusedError, CouchUnavailableError, DesignFileError
from growd.store.history.query import HistoryQuery
from growd.store.points import PointMaker
from growd.store.shipper import Shipper
from growd.wiring.database import configured_history
from support.clock import ManualClock
from support.couch_client import FILES
from support.outbox import add_durably
from support.own_databases import own_databases
from support.rollups import Killed, KilledCouch
from support.running import in_tasks
from support.stand_in import StandIn

VALIDATE = """
function (newDoc, oldDoc, userCtx) {
  if (newDoc.value === 'forbidden') { throw({forbidden: 'this value is not allowed'}); }
  if (newDoc.value === 'unauthorized') { throw({unauthorized: 'not for you'}); }
  if (newDoc.value === 'crash') { return newDoc.no.such.member; }
}
"""


@pytest.fixture
async def own(database_server):
    async with own_databases(database_server) as own:
        yield own


@pytest.fixture
def couch(own):
    return own[0]


@pytest.fixture
def databases(own):
    return own[1]


MAKER = PointMaker("0123456789ab")


def point(value, at=1_700_000_000.0):
    return MAKER.make("environment_1", "air_humidity", value, at)


def write(folder, files):
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


async def test_bootstrap_makes_databases_designs_under_the_configured_name_and_samples(couch, databases):
    await bootstrap(couch, FILES, "openag", databases)
    assert await couch.get(databases.points, "_design/svc") is None
    design = await couch.get(databases.points, "_design/openag")
    assert {"by_variable", "by_timestamp", "all_vars"} <= design["views"].keys()
    assert ("csv" in design["lists"], "by_variable" in design["filters"]) == (True, True)
    events = await couch.get(databases.events, "_design/openag")
    assert events["lists"] == design["lists"]
    assert await couch.exists(databases.environment)
    recipes = await couch.all_docs(databases.recipes, include_docs=True)
    samples = [row["doc"] for row in recipes if not row["id"].startswith("_design/")]
    assert len(samples) == 4
    assert {sample["format"] for sample in samples} <= {"simple", "flexformat", "phased"}


async def test_bootstrap_again_replaces_designs_that_differ_and_nothing_else(couch, databases):
    async def rows():
        await bootstrap(couch, FILES, "svc", databases)
        return [await couch.all_docs(name) for name in (databases.points, databases.recipes)]

    before = await rows()
    assert await rows() == before
    sample = next(row for row in before[1] if not row["id"].startswith("_design/"))
    deleted = {"_id": sample["id"], "_rev": sample["value"]["rev"], "_deleted": True}
    await couch.bulk_docs(databases.recipes, [deleted])
    design = await couch.get(databases.points, "_design/svc")
    await couch.put(databases.points, design | {"lists": {"csv": "function () { return 'mine'; }"}})
    await rows()
    after = await couch.get(databases.points, "_design/svc")
    assert after | {"_rev": ""} == design | {"_rev": ""}
    assert await couch.get(databases.recipes, sample["id"]) is None  # the user deleted it


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
async def test_a_setup_interrupted_at_any_request_is_completed(couch, databases, is_sent):
    at, is_complete = 0, False
    while not is_complete:
        at += 1
        with suppress(Killed):
            await bootstrap(KilledCouch(couch, at, is_sent=is_sent), FILES, "svc", databases)
            is_complete = True
    assert at > 10
    has_last = supports_last(await couch.server())
    for folder, name in databases.names_by_folder().items():
        expected = await asyncio.to_thread(read_design, FILES / "design" / folder, "svc", has_last)
        assert expected.items() <= (await couch.get(name, "_design/svc")).items()


async def test_a_repeated_answer_is_not_taken_for_the_next_one(tmp_path):
    async def serve(reader, writer):
        repeated = b""
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            answer = b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n{"of": "%s"}' % (len(path) + 10, path)
            writer.write(repeated + answer)
            repeated = answer

    async with (
        StandIn(serve) as server,
        Database(files=FILES, data=tmp_path, design_name="svc", url=server.url) as database,
    ):
        for name in ("lettuce", "basil", "mint"):
            assert f"/{name}?" in (await database.recipe(name))["of"]


async def test_the_newest_point_is_reduced_by_what_the_server_has(couch, databases, database_server):
    await bootstrap(couch, FILES, "svc", databases)
    await couch.bulk_docs(databases.points, [point(number, 1e9 + number).document() for number in range(5)])
    design = await couch.get(databases.points, "_design/svc")
    server = await couch.server()
    assert supports_last(server) != database_server.is_embedded
    assert (design["views"]["by_variable"]["reduce"] == "_last") == supports_last(server)
    (row,) = await couch.view(databases.points, "svc", "by_variable", group_level=3)
    assert row["key"] == ["environment_1", "measured", "air_humidity"]
    assert row["value"]["value"] == 4


async def test_bootstrap_leaves_the_security_of_databases_alone(couch, databases, database_server):
    await bootstrap(couch, FILES, "svc", databases)
    if database_server.is_embedded:
        assert not (await couch.get(databases.points, "_security") or {}).get("members", {}).get("names")
        return
    async with aiohttp.ClientSession() as session:
        with pytest.raises(CouchRefusedError) as caught:
            await Couch(session, database_server.url).get(databases.points, "_design/svc")
    assert caught.value.status == 401
    # The server's own default for new databases: admins only.
    security = await couch.get(databases.points, "_security")
    assert security == {"members": {"roles": ["_admin"]}, "admins": {"roles": ["_admin"]}}
    assert await couch.exists("_users")
    assert await couch.exists("_replicator")


async def test_points_arrive_as_they_were_made_each_once(couch, databases, outbox):
    await bootstrap(couch, FILES, "svc", databases)
    made = [point(value, 1_700_000_000.0 + at) for at, value in enumerate([0, 0.0, 1e-9, True, "text", None])]
    shipper = Shipper(couch, outbox, ManualClock(), database=databases.points)
    for _ in range(2):  # again, as if the answer got lost
        await add_durably(outbox, made)
        assert await shipper.drain(20) == 0
    assert await outbox.rejected() == []
    rows = await couch.all_docs(databases.points, startkey="0", endkey="9", include_docs=True)
    revisions = [row["doc"].pop("_rev") for row in rows]
    assert all(revision.startswith("1-") for revision in revisions)
    assert {row["id"]: row["doc"] for row in rows} == {one.id: one.document() for one in made}


async def test_a_point_refused_by_the_validation_is_rejected_and_the_others_are_stored(
    couch, databases, outbox, tmp_path
):
    folder = write(tmp_path / "couchdb", {"design/environmental_data_point/validate_doc_update.js": VALIDATE})
    await bootstrap(couch, folder, "svc", databases)
    values = [1, "forbidden", 2, "unauthorized", 3, "crash", 4]
    await add_durably(outbox, [point(value, 1e9 + at) for at, value in enumerate(values)])
    shipper = Shipper(couch, outbox, ManualClock(), database=databases.points)
    for _ in range(10):  # a crash of the validation is retried a few times
        if await shipper.drain(20) == 0:
            break
    assert outbox.sendable == 0
    rows = await couch.all_docs(databases.points, startkey="0", endkey="9", include_docs=True)
    assert [row["doc"]["value"] for row in rows] == [1, 2, 3, 4]
    reasons = {aside.point.value: aside.reason for aside in await outbox.rejected()}
    assert reasons.keys() == {"forbidden", "unauthorized", "crash"}
    assert "this value is not allowed" in reasons["forbidden"]


async def test_the_shipper_and_the_records_of_runs_set_it_up_one_after_the_other(tmp_path, monkeypatch):
    steps = []

    async def set_up(*_):
        steps.append("begins")
        await asyncio.sleep(0)
        steps.append("ends")

    monkeypatch.setattr("growd.store.database.bootstrap", set_up)
    async with Database(files=FILES, data=tmp_path, design_name="svc", url="http://127.0.0.1:1") as database:
        await asyncio.gather(database.prepare(), database.prepare())
    assert steps == ["begins", "ends"] * 2


async def test_waiting_for_the_embedded_server_ends_with_an_error(outbox, tmp_path, monkeypatch):
    monkeypatch.setattr("growd.store.database.READY_S", 0.0)
    clock = ManualClock()
    async with Database(files=FILES, data=tmp_path, design_name="svc") as database:  # it is not started
        shipper = Shipper(database.couch, outbox, clock, database="db", prepare=database.prepare)
        async with in_tasks(shipper):
            await clock.until(lambda: shipper.fault.failures)
    assert str(shipper.fault) == "the embedded database has not come up within 0 s"


async def test_a_failed_start_of_the_embedded_server_is_the_reason_of_each_error(tmp_path):
    node = str(tmp_path / "node")
    async with Database(files=FILES, data=tmp_path, design_name="svc", node=node) as database:
        with pytest.raises(CouchUnavailableError, match=r"no database is running$"):
            await database.stranger.get("db", "any")
        async with in_tasks(database):
            reason = f"no database is running: .* can't be started with {node}: No such file or directory"
            await ManualClock().until(lambda: database.embedded.fault)
            for client in (database.couch, database.stranger):
                with pytest.raises(CouchUnavailableError, match=reason):
                    await client.get("db", "any")


async def test_what_waits_for_the_embedded_server_ends_when_it_is_silent(tmp_path):
    async def serve(reader, writer):
        await reader.read()

    async with StandIn(serve) as hanging, Database(files=FILES, data=tmp_path, design_name="svc") as database:
        given_up = []
        database.on_silent = lambda: given_up.append(True)
        shipper = SimpleNamespace(reading=nullcontext)
        core = SimpleNamespace(
            config=Config(),
            database=database,
            storage=SimpleNamespace(shipper=shipper, holds_s=lambda _: 60.0),
            bus=Bus(ManualClock()),
        )
        query = HistoryQuery("environment_1", (), 0.0, 60.0, 2)
        async with configured_history(core) as history:

            async def ask():
                async with history.answering(query):
                    pass

            database.embedded._come_up(hanging.port)
            waiting = [asyncio.create_task(each) for each in (database.couch.get("db", "any"), ask())]
            await ManualClock().until(lambda: hanging.connections > 2)
            database.embedded._go_down()
            database.embedded.on_silent()
            for each in waiting:
                with pytest.raises(CouchUnavailableError, match="no database is running"):
                    await each
        assert given_up == [True]


async def test_reading_a_recipe_waits_for_the_embedded_server_to_start(tmp_path, monkeypatch):
    async with Database(files=FILES, data=tmp_path, design_name="svc") as database:  # it is not started yet

        async def up():
            monkeypatch.setattr(EmbeddedDatabase, "url", "http://127.0.0.1:1")
            database.prepared.set()
            return "http://127.0.0.1:1"

        async def get(*_, **__):
            return {"_id": "day"}

        monkeypatch.setattr(database.couch, "get", get)
        monkeypatch.setattr("growd.store.database.START_S", 0.0)
        with pytest.raises(CouchUnavailableError, match="it is not up yet; try again in some seconds"):
            await database.recipe("day")
        monkeypatch.setattr("growd.store.database.START_S", 60.0)
        monkeypatch.setattr(EmbeddedDatabase, "ready", lambda _: up())
        assert await database.recipe("day") == {"_id": "day"}


async def test_documents_come_and_go(couch, databases):
    assert not await couch.exists(databases.points)
    assert await couch.create(databases.points)
    assert not await couch.create(databases.points)
    assert await couch.get(databases.points, "a/b c") is None
    revision = await couch.put(databases.points, {"_id": "a/b c", "value": 1})
    assert await couch.put(databases.points, {"_id": "a/b c", "value": 2}) is None
    assert await couch.get(databases.points, "a/b c") == {"_id": "a/b c", "_rev": revision, "value": 1}
    outcomes = await couch.bulk_docs(databases.points, [{"_id": "a/b c"}, {"_id": "new"}])
    assert outcomes["a/b c"]["error"] == "conflict"
    assert outcomes["new"]["rev"].startswith("1-")


COUCHDB = {"version": "3.5.0", "vendor": {"name": "The Apache Software Foundation"}}


POUCHDB = {"version": "4.2.0", "vendor": {"name": "PouchDB authors", "version": "4.2.0"}}


def test_the_built_in_last_is_used_where_the_server_has_it():
    for version in ("3.5.0", "3.10.1", "4.0"):
        assert supports_last(COUCHDB | {"version": version})
    for version in ("3.4.9", "2.3.1", "next"):
        assert not supports_last(COUCHDB | {"version": version})
    for server in (POUCHDB, {"version": "3.5.0", "vendor": "x"}, {}):
        assert not supports_last(server)


def test_a_design_is_made_from_its_files(tmp_path):
    plain = "function (doc) { emit(3, 4); }"
    files = {
        "views/newest/map.js": "function (doc) { emit(1, 2); }\n",
        "views/newest/reduce.js": "function (k, v) { return v[0]; }\n",
        "views/newest/reduce.builtin": "_last\n",
        "views/plain/map.js": plain,
        "lists/csv.js": "function () {}",
        "filters/some.js": "function () { return true; }",
        "validate_doc_update.js": "function () {}",
        "options.json": '{"include_design": false}',
        "README.md": "not part of it",
    }
    folder = write(tmp_path / "design", files)
    for has_last, reduce in ((True, "_last"), (False, "function (k, v) { return v[0]; }")):
        newest = {"map": "function (doc) { emit(1, 2); }", "reduce": reduce}
        assert read_design(folder, "svc", has_last) == {
            "_id": "_design/svc",
            "language": "javascript",
            "views": {"newest": newest, "plain": {"map": plain}},
            "lists": {"csv": "function () {}"},
            "filters": {"some": "function () { return true; }"},
            "validate_doc_update": "function () {}",
            "options": {"include_design": False},
        }
    assert read_design(tmp_path / "nothing", "svc", has_last=True) is None


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("views/v/reduce.js", "x", r"map\.js can't be read"),
        ("options.json", "{", r"options\.json is not JSON"),
    ],
)
def test_an_unusable_design_file_is_named(tmp_path, name, text, reason):
    with pytest.raises(DesignFileError, match=reason):
        read_design(write(tmp_path, {name: text}), "svc", has_last=True)

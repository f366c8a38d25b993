"""Replication by the embedded server: documents of `_replicator`, and `_replicate` once."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import web

from support.couch_client import client_of
from support.database import start_node
from support.http_server import serving_http
from support.ports import held_port
from support.rows import each
from support.stand_in import StandIn
from support.tls_door import CA_FILE, door_to, tls_door_to
from support.waiting import until_found

SCHEDULER = "/_scheduler/docs/_replicator"
SETTINGS = "/_node/_local/_config/replicator"
VERIFY, CA_SETTING = f"{SETTINGS}/verify_ssl_certificates", f"{SETTINGS}/ssl_trusted_certificates_file"
PASSWORD = "hidden-word"
VALIDATION = "function (doc) { if (doc.n === 13) { throw({forbidden: 'unlucky'}); } }"


@pytest.fixture
async def copy(node):
    """The path of a database that does not exist yet."""
    path = f"/copy-{uuid4().hex}"
    yield path
    await node("DELETE", path)


@pytest.fixture
async def numbers(node, store):
    """The path of a database of four documents: 0 to 3."""
    await put_numbers(node, store, range(4))
    return store


@pytest.fixture
async def picky(node, store, copy):
    """The path of a database that refuses one of the documents 12 to 14 of `store`."""
    await put_numbers(node, store, range(12, 15))
    assert (await node("PUT", copy)).status == 201
    assert (await node("PUT", f"{copy}/_design/d", {"validate_doc_update": VALIDATION})).status == 201
    return copy


@pytest.fixture
async def begin(node):
    """Write a document of `_replicator`, which is deleted after the test. Returns its id."""
    names = []

    async def write(source, target, **more):
        names.append(f"test-{uuid4().hex}")
        body = job(source, target, continuous=True) | more
        assert (await node("PUT", f"/_replicator/{names[-1]}", body)).status == 201
        return names[-1]

    yield write
    for name in names:
        await delete(node, name)


@pytest.fixture
def closed_port():
    """A port of this machine that refuses connections."""
    with held_port() as port:
        yield port


def job(source, target, **more):
    ends = [end.removeprefix("/") if isinstance(end, str) else end for end in (source, target)]
    return {"source": ends[0], "target": ends[1], "create_target": True, **more}


@asynccontextmanager
async def refusing(body=b'{"error": "unauthorized", "reason": "wrong password"}'):
    """A database whose server refuses the login, and the connection of each request."""
    connections = []

    async def refuse(request):
        connections.append(request.transport)
        return web.Response(body=body, status=401)

    async with serving_http(refuse) as url:
        yield f"{url}/far", connections


async def put_numbers(node, database, numbers):
    docs = [{"_id": f"d{n}", "n": n} for n in numbers]
    assert (await node("POST", f"{database}/_bulk_docs", {"docs": docs})).status == 201


async def delete(node, name):
    present = await node("GET", f"/_replicator/{name}")
    if present.status == 200:
        assert (await node("DELETE", f"/_replicator/{name}", rev=present.json["_rev"])).status == 200


async def report(node, name, fits):
    """The state of a replication, as soon as it fits."""
    seen = {}

    async def does_fit():
        nonlocal seen
        seen = (await node("GET", f"{SCHEDULER}/{name}")).json
        return fits(seen)

    try:
        await until_found(does_fit)
    except TimeoutError:
        raise AssertionError(f"the replication did not come so far: {seen}") from None
    return seen


def figure(name, seen):
    """A figure of a report, None before the replication has begun."""
    return (seen.get("info") or {}).get(name)


async def until_state(node, name, state):
    return await report(node, name, lambda seen: seen.get("state") == state)


async def until_there(node, database, *names):
    async def are_there():
        rows = (await node("GET", f"{database}/_all_docs")).json.get("rows", [])
        return {*names} <= {row["id"] for row in rows}

    await until_found(are_there)


async def ids(node, database):
    return [row["id"] for row in (await node("GET", f"{database}/_all_docs")).json["rows"]]


async def replicate(node, body):
    answer = await node("POST", "/_replicate", body)
    assert answer.status == 200, answer.body
    assert answer.json["ok"] is True
    return dict(answer.json["history"][0])


# --- _replicate ---


async def test_a_database_is_copied_once(node, numbers, copy):
    history = await replicate(node, job(numbers, copy))
    assert (history["docs_read"], history["docs_written"], history["doc_write_failures"]) == (4, 4, 0)
    assert history["start_time"].endswith(" GMT")
    await put_numbers(node, numbers, range(4, 5))
    assert (await replicate(node, job(numbers, copy)))["docs_written"] == 1
    assert await ids(node, copy) == ["d0", "d1", "d2", "d3", "d4"]


@pytest.mark.parametrize("far_end", ["source", "target"])
async def test_attachments_deletions_and_conflicts_are_copied(node, store, copy, far_end):
    text = {"Content-Type": "text/plain"}
    assert (await node("PUT", f"{store}/doc/a.txt", b"hello", headers=text)).status == 201
    loser = {"_id": "doc", "_rev": f"1-{0:032}"}
    await node("POST", f"{store}/_bulk_docs", {"docs": [loser], "new_edits": False})
    rev = (await node("PUT", f"{store}/gone", {})).json["rev"]
    await node("DELETE", f"{store}/gone", rev=rev)
    ends = job(store, copy)
    await replicate(node, ends | {far_end: f"{node.url}/{ends[far_end]}"})
    assert (await node("GET", f"{copy}/gone")).json["reason"] == "deleted"
    assert (await node("GET", f"{copy}/doc/a.txt")).body == b"hello"
    original, other = [await node("GET", f"{path}/doc", conflicts=True) for path in (store, copy)]
    assert other.json == original.json
    assert other.json["_conflicts"] == [loser["_rev"]]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [({"doc_ids": ["d1", "none"]}, ["d1"]), ({"selector": {"n": {"$lt": 2}}}, ["d0", "d1"])],
)
async def test_chosen_documents_are_copied(node, numbers, copy, choice, expected):
    await replicate(node, job(numbers, copy, **choice))
    assert await ids(node, copy) == expected


async def test_documents_that_the_target_refuses_are_counted(node, store, picky):
    for target in (picky, node.url + picky):
        history = await replicate(node, job(store, target))
        assert (history["docs_read"] - history["docs_written"], history["doc_write_failures"]) == (1, 1)


async def test_missing_databases_are_named(node, numbers, copy):
    for source, target in ((numbers, copy), (copy, numbers), (numbers, node.url + copy)):
        answer = await node("POST", "/_replicate", job(source, target, create_target=False))
        assert (answer.status, answer.json["error"]) == (404, "db_not_found")
        assert copy[1:] in answer.json["reason"]
    assert (await node("GET", copy)).status == 404


@each(
    "body",
    [
        [],
        {},
        {"source": "a"},
        {"source": 5, "target": "a"},
        {"source": {"url": None}, "target": "a"},
        {"source": "", "target": "a"},
        {"source": "../a", "target": "a"},
        {"source": "ftp://host/a", "target": "a"},
        {"source": "http://", "target": "a"},
        {"source": {"url": "a", "headers": {"X": 5}}, "target": "a"},
        {"source": {"url": "http://a/b", "auth": {"basic": {"username": "u"}}}, "target": "a"},
        {"source": "a", "target": "b", "filter": "d/above"},
        {"source": "a", "target": "b", "create_target": 1},
        {"source": "a", "target": "b", "doc_ids": 5},
        {"source": "a", "target": "b", "selector": 5},
        {"source": "a", "target": "b", "connection_timeout": "long"},
    ],
)
async def test_a_malformed_request_is_refused(node, body):
    answer = await node("POST", "/_replicate", body)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert " must be " in answer.json["reason"]


@pytest.mark.parametrize("is_far", [True, False])
async def test_refused_documents_do_not_stop_a_continuous_replication(node, store, picky, begin, *, is_far):
    name = await begin(store, node.url + picky if is_far else picky)
    await put_numbers(node, store, range(15, 16))
    await until_there(node, picky, "d12", "d14", "d15")
    seen = await report(node, name, lambda seen: figure("docs_written", seen) == 3)
    assert (seen["state"], seen["info"]["doc_write_failures"]) == ("running", 1)


@pytest.mark.parametrize("more", [{"continuous": True}, {"cancel": True}])
async def test_a_continuous_replication_needs_a_document(node, numbers, more):
    answer = await node("POST", "/_replicate", job(numbers, numbers, **more))
    assert (answer.status, answer.json["error"]) == (501, "not_implemented")


async def test_a_server_that_does_not_answer_is_named(node, store, closed_port):
    body = job(store, f"http://name:{PASSWORD}@127.0.0.1:{closed_port}/other")
    answer = await node("POST", "/_replicate", body)
    assert (answer.status, answer.json["error"]) == (502, "bad_gateway")
    assert str(closed_port) in answer.json["reason"]
    assert PASSWORD not in answer.json["reason"]


@pytest.mark.parametrize("way", ["address", "auth", "headers"])
async def test_it_replicates_with_couchdb(node, couch, database_server, numbers, copy, *, way):
    """Both ways. Without GROWD_TEST_COUCHDB the other server is the embedded one itself."""
    far = f"/far-{uuid4().hex}"
    far_end = end(database_server, far, way)
    try:
        assert (await replicate(node, job(numbers, far_end)))["docs_written"] == 4
        assert await ids(couch, far) == ["d0", "d1", "d2", "d3"]
        await replicate(node, job(far_end, copy))
        assert await ids(node, copy) == ["d0", "d1", "d2", "d3"]
        if database_server.auth is not None:
            refused = await node("POST", "/_replicate", job(numbers, database_server.url + far))
            assert (refused.status, refused.json["error"]) == (401, "unauthorized")
    finally:
        await couch("DELETE", far)


def end(server, path, way):
    """A database as source or target, with the server's credentials in one of three ways."""
    name, password = server.auth or ("anybody", "anything")
    if way == "address":
        return server.url.replace("://", f"://{name}:{password}@") + path
    if way == "auth":
        return {"url": server.url + path, "auth": {"basic": {"username": name, "password": password}}}
    login = aiohttp.encode_basic_auth(name, password)
    return {"url": server.url + path, "headers": {"Authorization": login}}


@each("name", ["_replicator", "http://127.0.0.1:1/_replicator", "http://far/%5Freplicator//"])
async def test_documents_that_hold_passwords_are_not_copied(node, name):
    for ends in (job(name, "copy"), job("copy", {"url": name})):
        answer = await node("POST", "/_replicate", ends)
        assert (answer.status, answer.json["error"]) == (403, "forbidden")


# --- _replicator ---


async def test_the_database_exists_and_cannot_be_deleted(node):
    assert "_replicator" in (await node("GET", "/_all_dbs")).json
    assert (await node("PUT", "/_replicator")).status == 412
    assert (await node("DELETE", "/_replicator")).status == 501


@pytest.mark.parametrize("far_end", ["source", "target"])
async def test_later_documents_are_copied_until_its_document_is_deleted(node, numbers, copy, begin, far_end):
    ends = job(numbers, copy)
    name = await begin(**ends | {far_end: f"{node.url}/{ends[far_end]}"})
    await until_there(node, copy, "d0", "d1", "d2", "d3")
    await put_numbers(node, numbers, range(4, 5))
    await until_there(node, copy, "d4")
    seen = await report(node, name, lambda seen: figure("docs_written", seen) == 5)
    assert (seen["state"], seen["error_count"], seen["doc_id"]) == ("running", 0, name)
    assert (seen["info"]["revisions_checked"], seen["info"]["doc_write_failures"]) == (5, 0)
    await delete(node, name)
    await report(node, name, lambda seen: seen.get("error") == "not_found")
    await put_numbers(node, numbers, range(5, 6))
    await replicate(node, job(numbers, copy, doc_ids=["d0"]))
    assert "d5" not in await ids(node, copy)


async def test_a_changed_document_starts_its_replication_again(node, numbers, copy, begin):
    name = await begin(numbers, copy, selector={"n": {"$lt": 1}})
    await until_there(node, copy, "d0")
    doc = (await node("GET", f"/_replicator/{name}")).json
    await node("PUT", f"/_replicator/{name}", doc | {"selector": {"n": {"$gt": 2}}})
    await until_there(node, copy, "d3")
    docs = [{"_id": "of the first", "n": 0}, {"_id": "of the second", "n": 4}]
    await node("POST", f"{numbers}/_bulk_docs", {"docs": docs})
    await until_there(node, copy, "of the second")
    assert await ids(node, copy) == ["d0", "d3", "of the second"]


@pytest.mark.long
async def test_a_database_that_was_lost_gets_everything_again(node, numbers, copy, begin):
    name = await begin(numbers, f"{node.url}{copy}")
    await report(node, name, lambda seen: figure("through_seq", seen) == 4)
    await node("DELETE", copy)
    await node("PUT", copy)
    await put_numbers(node, numbers, range(4, 5))
    await until_there(node, copy, "d0", "d1", "d2", "d3", "d4")


async def test_a_replication_without_work_reports_its_checkpoint(node, numbers, copy, begin):
    for _ in range(2):
        name = await begin(numbers, copy, selector={"n": {"$gt": 7}})
        await report(node, name, lambda seen: figure("through_seq", seen) == 4)
        await delete(node, name)


async def test_a_replication_that_is_not_continuous_completes(node, numbers, copy, begin):
    name = await begin(numbers, copy, continuous=False)
    assert (await until_state(node, name, "completed"))["info"]["docs_written"] == 4


async def test_the_report_shows_no_credentials(node, numbers, closed_port, begin):
    address = f"http://x:{PASSWORD}@127.0.0.1:{closed_port}/there"
    name = await begin(numbers, {"url": address, "headers": {"X-Token": PASSWORD}})
    seen = await until_state(node, name, "crashing")
    assert seen["info"]["error"] == f"connect ECONNREFUSED 127.0.0.1:{closed_port}"
    assert (seen["source"], seen["target"]) == (numbers[1:], f"http://127.0.0.1:{closed_port}/there")
    answers = [await node("GET", path) for path in ("/_scheduler/docs", SCHEDULER, f"{SCHEDULER}/{name}")]
    assert name in {doc["doc_id"] for doc in answers[0].json["docs"]}
    assert all(PASSWORD.encode() not in answer.body for answer in answers)


async def test_a_wrong_login_is_shown_and_not_tried_again(node, numbers, begin):
    async with refusing() as (far, connections):
        name = await begin(numbers, far, create_target=False)
        seen = await until_state(node, name, "crashing")
    assert seen["info"] == {"error": "unauthorized: wrong password"}
    assert len(connections) == 1


@pytest.mark.parametrize("body", [b"", b"<html>"])
async def test_a_login_that_a_proxy_refuses_is_one_that_is_refused(node, numbers, begin, body):
    async with refusing(body) as (far, connections):
        seen = await until_state(node, await begin(numbers, far, create_target=False), "crashing")
    assert seen["info"] == {"error": f"unauthorized: {far.removesuffix('/far')} answers with status 401"}
    assert len(connections) == 1


async def test_a_malformed_document_is_reported_as_failed(node, begin):
    seen = await until_state(node, await begin("ftp://there/a", "copy"), "failed")
    assert "source must be" in seen["info"]["error"]
    seen = await until_state(node, await begin("nowhere", "copy"), "failed")
    assert "there is no database nowhere" in seen["info"]["error"]


async def test_a_deleted_database_is_reported_and_copied_again_when_it_is_back(node, numbers, copy, begin):
    name = await begin(numbers, copy)
    await until_there(node, copy, "d3")
    assert (await node("DELETE", copy)).status == 200
    seen = await until_state(node, name, "crashing")
    assert "was deleted" in seen["info"]["error"]
    doc = (await node("GET", f"/_replicator/{name}")).json
    await node("PUT", f"/_replicator/{name}", doc)
    await until_there(node, copy, "d0", "d1", "d2", "d3")


async def test_unknown_paths_are_not_found(node):
    for path in (f"{SCHEDULER}/nothing", "/_scheduler/jobs", f"{SETTINGS}/nothing", "/_node/_local/_stats"):
        answer = await node("GET", path)
        assert (answer.status, answer.json["error"]) == (404, "not_found")


# --- TLS ---


async def test_a_certificate_is_checked_when_the_settings_say_so(tmp_path):
    async with embedded_at(0, tmp_path) as node:
        await node("PUT", "/numbers")
        await put_numbers(node, "/numbers", range(4))
        async with tls_door_to(urlsplit(node.url).port or 0) as port:
            body = job("numbers", f"https://localhost:{port}/copy")
            assert (await replicate(node, body))["docs_written"] == 4
            assert (await node("PUT", VERIFY, "true")).json == ""
            refused = await node("POST", "/_replicate", body)
            assert (refused.status, "certificate" in refused.json["reason"]) == (502, True)
            assert (await node("PUT", CA_SETTING, "/no/such/file")).json == ""
            refused = await node("POST", "/_replicate", body)
            assert "can't read /no/such/file" in refused.json["reason"]
            assert (await node("PUT", CA_SETTING, str(CA_FILE))).json == "/no/such/file"
            assert (await replicate(node, body))["docs_written"] == 0
    async with embedded_at(0, tmp_path) as node:
        assert (await node("GET", CA_SETTING)).json == str(CA_FILE)
        assert (await node("GET", VERIFY)).json == "true"


async def test_settings_are_strings(tmp_path):
    async with embedded_at(0, tmp_path) as node:
        assert (await node("GET", VERIFY)).json == {"error": "not_found", "reason": "unknown_config_value"}
        for body in (True, "a\nb", b"true"):
            headers = {"Content-Type": "application/json"}
            answer = await node("PUT", VERIFY, body, headers=headers)
            assert (answer.status, answer.json["error"]) == (400, "bad_request")


# --- connections that fail ---


async def test_a_server_that_sends_nothing_is_given_up(node, store, begin, said):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        far = f"http://127.0.0.1:{mute.getsockname()[1]}/there"
        seen = await until_state(node, await begin(store, far, connection_timeout=200), "crashing")
    said(seen["info"]["error"])


@pytest.mark.parametrize("length", ["Content-Length: 9", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("breaks_off", [True, False])
async def test_half_an_answer_is_a_failure(node, store, begin, length, *, breaks_off):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n9\r\n{{".encode())
        if breaks_off:
            writer.close()

    async with StandIn(serve) as far:
        name = await begin(store, f"{far.url}/there", connection_timeout=100, create_target=False)
        await until_state(node, name, "crashing")


@pytest.mark.replication
async def test_a_quiet_feed_outlives_the_time_that_a_server_keeps_idle_connections(node, store, copy, begin):
    """Node's agent takes the time in `Keep-Alive` for a limit of the connection."""

    def keep_less(part):
        return part.replace(b"Keep-Alive: timeout=5", b"Keep-Alive: timeout=2")

    async with door_to(urlsplit(node.url).port or 80, change=keep_less) as port:
        await node("PUT", f"{store}/d0", {})
        name = await begin(f"http://127.0.0.1:{port}{store}", copy)
        await until_there(node, copy, "d0")
        async with node.open(
            "GET", f"{copy}/_changes", feed="continuous", since="now", heartbeat=2500
        ) as feed:
            assert await feed.content.readline() == b"\n"
        seen = (await node("GET", f"{SCHEDULER}/{name}")).json
        assert (seen["state"], seen["error_count"]) == ("running", 0)


@pytest.mark.replication
async def test_an_unused_connection_is_closed(node, store, begin):
    """A router may drop it silently, and the next request on it would get no answer."""
    async with refusing() as (far, connections):
        await begin(store, far, create_target=False)

        async def is_closed():
            return connections != [] and connections[0].is_closing()

        await until_found(is_closed)


# --- restarts ---


@pytest.fixture
def ports():
    """Two free ports of this machine."""
    with held_port() as one, held_port() as other:
        yield one, other


@asynccontextmanager
async def embedded_at(port, folder, *, kill=False):
    """An embedded server on that port, which goes on where one before it ended in the same folder."""
    process, url = await asyncio.to_thread(start, port, folder)
    try:
        async with client_of(url) as client:
            yield client
    finally:
        (process.kill if kill else process.terminate)()
        await asyncio.to_thread(process.communicate)


def start(port, folder):
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("a") as log:
        process = start_node("--data", str(folder / "data"), "--port", str(port), cwd=folder, stderr=log)
    return process, f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"


@pytest.mark.replication
async def test_it_survives_a_far_server_that_is_away_and_its_own_restart(tmp_path, ports):
    """The near port changes with each start. After it only missing revisions are compared."""
    away, far = ports
    async with embedded_at(0, tmp_path / "here") as node:
        await node("PUT", "/numbers")
        await put_numbers(node, "/numbers", range(100))
        async with embedded_at(far, tmp_path / "far") as other:
            await node("PUT", "/_replicator/up", job("numbers", f"{other.url}/copy", continuous=True))
            await report(node, "up", lambda seen: figure("through_seq", seen) == 100)
        await put_numbers(node, "/numbers", range(100, 250))
        seen = await until_state(node, "up", "crashing")
        assert str(far) in seen["info"]["error"]
        assert (seen["info"]["docs_written"], seen["info"]["through_seq"]) == (100, 100)
    async with embedded_at(away, tmp_path / "here") as node:
        seen = await until_state(node, "up", "crashing")
        checkpoint = (await node("GET", f"/numbers/_local/{seen['id']}")).json
        assert checkpoint["last_seq"] == 100
        async with embedded_at(far, tmp_path / "far") as other:
            seen = await report(node, "up", lambda seen: figure("through_seq", seen) == 250)
            assert (seen["state"], seen["info"]["revisions_checked"]) == ("running", 150)
            assert len(await ids(other, "/copy")) == 250
    lines = (tmp_path / "here" / "log").read_text().splitlines()
    failures = ["the replication up failed: " in line for line in lines]
    assert failures == [True, True, False]
    assert lines[-1] == "the replication up works again"
    assert (tmp_path / "far" / "log").read_text() == ""


@pytest.mark.kill
@pytest.mark.parametrize("direction", [pytest.param("up", marks=pytest.mark.nightly), "down"])
async def test_everything_arrives_once_though_the_server_is_killed_in_the_middle(tmp_path, direction):
    async with embedded_at(0, tmp_path / "far") as far:
        source = far if direction == "down" else None
        async with embedded_at(0, tmp_path / "here", kill=True) as node:
            source, target = (source, node) if source else (node, far)
            await source("PUT", "/a")
            await target("PUT", "/b")
            await put_numbers(source, "/a", range(1500))
            ends = ("a", f"{far.url}/b") if direction == "up" else (f"{far.url}/a", "b")
            await node("PUT", "/_replicator/r", job(*ends, continuous=True))

            async def has_begun():
                return bool((await target("GET", "/b")).json["doc_count"])

            await until_found(has_begun)
        async with embedded_at(0, tmp_path / "here") as node:
            source, target = (far, node) if direction == "down" else (node, far)
            await put_numbers(source, "/a", range(1500, 1510))

            async def has_all():
                return (await target("GET", "/b")).json["doc_count"] == 1510

            await until_found(has_all)
            rows = (await target("GET", "/b/_all_docs", include_docs=True, conflicts=True)).json["rows"]
            assert len(rows) == 1510
            assert all(row["value"]["rev"].startswith("1-") for row in rows)
            assert not any("_conflicts" in row["doc"] for row in rows)

"""The node `database` shows version, address and reachability of a real server."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from growd.bus import Bus
from growd.runtime.clock import RealClock
from growd.store import database_node
from growd.store.database import Database
from growd.store.database_node import DatabaseNode
from growd.store.errors import CouchUnavailableError
from support.http_server import serving_http
from support.program import started
from support.tls_door import CA_FILE, server_context


@asynccontextmanager
async def node_of(path, url):
    database = Database(files=path, data=path, design_name="svc", url=url, credentials=("user", "wrong"))
    async with database:
        yield DatabaseNode(Bus(RealClock()), database)


async def told(node):
    await node.node.prepare()
    return node.node.information()["database"]


async def test_a_real_server_tells_its_version_without_a_login(tmp_path, database_server):
    async with node_of(tmp_path, database_server.url) as node:
        answer = await told(node)
    assert answer.pop("version")
    assert answer == {"kind": "Apache CouchDB", "reachable": True, "address": database_server.url.rstrip("/")}


async def test_a_server_that_was_restarted_is_shown_as_a_note(tmp_path, monkeypatch, said):
    async with node_of(tmp_path, "") as node:
        information = node.node.information()
        assert (information["database"]["kind"], information["problems"]) == ("embedded", [])
        for count in ("hangs", "crashes"):
            with monkeypatch.context() as patched:
                patched.setattr(node._database.embedded, count, 2)
                (problem,) = node.node.information()["problems"]
            said(problem["text"])
            assert problem["is_note"]
            assert not problem.get("is_failure")


async def test_a_server_that_requires_a_login_is_reachable(tmp_path):
    seen = []

    async def refuse(request):
        seen.append(request.headers.get("Authorization"))
        return web.json_response({"error": "unauthorized"}, status=401)

    async with serving_http(refuse) as url, node_of(tmp_path, url.replace("://", "://user:wrong@")) as node:
        answer = await told(node)
    assert answer == {"kind": "Apache CouchDB", "reachable": True, "address": url}  # without its login
    assert seen == [None]  # CouchDB would count a wrong password


@pytest.mark.long
async def test_the_certificates_of_the_machine_verify_a_couchdb_behind_tls(tmp_path):
    """A daemon that needs none of them does not read them."""

    async def refuse(_):
        return web.json_response({"error": "unauthorized"}, status=401)

    async def asked(folder, **environment):
        async with (
            started(tmp_path / folder, "--set", f"couchdb.url={url}", environment=environment) as program,
            aiohttp.ClientSession() as session,
            session.get(f"{program.api}/node/database") as answer,
        ):
            return (await answer.json())["database"]

    async with serving_http(refuse, tls=server_context()) as url:  # each start waits for it for seconds
        trusted, untrusted = await asyncio.gather(asked("a", SSL_CERT_FILE=str(CA_FILE)), asked("b"))
    assert trusted["reachable"] is True
    assert untrusted["reachable"] is False
    assert "its certificate is invalid" in untrusted["reason"]


async def test_index_builds_are_shown_once_the_login_has_worked(tmp_path):
    task = {"type": "indexer", "database": "environmental_data_point", "design_document": "_design/svc"}
    tasks = [task | {"changes_done": 1, "total_changes": 4}]
    tasks.append(tasks[0] | {"database": "of_others"})

    async def answer(request):
        return web.json_response(tasks if request.path == "/_active_tasks" else {"version": "3.5.0"})

    async with serving_http(answer) as url, node_of(tmp_path, url) as node:
        assert "indexes" not in await told(node)
        node._database.prepared.set()
        node._asked_at = None
        (index,) = (await told(node))["indexes"]
    assert (index["database"], index["percent"], index["left"]) == ("environmental_data_point", 25, 3)


async def test_an_unreachable_server_is_shown_with_the_reason(tmp_path, own_port):
    async with node_of(tmp_path, f"http://127.0.0.1:{own_port}") as node:
        answer = await told(node)
    assert answer["reachable"] is False
    assert "Connection refused" in answer["reason"]
    assert "version" not in answer


async def test_only_the_first_answer_after_a_silence_is_an_arrival(tmp_path):
    is_silent, arrivals = False, 0

    async def answer(request):
        if is_silent and request.transport is not None:
            request.transport.abort()
        return web.json_response({"error": "not_found"}, status=404)

    def arrive():
        nonlocal arrivals
        arrivals += 1

    async def asked(database):
        with contextlib.suppress(CouchUnavailableError):
            await database.couch.exists("points")
        return arrivals

    async with serving_http(answer) as url, node_of(tmp_path, url) as node:
        database = node._database
        database.when_up(arrive)
        assert [await asked(database) for _ in range(2)] == [0, 0]
        is_silent = True
        assert [await asked(database) for _ in range(2)] == [0, 0]
        is_silent = False
        assert [await asked(database) for _ in range(2)] == [1, 1]


async def test_a_silent_server_delays_status_by_a_bounded_time(tmp_path, monkeypatch):
    monkeypatch.setattr(database_node, "_PATIENCE_S", 0.01)
    asked = 0
    never = asyncio.Event()

    async def hang(_):
        nonlocal asked
        asked += 1
        await never.wait()
        return web.Response()

    async with serving_http(hang) as url, node_of(tmp_path, url) as node:
        answers = await asyncio.gather(*(told(node) for _ in range(5)))
        never.set()
    assert {answer["reason"] for answer in answers} == {"it has not answered within 0.01 s"}
    assert asked <= 1  # the others take the same answer

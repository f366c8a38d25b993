"""`_replicate`: of the embedded server and of CouchDB alike, between the two, and through the front door."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiohttp
import pytest

from support.couch_client import Client, client_of
from support.gateway_server import gateway_to
from support.ports import held_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from support.database import DatabaseServer, EmbeddedProcess

DESIGN = {
    "filters": {"above": "function (doc, req) { return doc.n > Number(req.query.bound); }"},
    "validate_doc_update": "function (doc) { if (doc.n === 13) { throw({forbidden: 'unlucky'}); } }",
}


@pytest.fixture
async def copy(couch: Client) -> AsyncIterator[str]:
    """The path of a database that is not there yet."""
    path = f"/copy-{uuid4().hex}"
    yield path
    await couch("DELETE", path)


@pytest.fixture
async def numbers(couch: Client, database: str) -> str:
    """The path of a database of four documents: 0 to 3."""
    docs = [{"_id": f"d{n}", "n": n} for n in range(4)]
    assert (await couch("POST", f"{database}/_bulk_docs", {"docs": docs})).status == 201
    return database


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port of this machine that is taken but answers nothing."""
    with held_port() as port:
        yield port


def job(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"source": source.removeprefix("/"), "target": target.removeprefix("/"), **more}


async def replicate(couch: Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = await couch("POST", "/_replicate", body)
    assert answer.status == 200, answer.body
    assert answer.json["ok"] is True
    return dict(answer.json["history"][0])


async def ids(couch: Client, database: str) -> list[str]:
    return [row["id"] for row in (await couch("GET", f"{database}/_all_docs")).json["rows"]]


async def test_a_database_is_copied_once(couch: Client, numbers: str, copy: str) -> None:
    history = await replicate(couch, job(numbers, copy, create_target=True))
    assert (history["docs_read"], history["docs_written"], history["doc_write_failures"]) == (4, 4, 0)
    assert history["start_time"].endswith(" GMT")
    assert await ids(couch, copy) == ["d0", "d1", "d2", "d3"]
    assert (await couch("PUT", f"{numbers}/d4", {"n": 4})).status == 201
    again = (await couch("POST", "/_replicate", job(numbers, copy))).json
    assert again["ok"] is True
    assert again["source_last_seq"] == again["history"][0]["end_last_seq"]
    assert await ids(couch, copy) == ["d0", "d1", "d2", "d3", "d4"]


async def test_attachments_deletions_and_conflicts_come_along(
    couch: Client, database: str, copy: str
) -> None:
    text = {"Content-Type": "text/plain"}
    assert (await couch("PUT", f"{database}/doc/a.txt", b"hello", headers=text)).status == 201
    loser = {"_id": "doc", "_rev": f"1-{0:032}"}
    await couch("POST", f"{database}/_bulk_docs", {"docs": [loser], "new_edits": False})
    rev = (await couch("PUT", f"{database}/gone", {})).json["rev"]
    await couch("DELETE", f"{database}/gone", rev=rev)
    await replicate(couch, job(database, copy, create_target=True))
    assert (await couch("GET", f"{copy}/gone")).json["reason"] == "deleted"
    assert (await couch("GET", f"{copy}/doc/a.txt")).body == b"hello"
    original, other = [await couch("GET", f"{path}/doc", conflicts=True) for path in (database, copy)]
    assert other.json == original.json
    assert other.json["_conflicts"] == [loser["_rev"]]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"doc_ids": ["d1", "none"]}, ["d1"]),
        ({"selector": {"n": {"$lt": 2}}}, ["d0", "d1"]),
        ({"filter": "d/above", "query_params": {"bound": "2"}}, ["d3"]),
    ],
)
async def test_a_part_is_copied(
    couch: Client, numbers: str, copy: str, choice: dict[str, Any], expected: list[str]
) -> None:
    await couch("PUT", f"{numbers}/_design/d", DESIGN)
    await replicate(couch, job(numbers, copy, create_target=True, **choice))
    assert await ids(couch, copy) == expected


async def test_what_the_target_refuses_is_counted(couch: Client, numbers: str, copy: str) -> None:
    assert (await couch("PUT", f"{numbers}/d13", {"n": 13})).status == 201
    assert (await couch("PUT", copy)).status == 201
    assert (await couch("PUT", f"{copy}/_design/d", DESIGN)).status == 201
    history = await replicate(couch, job(numbers, copy))
    assert (history["docs_written"], history["doc_write_failures"]) == (4, 1)


async def test_a_continuous_one_goes_on_until_it_is_cancelled(couch: Client, numbers: str, copy: str) -> None:
    assert (await couch("PUT", copy)).status == 201
    body = job(numbers, copy, continuous=True)
    first, second = [await couch("POST", "/_replicate", body) for _ in range(2)]
    assert first.status == 202
    assert second.json == first.json == {"ok": True, "_local_id": first.json["_local_id"]}
    assert (await couch("PUT", f"{numbers}/later", {})).status == 201
    await until_there(couch, copy, "later")
    cancelled = await couch("POST", "/_replicate", body | {"cancel": True})
    assert (cancelled.status, cancelled.json) == (200, first.json)
    assert (await couch("POST", "/_replicate", body | {"cancel": True})).status == 404


async def until_there(couch: Client, database: str, name: str) -> None:
    async with couch.open("GET", f"{database}/_changes", feed="continuous", heartbeat=True) as response:
        async for line in response.content:
            if line.strip() and json.loads(line).get("id") == name:
                return


async def test_missing_databases_are_named(couch: Client, numbers: str, copy: str) -> None:
    for body in (job(numbers, copy), job(copy, numbers)):
        answer = await couch("POST", "/_replicate", body)
        assert answer.status in {404, 500}  # CouchDB's documentation has 404, its version 3.5 answers 500
        assert answer.json["error"] == "db_not_found"
        assert copy in answer.json["reason"]
    assert (await couch("GET", copy)).status == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"doc_ids": 5},
        {"selector": 5},
        {"continuous": "yes"},
        {"doc_ids": [], "filter": "d/above"},
    ],
)
async def test_a_request_that_makes_no_sense(couch: Client, database: str, wrong: dict[str, Any]) -> None:
    answer = await couch("POST", "/_replicate", job(database, database) | wrong)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"source": "a"},
        {"source": 5, "target": "a"},
        {"source": {"url": None}, "target": "a"},
        {"source": "", "target": "a"},
        {"source": "ftp://host/a", "target": "a"},
        {"source": "http://", "target": "a"},
        {"source": {"url": "a", "headers": {"X": 5}}, "target": "a"},
        {"source": {"url": "a", "auth": {"basic": {"username": "u"}}}, "target": "a"},
        {"source": "a", "target": "b", "filter": 5},
        {"source": "a", "target": "b", "create_target": 1},
    ],
)
async def test_the_embedded_server_says_what_is_wrong(node: Client, body: object) -> None:
    answer = await node("POST", "/_replicate", body)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert " must be " in answer.json["reason"]


async def test_a_host_that_does_not_answer_is_said(node: Client, store: str, deaf_port: int) -> None:
    body = job(store, f"http://name:secret@127.0.0.1:{deaf_port}/other")
    answer = await node("POST", "/_replicate", body)
    assert answer.status == 500
    assert str(deaf_port) in answer.json["reason"]
    assert "secret" not in answer.json["reason"]


async def test_a_continuous_one_waits_for_a_host_that_does_not_answer(
    node: Client, store: str, deaf_port: int
) -> None:
    body = job(store, f"http://name:secret@127.0.0.1:{deaf_port}/other", continuous=True)
    started = await node("POST", "/_replicate", body)
    assert started.status == 202
    name = started.json["_local_id"]

    async def tasks() -> list[dict[str, Any]]:
        listed = (await node("GET", "/_active_tasks")).json
        return [task for task in listed if task["replication_id"] == name]

    (task,) = await tasks()
    assert task["type"] == "replication"
    assert "secret" not in json.dumps(task)
    assert (await node("POST", "/_replicate", {"replication_id": name, "cancel": True})).status == 200
    assert await tasks() == []


async def test_continuous_ones_end_with_the_server(own_server: EmbeddedProcess) -> None:
    async with client_of(own_server.url) as node:
        await node("PUT", "/a")
        await node("PUT", "/a/first", {})
        body = job("a", "b", create_target=True, continuous=True)
        assert (await node("POST", "/_replicate", body)).status == 202
        await until_there(node, "/b", "first")
        own_server.process.terminate()
        assert await asyncio.to_thread(own_server.process.wait) == 0
    assert own_server.log.read_text() == ""


@pytest.mark.parametrize("way", ["address", "auth", "headers"])
async def test_between_the_embedded_server_and_the_other(
    node: Client,
    couch: Client,
    *,
    database_server: DatabaseServer,
    numbers: str,
    store: str,
    copy: str,
    way: str,
) -> None:
    """The other is the CouchDB that is tested against, else the embedded server itself."""
    assert await replicate(node, {"source": end(database_server, numbers, way), "target": store[1:]})
    assert await ids(node, store) == ["d0", "d1", "d2", "d3"]
    body = {"source": store[1:], "target": end(database_server, copy, way), "create_target": True}
    assert (await replicate(node, body))["docs_written"] == 4
    assert await ids(couch, copy) == ["d0", "d1", "d2", "d3"]
    if database_server.auth is not None:
        open_end = {"source": store[1:], "target": database_server.url + copy}
        assert (await node("POST", "/_replicate", open_end)).status == 401


def end(server: DatabaseServer, path: str, way: str) -> Any:
    """A database as source or target, with the server's credentials in one of three ways."""
    name, password = server.auth or ("anybody", "anything")
    if way == "address":
        return server.url.replace("://", f"://{name}:{password}@") + path
    if way == "auth":
        return {"url": server.url + path, "auth": {"basic": {"username": name, "password": password}}}
    login = aiohttp.encode_basic_auth(name, password)
    return {"url": server.url + path, "headers": {"Authorization": login}}


async def test_through_the_front_door(node: Client, embedded: str, store: str) -> None:
    for n in range(3):
        assert (await node("PUT", f"{store}/d{n}", {"n": n})).status == 201
    name = f"copy-{uuid4().hex}"
    async with gateway_to(embedded) as port, client_of(f"http://127.0.0.1:{port}") as door:
        body = job(door.url + store, f"{door.url}/{name}", create_target=True)
        assert (await replicate(door, body))["docs_written"] == 3
        assert (await door("DELETE", f"/{name}")).status == 200


@pytest.mark.parametrize(
    "name", ["_replicator", "http://127.0.0.1:1/_replicator", "http://far/%5Freplicator//"]
)
async def test_the_embedded_server_copies_no_documents_that_hold_passwords(node: Client, name: str) -> None:
    for ends in ({"source": name, "target": "copy"}, {"source": "copy", "target": {"url": name}}):
        answer = await node("POST", "/_replicate", ends)
        assert (answer.status, answer.json["error"]) == (403, "forbidden")

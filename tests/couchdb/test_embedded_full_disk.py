"""The embedded server on a full disk, simulated by a limit on the size of its files."""

import asyncio
import contextlib
import resource

import aiohttp
import pytest

from support.couch_client import client_of
from support.database import embedded_server

DESIGN = {"views": {"by_text": {"map": "function (doc) { emit(doc.text, null); }"}}}
VIEW = ("GET", "/db/_design/all/_view/by_text")
FIND = ("POST", "/db/_find", {"selector": {"text": {"$gt": None}}, "limit": 1000})


def limit_files(server, room):
    """Limit the files of the server to the log of the database `db` and `room` bytes."""
    size = max(path.stat().st_size for path in server.data.glob("db/*.log"))
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + room, hard))


def end_limit(server):
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


async def acknowledged_of(node, ids):
    """The documents of `ids` whose writes the server acknowledges."""
    found = set()
    for doc in ids:
        with contextlib.suppress(aiohttp.ClientError):
            if (await node("PUT", f"/db/{doc}", {"text": "x" * 200})).status == 201:
                found.add(doc)
    return found


async def test_acknowledged_writes_are_stored_after_failed_ones_and_a_database_that_could_not_be_opened(
    own_server, tmp_path
):
    async with client_of(own_server.url) as node:
        await node("PUT", "/db")
        before = await acknowledged_of(node, [f"before-{n}" for n in range(5)])
        limit_files(own_server, 100)  # the next record of the log is torn
        assert not await acknowledged_of(node, ["during-1", "during-2"])
        assert (await node("GET", "/db")).json["doc_count"] == len(before) == 5
        end_limit(own_server)
        after = await acknowledged_of(node, [f"after-{n}" for n in range(5)])
    own_server.process.kill()
    status = await asyncio.to_thread(own_server.process.wait)
    assert status == 1  # it ended by itself, to open the database again
    with embedded_server(tmp_path) as full:
        async with client_of(full.url) as node:
            _, hard = resource.prlimit(full.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(full.process.pid, resource.RLIMIT_FSIZE, (100, hard))
            for _ in range(2):
                assert (await node("GET", "/db")).status == 500
            end_limit(full)
            with contextlib.suppress(aiohttp.ClientError):
                await node("GET", "/db")
        assert await asyncio.to_thread(full.process.wait, 60) == 1
    with embedded_server(tmp_path) as again:
        async with client_of(again.url) as node:
            after |= await acknowledged_of(node, ["again"])
            rows = (await node("GET", "/db/_all_docs")).json["rows"]
    assert {row["id"] for row in rows} >= before | after >= {"again"}


@pytest.mark.parametrize("room", [0, 70])  # it can not be opened, or not be written
async def test_a_database_that_cannot_be_made_is_refused_and_nothing_of_it_is_left(own_server, room):
    async with client_of(own_server.url) as node:
        _, hard = resource.prlimit(own_server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(own_server.process.pid, resource.RLIMIT_FSIZE, (room, hard))
        for _ in range(2):
            answer = await node("PUT", "/db")
            assert (answer.status, answer.json["error"]) == (500, "write_failed")
            assert "File too large" in answer.json["reason"]
            assert (await node("GET", "/db")).status == 404
        assert not [*own_server.data.glob("db*")]
        end_limit(own_server)
        assert (await node("PUT", "/db")).status == 201
        assert (await node("PUT", "/db")).status == 412
        assert (await node("PUT", "/db/doc", {})).status == 201
    assert own_server.process.poll() is None


@pytest.mark.long
@pytest.mark.parametrize(("question", "name"), [(VIEW, "rows"), (FIND, "docs")])
async def test_an_index_that_cannot_be_written_answers_with_an_error_and_later_with_all_rows(
    own_server, tmp_path, question, name
):
    async with client_of(own_server.url, own_server.owner) as node:
        await node("PUT", "/db")
        await node("PUT", "/db/_design/all", DESIGN)
        await node("POST", "/db/_index", {"index": {"fields": ["text"]}})
        docs = [{"_id": str(n), "text": f"{n:1000}"} for n in range(200)]
        assert (await node("POST", "/db/_bulk_docs", {"docs": docs})).status == 201
        limit_files(own_server, 10_000)
        for _ in range(2):
            answer = await node(*question)
            assert (answer.status, answer.json["error"]) == (500, "write_failed")
        end_limit(own_server)
        with contextlib.suppress(aiohttp.ClientError):
            await node(*question)
    assert await asyncio.to_thread(own_server.process.wait) == 1
    assert "Warning" not in own_server.log.read_text()
    with embedded_server(tmp_path) as again:
        async with client_of(again.url) as node:
            assert len((await node(*question)).json[name]) == 200

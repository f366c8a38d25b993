"""`_changes` of the embedded server in all its feeds."""

import asyncio
import json

import pytest

from support.couch_client import client_of
from support.rows import each
from support.waiting import PATIENCE_S

DESIGN = {
    "views": {"even": {"map": "function (doc) { if (doc.n % 2 === 0) { emit(doc.n); } }"}},
    "filters": {
        "above": "function (doc, req) { return doc.n > Number(req.query.bound); }",
        "slow": "function () { var end = Date.now() + 2; while (Date.now() < end) {} return false; }",
    },
}


async def write(node, database, *numbers):
    docs = [{"_id": f"d{n}", "n": n} for n in numbers]
    assert (await node("POST", f"{database}/_bulk_docs", {"docs": docs})).status == 201


def ids(results):
    return [row["id"] for row in results]


@pytest.fixture
async def feed(node, store):
    await node("PUT", f"{store}/_design/d", DESIGN)
    await write(node, store, *range(4))
    return f"{store}/_changes"


async def test_the_normal_feed_since_a_sequence(node, feed):
    first = (await node("GET", feed, limit=3)).json
    assert ids(first["results"]) == ["_design/d", "d0", "d1"]
    assert (first["last_seq"], first["pending"]) == (3, 2)
    rest = (await node("GET", feed, since=first["last_seq"], include_docs=True)).json
    assert [row["doc"]["n"] for row in rest["results"]] == [2, 3]
    assert (rest["last_seq"], rest["pending"]) == (5, 0)


@each(
    ("query", "expected"),
    [
        ({"since": "now"}, []),
        ({"descending": True, "limit": 2}, ["d3", "d2"]),
        ({"filter": "_doc_ids", "doc_ids": ["d2"]}, ["d2"]),
        ({"feed": "longpoll", "since": 3}, ["d2", "d3"]),  # it does not wait
    ],
)
async def test_feeds_that_end_at_once(node, feed, query, expected):
    assert ids((await node("GET", feed, **query)).json["results"]) == expected


async def test_a_long_feed_arrives_whole(node, store):
    await write(node, store, *range(450))  # several pieces
    results = (await node("GET", f"{store}/_changes")).json["results"]
    assert ids(results) == [f"d{n}" for n in range(450)]


@each(
    ("query", "body", "expected"),
    [
        ({"filter": "_selector"}, {"selector": {"n": {"$gt": 1}}}, ["d2", "d3"]),
        ({"filter": "_doc_ids"}, {"doc_ids": ["d1", "d3", "none"]}, ["d1", "d3"]),
        ({"filter": "_design"}, {}, ["_design/d"]),
        ({"filter": "_view", "view": "d/even"}, {}, ["d0", "d2"]),
        ({"filter": "d/above", "bound": "2"}, {}, ["d3"]),
    ],
)
async def test_filters(node, feed, query, body, expected):
    assert ids((await node("POST", feed, body, **query)).json["results"]) == expected


async def test_long_polling_waits_for_the_next_change(node, store, feed):
    async with node.open("GET", feed, feed="longpoll", since="now", heartbeat=True) as response:
        assert await response.content.readline() == b'{"results":[\n'  # it waits
        await write(node, store, 9)
        rest = json.loads(b'{"results":[' + await response.read())
    assert ids(rest["results"]) == ["d9"]
    assert rest["last_seq"] == 6


async def test_long_polling_ignores_changes_that_its_filter_leaves_out(node, store, feed):
    async with node.open("GET", feed, feed="longpoll", since="now", filter="d/above", bound="8") as response:
        await write(node, store, 7)
        await write(node, store, 9)
        assert ids(json.loads(await response.read())["results"]) == ["d9"]


async def test_long_polling_ends_with_its_timeout(node, feed):
    answer = (await node("GET", feed, feed="longpoll", since="now", timeout=1)).json
    assert answer == {"results": [], "last_seq": 5, "pending": 0}


async def test_the_continuous_feed_misses_no_write(node, store):
    """Some writes come while the feed has read all changes and is about to sleep."""
    async with node.open("GET", f"{store}/_changes", feed="continuous", heartbeat=True) as response:
        for first in range(0, 200, 5):
            numbers = range(first, first + 5)
            await asyncio.gather(*(write(node, store, number) for number in numbers))
            async with asyncio.timeout(PATIENCE_S):
                lines = [await response.content.readline() for _ in numbers]
            assert {json.loads(line)["id"] for line in lines} == {f"d{number}" for number in numbers}


async def test_the_continuous_feed_ends_with_its_limit_and_its_timeout(node, feed):
    limited = (await node("GET", feed, feed="continuous", limit=2)).body.splitlines()
    assert [json.loads(line).get("id") for line in limited] == ["_design/d", "d0", None]
    timed = (await node("GET", feed, feed="continuous", since="now", timeout=1)).body
    assert json.loads(timed) == {"last_seq": 5, "pending": 0}


async def test_heartbeats_come_while_a_filter_passes_nothing(node, store, feed):
    await write(node, store, *range(10, 110))
    async with node.open("GET", feed, filter="d/slow", heartbeat=1) as response:
        head = [await response.content.readline() for _ in range(3)]
    assert head == [b'{"results":[\n', b"\n", b"\n"]


async def test_a_heartbeat_is_an_empty_line(node, feed):
    async with node.open("GET", feed, feed="continuous", since="now", heartbeat=1) as response:
        assert await response.content.readline() == b"\n"


async def test_events(node, feed):
    async with node.open("GET", feed, feed="eventsource", since=4) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        data = await response.content.readline()
        assert json.loads(data.removeprefix(b"data: "))["id"] == "d3"
        assert await response.content.readline() == b"id: 5\n"


async def test_deleting_the_database_ends_its_feeds(node, store, feed):
    async with node.open("GET", feed, feed="continuous", since="now", heartbeat=True) as response:
        await node("DELETE", store)
        assert await response.content.readline() in {b'{"last_seq":5,"pending":0}\n', b""}


async def test_a_feed_that_is_being_read_ends_whole_with_its_database(node, store):
    docs = [{"_id": f"d{n}", "text": "x" * 10_000} for n in range(1_000)]  # more than the connection holds
    await node("POST", f"{store}/_bulk_docs", {"docs": docs})
    async with node.open("GET", f"{store}/_changes", feed="continuous", include_docs=True) as response:
        await response.content.readline()
        await node("DELETE", store)
        *_, last = (await response.read()).splitlines()
    assert json.loads(last)["last_seq"] < 1_000


async def test_a_feed_ends_when_its_client_disconnects(own_server):
    async with client_of(own_server.url) as node:
        await node("PUT", "/db")
        for _ in range(30):
            async with node.open("GET", "/db/_changes", feed="continuous", heartbeat=True) as response:
                assert response.status == 200
        # a remaining feed would write this change; the log would warn of leaked listeners
        async with asyncio.TaskGroup() as group:
            for n in range(30):
                group.create_task(write(node, "/db", n), name=f"write {n}")
        assert (await node("GET", "/db")).json["doc_count"] == 30
    assert own_server.log.read_text() == ""

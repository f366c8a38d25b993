"""What CouchDB's replicator asks of the embedded database: from it and into it, once and continuously."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from support.couch_client import Client, client_of
from support.database import embedded_server
from support.gateway_server import gateway_to
from support.replicator import CheckpointError, End, ScriptedReplicator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from support.database import DatabaseServer

    Attachments = dict[str, dict[str, str]]

BYTES = bytes(range(256)) * 40 + b"\r\n--\r\n"
TEXT = b"growth " * 100  # CouchDB compresses attachments of text
ODD = {'q"\r\nuote': {"content_type": 'text/x;a="\r\n\r\n', "data": "eHg="}}
"""An attachment whose name and type would end a header."""
PLAIN_ODD = {"q uote": {"content_type": 'text/x;a="b"', "data": "eHg="}}
DIRECTIONS = pytest.mark.parametrize("direction", ["from", "into"])


@pytest.fixture
async def far(couch: Client) -> AsyncIterator[End]:
    """The other end: a database of the server that tests run against, a CouchDB if there is one."""
    path = f"/far-{uuid4().hex}"
    assert (await couch("PUT", path)).status == 201
    yield End(couch, path)
    await couch("DELETE", path)


@pytest.fixture
def odd(database_server: DatabaseServer) -> Attachments:
    """CouchDB 3.5 lets names and types end a header, so it gets plain ones."""
    return ODD if database_server.is_embedded else PLAIN_ODD


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Client]:
    """An embedded server on `folder`, which is killed at the end."""
    with embedded_server(folder) as process:
        async with client_of(process.url) as client:
            yield client


def replicator(own: End, far: End, direction: str, **more: Any) -> ScriptedReplicator:
    return (
        ScriptedReplicator(own, far, **more) if direction == "from" else ScriptedReplicator(far, own, **more)
    )


async def put(end: End, name: str, n: int = 0) -> None:
    assert (await end("PUT", name, {"n": n})).status == 201


async def put_all_kinds(end: End, odd: Attachments) -> None:
    """Documents with one and two attachments, a changed one, a deleted one, a conflict, a design document."""
    for name, kind, content in (("a", "image/png", BYTES), ("b", "text/plain", TEXT)):
        assert (await end("PUT", f"{name}/1", content, headers={"Content-Type": kind})).status == 201
    rev = (await end("GET", "b")).json["_rev"]
    assert (await end("PUT", f"b/2?rev={rev}", b"", headers={"Content-Type": "text/x"})).status == 201
    assert (await end("PUT", "odd", {"_attachments": odd})).status == 201
    await put(end, "c")
    rev = (await end("GET", "c")).json["_rev"]
    assert (await end("PUT", "c", {"_rev": rev, "n": 1})).status == 201
    await put(end, "gone")
    rev = (await end("GET", "gone")).json["_rev"]
    assert (await end("DELETE", f"gone?rev={rev}")).status == 200
    loser = {"_id": "c", "_rev": f"1-{0:032}"}
    assert (await end("POST", "_bulk_docs", {"docs": [loser], "new_edits": False})).json == []
    assert (await end("PUT", "_design/d", {"language": "javascript"})).status == 201


async def content(end: End) -> list[Any]:
    """All documents with revisions, conflicts and attachments."""
    rows = (await end("GET", "_all_docs", include_docs=True, conflicts=True)).json["rows"]
    docs = [row["doc"] for row in rows]
    files = [[doc["_id"], name] for doc in docs for name in sorted(doc.get("_attachments", {}))]
    bodies = [(await end("GET", f"{name}/{quote(file)}")).body for name, file in files]
    gone = (await end("GET", "gone")).json["reason"]
    return [[{**doc, "_attachments": None} for doc in docs], files, bodies, gone]


@DIRECTIONS
async def test_a_copy_is_complete_and_a_second_begins_at_the_checkpoint(
    node: Client, store: str, far: End, odd: Attachments, direction: str
) -> None:
    job = replicator(End(node, store), far, direction)
    await put_all_kinds(job.source, odd)
    await job.start()
    assert await job.copy() > 0
    assert await content(job.target) == await content(job.source)
    end = job.since
    await job.start()
    assert (job.since, await job.copy()) == (end, 0)


@DIRECTIONS
async def test_documents_are_chosen_and_pass_the_front_door(
    embedded: str, store: str, far: End, odd: Attachments, direction: str
) -> None:
    async with gateway_to(embedded) as port, client_of(f"http://127.0.0.1:{port}") as door:
        job = replicator(End(door, store), far, direction, selector={"_id": {"$gt": "_design0"}})
        await put_all_kinds(job.source, odd)
        await job.start()
        await job.copy()
        rows = (await job.target("GET", "_all_docs")).json["rows"]
        assert [row["id"] for row in rows] == ["a", "b", "c", "odd"]


@pytest.mark.long
@DIRECTIONS
async def test_a_running_replication_goes_on_after_a_kill_of_the_embedded_database(
    tmp_path: Path, far: End, direction: str
) -> None:
    async with AsyncExitStack() as first:
        own = End(await first.enter_async_context(running(tmp_path)), "/own")
        assert (await own.client("PUT", own.path)).status == 201
        job = replicator(own, far, direction)
        await put(job.source, "before")
        await job.start()
        async with job.follow() as feed:
            assert await job.copy_next(feed) == 1
    async with running(tmp_path) as own.client:
        await put(job.source, "after")
        async with job.follow() as feed:
            assert await job.copy_next(feed) == 1
            await put(job.source, "later")
            assert await job.copy_next(feed) == 1
        end = job.since
        await job.start()
        assert job.since == end
        rows = (await job.target("GET", "_all_docs")).json["rows"]
        assert {row["id"] for row in rows} == {"before", "after", "later"}


@DIRECTIONS
async def test_a_database_that_was_deleted_and_made_again_is_noticed(
    node: Client, store: str, far: End, direction: str
) -> None:
    job = replicator(End(node, store), far, direction)
    await put(job.source, "doc")
    await job.start()
    for method in ("DELETE", "PUT"):
        assert (await node(method, store)).status in {200, 201}
    await put(job.source, "other")
    with pytest.raises(CheckpointError):
        await job.copy()


async def test_a_revision_that_is_missing_is_named(node: Client, store: str) -> None:
    end = End(node, store)
    await put(end, "doc")
    answer = await end("GET", "doc", open_revs=["5-5"], headers={"Accept": "multipart/mixed"})
    assert b'Content-Type: application/json; error="true"\r\n\r\n{"missing":"5-5"}' in answer.body

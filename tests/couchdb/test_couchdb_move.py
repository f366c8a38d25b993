"""Apache CouchDB replicates the embedded database: the move of docs/couchdb.md, and continuously."""

import asyncio
import json
import os
import re
from uuid import uuid4

import pytest

from support.checkout import ROOT
from support.couch_client import COUCHDB_ADDRESS, client_of
from support.database import named_server
from support.waiting import until_found

pytestmark = [
    pytest.mark.skipif(COUCHDB_ADDRESS not in os.environ, reason="GROWD_TEST_COUCHDB names no CouchDB"),
    pytest.mark.replication,
]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
DIRECTIONS = pytest.mark.parametrize("is_back", [False, True], ids=["to_couchdb", "back"])


@pytest.fixture
async def real():
    server = named_server(os.environ[COUCHDB_ADDRESS])
    async with client_of(server.url, server.auth) as client:
        yield client


@pytest.fixture
async def name(node, real):
    """The beginning of the names of databases, which are deleted at both ends."""
    prefix = f"test-{uuid4().hex}-"
    yield prefix
    for client in (node, real):
        for database in (await client("GET", "/_all_dbs")).json:
            if database.startswith(prefix):
                await client("DELETE", f"/{database}")


async def fill(client, database):
    """Three documents, one of them with a photo, and a design document."""
    assert (await client("PUT", database)).status == 201
    docs = [{"_id": "a", "n": 1}, {"_id": "b", "n": 2}, {"_id": "_design/own"}]
    assert (await client("POST", f"{database}/_bulk_docs", {"docs": docs})).status == 201
    headers = {"Content-Type": "image/png"}
    assert (await client("PUT", f"{database}/photo/1", PNG, headers=headers)).status == 201


async def has(client, database, *ids):
    rows = (await client("GET", f"{database}/_all_docs")).json.get("rows", [])
    return [row["id"] for row in rows] == [*ids]


def documented_move(name, embedded, *, is_back):
    """The commands of docs/couchdb.md for two databases with other names, and these names."""
    text = (ROOT / "docs/couchdb.md").read_text()
    (block,) = [each for each in re.findall(r"(?s)```sh\n(.*?)```", text) if "_replicate" in each]
    server = named_server(os.environ[COUCHDB_ADDRESS])
    login, host = ":".join(server.auth or ()), server.url.removeprefix("http://")
    block = re.sub(r"(?m)^login=.*$", f"login={login}", block)
    block = block.replace("http://127.0.0.1:5999", embedded).replace("127.0.0.1:5985", host)
    (names,) = re.findall(r"for name in (.*); do", block)
    databases = [name + each for each in names.split()[:2]]
    block = block.replace(names, " ".join(databases))
    return re.sub("old=(.*) new=", "new=\\1 old=", block) if is_back else block, databases


async def run(commands):
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", commands, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]


@DIRECTIONS
async def test_the_documented_move_copies_everything_once(node, real, embedded, name, *, is_back):
    commands, databases = documented_move(name, embedded, is_back=is_back)
    source, target = (real, node) if is_back else (node, real)
    for database in databases:
        await fill(source, f"/{database}")
    answers = await run(commands)
    assert [(answer["ok"], answer["history"][0]["docs_written"]) for answer in answers] == [(True, 3)] * 2
    for database in databases:
        assert await has(target, f"/{database}", "a", "b", "photo")
        assert (await target("GET", f"/{database}/photo/1")).body == PNG
    await source("PUT", f"/{databases[0]}/later", {})
    changed, unchanged = await run(commands)
    assert changed["history"][0]["start_last_seq"] == answers[0]["source_last_seq"]
    assert unchanged["no_changes"]


@DIRECTIONS
async def test_it_replicates_continuously_and_writes_checkpoints(node, real, name, *, is_back):
    source, target = (real, node) if is_back else (node, real)
    server = named_server(os.environ[COUCHDB_ADDRESS])
    inside = server.url.replace("://", f"://{':'.join(server.auth or ())}@")
    here, there = f"/{name}here", f"/{name}there"
    await fill(source, here)
    await real("PUT", "/_replicator")
    job = {
        "source": (inside if is_back else node.url) + here,
        "target": (node.url if is_back else inside) + there,
        "create_target": True, "continuous": True, "checkpoint_interval": 1_000,
    }  # fmt: skip
    path = f"/_replicator/{name}job"
    rev = (await real("PUT", path, job)).json["rev"]

    async def checkpoint():
        """The position, once all that was written is behind it."""
        seen = (await real("GET", f"/_scheduler/docs{path}")).json
        assert seen.get("error_count", 0) == 0, seen
        return (seen.get("info") or {}).get("checkpointed_source_seq")

    async def is_behind():
        newest = (await source("GET", here)).json["update_seq"]
        return str(await checkpoint()).partition("-")[0] == str(newest).partition("-")[0]

    try:
        await until_found(is_behind)
        assert await has(target, there, "_design/own", "a", "b", "photo")
        await source("PUT", f"{here}/later", {})
        await until_found(is_behind)
        assert await has(target, there, "_design/own", "a", "b", "later", "photo")
    finally:
        await real("DELETE", path, rev=rev)

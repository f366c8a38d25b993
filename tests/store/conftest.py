"""A database client before a server that answers by a script, and databases and files of a test's own."""

import secrets

import aiohttp
import pytest
from faulty_server import FaultyServer

from growd.store.bootstrap import Databases
from growd.store.local import LocalStore
from support.clock import ManualClock
from support.couch_client import client_of
from support.outbox import opened
from support.rollups import rollup_bench


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def server():
    async with FaultyServer() as server:
        yield server


@pytest.fixture
async def client(database_server):
    async with client_of(database_server.url, database_server.auth) as client:
        yield client


@pytest.fixture
async def names(client):
    """Names that no other test uses; their databases are deleted at the end."""
    names = Databases.prefixed(f"store_{secrets.token_hex(6)}_")
    yield names
    for name in names.names_by_folder().values():
        await client("DELETE", f"/{name}")


@pytest.fixture
async def ordered(client, names):
    """The same, with a database of points: only one with one shard has an order of all documents."""
    assert (await client("PUT", f"/{names.points}", q=1)).status in {201, 202}
    return names


@pytest.fixture
def path(tmp_path):
    return tmp_path / "growd.sqlite3"


@pytest.fixture
async def local(path):
    store = await LocalStore.open(path)
    yield store
    await store.close()


@pytest.fixture
async def outbox(local):
    async with opened(local, ManualClock()) as outbox:
        yield outbox


@pytest.fixture
async def bench(database_server):
    async with rollup_bench(database_server) as bench:
        yield bench

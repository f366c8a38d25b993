"""A database client before a server that answers by a script, and databases of a test's own."""

import secrets

import aiohttp
import pytest
from faulty_server import FaultyServer

from growd.store.bootstrap import Databases
from support.couch_client import client_of


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

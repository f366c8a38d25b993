"""A client of the database server, and a fresh database for each test."""

from uuid import uuid4

import pytest

from support.couch_client import client_of
from support.database import embedded_server


@pytest.fixture
async def couch(database_server):
    """The server that the tests of design documents run against, embedded or not."""
    async with client_of(database_server.url, database_server.auth) as client:
        yield client


@pytest.fixture
async def database(couch):
    """The path of a new database."""
    path = f"/test-{uuid4().hex}"
    assert (await couch("PUT", path)).status == 201
    yield path
    assert (await couch("DELETE", path)).status == 200


@pytest.fixture(scope="session")
def embedded(tmp_path_factory, database_server):
    """The address of an embedded server, also when the other tests run against a CouchDB."""
    if database_server.is_embedded:
        yield database_server.url
        return
    with embedded_server(tmp_path_factory.mktemp("embedded")) as process:
        yield process.url


@pytest.fixture
async def node(embedded):
    """A client of the embedded server."""
    async with client_of(embedded) as client:
        yield client


@pytest.fixture
async def store(node):
    """The path of a new database of the embedded server."""
    path = f"/test-{uuid4().hex}"
    assert (await node("PUT", path)).status == 201
    yield path
    await node("DELETE", path)


@pytest.fixture
def own_server(tmp_path):
    """An embedded server for one test alone, which may kill it."""
    with embedded_server(tmp_path) as process:
        yield process

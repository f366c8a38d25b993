"""A client of the database server, and a fresh database for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from support.couch_client import Client, client_of
from support.database import DatabaseServer, EmbeddedProcess, embedded_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture
async def couch(database_server: DatabaseServer) -> AsyncIterator[Client]:
    """The server that the tests of design documents run against, embedded or not."""
    async with client_of(database_server.url, database_server.auth) as client:
        yield client


@pytest.fixture
async def database(couch: Client) -> AsyncIterator[str]:
    """The path of a new database."""
    path = f"/test-{uuid4().hex}"
    assert (await couch("PUT", path)).status == 201
    yield path
    assert (await couch("DELETE", path)).status == 200


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory, database_server: DatabaseServer) -> Iterator[str]:
    """The address of an embedded server, also when the other tests run against a CouchDB."""
    if database_server.is_embedded:
        yield database_server.url
        return
    with embedded_server(tmp_path_factory.mktemp("embedded")) as process:
        yield process.url


@pytest.fixture
async def node(embedded: str) -> AsyncIterator[Client]:
    """A client of the embedded server."""
    async with client_of(embedded) as client:
        yield client


@pytest.fixture
async def store(node: Client) -> AsyncIterator[str]:
    """The path of a new database of the embedded server."""
    path = f"/test-{uuid4().hex}"
    assert (await node("PUT", path)).status == 201
    yield path
    await node("DELETE", path)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedProcess]:
    """An embedded server for one test alone, which may kill it."""
    with embedded_server(tmp_path) as process:
        yield process

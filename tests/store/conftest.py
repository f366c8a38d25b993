"""A server that answers by a script, and databases and files of a test's own."""

import aiohttp
import pytest
from faulty_server import FaultyServer

from growd.store.local import LocalStore
from support.clock import ManualClock
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

"""A database client before a server that answers by a script."""

import aiohttp
import pytest
from faulty_server import FaultyServer


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def server():
    async with FaultyServer() as server:
        yield server

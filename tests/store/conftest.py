"""A database client before a server that answers by a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from faulty_server import FaultyServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    async with FaultyServer() as server:
        yield server

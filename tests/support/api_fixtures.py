"""What the tests of the API share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from support.daemon import Daemon, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def daemon() -> AsyncIterator[Daemon]:
    async with serving() as running:
        yield running

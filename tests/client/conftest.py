from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.daemon import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.daemon import Daemon


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    async with serving() as daemon:
        yield daemon

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cloud import Cloud, running_cloud

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    """A receiver in front of a real CouchDB."""
    async with running_cloud() as running:
        yield running

"""Databases with runs, and the archive that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from growd_analysis.runs.archive import RunArchive
from support.daemon import serving
from support.history import stored_past

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.daemon import Daemon
    from support.database import DatabaseServer
    from support.history import StoredPast


@pytest.fixture
async def stored(database_server: DatabaseServer) -> AsyncIterator[StoredPast]:
    async with stored_past(database_server) as stored:
        yield stored


@pytest.fixture
def archive(stored: StoredPast) -> RunArchive:
    return RunArchive(stored.couch, stored.names, "svc", lambda _: ("air_temperature",))


@pytest.fixture
async def daemon(stored: StoredPast, archive: RunArchive) -> AsyncIterator[Daemon]:
    async with serving(history=stored.history, runs=archive) as daemon:
        yield daemon

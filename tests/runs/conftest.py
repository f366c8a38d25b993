"""Databases with runs, and the archive that reads them."""

import pytest

from growd_analysis.runs.archive import RunArchive
from support.daemon import serving
from support.history import stored_past


@pytest.fixture
async def stored(database_server):
    async with stored_past(database_server) as stored:
        yield stored


@pytest.fixture
def archive(stored):
    return RunArchive(stored.couch, stored.names, "svc", lambda _: ("air_temperature",))


@pytest.fixture
async def daemon(stored, archive):
    async with serving(history=stored.history, runs=archive) as daemon:
        yield daemon
